//! The verbs import and export, also with the real data set.

use crate::place::{AIRPORTS, Place};
use serde_json::json;
use std::collections::BTreeSet;

fn import_airports(place: &Place) {
    let text = place.ok(&["import", "db", AIRPORTS]);
    assert_eq!(text, "imported 3,376 records: 3,376 keys new\n");
}

#[test]
fn the_real_data_set_is_imported_and_found() {
    let place = Place::new();
    import_airports(&place);
    let value = place.ok(&["get", "db", "SFO"]);
    let airport: serde_json::Value = serde_json::from_str(&value).unwrap();
    assert_eq!(airport["city"], "San Francisco");
    assert_eq!(airport["latitude"], "37.61900194");
    assert_eq!(place.ok(&["count", "db"]), "3376\n");
    assert_eq!(place.ok(&["count", "db", "--prefix", "SE"]), "9\n");
}

#[test]
fn csv_comes_back_byte_for_byte() {
    let place = Place::new();
    import_airports(&place);
    assert_eq!(place.ok(&["export", "db", "out.csv"]), "exported 3,376 records\n");
    assert_eq!(place.read("out.csv"), std::fs::read_to_string(AIRPORTS).unwrap());
}

#[test]
fn every_format_brings_every_record_back() {
    let place = Place::new();
    import_airports(&place);
    let all = place.ok(&["scan", "db"]);
    for (file, more) in [
        ("out.csv", &[][..]),
        ("out.csv.gz", &[]),
        ("out.json", &[]),
        ("out.lines.gz", &[]),
        ("out.tsv", &[]),
        ("out.jsonl", &[]),
        ("out.lines", &[]),
        ("escaped.lines", &["--escape"]),
        ("hex.lines", &["--hex"]),
    ] {
        let with = |start: &[&'static str]| [start, more].concat();
        place.ok(&with(&["export", "db"]).iter().copied().chain([file]).collect::<Vec<_>>());
        let copy = format!("copy-{file}");
        let mut arguments = vec!["import", &copy, file];
        arguments.extend(more);
        assert_eq!(place.ok(&arguments), "imported 3,376 records: 3,376 keys new\n");
        assert_eq!(place.ok(&["scan", &copy]), all, "{file}");
    }
}

#[test]
fn any_bytes_survive_escaped_lines() {
    let place = Place::new();
    place.run_with(&["batch", "db", "-", "--hex"], b"put\t\t\nput 00090a5c 0d0aff\n", 0);
    let run = place.run(&["export", "db", "--format", "lines"], 2);
    run.says(&["a key holds a tab or a line end", "--escape"]);
    // The format that the message recommends restores the records.
    let run = place.run(&["export", "db", "--format", "csv"], 2);
    run.says(&["not UTF-8", "lines with --escape or --hex"]);
    assert!(!run.stderr.contains("jsonl"), "{}", run.stderr);
    for form in ["--escape", "--hex"] {
        place.ok(&["export", "db", "out.lines", form]);
        let copy = format!("copy{form}");
        place.ok(&["import", &copy, "out.lines", form]);
        assert_eq!(place.ok(&["scan", &copy, "--hex"]), place.ok(&["scan", "db", "--hex"]));
    }
    let run = place.run(&["export", "db", "--format", "jsonl"], 0);
    assert_eq!(run.json()[1]["value"], json!({ "hex": "0d0aff" }));
}

#[test]
fn stdin_and_stdout_need_a_format() {
    let place = Place::new();
    place.run(&["import", "db", "-"], 2).says(&["--format jsonl, json, csv, tsv or lines"]);
    assert!(!place.path("db").exists());
    let run = place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\nb\t2", 0);
    assert_eq!(run.stdout, "imported 2 records: 2 keys new\n");
    place.run(&["export", "db"], 2).says(&["--format jsonl, json, csv, tsv or lines"]);
    let run = place.run(&["export", "db", "--format", "lines", "--from", "b"], 0);
    assert_eq!(run.stdout, "b\t2\n");
    run.says(&["exported 1 record"]);
    let run = place.run(&["export", "db", "-", "--format", "tsv", "--json"], 0);
    assert_eq!(run.stdout, "key\tvalue\na\t1\nb\t2\n");
    assert_eq!(run.stderr, "{\"exported\":2}\n");
}

#[test]
fn the_key_can_be_any_field() {
    let place = Place::new();
    place.run(&["import", "db", AIRPORTS, "--key", "name"], 0).says(&["warning: 139 of 3,376"]);
    assert!(place.ok(&["get", "db", "Sedona"]).contains("\"iata\":\"SEZ\""));
    let run =
        place.run(&["export", "db", "--format", "csv", "--key", "name", "--prefix", "Sedona"], 0);
    assert!(run.stdout.starts_with("iata,name,"), "{}", run.stdout);
    let run = place.run(&["export", "db", "--format", "csv", "--prefix", "Sedona"], 0);
    assert!(run.stdout.starts_with("key,iata,name,"), "{}", run.stdout);
    let lines = b"{\"n\":1.50,\"x\":{}}\n{\"n\":\"two\"}\n";
    place.run_with(&["import", "numbers", "-", "--format", "jsonl", "--key", "n"], lines, 0);
    assert_eq!(
        place.ok(&["scan", "numbers"]),
        "1.50\t{\"n\":1.50,\"x\":{}}\ntwo\t{\"n\":\"two\"}\n"
    );
    let run = place.run_with(&["import", "db", "-", "--format", "lines", "--key", "n"], b"", 2);
    run.says(&["--key is for csv, tsv, jsonl and json"]);
}

#[test]
fn a_bad_record_ends_the_import_and_says_what_is_in() {
    let place = Place::new();
    for (number, (format, text, expected)) in [
        (
            "csv",
            "id,a\n1,x\n2,y\n3\n",
            "line 4, column 2: expected 2 fields, found 1; --allow-short takes it",
        ),
        ("tsv", "id\ta\n1\tx\n2\ty\n3\tz\tz\n", "line 4, column 3: expected 2 fields, found 3"),
        ("jsonl", "{\"id\":1}\n{\"id\":2}\n{\"id\":}\n", "line 3, column 7: expected value"),
        ("jsonl", "{\"id\":1}\n{\"id\":2}\n{\"x\":3}\n[]", "line 4, column 1: invalid type"),
        ("lines", "1\tx\n2\ty\n3\n", "line 3, column 2: no tab between key and value"),
    ]
    .into_iter()
    .enumerate()
    {
        let db = format!("db{number}");
        let arguments = ["import", &db, "-", "--format", format, "--chunk", "2", "--ack", &db[2..]];
        let run = place.run_with(&arguments, text.as_bytes(), 2);
        let done = "; 2 records were imported before, `--skip 2` goes on after them; `--skip-bad`";
        run.says(&["error: stdin: ", expected, done]);
        assert_eq!(run.stdout, "");
        assert_eq!(place.ok(&["count", &db]), "2\n", "{text}");
        assert_eq!(place.read(&db[2..]), "2\n");
    }
    let run = place.run_with(&["import", "db", "-", "--format", "csv"], b"id\n\xff\n", 2);
    run.says(&["line 2, column 1: not valid UTF-8; a spreadsheet"]);
    let run =
        place.run_with(&["import", "db", "-", "--format", "csv", "--key", "x"], b"id\n1\n", 2);
    run.says(&["no column `x`; there are: id"]);
    let csv = ["import", "db", "-", "--format", "csv", "--key", "x\u{1b}[2J"];
    let run = place.run_with(&csv, b"\x1b[2J\n1\n", 2);
    run.says(&[r"no column `x\x1b[2J`; there are: \x1b[2J"]);
    let jsonl = ["import", "db", "-", "--format", "jsonl"];
    let run = place.run_with(&jsonl, b"{\"\\u001b[2J\":null}\n", 2);
    run.says(&[r"field `\x1b[2J` is null"]);
    let long = format!("{}\t1\n", "k".repeat((64 << 10) + 1));
    let run = place.run_with(&["import", "db", "-", "--format", "lines"], long.as_bytes(), 2);
    run.says(&["line 1", "invalid argument"]);
}

#[test]
fn each_commit_is_acknowledged() {
    let place = Place::new();
    let arguments = ["import", "db", AIRPORTS, "--ack", "acks", "--chunk", "1500"];
    place.ok(&arguments);
    assert_eq!(place.read("acks"), "1500\n3000\n3376\n");
    place.run(&arguments, 0);
    assert_eq!(place.read("acks"), "1500\n3000\n3376\n1500\n3000\n3376\n");
    for chunk in ["0", "-1", "x"] {
        let run = place.run(&["import", "db", AIRPORTS, &format!("--chunk={chunk}")], 2);
        run.says(&["expected a whole number from 1 to "]);
    }
}

#[test]
fn every_durability_is_accepted() {
    let place = Place::new();
    for class in ["volatile", "buffered", "interval:5", "synced"] {
        let run = place.run(&["import", class, AIRPORTS, "--durability", class, "--json"], 0);
        let counts = json!({
            "imported": 3376, "new": 3376, "overwritten": 0, "kept": 0, "bad": 0, "multiline": 0,
            "done": 3376
        });
        assert_eq!(run.json(), [counts]);
        assert_eq!(place.ok(&["count", class]), "3376\n");
    }
    place.run(&["import", "db", "x.csv", "--durability", "interval"], 2).says(&["interval:MS"]);
}

#[test]
fn an_import_into_a_new_family_makes_it() {
    let place = Place::new();
    let arguments = ["import", "db", "-", "--format", "lines", "--family", "users"];
    let run = place.run_with(&arguments, b"a\t1\n", 0);
    assert_eq!(run.stderr, "created the database db\ncreated family `users`\n");
    assert_eq!(place.run_with(&arguments, b"b\t2\n", 0).stderr, "");
    assert_eq!(place.ok(&["scan", "db", "--family", "users"]), "a\t1\nb\t2\n");
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    place.ok(&["export", "db", "users.lines", "--family", "users"]);
    assert_eq!(place.read("users.lines"), "a\t1\nb\t2\n");
}

#[test]
fn what_cannot_be_read_or_written_is_named() {
    let place = Place::new();
    place.run(&["import", "db", "absent.csv"], 1).says(&["cannot open absent.csv"]);
    place.run(&["import", "db", ".", "--format", "csv"], 1).says(&["cannot open ."]);
    place.run(&["import", "db", "x.csv", "--hex"], 2).says(&["are for lines"]);
    assert!(!place.path("db").exists());
    place.write("x.csv", "id\n1\n");
    place.run(&["import", "x.csv", "db"], 2).says(&["the database comes first"]);
    place.ok(&["put", "db", "a", "1"]);
    place.run(&["export", "db", "no/where.csv"], 1).says(&["cannot create no/where.csv"]);
    place.run(&["export", "db", "x.jsonl", "--escape"], 2).says(&["are for lines"]);
}

#[test]
fn an_export_that_fails_leaves_the_one_before_it() {
    let place = Place::new();
    place.run_with(&["batch", "db", "-"], b"put a 1\n", 0);
    place.ok(&["export", "db", "out.lines"]);
    // The second record does not fit the format *lines*.
    place.run_with(&["batch", "db", "-"], b"put b \\n\n", 0);
    place.run(&["export", "db", "out.lines"], 2).says(&["a value holds a line end"]);
    assert_eq!(place.read("out.lines"), "a\t1\n");
    place.run(&["export", "db", "new.lines"], 2);
    let names = || {
        let entries = std::fs::read_dir(place.path("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<BTreeSet<_>>()
    };
    let expected = BTreeSet::from(["db", "out.lines"].map(str::to_owned));
    assert_eq!(names(), expected);
    place.ok(&["export", "db", "out.lines", "--escape"]);
    assert_eq!(place.read("out.lines"), "a\t1\nb\t\\x0a\n");
    assert_eq!(names(), expected);
    for device in ["/dev/null", "/dev/stdout"] {
        place.ok(&["export", "db", device, "--format", "lines", "--escape"]);
    }
}

#[test]
fn an_expiry_goes_through_jsonl_and_json_and_others_say_that_it_is_lost() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v", "--ttl", "1h"]);
    place.ok(&["put", "db", "object", "{\"id\":\"object\"}", "--ttl", "2h"]);
    place.ok(&["put", "db", "lasting", "v"]);
    let shown = |db: &str, key: &str| place.run(&["get", db, key, "--json"], 0).json()[0].clone();
    for file in ["out.jsonl", "out.json", "out.jsonl.gz"] {
        let run = place.run(&["export", "db", file], 0);
        assert!(!run.stderr.contains("expiry"), "{}", run.stderr);
        for (copy, more) in [("plain", None), ("sorted", Some("--sorted"))] {
            let copy = format!("{copy}-{file}");
            let arguments = ["import", &copy, file].into_iter().chain(more);
            place.ok(&arguments.collect::<Vec<_>>());
            for key in ["k", "object", "lasting"] {
                assert_eq!(shown(&copy, key), shown("db", key), "{file}");
            }
        }
    }
    assert!(shown("db", "k")["expires_at"].is_u64());
    for (file, more) in
        [("out.csv", None), ("out.tsv", None), ("out.lines", None), ("hex.lines", Some("--hex"))]
    {
        let arguments = ["export", "db", file].into_iter().chain(more);
        let run = place.run(&arguments.collect::<Vec<_>>(), 0);
        run.says(&["warning", "the expiry of 2 values is left out"]);
    }
    let run = place.run(&["export", "db", "--format", "csv"], 0);
    run.says(&["the expiry of 2 values is left out"]);
    place.ok(&["delete", "db", "k"]);
    place.ok(&["delete", "db", "object"]);
    let run = place.run(&["export", "db", "out.csv"], 0);
    assert!(!run.stderr.contains("expiry"), "{}", run.stderr);
}

#[test]
fn any_bytes_and_nested_text_come_back_from_jsonl() {
    let place = Place::new();
    let operations =
        b"put\t\t\nput 00090a5c 0d0aff\nput 7b7d 7b226b6579223a2261222c2276616c7565223a2262227d\n";
    place.run_with(&["batch", "db", "-", "--hex"], operations, 0);
    place.ok(&["put", "db", "pretty", "{\n \"id\": \"pretty\"\n}"]);
    for file in ["out.jsonl", "out.json"] {
        place.ok(&["export", "db", file]);
        let copy = format!("copy-{file}");
        place.ok(&["import", &copy, file]);
        assert_eq!(
            place.ok(&["scan", &copy, "--hex"]),
            place.ok(&["scan", "db", "--hex"]),
            "{file}"
        );
    }
}
