//! Whether keys changed after a point in the order: what a transaction asks before it commits.
//!
//! It reads only sources that hold something newer than that point. Values are not looked at: a key
//! that was written, deleted or merged into has changed, whatever it was before.
//!
//! Entries of a table may carry an older number than they were written under. Every live snapshot
//! sees them just the same (decisions 0017 and 0027). So tables are compared with a number that is
//! a live snapshot. What was written and deleted again above every snapshot may be gone without a
//! trace, because it makes no difference to any reader.

use crate::{
    files::open_files::OpenReference,
    read::{
        source::reference_cursor::ReferenceCursor,
        view::{View, touches},
        visible::bounds::Bounds,
    },
};
use siltdb_base::{
    cursor::EntryCursor, error::Result, id::SequenceNumber, key::LookupKey, tombstone::Fragments,
};
use siltdb_disk::table::TableCursor;
use siltdb_memtable::memtable::Memtable;
use std::sync::Arc;

/// The sequence numbers of the changes that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// A live snapshot: entries of tables up to here do not count.
    pub snapshot: SequenceNumber,
    /// Entries of memtables up to here do not count; not older than `snapshot`.
    pub after: SequenceNumber,
    /// No newer entry counts.
    pub upto: SequenceNumber,
}

impl Since {
    /// The same for entries of tables.
    fn in_tables(self) -> Self {
        Self { after: self.snapshot, ..self }
    }

    fn holds(self, sequence: SequenceNumber) -> bool {
        self.after < sequence && sequence <= self.upto
    }

    fn touches(self, memtable: &Memtable) -> bool {
        memtable.sequence_range().is_some_and(|(_, newest)| newest > self.after)
    }
}

impl View {
    /// Whether `key` was written or deleted within `since`.
    ///
    /// Cost: a search of each memtable that has grown since, and of each table flushed since.
    ///
    /// # Errors
    /// What reading a table fails with.
    pub fn key_changed(&self, key: &[u8], since: Since) -> Result<bool> {
        for table in self.memory.tables().iter().filter(|table| since.touches(&table.memtable)) {
            let memtable = &table.memtable;
            let newest = memtable.get(key, since.upto).map(|entry| entry.sequence);
            let covering = memtable.covering(key, since.upto);
            if newest.max(covering).is_some_and(|sequence| since.holds(sequence)) {
                return Ok(true);
            }
        }
        let (lookup, since) = (LookupKey::new(key), since.in_tables());
        for (_, table) in self.tables_since(since) {
            if !table.range().contains(key) {
                continue;
            }
            if table.has_range_tombstones() {
                let covering = table.tombstones()?.covering(key, since.upto);
                if covering.is_some_and(|sequence| since.holds(sequence)) {
                    return Ok(true);
                }
            }
            let newest = table.get(lookup, since.upto, |found| found.sequence)?;
            if newest.is_some_and(|sequence| since.holds(sequence)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The tables with a change that may count, with their levels' numbers.
    fn tables_since(&self, since: Since) -> impl Iterator<Item = (usize, &Arc<OpenReference>)> {
        let newer = self.version.below(move |sum| sum.extremes.sequence_max > since.after);
        newer.filter(move |(_, table)| table.sequence_max() > since.after)
    }

    /// Whether any key within `bounds` was written or deleted within `since`.
    ///
    /// Cost: a walk over the entries within `bounds`, up to the first that counts. It covers each
    /// memtable that has grown since, and each table flushed since.
    ///
    /// # Errors
    /// What reading a table fails with.
    pub fn range_changed(&self, bounds: &Bounds, since: Since) -> Result<bool> {
        for table in self.memory.tables().iter().filter(|table| since.touches(&table.memtable)) {
            let lists = table.memtable.tombstone_lists();
            if lists.iter().any(|list| is_deleted_within(list, bounds, since))
                || is_written_within(&mut table.memtable.cursor(), bounds, since)?
            {
                return Ok(true);
            }
        }
        let since = since.in_tables();
        let newer = self.tables_since(since);
        for (_, table) in newer.filter(|(_, table)| touches(table, bounds)) {
            if table.has_range_tombstones() && is_deleted_within(table.tombstones()?, bounds, since)
            {
                return Ok(true);
            }
            if is_written_within(
                &mut ReferenceCursor::<TableCursor>::new(table.clone())?,
                bounds,
                since,
            )? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_written_within(cursor: &mut impl EntryCursor, bounds: &Bounds, since: Since) -> Result<bool> {
    match &bounds.lower {
        Some(lower) => cursor.seek(lower, SequenceNumber::MAX)?,
        None => cursor.seek_to_first()?,
    }
    while let Some(entry) = cursor.entry().filter(|entry| !bounds.is_after(entry.key)) {
        if since.holds(entry.sequence) {
            return Ok(true);
        }
        cursor.next()?;
    }
    Ok(false)
}

fn is_deleted_within(fragments: &Fragments, bounds: &Bounds, since: Since) -> bool {
    let all = fragments.as_slice();
    let first = bounds.lower.as_ref().map_or(0, |lower| fragments.index_ending_after(lower));
    (first..all.len())
        .take_while(|&index| !bounds.is_after(&all[index].start))
        .filter_map(|index| fragments.newest_visible(index, since.upto))
        .any(|sequence| since.holds(sequence))
}

#[cfg(test)]
mod tests;
