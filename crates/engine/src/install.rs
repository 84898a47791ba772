//! Installs edits: the one function that makes a change of files and families durable and applies
//! it.
//!
//! It does not decide what to change. Recovery folds the old edits (see `manifest_replay`).
//!
//! 1. The families and versions that the edit leads to are prepared. An edit that cannot be applied
//!    must not become durable.
//! 2. The edit is appended to the manifest and synced, or a new manifest is begun.
//! 3. Versions and families are put in force; files without references are noted for purging.

mod kinds;
mod preconditions;
mod tables;
pub mod target;
pub mod manifest_replay;

use crate::{
    catalog::Catalog,
    catalog::branches::roles,
    catalog::family::{DEFAULT_FAMILY, FamilyData, check_name},
    catalog::family_map::{FamilyMap, FamilyMapBuilder},
    catalog::lazy_family::LazyFamily,
    catalog::manifest::{Failure, Manifest},
    database::installer::Installer,
    install::kinds::{Phase, check_known, family_of, phase, table_family},
    install::preconditions::assert_fits,
    install::tables::{FirstVersions, no_such_family, prepare_trees, table_changes},
    install::target::Target,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber},
    limits::FAMILIES_MAX,
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    edit::{Change, Edit, FORMAT_VERSION},
    log::record::LogPosition,
};
use siltdb_tree::{
    files::open_files::TableId, memory::Generation, merge_operator::MergeOperator,
    options::TreeOptions, tree::Prepared,
};
use std::sync::{Arc, MutexGuard};

/// Makes `changes` durable and applies them. The memtables of `flushed` go in the same step.
///
/// # Errors
/// `Poisoned`, if it is unknown whether the changes are durable. Any other error means that nothing
/// has changed: `NoSpace`, `Corruption` if the changes do not fit, the system's.
pub fn install(
    installer: &Installer<'_>,
    changes: Vec<Change>,
    flushed: Option<Generation>,
) -> Result<()> {
    install_with(installer, lock(&installer.catalog.manifest_io), changes, flushed, &[])
}

/// Records in the manifest that the log segment of `position`, which is synced, has durable
/// records. If several threads find this missing, one makes the edit.
///
/// # Errors
/// As [`install`].
pub fn install_synced_segment(installer: &Installer<'_>, position: LogPosition) -> Result<()> {
    let manifest = lock(&installer.catalog.manifest_io);
    if installer.log.wal.is_noted(position) {
        return Ok(());
    }
    // Each edit says how far the log is synced, so this one needs no further change.
    install_with(installer, manifest, Vec::new(), None, &[])
}

/// As [`install`], by a caller that has the manifest locked. `given` are the operators of families
/// that the changes create or give options.
///
/// # Errors
/// As [`install`].
pub fn install_with(
    installer: &Installer<'_>,
    mut manifest: MutexGuard<'_, Manifest>,
    mut changes: Vec<Change>,
    flushed: Option<Generation>,
    given: &[Arc<dyn MergeOperator>],
) -> Result<()> {
    installer.health.check_log()?;
    installer.catalog.ids.check_files_left()?;
    omit_dropped(installer.catalog, &mut changes);
    changes.push(Change::NextFile(installer.catalog.ids.next_file()));
    changes.push(Change::NextFamily(installer.catalog.ids.next_family()));
    changes.push(Change::LatestTime(installer.time.stored()));
    let synced = installer.log.wal.synced_log();
    if synced.is_news_to(&manifest.state.synced) && !seeded_fault!("synced_segment_not_noted") {
        changes.push(Change::LogSynced(synced));
    }
    let edit = Edit { changes };
    assert_fits(installer, &manifest, &edit, flushed);
    let mut operators = installer.catalog.operators.clone();
    operators.extend_from_slice(given);
    let target = Target {
        families: &installer.catalog.families,
        files: &installer.catalog.files,
        operators: &operators,
        absent: |_| None,
    };
    let prepared = prepare(&target, &edit)?;
    if seeded_fault!("install_before_manifest") {
        let gone = put_in_force(&target, &edit, prepared, flushed)?;
        manifest.state.note(&edit);
        note_changed(installer, &edit);
        installer.catalog.files.forget(gone);
        return append(installer, &mut manifest, &edit);
    }
    append(installer, &mut manifest, &edit)?;
    manifest.state.note(&edit);
    installer.time.note_known(manifest.state.time);
    installer.log.wal.noted(&manifest.state.synced);
    prepared.dropped.iter().for_each(|family| family.keep_blobs(&installer.blobs.set()));
    let gone = put_in_force(&target, &edit, prepared, flushed)?;
    note_changed(installer, &edit);
    installer.catalog.files.forget(gone);
    drop(manifest);
    installer.backpressure.update(installer.log);
    Ok(())
}

