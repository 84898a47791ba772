//! backup create, list, verify, prune; restore; and checkpoints of chosen families.

use crate::place::Place;
use serde_json::json;

fn filled() -> Place {
    let place = Place::new();
    place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\nb\t2\nc\t3\n", 0);
    place
}

/// The names in the directory of backups that end like this, sorted.
fn files(place: &Place, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(place.path("backups")).expect("there are backups");
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let names = names.map(|name| name.into_string().expect("the name is text"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
    names.sort();
    names
}

#[test]
fn backups_are_made_listed_restored_and_pruned() {
    let place = filled();
    let made = place.ok(&["backup", "create", "db", "backups"]);
    assert!(made.starts_with("backup 1 in backups: 1 file, "), "{made}");
    place.ok(&["put", "db", "d", "4"]);
    let object = place.run(&["backup", "create", "db", "backups", "--json"], 0).json().remove(0);
    assert_eq!((&object["number"], &object["copied_files"]), (&json!(2), &json!(1)), "{object}");
    assert_eq!(object["sequence"], 4);
    place.ok(&["delete", "db", "a"]);
    place.ok(&["backup", "create", "db", "backups", "--rate", "100000000"]);

    let list = place.ok(&["backup", "list", "backups"]);
    assert_eq!(list.lines().count(), 3);
    assert!(list.starts_with("1\t20") && list.contains("Z\tsequence 3\t1 file\t"), "{list}");
    let objects = place.run(&["backup", "list", "backups", "--json"], 0).json();
    assert_eq!(objects[2]["number"], 3);
    assert!(objects[0]["created_ms"].as_u64().unwrap() > 1_700_000_000_000);
    assert_eq!(objects[0]["source"], "db");

    let ok = place.ok(&["backup", "verify", "backups"]);
    assert!(ok.starts_with("ok: 3 backups, 3 files, "), "{ok}");
    let report = place.run(&["backup", "verify", "backups", "--at", "2", "--json"], 0).json();
    assert_eq!((&report[0]["ok"], &report[0]["backups"]), (&json!(true), &json!(1)));

    let restored = place.ok(&["restore", "backups", "newest.db"]);
    assert!(restored.starts_with("backup 3 restored in newest.db: sequence 5, "), "{restored}");
    assert_eq!(place.ok(&["scan", "newest.db"]), "b\t2\nc\t3\nd\t4\n");
    let object = place.run(&["restore", "backups", "first.db", "--at", "1", "--json"], 0).json();
    assert_eq!((&object[0]["number"], &object[0]["sequence"]), (&json!(1), &json!(3)));
    assert_eq!(place.ok(&["scan", "first.db"]), "a\t1\nb\t2\nc\t3\n");
    assert!(place.ok(&["check", "first.db"]).starts_with("ok: "));

    let pruned = place.ok(&["backup", "prune", "backups", "--keep", "2"]);
    assert!(pruned.starts_with("removed 1 backup and 0 files, 0 bytes"), "{pruned}");
    let object = place.run(&["backup", "prune", "backups", "--keep", "1", "--json"], 0).json();
    assert_eq!(object[0]["removed"], json!([2]));
    assert_eq!(files(&place, ".backup"), ["000003.backup"]);
    place.run(&["restore", "backups", "gone.db", "--at", "1"], 1).says(&["no backup has this"]);
}

#[test]
fn damaged_backups_are_named_and_end_with_exit_code_3() {
    let place = filled();
    place.ok(&["backup", "create", "db", "backups"]);
    let table = files(&place, ".table").remove(0);
    let path = place.path("backups").join(&table);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let run = place.run(&["backup", "verify", "backups"], 3);
    run.says(&["damaged backups: 1"]);
    assert!(run.stdout.contains(&table) && run.stdout.contains("bad checksum"), "{}", run.stdout);
    let report = place.run(&["backup", "verify", "backups", "--json"], 3).json().remove(0);
    assert_eq!((&report["ok"], &report["damaged"]), (&json!(false), &json!([1])));
    assert!(report["errors"][0]["file"].as_str().unwrap().ends_with(&table));
    place.run(&["restore", "backups", "new.db"], 3).says(&["bad checksum", &table]);
    assert!(!place.path("new.db").exists());
    let list = place.path("backups").join("000001.backup");
    std::fs::write(&list, b"short").unwrap();
    place.run(&["backup", "list", "backups"], 3).says(&["1 backup cannot be read"]);
    place.run(&["restore", "backups", "new.db"], 3).says(&["000001.backup"]);
}

#[test]
fn bad_places_are_named() {
    let place = filled();
    place.run(&["backup", "create", "db", "db"], 2).says(&["belongs to a database"]);
    place.run(&["backup", "create", "db", "db/backups"], 2).says(&["belongs to a database"]);
    place.run(&["backup", "create", "absent", "backups"], 1).says(&["absent"]);
    assert!(!place.path("backups").exists());
    place.write("file", "mine");
    place.run(&["backup", "create", "db", "file"], 2).says(&["is a file"]);
    place.run(&["backup", "create", "db", "file/backups"], 1);
    place.run(&["backup", "create", "db", "."], 2).says(&["holds other files"]);
    for verb in ["list", "verify"] {
        place.run(&["backup", verb, "absent"], 1).says(&["no backup in the directory"]);
        place.run(&["backup", verb, "db"], 2).says(&["holds a database"]);
    }
    place.ok(&["backup", "create", "db", "backups"]);
    place.run(&["restore", "backups", "db"], 1).says(&["already exists"]);
    place.run(&["restore", "backups", "db/inside"], 2).says(&["belongs to a database"]);
    place.run(&["restore", "db", "new.db"], 2).says(&["holds a database"]);
    place.run(&["backup", "prune", "backups", "--keep", "0"], 2).says(&["--keep"]);
    place.run(&["backup", "create", "db", "backups", "--rate", "0"], 2).says(&["--rate"]);
    place.run(&["restore", "backups", "new.db", "--recovery", "strict"], 2).says(&["--recovery"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\nc\t3\n");
}

#[test]
fn a_backup_beside_the_database_is_made_from_within_it() {
    let place = filled();
    let within = |arguments: &[&str]| {
        let output = place.command(arguments).current_dir(place.path("db")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = within(&["backup", "create", ".", "../backups"]);
    assert_eq!(code, Some(0), "{stderr}");
    let (code, stderr) = within(&["restore", "../backups", "../new"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(place.ok(&["scan", "new"]), "a\t1\nb\t2\nc\t3\n");
    let (code, stderr) = within(&["backup", "create", ".", "../db/backups"]);
    assert!(code == Some(2) && stderr.contains("belongs to a database"), "{stderr}");
}

#[test]
fn a_checkpoint_holds_the_families_that_are_named() {
    let place = filled();
    place.ok(&["families", "create", "db", "users"]);
    place.ok(&["families", "create", "db", "logs"]);
    place.ok(&["put", "db", "ada", "1815", "--family", "users"]);
    let made = place.ok(&["checkpoint", "db", "copy", "--family", "users", "--copy"]);
    assert!(made.starts_with("checkpoint in copy: 0 files linked, 1 copied"), "{made}");
    assert_eq!(place.ok(&["families", "copy"]), "default\nusers\n");
    assert_eq!(place.ok(&["scan", "copy"]), "");
    assert_eq!(place.ok(&["get", "copy", "ada", "--family", "users"]), "1815\n");
    place.run(&["checkpoint", "db", "other", "--family", "absent"], 1).says(&["absent"]);
    assert!(!place.path("other").exists() && !place.path("other.partial").exists());
}

#[test]
fn a_checkpoint_is_of_the_branch_that_is_named_or_checked_out() {
    let place = Place::new();
    place.ok(&["put", "db", "key", "main"]);
    place.ok(&["families", "create", "db", "users"]);
    place.ok(&["branch", "create", "db", "fix"]);
    place.ok(&["put", "db", "key", "branch", "--branch", "fix"]);
    place.ok(&["put", "db", "ada", "1815", "--branch", "fix", "--family", "users"]);
    place.ok(&["checkpoint", "db", "fixed", "--branch", "fix"]);
    assert_eq!(place.ok(&["get", "fixed", "key"]), "branch\n");
    assert_eq!(place.ok(&["get", "fixed", "ada", "--family", "users"]), "1815\n");
    place.run(&["checkpoint", "db", "none", "--branch", "absent"], 1).says(&["absent"]);
    place.ok(&["branch", "checkout", "db", "fix"]);
    place.ok(&["checkpoint", "db", "users", "--family", "users"]);
    assert_eq!(place.ok(&["get", "users", "ada", "--family", "users"]), "1815\n");
    place.ok(&["checkpoint", "db", "on-main", "--family", "users", "--branch", "main"]);
    assert_eq!(place.ok(&["scan", "on-main", "--family", "users"]), "");
    // All of it, with its branches and the one that is checked out.
    place.ok(&["checkpoint", "db", "all"]);
    assert_eq!(place.ok(&["get", "all", "key", "--branch", "main"]), "main\n");
    assert_eq!(place.ok(&["get", "all", "key"]), "branch\n");
    assert!(!place.path("none").exists());
}

#[test]
fn backups_of_another_database_are_refused() {
    let place = filled();
    place.ok(&["backup", "create", "db", "backups"]);
    place.ok(&["put", "other", "key", "value"]);
    place
        .run(&["backup", "create", "other", "backups"], 2)
        .says(&["foreign backups", "a directory of its own"]);
    place.ok(&["backup", "create", "db", "backups"]);
}

#[test]
fn the_shell_makes_a_backup_of_the_open_database() {
    let place = filled();
    let made = place.ok(&["shell", "db", "-c", "backup backups"]);
    assert!(made.starts_with("backup 1 in backups: "), "{made}");
    place.ok(&["restore", "backups", "new.db"]);
    assert_eq!(place.ok(&["count", "new.db"]), "3\n");
}

/// What a list says of its source is data of a stranger.
#[test]
fn what_a_source_is_called_cannot_steer_the_terminal() {
    let place = Place::new();
    let hostile = "d\u{1b}[2J\tb\nfake\u{9b}2J";
    place.run(&["put", hostile, "key", "value"], 0);
    place.run(&["backup", "create", hostile, "backups"], 0);
    place.run(&["archive", "create", hostile, "a.siltar"], 0);
    let backups = place.ok(&["backup", "list", "backups"]);
    assert!(backups.ends_with("\td\\x1b[2J\\x09b\\x0afake\\xc2\\x9b2J\n"), "{backups:?}");
    let archives =
        [place.ok(&["archive", "list", "."]), place.ok(&["archive", "show", "a.siltar"])];
    for text in archives.iter().chain([&backups]) {
        assert!(!text.contains(['\u{1b}', '\u{9b}']), "{text:?}");
    }
    let run = place.run(&["restore", "backups", "new\u{1b}[2J"], 0);
    assert!(!run.stdout.contains('\u{1b}'), "{:?}", run.stdout);
}

/// A restore of an earlier backup is a past of the newest no more; the user says that it goes on.
#[test]
fn a_restored_database_is_backed_up_after_newer_backups_only_with_adopt() {
    let place = filled();
    place.ok(&["backup", "create", "db", "backups"]);
    place.ok(&["put", "db", "d", "4"]);
    place.ok(&["backup", "create", "db", "backups"]);
    place.ok(&["restore", "backups", "restored", "--at", "1"]);
    place.ok(&["put", "restored", "other", "5"]);
    let create = ["backup", "create", "restored", "backups"];
    place.run(&create, 2).says(&["--adopt"]);
    assert_eq!(files(&place, ".backup"), ["000001.backup", "000002.backup"]);
    place.ok(&[&create[..], &["--adopt"]].concat());
    place.ok(&["restore", "backups", "newest"]);
    assert_eq!(place.ok(&["scan", "newest"]), "a\t1\nb\t2\nc\t3\nother\t5\n");
    place.ok(&["restore", "backups", "before", "--at", "2"]);
    assert_eq!(place.ok(&["get", "before", "d"]), "4\n");
}

#[test]
fn a_restore_or_checkpoint_that_fails_leaves_nothing() {
    let place = filled();
    place.ok(&["flush", "db"]);
    place.ok(&["backup", "create", "db", "backups"]);
    let table = files(&place, ".table").remove(0);
    let path = place.path("backups").join(table);
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).expect("it is ours");
    place.run(&["restore", "backups", "new"], 3);
    for entry in std::fs::read_dir(place.path("db")).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|extension| extension == "table") {
            std::fs::remove_file(path).expect("it is ours");
        }
    }
    place.run(&["checkpoint", "db", "copy"], 3);
    for name in ["new", "new.partial", "copy", "copy.partial"] {
        assert!(!place.path(name).exists(), "{name}");
    }
}

/// The place of an unfinished copy is a link to a directory of the user's.
#[test]
fn a_copy_whose_unfinished_place_is_a_link_leaves_what_it_leads_to() {
    let place = filled();
    place.ok(&["backup", "create", "db", "backups"]);
    std::fs::create_dir(place.path("elsewhere")).expect("it is ours");
    place.write("elsewhere/notes", "mine");
    std::os::unix::fs::symlink("elsewhere", place.path("new.partial")).expect("it is ours");
    for arguments in [["checkpoint", "db", "new"], ["restore", "backups", "new"]] {
        place.run(&arguments, 1).says(&["notes"]);
        let left = std::fs::read_dir(place.path("elsewhere")).expect("it is there").count();
        assert_eq!((left, place.read("elsewhere/notes").as_str()), (1, "mine"), "{arguments:?}");
        assert!(place.path("new.partial").is_symlink() && !place.path("new").exists());
    }
}
