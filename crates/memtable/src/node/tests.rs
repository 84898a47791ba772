//! One node: heads, prefixes and positions, with keys chosen to make them matter.

use super::{search::*, *};
use crate::{
    arena::{ArenaOptions, ArenaPool},
    entry::{Probe, stored_bytes},
};
use proptest::prelude::*;
use siltdb_base::{
    budget::Budget,
    id::SequenceNumber,
    key::{Entry, EntryKind},
};
use std::sync::Arc;

fn arena() -> Arena {
    Arena::new(&ArenaPool::new(Arc::new(Budget::new(0)), ArenaOptions::default()))
}

fn store<'t>(arena: &'t Arena, key: &[u8]) -> EntryRef<'t> {
    let entry = Entry { key, sequence: SequenceNumber(1), kind: EntryKind::Put, value: b"" };
    let place = arena.carve(stored_bytes(&entry), 8);
    // SAFETY: the piece is fresh, aligned and large enough.
    unsafe { EntryRef::write(place, &entry) }
}

fn probe(key: &[u8]) -> Probe<'_> {
    Probe { key, sequence: SequenceNumber(1) }
}

/// Inserts where the node itself says.
fn insert<'t>(arena: &'t Arena, leaf: Node<'t>, key: &[u8]) {
    let index = leaf.position(leaf.shape(), probe(key), Ties::Before).unwrap();
    leaf.insert(index, store(arena, key), None);
}

fn check(leaf: Node<'_>) {
    let shape = leaf.shape();
    let keys: Vec<&[u8]> = (0..shape.count).map(|at| leaf.get().entry(at).unwrap().key()).collect();
    assert!(keys.is_sorted());
    for (at, key) in keys.iter().enumerate() {
        assert!(shape.prefix_bytes <= key.len());
        assert_eq!(key[..shape.prefix_bytes], keys[0][..shape.prefix_bytes]);
        assert_eq!(leaf.heads[at].load(Ordering::Relaxed), head_at(key, shape.prefix_bytes));
    }
}

#[test]
fn heads_are_cut_from_any_offset() {
    let key = b"0123456789";
    for offset in 0..12 {
        let mut padded = [0; 8];
        let rest = key.get(offset..).unwrap_or(&[]);
        let length = rest.len().min(8);
        padded[..length].copy_from_slice(&rest[..length]);
        assert_eq!(head_at(key, offset), u64::from_be_bytes(padded), "offset {offset}");
        assert_eq!(head_at(&key[..3], offset.min(3)) >> 40, {
            let short = key.get(offset.min(3)..3).unwrap_or(&[]);
            let mut padded = [0; 8];
            padded[..short.len()].copy_from_slice(short);
            u64::from_be_bytes(padded) >> 40
        });
    }
}

#[test]
fn a_common_prefix_is_found_and_given_up() {
    let arena = arena();
    let leaf = Node::new(&arena, 0);
    let numbers = [5, 3, 7, 1];
    for number in numbers {
        insert(&arena, leaf, format!("a common prefix of 30 bytes, {number}").as_bytes());
        check(leaf);
    }
    assert_eq!(leaf.shape().prefix_bytes, 29);
    let longer = b"a common prefix of 30 bytes or so";
    assert_eq!(leaf.position(leaf.shape(), probe(b"a common prefix"), Ties::Before), Some(0));
    assert_eq!(leaf.position(leaf.shape(), probe(b"b"), Ties::Before), Some(4));
    assert_eq!(leaf.position(leaf.shape(), probe(longer), Ties::Before), Some(0));
    if FANOUT > 4 {
        insert(&arena, leaf, b"an other");
        assert_eq!(leaf.shape().prefix_bytes, 1);
        check(leaf);
    }
}

#[test]
fn ties_decide_before_or_after_an_equal_entry() {
    let arena = arena();
    let leaf = Node::new(&arena, 0);
    for key in [&b"a"[..], b"b", b"c"] {
        insert(&arena, leaf, key);
    }
    assert_eq!(leaf.position(leaf.shape(), probe(b"b"), Ties::Before), Some(1));
    assert_eq!(leaf.position(leaf.shape(), probe(b"b"), Ties::After), Some(2));
}

#[test]
fn splitting_an_inner_node_lifts_one_entry() {
    let arena = arena();
    let inner = Node::new(&arena, 1);
    let children: Vec<Node<'_>> = (0..4).map(|_| Node::new(&arena, 0)).collect();
    inner.set_first_child(children[0]);
    for (at, key) in [b"b", b"d", b"f"].iter().enumerate() {
        inner.insert(at, store(&arena, *key), Some(children[at + 1]));
    }
    let right = Node::new(&arena, 1);
    inner.move_upper(1, right);
    assert_eq!((inner.shape().count, right.shape().count), (1, 1));
    assert_eq!(right.get().entry(0).unwrap().key(), b"f");
    assert!(inner.child(0) == Some(children[0]) && inner.child(1) == Some(children[1]));
    assert!(right.child(0) == Some(children[2]) && right.child(1) == Some(children[3]));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn a_position_counts_the_smaller_keys(
        prefix in proptest::collection::vec(any::<u8>(), 0..40),
        tails in proptest::collection::btree_set(
            proptest::collection::vec(0_u8..3, 0..12), 1..=FANOUT),
        order in any::<u64>(),
        others in proptest::collection::vec(proptest::collection::vec(0_u8..4, 0..50), 1..20),
    ) {
        let arena = arena();
        let leaf = Node::new(&arena, 0);
        let keys: Vec<Vec<u8>> = tails.iter().map(|tail| [&prefix[..], tail].concat()).collect();
        let mut shuffled: Vec<&Vec<u8>> = keys.iter().collect();
        shuffled.sort_by_key(|key| siltdb_base::checksum::xxh3(key) ^ order);
        for key in shuffled {
            insert(&arena, leaf, key);
            check(leaf);
        }
        let cut = others.iter().map(|other| prefix[..other.len().min(prefix.len())].to_vec());
        for wanted in keys.iter().cloned().chain(others.iter().cloned()).chain(cut) {
            let below = keys.iter().filter(|key| **key < wanted).count();
            let upto = keys.iter().filter(|key| **key <= wanted).count();
            let shape = leaf.shape();
            prop_assert_eq!(leaf.position(shape, probe(&wanted), Ties::Before), Some(below));
            prop_assert_eq!(leaf.position(shape, probe(&wanted), Ties::After), Some(upto));
        }
        if keys.len() > 1 {
            let right = Node::new(&arena, 0);
            leaf.move_upper(keys.len() / 2, right);
            check(leaf);
            check(right);
        }
    }
}
