//! Families with a key order or a TTL: keys as text of the order, and values that expire.

use crate::place::Place;
use serde_json::json;

/// A database with the family `events`, whose keys are a number and a text.
fn filled() -> Place {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.ok(&["families", "create", "db", "events", "key_order=(i64,string)"]);
    for (key, value) in [(r#"(20,"warm")"#, "1"), (r#"(-5, "cold\x00")"#, "2"), (r#"(3,"")"#, "3")]
    {
        place.ok(&["put", "db", key, value, "--family", "events"]);
    }
    place
}

fn on_events(place: &Place, words: &[&str]) -> String {
    place.ok(&[words, &["--family", "events"]].concat())
}

#[test]
fn keys_are_given_and_shown_as_text_of_the_order() {
    let place = filled();
    let all = "(-5,\"cold\\x00\")\t2\n(3,\"\")\t3\n(20,\"warm\")\t1\n";
    assert_eq!(on_events(&place, &["scan", "db"]), all);
    assert_eq!(
        on_events(&place, &["scan", "db", "--keys-only", "--limit", "1", "--reverse"]),
        "(20,\"warm\")\n"
    );
    assert_eq!(on_events(&place, &["get", "db", r#"(-5,"cold\x00")"#]), "2\n");
    assert_eq!(on_events(&place, &["get", "db", r#"(4,"")"#, "--next"]), "(20,\"warm\")\t1\n");
    assert_eq!(on_events(&place, &["get", "db", r#"(4,"")"#, "--prev"]), "(3,\"\")\t3\n");
    assert_eq!(on_events(&place, &["count", "db", "--from", r#"(3,"")"#]), "2\n");
    assert_eq!(on_events(&place, &["scan", "db", "--to", r#"(3,"")"#]), "(-5,\"cold\\x00\")\t2\n");
    let run = place.run(&["scan", "db", "--json", "--limit", "1", "--family", "events"], 0);
    assert_eq!(run.json(), [json!({ "key": r#"(-5,"cold\x00")"#, "value": "2" })]);
    on_events(&place, &["compact", "db", "--from", r#"(3,"")"#]);
    on_events(&place, &["delete", "db", r#"(3,"")"#]);
    on_events(&place, &["delete", "db", "--from", r#"(7,"")"#]);
    assert_eq!(on_events(&place, &["count", "db"]), "1\n");
}

#[test]
fn bytes_of_keys_are_given_and_shown_in_the_other_forms() {
    let place = filled();
    let first = on_events(&place, &["scan", "db", "--hex", "--limit", "1"]);
    assert_eq!(first, "7ffffffffffffffb636f6c6400\t32\n");
    assert_eq!(on_events(&place, &["get", "db", "--hex", "7ffffffffffffffb636f6c6400"]), "32\n");
    assert_eq!(on_events(&place, &["count", "db", "--hex", "--prefix", "80"]), "2\n");
    // Bytes that are no key of the order are found where they are read.
    on_events(&place, &["put", "db", "--hex", "ff", "76"]);
    let run = place.run(&["scan", "db", "--family", "events"], 3);
    run.says(&["(i64,string)", "--hex"]);
    assert_eq!(on_events(&place, &["count", "db"]), "4\n");
}

#[test]
fn texts_that_are_no_key_of_the_order_are_refused() {
    let place = filled();
    let refused = |words: &[&str]| place.run(&[words, &["--family", "events"]].concat(), 2);
    refused(&["get", "db", "7"]).says(&["(i64,string)", "\"7\""]);
    refused(&["put", "db", r#"(7,"a"#, "v"]).says(&["not a key"]);
    refused(&["delete", "db", "--from", "x"]).says(&["not a key"]);
    refused(&["scan", "db", "--prefix", "(7"]).says(&["--prefix", "--hex"]);
    let missing = place.run(&["get", "db", r#"(7,"a")"#, "--family", "events"], 1);
    missing.says(&[r#"no key `(7,"a")`"#]);
    place.run(&["bucket", "create", "db", "a", "--family", "events"], 2).says(&["key order"]);
    assert_eq!(on_events(&place, &["count", "db"]), "3\n");
}

#[test]
fn the_order_is_chosen_once() {
    let place = filled();
    let create = |name: &str, option: &str, exit_code: i32| {
        place.run(&["families", "create", "db", name, option], exit_code)
    };
    create("other", "key_order=u46", 2).says(&["name of an order"]);
    create("other", "order=u64", 2).says(&["key_order"]);
    create("words", "key_order=string", 0);
    place.ok(&["put", "db", "abc", "1", "--family", "words"]);
    assert_eq!(place.ok(&["scan", "db", "--prefix", "ab", "--family", "words"]), "abc\t1\n");
    let change = ["families", "options", "db", "words", "key_order=u64"];
    place.run(&change, 2).says(&["a family keeps its key order"]);
    place.ok(&["families", "options", "db", "words", "key_order=string", "block_bytes=2048"]);
    let shown = place.ok(&["families", "options", "db", "words"]);
    assert!(shown.contains("key_order=string\n") && shown.contains("block_bytes=2048"), "{shown}");
}

#[test]
fn exports_hold_the_text_of_keys_and_imports_take_it() {
    let place = filled();
    place.ok(&["families", "create", "db", "copy", "key_order=(i64,string)"]);
    for (number, file) in ["out.csv", "out.jsonl", "out.json", "out.tsv"].iter().enumerate() {
        on_events(&place, &["export", "db", file]);
        let text = place.read(file);
        assert!(text.contains("20,") && text.contains("warm"), "{text}");
        place.run(&["import", "db", file, "--family", "copy"], 0);
        let copied = place.ok(&["count", "db", "--family", "copy"]);
        assert_eq!(copied, "3\n", "after {} formats", number + 1);
    }
    on_events(&place, &["export", "db", "out.lines", "--format", "lines", "--escape"]);
    let words = ["import", "db", "out.lines", "--format", "lines", "--escape", "--family", "copy"];
    place.run(&words, 0);
    assert_eq!(place.ok(&["count", "db", "--family", "copy"]), "3\n");
    // Rows whose key is none.
    place.ok(&["families", "create", "db", "numbers", "key_order=u8"]);
    place.write("in.csv", "n,word\n10,ten\n9,nine\n256,many\n2,two\n");
    let import = ["import", "db", "in.csv", "--family", "numbers"];
    place.run(&import, 2).says(&["line 4", "u8"]);
    assert_eq!(place.ok(&["count", "db", "--family", "numbers"]), "0\n");
    place.run(&[&import[..], &["--skip-bad"]].concat(), 0);
    // Sorted as numbers, not as text.
    place.write("sorted.csv", "n,word\n2,two\n9,nine\n10,ten\n");
    place.run(&["import", "db", "sorted.csv", "--sorted", "--family", "numbers"], 0);
    let keys = place.ok(&["scan", "db", "--keys-only", "--family", "numbers"]);
    assert_eq!(keys, "2\n9\n10\n");
}

#[test]
fn the_log_shows_keys_as_text_of_the_order() {
    let place = filled();
    place.ok(&["delete", "db", "--from", r#"(3,"")"#, "--to", r#"(20,"x")"#, "--family", "events"]);
    // The end of such a range is no key.
    place.ok(&["delete", "db", "--hex", "--prefix", "80", "--family", "events"]);
    let all = "1\tput\tdefault\tk\tv\n\
        2\tput\tevents\t(20,\"warm\")\t1\n\
        3\tput\tevents\t(-5,\"cold\\x00\")\t2\n\
        4\tput\tevents\t(3,\"\")\t3\n\
        5\tdelete-range\tevents\t(3,\"\")\t(20,\"x\")\n\
        6\tdelete-range\tevents\t\\x80\t\\x81\n";
    let changes = |words: &[&str]| {
        let run = place.run(&[&["watch", "db"], words].concat(), 0);
        let lines = run.stdout.lines().filter(|line| !line.contains("\tcreate-family\t"));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(changes(&[]), all);
    let bytes = changes(&["--family", "events", "--hex", "--prefix", "7f"]);
    assert_eq!(bytes, "3\tput\tevents\t7ffffffffffffffb636f6c6400\t32\n");
    let run = place.run(&["watch", "db", "--json", "--from", "5"], 0);
    let operation = &run.json()[0]["operations"][0];
    assert_eq!(
        (&operation["key"], &operation["end"]),
        (&json!(r#"(3,"")"#), &json!(r#"(20,"x")"#))
    );
    let prefix = ["watch", "db", "--family", "events", "--prefix", "(3"];
    place.run(&prefix, 2).says(&["--prefix", "--hex"]);
    place.run(&["follow", "db", "--family", "events", "--prefix", "(3"], 2).says(&["--hex"]);
}

#[test]
fn batches_scripts_and_atomic_steps_take_text_of_the_order() {
    let place = filled();
    place.ok(&["families", "create", "db", "counters", "key_order=i8"]);
    let batch = ["batch", "db", "-", "--family", "counters"];
    place.run_with(&batch, b"put -3 5\nput 4 1\ndelete 4\n", 0);
    place.run_with(&batch, b"put 1 1\nput 200 1\n", 2).says(&["line 2", "i8", "nothing was"]);
    place.run_with(&[&batch[..], &["--hex"]].concat(), b"put 82 37\n", 0);
    assert_eq!(place.ok(&["scan", "db", "--family", "counters"]), "-3\t5\n2\t7\n");
    assert_eq!(place.ok(&["incr", "db", "-3", "2", "--family", "counters"]), "7\n");
    place.ok(&["cas", "db", "2", "--expect", "7", "--new", "8", "--family", "counters"]);
    let cas = ["cas", "db", "2", "--expect", "7", "--new", "8", "--family", "counters"];
    place.run(&cas, 6).says(&["the key `2` has the value `8`"]);
    let script = b"check -3 = 7\nincr -3\nput 100 x\ndelete-range --from 50\n\
        put '(3,\"\")' changed --family events\ncheck 100 absent\n";
    place.run_with(&["txn", "db", "-", "--family", "counters"], script, 0);
    assert_eq!(place.ok(&["scan", "db", "--family", "counters"]), "-3\t8\n2\t8\n");
    assert_eq!(on_events(&place, &["get", "db", r#"(3,"")"#]), "changed\n");
    let script = b"put 1 x\ncheck -3 = 1\n";
    let run = place.run_with(&["txn", "db", "-", "--family", "counters"], script, 6);
    run.says(&["line 2", "`-3` is `8`"]);
    let run = place.run_with(&["txn", "db", "-", "--family", "counters"], b"put x 1\n", 2);
    run.says(&["line 1", "i8"]);
    assert_eq!(place.ok(&["count", "db", "--family", "counters"]), "2\n");
}

#[test]
fn branches_archives_and_table_files_have_the_order() {
    let place = filled();
    let to_branch = ["--family", "events", "--branch", "fix"];
    place.ok(&["branch", "create", "db", "fix"]);
    place.ok(&[&["put", "db", r#"(3,"")"#, "fixed"], &to_branch[..]].concat());
    let diff = place.ok(&["branch", "diff", "db", "main", "fix"]);
    assert_eq!(diff, "-\tevents\t(3,\"\")\t3\n+\tevents\t(3,\"\")\tfixed\n");
    let json = place.run(&["branch", "diff", "db", "main", "fix", "--json"], 0).json();
    assert_eq!(json[0]["key"], r#"(3,"")"#);
    on_events(&place, &["put", "db", r#"(3,"")"#, "main"]);
    let conflict = place.run(&["branch", "merge", "db", "fix"], 5);
    assert_eq!(conflict.stdout, "conflict\tevents\t(3,\"\")\n");
    place.run(&["branch", "merge", "db", "fix", "--take", "theirs"], 0);

    place.ok(&["archive", "create", "db", "a.siltar"]);
    let scan = ["archive", "scan", "a.siltar", "--family", "events", "--from", r#"(3,"")"#];
    let shown = "(3,\"\")\tfixed\n(20,\"warm\")\t1\n";
    assert_eq!(place.ok(&scan), shown);
    place.run(&["archive", "import", "new", "a.siltar"], 0);
    let from = ["scan", "new", "--family", "events", "--from", r#"(3,"")"#];
    assert_eq!(place.ok(&from), shown);

    // Sorted as numbers, not as text.
    place.write("in.csv", "n,word\n2,two\n9,nine\n10,ten\n");
    place.run(&["table", "in.csv", "plain.table"], 2).says(&["line 4", "nothing was written"]);
    place.ok(&["table", "in.csv", "n.table", "key_order=u8", "ttl=7d", "compression=none"]);
    place.run(&["table", "in.csv", "x.table", "key_order=u46"], 2).says(&["name of an order"]);
    place.run(&["ingest", "db", "n.table"], 2).says(&["another key order", "u8"]);
    place.ok(&["families", "create", "db", "numbers", "key_order=u8"]);
    place.ok(&["ingest", "db", "n.table", "--family", "numbers"]);
    let keys = place.ok(&["scan", "db", "--keys-only", "--family", "numbers"]);
    assert_eq!(keys, "2\n9\n10\n");
}

#[test]
fn a_put_with_a_ttl_expires() {
    let place = Place::new();
    place.ok(&["put", "db", "gone", "v", "--ttl", "0s"]);
    place.ok(&["put", "db", "there", "v", "--ttl", "12h"]);
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "there\n");
    place.run(&["get", "db", "gone"], 1);
    place.run(&["put", "db", "k", "v", "--ttl", "soon"], 2).says(&["ms, s, m, h or d"]);
    place.run(&["put", "db", "k", "v", "--ttl", "1s", "--bucket", "b"], 2).says(&["--bucket"]);
    let script = "begin\nput in_transaction v --ttl 0s\nput stays v\ncommit\nscan --keys-only\n";
    let run = place.run_with(&["shell", "db"], script.as_bytes(), 0);
    assert!(run.stdout.contains("stays\nthere\n"), "{}", run.stdout);
    assert!(!run.stdout.contains("in_transaction"), "{}", run.stdout);
}

#[test]
fn a_family_with_a_ttl_gives_it_to_each_put() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.ok(&["families", "create", "db", "short", "--ttl", "1ms", "compression=none"]);
    place.ok(&["families", "create", "db", "long", "--ttl", "7d"]);
    for family in ["short", "long"] {
        place.ok(&["put", "db", "default", "v", "--family", family]);
        place.ok(&["put", "db", "own", "v", "--ttl", "1h", "--family", family]);
    }
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(place.ok(&["scan", "db", "--keys-only", "--family", "short"]), "own\n");
    assert_eq!(place.ok(&["scan", "db", "--keys-only", "--family", "long"]), "default\nown\n");
    let options = |name: &str| place.ok(&["families", "options", "db", name]);
    assert!(options("long").contains("ttl=604800000ms\n"), "{}", options("long"));
    place.ok(&["families", "options", "db", "short", "ttl=0s"]);
    place.ok(&["put", "db", "stays", "v", "--family", "short"]);
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(place.ok(&["count", "db", "--family", "short"]), "2\n");
    assert!(options("short").contains("ttl=0ms\n") && options("short").contains("=none\n"));
}

#[test]
fn the_old_name_of_an_order_is_taken_for_the_new_one() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place.ok(&["families", "create", "db", "old", "key_order=caseless"]);
    let options = place.ok(&["families", "options", "db", "old"]);
    assert!(options.contains("key_order=caseless-ascii\n"), "{options}");
    place.write("lines", "apple\t1\nREADME\t2\nreadme\t3\nZebra\t4\n");
    for (table, name) in [("a.sst", "caseless"), ("b.sst", "caseless-ascii")] {
        let option = format!("key_order={name}");
        place.ok(&["table", "lines", table, "--format", "lines", &option]);
        place.ok(&["ingest", "db", table, "--family", "old"]);
    }
    let keys = place.ok(&["scan", "db", "--family", "old", "--keys-only"]);
    assert_eq!(keys, "\"apple\"\n\"README\"\n\"readme\"\n\"Zebra\"\n".replace('"', ""));
    place.run(&["families", "create", "db", "f", "key_order=caseless-unicode"], 2);
}
