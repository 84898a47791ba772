//! Tables on a file system that loses power and whose calls fail, one after the other.

use super::*;
use siltdb_base::{
    error::ErrorKind,
    fs::{
        Fs,
        mem::{Crash, Fault, FaultError, FaultSpan, MemFs},
    },
};

const PATH: &str = "000001.table";

fn write_on(fs: &MemFs, entries: &[Owned]) -> Result<TableMeta> {
    let mut file = fs.create(Path::new(PATH))?;
    let mut writer = TableWriter::new(&mut *file, &options(Compression::Lz4), TableUid(5));
    writer.add_tombstone(&tombstone("a", "b", 3));
    for owned in entries {
        writer.add(entry(owned))?;
    }
    let meta = writer.finish()?;
    file.flush()?;
    Ok(meta)
}

/// Opens, verifies and reads the table; what can be read must be right.
fn read_on(fs: &MemFs, meta: &TableMeta, entries: &[Owned]) -> Result<()> {
    let file = fs.open(Path::new(PATH))?;
    let cache = new_cache(8_000);
    let (path, length) = (Path::new(PATH), meta.file_bytes);
    let table =
        Table::open(TableLocation::new(file, path, 0, length), Some(meta), ReadIo::Read, &cache)?;
    verify(&table)?;
    for owned in entries.iter().step_by(7) {
        check_get(&table, entries, &owned.0, owned.1)?;
    }
    assert_eq!(scan(&table)?, entries);
    Ok(())
}

#[test]
pub(super) fn an_unsynced_table_is_whole_or_refused_after_power_loss() {
    let entries = many(150);
    let fs = MemFs::new();
    let meta = write_on(&fs, &entries).unwrap();
    fs.sync_dir(Path::new("")).unwrap();
    let read_after = |seed: u64| {
        let after = fs.crash_clone(Crash::PowerLoss { seed });
        read_on(&after, &meta, &entries)
    };
    let refused = (0..100).filter_map(|seed| read_after(seed).err()).collect::<Vec<_>>();
    assert!(refused.len() > 50, "{} of 100", refused.len());
    assert!(refused.iter().all(|error| error.kind() == ErrorKind::Corruption));
    read_on(&fs.crash_clone(Crash::Kill), &meta, &entries).unwrap();
}

#[test]
pub(super) fn every_failing_call_is_an_error_and_the_next_attempt_succeeds() {
    let entries = many(40);
    for error in [FaultError::Io, FaultError::NoSpace] {
        let (mut failed_writes, mut failed_reads) = (0, 0);
        for nth in 1.. {
            let fs = MemFs::new();
            let fault = Fault { kind: None, nth, span: FaultSpan::Once, error };
            fs.set_fault(Some(fault));
            let meta = match write_on(&fs, &entries) {
                Ok(meta) => meta,
                Err(_) => {
                    failed_writes += 1;
                    fs.set_fault(None);
                    fs.remove(Path::new(PATH)).unwrap_or_default();
                    write_on(&fs, &entries).unwrap()
                }
            };
            if read_on(&fs, &meta, &entries).is_err() {
                failed_reads += 1;
                read_on(&fs, &meta, &entries).unwrap();
            }
            if fs.faults() == 0 {
                break;
            }
        }
        assert!(failed_writes > 1 && failed_reads > 10, "{failed_writes} {failed_reads}");
    }
}
