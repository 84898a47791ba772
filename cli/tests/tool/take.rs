//! Verbs that return what they change, lookups of several keys, the expiry of an import, and ranges
//! in a batch.

use crate::place::Place;
use serde_json::json;

#[test]
fn several_keys_are_looked_up_at_once() {
    let place = Place::new();
    place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\nb\t2\nc\t3\n", 0);
    assert_eq!(place.ok(&["get", "db", "c", "a"]), "c\t3\na\t1\n");
    let run = place.run(&["get", "db", "x", "b", "y"], 1);
    assert_eq!(run.stdout, "b\t2\n");
    run.says(&["not found: no key `x`, `y`"]);
    place.run(&["get", "db", "a", "b", "--raw"], 2);
    let run =
        place.run_with(&["shell", "db"], b"begin t\nput b new\nget a b\nrollback\nget a b\n", 0);
    assert!(
        run.stdout.ends_with("a\t1\nb\t2\n") && run.stdout.contains("b\tnew"),
        "{}",
        run.stdout
    );
}

#[test]
fn a_value_is_taken_once() {
    let place = Place::new();
    place.run(&["take", "db", "a"], 1);
    assert!(!place.path("db").exists());
    place.ok(&["put", "db", "a", "1"]);
    assert_eq!(place.ok(&["take", "db", "a"]), "1\n");
    place.run(&["take", "db", "a"], 1).says(&["not found: no key `a`"]);
    place.ok(&["put", "db", "a", "2"]);
    place.run_with(&["shell", "db"], b"begin t\ntake a\nrollback\n", 0);
    assert_eq!(place.ok(&["get", "db", "a"]), "2\n");
}

#[test]
fn entries_are_popped_from_both_ends() {
    let place = Place::new();
    place.run_with(&["import", "db", "-", "--format", "lines"], b"a\t1\nb\t2\nc\t3\n", 0);
    assert_eq!(place.ok(&["pop", "db"]), "a\t1\n");
    assert_eq!(place.ok(&["pop", "db", "--last"]), "c\t3\n");
    let run = place.run_with(&["shell", "db"], b"pop --json\n", 0);
    assert_eq!(run.json(), [json!({ "key": "b", "value": "2" })]);
    place.run(&["pop", "db"], 1).says(&["not found: no key: the family is empty"]);
}

#[test]
fn ids_ascend_and_none_comes_twice() {
    let place = Place::new();
    assert_eq!(place.ok(&["next-id", "db", "jobs"]), "1\n");
    assert_eq!(place.ok(&["next-id", "db", "jobs", "--json"]), "{\"id\":2}\n");
    let run = place.run_with(&["shell", "db"], b"next-id jobs\nnext-id other\n", 0);
    assert_eq!(run.stdout, "3\n1\n");
    place.ok(&["put", "db", "text", "x"]);
    place.run(&["next-id", "db", "text"], 2).says(&["no counter of ids"]);
}

#[test]
fn an_import_gives_values_an_expiry() {
    let place = Place::new();
    let rows = b"{\"id\":\"a\"}\n{\"key\":\"b\",\"value\":\"v\",\"expires_at\":32503680000000}\n";
    for (family, more) in [("f", &[][..]), ("g", &["--sorted"])] {
        let arguments = ["import", "db", "-", "--format", "jsonl", "--ttl", "1h"];
        let arguments = [&arguments[..], &["--family", family], more].concat();
        place.run_with(&arguments, rows, 0);
        let run = place.run(&["export", "db", "--format", "jsonl", "--family", family], 0);
        let exported = run.json();
        assert!(exported[0]["expires_at"].as_u64().is_some_and(|ms| ms < 32_503_680_000_000));
        assert_eq!(exported[1]["expires_at"], 32_503_680_000_000_u64);
    }
    place.run_with(&["import", "db", "-", "--format", "lines", "--ttl", "1ms"], b"k\tv\n", 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    place.run(&["get", "db", "k"], 1);
}

#[test]
fn a_batch_deletes_ranges_in_the_order_of_its_lines() {
    let place = Place::new();
    let lines = b"put a 1\nput b 2\nput c 3\ndelete-range a c\nput b 4\n";
    assert_eq!(place.run_with(&["batch", "db", "-"], lines, 0).stdout, "applied 5 operations\n");
    assert_eq!(place.ok(&["scan", "db"]), "b\t4\nc\t3\n");
    place.run_with(&["batch", "db", "-"], b"delete-range\tc\td\n", 0);
    assert_eq!(place.ok(&["scan", "db"]), "b\t4\n");
    for (line, reason) in [
        ("delete-range a", "line 1, column 15: no end of the range"),
        ("delete-range a b c", "line 1, column 17: more than two keys"),
        ("delete-range", "line 1, column 13: no key"),
    ] {
        place.run_with(&["batch", "db", "-"], line.as_bytes(), 2).says(&[reason]);
    }
    place.ok(&["families", "create", "db", "n", "key_order=u16"]);
    let lines = b"put 9 a\nput 10 b\nput 11 c\ndelete-range 9 11\n";
    place.run_with(&["batch", "db", "-", "--family", "n"], lines, 0);
    assert_eq!(place.ok(&["scan", "db", "--family", "n"]), "11\tc\n");
    place.run_with(&["batch", "db", "-", "--family", "n"], b"delete-range 9 70000\n", 2);
    // In a transaction of the shell, too.
    place.write("ranges", "delete-range a z\n");
    place.run_with(&["shell", "db"], b"begin t\nbatch ranges\nrollback\n", 0);
    assert_eq!(place.ok(&["count", "db"]), "1\n");
    place.run_with(&["shell", "db"], b"begin t\nbatch ranges\ncommit\n", 0);
    assert_eq!(place.ok(&["count", "db"]), "0\n");
}
