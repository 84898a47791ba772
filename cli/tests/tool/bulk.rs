//! Bulk loading: sorted imports, table files written and ingested, and what each refuses.

use crate::place::{AIRPORTS, Place};

/// Records of key, tab and value, sorted.
fn lines(keys: std::ops::Range<u32>) -> String {
    keys.map(|key| format!("key{key:06}\tvalue {key}\n")).collect()
}

#[test]
fn a_sorted_import_is_as_any_other_and_past_the_log() {
    let place = Place::new();
    let arguments = ["import", "db", "-", "--format", "lines"];
    place.run_with(&arguments, lines(0..5000).as_bytes(), 0);
    let sorted = ["import", "sorted", "-", "--format", "lines", "--sorted"];
    let run = place.run_with(&sorted, lines(0..5000).as_bytes(), 0);
    assert!(run.stdout.starts_with("imported 5,000 records in 1 table ("), "{}", run.stdout);
    let export = |db: &str| place.run(&["export", db, "-", "--format", "lines"], 0).stdout;
    assert_eq!(export("sorted"), export("db"));
    // Over what is there, into another family, as JSON.
    let more = [&sorted[..], &["--family", "f", "--json"]].concat();
    let run = place.run_with(&more, lines(10..20).as_bytes(), 0);
    let object = &run.json()[0];
    assert_eq!((&object["imported"], &object["done"]), (&10.into(), &10.into()));
    assert_eq!(object["tables"], 1);
    assert_eq!(place.ok(&["count", "sorted", "--family", "f"]), "10\n");
    place.ok(&["check", "sorted"]);
}

#[test]
fn a_sorted_import_names_the_line_that_is_out_of_order_and_imports_nothing() {
    let place = Place::new();
    let sorted = ["import", "db", "-", "--format", "lines", "--sorted"];
    place.run_with(&sorted, b"a\t1\nc\t2\n", 0);
    for (input, line, found) in [
        ("x\t1\ny\t2\nb\t3\n", "line 3", "a key after \"y\", found=\"b\""),
        ("x\t1\nx\t2\n", "line 2", "found=\"x\""),
    ] {
        let run = place.run_with(&sorted, input.as_bytes(), 2);
        run.says(&[line, found, "nothing was written"]);
        assert_eq!(place.ok(&["count", "db"]), "2\n");
    }
    // Behind the first chunk, too.
    let unsorted = lines(0..3000) + "a\tlate\n";
    place.run_with(&sorted, unsorted.as_bytes(), 2).says(&["line 3001", "nothing was written"]);
    assert_eq!(place.ok(&["count", "db"]), "2\n");
    for more in [["--chunk", "5"], ["--durability", "synced"], ["--on-duplicate", "keep"]] {
        place.run(&[&sorted[..], &more].concat(), 2).says(&["cannot be used with"]);
    }
}

#[test]
fn a_table_file_is_written_and_ingested() {
    let place = Place::new();
    let table = |name: &str, keys: std::ops::Range<u32>| {
        let arguments = ["table", "-", name, "--format", "lines"];
        place.run_with(&arguments, lines(keys).as_bytes(), 0).stdout
    };
    assert!(table("1.table", 0..2000).starts_with("wrote 2,000 records to 1.table ("));
    table("2.table", 2000..3000);
    let run = place.run(&["ingest", "db", "2.table", "1.table", "--family", "f"], 0);
    assert!(run.stdout.starts_with("ingested 3,000 records in 2 tables ("), "{}", run.stdout);
    run.says(&["created the database", "created family `f`"]);
    assert_eq!(place.ok(&["count", "db", "--family", "f"]), "3000\n");
    assert_eq!(place.ok(&["get", "db", "key002999", "--family", "f"]), "value 2999\n");
    let run = place.run(&["ingest", "db", "1.table", "--json"], 0);
    assert_eq!(run.json()[0]["ingested"], 2000);
    assert!(place.path("1.table").exists());
    // In a shell, into the family in use.
    let script = "use f\nput key000001 other\ningest 1.table\nget key000001\n";
    let run = place.run_with(&["shell", "db"], script.as_bytes(), 0);
    assert!(run.stdout.contains("ingested 2,000 records in 1 table ("), "{}", run.stdout);
    assert!(run.stdout.ends_with("value 1\n"), "{}", run.stdout);
    place.ok(&["check", "db"]);
    // What a table file is, inspect shows.
    assert!(place.ok(&["inspect", "table", "1.table"]).contains("external"));
    // A csv, by its first column, out of order.
    let run = place.run(&["table", AIRPORTS, "airports.table", "--key", "name"], 2);
    run.says(&["airports.csv: line ", "nothing was written"]);
    assert!(!place.path("airports.table").exists());
}

#[test]
fn bad_table_files_change_nothing() {
    let place = Place::new();
    place.run_with(&["table", "-", "good", "--format", "lines"], lines(0..500).as_bytes(), 0);
    place.run_with(&["table", "-", "good", "--format", "lines"], b"a\t1\n", 1).says(&["exists"]);
    place.run(&["ingest", "db", "missing"], 1).says(&["cannot open missing"]);
    assert!(!place.path("db").exists());
    place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\n", 0);
    let bytes = std::fs::read(place.path("good")).unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    place.write("damaged", damaged);
    place.write("short", &bytes[..bytes.len() / 2]);
    place.write("text", "a\t1\n");
    for name in ["damaged", "short", "text"] {
        place.run(&["ingest", "db", "good", name], 3).says(&[name]);
    }
    let run = place.run(&["ingest", "db", "good", "damaged", "--family", "f"], 3);
    run.says(&["damaged", "dropped family `f` again"]);
    assert_eq!(place.ok(&["families", "db"]), "default\n");
    place.run(&["ingest", "db", "good", "good"], 2).says(&["two tables of an ingest overlap"]);
    place.ok(&["flush", "db"]);
    let own = std::fs::read_dir(place.path("db")).unwrap().map(|entry| entry.unwrap().path());
    let own = own.into_iter().find(|path| path.extension().is_some_and(|name| name == "table"));
    let own = own.unwrap().display().to_string();
    place.run(&["ingest", "db", &own], 2).says(&["not written to be ingested"]);
    assert_eq!(place.ok(&["count", "db"]), "1\n");
    place.ok(&["check", "db"]);
}

/// The bound takes the oldest rows, not those of the import.
#[test]
fn a_sorted_import_into_a_fifo_family_near_its_bound_keeps_the_new_rows() {
    let place = Place::new();
    let rows = |first: u64, count: u64| -> String {
        let row = |n| format!("{n:08}\t{}\n", format!("{n}-").repeat(20));
        (first..first + count).map(row).collect()
    };
    place.ok(&["put", "db", "first", "made"]);
    place.ok(&["families", "create", "db", "events", "compaction=fifo:300000", "compression=none"]);
    let import = ["import", "db", "-", "--format", "lines", "--family", "events", "--sorted"];
    for (first, count) in [(0, 1200), (5000, 1200), (10_000, 2000)] {
        place.run_with(&import, rows(first, count).as_bytes(), 0);
        place.ok(&["compact", "db"]);
    }
    let new = place.ok(&["count", "db", "--family", "events", "--from", "00010000"]);
    let old = place.ok(&["count", "db", "--family", "events", "--to", "00010000"]);
    let old: u64 = old.trim().parse().expect("a number");
    assert_eq!((new.as_str(), old < 2400), ("2000\n", true), "{old} old rows");
}