/// Notes which families an edit has changed. Called under `manifest_io`, so that no other edit
/// comes between.
fn note_changed(installer: &Installer<'_>, edit: &Edit) {
    let mut changed: Vec<FamilyId> = edit.changes.iter().filter_map(changed_family).collect();
    changed.sort_unstable();
    changed.dedup();
    let families = installer.catalog.families.load();
    for id in changed {
        match families.lazy(id).map(|family| (family, family.if_made())) {
            Some((_, Some(family))) => installer.note_changed(family),
            Some((family, None)) => installer.note_stored(family),
            None => installer.note_dropped(id),
        }
    }
}

fn changed_family(change: &Change) -> Option<FamilyId> {
    match change {
        Change::DropFamily { id } | Change::FamilyOptions { id, .. } => Some(*id),
        _ => table_family(change),
    }
}

/// Removes from `changes` the output of a job for families that were dropped meanwhile. Its new
/// files are noted for purging. Called under `manifest_io`: no family is dropped after this.
fn omit_dropped(catalog: &Catalog, changes: &mut Vec<Change>) {
    let families = catalog.families.load();
    let next = catalog.ids.next_family();
    let created: Vec<FamilyId> = changes
        .iter()
        .filter(|change| phase(change) == Phase::Create)
        .filter_map(family_of)
        .collect();
    // A family that never existed was not dropped: an edit that names one does not fit.
    let is_dropped = |id: FamilyId| id < next && !families.contains(id) && !created.contains(&id);
    let mut omitted = Vec::new();
    changes.retain(|change| {
        let is_omitted = table_family(change).is_some_and(is_dropped);
        if let Change::AddTable { table, .. } = change
            && is_omitted
        {
            omitted.push(table.file);
        }
        !is_omitted
    });
    catalog.files.forget(omitted);
}

/// Makes an edit durable.
fn append(installer: &Installer<'_>, manifest: &mut Manifest, edit: &Edit) -> Result<()> {
    let mut bytes = Vec::new();
    // No other change may become durable without the owed ones, because a flush retires their log.
    let owed = Edit { changes: manifest.owed.changes.clone() };
    if !seeded_fault!("forget_changes_of_families") {
        owed.encode(&mut bytes);
    }
    edit.encode(&mut bytes);
    manifest.go_on();
    let result = if manifest.needs_snapshot(&bytes) {
        let number = installer.catalog.ids.file();
        let mut snapshot = snapshot(installer.catalog, manifest, number);
        snapshot.changes.extend_from_slice(&edit.changes);
        let mut bytes = Vec::new();
        snapshot.encode(&mut bytes);
        manifest.begin(number, &bytes, installer.catalog.ids.random())
    } else {
        manifest.append(&bytes)
    };
    result.map_err(|failure| match failure {
        Failure::Unchanged(error) => error,
        Failure::Unknown(error) => installer.health.poison(error),
    })?;
    let owed = std::mem::take(&mut manifest.owed);
    installer.catalog.files.forget(owed.files);
    Ok(())
}

