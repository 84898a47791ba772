//! Branches: clones of families that are created, named and dropped together.
//!
//! It compares and merges nothing.
//!
//! A branch is a record in the manifest. For each of its families it names two clones: the *head*,
//! which is read and written on the branch, and the *base*, which stays as the branch began. The
//! families of branches are found by their branch and not by their name, so that names repeat.
//!
//! 1. The moment of the branch is held as a snapshot.
//! 2. What the sources have in memory of that moment or before is flushed.
//! 3. Under `manifest_io`, one edit creates all families and the record. So a branch is whole or
//!    not there, and so is its end: one edit drops its families and the record.

use crate::{
    catalog::{
        Catalog,
        branches::{check_branch_name, check_name_free},
        family::FamilyData,
    },
    copies::family_clone::{clone_changes, is_in_memory},
    database::installer::Installer,
    database::job_rooms::JobRooms,
    families::family_commit::begin_drop,
    install::{create_change, install, install_with},
    jobs::flush::flush_all,
    snapshots::LiveSnapshot,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{BranchId, FamilyId, SequenceNumber},
    limits::FAMILIES_MAX,
    sync::lock,
};
use siltdb_disk::{
    branch_record::{BranchChange, BranchFamily, BranchRecord},
    edit::Change,
};
use siltdb_tree::{merge_operator::MergeOperator, options::TreeOptions};
use std::sync::Arc;

/// Creates the branch `name` of `parent` with what `sources`, which are families of `parent`, hold
/// at the snapshot `at`. It is durable on return.
///
/// Cost: a flush, unless the sources have nothing of that moment in memory; then an edit with two
/// references to each table.
///
/// # Errors
/// `AlreadyExists`; `NotFound`, if a source was dropped; `InvalidArgument`, for a bad name, no
/// families, or too many; as [`clone_family`](crate::copies::family_clone::clone_family). There is
/// no such branch then.
pub fn create_branch(
    rooms: &JobRooms<'_>,
    name: &str,
    parent: BranchId,
    sources: &[Arc<FamilyData>],
    at: &LiveSnapshot,
) -> Result<Arc<BranchRecord>> {
    let moment = at.sequence();
    check_branch_name(name)?;
    rooms.health.check()?;
    // A flush for nothing would be paid for.
    check_possible(rooms.catalog, name, sources)?;
    flush_up_to(rooms, sources, moment)?;
    let _changing = lock(&rooms.catalog.changing_io);
    check_possible(rooms.catalog, name, sources)?;
    let manifest = lock(&rooms.catalog.manifest_io);
    let ids = &rooms.catalog.ids;
    // Families and branches share their numbers, and 0 is taken.
    let id = BranchId(ids.family()?.0);
    let (mut changes, mut families) = (Vec::new(), Vec::new());
    for source in sources {
        assert!(!is_in_memory(source, moment), "what was flushed is in memory again");
        let family = BranchFamily { head: ids.family()?, base: ids.family()?, next_base: None };
        for id in family.ids() {
            changes.extend(clone_changes(source, id, &source.name(), moment));
        }
        families.push(family);
    }
    let begun_ms = rooms.options.clock.wall_ms();
    let name = name.to_owned();
    let record = BranchRecord { id, name, parent, begun: moment, begun_ms, families };
    changes.push(recorded(record));
    install_with(&rooms.installer(), manifest, changes, None, &operators(sources))?;
    // Heads may have compactions due, as their sources have.
    rooms.background.work.raise();
    rooms.catalog.families.load().branches().get(id).cloned()
}

fn check_possible(catalog: &Catalog, name: &str, sources: &[Arc<FamilyData>]) -> Result<()> {
    let families = catalog.families.load();
    check_name_free(families.branches(), name, None)?;
    if sources.is_empty() {
        return Err(Error::invalid("a branch has at least one family"));
    }
    sources.iter().try_for_each(|source| source.check())?;
    check_room(families.len() + 2 * sources.len())
}

fn check_room(families: usize) -> Result<()> {
    if families > FAMILIES_MAX {
        return Err(Error::invalid("too many families")
            .with_mismatch(FAMILIES_MAX, families)
            .with_hint("each family of a branch counts as two"));
    }
    Ok(())
}

fn flush_up_to(
    rooms: &JobRooms<'_>,
    sources: &[Arc<FamilyData>],
    moment: SequenceNumber,
) -> Result<()> {
    if sources.iter().any(|source| is_in_memory(source, moment)) {
        flush_all(rooms)?;
    }
    Ok(())
}

