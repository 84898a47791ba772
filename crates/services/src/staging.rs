//! Directories of new databases, filled under another name: a copy is whole or not there.
//!
//! It does not say what a database is made of.
//!
//! 1. `DIR.partial` is created and locked, and what an earlier attempt left there is removed. An
//!    empty file marks it, so that a database that has this name is not taken for such an attempt.
//!    A directory with other files is left as it is, without a lock file.
//! 2. It is filled; each file is synced by the one that writes it.
//! 3. The directory is synced and renamed to `DIR`, and the new name is synced. Then the mark is
//!    removed: an earlier removal could outlast the new name. If the attempt is killed before that,
//!    the first opening for writing does it.
//!
//! An attempt that fails removes the directory; one that is killed leaves it.
//!
//! A salvage opens its database in `DIR.partial`, see [`Staged`].

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{FileLock, Fs, LockKind, Metadata},
    id::FileNumber,
};
use siltdb_disk::{
    edit::{Change, Edit},
    file_name::{FileName, MARK, stand_in},
};
use siltdb_engine::{
    catalog::log_state::LogState, catalog::manifest::Manifest, open::directory::sync_ancestors,
};
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The suffix of the directory until it is whole.
const PARTIAL: &str = ".partial";

/// Longest name to which the suffix is added, in bytes. A longer one is replaced by its checksum:
/// file systems take names of 255 bytes, and some of 143.
const NAME_BYTES_MAX: usize = 120;

/// Refuses a file and a directory that is not empty.
///
/// # Errors
/// `AlreadyExists`; the system's.
pub fn check_free(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let is_free = match fs.metadata(dir)? {
        None => true,
        Some(Metadata::Directory) => fs.list(dir)?.is_empty(),
        Some(_) => false,
    };
    if is_free {
        return Ok(());
    }
    Err(Error::new(ErrorKind::AlreadyExists, "the path of the new database is in use")
        .with_file(dir)
        .with_hint("give a directory that does not exist"))
}

/// Makes the directory `dir` of what `fill` writes into it. On return it is durable.
///
/// # Errors
/// `AlreadyExists`, if something is there; `Locked`, if another process fills it; what `fill` fails
/// with; the system's. Then `dir` does not exist, or, if only the sync of its name failed, is
/// whole. What was written is removed; a `DIR.partial` that a kill leaves is replaced by the next
/// attempt.
pub fn fill_directory<T>(
    fs: &dyn Fs,
    dir: &Path,
    fill: impl FnOnce(&Arc<dyn Fs>) -> Result<T>,
) -> Result<T> {
    let partial = Partial::open(fs, dir)?;
    let target = partial.target()?;
    let target_lock = partial.lock(&*target)?;
    // If the other attempt has ended before the lock was taken, the locked directory is its result.
    let filled = check_free(fs, dir).and_then(|()| {
        begin(&*target)?;
        let filled = fill(&target).inspect_err(|_| remove_all(&*target))?;
        partial.rename().inspect_err(|_| remove_all(&*target))?;
        Ok(filled)
    });
    let filled = filled.inspect_err(|_| partial.take_back(&*target))?;
    partial.settle(&*target)?;
    drop(target_lock);
    Ok(filled)
}

/// The directory of a new database that is opened there before it is whole.
///
/// The opening locks the directory, so an attempt holds no lock before and after it.
pub struct Staged {
    partial: Partial,
    path: PathBuf,
}

