//! Parts, failures and what must survive a merge.

use super::*;
use crate::{
    compaction_filter::{
        CompactionFilter, FilterCounts, FilterDecision, FilteredEntry, NamedFilter,
    },
    fixture::{
        FAMILY, TestRandom, numbers,
        world::{World, small_options},
    },
    planning::pick_leveled::WriteLoad,
    planning::pick_range::{Request, Step},
    planning::plan::{PlanInput, Reason},
    rewrite::table_form::TableForm,
};
use siltdb_base::{
    error::ErrorKind,
    fs::mem::{Crash, Fault, FaultError, FaultSpan},
    id::FileNumber,
    key::EntryKind,
    limits::LEVELS,
};
use siltdb_disk::{
    edit::{Change, TableReference},
    options::{Compression, TableKind, TableOptions},
};

/// Four runs of level 0 over the same keys, with tombstones and snapshots among them.
fn four_runs(random: &mut TestRandom, keys: u64) -> World {
    let mut world = World::new(small_options());
    for run in 0..4 {
        for _ in 0..keys {
            let key = format!("key{:04}", random.below(keys)).into_bytes();
            let value = random.bytes(50);
            if random.below(5) == 0 {
                world.write(&key, EntryKind::Delete, b"");
            } else {
                world.put(&key, &value);
            }
        }
        let start = random.below(keys);
        let [start, end] = [start, start + keys / 3].map(|number| format!("key{number:04}"));
        world.write(start.as_bytes(), EntryKind::RangeDelete, end.as_bytes());
        if run % 2 == 0 {
            world.snapshots.push(world.sequence);
        }
        world.flush();
    }
    world
}

fn due(world: &World) -> Plan {
    let plan = world.tree.begin_plan(world.oldest_snapshot(), WriteLoad::Light).unwrap();
    assert_eq!((plan.kind, plan.reason), (PlanKind::Rewrite, Reason::Level0));
    plan
}

#[test]
fn parts_cover_everything_once_and_leave_disjoint_tables() {
    for parallelism in [1, 2, 3, 8, 100] {
        let mut random = TestRandom::new(11);
        let mut world = four_runs(&mut random, 400);
        let plan = due(&world);
        let (_, parts) = world.compaction(plan.clone(), parallelism).unwrap();
        assert!(parts.len() >= parallelism.min(8), "{} parts", parts.len());
        let borders: Vec<_> = parts.iter().map(|part| part.borders.clone()).collect();
        assert!(borders[0].lower.is_none() && borders[borders.len() - 1].upper.is_none());
        for pair in borders.windows(2) {
            assert!(pair[0].upper == pair[1].lower && pair[0].upper > pair[0].lower);
        }
        world.compact(&plan, parallelism);
        assert!(world.tree.view().version.levels()[6].tables().len() > 3);
        world.check(&mut random);
    }
}

#[test]
fn a_merge_into_a_level_keeps_its_neighbours_and_cuts_tombstones_at_borders() {
    for seed in 0..10 {
        let mut random = TestRandom::new(seed);
        let mut world = four_runs(&mut random, 300);
        let plan = due(&world);
        world.compact(&plan, 3);
        // Again over what is there now, and over a part of it.
        for _ in 0..4 {
            for _ in 0..60 {
                let key = format!("key{:04}", 100 + random.below(80));
                let value = random.bytes(50);
                world.put(key.as_bytes(), &value);
            }
            world.write(b"key0090", EntryKind::RangeDelete, b"key0150");
            world.flush();
        }
        let before = numbers(world.tree.view().version.levels()[6].tables());
        let plan = due(&world);
        world.compact(&plan, 3);
        let after = numbers(world.tree.view().version.levels()[6].tables());
        assert!(after.iter().any(|number| before.contains(number)), "neighbours stay");
        world.check(&mut random);
        let view = world.tree.view();
        let cut = view
            .version
            .tables()
            .filter(|(_, table)| table.range().end == siltdb_disk::table_meta::RangeEnd::Exclusive);
        assert!(cut.count() > 0, "no tombstone reaches a border");
    }
}

#[test]
fn everything_deleted_leaves_no_table() {
    let mut world = World::new(small_options());
    for number in 0..300 {
        world.put(format!("key{number:04}").as_bytes(), b"value");
    }
    world.flush();
    world.write(b"", EntryKind::RangeDelete, b"z");
    world.flush();
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 2);
    }
    assert!(world.tree.view().version.is_empty());
    world.purge();
    assert!(world.files_there().is_empty());
}

