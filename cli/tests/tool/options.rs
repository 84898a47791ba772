//! Options by name, maintenance of one family or range, neighbours of keys, estimates, destroy.

use crate::place::Place;
use serde_json::json;

fn filled() -> Place {
    let place = Place::new();
    for key in ["a", "b", "c"] {
        place.ok(&["put", "db", key, &format!("value of {key}")]);
    }
    place.ok(&["families", "create", "db", "users"]);
    place.ok(&["put", "db", "u", "1", "--family", "users"]);
    place
}

#[test]
fn options_are_taken_by_name_and_unknown_ones_refused_with_the_names() {
    let place = filled();
    let options = ["--option", "memory_budget=64MiB", "--option", "memtable_bytes=1MiB"];
    assert_eq!(place.ok(&[&["count", "db"][..], &options].concat()), "3\n");
    place.run(&["count", "db", "--option", "memory=1GiB"], 2).says(&["memory_budget", "workers"]);
    place.run(&["count", "db", "--option", "workers=many"], 2).says(&["a number"]);
    place.run(&["count", "db", "--option", "workers"], 2).says(&["NAME=VALUE"]);
    // The opening checks options that depend on each other.
    place.run(&["count", "db", "--option", "memory_budget=1MiB"], 2).says(&["memory_budget"]);
    place.run(&["put", "db", "k", "v", "--option", "read_only=true"], 1).says(&["read-only"]);
    assert_eq!(place.ok(&["count", "db"]), "3\n");
}

#[test]
fn a_new_database_gets_the_options_of_its_default_family() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v", "--option", "default_family.block_bytes=16KiB"]);
    let shown = place.ok(&["families", "options", "db", "default"]);
    assert!(shown.contains("block_bytes=16384\n"), "{shown}");
}

#[test]
fn the_options_of_a_family_are_printed_and_changed() {
    let place = filled();
    let options = |arguments: &[&str]| {
        place.ok(&[&["families", "options", "db", "users"][..], arguments].concat())
    };
    let shown = options(&[]);
    assert!(shown.contains("compression=lz4\n") && shown.contains("block_bytes=4096\n"), "{shown}");
    assert_eq!(options(&["compression=none", "level0_runs=4"]), "");
    let printed = place.run(&["families", "options", "db", "users", "--json"], 0).json();
    assert_eq!(
        (&printed[0]["compression"], &printed[0]["level0_runs"]),
        (&json!("none"), &json!("4"))
    );
    assert!(place.ok(&["families", "options", "db", "default"]).contains("compression=lz4\n"));
    let refused = |change: &str| place.run(&["families", "options", "db", "users", change], 2);
    refused("level0_runs=0").says(&["1..=1000"]);
    refused("levels=3").says(&["level_size_ratio"]);
    refused("levels").says(&["NAME=VALUE"]);
    place.run(&["families", "options", "db", "absent"], 1).says(&["no family `absent`"]);
    assert!(options(&[]).contains("level0_runs=4"));
}

#[test]
fn one_family_or_a_range_is_flushed_and_compacted() {
    let place = filled();
    place.ok(&["flush", "db", "--family", "users"]);
    place.ok(&["compact", "db", "--family", "users"]);
    place.ok(&["compact", "db", "--from", "a", "--to", "b"]);
    place.ok(&["compact", "db", "--family", "users", "--prefix", "u"]);
    place.ok(&["compact", "db", "--from", "b", "--to", "a"]);
    for verb in ["flush", "compact"] {
        place.run(&[verb, "db", "--family", "absent"], 1).says(&["no family `absent`"]);
    }
    let script = "use users\nput v 2\ncompact --from a\nflush --family users\ncompact\ncount\n";
    let run = place.run_with(&["shell", "db"], script.as_bytes(), 0);
    assert!(run.stdout.ends_with("2\n"), "{}", run.stdout);
    assert_eq!(place.ok(&["count", "db"]), "3\n");
}

#[test]
fn the_neighbours_of_a_key_are_printed_with_their_keys() {
    let place = filled();
    assert_eq!(place.ok(&["get", "db", "a", "--next"]), "b\tvalue of b\n");
    assert_eq!(place.ok(&["get", "db", "bb", "--prev"]), "b\tvalue of b\n");
    assert_eq!(place.ok(&["get", "db", "b", "--prev"]), "a\tvalue of a\n");
    place.run(&["get", "db", "c", "--next"], 1).says(&["no key after `c`"]);
    place.run(&["get", "db", "a", "--prev"], 1).says(&["no key before `a`"]);
    place.run(&["get", "db", "a", "--prev", "--next"], 2);
    place.run(&["get", "db", "a", "--raw", "--next"], 2);
    let run = place.run_with(&["shell", "db"], b"get a --next\n", 0);
    assert_eq!(run.stdout, "b\tvalue of b\n");
}