fn operators(sources: &[Arc<FamilyData>]) -> Vec<Arc<dyn MergeOperator>> {
    sources.iter().filter_map(|source| source.tree.options().merge_operator.clone()).collect()
}

/// Gives a branch a next base for each of its families in `sources`: what the source, a family of
/// the branch or of its parent, holds at the snapshot `at`. Replaces those of a merge that did not
/// end. Durable on return.
///
/// # Errors
/// `Conflict`, if the bases are not those of `known` any more; as [`create_branch`].
pub fn begin_bases(
    rooms: &JobRooms<'_>,
    known: &BranchRecord,
    sources: &[(FamilyId, Arc<FamilyData>)],
    at: &LiveSnapshot,
) -> Result<Arc<BranchRecord>> {
    let moment = at.sequence();
    let all: Vec<Arc<FamilyData>> = sources.iter().map(|(_, source)| Arc::clone(source)).collect();
    flush_up_to(rooms, &all, moment)?;
    let _changing = lock(&rooms.catalog.changing_io);
    let families = rooms.catalog.families.load();
    let mut record = (**families.branches().get(known.id)?).clone();
    let bases = |record: &BranchRecord| -> Vec<FamilyId> {
        record.families.iter().map(|family| family.base).collect()
    };
    if bases(&record) != bases(known) {
        return Err(base_moved());
    }
    all.iter().try_for_each(|source| source.check())?;
    check_room(families.len() + all.len())?;
    let manifest = lock(&rooms.catalog.manifest_io);
    let (mut created, mut dropped) = (Vec::new(), Vec::new());
    for family in &mut record.families {
        dropped.extend(family.next_base.take().map(|id| Change::DropFamily { id }));
        let Some((_, source)) = sources.iter().find(|(head, _)| *head == family.head) else {
            continue;
        };
        assert!(!is_in_memory(source, moment), "what was flushed is in memory again");
        let next = rooms.catalog.ids.family()?;
        created.extend(clone_changes(source, next, &source.name(), moment));
        family.next_base = Some(next);
    }
    let recorded = recorded(record);
    let changes = created.into_iter().chain(dropped).chain([recorded]).collect();
    install_with(&rooms.installer(), manifest, changes, None, &operators(&all))?;
    rooms.catalog.families.load().branches().get(known.id).cloned()
}

/// The failure of a merge that another one has overtaken.
#[cold]
#[must_use]
pub fn base_moved() -> Error {
    Error::new(ErrorKind::Conflict, "another merge moved the base of the branch")
        .with_hint("merge again")
}

/// Drops a branch with everything in it. Branches that began with it stay.
///
/// # Errors
/// `NotFound`; `InvalidArgument`, for `main` and for the branch that is checked out; as
/// [`install`].
pub fn drop_branch(installer: &Installer<'_>, name: &str) -> Result<()> {
    installer.health.check()?;
    let _changing = lock(&installer.catalog.changing_io);
    let families = installer.catalog.families.load();
    let branches = families.branches();
    let Some(record) = branches.named(name)? else {
        return Err(Error::invalid("main cannot be dropped"));
    };
    if branches.checked_out() == record.id {
        return Err(Error::invalid(format!("branch {name:?} is checked out"))
            .with_hint("check out another one first"));
    }
    let ids: Vec<_> = record.families.iter().flat_map(|family| family.ids()).collect();
    let dropped = Change::Branch(BranchChange::Dropped(record.id));
    let _begun = begin_drop(installer, &ids)?;
    let changes = ids.into_iter().map(|id| Change::DropFamily { id }).chain([dropped]).collect();
    install(installer, changes, None)?;
    installer.background.work.raise();
    Ok(())
}

/// Renames a branch. Handles of it stay valid.
///
/// # Errors
/// `NotFound`; `AlreadyExists`; `InvalidArgument`, for a bad name and for `main`; as [`install`].
pub fn rename_branch(installer: &Installer<'_>, name: &str, to: &str) -> Result<()> {
    check_branch_name(to)?;
    installer.health.check()?;
    let _changing = lock(&installer.catalog.changing_io);
    let families = installer.catalog.families.load();
    let branches = families.branches();
    let Some(record) = branches.named(name)? else {
        return Err(Error::invalid("main cannot be renamed"));
    };
    check_name_free(branches, to, None)?;
    let record = BranchRecord { name: to.to_owned(), ..(**record).clone() };
    install(installer, vec![recorded(record)], None)
}

