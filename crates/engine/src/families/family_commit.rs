//! Commits that create and drop families together with data, such as a schema row and its family.
//!
//! The log decides: one record carries the changes of families and the operations of the batch. The
//! manifest follows, in the edit that the commit installs. If that fails, it follows in the next
//! edit.
//!
//! 1. A family is prepared: it has an id and a tree, in memory alone.
//! 2. The record gets its place and is filled, and its operations go into memtables.
//! 3. Under `manifest_io`, before readers see the operations, the families are put in force. From
//!    now on the manifest owes their changes: its next edit must include them.
//! 4. The commit is published, and the log synced up to its end, so that no edit is ahead of it.
//! 5. The edit records the changes, and the log position up to which it does so.
//!
//! After a crash before the record is durable, neither families nor data exist. After a later
//! crash, recovery applies the changes of each record behind the position in the manifest, and owes
//! them again.
//!
//! A family can also be dropped by an edit alone (`drop_family`). That drop has no number, and is
//! placed between commits by a wait.
//!
//! From 3 to 5 no other edit is made, so that no edit names families whose record may be lost. The
//! commit waits for `manifest_io` while it holds a place in the log. So no holder of `manifest_io`
//! may wait for publication.

use crate::{
    catalog::{
        Catalog,
        branches::FamilyRole,
        family::{DEFAULT_FAMILY, DropState, FamilyChanges, FamilyData},
        family_map::FamilyMap,
        manifest::Manifest,
    },
    database::Database,
    database::installer::Installer,
    database::writable::Writable,
    install::{create_change, install, install_with, target::Target},
    lock_state::lock_table::LockOwner,
    log::sequencer::{Counts, Reservation},
    transactions::conditional_commit::Conditions,
    write::{
        commit::{Committed, check_families, commit_parts_if, insert_batch},
        locks::{admit_batch, writes_of},
        log_sync::sync_unnoted,
        separation::{separate_batch, stored_batch},
    },
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber, SequenceNumber},
    limits::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, FAMILIES_MAX},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    batch::BatchBytes,
    branch_record::BranchChange,
    edit::{Change, Edit},
    family_batch::encode_changes,
    log::record::{LogPosition, RecordKind},
};
use siltdb_tree::{options::TreeOptions, tree::Tree};
use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, MutexGuard},
};

/// Prepares a family that a commit can create. It costs memory alone, which is freed with its last
/// handle.
///
/// # Errors
/// `InvalidArgument`, for a bad name, bad options, or if ids are used up; `Unsupported`, for a
/// codec that this build cannot write; `ReadOnly`, `Poisoned`, `Closed`.
pub fn prepare_family(
    catalog: &Catalog,
    name: &str,
    options: TreeOptions,
) -> Result<Arc<FamilyData>> {
    catalog.check_new(name, &options)?;
    let id = catalog.ids.family()?;
    let holders = Arc::clone(catalog.families.holders());
    let tree = Tree::new(id, options, Arc::clone(&catalog.files)).with_holders(holders);
    Ok(Arc::new(FamilyData::prepared(id, name, tree)))
}

/// Commits a batch, which may be empty, with changes of families, if nothing that `conditions` name
/// has changed. Both are durable on return. Returns the sequence number of its last operation.
///
/// # Errors
/// `Conflict`, if something changed; `AlreadyExists`, if a created family has the name of a
/// remaining one, or was created before; `NotFound`, if a dropped family, or one of the batch, does
/// not exist; `InvalidArgument`, if the default family is dropped, or a limit exceeded; otherwise
/// as [`commit`](crate::write::commit::commit).
pub fn commit_with_families(
    writable: Writable<'_>,
    batch: &BatchBytes,
    changes: &FamilyChanges,
    conditions: &Conditions<'_>,
) -> Result<SequenceNumber> {
    let database = writable.database();
    database.health.check()?;
    let families = database.catalog.families.load();
    let is_of_branch = |id: &FamilyId| families.get(*id).is_some_and(|f| f.role != FamilyRole::Own);
    if changes.dropped.iter().any(is_of_branch) {
        return Err(Error::invalid("a family of a branch cannot be dropped alone")
            .with_hint("drop the branch"));
    }
    commit_with_changes(writable, batch, || Ok(Cow::Borrowed(changes)), conditions)
}

