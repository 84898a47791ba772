//! Importing an archive into a database: its families become families of the database.
//!
//! 1. What is in memory is flushed. The sequence number of that flush is the one of all entries of
//!    the import: every later write has a greater one, and no crash undoes those up to it.
//! 2. The entries are written to tables of the deepest level, with the options that their families
//!    have here. Each table is verified and synced. Nothing refers to them yet.
//! 3. One edit creates the families with their tables, and drops those that they replace.
//!
//! The default family cannot be created anew. It is filled if nothing is in it. Meanwhile it is
//! locked as by a transaction, so that no commit to it comes between the check and the edit. Its
//! empty ranges are forgotten, because no writer reports what comes.

use crate::archive::{info::without_operator, place::open_archive};
use siltdb_base::{
    cursor::{ForwardCursor, OnlyForward, Stretch},
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber, SequenceNumber},
    key::Entry,
    limits::FAMILIES_MAX,
    sync::lock,
};
use siltdb_disk::{
    archive::{cursor::ArchiveCursor, directory::ArchivedFamily, reader::ArchiveFile},
    edit::Change,
};
use siltdb_engine::{
    catalog::Catalog,
    catalog::family::{DEFAULT_FAMILY, FamilyData, check_name},
    database::job_rooms::JobRooms,
    database::writable::Writable,
    families::{family_commit::begin_drop, family_options::other_key_order},
    install::{create_change, install_with},
    jobs::{
        context::{purge, with_context},
        flush::flush_all,
    },
    kit::copying::{FileCopy, OnProgress, until_closed},
    lock_state::lock_table::{LockMode, LockTarget},
    snapshots::Snapshots,
    write::{
        commit::commit_skip,
        locks::{self, LockHolder},
    },
};
use siltdb_tree::{
    options::{BYTEWISE, TreeOptions},
    read::visible::bounds::Bounds,
    rewrite::job::{JobContext, JobOutput, NewTables},
    rewrite::load::{LoadTarget, load},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

/// Bytes of entries between two reports.
const REPORT_BYTES: u64 = 64 << 10;

/// What of an archive is imported, and into which families.
#[derive(Clone, Debug, Default)]
pub struct ImportRequest {
    /// The names of families in the archive, and what they are called in the database; `None` for
    /// all under their own names.
    pub families: Option<BTreeMap<String, String>>,
    /// What happens to families that exist.
    pub existing: ExistingFamilies,
    /// What happens to the merge operators of the families.
    pub operators: ImportedOperators,
}

/// What an import does to a family that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExistingFamilies {
    /// The import fails.
    #[default]
    Refuse,
    /// The imported family takes its place.
    Replace,
}

/// What an import does to the merge operator of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportedOperators {
    /// The family has it; the database must have been opened with it.
    #[default]
    Keep,
    /// The family has none. Its values were folded before.
    Leave,
}

/// The result of an import.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveImport {
    /// The families, in the order of their names in the archive.
    pub families: Vec<ImportedFamily>,
}

impl ArchiveImport {
    /// The entries of all families.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.families.iter().map(|family| family.entries).sum()
    }
}

/// A family that was imported.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedFamily {
    /// Its name in the archive.
    pub from: String,
    /// Its name in the database.
    pub name: String,
    /// Its entries, without those that have expired.
    pub entries: u64,
}

/// Imports families of the archive at `path`. Durable on return.
///
/// # Errors
/// `NotFound`, if there is no archive, or no such family in it; `AlreadyExists`; `Busy`, if the
/// default family is to be filled while there are snapshots; `InvalidArgument`, if the file is no
/// archive, for a bad name, too many families, or a merge operator that was not given;
/// `Corruption`, if the archive is damaged; `Cancelled`; as [`flush_all`] and
/// [`install`](siltdb_engine::install::install). The database is as before then.
pub fn import_archive(
    writable: Writable<'_>,
    path: &Path,
    request: &ImportRequest,
    on_progress: OnProgress<'_>,
) -> Result<ArchiveImport> {
    let database = writable.database();
    database.health.check()?;
    until_closed(&database.health, on_progress, |on_progress| {
        let mut copying = FileCopy::new(&*database.options.clock, None, on_progress)?;
        let archive = open_archive(path, &database.options)?;
        import(writable, &archive, request, &mut copying)
    })
}

