//! What is offered where.

use super::super::Line;
use super::*;
use clap::CommandFactory;
use rustyline::history::DefaultHistory;
use siltdb::Db;

fn complete(completion: &Completion, line: &str) -> (usize, Vec<String>) {
    let history = DefaultHistory::new();
    completion.complete(line, line.len(), &Context::new(&history)).unwrap()
}

fn offered(completion: &Completion, line: &str) -> Vec<String> {
    complete(completion, line).1
}

#[test]
fn verbs_options_and_families_are_completed() {
    let mut completion = Completion::new(Line::command());
    completion.families = vec!["default".to_owned(), "users".to_owned()];
    assert_eq!(
        offered(&completion, "c"),
        ["cas", "check", "checkpoint", "clone", "commit", "compact", "count"]
    );
    assert_eq!(offered(&completion, "COMP"), ["compact "]);
    assert_eq!(offered(&completion, "get a\ncomp"), ["compact "]);
    assert_eq!(offered(&completion, "scan --re"), ["--reverse "]);
    assert_eq!(offered(&completion, "get a --family "), ["default", "users"]);
    assert_eq!(offered(&completion, "use u"), ["users "]);
    assert_eq!(offered(&completion, "clone u"), ["users "]);
    assert_eq!(offered(&completion, "freeze u"), ["users "]);
    assert_eq!(offered(&completion, "families d"), ["drop "]);
    assert_eq!(offered(&completion, "families drop d"), ["default "]);
    completion.branches = vec!["fix".to_owned(), "main".to_owned()];
    assert_eq!(offered(&completion, "get a --branch f"), ["fix "]);
    assert_eq!(offered(&completion, "branch m"), ["merge "]);
    assert_eq!(offered(&completion, "branch merge fix --into "), ["fix", "main"]);
    assert_eq!(offered(&completion, "branch create new --from m"), ["main "]);
    assert_eq!(offered(&completion, "branch checkout m"), ["main "]);
    assert_eq!(offered(&completion, "branch diff main f"), ["fix "]);
    completion.transactions = vec!["alpha".to_owned(), "beta".to_owned()];
    assert_eq!(offered(&completion, "commit "), ["alpha", "beta"]);
    assert_eq!(offered(&completion, "beta: rollback a"), ["alpha "]);
    assert_eq!(offered(&completion, "beta: cou"), ["count "]);
    assert!(offered(&completion, "get x").is_empty());
}

#[test]
fn keys_are_completed_by_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    for key in ["user:1", "user:2", "city:New York", "-1", "bad\u{7}"] {
        db.put(key, "").unwrap();
    }
    let mut completion = Completion::new(Line::command());
    completion.family = Some(db.default_family());
    assert_eq!(offered(&completion, "get us"), ["user:1", "user:2"]);
    assert_eq!(offered(&completion, "GET us"), ["user:1", "user:2"]);
    assert_eq!(offered(&completion, "put --json user:2"), ["user:2 "]);
    assert_eq!(offered(&completion, "scan --prefix c"), ["\"city:New York\" "]);
    assert_eq!(
        complete(&completion, "get \"city:New Y"),
        (4, vec!["\"city:New York\" ".to_owned()])
    );
    assert!(offered(&completion, "get bad").is_empty());
    assert!(offered(&completion, "put k us").is_empty());
}

#[test]
fn keys_are_offered_past_those_that_store_buckets() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    let inbox = db.default_family().bucket(["inbox"]).unwrap();
    inbox.create().unwrap();
    for number in 0..KEYS_MAX {
        inbox.put(number.to_be_bytes(), "").unwrap();
    }
    db.put("user:1", "").unwrap();
    db.put("user:2", "").unwrap();
    let mut completion = Completion::new(Line::command());
    completion.family = Some(db.default_family());
    assert_eq!(offered(&completion, "get "), ["user:1", "user:2"]);
}

/// The terminal inserts what all candidates have in common: it must be what all keys have.
#[test]
fn few_of_many_keys_are_offered_and_the_last_one() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("db")).unwrap();
    for number in 0..5000 {
        db.put(format!("k{number:04}"), "").unwrap();
    }
    let mut completion = Completion::new(Line::command());
    completion.family = Some(db.default_family());
    let found = offered(&completion, "get k");
    assert_eq!(found.len(), KEYS_MAX + 1);
    assert_eq!((&found[0][..], &found[KEYS_MAX][..]), ("k0000", "k4999"));
}
