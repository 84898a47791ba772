//! A directory of backups: opened, locked, and its lists read.
//!
//! It copies no table.

use crate::copy_files::{sync_new, write_whole};
use siltdb_base::{
    codec::resize,
    error::{Error, ErrorKind, Result},
    fs::{DirEntry, FileKind, FileLock, Fs, LockKind, Metadata},
    limits::FILE_NUMBER_MAX,
};
use siltdb_disk::{
    backup_list::{BackupFileName, BackupList, LIST_HEAD_BYTES, ObjectName, check_list_head},
    file_name::FileName,
};
use siltdb_engine::{
    open::{
        directory::{lock_directory, sync_ancestors},
        foreign::check_not_foreign,
        outside::check_outside_databases,
    },
    options::EngineOptions,
};
use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The directory that a new file system of Linux has at its root.
const LOST_AND_FOUND: &str = "lost+found";

/// Longest list, in bytes: that of over a million tables.
const LIST_BYTES_MAX: u64 = 1 << 29;

/// The facts about a backup in its list.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupInfo {
    /// Its number, from 1 on; later backups have larger ones.
    pub number: u64,
    /// It holds every commit up to this sequence number, and none after it.
    pub sequence: u64,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// Its table files, those that it shares with other backups among them.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// The directory of the database, as it was opened.
    pub source: String,
}

/// The backups of a directory.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct BackupListing {
    /// Those whose lists can be read, oldest first.
    pub backups: Vec<BackupInfo>,
    /// What is wrong with the other lists.
    pub errors: Vec<Error>,
}

