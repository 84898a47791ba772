//! freeze, thaw, and the other verbs on a database with a cold directory.

use crate::place::{AIRPORTS, Place};
use serde_json::json;
use std::fs;

fn filled() -> Place {
    let place = Place::new();
    place.run(&["import", "db", AIRPORTS], 0);
    place.ok(&["compact", "db"]);
    place
}

/// The table files in a directory.
fn tables(place: &Place, dir: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(place.path(dir)) else { return Vec::new() };
    let names = entries.map(|entry| entry.expect("it can be listed").file_name());
    let names = names.map(|name| name.into_string().expect("the name is text"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".table")).collect();
    names.sort();
    names
}

#[test]
fn a_family_is_frozen_read_copied_and_thawed() {
    let place = filled();
    let all = place.ok(&["scan", "db"]);
    place.run(&["freeze", "db", "default"], 2).says(&["no cold directory", "`--cold DIR`"]);
    let text = place.ok(&["freeze", "db", "default", "--cold", "disk/cold"]);
    assert!(text.starts_with("frozen default: ") && text.contains(" in the cold tier ("), "{text}");
    assert!(text.trim_end().ends_with(", 0 tables in the hot tier (0 bytes)"), "{text}");
    assert!(tables(&place, "db").is_empty() && !tables(&place, "disk/cold").is_empty());

    // The database knows where they are.
    assert_eq!(place.ok(&["scan", "db"]), all);
    assert!(place.ok(&["check", "db"]).starts_with("ok: "));
    assert!(place.ok(&["scrub", "db"]).starts_with("ok: "));
    let stats = place.run(&["stats", "db", "--json"], 0).json().remove(0);
    assert_eq!((&stats["hot_bytes"], stats["cold_tables"] == 0), (&json!(0), false), "{stats}");
    let manifest = place.ok(&["inspect", "manifest", "db", "--operations"]);
    assert!(manifest.contains("kind=cold-directory") && manifest.contains("tier=cold"));
    let name = tables(&place, "disk/cold").remove(0);
    place.ok(&["inspect", "table", &format!("disk/cold/{name}")]);

    for arguments in [
        ["export", "db", "disk/cold/out.jsonl"].as_slice(),
        &["archive", "create", "db", "disk/cold/all.siltar"],
        &["backup", "create", "db", "disk/cold/backups"],
        &["checkpoint", "db", "disk/cold/copy"],
    ] {
        place.run(arguments, 2).says(&["cold directory"]);
    }
    place.ok(&["backup", "create", "db", "backups"]);
    place.ok(&["restore", "backups", "restored"]);
    place.ok(&["checkpoint", "db", "copy"]);
    place.ok(&["recover", "db", "saved"]);
    for copy in ["restored", "copy", "saved"] {
        assert_eq!(place.ok(&["scan", copy]), all, "{copy}");
    }

    let object = place.run(&["thaw", "db", "default", "--rate", "100000000", "--json"], 0).json();
    assert_eq!((&object[0]["thawed"], &object[0]["cold_bytes"]), (&json!("default"), &json!(0)));
    assert!(!tables(&place, "db").is_empty() && tables(&place, "disk/cold").is_empty());
    assert_eq!(place.ok(&["scan", "db"]), all);
    place.run(&["thaw", "db", "absent"], 1).says(&["no family `absent`"]);
    place.run(&["freeze", "db"], 2);
}

