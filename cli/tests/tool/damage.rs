//! A damaged database: the report of check, and the ways to recover.

use crate::place::Place;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The first file of the database with this extension.
fn file(place: &Place, extension: &str) -> PathBuf {
    let files = fs::read_dir(place.path("db"))
        .expect("the files of a test are there")
        .map(|entry| entry.expect("the files of a test are there").path());
    let found = files.filter(|path| path.extension().is_some_and(|found| found == extension));
    found.min().expect("the files of a test are there")
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).expect("the files of a test are there");
    bytes[offset] ^= 0x10;
    fs::write(path, bytes).expect("the files of a test are there");
}

/// A database with a table of several blocks, with keys from `key000` to `key499`, and `late` in
/// the log.
fn filled() -> Place {
    let place = Place::new();
    let lines: Vec<_> = (0..500).map(|n| format!("key{n:03}\tvalue of {n} {}\n", n * n)).collect();
    let input = lines.concat();
    place.run_with(&["import", "db", "-", "--format", "lines"], input.as_bytes(), 0);
    place.ok(&["flush", "db"]);
    place.ok(&["put", "db", "late", "1"]);
    place
}

/// The same database with its first block damaged.
fn damaged() -> Place {
    let place = filled();
    flip(&file(&place, "table"), 30);
    place
}

#[test]
fn a_check_names_the_damaged_table_its_keys_and_the_way_out() {
    let place = damaged();
    let run = place.run(&["check", "db"], 3);
    let report = &run.stdout;
    assert!(report.contains("1 of 1 table damaged: range \"key000\"..=\"key"), "{report}");
    assert!(report.contains("\" of family default, "), "{report}");
    run.says(&["`silt recover OLD NEW`"]);
    let report = place.run(&["check", "db", "--json"], 3).json().remove(0);
    assert_eq!(report["tables_damaged"], 1);
    assert_eq!(report["damage"][0]["family"], "default");
    assert_eq!(report["damage"][0]["first_key"], "key000");
    assert!(report["damage"][0]["entries_max"].as_u64() < Some(500));
}

#[test]
fn a_sound_database_is_recovered_whole() {
    let place = filled();
    fs::remove_file(place.path("db/CURRENT")).unwrap();
    place.run(&["scan", "db"], 3).says(&["`silt recover OLD NEW`"]);
    let text = place.ok(&["recover", "db", "new"]);
    assert!(text.starts_with("501 entries of 1 family recovered; "), "{text}");
    assert_eq!(place.ok(&["count", "new"]), "501\n");
    assert_eq!(place.ok(&["get", "new", "late"]), "1\n");
    place.run(&["recover", "db", "new"], 1).says(&["already exists"]);
    place.run(&["recover", "db", "db"], 2);
    place.run(&["recover", "absent", "other"], 1).says(&["no database"]);
    assert!(!place.path("other").exists());
}

#[test]
fn what_is_lost_is_named_and_the_rest_recovered() {
    let place = damaged();
    let before = fs::read(file(&place, "table")).unwrap();
    let run = place.run(&["recover", "db", "new", "--json"], 3);
    run.says(&["not all could be recovered"]);
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["complete"], false);
    assert_eq!(report["manifest"], "whole");
    let lost = &report["lost"][0];
    assert_eq!((&lost["family"], &lost["first_key"]), (&json!("default"), &json!("key000")));
    assert!(lost["offset"].is_u64() && lost["file"].as_str().unwrap().ends_with(".table"));
    let (entries, most) = (report["entries"].as_u64().unwrap(), lost["entries_max"].as_u64());
    assert_eq!(entries + most.unwrap(), 501);
    assert_eq!(place.ok(&["count", "new"]), format!("{entries}\n"));
    assert_eq!(place.ok(&["get", "new", "key499"]), "value of 499 249001\n");
    assert!(fs::read(file(&place, "table")).unwrap() == before, "the old one was written to");
    let text = place.run(&["recover", "db", "again"], 3).stdout;
    assert!(text.contains("\nlost: family default, keys \"key000\"..=\"key"), "{text}");
}

