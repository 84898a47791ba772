//! The cold directory of a database: found, compared with the manifest, and named by it.
//!
//! It moves no table. The manifest has the path and a random id, and the file `COLD` of the
//! directory has the same id, so that no database takes the cold tables of another for its own.
//!
//! 1. A new cold directory is empty. Its name and id become durable in the manifest.
//! 2. Then the file `COLD` is written under another name, synced, and renamed. A crash before
//!    leaves a directory without tables, and the next opening does step 2 again.
//! 3. Its name is synced before any table is put there. An opening that finds the file and no table
//!    syncs the name, because the one that wrote it may have been killed before.
//!
//! The file `COLD` also has a random number of the owner, which the manifest has, and the inode of
//! the directory of the owner. A copy of the database has the number, and another inode; once it
//! has taken over, the original has another number. Only the owner writes to the cold directory. A
//! file of an earlier version names no owner: the first opening for writing becomes it.

use crate::{
    catalog::{Catalog, family_map::FamilyMap, manifest::RECOVER_HINT},
    database::installer::Installer,
    install::install,
    open::directory::{lock_directory, sync_ancestors},
    options::{Access, ColdClaim, EngineOptions},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{DirEntry, FileLock, Fs, LockKind, Metadata},
    id::FileNumber,
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    edit::{
        Change,
        tier::{
            COLD_FILE, COLD_FILE_BYTES_MAX, COLD_PATH_BYTES_MAX, ColdFile, ColdOwner, ColdPlace,
        },
    },
    file_name::FileName,
};
use siltdb_tree::files::{open_files::OpenFiles, table_store::TableStore};
use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// The directory that a new Linux file system has at its root.
const LOST_AND_FOUND: &str = "lost+found";

/// The file `COLD` until it is whole and synced.
const UNFINISHED: FileName = FileName::Temporary(FileNumber(0));

/// What a database has in its cold directory, as its manifest says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdContents {
    /// No table.
    Nothing,
    /// Tables.
    Tables,
}

impl ColdContents {
    /// The contents by the tables of these families.
    #[must_use]
    pub fn of(families: &FamilyMap) -> Self {
        let is_cold = families.versions().any(|version| version.totals().cold > 0);
        if is_cold { Self::Tables } else { Self::Nothing }
    }
}

/// How a cold directory stands to the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdState {
    /// It has the id of the manifest.
    Known,
    /// It is empty, and may become the cold directory.
    New,
}

/// Whose a cold directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdOwnership {
    /// It belongs to this directory.
    Own,
    /// Its file names no owner.
    Unclaimed,
    /// It belongs to a directory that this one is a copy of, or to this one before a move.
    Foreign,
}

/// A cold directory that was found.
#[derive(Debug)]
pub struct FoundCold {
    /// The directory.
    pub directory: Arc<dyn Fs>,
    /// Its path, as it is to be stored.
    pub path: String,
    /// How it stands to the manifest.
    pub state: ColdState,
    /// Whose it is.
    pub ownership: ColdOwnership,
    /// The shared lock under which it was read.
    pub lock: Option<Box<dyn FileLock>>,
}

impl FoundCold {
    /// Its table files.
    #[must_use]
    pub fn store(&self) -> TableStore {
        let store = TableStore::new(Arc::clone(&self.directory));
        match self.ownership {
            ColdOwnership::Own | ColdOwnership::Unclaimed => store,
            ColdOwnership::Foreign => store.keeping_all(),
        }
    }
}

/// The path of the cold directory of the database in `dir`: that of the options, else the stored
/// one. A relative path starts at `dir`.
fn cold_path(dir: &Path, options: &EngineOptions, stored: Option<&ColdPlace>) -> Option<PathBuf> {
    let given = options.cold_directory.as_deref();
    given.or(stored.map(|place| Path::new(&place.path))).map(|path| dir.join(path))
}

/// Whether a cold directory is locked while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdLocking {
    /// It is: no writer may have it.
    Locks,
    /// It is not, as by a follower beside the writer.
    Follows,
}

