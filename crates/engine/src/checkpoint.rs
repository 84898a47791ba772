//! Checkpoints: a second database with the contents of this one, beside it and as durable.
//!
//! Tables never change, so a checkpoint shares them by hard links, or copies them where the file
//! system cannot link. Log files are recycled, so their unflushed part is copied.
//!
//! 1. Under the locks of manifest and sequencer, the state that the manifest leads to and the end
//!    of the log are read. Versions pin the tables, a pin keeps the log.
//! 2. Everything before that end is published and synced.
//! 3. In a directory of another name tables are linked, the log is truncated and copied, and a
//!    manifest is begun. The directory is then renamed: a directory of the final name is whole.

use crate::{
    catalog::manifest::{LogState, Manifest},
    database::Database,
    install::snapshot,
    jobs::flush::flush_all,
    log::pins::{Pin, SegmentSlot},
    log_sync::sync_to,
    open::directory::sync_ancestors,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LockKind, Metadata},
    id::{FileNumber, SequenceNumber},
    sync::lock,
};
use siltdb_disk::{
    edit::{Change, Edit},
    file_name::FileName,
    log::record::LogPosition,
};
use siltdb_tree::files::version::Version;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The suffix of a checkpoint's directory until it is whole.
const PARTIAL: &str = ".partial";

/// The size of one copy, in bytes.
const COPY_BYTES: usize = 128 << 10;

/// The result of a checkpoint.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last sequence number in the checkpoint. It has every commit up to it and none after it.
    pub sequence: u64,
    /// The number of table files that it shares with the database.
    pub linked_files: u64,
    /// The number of table files that could not be linked, and of log files.
    pub copied_files: u64,
    /// The size of the copied files, in bytes.
    pub copied_bytes: u64,
}

/// The contents of a checkpoint. It pins their files.
struct Contents {
    state: Edit,
    manifest: FileNumber,
    tables: BTreeSet<FileNumber>,
    segments: Vec<SegmentSlot>,
    end: LogPosition,
    last: SequenceNumber,
    /// Keep the table files.
    _versions: Vec<Arc<Version>>,
    /// Keeps the log files.
    _pin: Option<Pin>,
}

/// Makes a checkpoint in `dir`, which must not exist or be empty. Durable on return.
///
/// # Errors
/// `AlreadyExists`, if `dir` is a file or not empty; `NoSpace`; `Poisoned`; the system's. The
/// database is unchanged. `dir` does not exist, or is whole if only the sync of its name failed. A
/// `DIR.partial` beside it may remain; the next checkpoint of that name replaces it.
pub fn checkpoint(database: &Database, dir: &Path) -> Result<Checkpoint> {
    database.health.check()?;
    let fs = &*database.options.fs;
    check_free(fs, dir)?;
    // A commit that is in no log must be in a table.
    let flushed = lock(&database.catalog.manifest_io).state.last_sequence;
    if database.log.unlogged_last() > flushed {
        flush_all(database)?;
    }
    let name = dir.file_name().ok_or_else(|| {
        Error::invalid("the path of a checkpoint does not end in a name").with_file(dir)
    })?;
    let parent = open_parent(fs, dir)?;
    let (name, partial) = (Path::new(name), partial_name(name));
    parent.create_dir_all(&partial)?;
    let target = parent.open_dir(&partial)?;
    // Excludes another checkpoint of the same name.
    let target_lock = target.lock(&FileName::Lock.to_path(), LockKind::Exclusive)?;
    let written = empty(&*target)
        .and_then(|()| write(database, &*target))
        .and_then(|written| begin_manifest(database, written, &target));
    let checkpoint = written.inspect_err(|_| {
        // Remaining files are removed by the next checkpoint of that name.
        let _ = remove_files(&*target);
    })?;
    parent.sync_dir(Path::new(""))?;
    parent.rename(&partial, name)?;
    drop(target_lock);
    parent.sync_dir(Path::new(""))?;
    Ok(checkpoint)
}

/// Refuses a file and a directory that is not empty.
fn check_free(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let is_free = match fs.metadata(dir)? {
        None => true,
        Some(Metadata::Directory) => fs.list(dir)?.is_empty(),
        Some(_) => false,
    };
    if is_free {
        return Ok(());
    }
    Err(Error::new(ErrorKind::AlreadyExists, "the path of the checkpoint is in use")
        .with_file(dir)
        .with_hint("give a directory that does not exist"))
}

fn partial_name(name: &OsStr) -> PathBuf {
    let mut name = name.to_owned();
    name.push(PARTIAL);
    name.into()
}

/// Opens the parent directory of the checkpoint, and makes its name durable.
fn open_parent(fs: &dyn Fs, dir: &Path) -> Result<Arc<dyn Fs>> {
    let parent = dir.parent().unwrap_or(Path::new(""));
    if !parent.as_os_str().is_empty() {
        fs.create_dir_all(parent)?;
        sync_ancestors(fs, parent)?;
    }
    fs.open_dir(parent)
}

/// Removes the files of an earlier checkpoint that was killed.
fn empty(target: &dyn Fs) -> Result<()> {
    remove_files(target)?;
    match target
        .list(Path::new(""))?
        .iter()
        .find(|entry| FileName::parse(&entry.name) != Some(FileName::Lock))
    {
        None => Ok(()),
        Some(entry) => Err(Error::new(
            ErrorKind::AlreadyExists,
            "the partial directory of a checkpoint has a foreign file",
        )
        .with_file(&target.full_path(Path::new(&entry.name)))),
    }
}