#[test]
fn merging_within_level_0_keeps_ages_and_tombstones() {
    let mut random = TestRandom::new(4);
    let world = four_runs(&mut random, 100);
    let level0 = world.tree.view().version.levels()[0].clone();
    let newest: usize = level0.ages()[..2].iter().sum();
    let inputs = vec![PlanInput { level: 0, tables: level0.within(0..newest).to_vec() }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::WithinLevel0, inputs, 0);
    let output = world.carry_out(&plan, 2).unwrap();
    world.tree.apply(&output.changes, None).unwrap();
    assert_eq!(world.tree.view().version.levels()[0].ages().len(), 3);
    world.check(&mut random);
}

#[test]
fn a_failed_compaction_leaves_no_file_and_the_view_as_it_was() {
    let mut failures = 0;
    for span in [FaultSpan::Once, FaultSpan::FromThenOn] {
        for nth in (1..).step_by(3) {
            let mut random = TestRandom::new(77);
            let mut world = four_runs(&mut random, 60);
            let plan = due(&world);
            let (before, version) = (world.files_there(), world.tree.view().version.clone());
            let fault = Fault { kind: None, nth, span, error: FaultError::Io };
            world.fs.set_fault(Some(fault));
            let result = world.carry_out(&plan, 1);
            world.fs.set_fault(None);
            if result.is_ok() && world.fs.faults() == 0 {
                break;
            }
            if result.is_err() {
                failures += 1;
                if span == FaultSpan::FromThenOn {
                    world.purge();
                }
                assert_eq!(world.files_there(), before, "call {nth}");
                assert!(Arc::ptr_eq(&version, &world.tree.view().version));
            }
            drop(result);
            world.tree.end_plan(plan.name());
            world.check_at(world.sequence, &mut random);
            let again = due(&world);
            world.compact(&again, 2);
            world.check(&mut random);
        }
    }
    assert!(failures > 20, "only {failures} failures");
}

#[test]
fn what_one_part_wrote_goes_when_another_fails() {
    let mut random = TestRandom::new(3);
    let world = four_runs(&mut random, 300);
    let plan = due(&world);
    let before = world.files_there();
    let (_, parts) = world.compaction(plan, 3).unwrap();
    world.with_context(|context| {
        let first = parts[0].run(context).unwrap();
        assert!(world.files_there().len() > before.len() && !first.tables().is_empty());
        context.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(parts[1].run(context).unwrap_err().kind(), ErrorKind::Closed);
    });
    assert_eq!(world.files_there(), before);
}

#[test]
fn what_a_compaction_returns_survives_a_loss_of_power() {
    for seed in 0..10 {
        let mut random = TestRandom::new(seed);
        let world = four_runs(&mut random, 200);
        let plan = due(&world);
        let output = world.carry_out(&plan, 2).unwrap();
        let fs = Arc::new(world.fs.crash_clone(Crash::PowerLoss { seed }));
        let files = crate::fixture::open_files(&fs);
        let mut tables = 0;
        for change in &output.changes {
            if let Change::AddTable { table, .. } = change {
                let open = files.reference(table.clone()).unwrap();
                open.pass().unwrap().verify(&mut |_, _, _| Ok(())).unwrap();
                tables += 1;
            }
        }
        assert!(tables > 2);
    }
}

