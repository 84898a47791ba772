//! What a scrub reads, finds and leaves out.

use super::*;
use siltdb_base::fs::mem::{CallKind, FaultError, MemFs};
use siltdb_engine::{
    engine::Engine,
    fixture::{
        DIR, clone_family, compact, create_family, fault, files, flush, killed, open, options, put,
        put_range, run_job, tree_options, try_put,
    },
    jobs::request::move_all,
    options::{Access, Durability, EngineOptions},
};
use std::{collections::BTreeSet, path::Path};

fn try_scrub(
    engine: &Engine,
    request: &ScrubRequest,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<Arc<ScrubReport>> {
    let writable = engine.writable()?;
    writable.installer().at_work(|| scrub(writable, request, on_progress))
}

fn scrubbed(engine: &Engine, request: &ScrubRequest) -> Arc<ScrubReport> {
    try_scrub(engine, request, &mut |_| {}).unwrap()
}

fn all(engine: &Engine) -> Arc<ScrubReport> {
    scrubbed(engine, &ScrubRequest::default())
}

/// Several tables of several blocks in two families, and a log behind them.
fn filled(fs: &MemFs) -> Engine {
    let engine = open(fs);
    create_family(&engine, "other", tree_options()).unwrap();
    for round in 0..4_u8 {
        put_range(&engine, "a", 0..100, &[round; 40]);
        put(&engine, "other", &[round], b"value");
        flush(&engine).unwrap();
    }
    put_range(&engine, "late", 0..50, b"value");
    engine
}

fn tables_of(engine: &Engine) -> Vec<Arc<OpenReference>> {
    let mut tables = Vec::new();
    let mut after = None;
    while let Some(references) = next_table(&engine.database().catalog, after) {
        let table = Arc::clone(&references[0].1);
        after = Some((table.meta().uid, table.id()));
        tables.push(table);
    }
    tables
}

#[test]
fn a_sound_database_is_read_whole_and_once() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let tables = tables_of(&engine);
    assert!(tables.len() > 4, "{}", tables.len());
    let before = fs.calls();
    let report = all(&engine);
    assert!(report.is_clean() && report.is_complete, "{report:?}");
    assert_eq!(report.found.tables, tables.len() as u64);
    assert_eq!(report.found.entries, tables.iter().map(|table| table.meta().entries).sum::<u64>());
    assert_eq!(report.found.log_records, 50);
    assert_eq!(report.last_table, tables.last().map(|table| table.meta().uid.0));
    assert!(report.bytes > report.found.bytes / 2 && report.found.blocks > report.found.tables);
    assert!(fs.calls() > before);
    let stats = engine.database().stats();
    assert_eq!((stats.scrubs, stats.scrub_bytes, stats.scrub_damage), (1, report.bytes, 0));
    // It continues behind a table, without the log.
    let middle = tables[tables.len() / 2].meta().uid.0;
    let rest = scrubbed(&engine, &ScrubRequest { after: Some(middle), ..Default::default() });
    let expected = tables.iter().filter(|table| table.meta().uid.0 > middle).count();
    assert_eq!((rest.found.tables, rest.found.log_records), (expected as u64, 0));
}

#[test]
fn a_scrub_changes_no_byte_and_fills_no_cache() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let bytes = |fs: &MemFs| {
        let paths = files(fs, "");
        paths.iter().map(|path| fs.read_all(path).unwrap()).collect::<Vec<_>>()
    };
    let (before, cached) = (bytes(&fs), engine.database().stats());
    assert!(all(&engine).is_clean());
    assert!(bytes(&fs) == before);
    let after = engine.database().stats();
    assert_eq!((after.cache_bytes, after.cache_misses), (cached.cache_bytes, cached.cache_misses));
}

/// Flips a byte of a file and back around a scrub.
fn with_flip(fs: &MemFs, engine: &Engine, path: &Path, offset: u64) -> Arc<ScrubReport> {
    fs.bytes_flip(path, offset, 4).unwrap();
    let report = all(engine);
    fs.bytes_flip(path, offset, 4).unwrap();
    report
}

#[test]
fn damage_in_any_block_of_any_table_is_found_and_poisons_nothing() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let mut flips = 0;
    for table in tables_of(&engine) {
        let path = engine.database().catalog.files.path(table.id().file);
        let start = table.reference().offset;
        for at in (10..table.bytes() - 10).step_by(100) {
            let report = with_flip(&fs, &engine, &path, start + at);
            assert_eq!(report.found.tables_damaged, 1, "byte {at} of {}", table.bytes());
            assert!(report.is_complete && !report.found.damage.is_empty());
            let error = &report.found.errors[0];
            assert_eq!(error.file(), Some(&path.display().to_string()[..]));
            assert!(engine.database().background_error().is_some());
            put(&engine, "default", b"written", b"meanwhile");
            flips += 1;
        }
    }
    assert!(flips > 20, "{flips}");
    assert_eq!(engine.database().stats().scrub_damage, 1);
    assert!(all(&engine).is_clean());
    assert!(engine.database().background_error().is_none());
}