fn import(
    writable: Writable<'_>,
    archive: &Arc<ArchiveFile>,
    request: &ImportRequest,
    copying: &mut FileCopy<'_>,
) -> Result<ArchiveImport> {
    let database = writable.database();
    let targets = targets(&database.catalog, archive, request)?;
    if targets.is_empty() {
        return Ok(ArchiveImport::default());
    }
    // What cannot be is found before anything is written.
    check_room(&database.catalog, &database.snapshots, &targets, request.existing)?;
    flush_all(&writable.job_rooms())?;
    places(&database.catalog, &database.snapshots, &targets, request.existing)?;
    let sequence = lock(&database.catalog.manifest_io).state.last_sequence;
    copying.begin(targets.iter().map(|target| target.bytes).sum())?;
    let output = write(&writable.job_rooms(), archive, &targets, sequence, copying)?;
    let entries = |target: &ImportTarget| -> u64 {
        let of_table = |change: &Change| match change {
            Change::AddTable { family, table, .. } if *family == target.id => table.meta.entries,
            _ => 0,
        };
        output.changes.iter().map(of_table).sum()
    };
    let imported = targets.iter().map(|target| ImportedFamily {
        from: target.from.clone(),
        name: target.name.clone(),
        entries: entries(target),
    });
    let imported = ArchiveImport { families: imported.collect() };
    install_import(writable, &targets, request.existing, output)?;
    // Files of families that were replaced.
    purge(&writable.installer());
    database.background.work.raise();
    Ok(imported)
}

/// A family of the archive on its way into the database.
struct ImportTarget {
    from: String,
    name: String,
    /// The id that it will have.
    id: FamilyId,
    options: TreeOptions,
    /// Keys and values.
    bytes: u64,
}

/// What an edit does to bring a family in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportPlace {
    /// It creates the family.
    New,
    /// It adds tables to the default family, which is empty.
    Default,
    /// It creates the family, drops the one with this id, and gives the name to the new one.
    Instead(FamilyId),
}

/// The chosen families of the archive, by name.
fn targets(
    catalog: &Catalog,
    archive: &ArchiveFile,
    request: &ImportRequest,
) -> Result<Vec<ImportTarget>> {
    let families = &archive.directory().families;
    let find = |name: &String| match families.binary_search_by(|family| family.name.cmp(name)) {
        Ok(index) => Ok(&families[index]),
        Err(_) => {
            let message = format!("the archive has no family {name:?}");
            Err(Error::new(ErrorKind::NotFound, message).with_file(archive.path()))
        }
    };
    // An empty default family brings nothing, and every database has one.
    let brings = |family: &&ArchivedFamily| family.name != DEFAULT_FAMILY || family.entries() > 0;
    let chosen: Vec<(&ArchivedFamily, &str)> = match &request.families {
        None => families.iter().filter(brings).map(|family| (family, &family.name[..])).collect(),
        Some(names) => {
            names.iter().map(|(from, name)| Ok((find(from)?, &name[..]))).collect::<Result<_>>()?
        }
    };
    let (mut targets, mut names) = (Vec::new(), BTreeSet::new());
    for (family, name) in chosen {
        check_name(name)?;
        if !names.insert(name) {
            return Err(Error::invalid(format!("two families are to be imported as {name:?}")));
        }
        let (id, options) = match name {
            DEFAULT_FAMILY => {
                let default = catalog.families.named(name)?;
                let options = TreeOptions::clone(&default.tree.options());
                check_key_order(&options, family).map_err(|error| error.or_file(archive.path()))?;
                (default.id, options)
            }
            _ => {
                let options = options(catalog, family, request.operators);
                let options = options.map_err(|error| error.or_file(archive.path()))?;
                (catalog.ids.family()?, options)
            }
        };
        let (from, name, bytes) = (family.name.clone(), name.to_owned(), family.logical_bytes());
        targets.push(ImportTarget { from, name, id, options, bytes });
    }
    Ok(targets)
}

/// Checks that a family of the archive has the key order of the default family, which is filled and
/// keeps its options.
fn check_key_order(default: &TreeOptions, family: &ArchivedFamily) -> Result<()> {
    let archived = without_operator(&family.options)?;
    if archived.key_order == default.key_order {
        return Ok(());
    }
    let name = |options: &TreeOptions| options.key_order.as_deref().unwrap_or(BYTEWISE).to_owned();
    Err(other_key_order(&name(default), &name(&archived)))
}

