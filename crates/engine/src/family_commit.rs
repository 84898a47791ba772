//! Commits that create and drop families together with data: a schema row and its family.
//!
//! The log decides: one record carries the changes of families and the operations of the batch. The
//! manifest follows, in the edit that the commit installs or, should that fail, in the next one.
//!
//! 1. A family is prepared: it has an id and a tree, in memory alone.
//! 2. The record gets its place, is filled, and its operations go into memtables.
//! 3. Under `manifest_io`, before readers see the operations, the families come into force, and the
//!    manifest owes their changes to its next edit.
//! 4. The commit is published, and the log synced up to its end: no edit runs ahead of the log.
//! 5. The edit says the changes, and up to where in the log it does.
//!
//! A crash before the record is durable leaves nothing of either. After that, recovery makes the
//! changes of each record behind the position that the manifest names, and owes them again.
//!
//! From 3 to 5 no other edit is made, so that none tells of families whose record may be lost. It
//! is waited for with a place in the log in hand: what is waited for never waits for publication.

use crate::{
    catalog::{
        family::{DEFAULT_FAMILY, FamilyChanges, FamilyData, FamilyMap, check_name},
        manifest::Manifest,
    },
    commit::{Committed, check_families, commit_parts_if, insert_batch},
    database::Database,
    install::{Target, create_change, install_with, new_tree},
    lock_table::LockOwner,
    locks::{Writer, admit_batch, writes_of},
    log::sequencer::{Counts, Reservation},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FileNumber,
    limits::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, FAMILIES_MAX},
    sync::lock,
};
use siltdb_disk::{
    batch::BatchBytes,
    edit::{Change, Edit, NEXT_FAMILY_MAX},
    family_batch::encode_changes,
    log::record::{LogPosition, RecordKind},
};
use siltdb_tree::{options::TreeOptions, tree::Tree};
use std::sync::{Arc, MutexGuard};

/// A family that a commit can create. It costs memory alone, and goes with its last handle.
///
/// # Errors
/// `InvalidArgument`, for a bad name, bad options, or if ids are used up; `ReadOnly`, `Poisoned`,
/// `Closed`.
pub fn prepare_family(
    database: &Database,
    name: &str,
    options: TreeOptions,
) -> Result<Arc<FamilyData>> {
    check_name(name)?;
    options.check()?;
    database.health.check()?;
    if database.catalog.ids.next_family() >= NEXT_FAMILY_MAX {
        return Err(Error::invalid("ids of families are used up"));
    }
    let id = database.catalog.ids.family();
    let holders = Arc::clone(database.catalog.families.holders());
    let tree = Tree::new(id, options, Arc::clone(&database.catalog.files)).with_holders(holders);
    Ok(Arc::new(FamilyData::prepared(id, name, tree)))
}

/// Commits a batch, which may be empty, with changes of families. On return both are durable.
///
/// # Errors
/// `AlreadyExists`, if a created family has the name of one that stays, or was created before;
/// `NotFound`, if a dropped family, or one of the batch, does not exist; `InvalidArgument`, if the
/// default family is dropped, or a limit exceeded; otherwise as [`commit`](crate::commit::commit).
pub fn commit_with_families(
    database: &Database,
    batch: &BatchBytes,
    changes: &FamilyChanges,
) -> Result<()> {
    database.health.check()?;
    // Not with `changing_io`: it waits for locks.
    let commit = |owner| commit_changes(database, (batch, owner), changes);
    let writes = || {
        let families = database.catalog.families.load();
        let families: Vec<_> = families.iter().map(|f| (f.id, Arc::clone(f))).collect();
        writes_of(batch, &families).collect()
    };
    Writer::plain(database).commit(database, commit, writes)
}

fn commit_changes(
    database: &Database,
    (batch, owner): (&BatchBytes, Option<LockOwner>),
    changes: &FamilyChanges,
) -> Result<()> {
    let _changing = lock(&database.catalog.changing_io);
    let (map, dropped) = changed(database, changes)?;
    let (families, counts) = check_families(database, batch, &changes.created)?;
    let edit = edit(changes);
    let mut head = Vec::new();
    encode_changes(&edit, &mut head);
    check_size(batch, &head)?;
    // The changes take a sequence number, too.
    let counts = Counts { all: counts.all + 1, ..counts };
    let mut manifest = None;
    let record = (RecordKind::FamilyBatch, &[&head[..], batch.as_bytes()][..]);
    let admit = |_: &Reservation| admit_batch(database, owner, batch, &families);
    let Committed { end, .. } = commit_parts_if(database, record, counts, admit, |reservation| {
        insert_batch(database, batch, (reservation, reservation.first.next()), &families);
        let mut owing = lock(&database.catalog.manifest_io);
        let position = behind(reservation.at());
        let said = Change::FamiliesLogged { position };
        owing.owe(edit.changes.into_iter().chain([said]).collect(), files_of(&dropped));
        database.catalog.families.store_changed(map, changes, &dropped);
        for family in &dropped {
            database.note_dropped(family.id);
        }
        manifest = Some(owing);
    })?;
    let manifest = manifest.expect("a record that was committed was put into memory");
    let said = say(database, manifest, end);
    database.background.work.raise();
    said
}

