//! Entries come to their memtables whole, from the caller and from threads.

use super::*;
use siltdb_base::{budget::Budget, cursor::EntryCursor};
use siltdb_memtable::arena::{ArenaOptions, ArenaPool};

/// What is in a memtable, in its order.
fn contents(memtable: &Arc<Memtable>) -> Vec<(Vec<u8>, SequenceNumber, EntryKind, Vec<u8>)> {
    let mut all = Vec::new();
    let mut cursor = memtable.cursor();
    cursor.seek_to_first().unwrap();
    while let Some(entry) = cursor.entry() {
        all.push((entry.key.to_vec(), entry.sequence, entry.kind, entry.value.to_vec()));
        cursor.next().unwrap();
    }
    all
}

fn memtables(count: usize) -> Vec<Arc<Memtable>> {
    let arenas = ArenaPool::new(Arc::new(Budget::new(1 << 30)), ArenaOptions::default());
    (0..count).map(|_| Memtable::new(&arenas)).collect()
}

/// Adds entries of all shapes to three memtables: in long runs, by turns, with empty and with large
/// values, and deleted ranges.
fn add_all(count: u64, add: &mut dyn FnMut(usize, Entry<'_>)) {
    let large = vec![7; PIECE_BYTES + 1];
    for number in 1..=count {
        let at = if number % 1000 < 600 { 0 } else { (number % 3) as usize };
        let key = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes();
        let (kind, value) = match number % 2000 {
            3 => (EntryKind::RangeDelete, &[0xFF; 9][..]),
            5 => (EntryKind::Put, &large[..PIECE_BYTES - key.len() - 1]),
            7 => (EntryKind::Put, &large[..]),
            11 => (EntryKind::Delete, &[][..]),
            _ => (EntryKind::Put, &key[..(number % 9) as usize]),
        };
        add(at, Entry { key: &key, sequence: SequenceNumber(number), kind, value });
    }
}

#[test]
fn several_threads_insert_what_one_would() {
    const COUNT: u64 = 200_000;
    let expected = memtables(3);
    add_all(COUNT, &mut |at, entry| expected[at].insert(entry));
    for threads in [0, 1, 3] {
        let found = memtables(3);
        let mut inserts = Inserts::new(threads);
        add_all(COUNT, &mut |at, entry| inserts.add(&found[at], entry));
        assert_eq!(inserts.helpers.is_some(), threads > 0);
        inserts.finish();
        for (expected, found) in expected.iter().zip(&found) {
            assert!(contents(expected) == contents(found), "{threads} threads");
            assert_eq!(expected.tombstones().count(), found.tombstones().count());
        }
    }
}

#[test]
fn a_short_log_starts_no_thread() {
    let memtables = memtables(3);
    let mut inserts = Inserts::new(3);
    add_all(1000, &mut |at, entry| inserts.add(&memtables[at], entry));
    assert!(inserts.helpers.is_none());
    inserts.finish();
    assert_eq!(memtables.iter().map(|memtable| contents(memtable).len()).sum::<usize>(), 999);
}

#[test]
fn a_panic_of_a_thread_is_one_of_the_caller() {
    let memtable = &memtables(1)[0];
    let helpers = Helpers::start(1);
    let mut piece = Piece::default();
    let entry =
        Entry { key: b"key", sequence: SequenceNumber(1), kind: EntryKind::Put, value: b"" };
    piece.add(memtable, entry);
    piece.bytes.push(0);
    assert!(helpers.take(piece).is_none());
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(helpers)));
    assert!(dropped.is_err());
}
