//! Checkpoints: a second database with the contents of this one, beside it and as durable.
//!
//! Tables never change, so a checkpoint shares them by hard links, or copies them where the file
//! system cannot link, and from the cold tier. Log files are recycled, so their unflushed part is
//! copied. A checkpoint of chosen families takes no log: a flush comes first.
//!
//! 1. Under the locks of manifest and sequencer, the state that the manifest leads to and the end
//!    of the log are read. Versions pin the tables, a pin keeps the log.
//! 2. Everything before that end is published and synced.
//! 3. In a directory of another name tables are linked, the log is truncated and copied, and a
//!    manifest is begun. The directory is then renamed: a directory of the final name is whole.

use crate::{
    contents::{
        BlobGrowth, CopyChoice, CopyContents, LogContents, check_choice, flushed, with_log,
    },
    copy_files::{CopySource, copy_files},
    staging::{begin_manifest, check_free, fill_directory},
};
use siltdb_base::{error::Result, fs::Fs, seeded_fault, sync::lock};
use siltdb_disk::{backup_list::ObjectKind, edit::tier::Tier, file_name::FileName};
use siltdb_engine::{
    catalog::Catalog,
    database::writable::Writable,
    jobs::flush::flush_all,
    kit::copying::{FileCopy, OnProgress},
    open::{
        identity::{identity, separate},
        outside::check_outside_databases,
    },
    options::EngineOptions,
    write::log_sync::sync_to,
};
use std::{path::Path, sync::Arc};

/// The size of one copy of a log file, in bytes.
const COPY_BYTES: usize = 128 << 10;

/// How a checkpoint is made.
#[derive(Clone, Debug, Default)]
pub struct CheckpointRequest {
    /// The names of the families that it holds; `None`: all of them.
    pub families: Option<Vec<String>>,
    /// The branch whose families it holds, as its own; `None`: those of the database itself, and
    /// unless families are named, the branches.
    pub branch: Option<String>,
    /// How it comes to its table files.
    pub sharing: Sharing,
    /// Bytes of table files copied a second, at most.
    pub rate: Option<u64>,
}

impl CheckpointRequest {
    /// The families, if the checkpoint is not to hold everything.
    #[must_use]
    pub fn choice(&self) -> Option<CopyChoice<'_>> {
        let choice =
            CopyChoice { branch: self.branch.as_deref(), families: self.families.as_deref() };
        (choice.branch.is_some() || choice.families.is_some()).then_some(choice)
    }
}

/// How a checkpoint comes to its table files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// By hard links, and by copies where the file system cannot link.
    #[default]
    Links,
    /// By copies, so that damage to a file is that of one database.
    Copies,
}

/// The result of a checkpoint.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last sequence number in the checkpoint. It has every commit up to it and none after it.
    pub sequence: u64,
    /// The number of table and blob files that it shares with the database.
    pub linked_files: u64,
    /// The number of table files that could not be linked, and of log files.
    pub copied_files: u64,
    /// The size of the copied files, in bytes.
    pub copied_bytes: u64,
}

/// Makes a checkpoint in `dir`, which must not exist or be empty. Durable on return.
///
/// # Errors
/// `AlreadyExists`, if `dir` is a file or not empty; `InvalidArgument`, if it lies in the directory
/// of a database, or in a cold one; `NotFound`, if there is no such family or branch;
/// `NoSpace`; `Poisoned`; `Cancelled`; the system's. The database is unchanged. `dir` does not
/// exist, or is whole if only the sync of its name failed.
pub fn checkpoint(
    writable: Writable<'_>,
    dir: &Path,
    request: &CheckpointRequest,
    on_progress: OnProgress<'_>,
) -> Result<Checkpoint> {
    let database = writable.database();
    database.health.check()?;
    let fs = &*database.options.fs;
    let mut copying = FileCopy::new(&*database.options.clock, request.rate, on_progress)?;
    check_free(fs, dir)?;
    check_outside_databases(fs, dir)?;
    if let Some(choice) = request.choice() {
        check_choice(&database.catalog, choice)?;
    }
    // A commit that is in no log must be in a table.
    let last = lock(&database.catalog.manifest_io).state.last_sequence;
    if request.choice().is_none() && database.log.unlogged_last() > last {
        flush_all(&writable.job_rooms())?;
    }
    fill_checkpoint(&database.catalog, &database.options, dir, request, &mut copying, &mut |_| {
        let contents = match request.choice() {
            None => with_log(&writable.installer())?,
            Some(choice) => flushed(&writable.job_rooms(), Some(choice))?,
        };
        if let Some(log) = &contents.log {
            database.log.publisher.wait(contents.last);
            database.health.check_log()?;
            sync_to(&writable.installer(), log.end)?;
            let synced = database.log.wal.synced();
            assert!(synced >= log.end, "a copy of a log up to {}, synced to {synced}", log.end);
        }
        Ok(contents)
    })
}

/// What notes the contents of a checkpoint that is made in the given directory.
pub type NoteContents<'a> = &'a mut dyn FnMut(&Arc<dyn Fs>) -> Result<CopyContents>;

