//! Space of separated values that nothing refers to any more.

use crate::blobs::world::{
    blob_files, contents, fill, filled, key, open, options, separating, value,
};
use siltdb::{
    Isolation, Read,
    testing::{Clock, Crash, ManualClock, MemFs},
};
use std::{sync::Arc, time::Duration};

fn bytes(fs: &MemFs) -> u64 {
    blob_files(fs, "db").iter().map(|(_, bytes)| bytes).sum()
}

fn settle(db: &siltdb::Db) {
    db.compact().unwrap();
    while db.run_job().unwrap() {}
}

#[test]
fn files_without_references_go_and_others_are_collected() {
    let fs = MemFs::new();
    let db = open(&fs);
    for round in 0..10 {
        fill(&db, 0..100, round);
    }
    settle(&db);
    // Live are 100 KB; files of 64 KiB are at most half garbage, and the last one is appended to.
    assert!(bytes(&fs) < 330_000, "{} bytes", bytes(&fs));
    assert_eq!(contents(&db), filled(0..100, 9));
    // Of each file one value in four is left.
    fill(&db, 100..500, 0);
    for number in 100..500 {
        if number % 4 != 0 {
            db.delete(key(number)).unwrap();
        }
    }
    settle(&db);
    assert!(bytes(&fs) < 500_000, "{} bytes", bytes(&fs));
    assert!(db.stats().blob_garbage_bytes * 2 <= bytes(&fs) + 64_000);
    let mut expected = filled(0..100, 9);
    expected.extend(filled(100..500, 0).into_iter().filter(|(key, _)| key[3] % 4 == 0));
    assert_eq!(contents(&db), expected);
    db.close().unwrap();
    assert_eq!(contents(&open(&fs)), expected);
}

#[test]
fn values_that_move_keep_to_the_background_rate() {
    let seconds = |rate: u64| {
        let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000))));
        let db = options(&fs).background_rate(rate).clock(clock.clone()).open("db").unwrap();
        fill(&db, 0..8000, 0);
        settle(&db);
        for number in 0..8000 {
            if number % 4 != 0 {
                db.delete(key(number)).unwrap();
            }
        }
        let start_ns = clock.monotonic_ns();
        settle(&db);
        assert!(bytes(&fs) < 4_500_000, "{} bytes", bytes(&fs));
        (clock.monotonic_ns() - start_ns) as f64 / 1e9
    };
    // Two million bytes move. Jobs may be a second ahead of the rate.
    let (unlimited, limited) = (seconds(0), seconds(1 << 20));
    assert!(unlimited < 0.1 && limited > 0.8, "{unlimited} s, {limited} s");
}

#[test]
fn a_dropped_family_gives_its_blob_files_back() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.create_family("gone", separating()).unwrap();
    for number in 0..300 {
        family.put(key(number), value(number, 1, 1000)).unwrap();
    }
    db.flush().unwrap();
    db.drop_family("gone").unwrap();
    // A handle keeps the files.
    drop(family);
    fill(&db, 0..10, 1);
    db.flush().unwrap();
    settle(&db);
    assert!(bytes(&fs) < 100_000, "{} bytes", bytes(&fs));
    assert_eq!(contents(&db), filled(0..10, 1));
}

/// Through a snapshot, a dropped family can be read on, whatever is collected meanwhile.
#[test]
fn a_dropped_family_that_is_held_keeps_its_values_in_tables_and_in_memory() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.create_family("gone", separating()).unwrap();
    let in_memory = db.create_family("memory", separating()).unwrap();
    for number in 0..100 {
        family.put(key(number), value(number, 1, 1000)).unwrap();
    }
    db.flush().unwrap();
    for number in 0..10 {
        in_memory.put(key(number), value(number, 1, 1000)).unwrap();
    }
    let snapshot = db.snapshot();
    db.drop_family("gone").unwrap();
    db.drop_family("memory").unwrap();
    for round in 1..4 {
        fill(&db, 0..200, round);
        settle(&db);
        for (family, count) in [(&family, 100), (&in_memory, 10)] {
            let view = snapshot.family(family).unwrap();
            assert_eq!(contents(&view), filled(0..count, 1));
        }
    }
    let held = bytes(&fs);
    drop((family, in_memory, snapshot));
    settle(&db);
    assert!(bytes(&fs) + 100_000 < held, "{} of {held} bytes", bytes(&fs));
    assert_eq!(contents(&db), filled(0..200, 3));
}

