//! The verbs scan, count and families.

use crate::place::Place;
use serde_json::json;
use std::process::{Command, Stdio};

fn filled() -> Place {
    let place = Place::new();
    let lines: String =
        ["a", "b", "b1", "b2", "c"].map(|key| format!("put {key} {key}!\n")).concat();
    place.run_with(&["batch", "db", "-"], lines.as_bytes(), 0);
    place
}

#[test]
fn scans_take_bounds_and_directions() {
    let place = filled();
    let keys = |more: &[&str]| {
        let mut arguments = vec!["scan", "db", "--keys-only"];
        arguments.extend(more);
        place.ok(&arguments).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(&[]), "a b b1 b2 c");
    assert_eq!(keys(&["--reverse"]), "c b2 b1 b a");
    assert_eq!(keys(&["--prefix", "b"]), "b b1 b2");
    assert_eq!(keys(&["--from", "b1"]), "b1 b2 c");
    assert_eq!(keys(&["--to", "b1"]), "a b");
    assert_eq!(keys(&["--prefix", "b", "--from", "b1", "--to", "b2"]), "b1");
    assert_eq!(keys(&["--reverse", "--limit", "2", "--to", "c"]), "b2 b1");
    assert_eq!(keys(&["--limit", "0"]), "");
    assert_eq!(keys(&["--from", "c", "--to", "a"]), "");
    assert_eq!(keys(&["--from", "b", "--to", "b"]), "");
    assert_eq!(keys(&["--hex", "--from", "6231", "--limit", "1"]), "6231");
    assert_eq!(place.ok(&["scan", "db", "--limit", "1"]), "a\ta!\n");
    let run = place.run(&["scan", "db", "--json", "--keys-only", "--limit", "1"], 0);
    assert_eq!(run.json(), [json!({ "key": "a" })]);
}