/// Finds the cold directory of the database in `dir`, if there is one, and writes nothing but the
/// directory itself. A stored one in which no table lies may be missing.
///
/// # Errors
/// `NotFound`, if tables lie there and the directory or its file `COLD` is missing;
/// `InvalidArgument`, if it belongs to another database, or, for an opening that writes, to the
/// directory that this one is a copy of; if it lies in the database, holds other files and is not
/// yet a cold one, or is a file; `Corruption`, if its file `COLD` is damaged; `Locked`;
/// the system's.
pub fn find_cold(
    dir: &Path,
    options: &EngineOptions,
    stored: Option<&ColdPlace>,
    contents: ColdContents,
    locking: ColdLocking,
) -> Result<Option<FoundCold>> {
    let fs = &*options.fs;
    let is_needed = contents == ColdContents::Tables;
    let Some(full) = cold_path(dir, options, stored) else {
        if !is_needed {
            return Ok(None);
        }
        let message = "tables lie in a cold directory, and the manifest does not name it";
        return Err(Error::corruption(message).with_hint(RECOVER_HINT));
    };
    let path = match (&options.cold_directory, stored) {
        (Some(given), _) => {
            check_apart(dir, &full)?;
            stored_path(given)?
        }
        (None, stored) => stored.map(|place| place.path.clone()).unwrap_or_default(),
    };
    let is_asked_for = options.cold_directory.is_some() && options.access == Access::ReadWrite;
    let may_begin = is_asked_for && !is_needed;
    match fs.metadata(&full)? {
        Some(Metadata::Directory) => {}
        Some(_) => {
            let message = "the path of the cold directory is a file";
            return Err(Error::invalid(message).with_file(&full));
        }
        None if is_needed => return Err(missing(&full)),
        None if may_begin => fs.create_dir_all(&full)?,
        None => return Ok(None),
    }
    let directory = fs.open_dir(&full)?;
    if options.cold_directory.is_some() {
        check_no_database(&*directory, &full)?;
    }
    let lock = match locking {
        ColdLocking::Follows => None,
        ColdLocking::Locks => match lock_directory(&*directory, options, LockKind::Shared) {
            Err(error) if error.kind() == ErrorKind::Locked && !is_needed && !may_begin => {
                return Ok(None);
            }
            lock => Some(lock?),
        },
    };
    let Some((state, owner)) = judge(&full, &*directory, stored, contents, may_begin)? else {
        return Ok(None);
    };
    let is_own = |owner: &ColdOwner| -> Result<bool> {
        Ok(fs.inode(dir)?.number == owner.inode || seeded_fault!("cold_copy_is_owner"))
    };
    let ownership = match (owner, stored) {
        (Some(owner), Some(stored)) if owner.number == stored.owner && is_own(&owner)? => {
            ColdOwnership::Own
        }
        (Some(_), _) => claimed(options, &full)?,
        (None, _) => ColdOwnership::Unclaimed,
    };
    Ok(Some(FoundCold { directory, path, state, ownership, lock }))
}

/// What the opening makes of a directory that has another owner.
///
/// # Errors
/// `InvalidArgument`, if it writes and claims nothing.
fn claimed(options: &EngineOptions, full: &Path) -> Result<ColdOwnership> {
    match (options.access, options.cold_claim) {
        (Access::ReadWrite, ColdClaim::Refuses) => Err(copied(full)),
        (Access::ReadWrite, ColdClaim::TakesOver) => Ok(ColdOwnership::Unclaimed),
        _ => Ok(ColdOwnership::Foreign),
    }
}

/// How a directory that exists stands to what the manifest says, and its owner; `None`, if it is
/// another one and nothing is needed of it.
fn judge(
    full: &Path,
    directory: &dyn Fs,
    stored: Option<&ColdPlace>,
    contents: ColdContents,
    may_begin: bool,
) -> Result<Option<(ColdState, Option<ColdOwner>)>> {
    let is_needed = contents == ColdContents::Tables;
    match (cold_file(directory), stored) {
        (Ok(Some(file)), Some(stored)) if file.id == stored.id => {
            Ok(Some((ColdState::Known, file.owner)))
        }
        (Err(error), _) if error.kind() != ErrorKind::Corruption => Err(error),
        _ if !is_needed && !may_begin => Ok(None),
        (Ok(Some(_)), _) => Err(foreign(full)),
        (Ok(None), _) if is_needed => Err(missing(full)),
        (Ok(None), _) => {
            check_empty(directory, full)?;
            Ok(Some((ColdState::New, None)))
        }
        (Err(error), _) => Err(error.with_hint(RECOVER_HINT)),
    }
}

/// The path as it is stored.
fn stored_path(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        Error::invalid("the path of the cold directory is not UTF-8").with_file(path)
    })?;
    if text.is_empty() || text.len() > COLD_PATH_BYTES_MAX {
        return Err(Error::invalid("bad length of the path of the cold directory")
            .with_mismatch(format_args!("1 to {COLD_PATH_BYTES_MAX} bytes"), text.len()));
    }
    Ok(text.to_owned())
}

