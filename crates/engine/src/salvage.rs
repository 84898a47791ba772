//! Writes what verifies of a damaged database into a new one.
//!
//! It writes nothing to the old one, and mends nothing there.
//!
//! 1. The manifest says which families and tables there are, and where the log begins. Without it,
//!    tables name their families, those that they replaced, and the segments that were needed.
//! 2. The records of the log that verify are sorted into tables beside the new database.
//! 3. For each family, the entries of all its tables are merged, and what a reader would see of
//!    them now is committed to the new database. Operands of merges are kept as operands.
//!
//! Memory: one block and one index for each sorted run, and a bounded part of the log.

pub mod report;
pub mod find;
mod run;
mod scratch;
mod log;
mod write;

use self::{
    find::find,
    log::LogSalvage,
    report::{SalvageProgress, SalvageReport},
    scratch::ScratchTables,
    write::{NewDatabase, write_family},
};
use crate::{lost::Lost, open::directory::lock_directory, options::EngineOptions};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LockKind, Metadata},
};
use std::path::Path;

/// Writes what verifies of the database in `old` into a new one in `new`, which `options` describe:
/// file system, memory, threads, and the merge operators that the caller has. They also say how
/// long to wait for the lock of the old one.
///
/// # Errors
/// `NotFound`, if there is nothing of a database in `old`; `Locked`, if it is open; `AlreadyExists`
/// or `InvalidArgument`, if `new` is not free for a new database; what writing that fails with.
/// What cannot be read of the old one is in the report.
pub fn salvage(
    old: &Path,
    new: &Path,
    options: EngineOptions,
    on_progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    let fs = options.fs.clone();
    check_paths(&*fs, old, new)?;
    // It keeps others from writing to the old database. Nothing is written for that.
    let _lock = lock_directory(&*fs.open_dir(old)?, &options, LockKind::Shared)?;
    let mut lost = Vec::new();
    let mut found = find(&fs, old, &options.operators(), &mut lost)?;
    let database = NewDatabase::create(new, options, &found)?;
    let mut scratch = ScratchTables::new(fs.clone(), new);
    let mut log = LogSalvage::new(&mut found, &mut scratch, &mut lost);
    let written = log.read(&*fs, old);
    let log_records = log.records();
    let written = written.and_then(|()| {
        let families = database.families(&mut found)?;
        let mut progress = SalvageProgress::default();
        let mut report = SalvageReport { log_records, ..SalvageReport::default() };
        for (family, target) in families {
            let mut on_bytes = |bytes| {
                progress.bytes_done += bytes;
                on_progress(progress);
            };
            let written =
                write_family(&database, family, &target, &scratch, &mut lost, &mut on_bytes)?;
            report.add(written);
        }
        database.close()?;
        Ok(report)
    });
    scratch.remove();
    let mut report = written?;
    report.manifest = found.manifest;
    report.lost = Lost::distinct(lost);
    Ok(report)
}

/// Checks that there is something to read, and that nothing would be written to it.
fn check_paths(fs: &dyn Fs, old: &Path, new: &Path) -> Result<()> {
    match fs.metadata(old)? {
        Some(Metadata::Directory) => {}
        Some(_) => {
            return Err(
                Error::invalid("the path of a database is a file, not a directory").with_file(old)
            );
        }
        None => {
            return Err(Error::new(ErrorKind::NotFound, "no database in the directory")
                .with_file(old)
                .with_hint("check the path"));
        }
    }
    if new.starts_with(old) {
        return Err(Error::invalid("the new database would lie in the old one").with_file(new));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