#[test]
fn counts_take_the_same_bounds() {
    let place = filled();
    assert_eq!(place.ok(&["count", "db"]), "5\n");
    assert_eq!(place.ok(&["count", "db", "--prefix", "b"]), "3\n");
    assert_eq!(place.ok(&["count", "db", "--from", "c", "--to", "a"]), "0\n");
    let run = place.run(&["count", "db", "--json", "--from", "b"], 0);
    assert_eq!(run.json(), [json!({ "count": 4 })]);
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = Place::new();
    let lines: String = (0..20_000).map(|n| format!("key{n}\t{}\n", "v".repeat(50))).collect();
    place.run_with(&["import", "db", "-", "--format", "lines"], lines.as_bytes(), 0);
    for arguments in [&["scan", "db"][..], &["export", "db", "--format", "csv"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_silt"))
            .current_dir(place.path(""))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_behind_stdout_is_a_failure() {
    let place = filled();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_silt"));
    let output = command.current_dir(place.path("")).args(["scan", "db"]).stdout(full).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write to stdout"));
}

#[test]
fn families_are_apart() {
    let place = filled();
    assert_eq!(place.ok(&["families", "db"]), "default\n");
    place.ok(&["families", "create", "db", "users"]);
    place.ok(&["put", "db", "a", "in users", "--family", "users"]);
    assert_eq!(place.ok(&["get", "db", "a"]), "a!\n");
    assert_eq!(place.ok(&["get", "db", "a", "--family", "users"]), "in users\n");
    assert_eq!(place.ok(&["count", "db", "--family", "users"]), "1\n");
    place.ok(&["families", "rename", "db", "users", "people"]);
    assert_eq!(place.ok(&["families", "list", "db"]), "default\npeople\n");
    assert_eq!(place.ok(&["get", "db", "a", "--family", "people"]), "in users\n");
    place.ok(&["families", "drop", "db", "people"]);
    place.run(&["get", "db", "a", "--family", "people"], 1).says(&["no family `people`"]);
}

#[test]
fn families_speak_json_and_refuse_what_cannot_be() {
    let place = filled();
    let json = |arguments: &[&str]| place.run(arguments, 0).json().remove(0);
    let created = json(&["families", "create", "db", "users", "--json"]);
    assert_eq!(created, json!({ "created": "users" }));
    assert_eq!(json(&["families", "db", "--json"]), json!({ "families": ["default", "users"] }));
    place.run(&["families", "create", "db", "users"], 1).says(&["already exists"]);
    place.run(&["families", "drop", "db", "absent"], 1).says(&["no family `absent`"]);
    place.run(&["families", "rename", "db", "absent", "x"], 1).says(&["no family `absent`"]);
    let renamed = json(&["families", "rename", "db", "users", "people", "--json"]);
    assert_eq!(renamed, json!({ "renamed": { "from": "users", "to": "people" } }));
    let dropped = json(&["families", "drop", "db", "people", "--json"]);
    assert_eq!(dropped, json!({ "dropped": "people" }));
    place.run(&["families"], 2);
}

#[test]
fn a_clone_is_a_family_that_goes_its_own_way() {
    let place = filled();
    let made = place.ok(&["clone", "db", "default", "copy"]);
    assert!(made.starts_with("cloned default as copy: 1 table shared ("), "{made}");
    assert_eq!(place.ok(&["families", "db"]), "copy\ndefault\n");
    place.ok(&["put", "db", "a", "later"]);
    place.ok(&["put", "db", "own", "o", "--family", "copy"]);
    assert_eq!(place.ok(&["get", "db", "a", "--family", "copy"]), "a!\n");
    assert_eq!(place.ok(&["count", "db", "--family", "copy"]), "6\n");
    assert_eq!(place.ok(&["count", "db"]), "5\n");
    let object = place.run(&["clone", "db", "copy", "second", "--json"], 0).json().remove(0);
    assert_eq!(object["cloned"], json!({ "from": "copy", "to": "second" }));
    assert_eq!(object["shared_tables"], json!(2));
    place.ok(&["families", "drop", "db", "copy"]);
    assert_eq!(place.ok(&["get", "db", "own", "--family", "second"]), "o\n");
    place.ok(&["check", "db"]);
    place.run(&["clone", "db", "default", "second"], 1).says(&["\"second\" exists"]);
    place.run(&["clone", "db", "absent", "third"], 1).says(&["no family `absent`"]);
    place.run(&["clone", "db", "default", ""], 2);
    place.run(&["clone", "db", "default"], 2);
    let shell = place.run_with(&["shell", "db"], b"clone second third\nfamilies\n", 0);
    assert!(shell.stdout.ends_with("default\nsecond\nthird\n"), "{}", shell.stdout);
}

/// The end of a deletion without an end is no key of 64 KiB in any report.
#[test]
fn a_deletion_without_an_end_is_printed_as_one() {
    let place = filled();
    place.ok(&["flush", "db"]);
    place.ok(&["delete", "db", "--from", "b2"]);
    place.ok(&["put", "db", "z", "z!"]);
    let after = "6\tdelete-range\tdefault\tb2\t\tunbounded\n8\tput\tdefault\tz\tz!\n";
    for form in [&[][..], &["--escape"]] {
        let run = place.run(&[&["watch", "db", "--from", "6"], form].concat(), 0);
        assert_eq!(run.stdout, after);
    }
    for form in [&["--json"][..], &["--json", "--hex"]] {
        let objects = place.run(&[&["watch", "db", "--from", "6"], form].concat(), 0).json();
        let operations = objects[0]["operations"].as_array().unwrap();
        assert_eq!(operations.len(), 1);
        assert_eq!(operations[0]["action"], "delete-range");
        assert!(operations[0].as_object().unwrap()["end"].is_null());
        assert_eq!((&objects[0]["first"], &objects[0]["last"]), (&json!(6), &json!(7)));
    }
    // A prefix leaves the second operation out.
    let run = place.run(&["watch", "db", "--from", "6", "--prefix", "c"], 0);
    assert_eq!(run.stdout, after.lines().next().map(|line| format!("{line}\n")).unwrap());
    let inspected = |part: &str, path: &str, expected: &str| {
        for form in [&[][..], &["--escape"], &["--hex"], &["--json"]] {
            let arguments = [&["inspect", part, path, "--operations"], form].concat();
            let text = place.ok(&arguments);
            assert!(text.lines().all(|line| line.len() < 1000), "{arguments:?}");
            let word = if form == ["--json"] { "{\"greatest\":true}" } else { "=greatest-key" };
            assert_eq!(text.matches(word).count() > 0, !expected.is_empty(), "{arguments:?}");
            assert!(form != [""; 0] || text.contains(expected), "{text}");
        }
    };
    inspected("wal", "db", "end=greatest-key");
    place.ok(&["flush", "db"]);
    inspected("manifest", "db", "last_key=greatest-key");
    let entries = std::fs::read_dir(place.path("db")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let tables = names.filter(|name| name.ends_with(".table"));
    let table = tables.max().unwrap();
    inspected("table", &format!("db/{table}"), "end=greatest-key");
    let path = place.path("db").join(&table);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let run = place.run(&["check", "db"], 3);
    assert!(run.stdout.contains("range \"b2\".. of family default"), "{}", run.stdout);
}

#[test]
fn watch_prints_the_commits_of_the_log_in_their_order() {
    let place = filled();
    place.ok(&["put", "db", "d", "d!"]);
    place.ok(&["delete", "db", "a"]);
    let lines = ["a", "b", "b1", "b2", "c"].iter().enumerate();
    let lines = lines.map(|(at, key)| format!("{}\tput\tdefault\t{key}\t{key}!\n", at + 1));
    let lines: String = lines.collect();
    let after = "6\tput\tdefault\td\td!\n7\tdelete\tdefault\ta\n";
    let run = place.run(&["watch", "db"], 0);
    assert_eq!(run.stdout, format!("{lines}{after}"));
    run.says(&["the log ends before 8"]);
    assert_eq!(place.run(&["watch", "db", "--from", "6"], 0).stdout, after);
    let run = place.run(&["watch", "db", "--prefix", "d", "--family", "default"], 0);
    assert_eq!(run.stdout, after.lines().next().map(|line| format!("{line}\n")).unwrap());
    let objects = place.run(&["watch", "db", "--from", "7", "--json"], 0).json();
    let operation = json!({ "sequence": 7, "action": "delete", "family": "default", "key": "a" });
    let expected = json!({ "first": 7, "last": 7, "families": [], "operations": [operation] });
    assert_eq!(objects, [expected]);
    place.run(&["watch", "db", "--from", "9"], 2).says(&["no commit has this sequence number yet"]);
    place.run(&["watch", "db", "--family", "absent"], 1).says(&["absent"]);
    let live = "put e e!\nwatch --from 8\n";
    let run = place.run_with(&["shell", "db"], live.as_bytes(), 0);
    assert_eq!(run.stdout, "8\tput\tdefault\te\te!\n");
}