/// Commits a batch with the changes of families and branches that `changes` returns, if nothing
/// that `conditions` name has changed. While `changes` runs, and until the commit is made, no other
/// call changes families. After a wait for locks it runs again.
///
/// # Errors
/// Those of `changes`; as [`commit_with_families`].
pub fn commit_with_changes<'c>(
    writable: Writable<'_>,
    batch: &BatchBytes,
    changes: impl Fn() -> Result<Cow<'c, FamilyChanges>>,
    conditions: &Conditions<'_>,
) -> Result<SequenceNumber> {
    let database = writable.database();
    // `changing_io` is not held here, because this waits for locks of transactions.
    let commit = |owner| {
        let _changing = lock(&database.catalog.changing_io);
        commit_changing(database, batch, owner, &*changes()?, conditions)
    };
    let writes = || {
        let families = database.catalog.families.load();
        let ids = batch.operations().filter_map(|operation| Some(operation.ok()?.family));
        let ids: BTreeSet<_> = ids.collect();
        let found = ids.iter().filter_map(|id| Some((*id, Arc::clone(families.get(*id)?))));
        writes_of(batch, &found.collect::<Vec<_>>()).collect()
    };
    conditions.writer.commit(&database.locks, &database.options, commit, writes)
}

/// Commits a batch with changes of families and branches, if nothing that `conditions` name has
/// changed. The caller holds `changing_io`.
///
/// # Errors
/// As [`commit_with_families`].
fn commit_changing(
    database: &Database,
    batch: &BatchBytes,
    owner: Option<LockOwner>,
    changes: &FamilyChanges,
    conditions: &Conditions<'_>,
) -> Result<SequenceNumber> {
    let (map, dropped) = changed(&database.catalog, changes)?;
    let (families, counts) = check_families(&database.catalog, batch, &changes.created)?;
    let published =
        conditions.check_published(&database.log, &database.options, batch, &families)?;
    let separated = separate_batch(database, batch, &families)?;
    let (batch, separated) = stored_batch(batch, separated.as_ref());
    let edit = edit(changes);
    let mut head = Vec::new();
    encode_changes(&edit, &mut head);
    check_size(batch, &head)?;
    // The changes of families take a sequence number, too.
    let counts = Counts { all: counts.all + 1, ..counts };
    let mut manifest = None;
    let parts = &[&head[..], batch.as_bytes()][..];
    let kind = RecordKind::FamilyBatch;
    let admit = |reservation: &Reservation| {
        admit_batch(&database.locks, owner, batch, &families)?;
        if seeded_fault!("change_of_families_validated_once") {
            return Ok(());
        }
        conditions.check_between(database, batch, &families, published, reservation)
    };
    let Committed { end, last } =
        commit_parts_if(database, kind, parts, counts, admit, |reservation| {
            separated.note(reservation.at().segment);
            insert_batch(&database.memory, batch, reservation, reservation.first.next(), &families);
            let mut owing = lock(&database.catalog.manifest_io);
            let position = behind(reservation.at());
            let said = Change::FamiliesLogged { position };
            owing.owe(edit.changes.into_iter().chain([said]).collect(), files_of(&dropped));
            dropped.iter().for_each(|family| family.keep_blobs(&database.blobs.set()));
            database.catalog.families.store_changed(map, changes, &dropped);
            for family in &dropped {
                database.installer().note_dropped(family.id);
            }
            manifest = Some(owing);
        })?;
    let manifest = manifest.expect("a record that was committed was put into memory");
    let said = say(&database.installer(), manifest, end);
    database.background.work.raise();
    said.map(|()| last)
}

/// Drops a family by an edit that is no commit: a drop needs no space in the log, because it may be
/// there to free space.
///
/// # Errors
/// `NotFound`; `InvalidArgument` for the default family; as [`install`].
pub fn drop_family(installer: &Installer<'_>, name: &str) -> Result<()> {
    if name == DEFAULT_FAMILY {
        return Err(Error::invalid("the default family cannot be dropped"));
    }
    installer.health.check()?;
    let _changing = lock(&installer.catalog.changing_io);
    let id = installer.catalog.families.named(name)?.id;
    let _begun = begin_drop(installer, &[id])?;
    install(installer, vec![Change::DropFamily { id }], None)?;
    installer.background.work.raise();
    Ok(())
}

/// A drop of families that is no commit, until it is carried out or has failed.
#[derive(Debug)]
pub struct BegunDrop(Vec<Arc<FamilyData>>);

impl Drop for BegunDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(|family| family.set_leaving(DropState::Over));
    }
}

/// Gives the drop of families by an edit that is no commit its place between the commits. The
/// caller holds `changing_io`, but not `manifest_io`.
///
/// From now on a commit that has read one of the families and has no place yet fails with
/// `Conflict`. Those with a place are published on return. So no reader of the edit can miss a
/// commit that came before it.
///
/// # Errors
/// `Poisoned`.
#[must_use = "the drop is over once this is dropped"]
pub fn begin_drop(installer: &Installer<'_>, ids: &[FamilyId]) -> Result<BegunDrop> {
    let families = installer.catalog.families.load();
    let begun = BegunDrop(ids.iter().filter_map(|id| families.get(*id)).cloned().collect());
    begun.0.iter().for_each(|family| family.set_leaving(DropState::Begun));
    // The lock orders the two kinds of commits: a later one sees the state of the families.
    let (last, _) = lock(&installer.log.sequencer).last();
    if !seeded_fault!("drop_without_a_number_waits_for_none") {
        installer.log.publisher.wait(last);
        installer.health.check_log()?;
    }
    let published = installer.log.publisher.published();
    assert!(published >= last, "families would be dropped before {last}: {published} is published");
    Ok(begun)
}

