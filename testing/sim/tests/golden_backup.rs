//! Backups of released versions, as they lie in `testing/golden/NAME.backups`: today's code
//! verifies and restores them, and writes the newest of them byte by byte as it lies there.
//!
//! `GOLDEN=write` writes it again.

use siltdb::{
    CopyProgress, Db, FamilyOptions, Options, Read,
    backup::{Backups, CopyOptions},
};
use siltdb_base::{
    clock::ManualClock,
    fs::{Fs, mem::MemFs},
};
use std::{collections::BTreeMap, fs, ops::ControlFlow, path::Path, sync::Arc, time::Duration};

/// The backups that today's code writes.
const NEWEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/0.1.backups");

/// Backups of a build whose databases had no identity.
const UNNAMED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/0.1-unnamed.backups");

/// When they were made: 2025.
const WRITTEN_MS: u64 = 1_750_000_000_000;

const BACKUPS: &str = "backups";

/// Keys and values of each family.
type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

fn contents(db: &Db) -> Contents {
    let of = |name: String| {
        let entries = db.family(&name).unwrap().iter().unwrap().map(Result::unwrap);
        let pairs = entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        (name, pairs)
    };
    db.families().into_iter().map(of).collect()
}

/// The files of two backups, and what each holds.
fn written() -> (BTreeMap<String, Vec<u8>>, [Contents; 2]) {
    let fs = MemFs::new();
    let clock = Arc::new(ManualClock::at(Duration::from_millis(WRITTEN_MS)));
    let options = Options::new().workers(0).seed(1).fs(Arc::new(fs.clone())).clock(clock);
    let db = options.open("golden").unwrap();
    let users = db.create_family("ünïcode", FamilyOptions::new()).unwrap();
    for number in 0..60_u32 {
        db.put(format!("row {number:04}"), format!("value {number} of the first backup")).unwrap();
        users.put(number.to_be_bytes(), b"user").unwrap();
    }
    db.backup(BACKUPS).unwrap();
    let first = contents(&db);
    db.delete_range("row 0010".."row 0020").unwrap();
    db.put("row 0030", "value of the second backup").unwrap();
    users.delete(7_u32.to_be_bytes()).unwrap();
    db.backup(BACKUPS).unwrap();
    let second = contents(&db);
    let list = fs.list(Path::new(BACKUPS)).unwrap().into_iter().filter(|e| e.name != "LOCK");
    let file = |entry: siltdb_base::fs::DirEntry| {
        let bytes = fs.read_all(&Path::new(BACKUPS).join(&entry.name)).unwrap();
        (entry.name, bytes)
    };
    (list.map(file).collect(), [first, second])
}

fn stored(directory: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let file = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

#[test]
fn stored_backups_are_verified_restored_and_gone_on_with() {
    for stored in [NEWEST, UNNAMED] {
        verify_and_go_on(stored);
    }
}

fn verify_and_go_on(directory: &str) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("backups");
    fs::create_dir(&dir).unwrap();
    for (name, bytes) in stored(directory) {
        fs::write(dir.join(name), bytes).unwrap();
    }
    let backups = Backups::new(&dir);
    let listing = backups.list().unwrap();
    assert!(listing.errors.is_empty() && listing.backups.len() == 2, "{listing:?}");
    for (index, backup) in listing.backups.iter().enumerate() {
        assert_eq!((backup.number, backup.created_ms), (index as u64 + 1, WRITTEN_MS));
        assert_eq!(backup.source, "golden");
        let target = place.path().join(format!("restored {index}"));
        backups.restore(Some(backup.number), &target).unwrap();
        assert!(siltdb::check(&target, &mut |_| {}).unwrap().is_clean());
        let db = Db::open(&target).unwrap();
        assert_eq!(db.stats().sequence, backup.sequence);
        assert!(contents(&db) == written().1[index], "backup {}", backup.number);
        // It has the tables already.
        // The backups do not say of which database they are, or the newest one is no past of it.
        assert!(db.backup(&dir).is_err());
        let mut go_on = |_: CopyProgress| ControlFlow::Continue(());
        let options = CopyOptions::new().adopt(true);
        let made = db.backup_with(&dir, &options, &mut go_on);
        if index == 1 && directory == UNNAMED {
            // Each database that is made of a backup without an identity gets one of its own.
            assert!(made.is_err());
        } else {
            assert_eq!(made.unwrap().copied_files, 0);
        }
    }
    let report = backups.verify(None, &mut |_| ControlFlow::Continue(())).unwrap();
    let backups = if directory == UNNAMED { 3 } else { 4 };
    assert!(report.is_clean() && report.backups == backups, "{report:?}");
}

#[test]
fn todays_code_writes_the_newest_stored_backups_byte_by_byte() {
    let (files, _) = written();
    if std::env::var_os("GOLDEN").is_some_and(|what| what == "write") {
        let _ = fs::remove_dir_all(NEWEST);
        fs::create_dir_all(NEWEST).unwrap();
        for (name, bytes) in &files {
            fs::write(Path::new(NEWEST).join(name), bytes).unwrap();
        }
    }
    let stored = stored(NEWEST);
    let advice = "the backups are not written as testing/golden/0.1.backups were: see the advice \
                  in golden.rs";
    assert!(files.keys().eq(stored.keys()), "{:?}, {:?}: {advice}", files.keys(), stored.keys());
    for (name, bytes) in &files {
        assert!(*bytes == stored[name], "{name}: {advice}");
    }
    assert!(files.values().map(Vec::len).sum::<usize>() < 40 << 10);
}