/// The whole state of the manifest as one edit, which begins the manifest `number`.
#[must_use]
pub fn snapshot(catalog: &Catalog, manifest: &Manifest, number: FileNumber) -> Edit {
    let features = manifest.state.features;
    let mut changes = vec![Change::Format { version: FORMAT_VERSION, features }];
    changes.push(Change::NextFile(FileNumber(number.0 + 1)));
    changes.extend(manifest.state.changes());
    let families = catalog.families.load();
    for family in families.iter() {
        changes.push(create_change(family.id, &family.name(), &family.options()));
        for (level, table) in family.version().references() {
            changes.push(Change::AddTable { family: family.id, level, table: table.clone() });
        }
    }
    changes.extend(families.branches().changes());
    Edit { changes }
}

/// The change that gives a family these options.
pub(crate) fn options_change(id: FamilyId, options: &TreeOptions) -> Change {
    let mut bytes = Vec::new();
    options.encode(&mut bytes);
    Change::FamilyOptions { id, options: bytes }
}

/// The change that creates a family.
#[must_use]
pub fn create_change(id: FamilyId, name: &str, options: &TreeOptions) -> Change {
    let mut bytes = Vec::new();
    options.encode(&mut bytes);
    Change::CreateFamily { id, name: name.to_owned(), options: bytes }
}

/// The prepared result of an edit: every step that may fail is done, and nothing is in force.
struct PreparedEdit {
    /// The families, if they change.
    map: Option<FamilyMap>,
    /// The next version of each family whose tables change.
    trees: Vec<(Arc<FamilyData>, Prepared)>,
    options: Vec<(Arc<FamilyData>, TreeOptions)>,
    renamed: Vec<(Arc<FamilyData>, Arc<str>)>,
    dropped: Vec<Arc<FamilyData>>,
}

/// Prepares an edit. One of tables alone needs no copy of the families.
fn prepare(target: &Target<'_>, edit: &Edit) -> Result<PreparedEdit> {
    let before = target.families.load();
    let mut changed: Option<FamilyMapBuilder> = None;
    let (roles, mut tables) = (roles(&edit.changes), table_changes(edit));
    let mut versions = FirstVersions::new();
    for change in edit.changes.iter().filter(|change| phase(change) == Phase::Create) {
        let Change::CreateFamily { id, name, options } = change else { continue };
        let options = target.share_options(options)?;
        let changes = tables.remove(id).unwrap_or_default();
        let version = versions.next(target.files, *id, changes)?;
        let stored = target.stored(name.as_str().into(), options, version);
        let role = roles.get(id).copied().unwrap_or_default();
        let families = changed.get_or_insert_with(|| before.to_builder());
        families.add_lazy(LazyFamily::stored(*id, role, stored))?;
    }
    let families = changed.as_ref().map_or(&*before, FamilyMapBuilder::map);
    let (map, trees) = (None, prepare_trees(families, &tables)?);
    let mut prepared =
        PreparedEdit { map, trees, options: Vec::new(), renamed: Vec::new(), dropped: Vec::new() };
    for change in edit.changes.iter().filter(|change| phase(change) == Phase::Change) {
        match change {
            Change::DropFamily { id } => {
                let families = changed.get_or_insert_with(|| before.to_builder());
                prepared.dropped.push(families.remove(*id)?);
            }
            Change::RenameFamily { id, name } => {
                let families = changed.get_or_insert_with(|| before.to_builder());
                prepared.renamed.push((families.rename(*id, name)?, name.as_str().into()));
            }
            Change::FamilyOptions { id, options } => {
                let families = changed.as_ref().map_or(&*before, FamilyMapBuilder::map);
                let family = families.get(*id).cloned().ok_or_else(|| no_such_family(*id))?;
                prepared.options.push((family, target.decode_options(options)?));
            }
            Change::Branch(change) => {
                changed.get_or_insert_with(|| before.to_builder()).change_branches(change)?;
            }
            other => check_known(other)?,
        }
    }
    prepared.map = changed.map(FamilyMapBuilder::finish).transpose()?;
    Ok(prepared)
}

