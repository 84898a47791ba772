//! The verbs on branches, and the branch on which other verbs work.

use crate::place::Place;
use serde_json::json;

/// `main` and the branch `fix`, of two families.
fn filled() -> Place {
    let place = Place::new();
    let lines: String = ["a", "b", "c"].map(|key| format!("put {key} {key}!\n")).concat();
    place.run_with(&["batch", "db", "-"], lines.as_bytes(), 0);
    place.ok(&["families", "create", "db", "other"]);
    place.ok(&["put", "db", "x", "x!", "--family", "other"]);
    assert_eq!(place.ok(&["branch", "create", "db", "fix"]), "");
    place
}

#[test]
fn a_branch_goes_its_own_way_and_is_merged_back() {
    let place = filled();
    place.ok(&["put", "db", "a", "fixed", "--branch", "fix"]);
    place.ok(&["delete", "db", "x", "--family", "other", "--branch", "fix"]);
    place.ok(&["put", "db", "d", "main"]);
    assert_eq!(place.ok(&["get", "db", "a"]), "a!\n");
    assert_eq!(place.ok(&["get", "db", "a", "--branch", "fix"]), "fixed\n");
    assert_eq!(place.ok(&["count", "db", "--branch", "fix"]), "3\n");
    let diff = place.ok(&["branch", "diff", "db", "main", "fix"]);
    assert_eq!(
        diff,
        "-\tdefault\ta\ta!\n+\tdefault\ta\tfixed\n-\tdefault\td\tmain\n-\tother\tx\tx!\n"
    );
    let diff =
        place.run(&["branch", "diff", "db", "main", "fix", "--family", "other", "--json"], 0);
    let missing = json!({ "value": "x!" });
    let expected = json!({ "family": "other", "key": "x", "left": missing, "right": null });
    assert_eq!(diff.json(), [expected]);
    let dry = place.ok(&["branch", "merge", "db", "fix", "--dry-run"]);
    assert_eq!(dry, "would merge fix into main: 2 keys\n");
    assert_eq!(place.ok(&["get", "db", "a"]), "a!\n");
    assert_eq!(place.ok(&["branch", "merge", "db", "fix"]), "merged fix into main: 2 keys\n");
    assert_eq!(place.ok(&["scan", "db"]), "a\tfixed\nb\tb!\nc\tc!\nd\tmain\n");
    assert_eq!(place.ok(&["count", "db", "--family", "other"]), "0\n");
    let object = place.run(&["branch", "merge", "db", "fix", "--json"], 0).json().remove(0);
    assert_eq!((&object["written"], &object["applied"]), (&json!(0), &json!(true)));
    place.ok(&["check", "db"]);
}

#[test]
fn a_merge_with_conflicts_lists_them_and_changes_nothing_unless_it_takes_a_side() {
    let place = filled();
    for (key, on_branch) in [("a", "1"), ("b", "2")] {
        place.ok(&["put", "db", key, on_branch, "--branch", "fix"]);
        place.ok(&["put", "db", key, "main"]);
    }
    place.ok(&["put", "db", "free", "3", "--branch", "fix"]);
    let before = place.ok(&["scan", "db"]);
    let run = place.run(&["branch", "merge", "db", "fix"], 5);
    assert_eq!(run.stdout, "conflict\tdefault\ta\nconflict\tdefault\tb\n");
    run.says(&["2 conflicts; nothing was merged"]);
    let run = place.run(&["branch", "merge", "db", "fix", "--json"], 5);
    let object = run.json().remove(0);
    assert_eq!(object["conflicting_keys"][1], json!({ "family": "default", "key": "b" }));
    assert_eq!((&object["conflicts"], &object["applied"]), (&json!(2), &json!(false)));
    assert_eq!(place.ok(&["scan", "db"]), before);
    place.run(&["branch", "merge", "db", "fix", "--dry-run"], 5);
    let taken = place.ok(&["branch", "merge", "db", "fix", "--take", "theirs", "--dry-run"]);
    assert!(taken.ends_with("would merge fix into main: 3 keys, 2 conflicts\n"), "{taken}");
    let taken = place.ok(&["branch", "merge", "db", "fix", "--take", "ours"]);
    assert!(taken.ends_with("merged fix into main: 1 key, 2 conflicts\n"), "{taken}");
    assert_eq!(place.ok(&["scan", "db"]), "a\tmain\nb\tmain\nc\tc!\nfree\t3\n");
    place.run(&["branch", "merge", "db", "fix", "--take", "both"], 2);
}

