//! Moves of tables between the tiers: in the background, and of a family on request.
//!
//! A move never makes writers wait, and no job writes to the cold directory but a move: flushes and
//! compactions write hot tables, so that a cold directory that is slow, full or gone stops nothing.
//!
//! 1. The table is copied to a file of its own, with a new number, in the other tier. The file and
//!    its name are synced.
//! 2. The copy is read back, and each block verified.
//! 3. One edit replaces each reference that belongs there by one to the copy. It takes no table
//!    that a compaction holds; that compaction replaces the table itself.
//! 4. The old file goes by the purge, once no reader uses it.
//!
//! Blob files stay in the hot tier, because families share them. The tables of a frozen family are
//! rewritten with the values that they refer to before they move.
//!
//! A crash before the edit leaves the copy as an orphan, which the next opening removes. A crash
//! after the edit leaves the old file as one.

use crate::{
    background::JobOf,
    catalog::Catalog,
    catalog::family::FamilyData,
    catalog::lazy_family::LazyFamily,
    database::installer::Installer,
    database::job_rooms::JobRooms,
    families::family_options::change_options,
    install::install_with,
    jobs::{
        blobs::remove_unreferenced,
        compact::run_plan,
        context::ended,
        flush::{PATIENCE, flush_all},
    },
    kit::{
        copying::{FileCopy, FilePart, OnProgress, until_closed},
        counters::Counters,
    },
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FileNumber, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::edit::{Change, TableReference, tier::Tier};
use siltdb_tree::{
    files::open_files::{OpenReference, TableId},
    files::version::Version,
    options::{COLD_FROM_LEVEL, TreeOptions},
    planning::pick_tier::misplaced,
};
use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
};

/// A move to be made.
struct Move {
    table: Arc<OpenReference>,
    to: Tier,
}

/// Moves a table that does not lie where its family wants it, unless another thread moves one or a
/// pause is in force. Returns whether it found one.
///
/// # Errors
/// `NoSpace` in the tier that it goes to; `Corruption` of the table, which is not tried again;
/// `Poisoned`; the system's. The table stays where it is.
pub fn move_next(rooms: &JobRooms<'_>) -> Result<bool> {
    if rooms.catalog.files.store(Tier::Cold).is_none() || rooms.background.is_paused() {
        return Ok(false);
    }
    rooms.health.check_log()?;
    // Acquire pairs with the release with which the threads are ended.
    let is_ending = || rooms.background.ending.load(Ordering::Acquire);
    let mut go_on = |_| match is_ending() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let rate = Some(rooms.options.tier_rate);
    let mut copying = FileCopy::new(&*rooms.options.clock, rate, &mut go_on)?;
    let find = || {
        let families = rooms.catalog.families.load();
        // Copied, because this lock is not taken under those of a tree.
        let unmovable: Vec<TableId> =
            lock(&rooms.background.jobs).unmovable.keys().copied().collect();
        let newest = SequenceNumber::MAX;
        let is_misplaced = |family: &&Arc<LazyFamily>| {
            misplaced(&family.version(), &family.options(), newest).next().is_some()
        };
        let mut families = families.iter().filter(is_misplaced);
        families.find_map(|family| next_up_to(family.get(), newest, &unmovable))
    };
    match carry_out(rooms, find, &mut copying) {
        Ok(step) => Ok(step == Step::Moved),
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(false),
        Err(error) => Err(error),
    }
}

/// The next move that is due in a family, of a table with an entry of `newest` or before that is
/// not among `unmovable`.
fn next_up_to(family: &FamilyData, newest: SequenceNumber, unmovable: &[TableId]) -> Option<Move> {
    let (table, to) = family.tree.next_move(newest, &|table| unmovable.contains(&table))?;
    Some(Move { table, to })
}

/// What an attempt to make a move has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A move was found.
    Moved,
    /// None was found.
    NothingFound,
    /// Another thread makes one.
    Busy,
}

