//! The one function that makes a change of the set of files and families durable and applies it.
//!
//! It does not decide what to change. Recovery makes the changes of old edits through the same
//! functions, the tables of all edits at once.
//!
//! 1. The versions that the edit leads to are worked out: what cannot be applied must not become
//!    durable.
//! 2. The edit is appended to the manifest and synced, or a new manifest is begun.
//! 3. Versions and families are put in force; files that nobody refers to are noted for purging.

use crate::{
    database::Database,
    family::{DEFAULT_FAMILY, Families, Family, check_name},
    manifest::{Failure, Manifest},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber},
    limits::FAMILIES_MAX,
    sync::lock,
};
use siltdb_disk::{
    edit::{Change, Edit, FEATURES_KNOWN, FORMAT_VERSION},
    log::record::LogPosition,
};
use siltdb_tree::{
    memory::Generation,
    merge_operator::MergeOperator,
    open_files::OpenFiles,
    options::TreeOptions,
    tree::{Prepared, Tree},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard},
};

/// What an edit is applied to.
#[derive(Debug)]
pub struct Target<'a> {
    /// The families.
    pub families: &'a Families,
    /// The table files.
    pub files: &'a Arc<OpenFiles>,
    /// The operators that families may name.
    pub operators: &'a [Arc<dyn MergeOperator>],
    /// What stands for one that is not among them, if anything may.
    pub absent: fn(&str) -> Option<Arc<dyn MergeOperator>>,
}

/// Makes `changes` durable and applies them; `flushed` leaves the memory in the same step.
///
/// # Errors
/// `Poisoned`, if it is open whether they are durable; anything else, with nothing changed:
/// `NoSpace`,
/// `Corruption` if the changes do not fit, the system's.
pub fn install(
    database: &Database,
    changes: Vec<Change>,
    flushed: Option<Generation>,
) -> Result<()> {
    install_with(database, lock(&database.manifest_io), (changes, flushed), None)
}

/// Makes it known that the log segment of `position`, which is synced, has durable records. Of
/// several threads that find it unknown, one makes the edit.
///
/// # Errors
/// As [`install`].
pub fn install_synced_segment(database: &Database, position: LogPosition) -> Result<()> {
    let manifest = lock(&database.manifest_io);
    if database.wal.is_noted(position) {
        return Ok(());
    }
    // Each edit says how far the log is synced, so this one has nothing to add.
    install_with(database, manifest, (Vec::new(), None), None)
}

/// As [`install`]; `operator` is that of a family that the changes create or give options.
pub(crate) fn install_with(
    database: &Database,
    mut manifest: MutexGuard<'_, Manifest>,
    (mut changes, flushed): (Vec<Change>, Option<Generation>),
    operator: Option<&Arc<dyn MergeOperator>>,
) -> Result<()> {
    database.health.check_log()?;
    database.numbers.check_files_left()?;
    omit_dropped(database, &mut changes);
    changes.push(Change::NextFile(database.numbers.next_file()));
    changes.push(Change::NextFamily(database.numbers.next_family()));
    changes.push(Change::LatestTime(database.time.stored()));
    let (position, slot) = database.wal.synced_in();
    if position > manifest.state.synced && !cfg!(seeded_fault = "synced_segment_not_noted") {
        changes.push(Change::LogSynced { position, slot });
    }
    let edit = Edit { changes };
    let mut operators = database.operators.clone();
    operators.extend(operator.cloned());
    let target = Target {
        families: &database.families,
        files: &database.files,
        operators: &operators,
        absent: |_| None,
    };
    let prepared = prepare(&target, &edit)?;
    if cfg!(seeded_fault = "install_before_manifest") {
        let gone = put_in_force(&target, &edit, prepared, flushed)?;
        manifest.state.note(&edit);
        note_changed(database, &edit);
        database.forget(gone);
        return append(database, &mut manifest, &edit);
    }
    append(database, &mut manifest, &edit)?;
    manifest.state.note(&edit);
    database.wal.noted(manifest.state.synced);
    let gone = put_in_force(&target, &edit, prepared, flushed)?;
    note_changed(database, &edit);
    database.forget(gone);
    drop(manifest);
    database.update_debts();
    Ok(())
}