/// The backups in `dir`; their files are not read. No lock is taken: a list is never changed, and
/// has its name once it is whole. One that is pruned meanwhile is left out.
///
/// # Errors
/// As [`BackupDirectory::open`], but for `Locked`.
pub fn list_backups(dir: &Path, options: &EngineOptions) -> Result<BackupListing> {
    let directory = BackupDirectory { fs: find_backups(dir, options)?, _lock: None };
    let mut listing = BackupListing::default();
    for number in directory.numbers()? {
        match directory.list(number) {
            Ok(list) => listing.backups.push(BackupInfo {
                number,
                sequence: list.sequence.0,
                created_ms: list.created_ms,
                files: list.objects.len() as u64,
                bytes: list.bytes(),
                source: list.source,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => listing.errors.push(error),
        }
    }
    Ok(listing)
}

/// A directory of backups that is open and locked.
#[derive(Debug)]
pub struct BackupDirectory {
    fs: Arc<dyn Fs>,
    /// `None`, if only lists are read.
    _lock: Option<Box<dyn FileLock>>,
}

impl BackupDirectory {
    /// Opens `dir` to add a backup, and creates it if it does not exist.
    ///
    /// # Errors
    /// `InvalidArgument`, if it belongs to a database, is a file, or holds other files and no
    /// backup; `Locked`; the system's.
    pub fn create(dir: &Path, options: &EngineOptions) -> Result<Self> {
        let fs = &*options.fs;
        check_outside_databases(fs, dir)?;
        if look(fs, dir)?.is_none() {
            fs.create_dir_all(dir)?;
        }
        let directory = fs.open_dir(dir)?;
        let entries = directory.list(Path::new(""))?;
        let names = || entries.iter().map(name_of);
        if !names().any(|name| matches!(name, Some(BackupFileName::List(_)))) {
            let foreign =
                |entry: &&DirEntry| name_of(entry).is_none() && entry.name != LOST_AND_FOUND;
            if let Some(entry) = entries.iter().find(foreign) {
                let path = directory.full_path(Path::new(&entry.name));
                return Err(Error::invalid("the directory holds other files and no backup")
                    .with_file(&path)
                    .with_hint("give a directory of its own to the backups"));
            }
            // Its own name may not be durable yet.
            sync_ancestors(fs, dir)?;
        }
        Self::lock(directory, options, LockKind::Exclusive)
    }

    /// Opens `dir`, which must have a backup.
    ///
    /// # Errors
    /// `NotFound`, if there is no backup, or one that was never finished; `InvalidArgument`, if
    /// `dir` is a database or a file; `Locked`; the system's.
    pub fn open(dir: &Path, options: &EngineOptions, kind: LockKind) -> Result<Self> {
        Self::lock(find_backups(dir, options)?, options, kind)
    }

    fn lock(fs: Arc<dyn Fs>, options: &EngineOptions, kind: LockKind) -> Result<Self> {
        let lock = lock_directory(&*fs, options, kind)?;
        Ok(Self { fs, _lock: Some(lock) })
    }

    /// The directory.
    #[must_use]
    pub fn fs(&self) -> &dyn Fs {
        &*self.fs
    }

    /// The numbers of the backups, ascending.
    ///
    /// # Errors
    /// The system's.
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let entries = self.fs.list(Path::new(""))?;
        let mut numbers: Vec<u64> = entries
            .iter()
            .filter_map(|entry| match name_of(entry) {
                Some(BackupFileName::List(number)) => Some(number),
                _ => None,
            })
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The numbers of lists that were durable once and are missing, by the gaps between those that
    /// there are, and behind them. A prune removes the oldest.
    ///
    /// # Errors
    /// The system's.
    pub fn missing(&self) -> Result<Vec<Range<u64>>> {
        let numbers = self.numbers()?;
        let (Some(first), last) = (numbers.first(), self.last_made()?) else {
            return Ok(Vec::new());
        };
        let mut missing = Vec::new();
        let mut expected = *first;
        for number in numbers.iter().copied().chain([last + 1]) {
            if number > expected {
                missing.push(expected..number);
            }
            expected = expected.max(number + 1);
        }
        Ok(missing)
    }

    /// The numbers of the files that say that a list was durable.
    ///
    /// # Errors
    /// The system's.
    pub fn made(&self) -> Result<Vec<u64>> {
        let entries = self.fs.list(Path::new(""))?;
        let made = entries.iter().filter_map(|entry| match name_of(entry) {
            Some(BackupFileName::Made(number)) => Some(number),
            _ => None,
        });
        Ok(made.collect())
    }

    /// The largest number of a list that was ever durable, as far as it is known; 0: none.
    fn last_made(&self) -> Result<u64> {
        let numbers = self.numbers()?.into_iter().chain(self.made()?);
        Ok(numbers.max().unwrap_or(0))
    }

    /// The number of the next backup.
    ///
    /// # Errors
    /// `InvalidArgument`, if they are used up; the system's.
    pub fn next_number(&self) -> Result<u64> {
        let last = self.last_made()?;
        if last >= FILE_NUMBER_MAX {
            return Err(Error::invalid("the numbers of backups are used up")
                .with_mismatch(format_args!("at most {FILE_NUMBER_MAX}"), last));
        }
        Ok(last + 1)
    }

    /// The files of tables that have their names, with their lengths in bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn objects(&self) -> Result<BTreeMap<ObjectName, u64>> {
        let files = self.fs.list_lengths(Path::new(""))?;
        let object = |(name, length): (String, u64)| match BackupFileName::parse(&name)? {
            BackupFileName::Object(name) => Some((name, length)),
            _ => None,
        };
        Ok(files.into_iter().filter_map(object).collect())
    }

    /// The list of a backup.
    ///
    /// # Errors
    /// `NotFound`; `Corruption`, `Unsupported`; the system's.
    pub fn list(&self, number: u64) -> Result<BackupList> {
        self.read_list(&BackupFileName::List(number).to_path(), number)
    }

    /// The list of the backup with this number, or of the newest.
    ///
    /// # Errors
    /// `NotFound`, if there is none; as [`BackupDirectory::list`].
    pub fn pick(&self, number: Option<u64>) -> Result<BackupList> {
        let numbers = self.numbers()?;
        let found = match number {
            None => numbers.last(),
            Some(number) => numbers.iter().find(|found| **found == number),
        };
        if let Some(found) = found {
            return self.list(*found);
        }
        let has = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        Err(Error::new(ErrorKind::NotFound, "no backup has this number")
            .with_file(&self.fs.full_path(Path::new("")))
            .with_mismatch(format_args!("one of {has}"), number.unwrap_or(0)))
    }

    fn read_list(&self, name: &Path, number: u64) -> Result<BackupList> {
        let path = self.fs.full_path(name);
        let file = self.fs.open(name)?;
        if file.len() > LIST_BYTES_MAX {
            return Err(Error::corruption("list of a backup is too long")
                .with_file(&path)
                .with_mismatch(format_args!("at most {LIST_BYTES_MAX}"), file.len()));
        }
        // What does not begin as a list of this length is not read.
        let mut head = [0; LIST_HEAD_BYTES];
        if file.len() >= head.len() as u64 {
            file.read_exact_at(&mut head, 0)?;
            check_list_head(&head, file.len()).map_err(|error| damaged(error.or_file(&path)))?;
        }
        let mut bytes = Vec::new();
        resize(&mut bytes, file.len() as usize)?;
        file.read_exact_at(&mut bytes, 0)?;
        let list = BackupList::decode(&bytes).map_err(|error| damaged(error.or_file(&path)))?;
        if list.number == number {
            return Ok(list);
        }
        let error = Error::corruption("the list of another backup").with_file(&path);
        Err(damaged(error.with_mismatch(number, list.number)))
    }

    /// Writes the list of a backup whose files are durable. On return the backup exists, durably.
    ///
    /// # Errors
    /// The system's. The backup does not exist then, unless the sync of its name alone failed.
    pub fn add(&self, list: &BackupList) -> Result<()> {
        // Their names.
        self.fs.sync_dir(Path::new(""))?;
        let partial = BackupFileName::PartialList(list.number).to_path();
        write_whole(&*self.fs, &partial, |mut file| {
            file.append(&list.encode())?;
            sync_new(file)?;
            if self.read_list(&partial, list.number)? != *list {
                return Err(Error::corruption("what was written is not what is read back")
                    .with_file(&self.fs.full_path(&partial)));
            }
            Ok((BackupFileName::List(list.number).to_path(), ()))
        })?;
        self.fs.sync_dir(Path::new(""))?;
        // The backup exists. Without this file the loss of its list would go unnoticed, as long as
        // no other one follows.
        let made = self.fs.create(&BackupFileName::Made(list.number).to_path()).map(drop);
        if let Err(error) = made.and_then(|()| self.fs.sync_dir(Path::new(""))) {
            log::warn!("it is not noted that backup {} was made: {error}", list.number);
        }
        Ok(())
    }

    /// Removes files that were never finished.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_partial(&self) -> Result<()> {
        for entry in self.fs.list(Path::new(""))? {
            let name = name_of(&entry);
            if let Some(BackupFileName::PartialList(_) | BackupFileName::PartialObject(_)) = name {
                self.fs.remove(Path::new(&entry.name))?;
            }
        }
        Ok(())
    }
}