/// A prefix in a variable that is empty would delete everything.
#[test]
fn all_keys_are_deleted_only_when_that_is_said() {
    let place = filled();
    place.ok(&["bucket", "create", "db", "inbox"]);
    place.ok(&["put", "db", "m", "1", "--bucket", "inbox"]);
    let count = place.ok(&["count", "db"]);
    let empty: [&[&str]; 3] = [&["--prefix", ""], &["--from", ""], &["--prefix", "", "--from", ""]];
    for bounds in empty {
        for rest in [&[][..], &["--bucket", "inbox"]] {
            let run = place.run(&[&["delete", "db"][..], bounds, rest].concat(), 2);
            assert!(run.stderr.contains("give --all"), "{}", run.stderr);
        }
        let words: Vec<_> = bounds.iter().map(|word| format!("'{word}'")).collect();
        let script = format!("delete-range {}\n", words.join(" "));
        let run = place.run_with(&["txn", "db", "-"], script.as_bytes(), 2);
        assert!(run.stderr.contains("give --all"), "{}", run.stderr);
    }
    assert_eq!(place.ok(&["count", "db"]), count);
    place.run(&["delete", "db", "--all", "--prefix", "a"], 2);
    place.run(&["delete", "db", "--all", "a"], 2);
    assert_eq!(place.ok(&["delete", "db", "--all", "--bucket", "inbox"]), "1 key deleted\n");
    let deleted = place.run(&["delete", "db", "--all", "--json"], 0).json();
    assert!(deleted[0]["deleted"].as_u64().unwrap() > 1, "{deleted:?}");
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    assert_eq!(place.ok(&["count", "db", "--family", "users"]), "1\n");
    place.run_with(&["txn", "db", "-"], b"delete-range --all --family users\n", 0);
    assert_eq!(place.ok(&["count", "db", "--family", "users"]), "0\n");
}

#[test]
fn a_range_is_deleted_by_one_write() {
    let place = filled();
    let count: u64 = place.ok(&["count", "db", "--from", "b"]).trim().parse().unwrap();
    let shown = place.ok(&["delete", "db", "--from", "b"]);
    assert!(count > 1 && shown == format!("{count} keys deleted\n"), "{shown}");
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "a\n");
    assert_eq!(place.ok(&["count", "db", "--family", "users"]), "1\n");
    assert_eq!(place.ok(&["delete", "db", "--prefix", "a"]), "1 key deleted\n");
    assert_eq!(place.ok(&["delete", "db", "--from", "z", "--to", "a"]), "0 keys deleted\n");
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    place.run(&["delete", "db"], 2);
    place.run(&["delete", "db", "k", "--prefix", "k"], 2);
}