/// The families as the changes make them, and those that go.
fn changed(
    database: &Database,
    changes: &FamilyChanges,
) -> Result<(FamilyMap, Vec<Arc<FamilyData>>)> {
    if let Some(family) = changes.created.iter().find(|family| family.was_created()) {
        let message = format!("family {:?} was created before", family.name());
        return Err(Error::new(ErrorKind::AlreadyExists, message)
            .with_hint("a prepared family is created once: prepare another"));
    }
    let families = &database.catalog.families;
    if changes.dropped.contains(&families.named(DEFAULT_FAMILY)?.id) {
        return Err(Error::invalid("the default family cannot be dropped"));
    }
    let mut map = (*families.load()).clone();
    let dropped = map.change(changes)?;
    if map.len() > FAMILIES_MAX {
        let count = map.len();
        return Err(Error::invalid("too many families").with_mismatch(FAMILIES_MAX, count));
    }
    Ok((map, dropped))
}

/// The changes as log and manifest say them.
fn edit(changes: &FamilyChanges) -> Edit {
    let dropped = changes.dropped.iter().map(|&id| Change::DropFamily { id });
    let created = changes.created.iter();
    let created =
        created.map(|family| create_change(family.id, &family.name(), &family.tree.options()));
    Edit { changes: dropped.chain(created).collect() }
}

fn check_size(batch: &BatchBytes, head: &[u8]) -> Result<()> {
    let bytes = batch.as_bytes().len() + head.len();
    if bytes > BATCH_BYTES_MAX || batch.count() as usize >= BATCH_OPERATIONS_MAX {
        return Err(Error::invalid("a batch is too long with its changes of families")
            .with_mismatch(format_args!("at most {BATCH_BYTES_MAX} bytes"), bytes));
    }
    Ok(())
}

/// A position behind the begin of the record at `at`, and before any later one.
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

/// Syncs the log up to `end`, the end of a commit with changes of families, and then makes the edit
/// that says them. Should there be no space for the edit, a later one says them: they are durable.
fn say(database: &Database, manifest: MutexGuard<'_, Manifest>, end: LogPosition) -> Result<()> {
    if !cfg!(seeded_fault = "families_ahead_of_the_log") {
        let synced = database.log.wal.sync_to(end, &database.health)?;
        lock(&database.log.sequencer).synced(synced);
    }
    match install_with(database, manifest, (Vec::new(), None), None) {
        Err(error) if error.kind() == ErrorKind::Poisoned => Err(error),
        Err(error) => {
            log::warn!("the manifest was not told of families yet: {error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Makes the changes of a record that is replayed, and notes that the manifest owes them.
///
/// # Errors
/// `Corruption`, if they do not fit; what decoding options fails with.
pub fn replay_changes(
    target: &Target<'_>,
    edit: Edit,
    (at, owed): (LogPosition, &mut Vec<Change>),
) -> Result<()> {
    let mut changes = FamilyChanges::default();
    for change in &edit.changes {
        match change {
            Change::CreateFamily { id, name, options } => {
                let family = FamilyData::prepared(*id, name, new_tree(target, *id, options)?);
                changes.created.push(Arc::new(family));
            }
            Change::DropFamily { id } => changes.dropped.push(*id),
            _ => return Err(Error::corruption("a batch changes more than families")),
        }
    }
    let mut map = (*target.families.load()).clone();
    let dropped = map.change(&changes).map_err(|error| {
        Error::corruption("a commit changes families that are not as it found them")
            .with_source(error)
    })?;
    target.families.store_changed(map, &changes, &dropped);
    owed.extend(edit.changes);
    owed.push(Change::FamiliesLogged { position: behind(at) });
    Ok(())
}

#[cfg(test)]
mod tests;