#[test]
fn a_damaged_input_is_an_error_and_not_a_smaller_table() {
    let mut random = TestRandom::new(9);
    let world = four_runs(&mut random, 100);
    let plan = due(&world);
    let number = FileNumber(*world.files_there().first().unwrap());
    world.fs.bytes_flip(&world.files.path(number), 20, 4).unwrap();
    world.cache.set_capacity(0);
    let before = world.files_there();
    let error = world.carry_out(&plan, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(world.files_there(), before);
}

#[test]
fn a_clone_merges_what_it_sees_and_drops_the_rest() {
    let mut random = TestRandom::new(6);
    let mut world = four_runs(&mut random, 120);
    let snapshot = world.snapshots[0];
    let version = world.tree.view().version.clone();
    let removals = version.references().map(|(level, table)| Change::RemoveTable {
        family: FAMILY,
        level,
        file: table.file,
        offset: table.offset,
    });
    let seen = version.references().filter(|(_, table)| table.meta.sequence_min <= snapshot);
    let additions = seen.map(|(level, table)| {
        let table = TableReference { visible_to: Some(snapshot), ..TableReference::clone(table) };
        Change::AddTable { family: FAMILY, level, table: table.into() }
    });
    let limited: Vec<_> = removals.chain(additions).collect();
    drop(version);
    world.tree.apply(&limited, None).unwrap();
    let now_ms = 0;
    let expected = world.model.all(snapshot, now_ms);
    assert!(expected.len() > 10);
    for (key, value) in &expected {
        assert_eq!(world.get(key, world.sequence).unwrap(), value.as_slice());
    }
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    world.snapshots.clear();
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 2);
    }
    let view = world.tree.view();
    assert!(view.version.tables().all(|(_, table)| table.is_whole()));
    for (key, value) in &expected {
        assert_eq!(world.get(key, world.sequence).unwrap(), value.as_slice());
    }
    let entries: u64 = view.version.tables().map(|(_, table)| table.meta().entries).sum();
    assert_eq!(entries, expected.len() as u64);
}

#[test]
fn a_part_that_drops_everything_can_be_cancelled_too() {
    let mut world = World::new(small_options());
    for number in 0..3000 {
        world.put(format!("key{number:04}").as_bytes(), b"value");
    }
    world.flush();
    world.write(b"", EntryKind::RangeDelete, b"z");
    world.flush();
    let tables = world.tree.view().version.levels()[0].tables().to_vec();
    let inputs = vec![PlanInput { level: 0, tables }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::Request, inputs, 6);
    world.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(world.carry_out(&plan, 1).unwrap_err().kind(), ErrorKind::Closed);
    world.cancelled.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(world.carry_out(&plan, 1).unwrap().bytes_written, 0);
}

/// A tree of puts, and of what `change` writes while they are seen by a snapshot. All is brought
/// down to where it stays. Also the plan that would rewrite it there.
fn at_the_bottom(change: impl FnOnce(&mut World)) -> (World, Plan) {
    let mut world = World::new(small_options());
    for number in 0..4000 {
        world.put(format!("key{number:04}").as_bytes(), &[number as u8; 20]);
    }
    world.snapshots.push(world.sequence);
    change(&mut world);
    world.flush();
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    loop {
        let Step::Plan(plan) = world.tree.begin_request(&request) else {
            panic!("tables that are older than a request are rewritten");
        };
        if plan.inputs[0].level == plan.output_level {
            return (world, plan);
        }
        world.compact(&plan, 1);
    }
}

#[test]
fn a_rewrite_is_worth_nothing_where_all_stays_as_it_is() {
    let (mut world, plan) = at_the_bottom(|_| ());
    assert!(would_change_nothing(&plan, &small_options(), 1));
    let table = TableOptions { kind: TableKind::BTree, ..small_options().table };
    assert!(!would_change_nothing(&plan, &TreeOptions { table, ..small_options() }, 1));
    // Of many small tables few large ones may come.
    let larger = TreeOptions { table_bytes_target: 1 << 20, ..small_options() };
    assert!(plan.inputs[0].tables.len() as u64 > SPLIT_MAX);
    assert!(!would_change_nothing(&plan, &larger, 2));
    let before = numbers(plan.tables());
    world.compact(&plan, 1);
    let version = world.tree.view().version.clone();
    assert_ne!(numbers(version.levels()[plan.output_level].tables()), before);
    for (kind, value) in
        [(EntryKind::Put, &b"new"[..]), (EntryKind::Delete, b""), (EntryKind::RangeDelete, b"z")]
    {
        let (_, plan) = at_the_bottom(|world| world.write(b"key0050", kind, value));
        assert!(!would_change_nothing(&plan, &small_options(), 1), "{kind:?}");
    }
}

#[test]
fn tables_are_left_as_they_are_unless_they_are_very_many() {
    let (_, plan) = at_the_bottom(|_| ());
    let count = plan.inputs[0].tables.len() as u64;
    assert!(count > 12);
    // What flushes leave of memtables that are halved for two threads, and twice as much.
    for (times_too_many, stays) in [(3, true), (6, false)] {
        let table_bytes_target = plan.bytes() * times_too_many / count;
        let options = TreeOptions { table_bytes_target, ..small_options() };
        assert_eq!(would_change_nothing(&plan, &options, 1), stays, "{times_too_many}");
    }
}