impl Staged {
    /// Makes the directory `DIR.partial` for a database that will be `dir`. `source`, from which
    /// it is made, must be another one.
    ///
    /// # Errors
    /// As [`fill_directory`]; `InvalidArgument`, if `source` has the name.
    pub fn begin(fs: &dyn Fs, dir: &Path, source: &Path) -> Result<Self> {
        let path = partial_path(dir)?;
        if fs.full_path(&path) == fs.full_path(source) {
            let message = "the database has the name that the new one has until it is whole";
            return Err(Error::invalid(message)
                .with_file(source)
                .with_hint("give the new database another name"));
        }
        let partial = Partial::open(fs, dir)?;
        let target = partial.target()?;
        let _lock = partial.lock(&*target)?;
        let begun = check_marked(&*target).and_then(|()| begin(&*target));
        begun.inspect_err(|_| partial.take_back(&*target))?;
        Ok(Self { partial, path })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the directory again, because an opening removes the mark.
    ///
    /// # Errors
    /// The system's.
    pub fn mark(&self) -> Result<()> {
        let target = self.partial.target()?;
        target.create(&MARK.to_path())?;
        target.sync_dir(Path::new(""))
    }

    /// Gives the database, which is closed and durable, its name.
    ///
    /// # Errors
    /// The system's. The directory is then as [`Staged::discard`] leaves it, unless only the sync
    /// of the name failed.
    pub fn finish(self) -> Result<()> {
        let target = self.partial.target()?;
        match self.partial.rename() {
            Ok(()) => self.partial.settle(&*target),
            Err(error) => {
                self.discard();
                Err(error)
            }
        }
    }

    /// Removes the directory with the database in it, which is closed, unless another attempt has
    /// it. Errors leave it to the next attempt.
    pub fn discard(self) {
        // Not the directory of before: that may be the result of another attempt by now.
        let Ok(target) = self.partial.target() else { return };
        let Ok(_lock) = self.partial.lock(&*target) else { return };
        remove_all(&*target);
        self.partial.take_back(&*target);
    }
}

/// The directory that a new database has until it is whole.
struct Partial {
    parent: Arc<dyn Fs>,
    /// Its name in the end.
    name: PathBuf,
    partial: PathBuf,
}

impl Partial {
    /// Makes the directory for a database that will be `dir`.
    ///
    /// # Errors
    /// `AlreadyExists`, if something is there, or the directory has what no attempt writes; the
    /// system's.
    fn open(fs: &dyn Fs, dir: &Path) -> Result<Self> {
        check_free(fs, dir)?;
        let name = name_of(dir)?;
        let parent = open_parent(fs, dir)?;
        let partial = partial_name(name.as_os_str());
        assert_ne!(partial, name, "a new database has its name before it is whole");
        parent.create_dir_all(&partial)?;
        let partial = Self { parent, name, partial };
        let target = partial.target()?;
        check_ours(&*target, &names(&*target)?)?;
        Ok(partial)
    }

    /// The directory that has the partial name now.
    fn target(&self) -> Result<Arc<dyn Fs>> {
        self.parent.open_dir(&self.partial)
    }

    /// Locks the directory against another attempt at that name.
    fn lock(&self, target: &dyn Fs) -> Result<Box<dyn FileLock>> {
        let lock = target.lock(&FileName::Lock.to_path(), LockKind::Exclusive);
        lock.inspect_err(|error| {
            // Without the lock only an empty directory can be told from that of another attempt.
            if error.kind() != ErrorKind::Locked {
                let _ = self.parent.remove_dir(&self.partial);
            }
        })
    }

    /// Makes the names of all files durable, and gives the directory its name.
    fn rename(&self) -> Result<()> {
        self.parent.sync_dir(Path::new(""))?;
        self.parent.rename(&self.partial, &self.name)
    }

    /// Makes the name durable, and removes the mark.
    fn settle(&self, target: &dyn Fs) -> Result<()> {
        self.parent.sync_dir(Path::new(""))?;
        // If this fails, the first opening for writing removes it.
        let _ = target.remove(&MARK.to_path());
        Ok(())
    }

