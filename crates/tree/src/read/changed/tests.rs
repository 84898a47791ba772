//! Which changes are found, in memory and in tables.

use crate::{
    fixture::world::{World, small_options},
    read::{changed::Since, visible::bounds::Bounds},
};
use siltdb_base::{id::SequenceNumber, key::EntryKind, slice::Slice};

/// Keys 0 to 9, a live snapshot after them, and changes after that.
fn changed_world() -> (World, SequenceNumber) {
    let mut world = World::new(small_options());
    for number in 0..10 {
        world.put(format!("key{number}").as_bytes(), b"old");
    }
    let snapshot = world.sequence;
    world.snapshots.push(snapshot);
    world.put(b"key1", b"new");
    world.write(b"key2", EntryKind::Delete, b"");
    world.write(b"key3", EntryKind::Merge, b"more");
    world.write(b"key5", EntryKind::RangeDelete, b"key7");
    (world, snapshot)
}

fn since(snapshot: SequenceNumber, upto: SequenceNumber) -> Since {
    Since { snapshot, after: snapshot, upto }
}

fn bounds(start: &[u8], end: &[u8]) -> Bounds {
    Bounds { lower: Some(Slice::copy_from(start)), upper: Some(Slice::copy_from(end)) }
}

#[test]
fn a_key_has_changed_if_it_was_written_deleted_merged_into_or_covered() {
    let (mut world, snapshot) = changed_world();
    for is_flushed in [false, true] {
        if is_flushed {
            world.flush();
        }
        let (view, since) = (world.tree.view(), since(snapshot, SequenceNumber::MAX));
        let changed = |key: &str| view.key_changed(key.as_bytes(), since).unwrap();
        let expected = [false, true, true, true, false, true, true, false, false, false];
        for (number, expected) in expected.into_iter().enumerate() {
            assert_eq!(changed(&format!("key{number}")), expected, "key{number}, {is_flushed}");
        }
        assert!(changed("key5x") && changed("key6zz") && !changed("nothing"));
    }
}

#[test]
fn a_range_has_changed_if_anything_within_it_has() {
    let (mut world, snapshot) = changed_world();
    for is_flushed in [false, true] {
        if is_flushed {
            world.flush();
        }
        let (view, since) = (world.tree.view(), since(snapshot, SequenceNumber::MAX));
        let changed = |start: &str, end: &str| {
            view.range_changed(&bounds(start.as_bytes(), end.as_bytes()), since).unwrap()
        };
        assert!(changed("key0", "key2") && changed("key2", "key3") && changed("key30", "key5x"));
        assert!(changed("key6", "key9") && changed("key6zz", "key6zzz"));
        assert!(!changed("key0", "key1") && !changed("key4", "key5") && !changed("key7", "kez"));
        assert!(!changed("key31", "key5"), "the end of a range is not within it");
        assert!(view.range_changed(&Bounds::default(), since).unwrap());
    }
}

#[test]
fn what_is_newer_or_known_already_does_not_count() {
    let (world, snapshot) = changed_world();
    let view = world.tree.view();
    assert!(!view.key_changed(b"key1", since(snapshot, snapshot)).unwrap());
    assert!(!view.key_changed(b"key2", since(snapshot, SequenceNumber(11))).unwrap());
    assert!(!view.range_changed(&Bounds::default(), since(snapshot, snapshot)).unwrap());
    let after = SequenceNumber(snapshot.0 + 1);
    let later = Since { snapshot, after, upto: SequenceNumber::MAX };
    assert!(
        !view.key_changed(b"key1", later).unwrap() && view.key_changed(b"key2", later).unwrap()
    );
}

#[test]
fn tables_are_compared_with_the_snapshot_because_their_numbers_may_be_shared() {
    let (mut world, snapshot) = changed_world();
    world.flush();
    // Whatever number the flush gave these, it is above the snapshot.
    let later = Since { snapshot, after: world.sequence, upto: SequenceNumber::MAX };
    assert!(world.tree.view().key_changed(b"key1", later).unwrap());
    assert!(world.tree.view().range_changed(&bounds(b"key5", b"key6"), later).unwrap());
}