/// Merges tables of level 0, by their positions there, into `level`.
fn merge_level0(world: &mut World, positions: &[usize], level: usize) {
    let level0 = world.tree.view().version.levels()[0].clone();
    let tables = positions.iter().map(|&index| level0.table(index).clone()).collect();
    let inputs = vec![PlanInput { level: 0, tables }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::Level0, inputs, level);
    let output = world.carry_out(&plan, 1).unwrap();
    world.tree.apply(&output.changes, None).unwrap();
}

/// The oldest and the newest sequence number of each table of a level.
fn sequences(world: &World, level: usize) -> Vec<(u64, u64)> {
    let version = world.tree.view().version.clone();
    let tables = version.levels()[level].tables();
    tables.map(|table| (table.sequence_min().0, table.sequence_max().0)).collect()
}

#[test]
fn values_that_everybody_sees_share_a_sequence_number_at_the_bottom() {
    let mut random = TestRandom::new(5);
    let mut world = World::new(small_options());
    for run in 0..3 {
        for _ in 0..200 {
            let key = format!("key{:04}", random.below(300));
            world.put(key.as_bytes(), &[run; 20]);
        }
        if run == 1 {
            world.snapshots.push(world.sequence);
        }
        world.flush();
    }
    merge_level0(&mut world, &[0, 1, 2], 6);
    // What came after the snapshot keeps its own.
    assert!(sequences(&world, 6).iter().all(|&(oldest, newest)| oldest == 1 && newest > 400));
    world.check(&mut random);
    world.snapshots.clear();
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 1);
    }
    assert!(sequences(&world, 6).iter().all(|&ends| ends == (1, 1)));
    world.check(&mut random);
}

#[test]
fn a_value_stays_newer_than_what_lies_deeper() {
    let mut world = World::new(small_options());
    // A table that stays in level 0 while a younger one goes down.
    world.put(b"early", b"1");
    world.flush();
    world.put(b"key", b"old");
    world.flush();
    merge_level0(&mut world, &[0], 6);
    world.put(b"key", b"new");
    world.flush();
    merge_level0(&mut world, &[0, 1], 5);
    assert_eq!(sequences(&world, 5), [(1, 3)]);
    assert_eq!(world.get(b"key", SequenceNumber::MAX).unwrap().as_bytes(), b"new");
    world.check(&mut TestRandom::new(6));
}

#[test]
fn tables_of_level_0_stay_as_new_as_they_are() {
    let mut world = World::new(small_options());
    for key in [b"a", b"c", b"b"] {
        world.put(key, b"value");
        world.flush();
    }
    // The newest and the oldest: nothing else overlaps what they have.
    let between = sequences(&world, 0)[1];
    merge_level0(&mut world, &[0, 2], 0);
    assert_eq!(sequences(&world, 0), [(1, 3), between]);
}

/// The compression of each table of a level, as it was written.
fn compressions(world: &World, level: usize) -> Vec<Compression> {
    let version = world.tree.view().version.clone();
    let tables = version.levels()[level].tables();
    tables.map(|table| TableForm::of(&table.pass().unwrap()).compression).collect()
}

#[test]
fn a_request_brings_a_changed_compression_to_tables_at_the_bottom() {
    let (world, plan) = at_the_bottom(|_| ());
    let level = plan.output_level;
    assert!(compressions(&world, level).iter().all(|found| *found == Compression::Lz4));
    for compression in [Compression::Snappy, Compression::None, Compression::Lz4] {
        let options = TreeOptions::clone(&world.tree.options());
        let table = TableOptions { compression, ..options.table };
        let options = TreeOptions { table, ..options };
        let tables = world.tree.view().version.levels()[level].tables().to_vec();
        let inputs = vec![PlanInput { level, tables }];
        let plan = Plan::new(PlanKind::Rewrite, Reason::Request, inputs, level);
        assert!(!would_change_nothing(&plan, &options, 1), "{compression}");
        world.tree.set_options(options.clone());
        let output = world.carry_out(&plan, 1).unwrap();
        world.tree.apply(&output.changes, None).unwrap();
        let found = compressions(&world, level);
        assert!(!found.is_empty() && found.iter().all(|found| *found == compression), "{found:?}");
        let tables = world.tree.view().version.levels()[level].tables().to_vec();
        let inputs = vec![PlanInput { level, tables }];
        let plan = Plan::new(PlanKind::Rewrite, Reason::Request, inputs, level);
        assert!(would_change_nothing(&plan, &options, 1), "{compression}");
        world.check(&mut TestRandom::new(7));
    }
}