/// A database that keeps its flushed log, and has lost its table or the first block of it.
fn without_a_table(lose: fn(&Path)) -> Place {
    let place = Place::new();
    let lines: Vec<_> = (0..500).map(|n| format!("key{n:03}\tvalue of {n} {}\n", n * n)).collect();
    let keeping = ["--option", "retain_log_bytes=100000000"];
    let import = [&["import", "db", "-", "--format", "lines"], &keeping[..]].concat();
    place.run_with(&import, lines.concat().as_bytes(), 0);
    place.ok(&[&["flush", "db"], &keeping[..]].concat());
    place.ok(&[&["put", "db", "key007", "newer"], &keeping[..]].concat());
    lose(&file(&place, "table"));
    place
}

#[test]
fn a_lost_table_is_recovered_from_the_log_that_was_kept() {
    let remove = |path: &Path| fs::remove_file(path).expect("the table is there");
    for lose in [remove, |path: &Path| flip(path, 30)] {
        let place = without_a_table(lose);
        place.run(&["recover", "db", "new"], 3);
        assert_eq!(place.ok(&["count", "new"]), "500\n");
        assert_eq!(place.ok(&["get", "new", "key007"]), "newer\n");
        assert_eq!(place.ok(&["get", "new", "key499"]), "value of 499 249001\n");
        place.ok(&["check", "new"]);
    }
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    for place in [filled(), damaged()] {
        let files = || {
            let entries = fs::read_dir(place.path("db")).unwrap();
            let paths: std::collections::BTreeSet<_> =
                entries.map(|entry| entry.unwrap().path()).collect();
            paths.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
        };
        let before = files();
        let dry = place.command(&["recover", "db", "--dry-run", "--json"]).output().unwrap();
        // The command of the recovery itself, with one word more.
        let with_new = place.command(&["recover", "db", "new", "--dry-run"]).output().unwrap();
        assert!(files() == before && !place.path("new").exists());
        let is_sound = dry.status.code() == Some(0);
        assert_eq!(with_new.status.code(), dry.status.code());
        let text = String::from_utf8(with_new.stdout).unwrap();
        assert!(text.contains(" would be recovered; "), "{text}");
        assert_eq!(text.contains("\nlost: family default"), !is_sound, "{text}");
        let done = place.command(&["recover", "db", "new", "--json"]).output().unwrap();
        assert_eq!(done.status.code(), dry.status.code());
        let object = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        let (mut dry, done) = (object(&dry.stdout), object(&done.stdout));
        assert_eq!((&dry["dry_run"], &done["dry_run"]), (&json!(true), &json!(false)));
        dry["dry_run"] = json!(false);
        assert_eq!(dry, done);
    }
    let place = filled();
    place.run(&["recover", "db"], 2);
    place.run(&["recover", "absent", "--dry-run"], 1).says(&["no database"]);
}

#[test]
fn a_scrub_names_the_damage_and_fails() {
    let place = damaged();
    let run = place.run(&["scrub", "db"], 3);
    assert!(run.stdout.starts_with("damaged: 0 tables"), "{}", run.stdout);
    assert!(run.stdout.contains("1 of 1 table damaged: range \"key000\"..=\"key"));
    run.says(&["`silt recover OLD NEW`"]);
    let report = place.run(&["scrub", "db", "--json"], 3).json().remove(0);
    let damage = &report["damage"][0];
    assert_eq!((&damage["family"], &damage["first_key"]), (&json!("default"), &json!("key000")));
    assert!(damage["file"].as_str().unwrap().ends_with(".table") && damage["offset"].is_u64());
    assert_eq!((&report["ok"], &report["complete"]), (&json!(false), &json!(true)));
}