/// With the seeded fault `blob_collected_under_a_snapshot` the snapshot finds its values gone.
#[test]
fn values_that_a_snapshot_an_iterator_or_a_clone_needs_stay() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..200, 1);
    db.flush().unwrap();
    let snapshot = db.snapshot();
    let clone = db.clone_family(&db.default_family(), "clone").unwrap();
    let mut iterator = db.prefix(b"").unwrap();
    iterator.next().unwrap().unwrap();
    for round in 2..6 {
        fill(&db, 0..200, round);
        settle(&db);
        assert_eq!(contents(&snapshot), filled(0..200, 1));
        assert_eq!(contents(&clone), filled(0..200, 1));
    }
    db.drop_family("clone").unwrap();
    settle(&db);
    assert_eq!(contents(&snapshot), filled(0..200, 1));
    drop(snapshot);
    settle(&db);
    // The iterator has pinned the tables of its moment, and the blob files with them.
    let rest: Vec<_> = iterator.map(|entry| entry.unwrap().1.to_vec()).collect();
    assert_eq!(rest, filled(1..200, 1).into_values().collect::<Vec<_>>());
    settle(&db);
    assert!(bytes(&fs) < 600_000, "{} bytes", bytes(&fs));
}

#[test]
fn many_small_files_of_short_openings_become_few() {
    let fs = MemFs::new();
    for number in 0..30 {
        let db = options(&fs).open("db").unwrap();
        db.put(key(number), value(number, 1, 1000)).unwrap();
        db.flush().unwrap();
        while db.run_job().unwrap() {}
        db.close().unwrap();
    }
    let files = blob_files(&fs, "db").len();
    assert!(files <= 12, "{files} blob files");
    assert_eq!(contents(&open(&fs)), filled(0..30, 1));
}

#[test]
fn a_threshold_that_is_turned_off_and_on_changes_later_values_only() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..50, 1);
    let family = db.default_family();
    family.set_options(&family.options().value_threshold(0)).unwrap();
    let before = bytes(&fs);
    fill(&db, 50..100, 1);
    db.flush().unwrap();
    assert!(bytes(&fs) <= before);
    assert_eq!(contents(&db), filled(0..100, 1));
    for (name, bad) in
        [("value_threshold", "31"), ("blob_file_bytes", "100"), ("blob_garbage_percent", "0")]
    {
        let error = separating().set(name, bad).unwrap_err();
        assert_eq!(error.kind(), siltdb::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(name), "{error}");
    }
    let too_short = separating().value_threshold(31);
    assert!(db.create_family("bad", too_short).unwrap_err().to_string().contains("31"));
    assert_eq!(db.families(), ["default"]);
}

/// Nothing refers to the values of an ingest before it ends.
#[test]
fn the_files_of_an_unfinished_ingest_are_not_collected() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut ingestion = db.default_family().ingest().unwrap();
    for number in 0..200 {
        ingestion.put(key(number), value(number, 1, 1000)).unwrap();
        if number % 50 == 49 {
            db.put(key(1000), value(number, 1, 10)).unwrap();
            db.flush().unwrap();
            settle(&db);
        }
    }
    assert!(blob_files(&fs, "db").len() > 2, "several files were full before the end");
    ingestion.finish().unwrap();
    settle(&db);
    db.delete(key(1000)).unwrap();
    assert_eq!(contents(&db), filled(0..200, 1));
}

/// The values of an ingest and of a decided transaction are written once, and not to tables.
#[test]
fn what_is_ingested_or_decided_is_separated() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.default_family();
    let pairs = (0..50_u32).map(|number| (key(number), value(number, 1, 1000)));
    let ingested = family.ingest_sorted(pairs).unwrap();
    assert!(ingested.bytes < 10_000, "{ingested:?}");
    assert!((50_000..60_000).contains(&bytes(&fs)), "{} bytes", bytes(&fs));
    let transaction = db.begin(Isolation::Snapshot);
    transaction.put(key(60), value(60, 1, 1000)).unwrap();
    transaction.prepare(b"id").unwrap();
    db.flush().unwrap();
    assert!(bytes(&fs) < 60_000, "a prepared value is in the log and the manifest");
    db.commit_prepared(b"id").unwrap();
    assert!((51_000..61_000).contains(&bytes(&fs)), "{} bytes", bytes(&fs));
    settle(&db);
    let mut all = filled(0..50, 1);
    all.extend(filled(60..61, 1));
    assert_eq!(contents(&db), all);
    drop(db);
    let db = open(&fs.crash_clone(Crash::Kill));
    assert_eq!(contents(&db), all);
    // A compaction of the tables moves none of the values.
    assert!((51_000..61_000).contains(&bytes(&fs)), "{} bytes", bytes(&fs));
}
