//! Places that a new database may have, and two attempts at one of them.

use super::*;
use siltdb_base::fs::mem::{CallKind, FaultError, MemFs};
use siltdb_engine::fixture::{DIR, fault, get, open, put};
use std::sync::atomic::{AtomicBool, Ordering};

const NEW: &str = "new";

fn attempt(fs: &MemFs, file: u64) -> Result<()> {
    fill_directory(fs, Path::new(NEW), |target| {
        let mut written = target.create(&FileName::Table(FileNumber(file)).to_path())?;
        written.append(b"whole")?;
        written.sync()
    })
}

fn names(fs: &MemFs, dir: &str) -> Vec<String> {
    let mut names = super::names(&*fs.open_dir(Path::new(dir)).unwrap()).unwrap();
    names.sort();
    names
}

/// Both have opened the partial directory, and the first has renamed it before the second locks it.
#[test]
fn an_attempt_that_gets_the_lock_late_leaves_the_result_of_the_other_alone() {
    let fs = MemFs::new();
    let (disk, is_first_lock) = (fs.clone(), AtomicBool::new(true));
    fs.on_call(Some(Arc::new(move |call| {
        if call.kind == CallKind::Lock && is_first_lock.swap(false, Ordering::Relaxed) {
            attempt(&disk, 1).unwrap();
        }
    })));
    let error = attempt(&fs, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(names(&fs, NEW), ["000001.table", "LOCK"]);
    assert_eq!(names(&fs, ""), [NEW]);
}

#[test]
fn a_failed_attempt_is_replaced_and_a_foreign_file_is_kept() {
    let fs = MemFs::new();
    let failed = fill_directory(&fs, Path::new(NEW), |target| {
        target.create(&FileName::Table(FileNumber(1)).to_path())?;
        Err::<(), _>(Error::invalid("on purpose"))
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(names(&fs, ""), [""; 0], "a failed attempt leaves nothing");
    fs.create_dir_all(Path::new("new.partial")).unwrap();
    fs.write_all(Path::new("new.partial/notes"), b"mine").unwrap();
    assert_eq!(attempt(&fs, 2).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(names(&fs, "new.partial"), ["notes"], "no lock file is left there");
    assert_eq!(fs.read_all(Path::new("new.partial/notes")).unwrap(), b"mine");
    fs.remove(Path::new("new.partial/notes")).unwrap();
    attempt(&fs, 3).unwrap();
    assert_eq!(names(&fs, NEW), ["000003.table", "LOCK"]);
}

#[test]
fn a_database_with_the_name_of_an_unfinished_one_is_kept() {
    let fs = MemFs::new();
    let other = open(&fs);
    put(&other, "default", b"key", b"value");
    other.close().unwrap();
    fs.move_directory(Path::new(DIR), Path::new("new.partial")).unwrap();
    let before = names(&fs, "new.partial");
    let error = attempt(&fs, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert!(error.to_string().contains("new.partial"), "{error}");
    assert_eq!(names(&fs, "new.partial"), before);
    fs.move_directory(Path::new("new.partial"), Path::new(DIR)).unwrap();
    assert_eq!(get(&open(&fs), "default", b"key").unwrap(), b"value");
}

/// Each call of an attempt fails once: nothing is left, unless what fails is the removal itself or
/// comes after the new name.
#[test]
fn an_attempt_that_fails_at_any_call_leaves_nothing() {
    let mut failed = 0;
    for kind in
        [CallKind::Create, CallKind::Write, CallKind::Sync, CallKind::Rename, CallKind::Lock]
    {
        let fs = MemFs::new();
        fs.set_fault(fault(Some(kind), 1, FaultError::Io));
        if attempt(&fs, 1).is_err() {
            failed += 1;
            fs.set_fault(None);
            assert_eq!(names(&fs, ""), [""; 0], "{kind:?}");
            attempt(&fs, 2).unwrap();
            assert_eq!(names(&fs, NEW), ["000002.table", "LOCK"], "{kind:?}");
        }
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn a_long_name_has_a_short_partial_one() {
    let name = OsString::from("n".repeat(255));
    assert!(partial_name(&name).as_os_str().len() < 64);
    assert_ne!(partial_name(&name), partial_name(&OsString::from("n".repeat(254))));
    assert_eq!(partial_name(OsStr::new("x.partial")), Path::new("x.partial.partial"));
}

fn begin(fs: &MemFs) -> Result<Staged> {
    Staged::begin(fs, Path::new(NEW), Path::new(DIR))
}

#[test]
fn a_database_is_opened_under_the_partial_name_until_it_is_whole() {
    let fs = MemFs::new();
    // An attempt that is killed at any moment after it has begun is replaced.
    let opened = |staged: &Staged, is_marked: bool| {
        let options = siltdb_engine::fixture::options(&fs);
        let engine = siltdb_engine::engine::Engine::open(staged.path(), options).unwrap();
        put(&engine, "default", b"key", b"value");
        engine.close().unwrap();
        if is_marked {
            staged.mark().unwrap();
        }
    };
    drop(begin(&fs).unwrap());
    opened(&begin(&fs).unwrap(), true);
    let staged = begin(&fs).unwrap();
    opened(&staged, true);
    staged.discard();
    assert_eq!(names(&fs, ""), [""; 0]);
    // One without a mark may be a database of its own.
    opened(&begin(&fs).unwrap(), false);
    let before = names(&fs, "new.partial");
    assert_eq!(begin(&fs).map(drop).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(names(&fs, "new.partial"), before);
    fs.move_directory(Path::new("new.partial"), Path::new(DIR)).unwrap();
    let staged = begin(&fs).unwrap();
    opened(&staged, true);
    staged.finish().unwrap();
    assert_eq!(names(&fs, ""), [DIR, NEW]);
    let engine =
        siltdb_engine::engine::Engine::open(Path::new(NEW), siltdb_engine::fixture::options(&fs));
    assert_eq!(get(&engine.unwrap(), "default", b"key").unwrap(), b"value");
    assert_eq!(begin(&fs).map(drop).unwrap_err().kind(), ErrorKind::AlreadyExists);
}
