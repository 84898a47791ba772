//! What a reader sees is written as puts, loaded into another tree, and seen there by readers.

use super::*;
use crate::{
    fixture::{
        FAMILY, TestRandom,
        world::{World, small_options},
    },
    read::merge::fixture::{Owned, VecCursor},
    read::visible::bounds::Bounds,
};
use siltdb_base::{clock::Clock, error::ErrorKind, key::EntryKind};
use std::{sync::atomic::Ordering, time::Duration};

/// A payload that expires at `expiry_ms`.
fn expiring(expiry_ms: u64, value: &[u8]) -> Vec<u8> {
    [&expiry_ms.to_le_bytes(), value].concat()
}

/// Writes of every kind, some of them flushed and compacted.
fn filled(random: &mut TestRandom) -> World {
    let mut world = World::new(small_options());
    for _ in 0..600 {
        let key = format!("key {:03}", random.below(150)).into_bytes();
        let value = random.bytes(200);
        match random.below(20) {
            0 => world.flush(),
            1 => world.write(&key, EntryKind::RangeDelete, &[&key[..], b"~"].concat()),
            2..4 => world.write(&key, EntryKind::Delete, b""),
            4..8 => world.write(&key, EntryKind::Merge, &value),
            8..12 => {
                let expiry_ms = world.clock.wall_ms() + random.below(2000);
                world.write(&key, EntryKind::PutExpiring, &expiring(expiry_ms, &value));
            }
            12 => world.clock.advance(Duration::from_millis(random.below(100))),
            13 => {
                world.settle();
            }
            _ => world.put(&key, &value),
        }
    }
    world
}

/// What readers see, as puts.
fn puts(world: &World) -> Vec<Owned> {
    let mut iter = world.iter(world.sequence, Bounds::default());
    iter.seek_to_first().unwrap();
    let mut puts = Vec::new();
    while let Some((key, value)) = iter.entry() {
        puts.push(match iter.expiry_ms().unwrap() {
            None => Owned::new(key, 0, EntryKind::Put, value),
            Some(ms) => Owned::new(key, 0, EntryKind::PutExpiring, &expiring(ms, value)),
        });
        iter.next().unwrap();
    }
    puts
}

/// Loads `puts` into a new tree at `sequence`.
fn loaded(puts: &[Owned], sequence: SequenceNumber) -> World {
    let mut world = World::new(small_options());
    world.sequence = sequence;
    let options = world.tree.options();
    let target = LoadTarget { family: FAMILY, options: &options, sequence };
    let output = world
        .with_context(|context| {
            load(VecCursor::new(puts.to_vec(), 3), &target, context)?.finish([], context)
        })
        .unwrap();
    world.tree.apply(&output.changes, None).unwrap();
    world
}

fn shown(world: &World) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut iter = world.iter(world.sequence, Bounds::default());
    iter.seek_to_first().unwrap();
    let mut pairs = Vec::new();
    while let Some((key, value)) = iter.entry() {
        pairs.push((key.to_vec(), value.to_vec()));
        iter.next().unwrap();
    }
    pairs
}

#[test]
fn what_a_reader_sees_is_seen_where_it_is_loaded_also_later() {
    let mut expired = 0;
    for seed in 0..20 {
        let random = &mut TestRandom::new(seed);
        let source = filled(random);
        let puts = puts(&source);
        assert!(puts.iter().any(|put| put.kind == EntryKind::PutExpiring), "nothing expires");
        let mut copy = loaded(&puts, SequenceNumber(77));
        assert!(copy.tree.view().version.tables().count() > 1, "one table shows little");
        for (level, table) in copy.tree.view().version.references() {
            assert_eq!(usize::from(level), LEVELS - 1);
            assert_eq!(table.meta.sequence_min, SequenceNumber(77));
            assert_eq!(table.meta.sequence_max, SequenceNumber(77));
        }
        copy.clock.advance(Duration::from_millis(source.clock.wall_ms() - copy.clock.wall_ms()));
        let before = shown(&copy);
        assert_eq!(before, shown(&source), "seed {seed}");
        // Expiries came along. A value that was folded stays as it was.
        copy.clock.advance(Duration::from_millis(1000));
        let now_ms = copy.clock.wall_ms();
        let lives = |put: &&Owned| match put.kind {
            EntryKind::PutExpiring => {
                u64::from_le_bytes(*put.value.first_chunk().unwrap()) > now_ms
            }
            _ => true,
        };
        let expected: Vec<_> = puts.iter().filter(lives).map(|put| put.key.clone()).collect();
        let after: Vec<_> = shown(&copy).into_iter().map(|(key, _)| key).collect();
        assert_eq!(after, expected, "seed {seed}");
        expired += before.len() - after.len();
        // Later writes are newer, and the tree goes on as any other.
        copy.put(b"key 000", b"later");
        copy.write(b"key 001", EntryKind::Delete, b"");
        copy.flush();
        copy.settle();
        let found = shown(&copy);
        assert!(found.contains(&(b"key 000".to_vec(), b"later".to_vec())));
        assert!(!found.iter().any(|(key, _)| key == b"key 001"));
    }
    assert!(expired > 0);
}

#[test]
fn what_has_expired_makes_no_table() {
    let value = expiring(1, b"value");
    let world = loaded(&[Owned::new(b"a", 0, EntryKind::PutExpiring, &value)], SequenceNumber(1));
    assert!(world.tree.view().version.is_empty());
    assert!(world.files_there().is_empty());
}

#[test]
fn a_load_that_is_cancelled_or_fails_leaves_no_file() {
    let world = World::new(small_options());
    let options = world.tree.options();
    let target = LoadTarget { family: FAMILY, options: &options, sequence: SequenceNumber(1) };
    let puts: Vec<_> = (0..2000_u32)
        .map(|number| Owned::new(&number.to_be_bytes(), 0, EntryKind::Put, &[7; 40]))
        .collect();
    let work = |cursor| world.with_context(|context| load(cursor, &target, context)).map(drop);
    world.cancelled.store(true, Ordering::Relaxed);
    let error = work(VecCursor::new(puts.clone(), 3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    world.cancelled.store(false, Ordering::Relaxed);
    assert!(world.files_there().is_empty());
    work(VecCursor::new(puts, 3)).unwrap();
    assert!(world.files_there().is_empty(), "nothing kept the output");
}

#[test]
#[should_panic = "an expiry is not known"]
fn a_walk_back_shows_no_expiry() {
    let mut world = World::new(small_options());
    world.put(b"a", b"1");
    let mut iter = world.iter(world.sequence, Bounds::default());
    iter.seek_to_last().unwrap();
    let _ = iter.expiry_ms();
}