#[test]
fn a_cold_directory_that_is_missing_is_named_and_that_of_another_database_refused() {
    let place = filled();
    let all = place.ok(&["scan", "db"]);
    place.ok(&["freeze", "db", "default", "--cold", "cold"]);
    fs::rename(place.path("cold"), place.path("moved")).expect("it can be moved");
    for verb in ["scan", "check", "compact", "stats"] {
        let run = place.run(&[verb, "db"], 1);
        run.says(&["cold directory is missing", "mount it, or name the place where it is now"]);
    }
    assert!(place.ok(&["check", "db", "--cold", "moved"]).starts_with("ok: "));
    place.ok(&["recover", "db", "saved", "--cold", "moved"]);
    assert_eq!(place.ok(&["scan", "saved"]), all);
    let run = place.run(&["put", "other", "key", "value", "--cold", "moved"], 2);
    run.says(&["belongs to another database"]);
    // A verb that writes stores the new place.
    place.ok(&["put", "db", "zzz", "value", "--cold", "moved"]);
    assert_eq!(place.ok(&["scan", "db"]), format!("{all}zzz\tvalue\n"));

    // A file of it is gone.
    let gone = tables(&place, "moved").remove(0);
    fs::remove_file(place.path("moved").join(&gone)).expect("it can be removed");
    let run = place.run(&["check", "db"], 3);
    assert!(run.stdout.contains(&format!("moved/{gone}")), "{}", run.stdout);
    place.run(&["thaw", "db", "default"], 3).says(&["missing", &gone]);
}

#[test]
fn the_shell_freezes_and_thaws_and_options_name_the_level() {
    let place = filled();
    let run = ["shell", "db", "--cold", "cold", "-c"];
    let text = place.ok(&[&run[..], &["freeze default", "-c", "count"]].concat());
    assert!(text.starts_with("frozen default: "), "{text}");
    let options = place.ok(&["families", "options", "db", "default"]);
    assert!(options.lines().any(|line| line.contains("cold_from_level") && line.contains('0')));
    place.ok(&["families", "options", "db", "default", "cold_from_level=7"]);
    let text = place.ok(&["thaw", "db", "default"]);
    assert!(text.contains("0 tables in the cold tier (0 bytes)"), "{text}");
    place
        .run(&["families", "options", "db", "default", "cold_from_level=8"], 2)
        .says(&["cold_from_level"]);
    place.ok(&["freeze", "db", "default"]);
    place.ok(&["destroy", "db", "--yes"]);
    assert!(!place.path("db").exists() && !place.path("cold").exists());
}

/// Copies the files of a directory, as `cp -r` does.
fn copy_directory(place: &Place, from: &str, to: &str) {
    fs::create_dir(place.path(to)).expect("it can be made");
    for entry in fs::read_dir(place.path(from)).expect("it can be listed") {
        let entry = entry.expect("it can be listed");
        let copied = fs::copy(entry.path(), place.path(to).join(entry.file_name()));
        copied.expect("it can be copied");
    }
}

#[test]
fn a_copied_database_is_refused_until_it_is_adopted_and_the_original_stays_whole() {
    let place = filled();
    let all = place.ok(&["scan", "db"]);
    place.ok(&["freeze", "db", "default", "--cold", "cold"]);
    copy_directory(&place, "db", "copy");
    for arguments in [["thaw", "copy", "default"].as_slice(), &["put", "copy", "k", "v"]] {
        place.run(arguments, 2).says(&["this is a copy", "silt adopt DB"]);
    }
    assert_eq!(place.ok(&["scan", "copy"]), all);
    let adopted = place.ok(&["adopt", "copy"]);
    assert!(adopted.starts_with("copied ") && adopted.contains("bytes"), "{adopted}");
    place.ok(&["thaw", "copy", "default"]);
    place.ok(&["compact", "copy"]);
    assert_eq!(place.ok(&["scan", "copy"]), all);
    place.ok(&["destroy", "copy", "--yes"]);
    assert!(place.ok(&["check", "db"]).starts_with("ok: "));

    copy_directory(&place, "db", "moved");
    place.ok(&["adopt", "moved", "--take-over"]);
    place.ok(&["put", "moved", "zzz", "value"]);
    place.run(&["put", "db", "k", "v"], 2).says(&["silt adopt DB"]);
    assert_eq!(place.ok(&["destroy", "db", "--yes"]), "");
    assert_eq!(place.ok(&["scan", "moved"]), format!("{all}zzz\tvalue\n"));
    // What lies outside of the directory is said.
    assert!(place.ok(&["destroy", "moved", "--yes"]).contains("cold"));
    assert!(!place.path("cold").exists());
    place.run(&["adopt", "absent"], 1).says(&["no database"]);
}