#[test]
fn an_estimate_counts_what_is_stored() {
    let place = filled();
    place.ok(&["flush", "db"]);
    assert_eq!(place.ok(&["count", "db", "--estimate"]), "3\n");
    place.ok(&["put", "db", "a", "again"]);
    assert_eq!(place.ok(&["count", "db", "--estimate", "--from", "x"]), "0\n");
    let estimate = &place.run(&["count", "db", "--estimate", "--json"], 0).json()[0];
    assert_eq!((&estimate["estimate"], &estimate["memory_bytes"]), (&json!(4), &json!(6)));
    assert!(estimate["table_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert_eq!(place.ok(&["count", "db"]), "3\n");
}

#[test]
fn destroy_asks_first_and_leaves_what_is_no_database() {
    let place = filled();
    // Stdin is not a terminal.
    place.run_with(&["destroy", "db"], b"y\n", 2).says(&["--yes"]);
    assert_eq!(place.ok(&["count", "db"]), "3\n");
    place.write("db/notes.txt", "mine");
    place.ok(&["destroy", "db", "--yes"]);
    assert_eq!(place.read("db/notes.txt"), "mine");
    assert_eq!(std::fs::read_dir(place.path("db")).unwrap().count(), 1);
    place.run(&["destroy", "db", "--yes"], 1).says(&["no database"]);
    place.run(&["destroy", "absent", "--yes"], 1).says(&["no database"]);
    place.ok(&["put", "other", "k", "v"]);
    let run = place.run(&["destroy", "other", "--yes", "--json"], 0);
    assert_eq!(run.json(), [json!({ "destroyed": "other" })]);
    assert!(!place.path("other").exists());
}

#[test]
fn tables_are_counted_by_codec_and_zstd_without_its_feature_is_refused_by_name() {
    let place = filled();
    let change =
        |option: &str, code| place.run(&["families", "options", "db", "users", option], code);
    change("compression_per_level=none,snappy", 0);
    change("compression_per_level=lz4,brotli", 2).says(&["none,lz4,zstd:9"]);
    change("compression=zstd:23", 2).says(&["-7..=22"]);
    place.ok(&["flush", "db"]);
    let stats = || place.run(&["stats", "db", "--family", "users", "--json"], 0).json();
    let flushed = stats();
    assert_eq!((&flushed[0]["none_tables"], &flushed[0]["none_raw_bytes"]), (&json!(1), &json!(2)));
    // Level 0 and the last one differ, so the table is rewritten instead of moved.
    place.ok(&["compact", "db", "--family", "users"]);
    assert_eq!(
        (&stats()[0]["snappy_tables"], &stats()[0]["none_tables"]),
        (&json!(1), &json!(null))
    );
    assert!(place.ok(&["stats", "db", "--all"]).contains("lz4_stored_bytes"));
    if cfg!(feature = "zstd") {
        change("compression=zstd:9", 0);
    } else {
        change("compression=zstd:9", 1).says(&["cannot write zstd", "feature `zstd`"]);
    }
}

#[test]
fn a_family_gets_a_prefix_extractor_and_filters_without_whole_keys() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let create = ["families", "create", "db", "rows", "prefix_extractor=separator:/"];
    place.ok(&[&create[..], &["whole_key_filter=false"]].concat());
    let shown = place.ok(&["families", "options", "db", "rows"]);
    assert!(shown.contains("prefix_extractor=separator:/\nwhole_key_filter=false\n"), "{shown}");
    for key in ["a/1", "a/2", "b/1", "short"] {
        place.ok(&["put", "db", key, "v", "--family", "rows"]);
    }
    place.ok(&["compact", "db"]);
    let scan = |arguments: &[&str]| {
        let scan = ["scan", "db", "--family", "rows", "--keys-only"];
        place.ok(&[&scan[..], arguments].concat())
    };
    assert_eq!(scan(&["--prefix", "a/"]), "a/1\na/2\n");
    assert_eq!(scan(&["--prefix", "c/"]), "");
    assert_eq!(scan(&["--prefix", "s"]), "short\n");
    assert_eq!(place.ok(&["get", "db", "short", "--family", "rows"]), "v\n");
    place.ok(&["families", "options", "db", "rows", "prefix_extractor=fixed:1"]);
    assert_eq!(scan(&["--prefix", "b"]), "b/1\n");
    place
        .run(&["families", "options", "db", "rows", "prefix_extractor=fixed:0"], 2)
        .says(&["fixed:BYTES"]);
    // The table that was written before says what its filter has.
    let files = std::fs::read_dir(place.path("db")).expect("a database");
    let names =
        files.map(|file| file.expect("its files").file_name().into_string().expect("a name"));
    let tables = names.filter(|name| name.ends_with(".table"));
    let reports: Vec<_> =
        tables.map(|name| place.ok(&["inspect", "table", &format!("db/{name}")])).collect();
    assert!(reports.iter().any(|report| report.contains("separator:/, without whole keys")));
}

#[test]
fn a_family_gets_a_compaction_strategy_by_name() {
    let place = filled();
    let strategy = |value: &str| {
        let change = format!("compaction={value}");
        place.ok(&["families", "options", "db", "users", &change]);
        place.run(&["families", "options", "db", "users", "--json"], 0).json()[0]["compaction"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(strategy("tiered").as_deref(), Some("tiered:4:200"));
    let stats = place.run(&["stats", "db", "--json"], 0).json();
    assert_eq!((&stats[0]["tiered_families"], &stats[0]["fifo_families"]), (&json!(1), &json!(0)));
    assert_eq!(strategy("fifo:1GiB:90s").as_deref(), Some("fifo:1073741824:90000ms"));
    assert_eq!(strategy("leveled").as_deref(), Some("leveled"));
    let change = "compaction=tiered:9:200";
    place.run(&["families", "options", "db", "users", change], 2).says(&["2..=5"]);
    assert_eq!(place.ok(&["get", "db", "u", "--family", "users"]), "1\n");
}

#[cfg(unix)]
#[test]
fn files_get_the_permissions_that_are_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mode = ["--option", "file_mode=0600"];
    place.run(&[&["put", "db", "key", "value"], &mode[..]].concat(), 0);
    place.run(&[&["backup", "create", "db", "backups"], &mode[..]].concat(), 0);
    place.run(&[&["restore", "backups", "restored"], &mode[..]].concat(), 0);
    for dir in ["db", "backups", "restored"] {
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&place.path(dir)), 0o700, "{dir}");
        for entry in std::fs::read_dir(place.path(dir)).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
    place.run(&["put", "db", "key", "value", "--option", "file_mode=0400"], 2).says(&["file_mode"]);
}