#[test]
fn an_export_leaves_out_what_cannot_be_read_if_it_is_told_to() {
    let place = damaged();
    for format in ["lines", "csv"] {
        place.run(&["export", "db", "all", "--format", format], 3).says(&[
            "bad checksum",
            "`silt check`",
            "`silt recover OLD NEW`",
        ]);
        let arguments = ["export", "db", "some", "--format", format, "--skip-damaged"];
        place.run(&arguments, 3).says(&["left out what cannot be read: family default, keys"]);
        let some = place.read("some");
        assert!(some.contains("key499") && some.contains("late") && !some.contains("key000"));
        assert!(some.lines().count() > 200, "{}", some.lines().count());
        assert!(!place.path("all").exists());
    }
    let from = ["export", "db", "-", "--format", "lines", "--skip-damaged", "--from", "key400"];
    assert_eq!(place.run(&from, 3).stdout.lines().count(), 101);
    let sound = filled();
    sound.run(&["export", "db", "all", "--format", "lines", "--skip-damaged"], 0);
    assert_eq!(sound.read("all").lines().count(), 501);
}

#[test]
fn an_export_around_any_damaged_block_has_all_entries_but_those_of_the_block() {
    for kind in ["block", "btree"] {
        let place = Place::new();
        let lines: Vec<_> =
            (0..300).map(|n| format!("key{n:03}\t{}\n", n.to_string().repeat(20))).collect();
        let kind = format!("default_family.table_kind={kind}");
        let small = "default_family.block_bytes=1024";
        let options = ["--option", &kind, "--option", small];
        let create = [&["import", "db", "-", "--format", "lines"][..], &options].concat();
        place.run_with(&create, lines.concat().as_bytes(), 0);
        place.ok(&["flush", "db"]);
        let table = file(&place, "table");
        let inspected = place.ok(&["inspect", "table", &table.to_string_lossy(), "--json"]);
        let lines_of = inspected.lines().map(|line| serde_json::from_str(line).unwrap());
        let items: Vec<serde_json::Value> = lines_of.collect();
        let blocks: Vec<_> = items.iter().filter(|item| item["item"] == "block").collect();
        assert!(blocks.len() >= 10, "{} blocks", blocks.len());
        let mut before = 0;
        for block in blocks {
            let text = |name: &str| block[name].as_str().unwrap().to_owned();
            let (first, last) = (text("first_key"), text("last_key"));
            let offset = block["offset"].as_u64().unwrap() as usize + 30;
            flip(&table, offset);
            let export = ["export", "db", "some", "--format", "lines", "--skip-damaged"];
            place.run(&export, 3).says(&["left out what cannot be read: family default, keys"]);
            let is_lost = |line: &&String| (&*first..=&*last).contains(&&line[..6]);
            let expected: String = lines.iter().filter(|line| !is_lost(line)).cloned().collect();
            assert!(place.read("some") == expected, "the block at {offset}");
            assert_eq!(place.ok(&["count", "db", "--to", &first]), format!("{before}\n"));
            place.run(&["count", "db", "--to", &last], 3);
            before += block["entries"].as_u64().unwrap();
            flip(&table, offset);
        }
        assert_eq!(before, 300);
    }
}

#[test]
fn a_damaged_log_opens_in_time_and_recovers_behind_the_damage() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "1"]);
    place.run_with(&["batch", "db", "-"], b"put d 4\nput e 5\n", 0);
    let log = file(&place, "log");
    flip(&log, 70);
    place.run(&["scan", "db"], 3).says(&["`--recovery point-in-time`", "`silt recover OLD NEW`"]);
    place.run(&["scan", "db", "--recovery", "strict"], 3);
    place.run(&["scan", "db", "--recovery", "later"], 2);
    let text = place.run(&["recover", "db", "new"], 3).stdout;
    assert!(text.contains("lost: any family, any keys, at most "), "{text}");
    let opened = place.run(&["scan", "db", "--recovery", "point-in-time"], 0).stdout;
    let saved = place.ok(&["scan", "new"]);
    assert!(saved.len() >= opened.len(), "{saved}{opened}");
    // Reading has changed nothing.
    place.run(&["scan", "db"], 3);
    place.run(&["put", "db", "f", "6", "--recovery", "point-in-time"], 0).says(&["db/lost"]);
    // It opens without the option from now on.
    place.ok(&["scan", "db"]);
}

