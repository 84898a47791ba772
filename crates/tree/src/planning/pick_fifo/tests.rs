//! Which tables leave, and which stay.

use super::*;
use crate::{
    fixture::{numbers, open_files, reference, version},
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
