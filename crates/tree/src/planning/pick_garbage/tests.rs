//! Which tables go, by the shape of a version alone.

use super::*;
use crate::fixture::{FAMILY, add, open_files, reference};
use siltdb_base::{fs::mem::MemFs, id::SequenceNumber, key::EntryKind};
use siltdb_disk::{
    edit::Change,
    garbage::{Garbage, GarbageBuilder, KeyPosition, SizedEntry},
};

/// Entries that expire at these times.
fn expiring(expiries: &[u64]) -> Garbage {
    let mut garbage = GarbageBuilder::default();
    for expiry_ms in expiries {
        let value = expiry_ms.to_le_bytes();
        let (sequence, kind) = (SequenceNumber(1), EntryKind::PutExpiring);
        let entry = SizedEntry { key_bytes: 2, sequence, kind, value: &value };
        garbage.add(KeyPosition::First, entry).unwrap();
    }
    garbage.finish()
}

/// A table of ten bytes for each entry that expires, and for others.
fn table((level, file): (u8, u64), keys: (&[u8], &[u8]), expiries: &[u64], others: u64) -> Change {
    let mut table = reference(file, keys, (file, file), 1000);
    table.meta.garbage = expiring(expiries);
    table.meta.entries = expiries.len() as u64 + others;
    table.meta.logical_bytes = 10 * table.meta.entries;
    add(level, table)
}

fn version(changes: &[Change]) -> Version {
    let files = open_files(&Arc::new(MemFs::new()));
    Version::empty().apply(&files, FAMILY, changes).unwrap()
}

fn moment(now_ms: u64) -> Moment {
    Moment { stripes: Stripes::new(&[], SequenceNumber(100)), newest_snapshot: None, now_ms }
}

fn files(plan: &Plan) -> Vec<u64> {
    plan.tables().map(|table| table.id().file.0).collect()
}

fn dropped(version: &Version, now_ms: u64) -> Vec<u64> {
    let plan = pick_drop(version, &Covered::default(), &Busy::default(), &moment(now_ms));
    plan.as_ref().map(files).unwrap_or_default()
}

fn rewritten(version: &Version, now_ms: u64) -> Vec<u64> {
    let options = TreeOptions::default();
    let moment = moment(now_ms);
    let plan = pick_rewrite(version, &Covered::default(), &options, &Busy::default(), &moment);
    plan.as_ref().map(files).unwrap_or_default()
}

#[test]
fn an_expired_table_goes_with_those_that_lie_over_it_and_not_over_what_stays() {
    let version = version(&[
        table((0, 9), (b"a", b"b"), &[5], 0),
        table((0, 8), (b"x", b"y"), &[5], 0),
        table((4, 5), (b"a", b"c"), &[3, 5], 0),
        table((6, 2), (b"b", b"d"), &[5], 0),
        table((6, 1), (b"x", b"z"), &[5], 1),
    ]);
    assert_eq!(dropped(&version, 4), [0; 0]);
    assert_eq!(dropped(&version, 5), [9, 5, 2]);
}

#[test]
fn a_table_that_a_running_plan_takes_stays_and_so_does_what_lies_over_it() {
    let version = version(&[
        table((4, 5), (b"a", b"c"), &[5], 0),
        table((4, 4), (b"p", b"q"), &[5], 0),
        table((6, 2), (b"b", b"d"), &[5], 0),
    ]);
    let mut busy = Busy::default();
    let tables = vec![Arc::clone(version.levels()[6].table(0))];
    busy.begin(&Plan::new(
        PlanKind::Rewrite,
        Reason::Request,
        vec![PlanInput { level: 6, tables }],
        6,
    ));
    let plan = pick_drop(&version, &Covered::default(), &busy, &moment(5)).unwrap();
    assert_eq!(files(&plan), [4]);
}

#[test]
fn neighbours_are_rewritten_together_once_a_fair_part_has_expired() {
    let most = [vec![5; 17], vec![9; 83]].concat();
    let enough = [vec![5; 18], vec![9; 82]].concat();
    let version = version(&[
        table((6, 1), (b"a", b"b"), &most, 0),
        table((6, 2), (b"c", b"d"), &enough, 0),
        table((6, 3), (b"e", b"f"), &enough, 0),
    ]);
    assert_eq!(rewritten(&version, 4), [0; 0]);
    assert_eq!(rewritten(&version, 5), [2, 3]);
    assert_eq!(next_expiry_ms(&version, &TreeOptions::default(), 4), Some(5));
    assert_eq!(next_expiry_ms(&version, &TreeOptions::default(), 5), Some(9));
    assert_eq!(next_expiry_ms(&version, &TreeOptions::default(), 9), None);
}

#[test]
fn tables_of_level_0_are_rewritten_one_by_one() {
    let version =
        version(&[table((0, 1), (b"a", b"b"), &[5], 0), table((0, 2), (b"a", b"b"), &[5], 1)]);
    assert_eq!(rewritten(&version, 5).len(), 1);
}