/// The options that a family gets.
fn options(
    catalog: &Catalog,
    family: &ArchivedFamily,
    operators: ImportedOperators,
) -> Result<TreeOptions> {
    let given = catalog.operators.iter().rev();
    let find = |name: &str| given.clone().find(|given| given.name() == name).cloned();
    match operators {
        ImportedOperators::Keep => {
            let options = TreeOptions::decode(&family.options, &find).and_then(|options| {
                catalog.filters.learn(options.compaction_filter.as_ref())?;
                Ok(options)
            });
            options.map_err(|error| match error.kind() {
                ErrorKind::InvalidArgument => error.with_hint(
                    "open the database with the merge operator or compaction filter, or import \
                     without operators: the values are folded",
                ),
                _ => error,
            })
        }
        ImportedOperators::Leave => {
            let options = without_operator(&family.options)?;
            // A filter that this database has stays with the family.
            let is_known = catalog.filters.learn(options.compaction_filter.as_ref());
            let compaction_filter = options.compaction_filter.filter(|_| is_known.is_ok());
            Ok(TreeOptions { compaction_filter, ..options })
        }
    }
}

/// Checks that the names are free, or may be taken.
fn check_room(
    catalog: &Catalog,
    snapshots: &Snapshots,
    targets: &[ImportTarget],
    existing: ExistingFamilies,
) -> Result<()> {
    let mut created = 0;
    for target in targets.iter().filter(|target| target.name != DEFAULT_FAMILY) {
        created += usize::from(place(catalog, snapshots, target, existing)? == ImportPlace::New);
    }
    if catalog.families.load().len() + created > FAMILIES_MAX {
        return Err(Error::invalid("too many families")
            .with_mismatch(FAMILIES_MAX, format_args!("{created} more")));
    }
    Ok(())
}

/// What the edit does for each target.
fn places(
    catalog: &Catalog,
    snapshots: &Snapshots,
    targets: &[ImportTarget],
    existing: ExistingFamilies,
) -> Result<Vec<ImportPlace>> {
    check_room(catalog, snapshots, targets, existing)?;
    targets.iter().map(|target| place(catalog, snapshots, target, existing)).collect()
}

fn place(
    catalog: &Catalog,
    snapshots: &Snapshots,
    target: &ImportTarget,
    existing: ExistingFamilies,
) -> Result<ImportPlace> {
    let name = &target.name[..];
    let family = match catalog.families.named(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ImportPlace::New),
        found => found?,
    };
    let exists = |message: String, hint: &'static str| {
        Err(Error::new(ErrorKind::AlreadyExists, message).with_hint(hint))
    };
    match existing {
        _ if name == DEFAULT_FAMILY && !is_empty(&family) => exists(
            "the default family is not empty".to_owned(),
            "import the one of the archive under another name; compact it first if all of it was \
             deleted",
        ),
        // A snapshot must not see anything come.
        _ if name == DEFAULT_FAMILY && snapshots.count() > 0 => {
            Err(Error::new(ErrorKind::Busy, "a snapshot or transaction reads the default family")
                .with_hint("drop it first, or import the family under another name"))
        }
        _ if name == DEFAULT_FAMILY => Ok(ImportPlace::Default),
        ExistingFamilies::Replace => Ok(ImportPlace::Instead(family.id)),
        ExistingFamilies::Refuse => exists(
            format!("family {name:?} exists"),
            "import it under another name, or have it replaced",
        ),
    }
}

/// Whether a family has no entry of any kind, in memory or on disk.
fn is_empty(family: &FamilyData) -> bool {
    let view = family.tree.view();
    let has_entries = view.memory.tables().iter().any(|table| !table.memtable.is_empty());
    view.version.is_empty() && !has_entries
}

/// Writes the tables of all targets.
fn write(
    rooms: &JobRooms<'_>,
    archive: &Arc<ArchiveFile>,
    targets: &[ImportTarget],
    sequence: SequenceNumber,
    copying: &mut FileCopy<'_>,
) -> Result<JobOutput> {
    let names: BTreeMap<FamilyId, Arc<str>> =
        targets.iter().map(|target| (target.id, target.name.as_str().into())).collect();
    with_context(rooms, |context| {
        // For a salvage that finds the tables without a manifest.
        let family_names = |id: FamilyId| names.get(&id).cloned();
        let context = JobContext { family_names: &family_names, ..*context };
        let mut tables = NewTables::default();
        for target in targets {
            let cursor = archive.cursor(&target.from)?;
            let cursor = CountedCursor { cursor, copying: &mut *copying, bytes: 0 };
            let ImportTarget { id, options, .. } = target;
            let to = LoadTarget { family: *id, options, sequence };
            tables.append(load(OnlyForward(cursor), &to, &context)?);
        }
        // The last chance to cancel: a finished output is installed, or its files are forgotten.
        copying.end()?;
        tables.finish([], &context)
    })
}