#[test]
fn damage_of_a_table_of_two_families_is_told_of_both() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let other = create_family(&engine, "other", tree_options()).unwrap();
    put_range(&engine, "a", 0..3, b"value");
    put(&engine, "other", b"b", b"value");
    flush(&engine).unwrap();
    let shared = tables_of(&engine);
    let view = other.tree.view();
    let of_other = view.version.tables().next().unwrap().1.id();
    let path = engine.database().catalog.files.path(of_other.file);
    let report = with_flip(&fs, &engine, &path, of_other.offset + 10);
    let families: Vec<_> =
        report.found.damage.iter().filter_map(|lost| lost.family.as_deref()).collect();
    let has_both = shared.len() == 1;
    assert!(families.contains(&"other"), "{report:?}");
    assert_eq!(families.contains(&"default"), has_both, "{report:?}");
}

#[test]
fn a_table_that_families_share_counts_once_in_the_progress() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    flush(&engine).unwrap();
    let total = |engine: &Engine| {
        let mut total = 0;
        let note = &mut |progress: CheckProgress| total = progress.bytes_total;
        assert!(try_scrub(engine, &ScrubRequest::default(), note).unwrap().is_clean());
        total
    };
    let before = total(&engine);
    assert!(before > 0);
    let source = engine.database().catalog.families.named("default").unwrap();
    clone_family(&engine, &source, "copy", None).unwrap();
    assert_eq!(total(&engine), before);
}

#[test]
fn damage_of_manifest_pointer_and_log_is_found() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    for (extension, offset) in [("CURRENT", 3), (".manifest", 100)] {
        let path = files(&fs, extension).pop().unwrap();
        let report = with_flip(&fs, &engine, &path, offset);
        assert_eq!(report.found.errors.len(), 1, "{extension}: {report:?}");
        assert_eq!(report.found.tables_damaged, 0);
    }
    let holds = |path: &Path| {
        let bytes = fs.read_all(path).unwrap();
        bytes.windows(9).position(|bytes| bytes == b"late00020")
    };
    let log = files(&fs, ".log").into_iter().find_map(|path| Some((holds(&path)?, path)));
    let (offset, path) = log.unwrap();
    let report = with_flip(&fs, &engine, &path, offset as u64);
    assert_eq!((report.found.errors.len(), report.found.log_records), (1, 20), "{report:?}");
    let message = report.found.errors[0].to_string();
    assert!(message.contains("stops early"), "{message}");
    assert!(all(&engine).is_clean());
}

#[test]
fn retained_segments_are_read_too() {
    let fs = MemFs::new();
    let retaining = |fs: &MemFs| EngineOptions { retain_log_bytes: 1 << 20, ..options(fs) };
    let engine = Engine::open(Path::new(DIR), retaining(&fs)).unwrap();
    for _ in 0..3 {
        put_range(&engine, "a", 0..20, b"value");
        flush(&engine).unwrap();
    }
    assert_eq!(all(&engine).found.log_records, 60);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(Path::new(DIR), retaining(&fs)).unwrap();
    let report = all(&engine);
    assert!(report.is_clean() && report.found.log_records >= 60, "{report:?}");
}

#[test]
fn a_database_opened_for_reading_is_scrubbed() {
    let fs = MemFs::new();
    drop(filled(&fs));
    let fs = killed(&fs);
    let options = EngineOptions { access: Access::ReadOnly, ..options(&fs) };
    let engine = Engine::open(Path::new(DIR), options).unwrap();
    let report = all(&engine);
    assert!(report.is_clean() && report.found.tables > 4 && report.found.log_records >= 50);
}

