//! Directories of new databases, filled under another name: a copy is whole or not there.
//!
//! It does not say what a database is made of.
//!
//! 1. `DIR.partial` is created and locked, and what an earlier attempt left there is removed. An
//!    empty file marks it, so that a database that has this name is not taken for such an attempt.
//!    A directory with other files is left as it is, without a lock file.
//! 2. It is filled; each file is synced by the one that writes it.
//! 3. The directory is synced and renamed to `DIR`, and the new name is synced. Then the mark is
//!    removed: an earlier removal could outlast the new name.
//!
//! An attempt that fails removes the directory; one that is killed leaves it.

use crate::{
    catalog::log_state::LogState, catalog::manifest::Manifest, open::directory::sync_ancestors,
};
use siltdb_base::{
    checksum::crc32c,
    error::{Error, ErrorKind, Result},
    fs::{Fs, LockKind, Metadata},
    id::FileNumber,
};
use siltdb_disk::{
    edit::{Edit, tier::COLD_FILE},
    file_name::FileName,
};
use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// The suffix of the directory until it is whole.
const PARTIAL: &str = ".partial";

/// Longest name to which the suffix is added, in bytes. A longer one is replaced by its checksum:
/// file systems take names of 255 bytes, and some of 143.
const NAME_BYTES_MAX: usize = 120;

/// The file that marks the directory until it is whole. An opening removes temporary files.
const MARK: FileName = FileName::Temporary(FileNumber(0));

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

/// Refuses a directory that is one of a database, its cold directory among them, or lies in one.
///
/// # Errors
/// `InvalidArgument`; the system's.
pub fn check_outside_databases(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let kind = |path: &Path| match path.as_os_str().is_empty() {
        true => Ok(Some(Metadata::Directory)),
        false => fs.metadata(path),
    };
    for ancestor in &ancestors(dir) {
        // Nothing lies in a directory that is not there.
        if kind(ancestor)? != Some(Metadata::Directory) {
            break;
        }
        let has = |name: &Path| -> Result<bool> {
            Ok(matches!(kind(&ancestor.join(name))?, Some(Metadata::File { .. })))
        };
        let message = match has(&FileName::Lock.to_path())? {
            true if has(&FileName::Current.to_path())? => "the directory belongs to a database",
            true if has(Path::new(COLD_FILE))? => {
                "the directory is the cold directory of a database"
            }
            _ => continue,
        };
        return Err(Error::invalid(message)
            .with_file(ancestor)
            .with_hint("give a directory outside of it"));
    }
    Ok(())
}

/// The directories that `dir` lies in, from the top, and `dir` itself. A directory that the path
/// leaves by `..` is not among them.
fn ancestors(dir: &Path) -> Vec<PathBuf> {
    let mut path = PathBuf::new();
    let mut ancestors = vec![path.clone()];
    for component in dir.components() {
        path.push(component);
        match component {
            Component::Prefix(_) | Component::RootDir => ancestors.clear(),
            Component::ParentDir => {
                // The directory that is left. Its parent gets another path.
                ancestors.pop();
                ancestors.pop();
            }
            Component::CurDir | Component::Normal(_) => {}
        }
        ancestors.push(path.clone());
    }
    ancestors
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
    check_free(fs, dir)?;
    let name = dir.file_name().ok_or_else(|| {
        Error::invalid("the path of a new database does not end in a name").with_file(dir)
    })?;
    let parent = open_parent(fs, dir)?;
    let (name, partial) = (Path::new(name), partial_name(name));
    parent.create_dir_all(&partial)?;
    let target = parent.open_dir(&partial)?;
    let begun = Begun::new(&*parent, &partial, &*target)?;
    // Against another attempt at that name.
    let lock = target.lock(&FileName::Lock.to_path(), LockKind::Exclusive);
    let target_lock = lock.inspect_err(|error| {
        // Without the lock only an empty directory can be told from that of another attempt.
        if error.kind() != ErrorKind::Locked {
            let _ = parent.remove_dir(&partial);
        }
    })?;
    // If the other attempt has ended before the lock was taken, the locked directory is its result.
    let filled = check_free(fs, dir).and_then(|()| {
        begin(&*target)?;
        let filled = fill(&target).inspect_err(|_| remove_all(&*target))?;
        parent.sync_dir(Path::new(""))?;
        parent.rename(&partial, name).inspect_err(|_| remove_all(&*target))?;
        Ok(filled)
    });
    let filled = filled.inspect_err(|_| begun.take_back())?;
    parent.sync_dir(Path::new(""))?;
    // If this fails, the first opening removes it.
    let _ = target.remove(&MARK.to_path());
    drop(target_lock);
    Ok(filled)
}

/// A partial directory before anything was written to it.
struct Begun<'a> {
    parent: &'a dyn Fs,
    partial: &'a Path,
    target: &'a dyn Fs,
}

impl<'a> Begun<'a> {
    /// Looks at a directory that is not locked yet.
    ///
    /// # Errors
    /// `AlreadyExists`, if it has what no attempt writes.
    fn new(parent: &'a dyn Fs, partial: &'a Path, target: &'a dyn Fs) -> Result<Self> {
        check_ours(target, &names(target)?)?;
        Ok(Self { parent, partial, target })
    }

    /// Removes the directory if this attempt has left nothing in it but its lock file. Errors leave
    /// it to the next attempt.
    fn take_back(&self) {
        let is_ours = |name: &String| FileName::parse(name) == Some(FileName::Lock);
        let is_empty = names(self.target).is_ok_and(|names| names.iter().all(is_ours));
        // If another attempt has renamed it, the path leads to nothing or to a third one.
        let is_named = matches!(
            self.parent.metadata(&self.partial.join(FileName::Lock.to_path())),
            Ok(Some(Metadata::File { .. }))
        );
        if is_empty && is_named {
            let _ = self.target.remove(&FileName::Lock.to_path());
            let _ = self.parent.remove_dir(self.partial);
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
    (number, state): (FileNumber, &Edit),
    random: u32,
) -> Result<()> {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut manifest = Manifest::new(Arc::clone(target), None, None, LogState::default());
    manifest.begin(number, &bytes, random).map_err(|failure| failure.into_error())?;
    manifest.give_back_unused();
    Ok(())
}

fn partial_name(name: &OsStr) -> PathBuf {
    let bytes = name.as_encoded_bytes();
    let mut name = match bytes.len() > NAME_BYTES_MAX {
        true => OsString::from(format!("silt-{:08x}-{}", crc32c(bytes), bytes.len())),
        false => name.to_owned(),
    };
    name.push(PARTIAL);
    name.into()
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
    if remove_files(target).is_ok() {
        // Last: without it, the rest would be a database.
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
