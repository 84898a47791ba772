//! Damage to blob files: named with file and offset, and nothing else is lost.

use crate::blobs::world::{blob_files, contents, fill, filled, key, open, options, value};
use siltdb::{
    ErrorKind, Read, ScrubOptions,
    salvage::LostPart,
    testing::{Clock, Fs, ManualClock, MemFs},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

fn path(name: &str) -> PathBuf {
    Path::new("db").join(name)
}

/// Shortens a file.
pub fn cut(fs: &MemFs, name: &str, end: u64) {
    fs.truncate(&path(name), end).unwrap();
}

fn flip(fs: &MemFs, name: &str, offset: u64) {
    fs.bytes_flip(&path(name), offset, 0x20).unwrap();
}

fn flushed() -> MemFs {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..20, 1);
    db.flush().unwrap();
    db.close().unwrap();
    fs
}

#[test]
fn a_flipped_byte_costs_one_value_whose_reads_name_it() {
    let fs = flushed();
    let (name, bytes) = blob_files(&fs, "db").remove(0);
    let (mut harmless, mut harmful) = (0, 0);
    for offset in (0..bytes).step_by(97) {
        flip(&fs, &name, offset);
        let db = match options(&fs).open("db") {
            Ok(db) => db,
            Err(error) => panic!("offset {offset}: {error}"),
        };
        let mut bad = 0;
        for number in 0..20 {
            match db.get(key(number)) {
                Ok(found) => assert_eq!(found.unwrap(), value(number, 1, 1000).as_slice()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "offset {offset}");
                    assert!(error.to_string().contains(&name), "{error}");
                    assert!(error.offset().is_some(), "{error}");
                    bad += 1;
                }
            }
        }
        let report = db.check(&mut |_| ()).unwrap();
        assert_eq!(report.errors.is_empty(), bad == 0, "offset {offset}: {report:?}");
        if offset >= 32 {
            assert!(bad <= 1, "offset {offset}: {bad} values");
        }
        match bad {
            0 => harmless += 1,
            _ => harmful += 1,
        }
        db.close().unwrap();
        flip(&fs, &name, offset);
    }
    assert!(harmful > 100 && harmless < 40, "{harmful} and {harmless}");
    assert_eq!(contents(&open(&fs)), filled(0..20, 1));
}

