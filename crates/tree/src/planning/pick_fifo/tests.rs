//! Which tables leave, and which stay.

use super::*;
use crate::{
    files::stack::tests::comparisons,
    fixture::{numbers, open_files, reference, version},
    planning::strategy::debt,
    retain::stripes::Stripes,
};
use siltdb_base::{fs::mem::MemFs, id::SequenceNumber};
use siltdb_disk::edit::TableReference;
use std::time::Duration;

fn fifo(bytes_max: u64, age_ms: Option<u64>) -> TreeOptions {
    let age_max = age_ms.map(Duration::from_millis);
    let compaction = CompactionStrategy::Fifo { bytes_max, age_max };
    TreeOptions { compaction, ..TreeOptions::default() }
}

/// A table over all keys, flushed at ten times its file number.
fn table(file: u64, bytes: u64) -> TableReference {
    let mut table = reference(file, (b"a", b"z"), (file, file), bytes);
    table.meta.created_ms = file * 10;
    table
}

fn shape(tables: &[(u8, TableReference)]) -> Version {
    version(&open_files(&Arc::new(MemFs::new())), tables)
}

fn moment(newest_snapshot: Option<u64>, now_ms: u64) -> Moment {
    Moment {
        stripes: Stripes::new(&[], SequenceNumber(1000)),
        newest_snapshot: newest_snapshot.map(SequenceNumber),
        now_ms,
    }
}

fn leaving(version: &Version, options: &TreeOptions, moment: &Moment) -> Vec<u64> {
    let plan = pick_leaving(version, options, &Busy::default(), moment);
    plan.map_or_else(Vec::new, |plan| {
        assert_eq!((plan.kind, plan.reason), (PlanKind::DeleteOnly, Reason::Fifo));
        let mut files = numbers(plan.tables());
        files.sort_unstable();
        files
    })
}

#[test]
fn the_oldest_tables_leave_until_the_rest_fits() {
    let tables: Vec<_> = (1..=5).map(|file| (0, table(file, 1000))).collect();
    let version = shape(&tables);
    let present = moment(None, 0);
    assert_eq!(leaving(&version, &fifo(5000, None), &present), [0; 0]);
    assert_eq!(leaving(&version, &fifo(4999, None), &present), [1]);
    assert_eq!(leaving(&version, &fifo(2500, None), &present), [1, 2, 3]);
    // The newest stays, whatever its size.
    assert_eq!(leaving(&version, &fifo(10, None), &present), [1, 2, 3, 4]);
    assert!(!is_quiet(&version, &fifo(4999, None)) && is_quiet(&version, &fifo(5000, None)));
}

#[test]
fn the_debt_of_a_fifo_family_takes_no_look_at_its_tables() {
    let tables: Vec<_> = (1..=300).map(|file| (0, table(file, 1000))).collect();
    let version = shape(&tables);
    let before = comparisons();
    assert_eq!(debt(&version, &fifo(1 << 40, None)), (0, 0));
    assert_eq!(comparisons(), before);
    // The counter counts.
    assert_eq!(debt(&version, &TreeOptions::default()).0, 300);
    assert!(comparisons() > before);
}

#[test]
fn tables_leave_once_they_are_older_than_permitted() {
    let tables: Vec<_> = (1..=5).map(|file| (0, table(file, 1000))).collect();
    let version = shape(&tables);
    let options = fifo(1 << 20, Some(100));
    assert_eq!(leaving(&version, &options, &moment(None, 110)), [0; 0]);
    assert_eq!(leaving(&version, &options, &moment(None, 111)), [1]);
    assert_eq!(leaving(&version, &options, &moment(None, 131)), [1, 2, 3]);
    // Also the newest.
    assert_eq!(leaving(&version, &options, &moment(None, 1000)), [1, 2, 3, 4, 5]);
    // A clock that has moved back makes nothing older.
    assert_eq!(leaving(&version, &options, &moment(None, 5)), [0; 0]);
    // A table of unknown age keeps the newer ones.
    let mut unknown = table(2, 1000);
    unknown.meta.created_ms = 0;
    let version = shape(&[(0, table(1, 1000)), (0, unknown), (0, table(3, 1000))]);
    assert_eq!(leaving(&version, &options, &moment(None, 1000)), [1]);
}

