//! Writes entries that come from outside of the database into tables of the deepest level.
//!
//! It installs nothing. The family must be one that nothing was written to.

use crate::{
    options::TreeOptions,
    planning::borders::Borders,
    retain::{
        entries::{CompactionIter, Rules},
        stripes::{OlderEntries, Stripes},
    },
    rewrite::block_copy::BlockCopies,
    rewrite::job::{JobContext, NewTables, Opening},
    rewrite::job_cursor::JobCursor,
    rewrite::output::{Destination, Merged, OutputIter, OutputPlace, SharedSequence, write_tables},
};
use siltdb_base::{
    cursor::EntryCursor,
    error::Result,
    id::{FamilyId, SequenceNumber},
    limits::LEVELS,
    tombstone::Fragments,
};
use std::sync::Arc;

/// Where entries are loaded to.
#[derive(Clone, Copy, Debug)]
pub struct LoadTarget<'a> {
    /// The id of the family.
    pub family: FamilyId,
    /// The family's options.
    pub options: &'a TreeOptions,
    /// The sequence number that all entries get. Every later write has a greater one.
    pub sequence: SequenceNumber,
}

/// Writes the values of `cursor`, from its first entry on; those that have expired are left out.
/// The tables are verified, and the last file is synced by [`NewTables::sync`].
///
/// # Errors
/// What reading the entries fails with; what writing and syncing the tables fail with; `Closed`, if
/// the job was cancelled. No file is left then.
pub fn load<C: EntryCursor>(
    mut cursor: C,
    target: &LoadTarget<'_>,
    context: &JobContext<'_>,
) -> Result<NewTables> {
    cursor.seek_to_first()?;
    let rules = Rules {
        // Every reader sees all of it.
        stripes: Stripes::new(&[], SequenceNumber::MAX),
        tombstones: Arc::new(Fragments::default()),
        now_ms: context.clock.settled_ms(),
        operator: None,
        filter: None,
    };
    let cursor = JobCursor::new(cursor, context);
    let mut retain = CompactionIter::new(cursor, rules, |_: &[u8]| OlderEntries::None);
    let shared = SharedSequence { up_to: SequenceNumber::MAX, sequence: target.sequence };
    let (borders, copies) = (Borders::default(), BlockCopies::default());
    let tombstones = Fragments::default();
    let stream = OutputIter::new(&mut retain, &tombstones, borders, copies, Some(shared), None)?;
    let destination = Destination {
        family: target.family,
        level: LEVELS - 1,
        options: target.options,
        under: &[],
        last_half: None,
        merged_before: None,
        merged: &Merged::default(),
        opening: Opening::WhenRead,
        created_ms: None,
    };
    let mut tables = NewTables::default();
    write_tables(stream, &destination, &mut OutputPlace::OwnFile, &mut tables, context)?;
    tables.sync()?;
    Ok(tables)
}

#[cfg(test)]
mod tests;
