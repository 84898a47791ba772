//! archive create, list, show, verify, scan, import, drop, gc.

use crate::place::Place;
use serde_json::json;

fn filled() -> Place {
    let place = Place::new();
    place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\nb\t2\nc\t3\n", 0);
    place.ok(&["families", "create", "db", "users"]);
    place.ok(&["put", "db", "ada", "1815", "--family", "users"]);
    place
}

#[test]
fn an_archive_is_made_shown_read_and_imported() {
    let place = filled();
    let made = place.ok(&["archive", "create", "db", "a.siltar"]);
    assert!(made.starts_with("archived 4 entries in a.siltar: 2 families, "), "{made}");
    assert!(made.trim_end().ends_with(" bytes, sequence 4"), "{made}");
    // The database is not needed any more.
    place.ok(&["destroy", "db", "--yes"]);
    let shown = place.ok(&["archive", "show", "a.siltar"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("a.siltar\t20"), "{shown}");
    assert!(lines[0].contains("Z\tsequence 4\t2 families\t4 entries\t"), "{shown}");
    assert_eq!(lines[1], "default\t3 entries\t6 bytes of keys and values");
    assert_eq!(lines[2], "users\t1 entry\t7 bytes of keys and values");
    let object = place.run(&["archive", "show", "a.siltar", "--json"], 0).json().remove(0);
    assert_eq!((&object["entries"], &object["source"]), (&json!(4), &json!("db")));
    assert_eq!(object["families"][1]["name"], "users");
    assert!(object["created_ms"].as_u64().unwrap() > 1_700_000_000_000);

    let ok = place.ok(&["archive", "verify", "a.siltar"]);
    assert!(ok.starts_with("ok: a.siltar, 4 entries, "), "{ok}");
    let object = place.run(&["archive", "verify", "a.siltar", "--json"], 0).json().remove(0);
    assert_eq!(object["ok"], true);

    let scan = ["archive", "scan", "a.siltar"];
    assert_eq!(place.ok(&scan), "a\t1\nb\t2\nc\t3\n");
    assert_eq!(place.ok(&[&scan[..], &["--from", "b", "--limit", "1"]].concat()), "b\t2\n");
    assert_eq!(place.ok(&[&scan[..], &["--prefix", "c", "--keys-only"]].concat()), "c\n");
    assert_eq!(
        place.ok(&[&scan[..], &["--family", "users", "--hex"]].concat()),
        "616461\t31383135\n"
    );
    let objects = place.run(&[&scan[..], &["--json"]].concat(), 0).json();
    assert_eq!(objects[1], json!({ "key": "b", "value": "2" }));

    let run = place.run(&["archive", "import", "new", "a.siltar"], 0);
    run.says(&["created the database new"]);
    assert_eq!(run.stdout, "imported 4 entries: 2 families\ndefault\t3 entries\nusers\t1 entry\n");
    assert_eq!(place.ok(&["scan", "new"]), "a\t1\nb\t2\nc\t3\n");
    assert_eq!(place.ok(&["get", "new", "ada", "--family", "users"]), "1815\n");
    assert!(place.ok(&["check", "new"]).starts_with("ok: "));
}

#[test]
fn families_are_chosen_renamed_and_replaced() {
    let place = filled();
    place.ok(&["archive", "create", "db", "users.siltar", "--family", "users"]);
    let import = ["archive", "import", "db", "users.siltar"];
    place.run(&import, 1).says(&["already exists", "users"]);
    let renamed = [&import[..], &["--family", "users=people"]].concat();
    let told = place.ok(&renamed);
    assert_eq!(told, "imported 1 entry: 1 family\npeople\t1 entry\tfrom users\n");
    place.ok(&["put", "db", "bob", "1", "--family", "people"]);
    let object = place.run(&[&renamed[..], &["--replace", "--json"]].concat(), 0).json().remove(0);
    let expected = json!([{ "from": "users", "name": "people", "entries": 1 }]);
    assert_eq!(object["families"], expected);
    assert_eq!(place.ok(&["scan", "db", "--family", "people"]), "ada\t1815\n");
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\nc\t3\n");
    place.run(&[&import[..], &["--family", "absent"]].concat(), 1).says(&["absent"]);
    place.run(&[&import[..], &["--family", "users="]].concat(), 2).says(&["NAME=NEW"]);
}

#[test]
fn a_directory_is_listed_and_cleaned() {
    let place = filled();
    std::fs::create_dir(place.path("dir")).unwrap();
    for name in ["dir/1.siltar", "dir/2.siltar", "dir/3.siltar"] {
        place.ok(&["archive", "create", "db", name]);
    }
    let list = place.ok(&["archive", "list", "dir"]);
    assert_eq!(list.lines().count(), 3);
    assert!(list.starts_with("dir/1.siltar\t20"), "{list}");
    let objects = place.run(&["archive", "list", "dir", "--json"], 0).json();
    assert_eq!((objects.len(), &objects[2]["file"]), (3, &json!("dir/3.siltar")));
    place.write("dir/left.siltar.partial", "");
    place.write("dir/mine.siltar", "a file of mine");
    place.run(&["archive", "list", "dir"], 3).says(&["1 file cannot be read", "not an archive"]);
    let gc = ["archive", "gc", "dir"];
    let run = place.run(&[&gc[..], &["--keep", "2", "--dry-run"]].concat(), 3);
    assert!(run.stdout.contains("dir/1.siltar\ndir/left.siltar.partial\nwould remove 1 archive"));
    assert!(place.path("dir/1.siltar").exists());
    place.run(&[&gc[..], &["--keep", "2", "--older-than", "1d"]].concat(), 3);
    assert!(place.path("dir/1.siltar").exists() && !place.path("dir/left.siltar.partial").exists());
    std::fs::remove_file(place.path("dir/mine.siltar")).unwrap();
    let gone = place.ok(&[&gc[..], &["--keep", "2"]].concat());
    assert!(gone.starts_with("dir/1.siltar\nremoved 1 archive and 0 unfinished files, "), "{gone}");
    let object = place.run(&[&gc[..], &["--keep", "1", "--json"]].concat(), 0).json().remove(0);
    assert_eq!(object["archives"], json!(["dir/2.siltar"]));
    let dropped = place.ok(&["archive", "drop", "dir/3.siltar"]);
    assert!(dropped.starts_with("removed dir/3.siltar: "), "{dropped}");
    assert_eq!(std::fs::read_dir(place.path("dir")).unwrap().count(), 0);
    place.run(&["archive", "drop", "dir/3.siltar"], 1).says(&["no archive"]);
}

#[test]
fn damage_ends_with_exit_code_3_and_creates_nothing() {
    let place = filled();
    place.ok(&["archive", "create", "db", "a.siltar"]);
    let whole = std::fs::read(place.path("a.siltar")).unwrap();
    let mut bytes = whole.clone();
    bytes[40] ^= 1;
    std::fs::write(place.path("b.siltar"), &bytes).unwrap();
    std::fs::write(place.path("c.siltar"), &whole[..whole.len() - 9]).unwrap();
    let run = place.run(&["archive", "verify", "a.siltar", "b.siltar", "c.siltar"], 3);
    run.says(&["damaged archives: b.siltar, c.siltar"]);
    assert!(run.stdout.starts_with("ok: a.siltar, "), "{}", run.stdout);
    assert!(run.stdout.contains("bad checksum"), "{}", run.stdout);
    let objects = place.run(&["archive", "verify", "b.siltar", "--json"], 3).json();
    assert_eq!(objects[0]["ok"], false);
    place.run(&["archive", "scan", "b.siltar"], 3).says(&["another copy of the archive"]);
    place.run(&["archive", "import", "new", "c.siltar"], 3).says(&["cut short"]);
    assert!(!place.path("new").exists());
    place.run(&["archive", "import", "db2", "b.siltar"], 3).says(&["another copy"]);
    assert!(!place.path("db2").exists());
}

#[test]
fn a_verb_that_fails_leaves_no_database_that_it_made_for_nothing() {
    let place = filled();
    place.ok(&["archive", "create", "db", "a.siltar"]);
    let mut bytes = std::fs::read(place.path("a.siltar")).unwrap();
    bytes[40] ^= 1;
    place.write("damaged.siltar", &bytes);
    place.write("bad.table", "no table");
    let ascending: String = (0..60_000).map(|n| format!("{n:07}\t{}\n", "v".repeat(40))).collect();
    place.write("late.lines", ascending.clone() + "0\tout of order\n");
    place.write("bad.lines", ascending + "no tab\n");
    for (verb, exit_code) in [
        ("archive import new a.siltar --family absent=x", 1),
        ("archive import new damaged.siltar", 3),
        ("ingest new bad.table", 3),
        ("ingest new bad.table --family f", 3),
        ("import new late.lines --sorted", 2),
        ("cas new k --expect a --new b", 6),
    ] {
        let arguments: Vec<_> = verb.split(' ').collect();
        let run = place.command(&arguments).output().unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(exit_code), "{verb}: {said}");
        assert!(!place.path("new").exists(), "{verb}: {said}");
        // One that was there stays, and has what it had.
        place.run_with(&["import", "old", "-", "--format", "lines"], b"", 0);
        let arguments: Vec<_> =
            arguments.iter().map(|word| if *word == "new" { "old" } else { word }).collect();
        place.run(&arguments, exit_code);
        assert_eq!(place.ok(&["count", "old"]), "0\n", "{verb}");
    }
    // Chunks that were committed stay, as the message says.
    place.run(&["import", "new", "bad.lines"], 2).says(&["60,000 records"]);
    assert_eq!(place.ok(&["count", "new"]), "60000\n");
}