#[test]
fn a_lost_value_is_one_key_and_no_damaged_table() {
    let place = Place::new();
    let line = |n: u32| format!("key{n:03}\t{}\n", format!("{n}").repeat(300));
    let lines: Vec<_> = (0..20).map(line).collect();
    let threshold = "default_family.value_threshold=100";
    let import = ["import", "db", "-", "--format", "lines", "--option", threshold];
    place.run_with(&import, lines.concat().as_bytes(), 0);
    place.ok(&["flush", "db"]);
    let sound = place.ok(&["check", "db"]);
    assert!(sound.contains(", 20 separated values in 1 blob file"), "{sound}");
    let blob = file(&place, "blob");
    let middle = fs::read(&blob).unwrap().len() / 2;
    flip(&blob, middle);
    let report = place.run(&["check", "db", "--json"], 3).json().remove(0);
    assert_eq!((&report["tables"], &report["tables_damaged"]), (&json!(1), &json!(0)));
    assert_eq!((&report["values"], &report["values_damaged"]), (&json!(19), &json!(1)));
    assert_eq!((&report["blob_files"], &report["blob_files_damaged"]), (&json!(1), &json!(1)));
    let lost = &report["damage"][0];
    assert_eq!((&lost["part"], &lost["entries_max"]), (&json!("values"), &json!(1)));
    for verb in ["check", "scrub"] {
        let text = place.run(&[verb, "db"], 3).stdout;
        let named = "1 of 1 blob file damaged, 1 of 20 separated values lost: range \"key";
        assert!(text.contains(named) && !text.contains("table damaged"), "{text}");
    }
    place.run(&["export", "db", "some", "--format", "lines", "--skip-damaged"], 3);
    assert_eq!(place.read("some").lines().count(), 19);
}

/// All files below a directory, with their bytes.
fn tree(directory: &Path) -> std::collections::BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = std::collections::BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("the files of a test are there") {
            let path = entry.expect("the files of a test are there").path();
            if path.is_dir() {
                left.push(path.clone());
                found.insert(path, None);
            } else {
                found.insert(
                    path.clone(),
                    Some(fs::read(path).expect("the files of a test are there")),
                );
            }
        }
    }
    found
}

/// A database with a table, and a log of four synced records.
fn synced() -> Place {
    let place = filled();
    for (key, value) in [("one", "first"), ("two", "second"), ("three", "third")] {
        place.ok(&["put", "db", key, value]);
    }
    place
}

/// Flips a bit in the record of the log that puts `value`.
fn damage_record(place: &Place, value: &str) {
    let logs = tree(&place.path("db")).into_iter().filter_map(|(path, bytes)| {
        let bytes = bytes.filter(|_| path.extension().is_some_and(|found| found == "log"))?;
        let at = bytes.windows(value.len()).position(|part| part == value.as_bytes())?;
        Some((path, at))
    });
    let found: Vec<_> = logs.collect();
    assert_eq!(found.len(), 1, "one record puts {value}");
    flip(&found[0].0, found[0].1);
}

/// The damage that a test does to a database.
type Damage = fn(&Place);

const DAMAGES: [Damage; 6] = [
    |_| {},
    |place| damage_record(place, "second"),
    |place| damage_record(place, "first"),
    |place| flip(&file(place, "log"), 3),
    |place| fs::remove_file(file(place, "log")).expect("the log is there"),
    |place| fs::write(file(place, "log"), [0; 80]).expect("the log is there"),
];