/// Makes a branch, or `main`, the one that is checked out.
///
/// # Errors
/// `NotFound`; as [`install`].
pub fn check_out(installer: &Installer<'_>, name: &str) -> Result<()> {
    installer.health.check()?;
    let _changing = lock(&installer.catalog.changing_io);
    let families = installer.catalog.families.load();
    let branches = families.branches();
    let id = branches.named(name)?.map_or(BranchId::MAIN, |record| record.id);
    if branches.checked_out() == id {
        return Ok(());
    }
    install(installer, vec![Change::Branch(BranchChange::CheckedOut(id))], None)
}

/// The families of a branch, or the database's own, that are read and written, sorted by name.
///
/// # Errors
/// `NotFound`, if the branch was dropped.
pub fn heads(catalog: &Catalog, id: BranchId) -> Result<Vec<Arc<FamilyData>>> {
    let families = catalog.families.load();
    if id == BranchId::MAIN {
        return Ok(families.own().map(|family| Arc::clone(family.get())).collect());
    }
    let parts = &families.branches().get(id)?.families;
    let mut heads: Vec<_> = parts.iter().filter_map(|part| families.get(part.head)).collect();
    heads.sort_by_key(|family| family.name());
    Ok(heads.into_iter().cloned().collect())
}

/// The family of a branch called `name`.
///
/// # Errors
/// `NotFound`, if there is none, or the branch was dropped.
pub fn head(catalog: &Catalog, id: BranchId, name: &str) -> Result<Arc<FamilyData>> {
    if id == BranchId::MAIN {
        return catalog.families.named(name);
    }
    let found = heads(catalog, id)?.into_iter().find(|family| *family.name() == *name);
    found.ok_or_else(|| {
        let families = catalog.families.load();
        let branch = families.branches().name(id).unwrap_or_default();
        let message = format!("no family {name:?} on branch {branch:?}");
        Error::new(ErrorKind::NotFound, message)
            .with_hint("a branch has the families that it was created with")
    })
}

/// The families with these names, or all, of a branch; `None` is the database itself.
///
/// # Errors
/// `NotFound`, if there is no such branch, or no such family there.
pub fn chosen_heads(
    catalog: &Catalog,
    branch: Option<&str>,
    names: Option<&[String]>,
) -> Result<Vec<Arc<FamilyData>>> {
    let families = catalog.families.load();
    let record = match branch {
        None => None,
        Some(name) => families.branches().named(name)?,
    };
    let branch = record.map_or(BranchId::MAIN, |record| record.id);
    match names {
        Some(names) => names.iter().map(|name| head(catalog, branch, name)).collect(),
        None => heads(catalog, branch),
    }
}

/// Creates a branch with empty families, for a copy of another database: the name and options of
/// each. Without a parent, that of the branch was dropped. Returns it; its families are in the same
/// order.
///
/// # Errors
/// As [`create_branch`].
pub fn create_empty_branch(
    installer: &Installer<'_>,
    record: &BranchRecord,
    parent: Option<BranchId>,
    families: &[(&str, TreeOptions)],
) -> Result<Arc<BranchRecord>> {
    check_branch_name(&record.name)?;
    let _changing = lock(&installer.catalog.changing_io);
    check_room(installer.catalog.families.load().len() + 2 * families.len())?;
    let ids = &installer.catalog.ids;
    // One that no branch has or gets.
    let parent = parent.map_or_else(|| ids.family().map(|id| BranchId(id.0)), Ok)?;
    let id = BranchId(ids.family()?.0);
    let (mut changes, mut parts) = (Vec::new(), Vec::new());
    for (name, options) in families {
        let part = BranchFamily { head: ids.family()?, base: ids.family()?, next_base: None };
        changes.extend(part.ids().map(|id| create_change(id, name, options)));
        parts.push(part);
    }
    let record = BranchRecord { id, parent, families: parts, ..record.clone() };
    changes.push(recorded(record));
    let given = families.iter().filter_map(|(_, options)| options.merge_operator.clone());
    let given: Vec<Arc<dyn MergeOperator>> = given.collect();
    let manifest = lock(&installer.catalog.manifest_io);
    install_with(installer, manifest, changes, None, &given)?;
    installer.catalog.families.load().branches().get(id).cloned()
}

/// The change that records a branch.
fn recorded(record: BranchRecord) -> Change {
    Change::Branch(BranchChange::Recorded(Arc::new(record)))
}

#[cfg(test)]
mod tests;
