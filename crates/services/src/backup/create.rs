//! Making a backup of an open database.
//!
//! 1. A flush puts all commits into tables; the state is noted, and its files are kept.
//! 2. Each file that the directory lacks is copied under another name, synced, verified and
//!    renamed.
//! 3. The database gets a mark for the backup, by an edit of its manifest.
//! 4. The names are synced; the list is written, synced, renamed, and its name synced.
//!
//! A file that the directory has counts as the same if what a list says of a table in it and its
//! length agree: then it was verified. One that no list names, as a killed backup leaves it, is
//! read again first.

use crate::{
    backup::directory::BackupDirectory,
    backup::past::{Adoption, Newest, check_past},
    contents::{BlobGrowth, CopyContents, flushed},
    copy_files::{CopyFile, copy_files, sync_new, verify_tables, write_whole},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::Fs,
    id::TableUid,
};
use siltdb_disk::{
    backup_list::{BackupFileName, BackupList, BackupObject, ObjectKind, ObjectName, blob_files},
    edit::{Change, Edit, TableReference, identity::BackupMark},
    fields::UnknownFields,
    table_meta::TableMeta,
};
use siltdb_engine::{
    database::installer::Installer,
    database::job_rooms::JobRooms,
    database::writable::Writable,
    health::Health,
    install::install,
    kit::copying::{FileCopy, OnProgress, until_closed},
    options::EngineOptions,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

/// How long a backup waits before it looks again whether commits write to a blob file.
const WRITERS_PAUSE: Duration = Duration::from_millis(1);

/// The result of a backup.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// Its number, from 1 on; later backups have larger ones.
    pub number: u64,
    /// It holds every commit up to this sequence number, and none after it.
    pub sequence: u64,
    /// Its table files, those that it shares with other backups among them.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
    /// Files that the directory did not have yet.
    pub copied_files: u64,
    /// The bytes of these files.
    pub copied_bytes: u64,
}

/// How a backup is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupRequest {
    /// Bytes copied a second, at most.
    pub rate: Option<u64>,
    /// What becomes of backups that are not known to be a past of the database.
    pub adoption: Adoption,
    /// Whether the database gets a mark.
    pub marking: Marking,
}

/// Whether a backup gives the database a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// It does.
    #[default]
    Gives,
    /// It cannot, because it is made by a follower. The list has the mark of the backup before.
    Keeps,
}

/// Adds a backup to the directory `dir`. On return it is durable.
///
/// # Errors
/// `InvalidArgument`, if `dir` belongs to a database, holds other files and no backup, or backups
/// that are not known to be a past of this database; `Locked`, while another process writes or
/// reads there; `Corruption`, if a table is damaged; `NoSpace`; `Cancelled`; `Closed`, if the
/// database is closed meanwhile; what a flush fails with; the system's. Earlier backups are as
/// before. Whole files stay for the next backup.
pub fn create_backup(
    writable: Writable<'_>,
    dir: &Path,
    request: BackupRequest,
    on_progress: OnProgress<'_>,
) -> Result<Backup> {
    let database = writable.database();
    database.health.check()?;
    let (rooms, _charge) = (writable.job_rooms(), database.memory.charge_copy());
    let note = &mut || flushed(&rooms, None);
    create_backup_of(&rooms, &database.dir, dir, request, on_progress, note)
}

/// Adds a backup of the contents that `note` gives, which are those of the database at `source`, or
/// of a later state of it. They need no log. The caller charges the memory of a copy.
///
/// # Errors
/// As [`create_backup`]; those of `note`.
pub fn create_backup_of(
    rooms: &JobRooms<'_>,
    source: &Path,
    dir: &Path,
    request: BackupRequest,
    on_progress: OnProgress<'_>,
    note: &mut dyn FnMut() -> Result<CopyContents>,
) -> Result<Backup> {
    until_closed(rooms.health, on_progress, |on_progress| {
        let mut copying = FileCopy::new(&*rooms.options.clock, request.rate, on_progress)?;
        let directory = BackupDirectory::create(dir, rooms.options)?;
        add_backup(rooms, source, &directory, request, &mut copying, note)
    })
}

