//! Files go when nobody needs them any more, and not before (laws C6 and F7).

use crate::{
    engine::Engine,
    fixture::{contents, fault, files, get, killed, open, pairs, put_range, tree_options},
    read::ReadRange,
};
use siltdb_base::{
    error::ErrorKind,
    fs::mem::{CallKind, FaultError, MemFs},
};
use std::{collections::BTreeSet, path::PathBuf};

/// A database with several tables that overlap.
fn with_tables(fs: &MemFs) -> Engine {
    let engine = open(fs);
    for value in 1..4 {
        put_range(&engine, "a", 0..100, &[value; 50]);
        engine.flush().unwrap();
    }
    engine
}

/// The table files that the newest versions refer to.
fn used(engine: &Engine) -> BTreeSet<PathBuf> {
    let mut used = BTreeSet::new();
    for name in engine.family_names() {
        let family = engine.family(&name).unwrap();
        let view = family.tree.view();
        let path = |number| family.tree.files().path(number);
        used.extend(view.version.tables().map(|(_, table)| path(table.id().file)));
    }
    used
}

fn tables(fs: &MemFs) -> BTreeSet<PathBuf> {
    files(fs, ".table").into_iter().collect()
}

#[test]
fn files_that_an_iterator_reads_stay_until_it_is_gone() {
    let fs = MemFs::new();
    let engine = with_tables(&fs);
    let old = tables(&fs);
    let expected = contents(&engine, "default", None);
    let family = engine.family("default").unwrap();
    let mut cursor = engine.cursor(&family, ReadRange::default(), None).unwrap();
    cursor.seek_to_first().unwrap();
    put_range(&engine, "a", 0..100, b"newer");
    engine.compact_all().unwrap();
    assert!(tables(&fs).is_superset(&old), "a reader holds them");
    assert!(used(&engine).is_disjoint(&old));
    assert_eq!(pairs(cursor), expected);
    assert!(!engine.run_job().unwrap());
    assert_eq!(tables(&fs), used(&engine), "the reader is gone");
}

#[test]
fn files_of_a_dropped_family_go_with_its_last_reader() {
    let fs = MemFs::new();
    let engine = open(&fs);
    engine.create_family("short", tree_options()).unwrap();
    crate::fixture::put(&engine, "short", b"key", b"value");
    engine.flush().unwrap();
    let family = engine.family("short").unwrap();
    let reader = engine.reader(&family, None);
    engine.drop_family("short").unwrap();
    assert!(!engine.run_job().unwrap());
    assert_eq!(reader.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(tables(&fs).len(), 1);
    drop((family, reader));
    assert!(!engine.run_job().unwrap());
    assert_eq!(tables(&fs).len(), 0);
}

#[test]
fn a_file_that_could_not_be_removed_is_removed_later() {
    let fs = MemFs::new();
    let engine = with_tables(&fs);
    fs.set_fault(fault(Some(CallKind::Remove), 1, FaultError::Io));
    engine.compact_all().unwrap();
    assert_eq!(fs.faults(), 1);
    assert_eq!(tables(&fs).len(), used(&engine).len() + 1);
    assert!(!engine.run_job().unwrap());
    assert_eq!(tables(&fs), used(&engine));
}

/// A database whose next edit begins a manifest, and a job that is due in it.
fn before_a_job(job: Job) -> (MemFs, Engine) {
    let fs = MemFs::new();
    let engine = with_tables(&fs);
    put_range(&engine, "a", 0..100, b"newer");
    if job == Job::Merge {
        engine.flush().unwrap();
    }
    engine.close().unwrap();
    let engine = open(&fs);
    (fs, engine)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Flush,
    Merge,
}

fn run(engine: &Engine) -> ErrorKind {
    engine.run_job().unwrap_err().kind()
}

/// Each try would leave its tables behind: on a full disk the database would fill it further.
#[test]
fn the_new_files_of_a_job_whose_edit_failed_are_removed() {
    for job in [Job::Flush, Job::Merge] {
        let (fs, engine) = before_a_job(job);
        let before = tables(&fs);
        fs.set_fault(fault(Some(CallKind::OpenLog), 1, FaultError::NoSpace));
        assert_eq!(run(&engine), ErrorKind::NoSpace);
        assert_eq!(tables(&fs), before, "{job:?}");
        assert!(engine.run_job().unwrap());
        assert_eq!(tables(&fs), used(&engine), "{job:?}");
        assert_ne!(tables(&fs), before, "{job:?}");
    }
}

/// Until the next open nobody knows whether the edit counts: if it does, it refers to them.
#[test]
fn the_new_files_of_a_job_whose_edit_may_be_durable_stay() {
    for job in [Job::Flush, Job::Merge] {
        let (fs, engine) = before_a_job(job);
        // The name of the table, those of manifest and CURRENT, and CURRENT in its place.
        fs.set_fault(fault(Some(CallKind::SyncDir), 3, FaultError::Io));
        assert_eq!(run(&engine), ErrorKind::Poisoned);
        let reopened = open(&killed(&fs));
        assert!(!used(&reopened).is_subset(&used(&engine)), "{job:?}: the edit is durable");
        assert_eq!(get(&reopened, "default", b"a00000").as_deref(), Some(&b"newer"[..]));
        assert!(tables(&fs).is_superset(&used(&engine)), "{job:?}: or it is not");
    }
}
