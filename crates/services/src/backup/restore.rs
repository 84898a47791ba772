//! Making a database of a backup.
//!
//! The new directory is filled under another name. A file whose length or checksum is not what the
//! list says ends the restore, and nothing is left.

use crate::{
    backup::directory::{BackupDirectory, damaged, object_path},
    staging::{begin_manifest, check_free, fill_directory},
};
use siltdb_base::{
    checksum::bad_checksum,
    error::{Error, ErrorKind, Result},
    fs::{File, Fs, LockKind},
    seeded_fault,
};
use siltdb_disk::backup_list::{BackupFileName, BackupObject};
use siltdb_engine::{
    kit::{
        copying::{FileCopy, OnProgress},
        random::Random,
    },
    open::outside::check_outside_databases,
    options::EngineOptions,
};
use std::{path::Path, sync::Arc};

/// The result of a restore.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// The number of the backup.
    pub number: u64,
    /// The database holds every commit up to this sequence number, and none after it.
    pub sequence: u64,
    /// Its table and blob files.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
}

/// Which backup a restore takes, and where to.
#[derive(Clone, Copy, Debug)]
pub struct RestoreRequest<'a> {
    /// The number of the backup; `None`: the newest.
    pub number: Option<u64>,
    /// The directory of the new database.
    pub target: &'a Path,
    /// Bytes copied a second, at most.
    pub rate: Option<u64>,
}

/// Makes a database of a backup in `dir`. On return it is durable, and closed. Nothing is written
/// to `dir`.
///
/// # Errors
/// `NotFound`, if there is no such backup, or it was never finished; `AlreadyExists`, if something
/// is where the database would be; `InvalidArgument`, if that place belongs to a database, or if
/// `dir` is one; `Locked`, while a backup is made there; `Corruption`, if a file of the backup is
/// missing or damaged; `NoSpace`; `Cancelled`; the system's. No database is made then, unless the
/// sync of its name alone failed.
pub fn restore(
    dir: &Path,
    request: RestoreRequest<'_>,
    options: &EngineOptions,
    on_progress: OnProgress<'_>,
) -> Result<RestoreReport> {
    let RestoreRequest { number, target, rate } = request;
    let fs = &*options.fs;
    let mut copying = FileCopy::new(&*options.clock, rate, on_progress)?;
    let directory = BackupDirectory::open(dir, options, LockKind::Shared)?;
    let list = directory.pick(number)?;
    check_free(fs, target)?;
    check_outside_databases(fs, target)?;
    copying.begin(list.bytes())?;
    fill_directory(fs, target, |target| {
        for object in list.all_objects() {
            restore_object(directory.fs(), target, object, &mut copying)?;
        }
        let random = Random::new(options.seed).next_u64() as u32;
        begin_manifest(target, list.manifest, &list.state, random)
    })?;
    let (files, bytes) = (list.all_objects().count() as u64, list.bytes());
    Ok(RestoreReport { number: list.number, sequence: list.sequence.0, files, bytes })
}

fn restore_object(
    source: &dyn Fs,
    target: &Arc<dyn Fs>,
    object: &BackupObject,
    copying: &mut FileCopy<'_>,
) -> Result<()> {
    let file = match open_object(source, object) {
        Err(_) if seeded_fault!("restore_of_an_incomplete_backup") => return Ok(()),
        file => file?,
    };
    let name = object.name.kind.file_name(object.file);
    let mut written = target.create(&name.to_path())?;
    let checksum = copying.copy(&*file, &mut *written)?;
    check_checksum(source, object, checksum)?;
    written.sync()
}

/// Opens a file of a backup, whose length is that of the list.
///
/// # Errors
/// `Corruption`, if it is missing or has another length; the system's.
pub fn open_object(source: &dyn Fs, object: &BackupObject) -> Result<Arc<dyn File>> {
    let name = BackupFileName::Object(object.name).to_path();
    let file = source.open(&name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => damaged(
            Error::corruption("a file of the backup is missing")
                .with_file(&object_path(source, object.name)),
        ),
        _ => error,
    })?;
    if file.len() == object.bytes {
        return Ok(file);
    }
    let error = Error::corruption("a file of the backup has another length")
        .with_file(&object_path(source, object.name));
    Err(damaged(error.with_mismatch(object.bytes, file.len())))
}

/// Compares the CRC-32C of a file of a backup with that of its list.
///
/// # Errors
/// `Corruption`, if they differ.
pub fn check_checksum(source: &dyn Fs, object: &BackupObject, found: u32) -> Result<()> {
    let expected = object.name.checksum;
    if found == expected {
        return Ok(());
    }
    let error = bad_checksum("bad checksum of a file of the backup", expected, found);
    Err(damaged(error.with_file(&object_path(source, object.name))))
}