/// Makes the move that `find` finds, if no other thread makes one.
fn carry_out(
    rooms: &JobRooms<'_>,
    find: impl FnOnce() -> Option<Move>,
    copying: &mut FileCopy<'_>,
) -> Result<Step> {
    if std::mem::replace(&mut lock(&rooms.background.jobs).is_moving, true) {
        return Ok(Step::Busy);
    }
    let Some(found) = find() else {
        let mut jobs = lock(&rooms.background.jobs);
        jobs.is_moving = false;
        jobs.failures.remove(&JobOf::Tiers);
        // Damage that compactions or the end of a family have removed is none any more.
        jobs.unmovable.retain(|table, _| rooms.catalog.files.is_in_use(table.file));
        return Ok(Step::NothingFound);
    };
    let (id, bytes) = (found.table.id(), found.table.file_bytes());
    let result = move_table(&rooms.installer(), &found, copying);
    // The old file can go now, unless a reader uses it.
    drop(found);
    let result = match result {
        // A cancelled move is no failure of the job.
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(Err(error)),
        result => result.map(Ok),
    };
    let outcome = ended(&rooms.installer(), JobOf::Tiers, result, |jobs| {
        assert!(jobs.is_moving, "two tables were moved at the same time");
        jobs.is_moving = false;
    });
    match outcome {
        Ok(Ok(is_moved)) => {
            Counters::add(&rooms.counters.moved_tables, u64::from(is_moved));
            Counters::add(&rooms.counters.moved_bytes, if is_moved { bytes } else { 0 });
            Ok(Step::Moved)
        }
        Ok(Err(cancelled)) => Err(cancelled),
        Err(error) => {
            if error.kind() == ErrorKind::Corruption {
                lock(&rooms.background.jobs).unmovable.insert(id, error.duplicate());
            }
            Err(error)
        }
    }
}

/// Copies a table, and replaces it by the copy. Returns whether any reference was replaced.
fn move_table(installer: &Installer<'_>, found: &Move, copying: &mut FileCopy<'_>) -> Result<bool> {
    let Move { table, to } = found;
    let files = &installer.catalog.files;
    let store = files.store(*to).ok_or_else(no_cold_directory)?;
    let number = installer.catalog.ids.file();
    assert!(
        !files.is_in_use(number),
        "a table would be copied over file {number}, which is in use"
    );
    // Claimed before it exists, so that no purge takes it for an orphan.
    let claim = files.claim_in(*to, number);
    let source = FilePart::new(table.open_file()?, table.id().offset, table.file_bytes());
    let switched = store
        .put(number, &mut |file| copying.copy(&source, file).map(drop))
        .and_then(|()| verify(installer.catalog, found, number, copying))
        .and_then(|()| switch(installer, table.id(), number, *to));
    drop(claim);
    // If it is unknown whether the edit is durable, the copy stays for the next open, which knows.
    if !matches!(switched, Ok(true)) && installer.health.check_log().is_ok() {
        installer.catalog.files.forget([number]);
    }
    switched
}

/// Reads the copy of a table, and verifies each block.
fn verify(
    catalog: &Catalog,
    Move { table, to }: &Move,
    number: FileNumber,
    copying: &mut FileCopy<'_>,
) -> Result<()> {
    let reference = reference_to(table.reference(), number, *to);
    let copy = catalog.files.reference(reference)?;
    copy.pass()?.verify(&mut |_, _, _| copying.pass(0)).map(drop)
}

/// The same table in a file of its own.
fn reference_to(table: &TableReference, file: FileNumber, tier: Tier) -> TableReference {
    TableReference { file, offset: 0, tier, ..table.clone() }
}

/// Replaces the references to a table that belong into the tier of its copy, by one edit. Returns
/// whether there is one.
fn switch(installer: &Installer<'_>, table: TableId, file: FileNumber, tier: Tier) -> Result<bool> {
    // Under this lock no version changes.
    let manifest = lock(&installer.catalog.manifest_io);
    let families = installer.catalog.families.load();
    let (mut changes, mut plans) = (Vec::new(), Vec::new());
    for family in families.iter().filter(|family| family.version().find(table).is_some()) {
        let family = family.get();
        let Some(plan) = family.tree.begin_move(table, tier) else { continue };
        changes.extend(plan.removals(family.id));
        for table in plan.tables() {
            // A level's number is below `LEVELS`.
            let (level, table) =
                (plan.output_level as u8, reference_to(table.reference(), file, tier));
            changes.push(Change::AddTable { family: family.id, level, table: Arc::new(table) });
        }
        plans.push((family, plan));
    }
    if plans.is_empty() {
        return Ok(false);
    }
    let installed = install_with(installer, manifest, changes, None, &[]);
    for (family, plan) in &plans {
        family.tree.end_plan(plan.name());
    }
    // Compactions may have been refused because of these.
    installer.background.work.raise();
    installed.map(|()| true)
}

/// Moves all tables of a family to the cold tier, and keeps them there: also what compactions write
/// later. Durable on return.
///
/// # Errors
/// `InvalidArgument`, if the database has no cold directory; as [`thaw`].
pub fn freeze(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    rate: Option<u64>,
    on_progress: OnProgress<'_>,
) -> Result<()> {
    if rooms.catalog.files.store(Tier::Cold).is_none() {
        return Err(no_cold_directory());
    }
    settle_in(rooms, family, *COLD_FROM_LEVEL.start(), rate, on_progress)
}

