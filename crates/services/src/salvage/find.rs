//! Finds the families and tables to save: from the manifest, or without it from the files in the
//! directory.
//!
//! This module reads no entries.

use super::{replaced::Replaced, report::ManifestState};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{FileKind, FileLock, Fs, LockKind},
    id::{FamilyId, FileNumber, SegmentId},
};
use siltdb_disk::{
    branch_record::{BranchChange, BranchFamily, BranchRecord},
    edit::{Change, Edit, TableReference, tier::Tier},
    file_name::FileName,
    log::{
        record::{LogPosition, RecordKind},
        salvage::SegmentSalvage,
        segment::SegmentHeader,
    },
    table::{LostList, TablePlace, TableSalvage, find_tables},
    table_meta::KeySpan,
};
use siltdb_engine::{
    catalog::branches::Branches,
    catalog::family::{DEFAULT_FAMILY, DEFAULT_FAMILY_ID, check_name},
    catalog::log_state::LogState,
    catalog::manifest::{read_current, read_manifest},
    open::cold::cold_id,
    open::lost_edits::{check_log_begin, check_unnamed_table},
    reports::lost::Lost,
};
use siltdb_tree::{
    merge_operator::{AbsentOperator, MergeOperator},
    options::TreeOptions,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A table of a family.
#[derive(Clone, Debug)]
pub struct FoundTable {
    /// The file system of the file.
    pub fs: Arc<dyn Fs>,
    /// The file.
    pub path: PathBuf,
    /// The table's place in the file, and what is visible of it.
    pub reference: Arc<TableReference>,
    /// Key ranges in which other tables hold the entries of this one.
    pub hidden: Vec<KeySpan>,
    /// What is added to its sequence numbers, so that it ranks above or below others.
    pub raised_by: u64,
}

/// A family that exists or existed.
#[derive(Clone, Debug)]
pub struct FoundFamily {
    /// Its name in the new database.
    pub name: String,
    /// Its options.
    pub options: TreeOptions,
    /// Whether name and options are the original ones.
    pub is_known: bool,
    /// Its tables.
    pub tables: Vec<FoundTable>,
}

impl FoundFamily {
    /// A family without tables, with the encoded `options`.
    fn decoded(
        name: &str,
        options: &[u8],
        find: &dyn Fn(&str) -> Option<Arc<dyn MergeOperator>>,
    ) -> Self {
        let options = decode_options(options, find);
        let is_known = options.is_ok();
        let options = options.unwrap_or_default();
        Self { name: name.to_owned(), options, is_known, tables: Vec::new() }
    }
}

/// Reads the options of a family. A salvage filters nothing, so it needs no filter's code.
fn decode_options(
    options: &[u8],
    find: &dyn Fn(&str) -> Option<Arc<dyn MergeOperator>>,
) -> Result<TreeOptions> {
    let options = TreeOptions::decode(options, find)?;
    let compaction_filter = options.compaction_filter.map(|named| named.or_absent());
    Ok(TreeOptions { compaction_filter, ..options })
}

/// Everything that can be saved.
#[derive(Debug, Default)]
pub struct Salvageable {
    /// The families.
    pub families: BTreeMap<FamilyId, FoundFamily>,
    /// Families that are known to be dropped.
    pub dropped: BTreeSet<FamilyId>,
    /// The branches, if the manifest is whole. Else their families are saved like others.
    pub branches: Branches,
    /// Where the log begins, and what was cut off.
    pub log: LogState,
    /// Whether this comes from a whole manifest.
    pub manifest: ManifestState,
    /// The merge operators that families may name.
    operators: Vec<Arc<dyn MergeOperator>>,
    /// Keeps writers out of the cold directory.
    _cold_lock: Option<Box<dyn FileLock>>,
}

impl Salvageable {
    /// Adds a family of which only the id is known, with a made-up name.
    pub fn add_unknown(&mut self, id: FamilyId) {
        let family = FoundFamily {
            name: made_up_name(id),
            options: TreeOptions::default(),
            is_known: false,
            tables: Vec::new(),
        };
        self.families.entry(id).or_insert(family);
    }

    /// Applies the changes of families in the log record at `at`, if the manifest lacks them.
    pub fn change_families(&mut self, at: LogPosition, edit: &Edit) {
        if at < self.log.families {
            return;
        }
        for change in &edit.changes {
            match change {
                Change::CreateFamily { id, name, options } if !self.dropped.contains(id) => {
                    let find = |name: &str| operator_named(&self.operators, name);
                    let family = FoundFamily::decoded(name, options, &find);
                    self.families.entry(*id).or_insert(family);
                }
                Change::DropFamily { id } => {
                    self.families.remove(id);
                    self.dropped.insert(*id);
                }
                // A record says all of a branch.
                Change::Branch(change) => drop(self.branches.apply(change)),
                _ => {}
            }
        }
    }

    /// Leaves out branches of which a family was not found, and the next bases of merges that did
    /// not end.
    pub fn settle_branches(&mut self) {
        let records: Vec<Arc<BranchRecord>> = self.branches.iter().cloned().collect();
        for record in records {
            for part in &record.families {
                let next = part.next_base.filter(|next| self.families.remove(next).is_some());
                self.dropped.extend(next);
            }
            let is_found = |part: &BranchFamily| {
                [part.head, part.base].iter().all(|id| self.families.contains_key(id))
            };
            if !record.families.iter().all(is_found) {
                drop(self.branches.apply(&BranchChange::Dropped(record.id)));
            }
        }
    }

    /// Gives each family a name that is valid in the new database.
    pub fn name_families(&mut self) {
        let mut taken = BTreeSet::from([DEFAULT_FAMILY.to_owned()]);
        for (id, family) in &mut self.families {
            if self.branches.of_family(*id).is_some() {
                continue;
            }
            let is_default = *id == DEFAULT_FAMILY_ID;
            if is_default {
                DEFAULT_FAMILY.clone_into(&mut family.name);
            } else if check_name(&family.name).is_err() || taken.contains(&family.name) {
                family.name = made_up_name(*id);
                family.is_known = false;
            }
            taken.insert(family.name.clone());
        }
    }
}

fn made_up_name(id: FamilyId) -> String {
    if id == DEFAULT_FAMILY_ID { DEFAULT_FAMILY.to_owned() } else { format!("family-{id}") }
}

/// The files of the database that is salvaged.
#[derive(Clone, Copy, Debug)]
pub struct OldDatabase<'a> {
    /// Where its directories are.
    pub fs: &'a Arc<dyn Fs>,
    /// Its directory.
    pub dir: &'a Path,
    /// Its cold directory, if the caller names one; else the manifest may.
    pub cold: Option<&'a Path>,
}