fn remove_files(target: &dyn Fs) -> Result<()> {
    let is_ours = |name: &str| FileName::parse(name).is_some_and(|name| name != FileName::Lock);
    for entry in target.list(Path::new(""))?.into_iter().filter(|entry| is_ours(&entry.name)) {
        target.remove(Path::new(&entry.name))?;
    }
    Ok(())
}

/// Reads and pins the contents of the checkpoint.
fn contents(database: &Database) -> Result<Contents> {
    let manifest = lock(&database.catalog.manifest_io);
    database.health.check_log()?;
    let sequencer = lock(&database.log.sequencer);
    let (last, end) = sequencer.last();
    let mut segments: Vec<SegmentSlot> =
        lock(&database.log.frozen).iter().flat_map(|frozen| frozen.segments.clone()).collect();
    segments
        .extend(sequencer.active().map(|active| SegmentSlot { id: active.id, slot: active.slot }));
    // A generation may be installed and not yet retired.
    segments.retain(|segment| segment.id >= manifest.state.first);
    let pin = segments.first().map(|first| database.log.wal.pin(first.id));
    drop(sequencer);
    let number = database.catalog.ids.file();
    let mut state = snapshot(database, &manifest, number);
    let slot = segments.iter().find(|segment| segment.id == end.segment);
    state.changes.extend([
        Change::NextFamily(database.catalog.ids.next_family()),
        Change::LatestTime(database.time.stored()),
        Change::LogSynced { position: end, slot: slot.map_or(0, |segment| segment.slot) },
    ]);
    let families = database.catalog.families.load();
    let versions: Vec<_> =
        families.iter().map(|family| Arc::clone(&family.tree.view().version)).collect();
    let tables = versions.iter().flat_map(|version| version.tables());
    let tables = tables.map(|(_, table)| table.id().file).collect();
    Ok(Contents {
        state,
        manifest: number,
        tables,
        segments,
        end,
        last,
        _versions: versions,
        _pin: pin,
    })
}

/// Writes all files but the manifest.
fn write(database: &Database, target: &dyn Fs) -> Result<(Contents, Checkpoint)> {
    let contents = contents(database)?;
    database.log.publisher.wait(contents.last);
    database.health.check_log()?;
    sync_to(database, contents.end)?;
    let source = &**database.catalog.files.directory();
    let mut checkpoint = Checkpoint { sequence: contents.last.0, ..Checkpoint::default() };
    for &number in &contents.tables {
        let name = FileName::Table(number).to_path();
        // Linking fails across file systems, and on those without links.
        if source.hard_link_into(&name, target, &name).is_ok() {
            checkpoint.linked_files += 1;
        } else {
            checkpoint.copied_bytes += copy(source, target, &name, Part::Whole)?;
            checkpoint.copied_files += 1;
        }
    }
    for segment in &contents.segments {
        let is_last = segment.id == contents.end.segment;
        let end = if is_last { contents.end.offset } else { u64::MAX };
        let part = Part::Filled { end };
        let name = FileName::Segment(segment.slot).to_path();
        checkpoint.copied_bytes += copy(source, target, &name, part)?;
        checkpoint.copied_files += 1;
    }
    Ok((contents, checkpoint))
}

/// Writes manifest and `CURRENT`, which make the directory a database.
fn begin_manifest(
    database: &Database,
    (contents, checkpoint): (Contents, Checkpoint),
    target: &Arc<dyn Fs>,
) -> Result<Checkpoint> {
    target.sync_dir(Path::new(""))?;
    let mut bytes = Vec::new();
    contents.state.encode(&mut bytes);
    let mut manifest = Manifest::new(Arc::clone(target), None, None, LogState::default());
    let random = database.catalog.ids.random();
    manifest.begin(contents.manifest, &bytes, random).map_err(|failure| failure.into_error())?;
    manifest.give_back_unused();
    Ok(checkpoint)
}

/// The part of a file to copy.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The whole file.
    Whole,
    /// The bytes before `end` without trailing zeros, because log files are prepared far ahead.
    Filled {
        /// The end, in bytes.
        end: u64,
    },
}

/// Copies a file and makes its bytes durable. Returns the number of bytes.
fn copy(source: &dyn Fs, target: &dyn Fs, name: &Path, part: Part) -> Result<u64> {
    let file = source.open(name)?;
    let mut copied = target.create(name)?;
    let end = match part {
        Part::Whole => file.len(),
        Part::Filled { end } => end.min(file.len()),
    };
    let (mut buffer, zeros) = (vec![0; COPY_BYTES], vec![0; COPY_BYTES]);
    let mut offset = 0;
    while offset < end {
        let left = usize::try_from(end - offset).unwrap_or(COPY_BYTES);
        let bytes = &mut buffer[..left.min(COPY_BYTES)];
        file.read_exact_at(bytes, offset)?;
        offset += bytes.len() as u64;
        if matches!(part, Part::Filled { .. }) && bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        // Write the skipped zeros, because other bytes follow them.
        while copied.len() < offset - bytes.len() as u64 {
            copied.append(&zeros)?;
        }
        copied.append(bytes)?;
    }
    if cfg!(seeded_fault = "checkpoint_not_synced") {
        copied.flush()?;
    } else {
        copied.sync()?;
    }
    Ok(copied.len())
}

#[cfg(test)]
mod tests;