/// Makes the edit that brings all families in.
fn install_import(
    writable: Writable<'_>,
    targets: &[ImportTarget],
    existing: ExistingFamilies,
    output: JobOutput,
) -> Result<()> {
    let database = writable.database();
    let new: Vec<FileNumber> = output.changes.iter().filter_map(file_of).collect();
    let result = match targets.iter().any(|target| target.name == DEFAULT_FAMILY) {
        false => install_targets(&writable.job_rooms(), targets, existing, &output),
        true => filling_default(writable, || {
            install_targets(&writable.job_rooms(), targets, existing, &output)
        }),
    };
    // The edit refers to the files by now, or they are to go.
    drop(output);
    // If it is unknown whether the edit is durable, they stay for the next open, which knows.
    if result.is_err() && database.health.check_log().is_ok() {
        database.catalog.files.forget(new);
        purge(&writable.installer());
    }
    result
}

/// Runs `install`, which adds tables to the default family, while no commit changes the family. The
/// tables get a number in the log, so that it shows which commits are older.
fn filling_default(writable: Writable<'_>, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let database = writable.database();
    let default = database.catalog.families.named(DEFAULT_FAMILY)?;
    let holder = LockHolder::new(&database.locks);
    let (all, timeout) = (LockTarget::Range(Bounds::default()), database.options.lock_timeout);
    locks::acquire(writable, &holder, &default, all, LockMode::Exclusive, timeout)?;
    let empty_ranges = default.tree.empty_ranges();
    empty_ranges.suspend();
    let installed = commit_skip(writable, 1).and_then(|()| install());
    let (last, _) = lock(&database.log.sequencer).last();
    empty_ranges.resume(last);
    installed
}

fn install_targets(
    rooms: &JobRooms<'_>,
    targets: &[ImportTarget],
    existing: ExistingFamilies,
    output: &JobOutput,
) -> Result<()> {
    let _changing = lock(&rooms.catalog.changing_io);
    let places = places(rooms.catalog, rooms.snapshots, targets, existing)?;
    let replaced: Vec<_> = places.iter().filter_map(replaced).collect();
    let _begun = begin_drop(&rooms.installer(), &replaced)?;
    let manifest = lock(&rooms.catalog.manifest_io);
    let changes = changes(rooms.catalog, targets, &places, output.changes.clone());
    install_with(&rooms.installer(), manifest, changes, None, &[])
}

fn replaced(place: &ImportPlace) -> Option<FamilyId> {
    match *place {
        ImportPlace::Instead(old) => Some(old),
        _ => None,
    }
}

fn file_of(change: &Change) -> Option<FileNumber> {
    match change {
        Change::AddTable { table, .. } => Some(table.file),
        _ => None,
    }
}

/// The changes of the edit. A family that takes the name of another is created under a name that is
/// free, because an edit creates before it drops.
fn changes(
    catalog: &Catalog,
    targets: &[ImportTarget],
    places: &[ImportPlace],
    tables: Vec<Change>,
) -> Vec<Change> {
    let (mut created, mut renamed) = (Vec::new(), Vec::new());
    for (target, place) in targets.iter().zip(places) {
        let ImportTarget { id, ref name, ref options, .. } = *target;
        match *place {
            ImportPlace::New => created.push(create_change(id, name, options)),
            ImportPlace::Default => {}
            ImportPlace::Instead(old) => {
                let free = free_name(catalog, targets, id);
                created.push(create_change(id, &free, options));
                renamed.push(Change::DropFamily { id: old });
                renamed.push(Change::RenameFamily { id, name: name.clone() });
            }
        }
    }
    created.into_iter().chain(tables).chain(renamed).collect()
}

/// A name that no family has or gets. It holds an id that no other import has.
fn free_name(catalog: &Catalog, targets: &[ImportTarget], id: FamilyId) -> String {
    let mut name = format!("import-{id}");
    let is_taken = |name: &str| {
        catalog.families.named(name).is_ok() || targets.iter().any(|target| target.name == name)
    };
    while is_taken(&name) {
        name.push('-');
    }
    name
}

/// A cursor that counts the bytes that it passes.
struct CountedCursor<'a, 'c> {
    cursor: ArchiveCursor,
    copying: &'a mut FileCopy<'c>,
    /// Those that were not reported yet.
    bytes: u64,
}

impl ForwardCursor for CountedCursor<'_, '_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.entry()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if let Some(entry) = self.cursor.entry() {
            self.bytes += (entry.key.len() + entry.value.len()) as u64;
        }
        self.cursor.next()?;
        match self.bytes >= REPORT_BYTES {
            true => self.copying.count(std::mem::take(&mut self.bytes)),
            false => Ok(()),
        }
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        self.cursor.stretch()
    }
}
