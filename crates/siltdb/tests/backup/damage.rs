//! Damage to backups is found by verifying them, and refused by a restore.

use super::world::{
    BACKUPS, RESTORED, back_up, backups, change, files, filled, numbers, open, restored,
};
use siltdb::{
    ErrorKind,
    backup::VerifyReport,
    testing::{Crash, Fs, MemFs},
};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

fn verify(fs: &MemFs, number: Option<u64>) -> VerifyReport {
    backups(fs).verify(number, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(BACKUPS).join(name)
}

/// Asserts that a backup cannot be restored, and that nothing is left of the attempt.
fn assert_refused(fs: &MemFs, number: Option<u64>, what: &str) {
    let error = backups(fs).restore(number, RESTORED).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
    assert!(fs.metadata(Path::new(RESTORED)).unwrap().is_none(), "{what}");
}

#[test]
fn a_damaged_file_is_found_and_refused() {
    let ready = MemFs::new();
    let db = filled(&ready);
    back_up(&db);
    let report = verify(&ready, None);
    assert!(report.is_clean() && report.damaged.is_empty(), "{report:?}");
    assert_eq!((report.backups, report.files as usize), (1, files(&ready, ".table").len()));
    for name in files(&ready, ".table") {
        let bytes = ready.read_all(&path(&name)).unwrap().len() as u64;
        for offset in [0, 1, bytes / 3, bytes / 2, bytes - 20, bytes - 1] {
            let fs = ready.crash_clone(Crash::Kill);
            fs.bytes_flip(&path(&name), offset, 0x10).unwrap();
            let report = verify(&fs, Some(1));
            assert_eq!((report.errors.len(), &report.damaged[..]), (1, &[1][..]), "{name}");
            let error = &report.errors[0];
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.file().unwrap().ends_with(&name), "{error}");
            assert_refused(&fs, None, &name);
        }
        for replacement in [Vec::new(), vec![0; 10]] {
            let fs = ready.crash_clone(Crash::Kill);
            fs.write_all(&path(&name), &replacement).unwrap();
            assert_eq!(verify(&fs, None).damaged, [1], "{name}");
            assert_refused(&fs, None, &name);
        }
    }
}

#[test]
fn an_incomplete_backup_is_refused() {
    let ready = MemFs::new();
    let db = filled(&ready);
    let (_, expected) = back_up(&db);
    for name in files(&ready, ".table") {
        let fs = ready.crash_clone(Crash::Kill);
        fs.remove(&path(&name)).unwrap();
        let report = verify(&fs, None);
        assert_eq!(report.damaged, [1], "{name}");
        assert!(report.errors[0].message().contains("missing"), "{report:?}");
        assert_refused(&fs, Some(1), &name);
        // The database still has the table, so that the next backup mends this one.
        let made = open(&fs).backup(BACKUPS).unwrap();
        assert_eq!((made.number, made.copied_files), (2, 1), "{name}");
        assert!(restored(&fs, Some(1)) == expected, "{name}");
    }
}

#[test]
fn a_damaged_list_hides_no_other_backup() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let (_, first) = back_up(&db);
    change(&db, 4);
    let (_, second) = back_up(&db);
    let ready = fs.crash_clone(Crash::Kill);
    let list = path("000002.backup");
    let bytes = ready.read_all(&list).unwrap().len() as u64;
    for offset in (0..bytes).step_by(bytes as usize / 40 + 1).chain([bytes - 1]) {
        let fs = ready.crash_clone(Crash::Kill);
        fs.bytes_flip(&list, offset, 4).unwrap();
        let listing = backups(&fs).list().unwrap();
        assert_eq!((listing.backups.len(), listing.errors.len()), (1, 1), "byte {offset}");
        assert_eq!(listing.errors[0].kind(), ErrorKind::Corruption);
        assert_eq!(verify(&fs, None).damaged, [2]);
        // The newest is not passed over in silence.
        assert_refused(&fs, None, "a damaged list");
        assert!(restored(&fs, Some(1)) == first);
    }
    // What it needs is not known, so nothing is removed.
    fs.bytes_flip(&list, bytes / 2, 4).unwrap();
    let before = files(&fs, "");
    assert_eq!(backups(&fs).prune(1).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(files(&fs, ""), before);
    // The next backup goes past it, and copies what only the damaged list vouched for.
    let (third, expected) = back_up(&db);
    assert_eq!(third.number, 3);
    assert!(expected == second && restored(&fs, None) == second);
    // A damaged list that does not stay keeps nothing from being removed.
    assert_eq!(backups(&fs).prune(1).unwrap().backups, [1, 2]);
    assert_eq!(numbers(&fs), [3]);
}

#[test]
fn one_damaged_file_that_backups_share_damages_them_all() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    let shared = files(&fs, ".table");
    db.put("one", "more").unwrap();
    back_up(&db);
    fs.bytes_flip(&path(&shared[0]), 10, 1).unwrap();
    let report = verify(&fs, None);
    assert_eq!((report.errors.len(), &report.damaged[..]), (1, &[1, 2][..]), "{report:?}");
    // A file whose length is another one is copied again, and that mends both.
    fs.write_all(&path(&shared[0]), b"short").unwrap();
    back_up(&db);
    assert!(verify(&fs, None).is_clean());
}

#[test]
fn a_damaged_table_of_the_database_is_not_backed_up() {
    let fs = MemFs::new();
    let db = filled(&fs);
    back_up(&db);
    fill_and_flush(&db);
    let tables = |fs: &MemFs| -> Vec<String> {
        let entries = fs.list(Path::new("db")).unwrap();
        let names = entries.into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".table")).collect()
    };
    let newest = tables(&fs).into_iter().max().unwrap();
    fs.bytes_flip(&Path::new("db").join(&newest), 30, 1).unwrap();
    let error = db.backup(BACKUPS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.file().unwrap().ends_with(&newest), "{error}");
    assert_eq!(numbers(&fs), [1]);
    assert_eq!(files(&fs, ".partial"), [""; 0]);
}

fn fill_and_flush(db: &siltdb::Db) {
    super::world::fill(db, 5000..5100, 9);
    db.flush().unwrap();
}
