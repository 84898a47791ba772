//! Many openings that write little.

use super::*;
use crate::{
    engine::Engine,
    fixture::{DIR, files, flush, get, killed, open, options, put, put_range, run_job, settle},
    options::EngineOptions,
};
use siltdb_base::fs::mem::MemFs;
use siltdb_tree::options::TreeOptions;
use std::path::Path;

fn with_workers(fs: &MemFs, workers: usize) -> Engine {
    let tree = TreeOptions::default();
    Engine::open(Path::new(DIR), EngineOptions { workers, tree, ..options(fs) }).unwrap()
}

#[test]
fn a_small_log_makes_no_table_at_open_or_close() {
    for (workers, closes) in [(0, true), (1, true), (0, false)] {
        let mut fs = MemFs::new();
        for number in 0..20_u32 {
            let engine = with_workers(&fs, workers);
            settle(&engine).unwrap();
            put(&engine, "default", &number.to_be_bytes(), b"value");
            settle(&engine).unwrap();
            if closes {
                engine.close().unwrap();
            } else {
                fs = killed(&fs);
            }
            drop(engine);
            assert_eq!(files(&fs, ".table"), [""; 0].map(std::path::PathBuf::from));
        }
        let engine = with_workers(&fs, workers);
        assert_eq!(engine.database().stats().memtable_entries, 20);
        flush(&engine).unwrap();
        assert_eq!(engine.database().stats().memtable_entries, 0, "asked for, it is written");
        assert_eq!(get(&engine, "default", &7_u32.to_be_bytes()).unwrap(), b"value");
    }
}

#[test]
fn thousands_of_openings_with_one_put_each_leave_few_files() {
    for workers in [0, 1] {
        let fs = MemFs::new();
        let (mut most, mut flushes, count) = (0, 0, 4000_u32);
        for number in 0..count {
            let engine = with_workers(&fs, workers);
            if engine.database().stats().frozen_generations == 0 {
                assert_eq!(files(&fs, ".log").len(), 0, "nothing needs one");
            }
            put(&engine, "default", &number.to_be_bytes(), b"value");
            engine.close().unwrap();
            flushes += engine.database().stats().flushes;
            most = most.max(files(&fs, "").len());
        }
        println!("at most {most} files, {flushes} flushes");
        assert!(most <= 100, "{most} files");
        assert!(flushes <= u64::from(count) / LEFT_SEGMENTS_MAX as u64 + 1, "{flushes} flushes");
        let engine = with_workers(&fs, workers);
        for number in 0..count {
            assert!(get(&engine, "default", &number.to_be_bytes()).is_some(), "{number}");
        }
    }
}

#[test]
fn a_generation_that_is_left_is_flushed_before_the_next_one() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"first", b"old");
    engine.close().unwrap();
    drop(engine);
    let engine = open(&fs);
    assert!(!run_job(&engine).unwrap(), "it stays");
    put(&engine, "default", b"first", b"new");
    // More than a memtable, so that the active generation is frozen.
    put_range(&engine, "a", 0..800, &[7; 100]);
    while run_job(&engine).unwrap() {}
    assert!(engine.database().stats().flushes >= 2);
    assert_eq!(get(&engine, "default", b"first").unwrap(), b"new");
    drop(engine);
    assert_eq!(get(&open(&fs), "default", b"first").unwrap(), b"new");
}
