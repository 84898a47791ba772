//! What `recover` takes from log segments that are retired, and what it says of them.

use crate::place::Place;
use serde_json::json;

/// A database whose log is retained, with each record flushed to a table of its own.
fn retained(places: &[&str]) -> Place {
    let place = Place::new();
    for put in places {
        let arguments = ["put", "db", "key", put, "--option", "retain_log_bytes=1000000"];
        place.ok(&arguments);
        place.ok(&["flush", "db", "--option", "retain_log_bytes=1000000"]);
    }
    place
}

fn remove_tables(place: &Place) {
    for entry in std::fs::read_dir(place.path("db")).expect("it is there") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|extension| extension == "table") {
            std::fs::remove_file(path).expect("it is ours");
        }
    }
}

#[test]
fn a_retained_log_gives_lost_tables_back_and_recover_says_so() {
    let place = retained(&["older", "newer"]);
    remove_tables(&place);
    let run = place.run(&["recover", "db", "new"], 3);
    let said = "2 operations of lost tables read from retired log segments";
    assert!(run.stdout.contains(said) && !run.stdout.contains("older values"), "{}", run.stdout);
    assert_eq!(place.ok(&["get", "new", "key"]), "newer\n");
}

/// The log lacks what was put without it.
#[test]
fn recover_says_which_of_them_a_later_commit_may_have_replaced() {
    let place = retained(&["older"]);
    let volatile = ["put", "db", "key", "newer", "--durability", "volatile"];
    place.ok(&[&volatile[..], &["--option", "retain_log_bytes=1000000"]].concat());
    place.ok(&["flush", "db", "--option", "retain_log_bytes=1000000"]);
    remove_tables(&place);
    let run = place.run(&["recover", "db", "new"], 3);
    assert!(run.stdout.contains("1 of which may be older values"), "{}", run.stdout);
    let report = place.run(&["recover", "db", "again", "--json"], 3).json().remove(0);
    assert_eq!(
        (&report["retired_operations"], &report["possibly_replaced"]),
        (&json!(1), &json!(1)),
        "{report}"
    );
    assert_eq!(place.ok(&["get", "new", "key"]), "older\n");
}
