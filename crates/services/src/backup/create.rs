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
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::Fs,
    id::{FileNumber, TableUid},
};
use siltdb_disk::{
    backup_list::{
        BackupFileName, BackupList, BackupObject, ObjectKind, ObjectName, blob_files, references,
    },
    edit::{Change, Edit, TableReference, identity::BackupMark},
    fields::UnknownFields,
    table::{TableLocation, TableScan},
    table_meta::TableMeta,
};
use siltdb_engine::{
    blobs::blob_file::BlobFile,
    database::Database,
    install::install,
    kit::copying::{CopyProgress, FileCopy, FilePart, OnProgress, file_bytes},
};
use siltdb_tree::files::open_files::OpenFiles;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
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
    database: &Database,
    dir: &Path,
    request: BackupRequest,
    on_progress: OnProgress<'_>,
) -> Result<Backup> {
    database.health.check()?;
    create_backup_of(database, dir, (request, on_progress), &mut || flushed(database, None))
}

/// Adds a backup of the contents that `note` gives, which are those of `database` or of a later
/// state of it. They need no log.
///
/// # Errors
/// As [`create_backup`]; those of `note`.
pub fn create_backup_of(
    database: &Database,
    dir: &Path,
    (request, on_progress): (BackupRequest, OnProgress<'_>),
    note: &mut dyn FnMut() -> Result<CopyContents>,
) -> Result<Backup> {
    let _charge = database.memory.charge_copy();
    // A close waits for this call.
    let mut watched = |progress: CopyProgress| match database.health.check_open() {
        Ok(()) => on_progress(progress),
        Err(_) => ControlFlow::Break(()),
    };
    let mut copying = FileCopy::new(&*database.options.clock, request.rate, &mut watched)?;
    let directory = BackupDirectory::create(dir, &database.options)?;
    add_backup(database, &directory, (request, &mut copying), note).map_err(|error| {
        match error.kind() {
            ErrorKind::Cancelled => database.health.check_open().err().unwrap_or(error),
            _ => error,
        }
    })
}

fn add_backup(
    database: &Database,
    directory: &BackupDirectory,
    (request, copying): (BackupRequest, &mut FileCopy<'_>),
    note: &mut dyn FnMut() -> Result<CopyContents>,
) -> Result<Backup> {
    directory.remove_partial()?;
    let held = HeldObjects::find(directory)?;
    let number = directory.next_number()?;
    let mut contents = note()?;
    let state = (&contents.state, contents.last);
    check_past(held.newest(), state, request.adoption, &database.dir)?;
    let source = &*database.catalog.files;
    let files = source_files(source, &contents)?;
    let blobs = source_blobs(database, &contents)?;
    let blob_bytes = blobs.iter().map(|(_, bytes)| bytes);
    copying.begin(files.iter().map(|file| &file.bytes).chain(blob_bytes).sum())?;
    let (mut objects, mut copied_files, mut copied_bytes) = (Vec::new(), 0, 0);
    for file in &files {
        let name = match held.reuse(directory, file, copying)? {
            Some(name) => name,
            None => {
                copied_files += 1;
                copied_bytes += file.bytes;
                copy_object(directory, file, copying)?
            }
        };
        objects.push(BackupObject { file: file.number, name, bytes: file.bytes });
    }
    drop(files);
    let mut blob_objects = Vec::new();
    for (blob, bytes) in blobs {
        let name = match held.reuse_blob(directory, (blob, bytes), copying)? {
            Some(name) => name,
            None => {
                copied_files += 1;
                copied_bytes += bytes;
                copy_blob(blob, bytes, directory, copying)?
            }
        };
        blob_objects.push(BackupObject { file: blob.number(), name, bytes });
    }
    let mark = match request.marking {
        Marking::Gives => Some(give_mark(database, &held, &mut contents.state)?),
        Marking::Keeps => held.newest.as_ref().and_then(|newest| newest.mark),
    };
    let CopyContents { state, manifest, last, growth, .. } = contents;
    let list = BackupList {
        number,
        sequence: last,
        manifest,
        state,
        objects,
        blobs: blob_objects,
        may_blobs_grow: growth == BlobGrowth::Possible,
        created_ms: database.options.clock.wall_ms(),
        source: database.dir.to_string_lossy().into_owned(),
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
fn give_mark(database: &Database, held: &HeldObjects, state: &mut Edit) -> Result<BackupMark> {
    let random = || database.catalog.ids.table_uid().0;
    let known = held.newest.as_ref().and_then(|newest| newest.mark);
    let directory = known.map_or_else(random, |mark| mark.directory);
    let after = known.map_or(0, |mark| mark.mark);
    let mark = BackupMark { directory, mark: random(), after };
    install(database, vec![Change::BackedUp(mark)], None)?;
    state.changes.push(Change::BackedUp(mark));
    Ok(mark)
}

/// The blob files of the contents, ascending, and their lengths in bytes. No value is written to
/// any of them any more.
fn source_blobs<'a>(
    database: &Database,
    contents: &'a CopyContents,
) -> Result<Vec<(&'a Arc<BlobFile>, u64)>> {
    let mut blobs = Vec::new();
    for (number, _) in blob_files(&contents.state) {
        let file = contents.blobs.named(number)?;
        // It is sealed, and commits that got a place before end soon.
        while file.is_written() {
            database.health.check_open()?;
            database.options.clock.sleep(WRITERS_PAUSE);
        }
        blobs.push((file, contents.blob_bytes(file)?));
    }
    blobs.sort_by_key(|(file, _)| file.number());
    Ok(blobs)
}

/// Copies a blob file into the directory, as [`copy_object`] does.
fn copy_blob(
    blob: &BlobFile,
    bytes: u64,
    directory: &BackupDirectory,
    copying: &mut FileCopy<'_>,
) -> Result<ObjectName> {
    let uid = TableUid(blob.uid().0);
    let partial = BackupFileName::PartialObject(uid).to_path();
    let target = directory.fs();
    let source = FilePart::new(Arc::clone(blob.open()?), 0, bytes);
    let copy = |copying: &mut FileCopy<'_>| {
        let mut written = target.create(&partial)?;
        let checksum = copying.copy(&source, &mut *written)?;
        written.sync()?;
        Ok(checksum)
    };
    let checksum = copy(copying).inspect_err(|_| {
        // The next backup removes it otherwise.
        let _ = target.remove(&partial);
    })?;
    let name = ObjectName { kind: ObjectKind::Blobs, uid, checksum };
    target.rename(&partial, &BackupFileName::Object(name).to_path())?;
    Ok(name)
}

/// A table file of the database.
struct SourceFile<'a> {
    /// The files that it is one of.
    files: &'a OpenFiles,
    number: FileNumber,
    bytes: u64,
    /// Its tables, in the order in which they lie there; one at least.
    tables: Vec<&'a TableReference>,
}

impl SourceFile<'_> {
    fn uid(&self) -> TableUid {
        self.tables[0].meta.uid
    }
}