/// Finds everything that can be saved of a database, whose families may have merge `operators`.
///
/// # Errors
/// `NotFound`, if there are no files of a database; failures of listing the directory.
pub fn find(
    old: OldDatabase<'_>,
    operators: Vec<Arc<dyn MergeOperator>>,
    lost: &mut Vec<Lost>,
) -> Result<Salvageable> {
    let OldDatabase { fs, dir, cold } = old;
    let names = own_files(&**fs, dir)?;
    let is_any = |name: &FileName| !matches!(name, FileName::Lock | FileName::Temporary(_));
    if !names.iter().any(is_any) {
        return Err(Error::new(ErrorKind::NotFound, "no database in the directory").with_file(dir));
    }
    let mut picture = Picture::default();
    let whole = read_whole_manifest(&**fs, dir, &names, &mut picture)
        .and_then(|()| check_complete(&**fs, dir, &names, &picture));
    let mut found = Salvageable { operators, ..Salvageable::default() };
    if let Err(error) = &whole {
        lost.push(Lost::anything(error.duplicate()));
        found.manifest = ManifestState::Lost;
        picture = Picture::default();
        for number in manifests(&names) {
            picture.read_what_verifies(&**fs, &manifest_path(dir, number));
        }
    }
    let stored = picture.log.cold.take();
    let cold = cold.or(stored.as_ref().map(|place| Path::new(&place.path)));
    let cold = cold.map(|path| dir.join(path));
    let cold_directory = cold.as_ref().and_then(|cold| fs.open_dir(cold).ok());
    if let Some(cold) = &cold_directory {
        found._cold_lock = Some(cold.lock(&FileName::Lock.to_path(), LockKind::Shared)?);
    }
    if whole.is_err() {
        // Incomplete facts on tables and the log would mislead, so they are dropped.
        (picture.tables, picture.log) = (BTreeMap::new(), LogState::default());
        picture.branches = Branches::default();
    }
    for (&id, (name, options)) in &picture.families {
        let find = |name: &str| operator_named(&found.operators, name);
        let family = FoundFamily::decoded(name, options, &find);
        found.families.insert(id, family);
    }
    found.dropped = picture.dropped;
    (found.log, found.branches) = (picture.log, picture.branches);
    for ((family, _, file, _), reference) in picture.tables {
        let dir = match (reference.tier, &cold) {
            (Tier::Cold, Some(cold)) => cold.as_path(),
            _ => dir,
        };
        let path = dir.join(FileName::Table(file).to_string());
        if let Some(family) = found.families.get_mut(&family) {
            let (fs, hidden) = (Arc::clone(fs), Vec::new());
            family.tables.push(FoundTable { fs, path, reference, hidden, raised_by: 0 });
        }
    }
    if whole.is_err() {
        let mut files = table_files(dir, &names);
        // The tables of another database would be taken for those of this one.
        let id = cold_directory.and_then(|cold| cold_id(&*cold).ok().flatten());
        let is_foreign = matches!((id, &stored), (Some(id), Some(stored)) if id != stored.id);
        if let Some(cold) = cold.filter(|_| !is_foreign) {
            files.extend(table_files(&cold, &own_files(&**fs, &cold).unwrap_or_default()));
            files.sort();
        }
        find_by_files(fs, &files, &mut found, lost);
    }
    found.add_unknown(DEFAULT_FAMILY_ID);
    found.name_families();
    Ok(found)
}