    /// Removes the directory if this attempt has left nothing in it but its lock file. Errors leave
    /// it to the next attempt.
    fn take_back(&self, target: &dyn Fs) {
        let is_ours = |name: &String| FileName::parse(name) == Some(FileName::Lock);
        let is_empty = names(target).is_ok_and(|names| names.iter().all(is_ours));
        // If another attempt has renamed it, the path leads to nothing or to a third one.
        let is_named = matches!(
            self.parent.metadata(&self.partial.join(FileName::Lock.to_path())),
            Ok(Some(Metadata::File { .. }))
        );
        if is_empty && is_named {
            let _ = target.remove(&FileName::Lock.to_path());
            let _ = self.parent.remove_dir(&self.partial);
        }
    }
}

/// Writes manifest and `CURRENT`, which make the directory a database. The other files are synced
/// before. Their names are synced with that of the manifest, before `CURRENT` has its name.
///
/// # Errors
/// The system's.
pub fn begin_manifest(
    target: &Arc<dyn Fs>,
    number: FileNumber,
    state: &Edit,
    random: u32,
) -> Result<()> {
    let begins = matches!(state.changes.first(), Some(Change::Format { .. }));
    assert!(begins, "a manifest begins without the format of the database");
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut manifest = Manifest::new(Arc::clone(target), None, None, LogState::default());
    manifest.begin(number, &bytes, random).map_err(|failure| failure.into_error())?;
    manifest.give_back_unused();
    Ok(())
}

fn partial_name(name: &OsStr) -> PathBuf {
    let bytes = name.as_encoded_bytes();
    let mut name = stand_in(bytes, NAME_BYTES_MAX).map_or_else(|| name.to_owned(), OsString::from);
    name.push(PARTIAL);
    name.into()
}

/// Where a new database `dir` is until it is whole.
///
/// # Errors
/// `InvalidArgument`, if the path does not end in a name.
pub fn partial_path(dir: &Path) -> Result<PathBuf> {
    Ok(dir.with_file_name(partial_name(name_of(dir)?.as_os_str())))
}

/// The last part of a path.
fn name_of(dir: &Path) -> Result<PathBuf> {
    let name = dir.file_name().ok_or_else(|| {
        Error::invalid("the path of a new database does not end in a name").with_file(dir)
    })?;
    Ok(name.into())
}

/// Opens the directory that `dir` will lie in, and makes its name durable.
fn open_parent(fs: &dyn Fs, dir: &Path) -> Result<Arc<dyn Fs>> {
    let parent = dir.parent().unwrap_or(Path::new(""));
    if !parent.as_os_str().is_empty() {
        fs.create_dir_all(parent)?;
        sync_ancestors(fs, parent)?;
    }
    fs.open_dir(parent)
}

/// Refuses a directory that has what no attempt writes.
///
/// # Errors
/// `AlreadyExists`.
fn check_ours(target: &dyn Fs, names: &[String]) -> Result<()> {
    let has = |name| names.iter().any(|found| FileName::parse(found) == Some(name));
    if has(FileName::Current) && !has(MARK) {
        let message = "a database has the name that a new one has until it is whole";
        return Err(Error::new(ErrorKind::AlreadyExists, message)
            .with_file(&target.full_path(Path::new("")))
            .with_hint("give the new database another name, or rename the other one"));
    }
    match names.iter().find(|name| FileName::parse(name).is_none()) {
        None => Ok(()),
        Some(name) => {
            let message = "the partial directory of a new database has a foreign file";
            Err(Error::new(ErrorKind::AlreadyExists, message)
                .with_file(&target.full_path(Path::new(name))))
        }
    }
}

/// Refuses a directory that has files of ours and no mark: a database may have been salvaged there.
///
/// # Errors
/// `AlreadyExists`.
fn check_marked(target: &dyn Fs) -> Result<()> {
    let names = names(target)?;
    let mut found = names.iter().map(|name| FileName::parse(name));
    let is_empty = names.iter().all(|name| FileName::parse(name) == Some(FileName::Lock));
    if is_empty || found.any(|name| name == Some(MARK)) {
        return Ok(());
    }
    let message = "the partial directory of a new database has files of another one";
    Err(Error::new(ErrorKind::AlreadyExists, message)
        .with_file(&target.full_path(Path::new("")))
        .with_hint("give the new database another name, or remove the directory"))
}

/// Removes the files of an earlier attempt that was killed, and marks the directory.
fn begin(target: &dyn Fs) -> Result<()> {
    let names = names(target)?;
    check_ours(target, &names)?;
    remove_files(target)?;
    if !names.iter().any(|name| FileName::parse(name) == Some(MARK)) {
        target.create(&MARK.to_path())?;
    }
    Ok(())
}

/// Removes all files of a failed attempt but the lock. What stays is for the next attempt.
fn remove_all(target: &dyn Fs) {
    // Last, and once the rest is durably gone: without it, the rest would be a database.
    if remove_files(target).is_ok() && target.sync_dir(Path::new("")).is_ok() {
        let _ = target.remove(&MARK.to_path());
    }
}

/// Removes all files of ours but the lock and the mark.
fn remove_files(target: &dyn Fs) -> Result<()> {
    let is_removed = |name: FileName| name != FileName::Lock && name != MARK;
    for name in names(target)?.iter().filter(|name| FileName::parse(name).is_some_and(is_removed)) {
        target.remove(Path::new(name))?;
    }
    Ok(())
}

fn names(target: &dyn Fs) -> Result<Vec<String>> {
    Ok(target.list(Path::new(""))?.into_iter().map(|entry| entry.name).collect())
}

#[cfg(test)]
mod tests;
