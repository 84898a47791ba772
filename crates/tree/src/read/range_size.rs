//! About how much a range of keys takes, in tables and in memory.
//!
//! It counts what is stored, not what a reader sees: versions and deletions are entries too.

use crate::{
    files::level::Order, files::open_files::OpenReference, read::view::View,
    read::visible::bounds::Bounds,
};
use siltdb_base::{cursor::EntryCursor, error::Result, id::SequenceNumber};
use siltdb_disk::table::Extent;
use siltdb_memtable::memtable::Memtable;
use std::sync::Arc;

/// About how much a range of keys takes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeSize {
    /// Entries, in tables and in memory: each version of a key, each deletion and each operand.
    pub entries: u64,
    /// Bytes in table files, as they are compressed.
    pub table_bytes: u64,
    /// Bytes of keys and values in memory.
    pub memory_bytes: u64,
}

/// About how much of a view lies within `bounds`. Range tombstones do not count, and what they
/// cover does.
///
/// A table that lies within counts as its summary says, one that reaches beyond as its index
/// says, and is opened for that. Memory is walked over.
///
/// # Errors
/// What opening a table fails with.
pub fn range_size(view: &View, bounds: &Bounds) -> Result<RangeSize> {
    let mut size = RangeSize::default();
    let is_empty = match (&bounds.lower, &bounds.upper) {
        (Some(lower), Some(upper)) => lower >= upper,
        _ => false,
    };
    if is_empty {
        return Ok(size);
    }
    for level in view.version.levels() {
        let mut add = |table: &OpenReference| -> Result<()> {
            let Extent { entries, bytes } = table_extent(table, bounds)?;
            size.entries += entries;
            size.table_bytes += bytes;
            Ok(())
        };
        match level.order() {
            Order::Overlapping => level.tables().try_for_each(|table| add(table))?,
            Order::Disjoint => {
                let start = bounds.lower.as_ref().map_or(0, |key| level.index_reaching(key));
                let end = level.index_after(|first| bounds.is_after(first)).max(start);
                level.within(start..end).try_for_each(|table| add(table))?;
            }
        }
    }
    for table in view.memory.tables() {
        add_memtable(&mut size, &table.memtable, bounds)?;
    }
    Ok(size)
}

fn table_extent(table: &OpenReference, bounds: &Bounds) -> Result<Extent> {
    let range = table.range();
    let (lower, upper) = (bounds.lower.as_deref(), bounds.upper.as_deref());
    let is_outside = lower.is_some_and(|lower| range.is_before(lower))
        || upper.is_some_and(|upper| &*range.first >= upper);
    if is_outside {
        return Ok(Extent::default());
    }
    let is_within = lower.is_none_or(|lower| &*range.first >= lower)
        && upper.is_none_or(|upper| range.is_before(upper));
    if is_within && table.is_whole() {
        return Ok(Extent { entries: table.meta().entries, bytes: table.bytes() });
    }
    let Some(slice) = &table.reference().key_slice else {
        return table.reading()?.extent(lower, upper);
    };
    let end = slice.end_key();
    let lower = lower.map_or(&*slice.first, |lower| lower.max(&slice.first));
    let upper = upper.map_or(&*end, |upper| upper.min(&end));
    table.reading()?.extent(Some(lower), Some(upper))
}

fn add_memtable(size: &mut RangeSize, memtable: &Arc<Memtable>, bounds: &Bounds) -> Result<()> {
    let mut cursor = memtable.cursor();
    match &bounds.lower {
        Some(lower) => cursor.seek(lower, SequenceNumber::MAX)?,
        None => cursor.seek_to_first()?,
    }
    while let Some(entry) = cursor.entry().filter(|entry| !bounds.is_after(entry.key)) {
        size.entries += 1;
        size.memory_bytes += (entry.key.len() + entry.value.len()) as u64;
        cursor.next()?;
    }
    Ok(())
}