/// The verbs that read, but for those that wait.
const READING: [&str; 16] = [
    "get db two",
    "get db key003",
    "scan db",
    "count db",
    "stats db",
    "export db out",
    "export db all --format csv --skip-damaged",
    "check db",
    "scrub db",
    "inspect wal db",
    "inspect manifest db",
    "families list db",
    "branch list db",
    "bucket list db",
    "prepared list db",
    "recover db --dry-run",
];

#[test]
fn verbs_that_read_change_no_byte_in_any_recovery_mode() {
    for (index, damage) in DAMAGES.into_iter().enumerate() {
        let place = synced();
        damage(&place);
        let before = tree(&place.path("db"));
        let mut read = 0;
        for verb in READING {
            for mode in [&[][..], &["--recovery", "strict"], &["--recovery", "point-in-time"]] {
                let arguments: Vec<_> = verb.split(' ').chain(mode.iter().copied()).collect();
                let run = place.command(&arguments).output().unwrap();
                read += u32::from(run.status.success());
                let after = tree(&place.path("db"));
                assert!(after == before, "damage {index}: {arguments:?} changed the database");
            }
        }
        // In point-in-time mode most of them can read.
        assert!(read >= 8, "damage {index}: {read}");
    }
}

#[test]
fn a_verb_that_writes_keeps_what_it_cuts_off() {
    let place = synced();
    damage_record(&place, "second");
    place
        .run(&["count", "db"], 3)
        .says(&["`silt recover OLD NEW` saves all that verifies; `--rec"]);
    assert_eq!(place.ok(&["count", "db", "--recovery", "point-in-time"]), "502\n");
    let run = place.run(&["put", "db", "new", "1", "--recovery", "point-in-time"], 0);
    run.says(&["the log was cut: 2 records behind, of ", "; kept in db/lost"]);
    assert_eq!(place.ok(&["count", "db"]), "503\n");
    // The record behind the damaged one is there, and a check says so.
    place.run(&["recover", "db/lost", "saved"], 3);
    assert_eq!(place.ok(&["get", "saved", "three"]), "third\n");
    let checked = place.ok(&["check", "db"]);
    assert!(checked.contains(" in `lost`, not verified; `silt recover DB/lost NEW`"), "{checked}");
    assert!(place.run(&["check", "db", "--json"], 0).json()[0]["lost_files"].as_u64() > Some(0));
    // A copy leaves it out, and destroy removes it.
    place.ok(&["checkpoint", "db", "copy"]);
    assert!(!place.path("copy/lost").exists() && place.path("db/lost").exists());
    place.ok(&["destroy", "db", "--yes"]);
    assert!(!place.path("db").exists());
}

