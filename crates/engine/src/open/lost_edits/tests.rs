//! A manifest that lost its last edits is refused, and no file is removed because of it.

use crate::{
    check::check_closed,
    engine::Engine,
    fixture::{DIR, contents, files, killed, open, options, put_range, try_put},
    options::{Durability, EngineOptions},
    salvage::{report::ManifestState, salvage},
};
use siltdb_base::{error::ErrorKind, fs::mem::MemFs};
use siltdb_disk::log::recover::RecoveryMode;
use std::path::{Path, PathBuf};

const NEW: &str = "new";

/// A database whose log was retired by a flush, and then a put by a process of its own.
fn with_log() -> MemFs {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..200, &[1; 50]);
    engine.flush().unwrap();
    engine.close().unwrap();
    let engine = open(&fs);
    try_put(&engine, "default", (b"later", b"value"), Durability::Synced).unwrap();
    engine.close().unwrap();
    killed(&fs)
}

/// A database of two flushes, without a log.
fn without_log() -> MemFs {
    let fs = MemFs::new();
    let engine = open(&fs);
    for prefix in ["a", "b"] {
        put_range(&engine, prefix, 0..200, &[1; 50]);
        engine.flush().unwrap();
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
        assert!(Engine::open(Path::new(DIR), lenient).is_err());
        assert_eq!(files(&fs, ""), before, "cut to {cut}");
        assert!(!check_closed(Path::new(DIR), options(&fs), &mut |_| ()).unwrap().is_clean());
        let report = salvage(Path::new(DIR), Path::new(NEW), options(&fs), &mut |_| {}).unwrap();
        assert_eq!(report.manifest, ManifestState::Lost, "cut to {cut}");
        let saved = Engine::open(Path::new(NEW), options(&fs)).unwrap();
        assert!(contents(&saved, "default", None) == all, "cut to {cut}");
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
    engine.flush().unwrap();
    let late = killed(&fs);
    late.truncate(&path, len).unwrap();
    // The log is as it was before the edit.
    let engine = Engine::open(Path::new(DIR), options(&late));
    assert_eq!(contents(&engine.unwrap(), "default", None).len(), 600);
}