/// Makes a checkpoint of the contents that `note` gives, which are those of `database` or of a
/// later state of it. What it logs must be synced.
///
/// # Errors
/// As [`checkpoint`]; those of `note`.
pub fn fill_checkpoint(
    catalog: &Catalog,
    options: &EngineOptions,
    dir: &Path,
    request: &CheckpointRequest,
    copying: &mut FileCopy<'_>,
    note: NoteContents<'_>,
) -> Result<Checkpoint> {
    fill_directory(&*options.fs, dir, |target| {
        let mut contents = note(target)?;
        let checkpoint = write(catalog, &contents, &**target, request, copying)?;
        separate(&mut contents.state, catalog);
        let own = contents.state.identity();
        assert_ne!(own, identity(catalog), "a checkpoint has the identity of its source");
        let random = catalog.ids.random();
        begin_manifest(target, contents.manifest, &contents.state, random)?;
        Ok(checkpoint)
    })
}

/// Writes all but the manifest.
fn write(
    catalog: &Catalog,
    contents: &CopyContents,
    target: &dyn Fs,
    request: &CheckpointRequest,
    copying: &mut FileCopy<'_>,
) -> Result<Checkpoint> {
    let source = &**catalog.files.directory();
    let mut checkpoint = Checkpoint { sequence: contents.last.0, ..Checkpoint::default() };
    let files = copy_files(contents, &catalog.files)?;
    copying.begin(files.iter().map(|file| file.bytes).sum())?;
    // Values are appended to the newest blob file alone.
    let blobs = files.iter().filter(|file| file.kind() == ObjectKind::Blobs);
    let newest_blob = blobs.map(|file| file.number).max();
    for file in &files {
        if contents.added.as_ref().is_some_and(|added| added.has(file.number)) {
            // It was written there.
            checkpoint.copied_bytes += file.bytes;
            checkpoint.copied_files += 1;
            copying.pass(file.bytes)?;
            continue;
        }
        let may_link = match file.source {
            CopySource::Tables { files, .. } => files.tier_of(file.number) == Tier::Hot,
            // One that still grows is not shared.
            CopySource::Blobs(blob) => {
                let is_ended =
                    contents.growth == BlobGrowth::Ended || Some(file.number) != newest_blob;
                blob.is_sealed() && is_ended
            }
        };
        let name = file.kind().file_name(file.number).to_path();
        // Linking fails across file systems, on those without links, and if a writer in another
        // process has removed the file.
        let is_linked = may_link
            && request.sharing == Sharing::Links
            && source.hard_link_into(&name, target, &name).is_ok();
        if is_linked {
            checkpoint.linked_files += 1;
            copying.pass(file.bytes)?;
        } else {
            let mut copied = target.create(&name)?;
            copying.copy(&*file.open()?, &mut *copied)?;
            assert_eq!(copied.len(), file.bytes, "a copy has another length than its file");
            copied.sync()?;
            checkpoint.copied_bytes += copied.len();
            checkpoint.copied_files += 1;
        }
    }
    for (name, end) in contents.log.iter().flat_map(parts) {
        checkpoint.copied_bytes += copy_filled(source, target, &name.to_path(), end)?;
        checkpoint.copied_files += 1;
    }
    let needed = files.len() + contents.log.iter().flat_map(parts).count();
    let taken = checkpoint.linked_files + checkpoint.copied_files;
    assert_eq!(taken, needed as u64, "a checkpoint lacks a file, or has one twice");
    Ok(checkpoint)
}

/// The files of a log, and where each ends for the checkpoint.
fn parts(log: &LogContents) -> impl Iterator<Item = (FileName, u64)> {
    log.segments.iter().map(|segment| {
        let is_last = segment.id == log.end.segment;
        (FileName::Segment(segment.slot), if is_last { log.end.offset } else { u64::MAX })
    })
}

/// Copies the bytes of a log file before `end`, but for zeros at its end, because log files are
/// prepared far ahead, and makes them durable. Returns how many there are.
fn copy_filled(source: &dyn Fs, target: &dyn Fs, name: &Path, end: u64) -> Result<u64> {
    let file = source.open(name)?;
    let mut copied = target.create(name)?;
    let end = end.min(file.len());
    let (mut buffer, zeros) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
    let mut offset = 0;
    while offset < end {
        let left = usize::try_from(end - offset).unwrap_or(COPY_BYTES);
        let bytes = &mut buffer[..left.min(COPY_BYTES)];
        file.read_exact_at(bytes, offset)?;
        offset += bytes.len() as u64;
        if bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        // Write the skipped zeros, because other bytes follow them.
        while copied.len() < offset - bytes.len() as u64 {
            copied.append(&zeros)?;
        }
        copied.append(bytes)?;
    }
    assert!(copied.len() <= end, "a copy of a log file has bytes behind its end, {end}");
    if seeded_fault!("checkpoint_not_synced") {
        copied.flush()?;
    } else {
        copied.sync()?;
    }
    Ok(copied.len())
}

#[cfg(test)]
mod tests;
