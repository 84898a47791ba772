//! Whole files, durable when they are there.

use super::*;
use siltdb_base::{
    error::ErrorKind,
    fs::mem::{CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
};

fn store(fs: &MemFs) -> TableStore {
    fs.create_dir_all(Path::new("/cold")).unwrap();
    TableStore::new(fs.open_dir(Path::new("/cold")).unwrap())
}

fn put(store: &TableStore, number: u64, bytes: &[u8]) -> Result<()> {
    store.put(FileNumber(number), &mut |file| file.append(bytes))
}

#[test]
fn what_was_put_is_there_after_a_power_loss_and_what_was_deleted_is_not_listed() {
    let fs = MemFs::new();
    let made = store(&fs);
    fs.sync_dir(Path::new("/")).unwrap();
    put(&made, 7, b"seven").unwrap();
    put(&made, 8, b"eight").unwrap();
    fs.write_all(Path::new("/cold/COLD"), b"not a table").unwrap();
    for seed in 0..20 {
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        let found = store(&after);
        let mut numbers = found.list().unwrap();
        numbers.sort_unstable();
        assert_eq!(numbers, [FileNumber(7), FileNumber(8)], "seed {seed}");
        let mut bytes = [0; 4];
        found.open(FileNumber(8)).unwrap().read_exact_at(&mut bytes, 1).unwrap();
        assert_eq!(&bytes, b"ight");
    }
    assert_eq!(put(&made, 7, b"again").unwrap_err().kind(), ErrorKind::AlreadyExists);
    made.delete(FileNumber(7)).unwrap();
    assert_eq!(made.list().unwrap(), [FileNumber(8)]);
    assert_eq!(made.open(FileNumber(7)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(made.delete(FileNumber(7)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(made.path(FileNumber(7)), Path::new("/cold/000007.table"));
}

#[test]
fn a_put_that_fails_leaves_no_file() {
    for kind in [CallKind::Write, CallKind::Sync, CallKind::SyncDir] {
        let fs = MemFs::new();
        let store = store(&fs);
        let (nth, span, error) = (1, FaultSpan::Once, FaultError::NoSpace);
        fs.set_fault(Some(Fault { kind: Some(kind), nth, span, error }));
        assert_eq!(put(&store, 1, b"bytes").unwrap_err().kind(), ErrorKind::NoSpace, "{kind:?}");
        assert_eq!(store.list().unwrap(), [], "{kind:?}");
    }
    let fs = MemFs::new();
    let store = store(&fs);
    let failed = store.put(FileNumber(1), &mut |_| Err(Error::invalid("no bytes")));
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(store.list().unwrap(), []);
}
