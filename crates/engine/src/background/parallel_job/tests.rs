//! Parts of a job on several threads: all outputs in order, or a failure.

use super::*;
use crate::{
    engine::Engine,
    fixture::{DIR, contents, files, flush, open, options, put, settle},
    kit::random::Random,
    options::EngineOptions,
};
use siltdb_base::{
    clock::ManualClock,
    fs::mem::{CallKind, Fault, FaultError, FaultSpan, MemFs},
    id::{FamilyId, FileNumber, SequenceNumber, TableUid},
};
use siltdb_tree::{
    compaction_filter::CompactionFilters,
    planning::pick_range::{Request, Step},
    retain::stripes::Stripes,
    rewrite::compact::{FilterSources, Subjob},
    rewrite::processor_share::ProcessorShare,
};
use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// A merge of overlapping tables, in several parts.
struct Work {
    fs: MemFs,
    engine: Engine,
    shared: ParallelJob,
    numbers: AtomicU64,
}

impl Work {
    fn new() -> Self {
        let fs = MemFs::new();
        let engine = open(&fs);
        let mut random = Random::new(Some(1));
        for _ in 0..3 {
            for key in 0..200_u32 {
                // It does not compress.
                let value: Vec<_> = (0..16).flat_map(|_| random.next_u64().to_le_bytes()).collect();
                put(&engine, "default", &key.to_be_bytes(), &value);
            }
            flush(&engine).unwrap();
        }
        let tree = &engine.database().catalog.families.named("default").unwrap().tree;
        let request = Request::new(None, SequenceNumber::MAX, FileNumber(0));
        let Step::Plan(plan) = tree.begin_request(&request) else { panic!("nothing to merge") };
        let present = SequenceNumber(engine.database().stats().sequence);
        let sources = FilterSources { filters: &CompactionFilters::default(), blobs: None };
        let (_, parts) =
            tree.compaction(plan, |_| Stripes::new(&[present], present), sources, 4).unwrap();
        let shared = ParallelJob::new(parts);
        assert!(shared.parts() > 2);
        Self { fs, engine, shared, numbers: AtomicU64::new(1000) }
    }

    /// What a helping thread does.
    fn run_parts(&self) {
        self.with_context(|context| self.shared.run_parts(context));
    }

    /// Takes out the outputs of these parts.
    fn take_out(&self, parts: Range<usize>) -> Result<Vec<NewTables>> {
        self.with_context(|context| self.shared.take_out(&parts, context))
    }