/// Compacts everything with tables of `kind` and `compression` from now on.
fn rewrite_as(world: &mut World, kind: TableKind, compression: Compression) {
    let mut options = TreeOptions::clone(&world.tree.options());
    (options.table.kind, options.table.compression) = (kind, compression);
    world.tree.set_options(options);
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 2);
    }
}

#[test]
fn each_level_has_the_compression_and_the_filter_that_its_options_say() {
    let compression_per_level =
        vec![Compression::None, Compression::Lz4, Compression::Lz4, Compression::Snappy];
    let filter_bits_per_level = vec![12, 12, 0];
    let options = TreeOptions { compression_per_level, filter_bits_per_level, ..small_options() };
    let mut world = World::new(options.clone());
    let mut seen = [0; LEVELS];
    for round in 0..60_u32 {
        for number in 0..20 {
            let key = format!("{:05}", (round * 977 + number * 131) % 3000);
            // Hardly compressible, so that there are levels between the first and the last.
            let noise = |at: u32| (round * 20 + number + at * 7919).wrapping_mul(0x9e37_79b9);
            let value: Vec<u8> = (0..50).flat_map(|at| noise(at).to_be_bytes()).collect();
            world.put(key.as_bytes(), &value);
        }
        world.flush();
        if round % 3 == 0 {
            world.settle();
        }
        let version = world.tree.view().version.clone();
        for (level, table) in version.tables() {
            let (wanted, table) = (options.table_at(level), table.table().unwrap());
            assert_eq!(table.filter().unwrap().bytes() > 0, wanted.filter_bits_per_key > 0);
            seen[level] += 1;
        }
        for (level, count) in seen.iter().enumerate().filter(|(_, count)| **count > 0) {
            let wanted = options.table_at(level).compression;
            let found = compressions(&world, level);
            assert!(found.iter().all(|found| *found == wanted), "level {level}, {count} seen");
        }
    }
    assert!(seen.iter().filter(|count| **count > 0).count() >= 3, "{seen:?}");
    world.check(&mut TestRandom::new(3));
}

#[test]
fn a_compaction_writes_the_kind_that_is_chosen_now() {
    for compression in [Compression::None, Compression::Lz4] {
        let mut random = TestRandom::new(5);
        let mut world = four_runs(&mut random, 400);
        for kind in [TableKind::BTree, TableKind::Block, TableKind::BTree] {
            rewrite_as(&mut world, kind, compression);
            world.check(&mut random);
            let view = world.tree.view();
            assert!(view.version.tables().count() > 3);
            assert!(view.version.tables().all(|(_, table)| table.meta().kind == kind));
            // Tables of both kinds lie over each other.
            for number in 0..200 {
                world.put(format!("key{:04}", number * 2).as_bytes(), &[number as u8; 40]);
            }
            world.flush();
            let options = TreeOptions::clone(&world.tree.options());
            let table = TableOptions { kind: TableKind::Block, ..options.table };
            world.tree.set_options(TreeOptions { table, ..options });
            world.put(b"key0100", b"of the other kind");
            world.write(b"key0200", EntryKind::RangeDelete, b"key0210");
            world.flush();
            world.check(&mut random);
        }
    }
}

/// Drops values that begin with `x`, and marks those that begin with `c`.
#[derive(Debug)]
struct ByFirstByte;

impl CompactionFilter for ByFirstByte {
    fn name(&self) -> &str {
        "by first byte"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        match entry.value.first() {
            Some(b'x') => FilterDecision::Drop,
            Some(b'c') => FilterDecision::Change([b"C", &entry.value[1..]].concat()),
            _ => FilterDecision::Keep,
        }
    }
}

/// What the filter makes of a value.
fn filtered(value: &[u8]) -> Option<Vec<u8>> {
    match value.first() {
        Some(b'x') => None,
        Some(b'c') => Some([b"C", &value[1..]].concat()),
        _ => Some(value.to_vec()),
    }
}