/// The operator called `name`, or a substitute, with which no operand is folded.
fn operator_named(
    operators: &[Arc<dyn MergeOperator>],
    name: &str,
) -> Option<Arc<dyn MergeOperator>> {
    let given = operators.iter().find(|operator| operator.name() == name);
    Some(given.cloned().unwrap_or_else(|| Arc::new(AbsentOperator::new(name))))
}

/// The files of ours in `dir`.
pub fn own_files(fs: &dyn Fs, dir: &Path) -> Result<Vec<FileName>> {
    let entries = fs.list(dir)?.into_iter();
    let files = entries.filter(|entry| entry.kind == FileKind::File);
    let mut names: Vec<_> = files.filter_map(|entry| FileName::parse(&entry.name)).collect();
    names.sort();
    Ok(names)
}

/// The manifests among `names`, newest first.
fn manifests(names: &[FileName]) -> impl Iterator<Item = FileNumber> + '_ {
    names.iter().rev().filter_map(|name| match name {
        FileName::Manifest(number) => Some(*number),
        _ => None,
    })
}

fn manifest_path(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(FileName::Manifest(number).to_string())
}

/// Reads the manifest that `CURRENT` names. Without a readable `CURRENT`, reads the newest whole
/// manifest.
///
/// # Errors
/// The reason why there is no whole manifest.
fn read_whole_manifest(
    fs: &dyn Fs,
    dir: &Path,
    names: &[FileName],
    picture: &mut Picture,
) -> Result<()> {
    let directory = fs.open_dir(dir)?;
    let mut read = |number| {
        *picture = Picture::default();
        read_manifest(&*directory, number, &mut |edit| {
            picture.note(&edit);
            Ok(())
        })
    };
    match read_current(&*directory) {
        Ok(Some(number)) => read(number).map(drop),
        // A newer manifest that is not in force yet was about to be.
        unknown => {
            let missing = Error::corruption("there is no manifest").with_file(dir);
            let mut why = unknown.err().unwrap_or(missing);
            for number in manifests(names) {
                match read(number) {
                    Ok(_) => return Ok(()),
                    Err(error) => why = error,
                }
            }
            Err(why)
        }
    }
}