fn add_backup(
    rooms: &JobRooms<'_>,
    source: &Path,
    directory: &BackupDirectory,
    request: BackupRequest,
    copying: &mut FileCopy<'_>,
    note: &mut dyn FnMut() -> Result<CopyContents>,
) -> Result<Backup> {
    directory.remove_partial()?;
    let held = HeldObjects::find(directory)?;
    let number = directory.next_number()?;
    let mut contents = note()?;
    check_past(held.newest(), &contents.state, contents.last, request.adoption, source)?;
    wait_for_values(rooms.health, rooms.options, &contents)?;
    let files = copy_files(&contents, &rooms.catalog.files)?;
    copying.begin(files.iter().map(|file| file.bytes).sum())?;
    let (mut objects, mut copied_files, mut copied_bytes) = (Vec::new(), 0, 0);
    for file in &files {
        let name = match held.reuse(directory, file, copying)? {
            Some(name) => name,
            None => {
                copied_files += 1;
                copied_bytes += file.bytes;
                copy_object(directory.fs(), file, copying)?
            }
        };
        objects.push(BackupObject { file: file.number, name, bytes: file.bytes });
    }
    drop(files);
    let (objects, blobs) =
        objects.into_iter().partition(|object| object.name.kind == ObjectKind::Tables);
    let mark = match request.marking {
        Marking::Gives => Some(give_mark(&rooms.installer(), &held, &mut contents.state)?),
        Marking::Keeps => held.newest.as_ref().and_then(|newest| newest.mark),
    };
    let CopyContents { state, manifest, last, growth, .. } = contents;
    let list = BackupList {
        number,
        sequence: last,
        manifest,
        state,
        objects,
        blobs,
        may_blobs_grow: growth == BlobGrowth::Possible,
        created_ms: rooms.options.clock.wall_ms(),
        source: source.to_string_lossy().into_owned(),
        mark,
        unknown: UnknownFields::default(),
    };
    directory.add(&list)?;
    let (sequence, files, bytes) =
        (list.sequence.0, list.all_objects().count() as u64, list.bytes());
    Ok(Backup { number, sequence, files, bytes, copied_files, copied_bytes })
}

/// Gives the database, and the state of its copy, the mark of a new backup.
///
/// An edit that fails poisons the database, as that of a flush does.
fn give_mark(
    installer: &Installer<'_>,
    held: &HeldObjects,
    state: &mut Edit,
) -> Result<BackupMark> {
    let random = || installer.catalog.ids.table_uid().0;
    let known = held.newest.as_ref().and_then(|newest| newest.mark);
    let directory = known.map_or_else(random, |mark| mark.directory);
    let after = known.map_or(0, |mark| mark.mark);
    let mark = BackupMark { directory, mark: random(), after };
    install(installer, vec![Change::BackedUp(mark)], None)?;
    state.changes.push(Change::BackedUp(mark));
    Ok(mark)
}

/// Waits until no value is written to a blob file of the contents any more: they are sealed, and
/// commits that got a place before end soon.
fn wait_for_values(
    health: &Health,
    options: &EngineOptions,
    contents: &CopyContents,
) -> Result<()> {
    for (number, _) in blob_files(&contents.state) {
        while contents.blobs.named(number)?.is_written() {
            health.check_open()?;
            options.clock.sleep(WRITERS_PAUSE);
        }
    }
    Ok(())
}

/// Copies a file into the directory; on return it has its name, which is not durable yet.
fn copy_object(fs: &dyn Fs, file: &CopyFile<'_>, copying: &mut FileCopy<'_>) -> Result<ObjectName> {
    let partial = BackupFileName::PartialObject(file.uid()).to_path();
    write_whole(fs, &partial, |mut written| {
        let checksum = copying.copy(&*file.open()?, &mut *written)?;
        sync_new(written)?;
        verify_tables(fs, &partial, file.tables()).map_err(|error| match error.kind() {
            ErrorKind::Corruption => {
                Error::corruption("a table cannot be backed up: it is damaged")
                    .with_file(&file.path())
                    .with_source(error)
            }
            _ => error,
        })?;
        let name = ObjectName { kind: file.kind(), uid: file.uid(), checksum };
        Ok((BackupFileName::Object(name).to_path(), name))
    })
}

