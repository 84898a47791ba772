//! A manifest that lost its last edits is refused, and no file is removed because of it.

use crate::{
    engine::Engine,
    fixture::{DIR, contents, files, flush, killed, open, options, put, put_range, try_put},
    open::destroy::destroy,
    options::{Access, Durability, EngineOptions},
};
use siltdb_base::{
    error::ErrorKind,
    fs::{Fs, mem::MemFs},
};
use siltdb_disk::log::recover::RecoveryMode;
use std::path::{Path, PathBuf};

/// A database whose log was retired by a flush, and then a put by a process of its own.
fn with_log() -> MemFs {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..200, &[1; 50]);
    flush(&engine).unwrap();
    engine.close().unwrap();
    let engine = open(&fs);
    try_put(&engine, "default", b"later", b"value", Durability::Synced).unwrap();
    engine.close().unwrap();
    killed(&fs)
}

/// A database of two flushes, without a log.
fn without_log() -> MemFs {
    let fs = MemFs::new();
    let engine = open(&fs);
    for prefix in ["a", "b"] {
        put_range(&engine, prefix, 0..200, &[1; 50]);
        flush(&engine).unwrap();
    }
    engine.close().unwrap();
    // Opening removes the files of the log that the last edit retired.
    open(&fs).close().unwrap();
    assert!(files(&fs, ".log").is_empty());
    killed(&fs)
}

fn manifest_of(fs: &MemFs) -> (PathBuf, u64) {
    let path = files(fs, ".manifest").pop().unwrap();
    let len = fs.read_all(&path).unwrap().len() as u64;
    (path, len)
}

/// Cuts the manifest to every length. The database is then whole, or refused and left unchanged, or
/// lacks at most the entries of the last table. Returns how often it was refused.
fn refused(whole: &MemFs, least: usize) -> usize {
    let all = contents(&open(&killed(whole)), "default", None);
    let (path, len) = manifest_of(whole);
    let mut refused = 0;
    for cut in 0..len {
        let fs = killed(whole);
        fs.truncate(&path, cut).unwrap();
        let before = files(&fs, "");
        match Engine::open(Path::new(DIR), options(&fs)) {
            Ok(engine) => {
                let found = contents(&engine, "default", None);
                assert!(found == all || found.len() >= least, "{} pairs at {cut}", found.len());
                continue;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
        }
        // No mode of recovery accepts it, and nothing is removed.
        let lenient = EngineOptions { recovery: RecoveryMode::PointInTime, ..options(&fs) };
        if let Ok(engine) = Engine::open(Path::new(DIR), lenient) {
            // But for the edit of a close alone, which says that the log file becomes shorter.
            assert!(contents(&engine, "default", None) == all, "cut to {cut}");
            continue;
        }
        assert_eq!(files(&fs, ""), before, "cut to {cut}");
        refused += 1;
    }
    refused
}

#[test]
fn a_manifest_that_ends_before_the_log_begins_is_refused() {
    let whole = with_log();
    let refused = refused(&whole, 201);
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_manifest_that_ends_before_a_table_was_written_is_refused() {
    let whole = without_log();
    // Only the last edit says that the last table was installed.
    let refused = refused(&whole, 200);
    assert!(refused > 100, "{refused}");
}

/// A killed job leaves tables that no edit names: they are removed without a message.
#[test]
fn a_table_of_a_killed_job_is_no_witness() {
    let fs = without_log();
    let engine = open(&fs);
    put_range(&engine, "c", 0..200, &[1; 50]);
    let (path, len) = manifest_of(&fs);
    flush(&engine).unwrap();
    let late = killed(&fs);
    late.truncate(&path, len).unwrap();
    // The log is as it was before the edit.
    let engine = Engine::open(Path::new(DIR), options(&late));
    assert_eq!(contents(&engine.unwrap(), "default", None).len(), 600);
}

/// The manifest of [`without_log`] as it was after its first flush: one edit is lost, and nothing
/// else says so, because the only table of the second flush is unnamed.
fn one_edit_lost() -> MemFs {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..200, &[1; 50]);
    let (path, len) = manifest_of(&fs);
    flush(&engine).unwrap();
    engine.close().unwrap();
    let late = killed(&fs);
    late.truncate(&path, len).unwrap();
    for log in files(&late, ".log") {
        late.remove(&log).unwrap();
    }
    late
}

#[test]
fn a_table_that_neither_manifest_nor_log_knows_is_kept_in_lost() {
    let fs = one_edit_lost();
    let tables = files(&fs, ".table").len() as u64;
    assert!(tables > 0);
    // Reading changes nothing.
    let before = files(&fs, "");
    let reading = EngineOptions { access: Access::ReadOnly, ..options(&fs) };
    drop(Engine::open(Path::new(DIR), reading).unwrap());
    assert_eq!(files(&fs, ""), before);
    let engine = open(&fs);
    assert_eq!(engine.database().kept.tables, tables);
    assert!(contents(&engine, "default", None).is_empty());
    assert!(files(&fs, ".table").is_empty());
    put(&engine, "default", b"new", b"value");
    flush(&engine).unwrap();
    engine.close().unwrap();
    // A later opening keeps nothing more.
    let engine = open(&fs);
    assert!(engine.database().kept.is_empty());
    drop(engine);
    destroy(Path::new(DIR), &options(&fs)).unwrap();
    assert_eq!(fs.metadata(Path::new(DIR)).unwrap(), None);
}

#[test]
fn an_opening_for_writing_removes_nothing_while_a_named_table_is_missing() {
    let whole = without_log();
    for mode in [RecoveryMode::Strict, RecoveryMode::PointInTime] {
        for table in files(&whole, ".table") {
            let fs = killed(&whole);
            fs.remove(&table).unwrap();
            // As a killed job would leave it.
            let stray = Path::new(DIR).join("000900.table");
            fs.write_all(&stray, b"unfinished").unwrap();
            let before = files(&fs, "");
            let lenient = EngineOptions { recovery: mode, ..options(&fs) };
            let error = Engine::open(Path::new(DIR), lenient.clone()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("salvage::salvage"), "{error}");
            assert_eq!(error.file().map(Path::new), Some(&*table));
            assert_eq!(files(&fs, ""), before);
            // What is left can be read.
            let reading = EngineOptions { access: Access::ReadOnly, ..lenient };
            assert!(Engine::open(Path::new(DIR), reading).is_ok());
        }
    }
}