#[test]
fn verbs_work_on_the_branch_that_is_checked_out() {
    let place = filled();
    assert_eq!(place.ok(&["branch", "list", "db"]).lines().next(), Some("* main"));
    place.ok(&["branch", "checkout", "db", "fix"]);
    place.ok(&["put", "db", "a", "fixed"]);
    place.run_with(&["batch", "db", "-"], b"put n new\n", 0);
    assert_eq!(place.ok(&["get", "db", "a"]), "fixed\n");
    assert_eq!(place.ok(&["get", "db", "a", "--branch", "main"]), "a!\n");
    assert_eq!(place.ok(&["incr", "db", "count"]), "1\n");
    place.run_with(&["txn", "db", "-"], b"put t txn\nput t main --branch main\n", 0);
    place.run_with(&["import", "db", "-", "--format", "lines"], b"i\timported\n", 0);
    let exported = place.run(&["export", "db", "--format", "lines"], 0).stdout;
    assert_eq!(exported, place.ok(&["scan", "db", "--branch", "fix"]));
    assert_eq!(exported.lines().count(), 7);
    assert_eq!(place.ok(&["scan", "db", "--branch", "main"]), "a\ta!\nb\tb!\nc\tc!\nt\tmain\n");
    let watched = place.run(&["watch", "db"], 0).stdout;
    assert!(watched.contains("\tput\tfix/default\tn\tnew\n"), "{watched}");
    // A branch of the one that is checked out, and a merge into it.
    place.ok(&["branch", "create", "db", "deeper", "--family", "default"]);
    let listed = place.ok(&["branch", "list", "db"]);
    assert!(listed.starts_with("  main\n  deeper\tfrom fix at "), "{listed}");
    assert!(listed.contains("\n* fix\tfrom main at "), "{listed}");
    assert_eq!(place.ok(&["families", "db"]), "default\nother\n");
    place.ok(&["put", "db", "deep", "1", "--branch", "deeper"]);
    assert_eq!(place.ok(&["branch", "merge", "db", "deeper"]), "merged deeper into fix: 1 key\n");
    assert_eq!(place.ok(&["get", "db", "deep"]), "1\n");
    place.run(&["branch", "drop", "db", "fix"], 2).says(&["is checked out"]);
    place.run(&["families", "create", "db", "new"], 2).says(&["branch `fix` is checked out"]);
    place.run(&["import", "db", "-", "--format", "lines", "--family", "new"], 1);
    let shell =
        b"branch rename fix fixed\nget a\nbranch checkout main\nget a\nget a --branch fixed\n";
    let shell = place.run_with(&["shell", "db"], shell, 0);
    assert_eq!(shell.stdout, "fixed\na!\nfixed\n");
    let object = place.run(&["branch", "list", "db", "--json"], 0).json().remove(0);
    assert_eq!(object["checked_out"], json!("main"));
    assert_eq!(object["branches"][0]["parent"], json!("fixed"));
    assert_eq!(object["branches"][0]["families"], json!(["default"]));
    place.ok(&["branch", "drop", "db", "fixed"]);
    assert_eq!(place.ok(&["get", "db", "a", "--branch", "deeper"]), "fixed\n");
    assert!(place.ok(&["branch", "list", "db"]).contains("deeper\tfrom a dropped branch at "));
}

#[test]
fn what_cannot_be_done_with_branches_has_its_exit_code() {
    let place = filled();
    for (arguments, code, text) in [
        (&["create", "db", "fix"][..], 1, "\"fix\" exists"),
        (&["create", "db", "main"], 1, "\"main\" exists"),
        (&["create", "db", ""], 2, "bad length"),
        (&["create", "db", "new", "--from", "absent"], 1, "no branch \"absent\""),
        (&["create", "db", "new", "--family", "absent"], 1, "absent"),
        (&["checkout", "db", "absent"], 1, "no branch \"absent\""),
        (&["drop", "db", "absent"], 1, "no branch \"absent\""),
        (&["drop", "db", "main"], 2, "main cannot be dropped"),
        (&["rename", "db", "main", "new"], 2, "main cannot be renamed"),
        (&["rename", "db", "fix", "main"], 1, "\"main\" exists"),
        (&["diff", "db", "fix", "absent"], 1, "no branch \"absent\""),
        (&["diff", "db", "fix", "main", "--family", "absent"], 1, "absent"),
        (&["merge", "db", "absent"], 1, "no branch \"absent\""),
        (&["merge", "db", "main"], 2, "merged into itself"),
        (&["merge", "db", "fix", "--into", "absent"], 1, "no branch \"absent\""),
        (&["merge", "db", "fix", "--family", "absent"], 1, "absent"),
        (&["list", "absent"], 1, "no database"),
    ] {
        place.run(&[&["branch"], arguments].concat(), code).says(&[text]);
    }
    place.run(&["get", "db", "a", "--branch", "absent"], 1).says(&["no branch `absent`"]);
    place.run(&["get", "db", "a", "--branch", "fix", "--family", "absent"], 1);
    place.run(&["put", "new", "a", "b", "--branch", "main"], 1).says(&["no database"]);
    place.run(&["branch"], 2);
    assert_eq!(place.ok(&["branch", "list", "db"]).lines().count(), 2);
}

#[test]
fn a_branch_begins_at_a_sequence_number_down_to_the_retention_floor() {
    let place = filled();
    place.ok(&["retain", "db", "--from", "now"]);
    place.ok(&["put", "db", "a", "later"]);
    place.ok(&["flush", "db"]);
    place.ok(&["branch", "create", "db", "before", "--at", "4"]);
    assert_eq!(place.ok(&["get", "db", "a", "--branch", "before"]), "a!\n");
    assert_eq!(place.ok(&["get", "db", "a"]), "later\n");
    place.run(&["branch", "create", "db", "older", "--at", "1"], 1);
    place.run(&["branch", "create", "db", "future", "--at", "100"], 2);
    assert!(!place.ok(&["branch", "list", "db"]).contains("older"));
}
