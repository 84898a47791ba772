//! `silt retain`, and verbs that read with `--at`.

use crate::place::Place;
use serde_json::json;
use siltdb::{Create, Options};

/// Three versions of a key behind a floor at 1, and what was deleted.
fn filled() -> Place {
    let place = Place::new();
    place.ok(&["put", "db", "a", "0"]);
    assert_eq!(place.ok(&["retain", "db", "--from", "now"]), "floor  1\nnewest 1\n");
    place.ok(&["put", "db", "a", "1"]);
    place.ok(&["put", "db", "b", "1"]);
    place.ok(&["delete", "db", "a"]);
    place.ok(&["put", "db", "c", "1"]);
    place.ok(&["compact", "db"]);
    place
}

#[test]
fn verbs_that_read_show_the_state_after_a_number() {
    let place = filled();
    let at =
        |sequence: &str, arguments: &[&str]| place.ok(&[arguments, &["--at", sequence]].concat());
    assert_eq!(place.ok(&["scan", "db"]), "b\t1\nc\t1\n");
    assert_eq!(at("1", &["scan", "db"]), "a\t0\n");
    assert_eq!(at("3", &["scan", "db"]), "a\t1\nb\t1\n");
    assert_eq!(at("3", &["scan", "db", "--reverse", "--keys-only"]), "b\na\n");
    assert_eq!(at("2", &["get", "db", "a"]), "1\n");
    assert_eq!(at("3", &["get", "db", "a", "--next"]), "b\t1\n");
    assert_eq!(at("3", &["get", "db", "b", "--prev"]), "a\t1\n");
    place.run(&["get", "db", "a", "--at", "4"], 1).says(&["no key `a`"]);
    assert_eq!(at("4", &["count", "db"]), "1\n");
    let exported = place.run(&["export", "db", "--format", "lines", "--at", "3"], 0);
    assert_eq!(exported.stdout, "a\t1\nb\t1\n");
    let scan = place.run(&["scan", "db", "--at", "1", "--json"], 0).json().remove(0);
    assert_eq!(scan["value"], json!("0"));
    let made = at("3", &["clone", "db", "default", "before"]);
    assert!(made.starts_with("cloned default as before"), "{made}");
    assert_eq!(place.ok(&["scan", "db", "--family", "before"]), "a\t1\nb\t1\n");
    // The family did not exist then: it shows what its source held.
    assert_eq!(at("1", &["scan", "db", "--family", "before"]), "a\t0\n");
    place.run(&["count", "db", "--estimate", "--at", "3"], 2);
    place.run(&["put", "db", "a", "1", "--at", "3"], 2);
}

#[test]
fn numbers_that_are_not_kept_are_refused_with_the_floor() {
    let place = filled();
    place.run(&["get", "db", "a", "--at", "0"], 1).says(&["retention floor", "at least 1"]);
    place.run(&["scan", "db", "--at", "6"], 2).says(&["at most 5"]);
    place.run(&["retain", "db", "--from", "0"], 1).says(&["at least 1"]);
    place.run(&["retain", "db", "--from", "6"], 2).says(&["at most 5"]);
    place
        .run(&["retain", "db", "--from", "then"], 2)
        .says(&["expected `now`, or a sequence number from 0 to"]);
    place.run(&["retain", "db", "--from", "now", "--off"], 2);
    place.run(&["retain", "absent"], 1).says(&["no database"]);
    let object = place.run(&["retain", "db", "--json"], 0).json().remove(0);
    assert_eq!(object, json!({ "floor": 1, "newest": 5 }));
    let stats = place.run(&["stats", "db", "--json"], 0).json().remove(0);
    assert_eq!(stats["retention_floor"], json!(1));
    assert!(place.ok(&["stats", "db"]).contains(", kept from 1 on\n"));
    assert_eq!(place.ok(&["retain", "db", "--from", "3"]), "floor  3\nnewest 5\n");
    place.run(&["get", "db", "a", "--at", "2"], 1).says(&["at least 3"]);
    assert_eq!(place.ok(&["get", "db", "a", "--at", "3"]), "1\n");
    assert_eq!(place.ok(&["retain", "db", "--off"]), "floor  none\nnewest 5\n");
    place.run(&["get", "db", "a", "--at", "3"], 1).says(&["no retention floor", "at least 5"]);
    assert_eq!(place.ok(&["get", "db", "c", "--at", "5"]), "1\n");
    let object = place.run(&["retain", "db", "--json"], 0).json().remove(0);
    assert_eq!(object, json!({ "floor": null, "newest": 5 }));
    let stats = place.run(&["stats", "db", "--json"], 0).json().remove(0);
    assert_eq!(stats.get("retention_floor"), None);
}

#[test]
fn old_states_are_read_in_the_shell_in_buckets_and_beside_a_writer() {
    let place = filled();
    let commands = b"get a --at 2\nretain\nput d 1\nretain --from now\n";
    let shell = place.run_with(&["shell", "db"], commands, 0);
    assert_eq!(shell.stdout, "1\nfloor  1\nnewest 5\nfloor  6\nnewest 6\n");
    let refused = place.run_with(&["shell", "db"], b"begin\nget a --at 6\n", 2);
    refused.says(&["`--at` reads what was committed"]);
    place.ok(&["bucket", "create", "db", "inbox"]);
    place.ok(&["put", "db", "m", "1", "--bucket", "inbox"]);
    let newest = place.run(&["retain", "db", "--json"], 0).json().remove(0)["newest"].clone();
    let at = newest.to_string();
    place.ok(&["delete", "db", "m", "--bucket", "inbox"]);
    place.ok(&["bucket", "delete", "db", "inbox"]);
    let scan = ["scan", "db", "--bucket", "inbox", "--at", &at];
    assert_eq!(place.ok(&scan), "m\t1\n");
    assert_eq!(place.ok(&["get", "db", "m", "--bucket", "inbox", "--at", &at]), "1\n");
    assert_eq!(place.ok(&["bucket", "list", "db", "--at", &at]), "inbox\n");
    assert_eq!(place.ok(&["bucket", "list", "db"]), "");
    // Locked by this process: read through a follower.
    let options = Options::new().create(Create::Never);
    let db = options.open(place.path("db")).unwrap();
    let read = place.run(&scan, 0);
    assert_eq!(read.stdout, "m\t1\n");
    read.says(&["read beside a writer"]);
    assert!(place.run(&["retain", "db"], 0).stdout.starts_with("floor  6\n"));
    place.run(&["retain", "db", "--off"], 4);
    drop(db);
}