#[test]
fn a_cancelled_scrub_says_where_the_next_one_continues() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let tables = tables_of(&engine);
    let mut request = ScrubRequest::default();
    let (mut verified, mut scrubs) = (0, 0);
    loop {
        request.token = CancelToken::new();
        // More blocks than any table has.
        let (token, mut blocks) = (request.token.clone(), 0);
        let report = try_scrub(&engine, &request, &mut |_| {
            blocks += 1;
            if blocks == 12 {
                token.cancel();
            }
        });
        let report = report.unwrap();
        verified += report.found.tables;
        scrubs += 1;
        if report.is_complete {
            break;
        }
        assert!(report.found.tables > 0 && report.last_table > request.after, "{report:?}");
        request.after = report.last_table;
    }
    assert!(scrubs > 1, "{scrubs}");
    assert_eq!(verified, tables.len() as u64);
    let token = CancelToken::new();
    token.cancel();
    let report = scrubbed(&engine, &ScrubRequest { token, ..ScrubRequest::default() });
    assert!(!report.is_complete && report.found.tables == 0);
}

#[test]
fn a_table_that_is_removed_meanwhile_is_skipped() {
    let fs = MemFs::new();
    let engine = open(&fs);
    for round in 0..3_u8 {
        put_range(&engine, "a", 0..100, &[round; 40]);
        flush(&engine).unwrap();
    }
    let family = engine.database().catalog.families.named("default").unwrap();
    let mut is_compacted = false;
    let report = try_scrub(&engine, &ScrubRequest::default(), &mut |_| {
        if !is_compacted {
            is_compacted = true;
            compact(&engine, &family).unwrap();
        }
    });
    let report = report.unwrap();
    assert!(report.is_clean() && report.is_complete, "{report:?}");
    assert_eq!(report.tables_skipped, 1);
    // What the scrub held is removed with the next job.
    put_range(&engine, "b", 0..10, b"value");
    flush(&engine).unwrap();
    run_job(&engine).unwrap();
    let numbers: BTreeSet<_> = tables_of(&engine).iter().map(|table| table.id().file).collect();
    assert_eq!(files(&fs, ".table").len(), numbers.len());
}

#[test]
fn a_table_that_moves_meanwhile_is_verified() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..100, &[7; 40]);
    flush(&engine).unwrap();
    let before = tables_of(&engine);
    let mut is_moved = false;
    let report = try_scrub(&engine, &ScrubRequest::default(), &mut |_| {
        if !is_moved {
            is_moved = true;
            move_all(
                &engine.writable().unwrap().installer(),
                &engine.database().catalog.families.load(),
            )
            .unwrap();
        }
    });
    let report = report.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.tables_skipped, report.found.tables), (0, before.len() as u64));
    assert_eq!(engine.database().stats().tables[0], 0, "it was moved");
}

#[test]
fn the_rate_is_kept_and_a_pause_is_not_made_up_for() {
    let second = Duration::from_secs(1).as_nanos() as u64;
    let mut pace = Pace { bytes_per_second: Some(1000), start_ns: 0, bytes: 0 };
    assert_eq!(pace.advance(500, 0), Duration::from_millis(500));
    assert_eq!(pace.advance(500, second / 2), Duration::from_millis(500));
    assert_eq!(pace.advance(500, second), Duration::from_millis(500));
    // An hour later it begins anew, and does not read for an hour without a sleep.
    assert_eq!(pace.advance(500, 3600 * second), Duration::ZERO);
    assert_eq!(pace.advance(500, 3600 * second), Duration::from_millis(500));
    let mut free = Pace { bytes_per_second: None, start_ns: 0, bytes: 0 };
    assert_eq!(free.advance(u64::MAX, 0), Duration::ZERO);
}

#[test]
fn the_scrub_sleeps_as_long_as_its_rate_asks() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let rate = |rate: u64| ScrubRequest { bytes_per_second: Some(rate), ..Default::default() };
    let report = scrubbed(&engine, &rate(10_000));
    let expected = report.bytes as f64 / 10_000.0;
    let seconds = report.duration.as_secs_f64();
    assert!((expected * 0.9..=expected * 1.1).contains(&seconds), "{seconds} s for {expected}");
    let low = try_scrub(&engine, &rate(SCRUB_RATE_MIN - 1), &mut |_| {}).unwrap_err();
    assert_eq!(low.kind(), ErrorKind::InvalidArgument);
    let _ = scrubbed(&engine, &rate(SCRUB_RATE_MIN));
}

#[test]
fn a_closed_database_is_not_scrubbed() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    engine.close().unwrap();
    let error = try_scrub(&engine, &ScrubRequest::default(), &mut |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[test]
fn a_poisoned_log_is_no_damage() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    fs.set_fault(fault(Some(CallKind::Sync), 1, FaultError::Io));
    assert!(try_put(&engine, "default", b"k", b"v", Durability::Synced).is_err());
    fs.set_fault(None);
    let report = all(&engine);
    assert!(report.is_clean() && report.found.tables > 4, "{report:?}");
}