#[test]
fn a_table_stays_while_a_snapshot_or_a_floor_sees_it() {
    let tables: Vec<_> = (1..=5).map(|file| (0, table(file, 1000))).collect();
    let version = shape(&tables);
    let options = fifo(1000, None);
    assert_eq!(leaving(&version, &options, &moment(Some(0), 0)), [1, 2, 3, 4]);
    // The snapshot sees table 1, and what is newer stays behind it.
    assert_eq!(leaving(&version, &options, &moment(Some(1), 0)), [0; 0]);
    let stripes = Stripes::new(&[], SequenceNumber(1000)).with_floor(Some(SequenceNumber(900)));
    let floor = Moment { stripes, ..moment(None, 0) };
    assert_eq!(leaving(&version, &options, &floor), [0; 0]);
}

#[test]
fn a_table_leaves_after_everything_below_it() {
    // The family was leveled before.
    let tables = [(0, table(9, 1000)), (5, table(3, 1000)), (6, table(5, 1000))];
    let version = shape(&tables);
    assert_eq!(leaving(&version, &fifo(2000, None), &moment(None, 0)), [5]);
    assert_eq!(leaving(&version, &fifo(1000, None), &moment(None, 0)), [3, 5]);
    let mut busy = Busy::default();
    let bottom = version.levels()[6].tables().to_vec();
    let inputs = vec![PlanInput { level: 6, tables: bottom }];
    busy.begin(&Plan::new(PlanKind::Rewrite, Reason::Garbage, inputs, 6));
    assert!(pick_leaving(&version, &fifo(1000, None), &busy, &moment(None, 0)).is_none());
}

#[test]
fn an_ingested_table_leaves_by_its_sequence_number_whatever_its_level() {
    let ingested = |file: u64, keys: (&[u8], &[u8]), sequence: u64| {
        let table = reference(file, keys, (1, 1), 1000);
        TableReference { global_sequence: Some(SequenceNumber(sequence)), ..table }
    };
    // Two tables of one ingest, newer than those of level 0, which lie beside their keys.
    let flushed = |file| reference(file, (b"a", b"f"), (file, file), 1000);
    let tables = [
        (0, flushed(11)),
        (0, flushed(12)),
        (6, ingested(21, (b"k", b"l"), 20)),
        (6, ingested(22, (b"m", b"n"), 20)),
    ];
    let version = shape(&tables);
    assert_eq!(leaving(&version, &fifo(3000, None), &moment(None, 0)), [11]);
    assert_eq!(leaving(&version, &fifo(2000, None), &moment(None, 0)), [11, 12]);
    // One ingest is no unit: the first keys leave first.
    assert_eq!(leaving(&version, &fifo(1000, None), &moment(None, 0)), [11, 12, 21]);
    // In level 0 alike.
    let (first, second) = (ingested(22, (b"k", b"l"), 20), ingested(21, (b"m", b"n"), 20));
    let version = shape(&[(0, first), (0, flushed(11)), (0, second)]);
    assert_eq!(leaving(&version, &fifo(2000, None), &moment(None, 0)), [11]);
    // Also where a rewrite has given the first keys the higher file number.
    assert_eq!(leaving(&version, &fifo(1000, None), &moment(None, 0)), [11, 22]);
}

#[test]
fn a_table_with_newer_entries_of_other_keys_leaves_before_what_hides_it() {
    // The one in level 0 hides a part of the one below, which has a newer entry beside it.
    let below = reference(1, (b"a", b"z"), (1, 50), 1000);
    let above = reference(2, (b"a", b"f"), (40, 40), 1000);
    let newer = reference(3, (b"x", b"z"), (60, 60), 1000);
    let version = shape(&[(6, below), (0, above), (0, newer)]);
    assert_eq!(leaving(&version, &fifo(2000, None), &moment(None, 0)), [1]);
    assert_eq!(leaving(&version, &fifo(1000, None), &moment(None, 0)), [1, 2]);
}