/// The files that a directory of backups has.
struct HeldObjects {
    /// All of them, and their lengths in bytes.
    found: BTreeMap<ObjectName, u64>,
    /// Those that a list names with the length that they have, and that were whole when they were
    /// copied.
    listed: BTreeSet<ObjectName>,
    /// Those of them that hold tables, by each table that a list refers to, and by their length. A
    /// backup may need other tables of a file than the backup that copied it.
    tables: BTreeMap<(TableUid, u64), (ObjectName, TableMeta)>,
    /// The newest list that can be read.
    newest: Option<BackupList>,
    /// The number of lists, those that cannot be read among them.
    lists: usize,
}

impl HeldObjects {
    fn find(directory: &BackupDirectory) -> Result<Self> {
        let found = directory.objects()?;
        let (mut listed, mut tables, mut newest) = (BTreeSet::new(), BTreeMap::new(), None);
        let numbers = directory.numbers()?;
        for &number in &numbers {
            match directory.list(number) {
                Ok(list) => {
                    let blobs = list.blobs.iter().filter(|_| !list.may_blobs_grow);
                    let whole = list.objects.iter().chain(blobs);
                    let whole =
                        whole.filter(|object| found.get(&object.name) == Some(&object.bytes));
                    listed.extend(whole.map(|object| object.name));
                    for (BackupObject { name, bytes, .. }, table) in list.tables() {
                        if listed.contains(name) {
                            tables.insert((table.meta.uid, *bytes), (*name, table.meta.clone()));
                        }
                    }
                    newest = Some(list);
                }
                // Files that only this list names are read again.
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    log::warn!("a backup cannot be read: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self { found, listed, tables, newest, lists: numbers.len() })
    }

    /// The newest backup.
    fn newest(&self) -> Newest<'_> {
        match &self.newest {
            Some(newest) => Newest::Known(newest),
            None if self.lists == 0 => Newest::Absent,
            None => Newest::Unreadable,
        }
    }

    /// The files as long as `file` that are called after this part of it.
    fn called(&self, file: &CopyFile<'_>, uid: TableUid) -> impl Iterator<Item = ObjectName> {
        let name = |checksum| ObjectName { kind: file.kind(), uid, checksum };
        let (range, bytes) = (name(0)..=name(u32::MAX), file.bytes);
        self.found.range(range).filter(move |(_, found)| **found == bytes).map(|(name, _)| *name)
    }

    /// The name of the file that holds what `file` does, if the directory has it. A blob file that
    /// may have been copied before it was whole is compared with the source.
    fn reuse(
        &self,
        directory: &BackupDirectory,
        file: &CopyFile<'_>,
        copying: &mut FileCopy<'_>,
    ) -> Result<Option<ObjectName>> {
        let listed = match file.kind() {
            ObjectKind::Tables => file.tables().iter().find_map(|table| {
                let (name, meta) = self.tables.get(&(table.meta.uid, file.bytes))?;
                (*meta == table.meta).then_some(*name)
            }),
            ObjectKind::Blobs => {
                self.called(file, file.uid()).find(|name| self.listed.contains(name))
            }
        };
        if listed.is_some() {
            copying.pass(file.bytes)?;
            return Ok(listed);
        }
        let uids = match file.kind() {
            ObjectKind::Tables => file.tables().iter().map(|table| table.meta.uid).collect(),
            ObjectKind::Blobs => vec![file.uid()],
        };
        let unlisted = uids.into_iter().flat_map(|uid| self.called(file, uid));
        let mut unlisted = unlisted.filter(|name| !self.listed.contains(name)).peekable();
        let source = match file.kind() {
            ObjectKind::Blobs if unlisted.peek().is_some() => {
                Some(copying.checksum(&*file.open()?)?)
            }
            _ => None,
        };
        for name in unlisted.filter(|name| source.is_none_or(|source| source == name.checksum)) {
            if is_whole(directory.fs(), name, file.tables(), copying)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

/// Whether the file called `name` has its checksum, and the tables are in it.
fn is_whole(
    fs: &dyn Fs,
    name: ObjectName,
    tables: &[&TableReference],
    copying: &mut FileCopy<'_>,
) -> Result<bool> {
    let path = BackupFileName::Object(name).to_path();
    if copying.checksum(&*fs.open(&path)?)? != name.checksum {
        return Ok(false);
    }
    match verify_tables(fs, &path, tables) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
        Err(error) => Err(error),
    }
}