/// The map of families after the changes, and the dropped families.
fn changed(
    catalog: &Catalog,
    changes: &FamilyChanges,
) -> Result<(FamilyMap, Vec<Arc<FamilyData>>)> {
    if let Some(family) = changes.created.iter().find(|family| family.was_created()) {
        let message = format!("family {:?} was created before", family.name());
        return Err(Error::new(ErrorKind::AlreadyExists, message)
            .with_hint("a prepared family is created once: prepare another"));
    }
    let families = &catalog.families;
    if changes.dropped.contains(&families.named(DEFAULT_FAMILY)?.id) {
        return Err(Error::invalid("the default family cannot be dropped"));
    }
    let mut map = families.load().to_builder();
    let dropped = map.change(changes)?;
    let map = map.finish()?;
    if map.len() > FAMILIES_MAX {
        let count = map.len();
        return Err(Error::invalid("too many families").with_mismatch(FAMILIES_MAX, count));
    }
    Ok((map, dropped))
}

/// The changes as an edit, for log and manifest.
fn edit(changes: &FamilyChanges) -> Edit {
    let dropped = changes.dropped.iter().map(|&id| Change::DropFamily { id });
    let created = changes.created.iter();
    let created =
        created.map(|family| create_change(family.id, &family.name(), &family.tree.options()));
    let branches = changes.branches.iter().cloned().map(BranchChange::Recorded);
    Edit { changes: dropped.chain(created).chain(branches.map(Change::Branch)).collect() }
}

fn check_size(batch: &BatchBytes, head: &[u8]) -> Result<()> {
    let bytes = batch.as_bytes().len() + head.len();
    if bytes > BATCH_BYTES_MAX || batch.count() as usize >= BATCH_OPERATIONS_MAX {
        return Err(Error::invalid("a batch is too long with its changes of families")
            .with_mismatch(format_args!("at most {BATCH_BYTES_MAX} bytes"), bytes));
    }
    Ok(())
}

/// A position after the beginning of the record at `at`, and before the next record.
fn behind(at: LogPosition) -> LogPosition {
    LogPosition { offset: at.offset + 1, ..at }
}

fn files_of(dropped: &[Arc<FamilyData>]) -> Vec<FileNumber> {
    let views = dropped.iter().map(|family| Arc::clone(&family.tree.view()));
    views
        .flat_map(|view| {
            view.version.tables().map(|(_, table)| table.id().file).collect::<Vec<_>>()
        })
        .collect()
}

/// Syncs the log up to `end`, the end of a commit with changes of families, then makes the edit
/// that records them. If there is no space for the edit, a later one records them: the log has them
/// durably.
fn say(
    installer: &Installer<'_>,
    manifest: MutexGuard<'_, Manifest>,
    end: LogPosition,
) -> Result<()> {
    if !seeded_fault!("families_ahead_of_the_log") {
        sync_unnoted(installer, end)?;
    }
    match install_with(installer, manifest, Vec::new(), None, &[]) {
        Err(error) if error.kind() == ErrorKind::Poisoned => Err(error),
        Err(error) => {
            log::warn!("the manifest does not have changes of families yet: {error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Applies the changes of families in a replayed record, and notes in `owed` that the manifest
/// lacks them.
///
/// # Errors
/// `Corruption`, if they do not fit; failures of decoding options.
pub fn replay_changes(
    target: &Target<'_>,
    edit: Edit,
    at: LogPosition,
    owed: &mut Vec<Change>,
) -> Result<()> {
    let mut changes = FamilyChanges::default();
    for change in &edit.changes {
        match change {
            Change::CreateFamily { id, name, options } => {
                let family = FamilyData::prepared(*id, name, target.new_tree(*id, options)?);
                changes.created.push(Arc::new(family));
            }
            Change::DropFamily { id } => changes.dropped.push(*id),
            Change::Branch(BranchChange::Recorded(record)) => {
                changes.branches.push(Arc::clone(record))
            }
            _ => return Err(Error::corruption("a batch changes more than families")),
        }
    }
    let mut map = target.families.load().to_builder();
    let changed = map.change(&changes).and_then(|dropped| Ok((map.finish()?, dropped)));
    let (map, dropped) = changed.map_err(|error| {
        Error::corruption("the families do not match the changes of a commit").with_source(error)
    })?;
    target.families.store_changed(map, &changes, &dropped);
    owed.extend(edit.changes);
    owed.push(Change::FamiliesLogged { position: behind(at) });
    Ok(())
}

#[cfg(test)]
mod tests;