#[test]
fn a_missing_cut_or_exchanged_blob_file_is_an_error_that_names_it() {
    let fs = flushed();
    let (name, bytes) = blob_files(&fs, "db").remove(0);
    let missing = fs.crash_clone(siltdb::testing::Crash::Kill);
    missing.remove(&path(&name)).unwrap();
    let error = options(&missing).open("db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&name), "{error}");
    let error = options(&missing).read_only(true).open("db").unwrap().get(key(7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&name) && error.offset().is_some(), "{error}");
    let short = fs.crash_clone(siltdb::testing::Crash::Kill);
    cut(&short, &name, bytes / 2);
    let db = options(&short).open("db").unwrap();
    assert_eq!(db.get(key(0)).unwrap().unwrap(), value(0, 1, 1000).as_slice());
    let error = db.get(key(19)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(&name) && error.offset().is_some(), "{error}");
    // Of another database.
    let other = flushed();
    let (other_name, _) = blob_files(&other, "db").remove(0);
    let mut foreign = other.read_all(&path(&other_name)).unwrap();
    foreign[17] ^= 1;
    let swapped = fs.crash_clone(siltdb::testing::Crash::Kill);
    swapped.remove(&path(&name)).unwrap();
    swapped.write_all(&path(&name), &foreign).unwrap();
    let db = options(&swapped).open("db").unwrap();
    assert_eq!(db.get(key(0)).unwrap_err().kind(), ErrorKind::Corruption);
}

/// As with a missing table, nothing is written, and all that does not need the file can be read.
#[test]
fn without_a_blob_file_everything_but_its_values_is_read_and_saved() {
    let fs = flushed();
    let (name, _) = blob_files(&fs, "db").remove(0);
    let db = open(&fs);
    fill(&db, 20..40, 1);
    db.put(b"short", b"value").unwrap();
    db.close().unwrap();
    fs.remove(&path(&name)).unwrap();
    assert_eq!(options(&fs).open("db").unwrap_err().kind(), ErrorKind::Corruption);
    let db = options(&fs).read_only(true).open("db").unwrap();
    for number in 0..20 {
        let error = db.get(key(number)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains(&name) && error.offset().is_some(), "{error}");
    }
    let mut expected = filled(20..40, 1);
    expected.insert(b"short".to_vec(), b"value".to_vec());
    for (key, value) in &expected {
        assert_eq!(db.get(key).unwrap().unwrap(), value.as_slice());
    }
    let report = db.check(&mut |_| ()).unwrap();
    assert!(report.errors.iter().any(|error| error.to_string().contains(&name)), "{report:?}");
    db.close().unwrap();
    let with = siltdb::Options::new().fs(std::sync::Arc::new(fs.clone()));
    let report = siltdb::salvage::salvage("db", "new", with, &mut |_| ()).unwrap();
    assert_eq!(report.lost.len(), 20, "{report:?}");
    assert_eq!(contents(&options(&fs).open("new").unwrap()), expected);
}

#[test]
fn salvage_saves_all_values_but_the_damaged_one() {
    for with_manifest in [true, false] {
        let fs = flushed();
        let (name, _) = blob_files(&fs, "db").remove(0);
        flip(&fs, &name, 500);
        if !with_manifest {
            fs.remove(&path("CURRENT")).unwrap();
        }
        let with = siltdb::Options::new().fs(std::sync::Arc::new(fs.clone()));
        let report = siltdb::salvage::salvage("db", "new", with, &mut |_| ()).unwrap();
        assert_eq!(report.lost.len(), 1, "{report:?}");
        let saved = contents(&options(&fs).open("new").unwrap());
        let mut expected = filled(0..20, 1);
        expected.remove(&key(0)[..]);
        assert_eq!(saved, expected);
    }
}

/// The log is durable, so its records are replayed, whatever became of their values.
#[test]
fn a_check_reads_the_values_of_what_was_replayed() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..5, 1);
    db.close().unwrap();
    let (name, _) = blob_files(&fs, "db").remove(0);
    flip(&fs, &name, 32 + 1032 + 500);
    let db = open(&fs);
    assert_eq!(db.get(key(1)).unwrap_err().kind(), ErrorKind::Corruption);
    let report = db.check(&mut |_| ()).unwrap();
    assert_eq!((report.errors.len(), report.damage.len()), (1, 1), "{report:?}");
    assert!(report.errors[0].to_string().contains(&name), "{report:?}");
    assert!(report.damage[0].may_hold("default", &key(1)), "{report:?}");
}

#[test]
fn salvage_leaves_out_operands_over_a_lost_value() {
    let fs = MemFs::new();
    let operator = || std::sync::Arc::new(crate::blobs::reads::Append);
    let family = crate::blobs::world::separating().merge_operator(operator());
    let with = || options(&fs).merge_operator(operator()).default_family(family.clone());
    let db = with().open("db").unwrap();
    for number in 0..3 {
        db.put(key(number), value(number, 0, 50)).unwrap();
        db.flush().unwrap();
        db.put(key(number), value(number, 1, 1000)).unwrap();
        db.merge(key(number), b"a").unwrap();
        db.flush().unwrap();
        db.merge(key(number), b"b").unwrap();
    }
    db.close().unwrap();
    let (name, _) = blob_files(&fs, "db").remove(0);
    // A byte of the value of the key 1.
    flip(&fs, &name, 32 + 1032 + 500);
    let report = siltdb::salvage::salvage("db", "new", with(), &mut |_| ()).unwrap();
    assert_eq!(report.lost.len(), 1, "{report:?}");
    let expected = [0, 2].map(|number| (key(number).to_vec(), value(number, 1, 1000)));
    let expected = expected.map(|(key, value)| (key, [&value[..], b"ab"].concat()));
    assert_eq!(contents(&with().open("new").unwrap()), expected.into());
}

