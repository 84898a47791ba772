//! The verb bucket, the option --bucket, and the verbs cas and incr.

use crate::place::Place;
use serde_json::json;

#[test]
fn a_bucket_holds_keys_and_buckets_and_moves_with_them() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "outside"]);
    place.ok(&["bucket", "create", "db", "ada/inbox"]);
    place.run(&["bucket", "create", "db", "ada/inbox"], 1).says(&["ada/inbox exists"]);
    for key in ["1", "2", "k"] {
        place.ok(&["put", "db", key, "hello", "--bucket", "ada/inbox"]);
    }
    place.ok(&["put", "db", "k", "other", "--bucket", "ada"]);
    assert_eq!(place.ok(&["get", "db", "k", "--bucket", "ada/inbox"]), "hello\n");
    assert_eq!(place.ok(&["get", "db", "1", "--next", "--bucket", "ada/inbox"]), "2\thello\n");
    assert_eq!(place.ok(&["get", "db", "k", "--prev", "--bucket", "ada/inbox"]), "2\thello\n");
    place.run(&["get", "db", "k", "--next", "--bucket", "ada/inbox"], 1);
    place.ok(&["bucket", "move", "db", "ada/inbox", "read"]);
    assert_eq!(place.ok(&["bucket", "list", "db"]), "ada\nread\n");
    assert_eq!(place.ok(&["bucket", "list", "db", "ada"]), "");
    assert_eq!(
        place.run(&["bucket", "list", "db", "--json"], 0).json()[0],
        json!({ "key": "ada" })
    );
    let scan = ["scan", "db", "--bucket", "read", "--reverse", "--limit", "2"];
    assert_eq!(place.ok(&scan), "k\thello\n2\thello\n");
    assert_eq!(place.ok(&["count", "db", "--bucket", "read", "--prefix", "k"]), "1\n");
    place.ok(&["delete", "db", "k", "--bucket", "read"]);
    place.ok(&["delete", "db", "--from", "2", "--bucket", "read"]);
    assert_eq!(place.ok(&["scan", "db", "--bucket", "read"]), "1\thello\n");
    place.ok(&["bucket", "delete", "db", "read"]);
    place.ok(&["bucket", "delete", "db", "ada"]);
    place.run(&["get", "db", "k", "--bucket", "read"], 1).says(&["no bucket read"]);
    assert_eq!(place.ok(&["get", "db", "k"]), "outside\n");
}

#[test]
fn bad_paths_are_refused() {
    let place = Place::new();
    place.run(&["put", "new", "k", "v", "--bucket", "a"], 1);
    assert!(!place.path("new").exists());
    place.ok(&["put", "db", "k", "v"]);
    let deep = vec!["a"; 17].join("/");
    place.run(&["bucket", "create", "db", &deep], 2).says(&["too deep", "at most 16"]);
    place.run(&["bucket", "create", "db", "a//b"], 2).says(&["empty or too long"]);
    place.run(&["bucket", "move", "db", "a", "b"], 1).says(&["no bucket a"]);
    place.run(&["put", "db", "k", "v", "--bucket", "a"], 1).says(&["no bucket a"]);
    place.ok(&["bucket", "create", "db", "a"]);
    place.run(&["bucket", "move", "db", "a", "a/b"], 2).says(&["into itself"]);
    place.run(&["bucket"], 2);
}

#[test]
fn a_value_is_swapped_only_if_it_is_the_expected_one() {
    let place = Place::new();
    place.ok(&["cas", "db", "lock", "--absent", "--new", "mine"]);
    let run = place.run(&["cas", "db", "lock", "--absent", "--new", "yours"], 6);
    run.says(&["condition failed", "`lock` has the value `mine`"]);
    place.ok(&["cas", "db", "lock", "--expect", "mine", "--new", "yours"]);
    assert_eq!(place.ok(&["get", "db", "lock"]), "yours\n");
    place.ok(&["cas", "db", "lock", "--expect", "yours", "--delete"]);
    place.run(&["cas", "db", "lock", "--expect", "yours", "--delete"], 6).says(&["has no value"]);
    place.run(&["cas", "db", "lock", "--expect", "a"], 2);
    place.run(&["cas", "db", "lock", "--expect", "a", "--absent", "--new", "b"], 2);
}

#[test]
fn a_counter_counts() {
    let place = Place::new();
    assert_eq!(place.ok(&["incr", "db", "visits"]), "1\n");
    assert_eq!(place.ok(&["incr", "db", "visits", "41"]), "42\n");
    assert_eq!(place.ok(&["incr", "db", "visits", "-50"]), "-8\n");
    assert_eq!(place.run(&["incr", "db", "visits", "--json"], 0).json(), [json!({ "value": -7 })]);
    assert_eq!(place.ok(&["get", "db", "visits"]), "-7\n");
    place.ok(&["put", "db", "name", "Ada"]);
    place.run(&["incr", "db", "name"], 2).says(&["not a counter"]);
    place.ok(&["put", "db", "visits", &i64::MAX.to_string()]);
    place.run(&["incr", "db", "visits"], 2).says(&["range"]);
    place.run(&["incr", "db", "visits", "much"], 2);
}

#[test]
fn the_shell_has_the_same_verbs() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let script = b"families create f\nuse f\nbucket create a/b\nput k 7 --bucket a/b\n\
        scan --bucket a/b\nbucket move a/b b\nbucket list\nbucket delete a\nbucket list\n\
        incr n 5\ncas n --expect 5 --new 6\nget n\n";
    let run = place.run_with(&["shell", "db"], script, 0);
    assert_eq!(run.stdout, "k\t7\na\nb\nb\n5\n6\n");
}