/// The parsed name of a file of backups; `None` for other names, and for directories.
fn name_of(entry: &DirEntry) -> Option<BackupFileName> {
    let is_file = entry.kind == FileKind::File;
    BackupFileName::parse(&entry.name).filter(|_| is_file)
}

/// Opens `dir`, which must have a backup. One without a list may be a database of another engine;
/// no file of other directories is opened before they are locked.
fn find_backups(dir: &Path, options: &EngineOptions) -> Result<Arc<dyn Fs>> {
    let fs = &*options.fs;
    find_lists(fs, dir).or_else(|error| check_not_foreign(fs, dir).and(Err(error)))
}

/// Opens `dir`, which must have a list.
fn find_lists(fs: &dyn Fs, dir: &Path) -> Result<Arc<dyn Fs>> {
    let none = |message: &'static str| Error::new(ErrorKind::NotFound, message).with_file(dir);
    let directory = match look(fs, dir)? {
        None => return Err(none("no backup in the directory").with_hint("check the path")),
        Some(()) => fs.open_dir(dir)?,
    };
    let entries = directory.list(Path::new(""))?;
    let has = |is: fn(BackupFileName) -> bool| entries.iter().filter_map(name_of).any(is);
    if has(|name| matches!(name, BackupFileName::List(_))) {
        return Ok(directory);
    }
    let current = FileName::Current.to_string();
    if entries.iter().any(|entry| entry.name == current) {
        return Err(Error::invalid("the directory holds a database, not backups").with_file(dir));
    }
    Err(match has(|name| name != BackupFileName::Lock) {
        true => none("the only backup in the directory was never finished")
            .with_hint("make a backup there again: it goes on with what is there"),
        false => none("no backup in the directory").with_hint("check the path"),
    })
}

/// Whether there is a directory.
fn look(fs: &dyn Fs, dir: &Path) -> Result<Option<()>> {
    match fs.metadata(dir)? {
        None => Ok(None),
        Some(Metadata::Directory) => Ok(Some(())),
        Some(_) => {
            Err(Error::invalid("the path of backups is a file, not a directory").with_file(dir))
        }
    }
}

/// The error with what to do about damage to a backup.
#[must_use]
pub fn damaged(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corruption => {
            error.with_hint("verify all backups in the directory, and restore a whole one")
        }
        _ => error,
    }
}

/// The path of a file of a backup, for messages.
#[must_use]
pub fn object_path(fs: &dyn Fs, name: ObjectName) -> PathBuf {
    fs.full_path(&BackupFileName::Object(name).to_path())
}