/// Moves all tables of a family to the hot tier, and keeps them there. Durable on return.
///
/// # Errors
/// `NotFound`, if the family was dropped; `NoSpace`; `Corruption`, if a table is damaged or
/// missing; `Cancelled`; `Poisoned`, `Closed`; what a flush fails with. What has moved stays moved,
/// and the background goes on with the rest.
pub fn thaw(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    rate: Option<u64>,
    on_progress: OnProgress<'_>,
) -> Result<()> {
    settle_in(rooms, family, *COLD_FROM_LEVEL.end(), rate, on_progress)
}

#[cold]
fn no_cold_directory() -> Error {
    Error::invalid("the database has no cold directory").with_hint("open it with `cold_directory`")
}

/// Has the tables of a family lie in the cold tier from a level on, and waits until those that are
/// there now do.
fn settle_in(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    cold_from_level: u32,
    rate: Option<u64>,
    on_progress: OnProgress<'_>,
) -> Result<()> {
    rooms.health.check()?;
    family.check()?;
    until_closed(rooms.health, on_progress, |on_progress| {
        let mut copying = FileCopy::new(&*rooms.options.clock, rate, on_progress)?;
        // Before the flush: what is written later separates no values if the family is frozen.
        let options = family.tree.options();
        if options.cold_from_level != cold_from_level {
            let options = TreeOptions { cold_from_level, ..TreeOptions::clone(&options) };
            change_options(&rooms.installer(), family, options)?;
        }
        if !family.tree.view().memory.tables().is_empty() {
            flush_all(rooms)?;
        }
        let newest = rooms.log.publisher.published();
        lock(&rooms.background.jobs).unmovable.clear();
        if family.tree.peek_options().is_frozen() {
            bring_values_in(rooms, family, newest, &mut copying)?;
        }
        move_all(rooms, family, newest, &mut copying)
    })
}

/// Whether a table with an entry of `newest` or before refers to separated values.
fn has_values_out(version: &Version, newest: SequenceNumber) -> bool {
    let is_due =
        |table: &OpenReference| !table.meta().blobs.is_empty() && table.sequence_min() <= newest;
    version.below(|sum| sum.totals.with_blobs > 0).any(|(_, table)| is_due(table))
}

/// Brings separated values into the tables of a frozen family that refer to them and have an entry
/// of `newest` or before. The tables are hot then, and moves follow.
fn bring_values_in(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    newest: SequenceNumber,
    copying: &mut FileCopy<'_>,
) -> Result<()> {
    while !seeded_fault!("frozen_values_stay_hot") {
        rooms.health.check()?;
        family.check()?;
        let seen = rooms.backpressure.room.seen();
        let set = rooms.blobs.set();
        let files = Arc::new(set.iter().map(|file| file.number()).collect());
        match family.tree.begin_moving(&files) {
            Some(plan) => run_plan(rooms, family, plan)?,
            None if !has_values_out(&family.tree.view().version, newest) => break,
            // A compaction or a move holds what is left.
            None => {
                rooms.backpressure.room.wait(seen, PATIENCE);
            }
        }
        copying.pass(0)?;
    }
    if rooms.blobs.is_used() {
        // The current file would stay, although nothing may refer to it any more.
        rooms.blobs.seal_current();
        remove_unreferenced(rooms)?;
    }
    Ok(())
}

/// Moves the tables of a family with an entry of `newest` or before.
fn move_all(
    rooms: &JobRooms<'_>,
    family: &FamilyData,
    newest: SequenceNumber,
    copying: &mut FileCopy<'_>,
) -> Result<()> {
    copying.begin(family.tree.bytes_to_move(newest))?;
    loop {
        rooms.health.check()?;
        family.check()?;
        let seen = rooms.backpressure.room.seen();
        // A table that the background has given up is tried once more: either it can be moved now,
        // or the caller learns why not.
        match carry_out(rooms, || next_up_to(family, newest, &[]), copying)? {
            Step::Moved => continue,
            Step::NothingFound if family.tree.bytes_to_move(newest) == 0 => return Ok(()),
            // A compaction or another move holds what is left.
            Step::NothingFound | Step::Busy => {}
        }
        copying.pass(0)?;
        rooms.backpressure.room.wait(seen, PATIENCE);
    }
}

#[cfg(test)]
mod tests;