/// The files of the contents, ascending.
fn source_files<'a>(
    source: &'a OpenFiles,
    contents: &'a CopyContents,
) -> Result<Vec<SourceFile<'a>>> {
    let mut tables: BTreeMap<FileNumber, Vec<&TableReference>> = BTreeMap::new();
    for table in references(&contents.state) {
        tables.entry(table.file).or_default().push(table);
    }
    let file = |(number, mut tables): (FileNumber, Vec<&'a TableReference>)| {
        tables.sort_by_key(|table| table.offset);
        // Families may see parts of one table.
        tables.dedup_by_key(|table| table.offset);
        let files = contents.files_of(number, source);
        let bytes = file_bytes(files, number)?;
        Ok(SourceFile { files, number, bytes, tables })
    };
    tables.into_iter().map(file).collect()
}

/// The files of tables that a directory has, by the uid of a table in them and by their length.
struct HeldObjects {
    /// Those that a list names with the length that they have, by each table that a list refers to.
    /// A backup may need other tables of a file than the backup that copied it.
    listed: BTreeMap<(TableUid, u64), (ObjectName, TableMeta)>,
    /// The others, by the uid in their names.
    unlisted: BTreeMap<(TableUid, u64), ObjectName>,
    /// The blob files that the directory has, and their lengths.
    blobs: BTreeMap<ObjectName, u64>,
    /// Those that a list names with the length that they have, and that were whole when they were
    /// copied.
    listed_blobs: BTreeSet<ObjectName>,
    /// The newest list that can be read.
    newest: Option<BackupList>,
    /// The number of lists, those that cannot be read among them.
    lists: usize,
}