/// Reads of every snapshot give what was written; reads of the present what was written or what the
/// filter makes of it, and in the end nothing but that.
#[test]
fn a_filter_changes_no_snapshot_and_in_the_end_all_of_the_present() {
    let key = |number: u64| format!("key{number:03}").into_bytes();
    for seed in 0..20 {
        let mut random = TestRandom::new(seed);
        let mut options = small_options();
        options.compaction_filter = Some(NamedFilter::given(Arc::new(ByFirstByte)));
        let mut world = World::new(options);
        world.filters.learn(world.tree.options().compaction_filter.as_ref()).unwrap();
        let mut present: Vec<Option<Vec<u8>>> = vec![None; 100];
        let mut kept: Vec<(SequenceNumber, Vec<Option<Vec<u8>>>)> = Vec::new();
        let check =
            |world: &World, at: SequenceNumber, expected: &[Option<Vec<u8>>], is_past: bool| {
                for (number, expected) in expected.iter().enumerate() {
                    let found = world.get(&key(number as u64), at).map(|found| found.to_vec());
                    let may_be = expected.as_ref().and_then(|value| filtered(value));
                    let is_right = found == *expected || !is_past && found == may_be;
                    assert!(is_right, "key {number} at {at}: {found:?}, not {expected:?}");
                }
            };
        for step in 0..1500 {
            let number = random.below(100);
            if random.below(6) == 0 {
                world.write(&key(number), EntryKind::Delete, b"");
                present[number as usize] = None;
            } else {
                let first = [b'x', b'c', b'k'][random.below(3) as usize];
                let value = [&[first][..], &random.bytes(30)].concat();
                world.put(&key(number), &value);
                present[number as usize] = Some(value);
            }
            match random.below(60) {
                0 if kept.len() < 5 => {
                    // A snapshot sees what compactions have left at the moment that it is taken.
                    let now = (0..100).map(|number| {
                        world.get(&key(number), world.sequence).map(|found| found.to_vec())
                    });
                    kept.push((world.sequence, now.collect()));
                    world.snapshots.push(world.sequence);
                }
                1 if !kept.is_empty() => {
                    let (sequence, _) = kept.remove(random.below(kept.len() as u64) as usize);
                    world.snapshots.retain(|snapshot| *snapshot != sequence);
                }
                2..5 => {
                    world.flush();
                    world.settle();
                }
                _ => {}
            }
            if step % 100 == 99 {
                check(&world, world.sequence, &present, false);
                kept.iter().for_each(|(at, expected)| check(&world, *at, expected, true));
            }
        }
        world.snapshots.clear();
        world.flush();
        let request = Request::new(None, SequenceNumber::MAX, world.next_file());
        while let Step::Plan(plan) = world.tree.begin_request(&request) {
            world.compact(&plan, 3);
        }
        let all: Vec<_> =
            present.iter().map(|value| value.as_ref().and_then(|value| filtered(value))).collect();
        check(&world, world.sequence, &all, true);
        let counts = world.filters.counts();
        assert!(counts.dropped > 20 && counts.changed > 20 && counts.failed == 0, "{counts:?}");
    }
}

#[test]
fn no_block_is_copied_past_a_filter() {
    let mut options = small_options();
    options.compaction_filter = Some(NamedFilter::given(Arc::new(ByFirstByte)));
    let mut world = World::new(options);
    world.filters.learn(world.tree.options().compaction_filter.as_ref()).unwrap();
    for number in 0..2000 {
        let first = if number % 2 == 0 { "x" } else { "k" };
        world.put(format!("key{number:05}").as_bytes(), format!("{first}{number}").as_bytes());
    }
    // A snapshot of everything: there is nothing to decide, and blocks are copied.
    world.snapshots.push(world.sequence);
    world.flush();
    let compact = |world: &mut World| {
        let request = Request::new(None, SequenceNumber::MAX, world.next_file());
        while let Step::Plan(plan) = world.tree.begin_request(&request) {
            assert!(!would_change_nothing(&plan, &world.tree.options(), 1));
            world.compact(&plan, 1);
        }
        let version = world.tree.view().version.clone();
        version.tables().map(|(_, table)| table.meta().entries).sum::<u64>()
    };
    assert_eq!(compact(&mut world), 2000);
    assert_eq!(world.filters.counts(), FilterCounts::default());
    world.snapshots.clear();
    assert_eq!(compact(&mut world), 1000);
    assert_eq!(world.filters.counts().dropped, 1000);
}