/// Puts an edit in force. Returns the files that it makes unneeded.
fn put_in_force(
    target: &Target<'_>,
    edit: &Edit,
    prepared: PreparedEdit,
    flushed: Option<Generation>,
) -> Result<Vec<FileNumber>> {
    let mut gone = Vec::new();
    let usage = target.families.usage();
    // Additions first: a reference that takes the place of another one to its table counts once.
    for change in &edit.changes {
        if let Change::AddTable { table, .. } = change {
            usage.add(table);
        }
    }
    for change in &edit.changes {
        if let Change::RemoveTable { file, offset, .. } = change {
            usage.remove(TableId { file: *file, offset: *offset });
            gone.push(*file);
        }
    }
    // Sorted by id, as `trees` is.
    let changed: Vec<FamilyId> = prepared.trees.iter().map(|(family, _)| family.id).collect();
    for (family, prepared) in prepared.trees {
        family.tree.install(prepared, flushed);
    }
    if let Some(generation) = flushed {
        // A family for which the flush kept no entry gives up its memtables all the same.
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
    for (family, options) in prepared.options {
        usage.note_options(&options);
        family.tree.set_options(options);
    }
    for family in &prepared.dropped {
        let view = family.tree.view();
        gone.extend(view.version.tables().map(|(_, table)| table.id().file));
    }
    if let Some(map) = prepared.map {
        target.families.store(map, &prepared.renamed, &prepared.dropped);
    }
    target.families.assert_counted();
    Ok(gone)
}

/// Creates a family.
///
/// # Errors
/// `AlreadyExists`; `InvalidArgument`, for a bad name, bad options, or too many families;
/// `Unsupported`, for a codec that this build cannot write; as [`install`].
pub fn create_family(
    installer: &Installer<'_>,
    name: &str,
    options: TreeOptions,
) -> Result<Arc<FamilyData>> {
    installer.catalog.check_new(name, &options)?;
    if installer.catalog.families.load().len() >= FAMILIES_MAX {
        return Err(Error::invalid("too many families").with_mismatch(FAMILIES_MAX, "one more"));
    }
    installer.health.check()?;
    let _changing = lock(&installer.catalog.changing_io);
    if installer.catalog.families.named(name).is_ok() {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("family {name:?} exists")));
    }
    let creation = create_change(installer.catalog.ids.family()?, name, &options);
    let manifest = lock(&installer.catalog.manifest_io);
    install_with(installer, manifest, vec![creation], None, options.merge_operator.as_slice())?;
    installer.catalog.families.named(name)
}

/// Gives the default family the merge operator given at open, if it has none.
///
/// # Errors
/// `InvalidArgument`, if it has another operator, a TTL, or a strategy that permits none; as
/// [`install`].
pub fn adopt_operator(
    installer: &Installer<'_>,
    given: Option<&Arc<dyn MergeOperator>>,
) -> Result<()> {
    let Some(given) = given else { return Ok(()) };
    let family = installer.catalog.families.named(DEFAULT_FAMILY)?;
    let options = family.tree.options();
    if let Some(operator) = &options.merge_operator {
        if operator.name() == given.name() {
            return Ok(());
        }
        return Err(Error::invalid("the default family has another merge operator")
            .with_mismatch(operator.name(), given.name())
            .with_hint("a family keeps its operator: another cannot fold its operands"));
    }
    let operator = Some(Arc::clone(given));
    let options = TreeOptions { merge_operator: operator, ..TreeOptions::clone(&options) };
    options.check()?;
    install(installer, vec![options_change(family.id, &options)], None)
}

/// Renames a family.
///
/// # Errors
/// `NotFound`, `AlreadyExists`; `InvalidArgument` for a bad name or the default family; as
/// [`install`].
pub fn rename_family(installer: &Installer<'_>, name: &str, to: &str) -> Result<()> {
    check_name(to)?;
    if name == DEFAULT_FAMILY {
        return Err(Error::invalid("the default family cannot be renamed"));
    }
    installer.health.check()?;
    let _changing = lock(&installer.catalog.changing_io);
    let id = installer.catalog.families.named(name)?.id;
    if installer.catalog.families.named(to).is_ok() {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("family {to:?} exists")));
    }
    install(installer, vec![Change::RenameFamily { id, name: to.to_owned() }], None)
}

#[cfg(test)]
mod tests;