#[test]
fn bad_places_are_named() {
    let place = filled();
    place.run(&["archive", "create", "db", "a.tar"], 2).says(&[".siltar"]);
    place.run(&["archive", "create", "db", "db/a.siltar"], 2).says(&["belongs to a database"]);
    place.run(&["archive", "create", "db", "absent/a.siltar"], 1).says(&["absent"]);
    place.run(&["archive", "create", "absent", "a.siltar"], 1).says(&["absent"]);
    place.run(&["archive", "create", "db", "a.siltar", "--family", "x"], 1).says(&["x"]);
    place.run(&["archive", "create", "db", "a.siltar", "--rate", "0"], 2).says(&["--rate"]);
    assert!(!place.path("a.siltar").exists());
    place.write("text.siltar", "a text of some length, and no archive");
    for verb in ["show", "scan", "verify", "drop"] {
        place.run(&["archive", verb, "text.siltar"], 2).says(&["not an archive"]);
        place.run(&["archive", verb, "absent.siltar"], 1).says(&["no archive"]);
    }
    place.run(&["archive", "create", "db", "text.siltar"], 1).says(&["already exists"]);
    place.run(&["archive", "gc", "db", "--keep", "0"], 2).says(&["belongs to a database"]);
    place.run(&["archive", "gc", ".", "--older-than", "3 weeks"], 2).says(&["--older-than"]);
    place.run(&["archive", "show", "text.siltar", "--recovery", "strict"], 2).says(&["--recovery"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\nc\t3\n");
}

#[test]
fn the_shell_exports_the_open_database() {
    let place = filled();
    let made = place.ok(&["shell", "db", "-c", "archive a.siltar --family users"]);
    assert!(made.starts_with("archived 1 entry in a.siltar: 1 family, "), "{made}");
    assert_eq!(place.ok(&["archive", "scan", "a.siltar", "--family", "users"]), "ada\t1815\n");
}

#[test]
fn each_verb_has_its_help() {
    let place = Place::new();
    for verb in ["create", "list", "show", "verify", "scan", "import", "drop", "gc"] {
        let help = place.ok(&["archive", verb, "--help"]);
        assert!(help.contains("Exit codes: 0 done, 1 not"), "{verb}");
        assert!(help.contains("Example:\n  silt archive"), "{verb}");
    }
}
