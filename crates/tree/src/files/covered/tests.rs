//! Stretches that tombstones cover without a hole, and how new they are.

use super::*;
use crate::fixture::world::{World, small_options};
use siltdb_base::key::EntryKind;
use siltdb_base::slice::Slice;

fn fragments(tombstones: &[(&[u8], &[u8], u64)]) -> Fragments {
    let tombstones: Vec<_> = tombstones
        .iter()
        .map(|&(start, end, sequence)| RangeTombstone {
            start: Slice::copy_from(start),
            end: Slice::copy_from(end),
            sequence: SequenceNumber(sequence),
        })
        .collect();
    Fragments::new(&tombstones)
}

fn to(tombstones: &[(&[u8], &[u8], u64)], last: &[u8], end: RangeEnd) -> Option<u64> {
    let tombstones = fragments(tombstones);
    covered_to(&tombstones, b"d", last, end, SequenceNumber(10)).map(|to| to.0)
}

#[test]
fn tombstones_that_touch_cover_what_lies_across_them_up_to_the_newest() {
    use RangeEnd::{Exclusive, Inclusive};
    let two: &[(&[u8], &[u8], u64)] = &[(b"a", b"f", 12), (b"f", b"h", 15)];
    assert_eq!(to(two, b"g", Inclusive), Some(15));
    assert_eq!(to(two, b"e", Inclusive), Some(12));
    assert_eq!(to(two, b"f", Exclusive), Some(12));
    assert_eq!(to(two, b"h", Exclusive), Some(15));
    assert_eq!(to(two, b"h", Inclusive), None);
    assert_eq!(to(&[(b"a", b"f", 12), (b"f\0", b"h", 15)], b"g", Inclusive), None);
    assert_eq!(to(&[(b"e", b"h", 12)], b"g", Inclusive), None);
    assert_eq!(to(&[], b"g", Inclusive), None);
}

#[test]
fn a_tombstone_that_is_not_newer_covers_nothing_and_the_oldest_newer_one_counts() {
    use RangeEnd::Inclusive;
    assert_eq!(to(&[(b"a", b"z", 10)], b"g", Inclusive), None);
    assert_eq!(
        to(&[(b"a", b"z", 10), (b"a", b"z", 20), (b"a", b"z", 11)], b"g", Inclusive),
        Some(11)
    );
}

#[test]
fn tombstones_beyond_the_bound_are_forgotten_and_what_they_cover_is_not() {
    let mut world = World::new(small_options());
    world.put(b"a", b"value");
    world.flush();
    world.write(b"a", EntryKind::RangeDelete, b"b");
    let to = world.sequence;
    world.flush();
    let version = |world: &World| world.tree.view().version.clone();
    let mut covered = Covered::default();
    let oldest = |world: &World| version(world).levels()[0].tables().last().unwrap().id();
    covered.follow(&version(&world));
    let bytes = covered.tombstones.values().map(|it| it.fragments.memory_bytes()).sum();
    covered.keep_bound(bytes);
    assert_eq!(covered.tombstones.len(), 1);
    covered.keep_bound(bytes - 1);
    assert_eq!(covered.tombstones.len(), 0);
    assert_eq!(covered.of(oldest(&world)).unwrap().whole(), Some(to));
    world.put(b"x", b"value");
    world.flush();
    covered.follow(&version(&world));
    assert_eq!(covered.of(oldest(&world)).unwrap().whole(), Some(to));
}
