//! What observers are told about commits.

use super::*;
use siltdb_base::{id::SequenceNumber, key::EntryKind, sync::lock};
use std::sync::Mutex;

/// Keeps the keys that it is told of.
#[derive(Debug)]
struct Keeper {
    wish: Wish,
    keys: Mutex<Vec<Vec<u8>>>,
}

impl CommitObserver for Keeper {
    fn committing(&self, entries: &[Entry<'_>]) {
        lock(&self.keys).extend(entries.iter().map(|entry| entry.key.to_vec()));
    }

    fn ingesting(&self, sequence: SequenceNumber) {
        lock(&self.keys).push(format!("ingest {sequence}").into_bytes());
    }
}

impl Keeper {
    fn new(wish: Wish) -> Self {
        Self { wish, keys: Mutex::default() }
    }
}

fn run(hook: &CommitHook, key: &[u8]) {
    let sequence = SequenceNumber(1);
    hook.run(&[Entry { key, sequence, kind: EntryKind::Put, value: b"value" }]);
}

#[test]
fn observers_are_told_while_they_wish_it_and_no_others() {
    let mut hook = CommitHook::default();
    let (first, second) = (hook.add(Keeper::new), hook.add(Keeper::new));
    run(&hook, b"a");
    first.wish.set();
    assert!(first.wish.is_set() && !second.wish.is_set());
    run(&hook, b"b");
    second.wish.set();
    run(&hook, b"c");
    first.wish.clear();
    run(&hook, b"d");
    assert_eq!(*lock(&first.keys), [b"b".to_vec(), b"c".to_vec()]);
    assert_eq!(*lock(&second.keys), [b"c".to_vec(), b"d".to_vec()]);
}

#[test]
fn an_ingest_is_told_to_all_observers() {
    let mut hook = CommitHook::default();
    let (first, second) = (hook.add(Keeper::new), hook.add(Keeper::new));
    first.wish.set();
    hook.run_ingest(SequenceNumber(7));
    for observer in [first, second] {
        assert_eq!(*lock(&observer.keys), [b"ingest 7".to_vec()]);
    }
}