#[cold]
fn missing(full: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "the cold directory is missing, and tables lie there")
        .with_file(&full.join(COLD_FILE))
        .with_hint("mount it, or name the place where it is now by `cold_directory`")
}

#[cold]
fn copied(full: &Path) -> Error {
    Error::invalid("this is a copy, or was moved to another file system")
        .with_file(&full.join(COLD_FILE))
        .with_hint(
            "the cold directory belongs to another directory of the database; `Options::adopt` \
             copies its tables, or takes it over if this is the only one",
        )
}

#[cold]
fn foreign(full: &Path) -> Error {
    Error::invalid("the cold directory belongs to another database")
        .with_file(&full.join(COLD_FILE))
        .with_hint("give each database a cold directory of its own")
}

fn check_apart(dir: &Path, full: &Path) -> Result<()> {
    let within = full.strip_prefix(dir).ok();
    if within.is_some_and(|rest| rest.components().all(|part| part != Component::ParentDir)) {
        return Err(Error::invalid("the cold directory would lie in the database")
            .with_file(full)
            .with_hint("give a directory beside it, as ../cold"));
    }
    Ok(())
}

/// Before the lock: the directory may be that of the database itself, by another path.
fn check_no_database(directory: &dyn Fs, full: &Path) -> Result<()> {
    if directory.metadata(&FileName::Current.to_path())?.is_none() {
        return Ok(());
    }
    Err(Error::invalid("the cold directory is the directory of a database")
        .with_file(full)
        .with_hint("give a directory beside it, as ../cold"))
}

fn is_ignored(entry: &DirEntry) -> bool {
    let name = FileName::parse(&entry.name);
    entry.name == LOST_AND_FOUND || name == Some(FileName::Lock) || name == Some(UNFINISHED)
}

fn check_empty(directory: &dyn Fs, full: &Path) -> Result<()> {
    let entries = directory.list(Path::new(""))?;
    match entries.iter().find(|entry| !is_ignored(entry)) {
        None => Ok(()),
        Some(entry) => Err(Error::invalid("the new cold directory holds other files")
            .with_file(&full.join(&entry.name))
            .with_hint("give a directory that is empty or does not exist")),
    }
}

/// The id in the file `COLD`; `None` without one.
///
/// # Errors
/// `Corruption`, if its file `COLD` is damaged; the system's.
pub fn cold_id(directory: &dyn Fs) -> Result<Option<u64>> {
    Ok(cold_file(directory)?.map(|file| file.id))
}

