//! Salvage: writes everything of a damaged database that verifies into a new one.
//!
//! The old database is neither written nor repaired. The new one has another name until it is
//! whole, see [`staging`](crate::staging).
//!
//! 1. The manifest names the families and tables, and the beginning of the log. Without it, each
//!    table names its family, the tables that it replaced, and the log segments needed then.
//! 2. The log records that verify are sorted into tables beside the new database. Where a table
//!    that the manifest names is lost, or a part of it, so is what retired segments have of it.
//! 3. For each family, the entries of all its tables are merged. What a reader would see of them
//!    now is committed to the new database. Merge operands are kept as operands.
//! 4. Transactions that were prepared and not decided are prepared there again.
//!
//! Memory: one block and one index for each sorted run, and a bounded part of the log.

pub mod report;
mod replaced;
pub mod find;
mod run;
mod scratch;
mod log;
mod retired;
mod based;
mod write;

use self::{
    find::{OldDatabase, Salvageable, find},
    log::LogSalvage,
    report::{SalvageProgress, SalvageReport},
    retired::read_retired,
    scratch::ScratchTables,
    write::{NewDatabase, write_family},
};
use crate::staging::{Staged, partial_path};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LockKind, Metadata},
};
use siltdb_engine::{
    open::{directory::lock_directory, foreign::check_not_foreign},
    options::EngineOptions,
    reports::lost::Lost,
};
use std::{path::Path, sync::Arc};

/// Writes everything of the database in `old` that verifies into a new one in `new`. `options`
/// describe the new one: file system, memory, threads, and merge operators. They also say how long
/// to wait for the lock of the old one. Durable on return.
///
/// # Errors
/// `NotFound`, if `old` has no files of a database; `Locked`, if it is open; `AlreadyExists` or
/// `InvalidArgument`, if `new` is not free for a new database; failures of writing that. Then there
/// is no `new`. Damage of the old one is not an error; it is in the report.
pub fn salvage(
    old: &Path,
    new: &Path,
    options: EngineOptions,
    on_progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    let fs = options.fs.clone();
    check_old(&*fs, old)?;
    if new.starts_with(old) {
        return Err(Error::invalid("the new database would lie in the old one").with_file(new));
    }
    let scratch = ScratchTables::new(fs.clone(), &partial_path(new)?);
    let mut staged = None;
    // The old database is locked by now, so its directory is never taken for that of an attempt.
    let create = |options, found: &Salvageable| {
        let begun = staged.insert(Staged::begin(&*fs, new, old)?);
        assert!(!old.starts_with(begun.path()), "a salvage writes to the database that it reads");
        let database = NewDatabase::create(begun.path(), options, found)?;
        begun.mark()?;
        Ok(database)
    };
    let saved = run(old, options, create, scratch, on_progress);
    match (saved, staged) {
        (Ok(report), Some(staged)) => staged.finish().map(|()| report),
        (saved, staged) => {
            staged.into_iter().for_each(Staged::discard);
            saved
        }
    }
}

/// Reads everything of the database in `old` as [`salvage`] does, and reports what a salvage would
/// save and lose. It writes nothing, also no temporary file: the operations of the log are sorted
/// in memory.
///
/// # Errors
/// `NotFound`, if `old` has no files of a database; `Locked`, if it is open.
pub fn dry_run(
    old: &Path,
    options: EngineOptions,
    on_progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    check_old(&*options.fs, old)?;
    run(old, options, NewDatabase::in_memory, ScratchTables::in_memory()?, on_progress)
}

/// Saves the database in `old` to the one that `create` makes for what was found.
fn run(
    old: &Path,
    mut options: EngineOptions,
    create: impl FnOnce(EngineOptions, &Salvageable) -> Result<NewDatabase>,
    mut scratch: ScratchTables,
    on_progress: &mut dyn FnMut(SalvageProgress),
) -> Result<SalvageReport> {
    let fs = options.fs.clone();
    // The lock keeps other processes from writing to the old database. It writes nothing.
    let directory = fs.open_dir(old)?;
    let _lock = lock_directory(&*directory, &options, LockKind::Shared)?;
    let mut lost = Vec::new();
    // It is that of the old database: all tables of the new one are hot.
    let cold = options.cold_directory.take();
    let files = OldDatabase { fs: &fs, dir: old, cold: cold.as_deref() };
    let mut found = find(files, options.operators(), &mut lost)?;
    let database = create(options, &found)?.of_old(directory);
    let mut log = LogSalvage::new(&mut found, &mut scratch, &mut lost);
    let written = log.read(&*fs, old);
    let (log_records, numbers) = (log.records(), log.numbers());
    let written = written.and_then(|()| {
        let retired = read_retired(files, &mut found, numbers, &mut scratch)?;
        let families = database.families(&mut found)?;
        let mut progress = SalvageProgress::default();
        let mut report = SalvageReport {
            log_records,
            retired_operations: retired.all,
            possibly_replaced: retired.before_gap,
            ..SalvageReport::default()
        };
        let targets: Vec<_> =
            families.iter().map(|(family, target)| (family.id, Arc::clone(target))).collect();
        for (family, target) in families {
            let mut on_bytes = |bytes| {
                progress.bytes_done += bytes;
                on_progress(progress);
            };
            let written =
                write_family(&database, family, &target, &scratch, &mut lost, &mut on_bytes)?;
            report.add(written);
        }
        for transaction in found.log.prepared.values() {
            match database.prepare(transaction, &targets) {
                Ok(()) => report.prepared += 1,
                // It does not fit beside the others, as if a decision about one of them were lost.
                Err(error) if is_refusal(error.kind()) => lost.push(Lost::anything(error)),
                Err(error) => return Err(error),
            }
        }
        assert_eq!(report.families.len(), targets.len(), "a salvage leaves a family out");
        database.close()?;
        Ok(report)
    });
    scratch.remove();
    let mut report = written?;
    report.manifest = found.manifest;
    report.lost = Lost::distinct(lost);
    Ok(report)
}

/// Whether an error is about a prepared transaction, and not about the new database.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Busy | ErrorKind::AlreadyExists | ErrorKind::InvalidArgument)
}

/// Checks that there is a directory to read.
fn check_old(fs: &dyn Fs, old: &Path) -> Result<()> {
    check_not_foreign(fs, old)?;
    match fs.metadata(old)? {
        Some(Metadata::Directory) => Ok(()),
        Some(_) => {
            let message = "the path of a database is a file, not a directory";
            Err(Error::invalid(message).with_file(old))
        }
        None => Err(Error::new(ErrorKind::NotFound, "no database in the directory")
            .with_file(old)
            .with_hint("check the path")),
    }
}

#[cfg(test)]
mod tests;