/// Notes which families an edit has changed. Called under `manifest_io`, as no other edit comes
/// between.
fn note_changed(database: &Database, edit: &Edit) {
    let mut changed: Vec<FamilyId> = edit.changes.iter().filter_map(changed_family).collect();
    changed.sort_unstable();
    changed.dedup();
    for id in changed {
        match database.families.get(id) {
            Some(family) => database.note_changed(&family),
            None => database.note_dropped(id),
        }
    }
}

fn changed_family(change: &Change) -> Option<FamilyId> {
    match change {
        Change::DropFamily { id } | Change::FamilyOptions { id, .. } => Some(*id),
        _ => table_family(change),
    }
}

/// Takes out of `changes` what a job has done for families that were dropped meanwhile; its new
/// files are for the purge. Called under `manifest_io`: no family goes after this.
fn omit_dropped(database: &Database, changes: &mut Vec<Change>) {
    let families = database.families.load();
    let mut omitted = Vec::new();
    changes.retain(|change| {
        let is_there = table_family(change).is_none_or(|family| families.get(family).is_some());
        if let Change::AddTable { table, .. } = change
            && !is_there
        {
            omitted.push(table.file);
        }
        is_there
    });
    database.forget(omitted);
}

/// Makes an edit durable.
fn append(database: &Database, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes);
    manifest.go_on();
    let result = if manifest.needs_snapshot(&bytes) {
        let number = database.numbers.file();
        let mut snapshot = snapshot(database, manifest, number);
        snapshot.changes.extend_from_slice(&edit.changes);
        let mut bytes = Vec::new();
        snapshot.encode(&mut bytes);
        manifest.begin(number, &bytes, database.numbers.random())
    } else {
        manifest.append(&bytes)
    };
    result.map_err(|failure| match failure {
        Failure::Unchanged(error) => error,
        Failure::Unknown(error) => database.health.poison(error),
    })
}

/// Everything that is true before the edit at hand, as one edit.
fn snapshot(database: &Database, manifest: &Manifest, number: FileNumber) -> Edit {
    let mut changes = vec![Change::Format { version: FORMAT_VERSION, features: FEATURES_KNOWN }];
    changes.push(Change::NextFile(FileNumber(number.0 + 1)));
    changes.extend(manifest.state.changes());
    for family in database.families.load().iter() {
        changes.push(create_change(family.id, &family.name(), &family.tree.options()));
        for (level, table) in family.tree.view().version.references() {
            changes.push(Change::AddTable { family: family.id, level, table: table.clone() });
        }
    }
    Edit { changes }
}

/// The change that gives a family these options.
pub(crate) fn options_change(id: FamilyId, options: &TreeOptions) -> Change {
    let mut bytes = Vec::new();
    options.encode(&mut bytes);
    Change::FamilyOptions { id, options: bytes }
}

fn create_change(id: FamilyId, name: &str, options: &TreeOptions) -> Change {
    let mut bytes = Vec::new();
    options.encode(&mut bytes);
    Change::CreateFamily { id, name: name.to_owned(), options: bytes }
}

/// A replay of a manifest: families as its edits come, and what all edits come to in tables at the
/// end, so that each level is put together and checked once.
#[derive(Debug)]
pub struct ManifestReplay<'a> {
    target: Target<'a>,
    /// The changes of the tables of each family, in the order of the edits.
    tables: BTreeMap<FamilyId, Vec<Change>>,
}

impl<'a> ManifestReplay<'a> {
    /// A replay of which nothing was done yet.
    #[must_use]
    pub fn new(target: Target<'a>) -> Self {
        Self { target, tables: BTreeMap::new() }
    }