/// What the file `COLD` says; `None` without one.
///
/// # Errors
/// `Corruption`, if it has no id; the system's.
fn cold_file(directory: &dyn Fs) -> Result<Option<ColdFile>> {
    let name = Path::new(COLD_FILE);
    let path = directory.full_path(name);
    let file = match directory.open(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if file.len() > COLD_FILE_BYTES_MAX as u64 {
        return Err(Error::corruption("COLD is too long")
            .with_file(&path)
            .with_mismatch(format_args!("at most {COLD_FILE_BYTES_MAX}"), file.len()));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    ColdFile::decode(&bytes).map(Some).map_err(|error| error.or_file(&path))
}

/// Makes a directory that was found the cold one of an open database, durably, unless it is left to
/// another one.
///
/// # Errors
/// As [`install`]; the system's.
pub fn adopt_cold(
    installer: &Installer<'_>,
    options: &EngineOptions,
    found: &FoundCold,
) -> Result<()> {
    if found.ownership == ColdOwnership::Foreign {
        return Ok(());
    }
    let stored = lock(&installer.catalog.manifest_io).state.cold.clone();
    // 0 says that there is none.
    let random = || installer.catalog.ids.table_uid().0.max(1);
    let id = stored.as_ref().map_or_else(random, |stored| stored.id);
    let owner = match (found.ownership, &stored) {
        (ColdOwnership::Own, Some(stored)) => stored.owner,
        _ => random(),
    };
    let place = ColdPlace { id, path: found.path.clone(), owner };
    if stored.as_ref() != Some(&place) {
        install(installer, vec![Change::ColdDirectory(place.clone())], None)?;
    }
    let has_tables = ColdContents::of(&installer.catalog.families.load()) == ColdContents::Tables;
    match (found.state, found.ownership) {
        (ColdState::Known, ColdOwnership::Own) if has_tables => {}
        // The opening that wrote the file may have been killed before its name was durable.
        (ColdState::Known, ColdOwnership::Own) => sync_name(options, found)?,
        (ColdState::Known, _) => {
            write_file(installer.catalog, found, &place)?;
            sync_name(options, found)?;
        }
        (ColdState::New, _) => {
            write_file(installer.catalog, found, &place)?;
            sync_name(options, found)?;
            installer.catalog.files.attach_cold(found.store());
        }
    }
    Ok(())
}

/// Writes the file `COLD`. It has its name only once it is synced, so no crash leaves a part of it.
fn write_file(catalog: &Catalog, found: &FoundCold, place: &ColdPlace) -> Result<()> {
    let directory = &*found.directory;
    let inode = catalog.files.directory().inode(Path::new(""))?.number;
    let owner = Some(ColdOwner { number: place.owner, inode });
    let content = ColdFile { id: place.id, owner }.encode();
    let unfinished = UNFINISHED.to_path();
    match directory.remove(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = directory.create(&unfinished)?;
    file.append(content.as_bytes())?;
    file.sync()?;
    drop(file);
    directory.rename(&unfinished, Path::new(COLD_FILE))
}

/// Makes durable what earlier processes removed from the directory of a database and from `cold`.
///
/// To be called before a file number is handed out. The number of a removed file that no edit had
/// named may be used again, and by a file of the other tier. If the removal were undone by a power
/// loss, the manifest would seem to name both. In one directory a new file takes the name itself.
///
/// # Errors
/// The system's.
pub fn sync_removals(hot: &dyn Fs, cold: &dyn Fs) -> Result<()> {
    hot.sync_dir(Path::new(""))?;
    cold.sync_dir(Path::new(""))
}

/// Makes the names of the cold directory and of its file `COLD` durable.
fn sync_name(options: &EngineOptions, found: &FoundCold) -> Result<()> {
    let directory = &*found.directory;
    directory.sync_dir(Path::new(""))?;
    sync_ancestors(&*options.fs, &directory.full_path(Path::new("")))
}

/// Attaches the cold directory of a database that is only read, if tables lie there. Returns it
/// with its lock.
///
/// # Errors
/// As [`find_cold`].
pub fn attach_to_read(
    dir: &Path,
    options: &EngineOptions,
    stored: Option<&ColdPlace>,
    files: &OpenFiles,
    families: &FamilyMap,
    locking: ColdLocking,
) -> Result<Option<FoundCold>> {
    let contents = ColdContents::of(families);
    if contents == ColdContents::Nothing {
        return Ok(None);
    }
    let options = EngineOptions { access: Access::ReadOnly, ..options.clone() };
    let found = find_cold(dir, &options, stored, contents, locking)?;
    if let Some(found) = &found {
        files.attach_cold(found.store());
    }
    Ok(found)
}

/// Removes the files of ours in a cold directory, and the directory if nothing else lies in it. The
/// caller holds its lock.
///
/// # Errors
/// The system's. What is left can be removed again.
pub fn remove_cold(fs: &dyn Fs, found: &FoundCold) -> Result<()> {
    let (directory, store) = (&*found.directory, found.store());
    for number in store.list()? {
        store.delete(number)?;
    }
    directory.sync_dir(Path::new(""))?;
    for name in [PathBuf::from(COLD_FILE), UNFINISHED.to_path(), FileName::Lock.to_path()] {
        match directory.remove(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    directory.sync_dir(Path::new(""))?;
    if directory.list(Path::new(""))?.is_empty() {
        // This may fail: the name may be a link, or another process may have added an entry.
        let _ = fs.remove_dir(&directory.full_path(Path::new("")));
    }
    Ok(())
}

/// The locks of the directory of a database and of its cold one.
#[derive(Debug)]
pub struct BothLocks {
    _directory: Box<dyn FileLock>,
    _cold: Box<dyn FileLock>,
}

impl BothLocks {
    /// Both locks, held until this is dropped; that of the database alone without a cold one.
    #[must_use]
    pub fn join(
        directory: Box<dyn FileLock>,
        cold: Option<Box<dyn FileLock>>,
    ) -> Box<dyn FileLock> {
        match cold {
            None => directory,
            Some(cold) => Box::new(Self { _directory: directory, _cold: cold }),
        }
    }
}

impl FileLock for BothLocks {}

#[cfg(test)]
mod tests;