/// Checks that neither log nor tables are from a later state than the manifest.
///
/// # Errors
/// An error that names the later file.
fn check_complete(fs: &dyn Fs, dir: &Path, names: &[FileName], picture: &Picture) -> Result<()> {
    let log = &picture.log;
    let named: BTreeSet<_> = picture.tables.keys().map(|(_, _, file, _)| *file).collect();
    let mut begin: Option<(SegmentHeader, PathBuf)> = None;
    for &name in names {
        let path = dir.join(name.to_string());
        match name {
            FileName::Table(number) if !named.contains(&number) => {
                check_unnamed_table(fs, &path, log)?;
            }
            FileName::Segment(_) => {
                // A file that cannot be read is met again, and reported, when the log is read.
                let header = fs.open(&path).and_then(|file| SegmentHeader::read(&*file, &path));
                let Ok(Some(header)) = header else { continue };
                let is_first = begin.as_ref().is_none_or(|(first, _)| header.id < first.id);
                if is_first && is_live(log, header.id) {
                    begin = Some((header, path));
                }
            }
            _ => {}
        }
    }
    begin.map_or(Ok(()), |(header, path)| check_log_begin(&header, &path, log))
}

/// The content of a manifest, as far as it was read.
#[derive(Default)]
struct Picture {
    families: BTreeMap<FamilyId, (String, Vec<u8>)>,
    dropped: BTreeSet<FamilyId>,
    /// By family, level, file and offset: clones share tables.
    tables: BTreeMap<(FamilyId, u8, FileNumber, u64), Arc<TableReference>>,
    branches: Branches,
    log: LogState,
}

impl Picture {
    fn note(&mut self, edit: &Edit) {
        self.log.note(edit);
        for change in &edit.changes {
            match change {
                Change::CreateFamily { id, name, options } => {
                    self.families.insert(*id, (name.clone(), options.clone()));
                }
                Change::DropFamily { id } => {
                    self.families.remove(id);
                    self.dropped.insert(*id);
                    self.tables.retain(|(family, ..), _| family != id);
                }
                Change::RenameFamily { id, name } => {
                    self.families.entry(*id).or_default().0.clone_from(name);
                }
                Change::FamilyOptions { id, options } => {
                    self.families.entry(*id).or_default().1.clone_from(options);
                }
                Change::AddTable { family, level, table } => {
                    let place = (*family, *level, table.file, table.offset);
                    self.tables.insert(place, Arc::clone(table));
                }
                // Without some edits a name may be taken; then no branch counts.
                Change::Branch(change) => drop(self.branches.apply(change)),
                Change::RemoveTable { family, level, file, offset } => {
                    self.tables.remove(&(*family, *level, *file, *offset));
                }
                _ => {}
            }
        }
    }