    /// Notes an edit that is durable already.
    ///
    /// # Errors
    /// `Corruption`, if it does not fit; `InvalidArgument`, if a family needs a merge operator that
    /// was not given.
    pub fn note(&mut self, edit: Edit) -> Result<()> {
        let is_creation = |change: &Change| matches!(change, Change::CreateFamily { .. });
        // A snapshot creates families and adds their tables in one edit.
        for change in edit.changes.iter().filter(|change| is_creation(change)) {
            change_families(&self.target, change)?;
        }
        let (tables, others): (Vec<_>, Vec<_>) =
            edit.changes.into_iter().partition(|change| table_family(change).is_some());
        for change in tables {
            let id = table_family(&change).expect("those of others were parted from it");
            if self.target.families.get(id).is_none() {
                return Err(no_such_family(id));
            }
            self.tables.entry(id).or_default().push(change);
        }
        for change in others.iter().filter(|change| !is_creation(change)) {
            change_families(&self.target, change)?;
            if let Change::DropFamily { id } = change {
                self.tables.remove(id);
            }
        }
        Ok(())
    }

    /// Puts the tables in force.
    ///
    /// # Errors
    /// `Corruption`, if what the edits come to does not fit.
    pub fn finish(self) -> Result<()> {
        for (id, changes) in &self.tables {
            let family = self.target.families.get(*id).ok_or_else(|| no_such_family(*id))?;
            family.tree.apply(changes, None)?;
        }
        Ok(())
    }
}

fn no_such_family(id: FamilyId) -> Error {
    Error::corruption("an edit changes tables of a family that does not exist")
        .with_mismatch("a family", id)
}

/// The versions that an edit leads to, for every family whose tables change.
type PreparedTrees = Vec<(Arc<Family>, Prepared)>;

fn prepare(target: &Target<'_>, edit: &Edit) -> Result<PreparedTrees> {
    let mut by_family: BTreeMap<FamilyId, Vec<&Change>> = BTreeMap::new();
    for change in &edit.changes {
        if let Some(id) = table_family(change) {
            by_family.entry(id).or_default().push(change);
        }
    }
    let prepare = |(id, changes): (FamilyId, Vec<&Change>)| {
        let family = target.families.get(id).ok_or_else(|| no_such_family(id))?;
        let prepared = family.tree.prepare(changes)?;
        Ok((family, prepared))
    };
    by_family.into_iter().map(prepare).collect()
}

fn table_family(change: &Change) -> Option<FamilyId> {
    match change {
        Change::AddTable { family, .. } | Change::RemoveTable { family, .. } => Some(*family),
        _ => None,
    }
}

/// Puts an edit in force, and says which files it makes superfluous.
fn put_in_force(
    target: &Target<'_>,
    edit: &Edit,
    prepared: PreparedTrees,
    flushed: Option<Generation>,
) -> Result<Vec<FileNumber>> {
    let mut gone = Vec::new();
    for change in &edit.changes {
        if let Change::RemoveTable { file, .. } = change {
            gone.push(*file);
        }
    }
    // In the order of their ids.
    let changed: Vec<FamilyId> = prepared.iter().map(|(family, _)| family.id).collect();
    for (family, prepared) in prepared {
        family.tree.install(prepared, flushed);
    }
    if let Some(generation) = flushed {
        // Families of which nothing was retained give up their memtables all the same.
        let holders = target.families.holders();
        for id in holders.of(generation) {
            if let Some(family) = target.families.get(id)
                && changed.binary_search(&id).is_err()
            {
                family.tree.apply(&[], flushed)?;
            }
        }
        holders.forget(generation);
    }
    for change in &edit.changes {
        gone.extend(change_families(target, change)?);
    }
    Ok(gone)
}

fn decode_options(target: &Target<'_>, bytes: &[u8]) -> Result<TreeOptions> {
    // The last one: a family that is created gets what came with it, whatever another is called.
    let given =
        |name: &str| target.operators.iter().rev().find(|given| given.name() == name).cloned();
    TreeOptions::decode(bytes, &|name: &str| given(name).or_else(|| (target.absent)(name)))
}