#[test]
fn a_stray_blob_file_is_removed_and_harms_nothing() {
    let fs = flushed();
    fs.write_all(&path("000900.blob"), b"stray").unwrap();
    let db = open(&fs);
    assert_eq!(contents(&db), filled(0..20, 1));
    assert!(!blob_files(&fs, "db").iter().any(|(name, _)| name == "000900.blob"));
}

#[test]
fn a_scrub_counts_separated_values_and_keeps_its_rate_with_them() {
    const RATE: u64 = 64 << 10;
    let fs = flushed();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(1_000)));
    let db = options(&fs).clock(clock.clone()).open("db").unwrap();
    let report = db.scrub(&ScrubOptions::new(), &mut |_| {}).unwrap();
    let values: u64 = filled(0..20, 1).values().map(|value| value.len() as u64).sum();
    assert!(report.bytes > values, "{report:?} of {values}");
    let before = clock.monotonic_ns();
    let options = ScrubOptions::new().bytes_per_second(RATE);
    let report = db.scrub(&options, &mut |_| {}).unwrap();
    let seconds = (clock.monotonic_ns() - before) as f64 / 1e9;
    assert!(seconds > 0.8 * values as f64 / RATE as f64, "{seconds} s: {report:?}");
}

#[test]
fn a_lost_value_is_reported_apart_from_its_table_which_is_whole() {
    let fs = flushed();
    let (name, bytes) = blob_files(&fs, "db").remove(0);
    flip(&fs, &name, bytes / 2);
    let db = open(&fs);
    let lost: Vec<_> = (0..20).filter(|number| db.get(key(*number)).is_err()).collect();
    let &[number] = &lost[..] else { panic!("{lost:?}") };
    let scrubbed = db.scrub(&ScrubOptions::new(), &mut |_| ()).unwrap();
    let checked = db.check(&mut |_| ()).unwrap();
    for report in [&checked, &scrubbed.found] {
        assert_eq!((report.tables, report.tables_damaged), (1, 0), "{report:?}");
        assert_eq!((report.blob_files, report.blob_files_damaged), (1, 1), "{report:?}");
        assert_eq!((report.values, report.values_damaged), (19, 1), "{report:?}");
        assert!(!report.is_clean() && report.errors.len() == 1);
        assert!(report.errors[0].to_string().contains(&name), "{report:?}");
        let [lost] = &report.damage[..] else { panic!("{report:?}") };
        assert_eq!((&lost.first, &lost.last), (&Some(key(number).to_vec()), &lost.first));
        assert_eq!((lost.part, lost.entries_max), (LostPart::Values, Some(1)));
    }
    // All values of a missing file are one loss.
    drop(db);
    fs.remove(&path(&name)).unwrap();
    let db = options(&fs).read_only(true).open("db").unwrap();
    let report = db.check(&mut |_| ()).unwrap();
    assert_eq!((report.tables_damaged, report.values_damaged), (0, 20), "{report:?}");
    let [lost] = &report.damage[..] else { panic!("{report:?}") };
    let ends = (Some(key(0).to_vec()), Some(key(19).to_vec()));
    assert_eq!((&lost.first, &lost.last, lost.entries_max), (&ends.0, &ends.1, Some(20)));
}

#[test]
fn a_lost_value_in_memory_is_reported_as_one() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..20, 1);
    let (name, bytes) = blob_files(&fs, "db").remove(0);
    flip(&fs, &name, bytes / 2);
    let report = db.check(&mut |_| ()).unwrap();
    assert_eq!((report.tables_damaged, report.values_damaged), (0, 1), "{report:?}");
    assert_eq!((report.blob_files, report.blob_files_damaged, report.values), (1, 1, 19));
}