    /// Reads every edit of the manifest at `path` that verifies. Names and options are useful even
    /// if some edits are lost.
    fn read_what_verifies(&mut self, fs: &dyn Fs, path: &Path) {
        let Ok(file) = fs.open(path) else { return };
        let Ok(Some(header)) = SegmentHeader::read(&*file, path) else { return };
        let mut segment = SegmentSalvage::new(file, path.to_owned(), header, None);
        loop {
            match segment.next() {
                Ok(Some(record)) if record.header.kind == RecordKind::Edit => {
                    if let Ok(edit) = Edit::decode(record.payload) {
                        self.note(&edit);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    if !matches!(segment.resume(), Ok(Some(_))) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// The table files among the files of ours in `dir`, ascending.
fn table_files(dir: &Path, names: &[FileName]) -> Vec<(FileNumber, PathBuf)> {
    let tables = names.iter().filter_map(|name| match name {
        FileName::Table(number) => Some((*number, dir.join(name.to_string()))),
        _ => None,
    });
    tables.collect()
}

/// Adds every table in `files`, which ascend, to the family that it names.
fn find_by_files(
    fs: &Arc<dyn Fs>,
    files: &[(FileNumber, PathBuf)],
    found: &mut Salvageable,
    lost: &mut Vec<Lost>,
) {
    // By family: what a clone has merged of the tables that it shares is not replaced elsewhere.
    let mut replaced: BTreeMap<FamilyId, Replaced> = BTreeMap::new();
    // Newest first, because these have the newest names.
    for (number, path) in files.iter().rev() {
        let file = match fs.open(path) {
            Ok(file) => file,
            Err(error) => {
                lost.push(Lost::anything(error.or_file(path)));
                continue;
            }
        };
        for place in find_tables(&*file) {
            // Damage in the table is met again, and reported, when it is read.
            let list = LostList::default();
            let table = TableSalvage::open(Arc::clone(&file), path, place, None, &list);
            match table {
                Ok(table) => {
                    let at = FoundAt { fs, number: *number, path, place };
                    found.add_table(at, &table, &mut replaced, lost);
                }
                Err(error) => lost.push(Lost::anything(error.or_file(path))),
            }
        }
    }
    for (id, family) in &mut found.families {
        let Some(replaced) = replaced.remove(id) else { continue };
        let counts = replaced.decide();
        family.tables.retain_mut(|table| match counts.hidden_of(table.reference.meta.uid) {
            None => false,
            Some(hidden) => {
                table.hidden = hidden;
                true
            }
        });
    }
}

/// Where a table was found.
#[derive(Clone, Copy)]
struct FoundAt<'a> {
    fs: &'a Arc<dyn Fs>,
    /// The number and path of its file.
    number: FileNumber,
    path: &'a Path,
    /// The part of the file.
    place: TablePlace,
}

impl Salvageable {
    fn add_table(
        &mut self,
        at: FoundAt<'_>,
        table: &TableSalvage,
        replaced: &mut BTreeMap<FamilyId, Replaced>,
        lost: &mut Vec<Lost>,
    ) {
        let FoundAt { fs, number, path, place } = at;
        let named = table.properties().and_then(|properties| {
            properties.origin.as_ref().map(|origin| (origin, &properties.meta))
        });
        let Some((origin, meta)) = named else {
            let error = Error::corruption("a table does not name its family");
            lost.push(Lost::anything(error.with_file(path).with_offset(place.offset)));
            return;
        };
        if self.dropped.contains(&origin.family) {
            return;
        }
        let family = self.families.entry(origin.family).or_insert_with(|| {
            let find = |name: &str| operator_named(&self.operators, name);
            let options = decode_options(&origin.options, &find);
            let is_known = options.is_ok() && !origin.name.is_empty();
            let options = options.unwrap_or_default();
            FoundFamily { name: origin.name.clone(), options, is_known, tables: Vec::new() }
        });
        let reference = Arc::new(TableReference::whole(number, place.offset, meta.clone()));
        let (fs, path, hidden) = (Arc::clone(fs), path.to_owned(), Vec::new());
        let is_copy = |found: &&mut FoundTable| found.reference.meta.uid == meta.uid;
        if let Some(copy) = family.tables.iter_mut().find(is_copy) {
            // A crash has left both files of a move. The older one is certainly complete.
            *copy = FoundTable { fs, path, reference, hidden, raised_by: 0 };
            return;
        }
        family.tables.push(FoundTable { fs, path, reference, hidden, raised_by: 0 });
        self.log.first = self.log.first.max(origin.log_start);
        replaced.entry(origin.family).or_default().add(meta, origin);
    }
}

/// Whether records of `segment` count, that is, are neither retired nor cut off.
#[must_use]
pub fn is_live(log: &LogState, segment: SegmentId) -> bool {
    segment >= log.first && !log.cuts.iter().any(|cut| cut.cuts_off(segment))
}
