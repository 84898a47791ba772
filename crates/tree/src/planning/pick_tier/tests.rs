//! Which table moves next, by levels and options alone.

use super::*;
use crate::fixture::{open_files, reference, version};
use siltdb_base::fs::mem::MemFs;
use siltdb_disk::edit::TableReference;

fn lying(tier: Tier, file: u64, keys: (&[u8], &[u8])) -> TableReference {
    TableReference { tier, ..reference(file, keys, (file, file), 1000) }
}

fn cold_from(level: u32) -> TreeOptions {
    TreeOptions { cold_from_level: level, ..TreeOptions::default() }
}

/// All moves that are due, in their order.
fn moves(version: &Version, options: &TreeOptions, newest: u64) -> Vec<(u64, Tier)> {
    let mut done = Vec::new();
    loop {
        let is_done = |id: TableId| done.iter().any(|(file, _)| *file == id.file.0);
        match pick_tier(version, options, SequenceNumber(newest), &is_done) {
            Some((table, tier)) => done.push((table.id().file.0, tier)),
            None => return done,
        }
    }
}

#[test]
fn tables_move_to_where_their_level_belongs_deepest_first() {
    let files = open_files(&Arc::new(MemFs::new()));
    let version = version(
        &files,
        &[
            (0, lying(Tier::Hot, 9, (b"a", b"z"))),
            (1, lying(Tier::Cold, 8, (b"a", b"b"))),
            (1, lying(Tier::Hot, 7, (b"c", b"d"))),
            (3, lying(Tier::Hot, 6, (b"a", b"b"))),
            (3, lying(Tier::Cold, 5, (b"c", b"d"))),
            (6, lying(Tier::Hot, 4, (b"a", b"b"))),
        ],
    );
    let (hot, cold) = (Tier::Hot, Tier::Cold);
    assert_eq!(moves(&version, &cold_from(7), 99), [(5, hot), (8, hot)]);
    assert_eq!(moves(&version, &cold_from(3), 99), [(4, cold), (6, cold), (8, hot)]);
    assert_eq!(moves(&version, &cold_from(6), 99), [(4, cold), (5, hot), (8, hot)]);
    let everything = [(4, cold), (6, cold), (7, cold), (9, cold)];
    assert_eq!(moves(&version, &cold_from(0), 99), everything);
    // What came later does not count.
    assert_eq!(moves(&version, &cold_from(0), 7), everything[..3]);
    assert_eq!(wanted_tier(&cold_from(3), 2), hot);
    assert_eq!(wanted_tier(&cold_from(3), 3), cold);
    assert_eq!(wanted_tier(&TreeOptions::default(), 6), hot);
}
