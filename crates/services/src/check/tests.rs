//! What a check verifies of a database that cannot be loaded.

mod branches;
mod clones;
mod recovery;

use super::*;
use siltdb_base::fs::{Fs, mem::MemFs};
use siltdb_engine::{
    engine::Engine,
    fixture::{DIR, clone_family, files, flush, killed, open, options, put_range, try_put},
    options::Durability,
};

/// A closed database with tables, and with a key in the log that no table has.
fn filled() -> MemFs {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..50, b"value");
    flush(&engine).unwrap();
    try_put(&engine, "default", b"late", b"value", Durability::Synced).unwrap();
    engine.close().unwrap();
    fs
}

fn report(fs: &MemFs) -> CheckReport {
    check_closed(Path::new(DIR), options(fs), &mut |_| ()).unwrap()
}

/// A check of all that the open database has finds nothing wrong.
fn assert_clean(engine: &Engine) {
    let report = check(engine.database(), &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// What was verified of the tables.
fn of_tables(report: &CheckReport) -> (u64, u64, u64, u64) {
    (report.tables, report.blocks, report.entries, report.bytes)
}

/// Flips a byte of the record that holds `late`.
fn damage_log(fs: &MemFs) {
    for path in files(fs, ".log") {
        let bytes = fs.read_all(&path).unwrap();
        if let Some(at) = bytes.windows(4).position(|bytes| bytes == b"late") {
            return fs.bytes_flip(&path, at as u64, 1).unwrap();
        }
    }
    panic!("no log holds the key");
}

fn assert_one_error(report: &CheckReport, file: &str) {
    assert_eq!(report.errors.len(), 1, "{report:?}");
    assert_eq!(report.errors[0].kind(), ErrorKind::Corruption);
    assert!(report.errors[0].file().is_some_and(|found| found.ends_with(file)), "{report:?}");
}

#[test]
fn a_damaged_log_keeps_no_table_from_being_verified() {
    let fs = filled();
    let sound = report(&fs);
    assert!(sound.is_clean() && sound.tables > 0 && sound.log_records > 0, "{sound:?}");
    assert_eq!(sound.entries, 50);
    assert!(sound.not_verified.is_empty());
    damage_log(&fs);
    let damaged = report(&fs);
    assert_one_error(&damaged, ".log");
    assert_eq!(of_tables(&damaged), of_tables(&sound));
    assert_eq!((damaged.log_records, &damaged.not_verified[..]), (0, &["log"][..]));
    fs.bytes_flip(&files(&fs, ".table")[0], 10, 1).unwrap();
    let both = report(&fs);
    assert_eq!((both.errors.len(), both.tables), (2, sound.tables - 1), "{both:?}");
    assert!(both.errors[1].file().is_some_and(|file| file.ends_with(".table")), "{both:?}");
}

#[test]
fn without_a_manifest_it_is_said_that_nothing_else_was_verified() {
    for extension in [".manifest", "CURRENT"] {
        let fs = filled();
        fs.bytes_flip(&files(&fs, extension)[0], 10, 1).unwrap();
        damage_log(&fs);
        let damaged = report(&fs);
        assert_one_error(&damaged, extension);
        assert_eq!(of_tables(&damaged), (0, 0, 0, 0));
        assert_eq!(damaged.not_verified, ["log", "tables"]);
    }
    let fs = filled();
    fs.remove(&Path::new(DIR).join("CURRENT")).unwrap();
    assert_eq!(report(&fs).not_verified, ["log", "tables"]);
}

#[test]
fn a_table_that_families_share_is_checked_once_and_its_damage_told_for_each() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put_range(&engine, "a", 0..200, &[1; 50]);
    flush(&engine).unwrap();
    let alone = check(engine.database(), &mut |_| {}).unwrap();
    let default = engine.database().catalog.families.named("default").unwrap();
    clone_family(&engine, &default, "copy", None).unwrap();
    let both = check(engine.database(), &mut |_| {}).unwrap();
    assert!(both.is_clean());
    assert_eq!((both.tables, both.bytes), (alone.tables, alone.bytes));
    let copy = engine.database().catalog.families.named("copy").unwrap();
    let view = copy.tree.view().version.clone();
    let (_, table) = view.tables().next().unwrap();
    let path = engine.database().catalog.files.path(table.id().file);
    drop(engine);
    fs.bytes_flip(&path, table.id().offset + 20, 4).unwrap();
    let engine = open(&fs);
    let damaged = check(engine.database(), &mut |_| {}).unwrap();
    assert_eq!((damaged.tables_damaged, damaged.errors.len()), (1, 1), "{damaged:?}");
    let of: Vec<_> = damaged.damage.iter().map(|lost| lost.family.as_deref()).collect();
    assert!(of.contains(&Some("copy")) && of.contains(&Some("default")), "{of:?}");
}

#[test]
fn a_synced_log_file_that_is_missing_or_cut_is_an_error() {
    let damages: [fn(&MemFs, &Path); 3] = [
        |fs, path| fs.remove(path).unwrap(),
        |fs, path| fs.truncate(path, 0).unwrap(),
        |fs, path| fs.truncate(path, 100).unwrap(),
    ];
    for damage in damages {
        let fs = MemFs::new();
        let engine = open(&fs);
        for number in 0..300_u32 {
            let key = &number.to_be_bytes();
            try_put(&engine, "default", key, &[7; 100], Durability::Synced).unwrap();
        }
        let fs = killed(&fs);
        assert!(report(&fs).is_clean());
        damage(&fs, files(&fs, ".log").last().unwrap());
        assert!(!report(&fs).is_clean());
    }
}