#[test]
fn tables_with_mixed_ages_leave_together() {
    // Of one flush: its first table has a deletion that is newer than all of the second one.
    let first = reference(1, (b"a", b"f"), (10, 90), 1000);
    let second = reference(2, (b"g", b"p"), (10, 10), 1000);
    let third = reference(3, (b"q", b"z"), (11, 80), 1000);
    let newer = reference(4, (b"a", b"z"), (91, 99), 1000);
    let version = shape(&[(0, first), (0, second), (0, third), (0, newer)]);
    assert_eq!(leaving(&version, &fifo(4000, None), &moment(None, 0)), [0; 0]);
    assert_eq!(leaving(&version, &fifo(3999, None), &moment(None, 0)), [1, 2, 3]);
    // All or none, also by a snapshot, a running plan and by age.
    assert_eq!(leaving(&version, &fifo(3999, None), &moment(Some(10), 0)), [0; 0]);
    let mut busy = Busy::default();
    let tables = version.levels()[0].tables().filter(|table| table.id().file.0 == 3);
    let inputs = vec![PlanInput { level: 0, tables: tables.cloned().collect() }];
    busy.begin(&Plan::new(PlanKind::Rewrite, Reason::Blobs, inputs, 0));
    assert!(pick_leaving(&version, &fifo(3999, None), &busy, &moment(None, 0)).is_none());
    // As long as it is the newest, whatever its size.
    let alone = [(10, 90), (10, 10), (11, 80)].into_iter().zip([b"a", b"g", b"q"]).zip(1..);
    let alone: Vec<_> = alone
        .map(|((sequences, key), file)| (0, reference(file, (key, key), sequences, 1000)))
        .collect();
    assert_eq!(leaving(&shape(&alone), &fifo(10, None), &moment(None, 0)), [0; 0]);
}

#[test]
fn tables_of_one_flush_with_one_number_leave_together() {
    // The numbers of the entries are shared (decision 0027), and so their ages are unknown.
    let newer = reference(3, (b"x", b"z"), (20, 20), 1000);
    let first = reference(1, (b"a", b"f"), (10, 10), 1000);
    let second = reference(2, (b"g", b"p"), (10, 10), 1000);
    let version = shape(&[(0, first), (0, second), (0, newer)]);
    assert_eq!(leaving(&version, &fifo(3000, None), &moment(None, 0)), [0; 0]);
    assert_eq!(leaving(&version, &fifo(2000, None), &moment(None, 0)), [1, 2]);
}

#[test]
fn separated_values_count_as_bytes_of_the_table_that_refers_to_them() {
    use siltdb_base::{id::FileNumber, key::BlobPointer};
    use siltdb_disk::blob::record_bytes;
    let with_values = |file: u64| {
        let mut table = table(file, 1000);
        table.meta.blobs.note(&BlobPointer {
            file: FileNumber(100 + file),
            offset: 64,
            length: 9000,
            stored_bytes: 9000,
            codec: 0,
            checksum: 0,
            expiry_ms: None,
        });
        table
    };
    let tables: Vec<_> = (1..=5).map(|file| (0, with_values(file))).collect();
    let version = shape(&tables);
    let all = 5 * (1000 + record_bytes(9000));
    assert_eq!(leaving(&version, &fifo(all, None), &moment(None, 0)), [0; 0]);
    assert_eq!(leaving(&version, &fifo(all - 1, None), &moment(None, 0)), [1]);
    assert_eq!(leaving(&version, &fifo(all / 2, None), &moment(None, 0)), [1, 2, 3]);
    assert!(!is_quiet(&version, &fifo(all - 1, None)) && is_quiet(&version, &fifo(all, None)));
}

#[test]
fn small_tables_are_joined_to_a_small_part_of_the_family() {
    let tables: Vec<_> = (1..=40).map(|file| (0, table(file, 100))).collect();
    let version = shape(&tables);
    let joined = |bytes_max| {
        let options = fifo(bytes_max, None);
        let plan = pick_small(&version, &options, &Busy::default(), WriteLoad::Light)?;
        assert_eq!((plan.kind, plan.output_level), (PlanKind::Rewrite, 0));
        Some(plan.bytes())
    };
    assert_eq!(joined(1 << 30), Some(4000));
    assert_eq!(joined(32_000), Some(2000));
    // No table is small beside what may leave at once.
    assert_eq!(joined(8_000), None);
}

#[test]
fn a_full_request_leaves_the_tables_as_they_are() {
    use crate::planning::pick_range::{Request, Step, plan_request};
    use siltdb_base::id::FileNumber;
    let tables: Vec<_> = (1..=40).map(|file| (0, table(file, 100))).collect();
    let request = Request::new(None, SequenceNumber::MAX, FileNumber(100));
    let options = fifo(1 << 20, None);
    let step = plan_request(&shape(&tables), &request, &options, &Busy::default());
    assert!(matches!(step, Step::Done), "{step:?}");
}