#[test]
fn databases_of_other_engines_are_named_and_left_alone() {
    let place = Place::new();
    fs::create_dir(place.path("rocks")).unwrap();
    place.write("rocks/CURRENT", "MANIFEST-000005\n");
    place.write("rocks/MANIFEST-000005", "x");
    place.write("rocks/OPTIONS-000007", "[Version]");
    place.write("rocks/000004.log", "x");
    place.write("rocks/000009.sst", "x");
    fs::create_dir(place.path("lmdb")).unwrap();
    let mut page = [0; 4096];
    page[16..20].copy_from_slice(&0xbeef_c0de_u32.to_le_bytes());
    place.write("lmdb/data.mdb", page);
    place.write("lmdb/lock.mdb", "");
    place.write("app.db", "SQLite format 3\0and more");
    let before = tree(&place.path("."));
    let verbs = READING.iter().copied().chain([
        "put db k v",
        "delete db k",
        "import db - --format lines",
        "shell db --create",
        "put db k v --recovery point-in-time",
        "flush db",
        "compact db",
        "recover db new",
        "destroy db --yes",
        "checkpoint db copy",
        "backup create db backups",
        "upgrade db",
        "check db",
        "follow db",
    ]);
    for (path, engine) in [("rocks", "RocksDB"), ("lmdb", "LMDB"), ("app.db", "SQLite")] {
        let files = ["import new db", "import new db --format lines", "import new db --sorted"];
        let more = files.into_iter().chain([
            "inspect wal db",
            "inspect manifest db",
            "inspect table db",
            "inspect blob db",
            "batch new db",
            "txn new db",
            "table db new.table",
            "table db new.table --format lines",
            "ingest new db",
            "archive show db",
            "archive verify db",
            "archive import new db",
            "archive scan db",
            "archive list db",
            "backup list db",
            "backup verify db",
            "restore db new",
        ]);
        let is_dir = place.path(path).is_dir();
        // These are about the kind of the file.
        let is_other = |verb: &str| {
            let kinds = ["inspect table", "inspect blob"];
            is_dir && kinds.iter().any(|kind| verb.starts_with(kind))
        };
        for verb in verbs.clone().chain(more).filter(|verb| !is_other(verb)) {
            let arguments: Vec<_> =
                verb.split(' ').map(|word| if word == "db" { path } else { word }).collect();
            let run = place.command(&arguments).write_stdin("").output().unwrap();
            let said = String::from_utf8_lossy(&run.stderr);
            assert!(!run.status.success(), "{arguments:?}");
            assert!(said.contains(&format!("a database of {engine}, not of Si")), "{verb}: {said}");
            assert!(tree(&place.path(".")) == before, "{arguments:?} changed a file");
        }
    }
}

#[test]
fn a_hostile_name_or_value_says_nothing_to_a_terminal() {
    let place = Place::new();
    let hostile = "a\u{1b}[31m\u{7f}\u{9b}31m\u{9d}0;title\u{9c}\u{202e}b";
    let is_safe = |text: &str| {
        text.chars().all(|character| {
            matches!(character, '\n' | '\t') || !character.is_control() && character != '\u{202e}'
        })
    };
    place.ok(&["put", "db", hostile, hostile, "--ttl", "1h"]);
    place.ok(&["families", "create", "db", "a\u{202e}b"]);
    place.ok(&["put", "db", hostile, hostile, "--family", "a\u{202e}b"]);
    place.ok(&["archive", "create", "db", &format!("{hostile}.siltar")]);
    place.ok(&["backup", "create", "db", hostile]);
    for verb in [
        "get db X --family a\u{202e}b",
        "get db X",
        "get db absent --family X",
        "get X absent",
        "put db",
        "put db k v --option X=X",
        "scan db",
        "scan db --keys-only",
        "count db --family X",
        "families db",
        "families options db a\u{202e}b",
        "families drop db X",
        "stats db",
        "check db",
        "ttl db X",
        "branch create db X",
        "branch drop db X",
        "archive list .",
        "archive show X.siltar",
        "archive verify X.siltar",
        "archive scan X.siltar",
        "archive import db X.siltar",
        "backup list X",
        "backup verify X",
        "inspect wal db --operations",
        "inspect manifest db",
        "import db X.csv",
        "recover db --dry-run",
        "recover X other",
        "destroy X",
        "checkpoint db X",
        "verb-X",
        "get db X --X",
    ] {
        for json in [None, Some("--json")] {
            let verb = verb.split(' ').map(|word| word.replace('X', hostile));
            let arguments: Vec<_> = verb.chain(json.map(str::to_owned)).collect();
            let run = place.command(&arguments.iter().map(|word| &**word).collect::<Vec<_>>());
            let output = { run }.write_stdin("").output().unwrap();
            for bytes in [&output.stdout, &output.stderr] {
                let text = String::from_utf8_lossy(bytes);
                assert!(is_safe(&text), "{arguments:?}: {text:?}");
                if json.is_some() && !std::ptr::eq(bytes, &output.stderr) {
                    for line in text.lines() {
                        serde_json::from_str::<serde_json::Value>(line).unwrap();
                    }
                }
            }
        }
    }
}
