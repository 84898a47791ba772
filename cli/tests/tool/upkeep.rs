//! The verbs stats, check, checkpoint, compact, flush, inspect and completions.

use crate::place::Place;
use serde_json::json;

fn filled() -> Place {
    let place = Place::new();
    place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\nb\t2\nc\t3\n", 0);
    place
}

#[test]
fn stats_are_a_table_and_an_object() {
    let place = filled();
    assert!(!place.ok(&["stats", "db"]).is_empty());
    let stats = place.run(&["stats", "db", "--json"], 0).json();
    assert!(stats.len() == 1 && !stats[0].as_object().unwrap().is_empty());
    place.run(&["stats", "db", "--json", "--family", "default"], 0).json();
    place.run(&["stats", "db", "--family", "absent"], 1).says(&["no family `absent`"]);
}

#[test]
fn stats_are_twelve_lines_with_units_and_the_rest_on_request() {
    let place = filled();
    place.ok(&["flush", "db"]);
    let text = place.ok(&["stats", "db"]);
    assert_eq!(text.lines().count(), 12, "{text}");
    for line in
        ["entries        3", "tables         1", "levels         L0: 1", "errors         none"]
    {
        assert!(text.lines().any(|found| found == line), "no `{line}` in {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("on disk ") && line.ends_with('B')), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 38), "{text}");
    assert_eq!(place.ok(&["shell", "db", "-c", "stats"]), text);
    let all = place.ok(&["stats", "db", "--all"]);
    let object = place.run(&["stats", "db", "--json"], 0).json().remove(0);
    let names: Vec<_> = all.lines().filter_map(|line| line.split(' ').next()).collect();
    let (mut shown, mut keys) = (names.clone(), Vec::from_iter(object.as_object().unwrap().keys()));
    shown.sort_unstable();
    keys.sort_unstable();
    assert_eq!(shown, keys, "the text has every number of the object");
    assert!(names.len() > 60, "{all}");
    let family = place.ok(&["stats", "db", "--family", "default"]);
    assert!(family.starts_with("entries        3\n") && !family.contains("cache"), "{family}");
    assert!(place.ok(&["stats", "db", "--family", "default", "--all"]).contains("table_entries"));
}

#[test]
fn a_sound_database_checks_as_ok() {
    let place = filled();
    place.ok(&["flush", "db"]);
    assert!(place.ok(&["check", "db"]).starts_with("ok: "));
    let report = place.run(&["check", "db", "--json"], 0).json().remove(0);
    assert_eq!(report["ok"], true);
    assert_eq!(report["errors"], json!([]));
    assert!(report["entries"].as_u64().unwrap() >= 3);
}

#[test]
fn damage_is_reported_and_fails() {
    let place = filled();
    place.ok(&["flush", "db"]);
    let mut damaged = 0;
    for entry in std::fs::read_dir(place.path("db")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        if !bytes.is_empty() {
            bytes[0] ^= 0xff;
            std::fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let run = place.command(&["check", "db"]).output().unwrap();
    assert!(matches!(run.status.code(), Some(1 | 3)), "{run:?}");
    let run = place.command(&["scan", "db"]).output().unwrap();
    assert_ne!(run.status.code(), Some(0), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("error: "), "{run:?}");
}

#[test]
fn compacting_and_flushing_keep_everything() {
    let place = filled();
    assert_eq!(place.ok(&["flush", "db"]), "");
    assert_eq!(place.ok(&["compact", "db"]), "");
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\nc\t3\n");
    assert_eq!(place.run(&["flush", "db", "--json"], 0).json(), [json!({ "flushed": true })]);
    assert_eq!(place.run(&["compact", "db", "--json"], 0).json(), [json!({ "compacted": true })]);
}

#[test]
fn a_range_is_compacted_by_bounds_and_prefix() {
    let place = filled();
    place.ok(&["flush", "db"]);
    for bounds in [&["--from", "a", "--to", "c"][..], &["--prefix", "b"], &["--to", "b"]] {
        assert_eq!(place.ok(&[&["compact", "db"], bounds].concat()), "");
    }
    place.ok(&["compact", "db", "--from", "c", "--to", "a"]);
    place.run(&["compact", "db", "--from", "a", "--family", "absent"], 1).says(&["absent"]);
    place.run(&["compact", "db", "--from"], 2);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\nc\t3\n");
}

#[test]
fn a_sound_database_is_scrubbed() {
    let place = filled();
    place.ok(&["flush", "db"]);
    place.ok(&["put", "db", "late", "1"]);
    let text = place.ok(&["scrub", "db"]);
    assert!(text.starts_with("ok: 1 table, 1 block, 3 entries, 1 log record\n"), "{text}");
    assert!(text.contains(" bytes read in "), "{text}");
    let report = place.run(&["scrub", "db", "--rate", "1MiB", "--json"], 0).json().remove(0);
    assert_eq!((&report["ok"], &report["complete"]), (&json!(true), &json!(true)));
    assert!(report["bytes"].as_u64().unwrap() > 0 && report["started_ms"].as_u64().unwrap() > 0);
    let last = report["last_table"].as_str().unwrap();
    let rest = place.run(&["scrub", "db", "--after", last, "--json"], 0).json().remove(0);
    assert_eq!((&rest["tables"], &rest["log_records"]), (&json!(0), &json!(0)));
    assert!(place.ok(&["shell", "db", "-c", "scrub"]).starts_with("ok: 1 table,"));
    for rate in ["fast", "", "-1", "1TiB"] {
        place.run(&["scrub", "db", &format!("--rate={rate}")], 2).says(&["a rate is a number"]);
    }
    place.run(&["scrub", "db", "--rate", "1023"], 2).says(&["the rate of a scrub is too low"]);
    place.run(&["scrub", "db", "--after", "x"], 2);
    place.run(&["scrub", "absent"], 1).says(&["no database"]);
}

#[test]
fn the_format_of_a_database_is_printed_and_the_newest_is_not_changed() {
    let place = filled();
    let text = "format version 2, features 0x0: the newest that this build knows\n";
    assert_eq!(place.ok(&["upgrade", "db"]), text);
    let object = json!({ "version": 2, "features": 0, "changed": false });
    assert_eq!(place.run(&["upgrade", "db", "--json"], 0).json(), [object]);
    place.run(&["upgrade", "absent"], 1).says(&["no database"]);
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let place = filled();
    place.ok(&["flush", "db"]);
    place.ok(&["put", "db", "d", "4"]);
    let made = place.ok(&["checkpoint", "db", "copy"]);
    assert!(made.starts_with("checkpoint in copy: 1 file linked, 1 copied"), "{made}");
    place.ok(&["put", "db", "d", "later"]);
    place.ok(&["delete", "copy", "a"]);
    assert_eq!(place.ok(&["scan", "copy"]), "b\t2\nc\t3\nd\t4\n");
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\nc\t3\nd\tlater\n");
    place.run(&["checkpoint", "db", "copy"], 1).says(&["already exists", "copy"]);
    let object = place.run(&["checkpoint", "db", "second", "--json"], 0).json().remove(0);
    assert!(object["sequence"].as_u64().unwrap() >= 5, "{object}");
    place.run(&["checkpoint", "absent", "third"], 1).says(&["absent"]);
}

#[test]
fn log_and_manifest_can_be_looked_into() {
    let place = filled();
    for part in ["wal", "manifest"] {
        let lines = place.ok(&["inspect", part, "db"]);
        assert!(lines.lines().next().unwrap().contains('='), "{lines}");
        let objects = place.run(&["inspect", part, "db", "--json"], 0).json();
        assert_eq!(objects.len(), lines.lines().count());
        assert!(objects.iter().all(serde_json::Value::is_object));
    }
    place.run(&["inspect", "table", "db/absent.table"], 1).says(&["no table file"]);
    place.write("x.table", "no table");
    place.run(&["inspect", "table", "x.table"], 3).says(&["corruption", "x.table"]);
    assert_eq!(place.ok(&["inspect", "db", "WAL"]), place.ok(&["inspect", "wal", "db"]));
    let forms = "expected `silt inspect wal DB`, `silt inspect manifest DB`";
    for arguments in [&["inspect", "page", "db"][..], &["inspect", "db"], &["inspect", "wal"]] {
        place.run(arguments, 2).says(&[forms]);
    }
    place.ok(&["flush", "db"]);
    let table = std::fs::read_dir(place.path("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "table"))
        .expect("a flush makes a table");
    let table = table.to_str().unwrap();
    let lines = place.ok(&["inspect", "table", table]);
    assert_eq!(place.ok(&["inspect", table]), lines);
    assert_eq!(place.ok(&["inspect", table, "table"]), lines);
    place.run(&["inspect", "table", "db"], 2).says(&["give the file of a table"]);
    place.run(&["inspect", "wal", table], 2).says(&["give the directory of the database"]);
}

#[test]
fn a_blob_file_is_shown_and_its_damage_named() {
    let place = Place::new();
    place.ok(&["put", "db", "short", "v"]);
    place.ok(&["families", "create", "db", "long", "value_threshold=100"]);
    let value = "v".repeat(500);
    place.ok(&["put", "db", "key", &value, "--family", "long"]);
    assert_eq!(place.ok(&["get", "db", "key", "--family", "long"]).trim_end(), value);
    let blob = std::fs::read_dir(place.path("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "blob"))
        .expect("a long value makes a blob file");
    let text = blob.to_str().unwrap();
    let lines = place.ok(&["inspect", "blob", text, "--operations"]);
    assert!(lines.contains("length=500") && lines.contains("verified=yes"), "{lines}");
    assert_eq!(place.ok(&["inspect", text, "--operations"]), lines);
    place.run(&["inspect", "blob", "db"], 2).says(&["give the file of blobs"]);
    place.run(&["inspect", "blob", "db/absent.blob"], 1).says(&["no blob file"]);
    assert!(place.ok(&["stats", "db"]).contains("\nblobs          "));
    let stats = place.ok(&["stats", "db", "--all"]);
    assert!(stats.contains("blob_files") && stats.contains("blob_garbage_bytes"), "{stats}");
    place.ok(&["flush", "db"]);
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[70] ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    place.run(&["inspect", "blob", text, "--operations"], 3).says(&["corruption", ".blob"]);
    place.run(&["get", "db", "key", "--family", "long"], 3).says(&["corruption", ".blob"]);
    let run = place.run(&["check", "db"], 3);
    assert!(run.stdout.contains(".blob"), "{}", run.stdout);
}

#[test]
fn inspected_numbers_are_numbers_and_keys_are_as_other_verbs_print_them() {
    let place = Place::new();
    place.run_with(&["batch", "db", "-"], b"put a\"b\\xff 1\nput \xc3\xbc 2\n", 0);
    let operations = |more: &[&str]| {
        let arguments = [&["inspect", "wal", "db", "--operations"], more].concat();
        let mut lines = place.ok(&arguments).lines().map(str::to_owned).collect::<Vec<_>>();
        lines.retain(|line| line.contains("operation"));
        assert_eq!(lines.len(), 2, "{lines:?}");
        lines
    };
    let objects = |more: &[&str]| -> Vec<serde_json::Value> {
        let lines = operations(&[&["--json"], more].concat());
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let plain = objects(&[]);
    assert_eq!(plain[0]["sequence"], 1);
    assert_eq!(plain[0]["value_bytes"], 1);
    assert_eq!(plain[0]["kind"], "put");
    assert_eq!(plain[0]["key"], json!({ "hex": "612262ff" }));
    assert_eq!(plain[1]["key"], "ü");
    assert_eq!(objects(&["--hex"])[0]["key"], "612262ff");
    assert_eq!(objects(&["--escape"])[0]["key"], "a\"b\\xff");
    let ends = |more: &[&str], key: &str| {
        let line = operations(more).remove(0);
        assert!(line.ends_with(&format!("  family=0  key={key}  value_bytes=1")), "{line}");
    };
    ends(&[], r#""a\"b\xff""#);
    ends(&["--hex"], "612262ff");
    ends(&["--escape"], r#""a\x22b\xff""#);
    assert!(operations(&["--escape"])[1].contains("key=\"ü\""));
}

#[test]
fn completions_come_for_each_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(place.ok(&["completions", shell]).contains("import"), "{shell}");
    }
    let object = place.run(&["completions", "bash", "--json"], 0).json().remove(0);
    assert_eq!(object["shell"], "bash");
    assert!(object["script"].as_str().unwrap().contains("_silt"));
    place.run(&["completions", "cmd"], 2);
}