    fn with_context<T>(&self, work: impl FnOnce(&JobContext<'_>) -> T) -> T {
        let next = || self.numbers.fetch_add(1, Ordering::Relaxed);
        let family = self.engine.database().catalog.families.named("default").unwrap();
        work(&JobContext {
            files: family.tree.files(),
            file_numbers: &|| FileNumber(next()),
            uids: &|| TableUid(next()),
            family_names: &|_| None,
            log_start: siltdb_base::id::SegmentId(0),
            clock: &ManualClock::at(Duration::ZERO),
            cancelled: &AtomicBool::new(false),
            given_up: None,
            processor_share: &ProcessorShare::default(),
            mover: None,
            progress: None,
            rate: None,
        })
    }

    /// The number of table files.
    fn fs_tables(&self) -> usize {
        files(&self.fs, ".table").len()
    }

    /// Lets three threads run the parts. Returns how many of them panicked.
    fn run_on_threads(&self) -> usize {
        thread::scope(|scope| {
            let helpers: Vec<_> = (0..3).map(|_| scope.spawn(|| self.run_parts())).collect();
            helpers.into_iter().filter_map(|helper| helper.join().err()).count()
        })
    }
}

#[test]
fn parts_that_several_threads_ran_come_together_in_order_of_their_keys() {
    let work = Work::new();
    assert!(work.shared.has_part());
    assert_eq!(work.run_on_threads(), 0);
    assert!(!work.shared.has_part());
    let outputs = work.shared.wait().unwrap();
    assert_eq!(outputs.len(), work.shared.parts());
    let tables: Vec<_> = outputs.iter().flat_map(|output| output.tables()).collect();
    let summaries: Vec<_> = tables.iter().map(|table| &table.reference.meta).collect();
    assert!(summaries.is_sorted_by(|left, right| left.range.last < right.range.first));
    assert_eq!(summaries.iter().map(|meta| meta.entries).sum::<u64>(), 200);
    assert!(tables.iter().all(|table| table.family == FamilyId(0)));
}

#[test]
fn a_part_that_fails_ends_them_all_and_leaves_no_file() {
    let work = Work::new();
    let before = files(&work.fs, ".table");
    let fault = Fault {
        kind: Some(CallKind::Create),
        nth: 3,
        span: FaultSpan::FromThenOn,
        error: FaultError::NoSpace,
    };
    work.fs.set_fault(Some(fault));
    assert_eq!(work.run_on_threads(), 0);
    assert!(!work.shared.has_part());
    assert_eq!(work.shared.wait().unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(files(&work.fs, ".table"), before);
}

#[test]
fn nobody_goes_on_with_a_job_of_which_a_part_has_failed() {
    let work = Work::new();
    let creations = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&creations);
    work.fs.on_call(Some(Arc::new(move |call| {
        counted.fetch_add(u64::from(call.kind == CallKind::Create), Ordering::Relaxed);
    })));
    let fault = Fault {
        kind: Some(CallKind::Create),
        nth: 1,
        span: FaultSpan::Once,
        error: FaultError::NoSpace,
    };
    work.fs.set_fault(Some(fault));
    work.run_parts();
    assert!(!work.shared.has_part());
    assert_eq!(work.shared.wait().unwrap_err().kind(), ErrorKind::NoSpace);
    work.run_parts();
    assert!(!work.shared.has_part(), "it was told, and that changes nothing");
    assert_eq!(creations.load(Ordering::Relaxed), 1);
}

#[test]
fn the_first_outputs_are_taken_out_while_parts_are_left() {
    let mut work = Work::new();
    work.shared = std::mem::replace(&mut work.shared, ParallelJob::new(Vec::<Subjob>::new()))
        .with_ahead_max(3);
    let parts = work.shared.parts();
    assert!(parts > 3);
    let mut tables = Vec::new();
    for first in (0..parts).step_by(2) {
        // A helper goes ahead as far as it may.
        work.run_parts();
        assert!(!work.shared.has_part());
        let ahead = work.fs_tables();
        let outputs = work.take_out(first..(first + 2).min(parts)).unwrap();
        assert_eq!(outputs.len(), 2.min(parts - first));
        assert_eq!(work.fs_tables(), ahead, "no part was run to take out what has ended");
        let written = outputs.iter().flat_map(|output| output.tables());
        tables.extend(written.map(|table| table.reference.meta.clone()));
    }
    assert!(tables.is_sorted_by(|left, right| left.range.last < right.range.first));
    assert_eq!(tables.iter().map(|meta| meta.entries).sum::<u64>(), 200);
}

#[test]
fn what_has_ended_before_a_part_failed_is_taken_out() {
    let work = Work::new();
    let before = files(&work.fs, ".table");
    let fault = Fault {
        kind: Some(CallKind::Create),
        nth: 4,
        span: FaultSpan::FromThenOn,
        error: FaultError::NoSpace,
    };
    work.fs.set_fault(Some(fault));
    work.run_parts();
    let first = work.take_out(0..1).unwrap();
    assert!(!first[0].tables().is_empty());
    drop(first);
    let parts = work.shared.parts();
    assert_eq!(work.take_out(1..parts).unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(files(&work.fs, ".table"), before);
}

#[test]
fn a_job_that_is_given_up_leaves_no_file() {
    let work = Work::new();
    let before = files(&work.fs, ".table");
    drop(work.take_out(0..2).unwrap());
    work.shared.give_up();
    assert!(!work.shared.has_part());
    work.run_parts();
    assert_eq!(files(&work.fs, ".table"), before);
}

#[test]
fn a_part_that_panics_counts_as_ended_and_failed() {
    let work = Work::new();
    let before = files(&work.fs, ".table");
    let creations = AtomicU64::new(0);
    work.fs.on_call(Some(Arc::new(move |call| {
        let is_third = || creations.fetch_add(1, Ordering::Relaxed) == 2;
        assert!(call.kind != CallKind::Create || !is_third(), "a panic on purpose");
    })));
    assert_eq!(work.run_on_threads(), 1);
    assert_eq!(work.shared.wait().unwrap_err().kind(), ErrorKind::Poisoned);
    work.fs.on_call(None);
    assert_eq!(files(&work.fs, ".table"), before);
}

#[test]
fn large_memtables_are_written_out_in_parts_beside_writers() {
    let fs = MemFs::new();
    let options = EngineOptions {
        workers: 3,
        memtable_bytes: 2 << 20,
        memory_budget: 64 << 20,
        ..options(&fs)
    };
    let engine = Engine::open(Path::new(DIR), options).unwrap();
    let key = |writer: u32, number: u32| [number.to_be_bytes(), writer.to_be_bytes()].concat();
    let value = |writer: u32, number: u32| vec![(writer * 31 + number) as u8; 1_500];
    thread::scope(|scope| {
        for writer in 0..2 {
            let engine = &engine;
            scope.spawn(move || {
                // Twice, so that versions of a key are in several memtables.
                for number in (0..2_000).chain(0..2_000) {
                    put(engine, "default", &key(writer, number), &value(writer, number));
                }
            });
        }
    });
    flush(&engine).unwrap();
    settle(&engine).unwrap();
    assert!(engine.database().stats().flushes > 3);
    let wanted: Vec<_> = (0..2_000)
        .flat_map(|number| (0..2).map(move |writer| (writer, number)))
        .map(|(writer, number)| (key(writer, number), value(writer, number)))
        .collect();
    assert!(contents(&engine, "default", None) == wanted);
    engine.close().unwrap();
    assert!(contents(&open(&fs), "default", None) == wanted);
}
