//! Cutting is lazy and complete.

use super::*;
use siltdb_base::key::EntryKind;

fn insert(tombstones: &RangeTombstones, start: &[u8], sequence: u64, end: &[u8]) {
    let sequence = SequenceNumber(sequence);
    tombstones.insert(&Entry { key: start, sequence, kind: EntryKind::RangeDelete, value: end });
}

#[test]
fn fragments_are_cut_once_per_change() {
    let tombstones = RangeTombstones::new(&Arc::new(Budget::new(0)));
    assert!(tombstones.fragments().is_empty());
    insert(&tombstones, b"a", 1, b"c");
    let first = tombstones.fragments();
    assert!(Arc::ptr_eq(&first, &tombstones.fragments()));
    insert(&tombstones, b"b", 2, b"d");
    let second = tombstones.fragments();
    assert_eq!((first.as_slice().len(), second.as_slice().len()), (1, 3));
}

#[test]
fn lookups_do_not_cut_for_each_tombstone() {
    let tombstones = RangeTombstones::new(&Arc::new(Budget::new(0)));
    let mut cuts = 0;
    let mut last = 0;
    for sequence in 1..=if cfg!(miri) { 100 } else { 1_000 } {
        insert(&tombstones, b"a", sequence, b"b");
        let newest = tombstones.covering(b"a", SequenceNumber::MAX);
        assert_eq!(newest, Some(SequenceNumber(sequence)));
        let cut = tombstones.state.read().unwrap().cut;
        cuts += usize::from(cut != last);
        last = cut;
    }
    assert!(cuts < 60, "cut {cuts} times");
}
