//! The protocol of the tree under loom: every order of steps and every permitted reading, on nodes
//! of four entries, with at most two preemptions.
//!
//! It models the tree alone: arena and lanes are ordered by mutexes and need no model.

use crate::{
    arena::{ArenaOptions, ArenaPool},
    cursor::MemtableCursor,
    tree::MemtableTree,
};
use siltdb_base::{
    budget::Budget,
    cursor::EntryCursor,
    id::SequenceNumber,
    key::{Entry, EntryKind},
};
use std::sync::Arc;

const PREEMPTIONS: usize = 2;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 100_000;
    builder.check(check);
}

fn insert(tree: &MemtableTree, key: u8) {
    let sequence = SequenceNumber(u64::from(key));
    tree.insert(&Entry { key: &[key], sequence, kind: EntryKind::Put, value: &[key] });
}

fn get(tree: &MemtableTree, key: u8) -> Option<u8> {
    tree.get(&[key], SequenceNumber::MAX).map(|found| found.entry().value[0])
}

fn tree_of(keys: &[u8]) -> Arc<MemtableTree> {
    let pool = ArenaPool::new(Arc::new(Budget::new(0)), ArenaOptions::default());
    let tree = Arc::new(MemtableTree::new(&pool));
    keys.iter().for_each(|&key| insert(&tree, key));
    tree
}

fn forward(tree: &Arc<MemtableTree>) -> Vec<u8> {
    let mut cursor = MemtableCursor::new(Arc::clone(tree));
    let mut keys = Vec::new();
    cursor.seek_to_first().unwrap();
    while let Some(entry) = cursor.entry() {
        keys.push(entry.key[0]);
        cursor.next().unwrap();
    }
    keys
}

fn backward(tree: &Arc<MemtableTree>) -> Vec<u8> {
    let mut cursor = MemtableCursor::new(Arc::clone(tree));
    let mut keys = Vec::new();
    cursor.seek_to_last().unwrap();
    while let Some(entry) = cursor.entry() {
        keys.push(entry.key[0]);
        cursor.prev().unwrap();
    }
    keys.reverse();
    keys
}

/// Runs an insert of `added` beside `beside`; afterwards everything is there, in order.
///
/// Each of the two is once the thread that loom starts with, because loom remembers only the last
/// access to an atomic. From one side alone it would overlook orders in which a writer looks at a
/// word that another has read, and then changes it.
fn beside_an_insert(keys: &'static [u8], added: u8, beside: fn(&Arc<MemtableTree>)) {
    model(move || {
        let tree = tree_of(keys);
        let other = Arc::clone(&tree);
        let thread = loom::thread::spawn(move || insert(&other, added));
        beside(&tree);
        thread.join().unwrap();
        check_all(&tree, keys, added);
    });
    model(move || {
        let tree = tree_of(keys);
        let other = Arc::clone(&tree);
        let thread = loom::thread::spawn(move || beside(&other));
        insert(&tree, added);
        thread.join().unwrap();
        check_all(&tree, keys, added);
    });
}

fn check_all(tree: &Arc<MemtableTree>, keys: &[u8], added: u8) {
    let mut expected: Vec<u8> = forward(tree);
    assert!(expected.is_sorted());
    assert_eq!(backward(tree), expected);
    expected.retain(|key| keys.contains(key) || *key == added);
    assert_eq!(expected.len(), keys.len() + 1);
}

#[test]
fn loom_two_first_inserts_share_one_root() {
    beside_an_insert(&[], 20, |tree| {
        insert(tree, 10);
        assert_eq!(get(tree, 10), Some(10));
    });
}

#[test]
fn loom_two_inserts_into_one_leaf_are_both_kept() {
    beside_an_insert(&[10, 30], 20, |tree| insert(tree, 25));
}

#[test]
fn loom_two_inserts_split_one_root_once() {
    beside_an_insert(&[10, 20, 30, 40], 25, |tree| insert(tree, 35));
}

#[test]
fn loom_an_insert_meets_the_split_of_its_leaf() {
    beside_an_insert(&[10, 20, 30, 40, 50, 15, 17], 16, |tree| insert(tree, 19));
}

#[test]
fn loom_a_get_finds_what_was_there_before_a_split() {
    // 40 will not be the first entry of its new leaf, which a search that ended too far to the
    // left would still come across.
    beside_an_insert(&[10, 20, 30, 40], 25, |tree| {
        assert_eq!(get(tree, 40), Some(40));
        assert!(matches!(get(tree, 25), None | Some(25)));
        assert_eq!(get(tree, 26), None);
    });
}

#[test]
fn loom_a_get_below_the_root_finds_what_was_there_before_a_split() {
    beside_an_insert(&[10, 20, 30, 40, 50], 15, |tree| {
        assert_eq!(get(tree, 40), Some(40));
    });
}

#[test]
fn loom_a_get_stands_a_change_of_the_prefix() {
    model(|| {
        let tree = tree_of(&[]);
        let long = |key: &[u8]| {
            let sequence = SequenceNumber(1);
            tree.insert(&Entry { key, sequence, kind: EntryKind::Put, value: b"" });
        };
        long(b"common, a");
        long(b"common, b");
        long(b"common, c");
        let other = Arc::clone(&tree);
        let thread = loom::thread::spawn(move || insert(&other, b'c'));
        assert!(tree.get(b"common, b", SequenceNumber::MAX).is_some());
        assert!(tree.get(b"common, bb", SequenceNumber::MAX).is_none());
        thread.join().unwrap();
        assert_eq!(get(&tree, b'c'), Some(b'c'));
    });
}

#[test]
fn loom_a_scan_sees_all_that_was_there_before_a_split() {
    beside_an_insert(&[10, 20, 30, 40, 50], 15, |tree| {
        let keys = forward(tree);
        assert!(keys == [10, 20, 30, 40, 50] || keys == [10, 15, 20, 30, 40, 50], "{keys:?}");
    });
}

#[test]
fn loom_a_scan_backwards_sees_all_that_was_there_before_a_split() {
    beside_an_insert(&[10, 20, 30, 40, 50, 15, 17], 16, |tree| {
        let mut keys = backward(tree);
        keys.retain(|key| *key != 16);
        assert_eq!(keys, [10, 15, 17, 20, 30, 40, 50]);
    });
}