/// Applies a change of the families; returns the files of tables that go with a dropped one.
fn change_families(target: &Target<'_>, change: &Change) -> Result<Vec<FileNumber>> {
    match change {
        Change::CreateFamily { id, name, options } => {
            let options = decode_options(target, options)?;
            let tree = Tree::new(*id, options, Arc::clone(target.files))
                .with_holders(Arc::clone(target.families.holders()));
            target.families.add(Arc::new(Family::new(*id, name, tree)))?;
        }
        Change::DropFamily { id } => {
            let family = target.families.remove(*id)?;
            let view = family.tree.view();
            return Ok(view.version.tables().map(|(_, table)| table.id().file).collect());
        }
        Change::RenameFamily { id, name } => target.families.rename(*id, name)?,
        Change::FamilyOptions { id, options } => {
            let options = decode_options(target, options)?;
            let family = target.families.get(*id).ok_or_else(|| {
                Error::corruption("an edit changes options of a family that does not exist")
                    .with_mismatch("a family", id)
            })?;
            family.tree.set_options(options);
        }
        Change::AddTable { .. }
        | Change::RemoveTable { .. }
        | Change::Format { .. }
        | Change::LogStart { .. }
        | Change::LogCut { .. }
        | Change::NextFile(_)
        | Change::NextFamily(_)
        | Change::LastSequence(_)
        | Change::LogSynced { .. }
        | Change::LatestTime(_) => {}
        _ => return Err(Error::new(ErrorKind::Unsupported, "an edit has an unknown change")),
    }
    Ok(Vec::new())
}

/// Creates a family.
///
/// # Errors
/// `AlreadyExists`; `InvalidArgument`, for a bad name, bad options, or too many families; as
/// [`install`].
pub fn create_family(database: &Database, name: &str, options: TreeOptions) -> Result<Arc<Family>> {
    check_name(name)?;
    options.check()?;
    if database.families.load().len() >= FAMILIES_MAX {
        return Err(Error::invalid("too many families").with_mismatch(FAMILIES_MAX, "one more"));
    }
    database.health.check()?;
    let _changing = lock(&database.changing_io);
    if database.families.named(name).is_ok() {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("family {name:?} exists")));
    }
    let creation = create_change(database.numbers.family(), name, &options);
    let manifest = lock(&database.manifest_io);
    install_with(database, manifest, (vec![creation], None), options.merge_operator.as_ref())?;
    database.families.named(name)
}

/// Gives the default family the merge operator that the database is opened with, if it has none.
///
/// # Errors
/// `InvalidArgument`, if it has another; as [`install`].
pub fn adopt_operator(database: &Database) -> Result<()> {
    let Some(given) = &database.options.tree.merge_operator else { return Ok(()) };
    let family = database.families.named(DEFAULT_FAMILY)?;
    let options = family.tree.options();
    if let Some(operator) = &options.merge_operator {
        if operator.name() == given.name() {
            return Ok(());
        }
        return Err(Error::invalid("the default family has another merge operator")
            .with_mismatch(operator.name(), given.name())
            .with_hint("a family keeps its operator: its operands mean nothing to another"));
    }
    let operator = Some(Arc::clone(given));
    let options = TreeOptions { merge_operator: operator, ..TreeOptions::clone(&options) };
    install(database, vec![options_change(family.id, &options)], None)
}

/// Drops a family.
///
/// # Errors
/// `NotFound`; `InvalidArgument`, for the default family; as [`install`].
pub fn drop_family(database: &Database, name: &str) -> Result<()> {
    if name == DEFAULT_FAMILY {
        return Err(Error::invalid("the default family cannot be dropped"));
    }
    database.health.check()?;
    let _changing = lock(&database.changing_io);
    let id = database.families.named(name)?.id;
    install(database, vec![Change::DropFamily { id }], None)?;
    database.work.raise();
    Ok(())
}

/// Gives a family another name.
///
/// # Errors
/// `NotFound`, `AlreadyExists`; `InvalidArgument`, for a bad name or the default family; as
/// [`install`].
pub fn rename_family(database: &Database, name: &str, to: &str) -> Result<()> {
    check_name(to)?;
    if name == DEFAULT_FAMILY {
        return Err(Error::invalid("the default family cannot be renamed"));
    }
    database.health.check()?;
    let _changing = lock(&database.changing_io);
    let id = database.families.named(name)?.id;
    if database.families.named(to).is_ok() {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("family {to:?} exists")));
    }
    install(database, vec![Change::RenameFamily { id, name: to.to_owned() }], None)
}

#[cfg(test)]
mod tests;
