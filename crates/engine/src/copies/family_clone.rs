//! Clones: families that begin with the tables of another, by reference, and then go their own way.
//!
//! It copies no entry, and nothing else knows of clones: readers, compactions, checks and
//! checkpoints find table references, as in any family.
//!
//! 1. The moment of the clone is held as a snapshot, so that no job drops what it sees.
//! 2. What the source has in memory of that moment or before is flushed.
//! 3. Under `manifest_io`, where no version changes, one edit creates the family with the options
//!    of its source. It also gives it a reference to each table that has an entry of that moment or
//!    before.
//!
//! Each family claims the files that it refers to. A file that leaves one family stays as long as
//! another claims it, and is removed by the purge after that (law F7).

use crate::{
    catalog::Catalog,
    catalog::family::{FamilyData, check_name},
    database::job_rooms::JobRooms,
    install::{create_change, install_with},
    jobs::flush::flush_all,
    snapshots::LiveSnapshot,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, SequenceNumber},
    limits::FAMILIES_MAX,
    sync::lock,
};
use siltdb_disk::edit::Change;
use std::sync::Arc;

/// Creates the family `name`, which holds what `source` holds at the snapshot `at`. It is durable
/// on return. It does not see what is newer in `source`, and `source` not what is written to it.
///
/// Cost: a flush, unless the source has nothing of that moment in memory; then an edit with a
/// reference to each table.
///
/// # Errors
/// `AlreadyExists`; `NotFound`, if `source` was dropped; `InvalidArgument`, for a bad name or too
/// many families; what keeps memory from being flushed; as [`install`](crate::install::install).
/// There is no family `name` then.
pub fn clone_family(
    rooms: &JobRooms<'_>,
    source: &FamilyData,
    name: &str,
    at: &LiveSnapshot,
) -> Result<Arc<FamilyData>> {
    let moment = at.sequence();
    check_name(name)?;
    rooms.health.check()?;
    // A flush for nothing would be paid for.
    check_possible(rooms.catalog, source, name)?;
    if is_in_memory(source, moment) {
        flush_all(rooms)?;
    }
    let _changing = lock(&rooms.catalog.changing_io);
    check_possible(rooms.catalog, source, name)?;
    let manifest = lock(&rooms.catalog.manifest_io);
    assert!(!is_in_memory(source, moment), "what was flushed is in memory again");
    let (id, options) = (rooms.catalog.ids.family()?, source.tree.options());
    let changes = clone_changes(source, id, name, moment);
    install_with(&rooms.installer(), manifest, changes, None, options.merge_operator.as_slice())?;
    // It may have compactions due, as its source has.
    rooms.background.work.raise();
    rooms.catalog.families.named(name)
}

/// The changes that create the family `id`, called `name`, with what `source` holds at `moment`.
/// The caller holds `manifest_io`, and `source` has nothing of that moment in memory.
pub(crate) fn clone_changes(
    source: &FamilyData,
    id: FamilyId,
    name: &str,
    moment: SequenceNumber,
) -> Vec<Change> {
    let mut changes = vec![create_change(id, name, &source.tree.options())];
    let version = Arc::clone(&source.tree.view().version);
    let references = version.references_at(moment);
    changes.extend(references.map(|(level, table)| Change::AddTable { family: id, level, table }));
    changes
}

/// Checks that there is a source, and room for a family of this name.
fn check_possible(catalog: &Catalog, source: &FamilyData, name: &str) -> Result<()> {
    source.check()?;
    if catalog.families.named(name).is_ok() {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("family {name:?} exists")));
    }
    if catalog.families.load().len() >= FAMILIES_MAX {
        return Err(Error::invalid("too many families").with_mismatch(FAMILIES_MAX, "one more"));
    }
    Ok(())
}

/// Whether memtables of a family have entries of `moment`, which is published, or before.
pub(crate) fn is_in_memory(family: &FamilyData, moment: SequenceNumber) -> bool {
    let view = family.tree.view();
    let mut ranges = view.memory.tables().iter().map(|table| table.memtable.sequence_range());
    ranges.any(|range| range.is_some_and(|(oldest, _)| oldest <= moment))
}

#[cfg(test)]
mod tests;