impl HeldObjects {
    fn find(directory: &BackupDirectory) -> Result<Self> {
        let found = directory.objects()?;
        let (blobs, found): (BTreeMap<_, _>, BTreeMap<_, _>) =
            found.into_iter().partition(|(name, _)| name.kind == ObjectKind::Blobs);
        let (mut listed, mut names) = (BTreeMap::new(), BTreeSet::new());
        let (mut newest, mut listed_blobs) = (None, BTreeSet::new());
        let numbers = directory.numbers()?;
        for &number in &numbers {
            match directory.list(number) {
                Ok(list) => {
                    let is_whole =
                        |blob: &&BackupObject| blobs.get(&blob.name) == Some(&blob.bytes);
                    if !list.may_blobs_grow {
                        let listed = list.blobs.iter().filter(is_whole);
                        listed_blobs.extend(listed.map(|blob| blob.name));
                    }
                    for (BackupObject { name, bytes, .. }, table) in list.tables() {
                        if found.get(name) == Some(bytes) {
                            listed.insert((table.meta.uid, *bytes), (*name, table.meta.clone()));
                            names.insert(*name);
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
        let others = found.into_iter().filter(|(name, _)| !names.contains(name));
        let unlisted = others.map(|(name, bytes)| ((name.uid, bytes), name)).collect();
        let lists = numbers.len();
        Ok(Self { listed, unlisted, blobs, listed_blobs, newest, lists })
    }

    /// The name of the copy of a blob file, if the directory has it. Where a copy of that length
    /// may have been made before the file was whole, the file is read and compared; one that no
    /// backup names is read again, too.
    fn reuse_blob(
        &self,
        directory: &BackupDirectory,
        (blob, bytes): (&BlobFile, u64),
        copying: &mut FileCopy<'_>,
    ) -> Result<Option<ObjectName>> {
        let copies = self.blobs.iter().filter(|(_, length)| **length == bytes);
        let mut copies = copies.map(|(name, _)| *name).filter(|name| name.uid.0 == blob.uid().0);
        if let Some(name) = copies.clone().find(|name| self.listed_blobs.contains(name)) {
            copying.pass(bytes)?;
            return Ok(Some(name));
        }
        if copies.clone().next().is_none() {
            return Ok(None);
        }
        let source = FilePart::new(Arc::clone(blob.open()?), 0, bytes);
        let checksum = copying.checksum(&source)?;
        let Some(name) = copies.find(|name| name.checksum == checksum) else { return Ok(None) };
        let object = directory.fs().open(&BackupFileName::Object(name).to_path())?;
        Ok((copying.checksum(&*object)? == checksum).then_some(name))
    }

    /// The newest backup.
    fn newest(&self) -> Newest<'_> {
        match &self.newest {
            Some(newest) => Newest::Known(newest),
            None if self.lists == 0 => Newest::Absent,
            None => Newest::Unreadable,
        }
    }

    /// The name of the file that holds what `file` does, if the directory has it.
    fn reuse(
        &self,
        directory: &BackupDirectory,
        file: &SourceFile<'_>,
        copying: &mut FileCopy<'_>,
    ) -> Result<Option<ObjectName>> {
        let place = |table: &TableReference| (table.meta.uid, file.bytes);
        for table in &file.tables {
            if let Some((name, meta)) = self.listed.get(&place(table))
                && *meta == table.meta
            {
                copying.pass(file.bytes)?;
                return Ok(Some(*name));
            }
        }
        let mut unlisted = file.tables.iter().filter_map(|table| self.unlisted.get(&place(table)));
        let Some(name) = unlisted.next() else { return Ok(None) };
        let path = BackupFileName::Object(*name).to_path();
        let object = directory.fs().open(&path)?;
        if copying.checksum(&*object)? != name.checksum {
            return Ok(None);
        }
        match verify_tables(directory.fs(), &path, &file.tables) {
            Ok(()) => Ok(Some(*name)),
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Copies a file into the directory; on return it has its name, which is not durable yet.
fn copy_object(
    directory: &BackupDirectory,
    file: &SourceFile<'_>,
    copying: &mut FileCopy<'_>,
) -> Result<ObjectName> {
    let partial = BackupFileName::PartialObject(file.uid()).to_path();
    let target = directory.fs();
    let copied = copy_partial(target, (file, &*partial), copying);
    let checksum = copied.inspect_err(|_| {
        // The next backup removes it otherwise.
        let _ = target.remove(&partial);
    })?;
    let name = ObjectName { kind: ObjectKind::Tables, uid: file.uid(), checksum };
    target.rename(&partial, &BackupFileName::Object(name).to_path())?;
    Ok(name)
}

fn copy_partial(
    target: &dyn Fs,
    (file, partial): (&SourceFile<'_>, &Path),
    copying: &mut FileCopy<'_>,
) -> Result<u32> {
    let opened = file.files.open_file(file.number)?;
    let mut written = target.create(partial)?;
    let checksum = copying.copy(&*opened, &mut *written)?;
    if cfg!(seeded_fault = "backup_not_synced") {
        written.flush()?;
    } else {
        written.sync()?;
    }
    drop(written);
    verify_tables(target, partial, &file.tables).map_err(|error| match error.kind() {
        ErrorKind::Corruption => Error::corruption("a table cannot be backed up: it is damaged")
            .with_file(&file.files.path(file.number))
            .with_source(error),
        _ => error,
    })?;
    Ok(checksum)
}

/// Reads each block of the tables in the file called `name`, and verifies it.
///
/// # Errors
/// Corruption, with file and offset; what reading fails with.
pub fn verify_tables(fs: &dyn Fs, name: &Path, tables: &[&TableReference]) -> Result<()> {
    let path = fs.full_path(name);
    let file = fs.open(name)?;
    for table in tables {
        let TableReference { offset, length, meta, .. } = table;
        TableScan::open(TableLocation::new(file.clone(), &path, *offset, *length), meta)
            .and_then(|scan| scan.verify(&mut |_, _, _| Ok(())))
            .map_err(|error| error.or_file(&path))?;
    }
    Ok(())
}
