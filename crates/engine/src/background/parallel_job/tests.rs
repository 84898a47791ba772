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
    rewrite::compact::{Compaction, FilterSources},
    rewrite::processor_share::ProcessorShare,
};
use std::{
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
        let compaction: Arc<Compaction> =
            tree.compaction(plan, |_| Stripes::new(&[present], present), sources, 4).unwrap();
        let shared = ParallelJob::new(compaction.subjobs());
        assert!(shared.parts() > 2);
        Self { fs, engine, shared, numbers: AtomicU64::new(1000) }
    }

    /// What a helping thread does.
    fn run_parts(&self) {
        let next = || self.numbers.fetch_add(1, Ordering::Relaxed);
        let family = self.engine.database().catalog.families.named("default").unwrap();
        self.shared.run_parts(&JobContext {
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
        });
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
