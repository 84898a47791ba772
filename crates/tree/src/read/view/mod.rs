//! One tree at one moment: its memtables and its tables, pinned together.
//!
//! It answers for whatever snapshot it is asked at; which snapshots it is good for, the tree knows.

mod search;

use crate::{
    files::level::Order,
    files::open_files::OpenReference,
    files::version::Version,
    memory::Memtables,
    read::merge::{Merge, MergeSource},
    read::source::{
        SourceCursor,
        reference_cursor::{ReferenceCursor, Wanted},
        run_cursor::RunCursor,
    },
    read::view::search::VersionSearch,
    read::visible::{
        bounds::Bounds, iter::VisibleIter, point::Point, reader::OwnWrites, reader::Reader,
        resolve::Resolver,
    },
};
use siltdb_base::{
    cursor::Fetch, error::Result, id::SequenceNumber, slice::Pinnable, tombstone::Fragments,
};
use std::sync::Arc;

/// An iterator over what a reader sees of a view.
pub type ViewIter = VisibleIter<SourceCursor>;

/// The memtables and tables of a tree at one moment, replaced as a whole.
///
/// # Invariants
/// 1. Of a key, every entry of a memtable is newer than every entry of an older memtable. Those in
///    turn are newer than every entry of a table. A flushed memtable leaves in the same step in
///    which its tables come, so no reader sees a gap or an entry twice.
#[derive(Debug)]
pub struct View {
    /// The memtables, active and frozen.
    pub memory: Memtables,
    /// The tables, by level.
    pub version: Arc<Version>,
}

impl View {
    /// Calls `look` with the value of `key` that a reader at `snapshot` sees, if there is one.
    ///
    /// Cost: at most one block of each run of level 0 and of each level. With a filter, hardly ever
    /// more than one in all.
    ///
    /// # Errors
    /// What reading a table fails with; corruption; `Unsupported` where the `resolver`, which is
    /// asked for only if it is needed, lacks something.
    #[inline]
    pub fn get<'a, R>(
        &self,
        key: &[u8],
        snapshot: SequenceNumber,
        resolver: impl Fn() -> Resolver<'a>,
        look: impl FnOnce(Pinnable<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut point = Point::new(key, resolver, look);
        let mut search = VersionSearch::new(key, snapshot);
        search.each(&self.memory, &self.version, |version| point.add(version))?;
        point.finish()
    }

    /// As [`View::get`], where the writes of `own` are the newest.
    ///
    /// # Errors
    /// The errors of [`View::get`].
    pub fn get_with_own<'a, R>(
        &self,
        key: &[u8],
        own: &OwnWrites,
        snapshot: SequenceNumber,
        resolver: impl Fn() -> Resolver<'a>,
        look: impl FnOnce(Pinnable<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut point = Point::new(key, resolver, look);
        let mut search = VersionSearch::new(key, snapshot);
        search.each_with_own(own, &self.memory, &self.version, |version| point.add(version))?;
        point.finish()
    }

    /// An iterator within `bounds`; it keeps what it reads in memory and on disk, not the view.
    ///
    /// # Errors
    /// What opening a table with range tombstones fails with.
    pub fn iter(&self, reader: Reader, bounds: Bounds) -> Result<ViewIter> {
        let tombstones = self.tombstones(&bounds)?;
        let merge = Merge::new(self.sources(&bounds, reader.fetch, reader.own.as_ref())?);
        Ok(VisibleIter::new(merge, tombstones, reader, bounds))
    }

    /// The sources of every entry within `bounds`, newest first.
    fn sources(
        &self,
        bounds: &Bounds,
        fetch: Fetch,
        own: Option<&OwnWrites>,
    ) -> Result<Vec<MergeSource<SourceCursor>>> {
        let wanted = Wanted { fetch, reach: bounds.reach() };
        let mut sources = Vec::new();
        if let Some(own) = own {
            sources.push(MergeSource {
                cursor: SourceCursor::Memtable(own.memtable.cursor()),
                sequence_max: SequenceNumber::MAX,
            });
        }
        for table in self.memory.tables() {
            sources.push(MergeSource {
                cursor: SourceCursor::Memtable(table.memtable.cursor()),
                // Writers may still be at work.
                sequence_max: SequenceNumber::MAX,
            });
        }
        for level in self.version.levels() {
            match level.order() {
                Order::Overlapping => {
                    for table in level.tables().filter(|table| is_asked(table, bounds)) {
                        let cursor = ReferenceCursor::wanting(table.clone(), &wanted)?;
                        let cursor = SourceCursor::Table(cursor);
                        sources.push(MergeSource { cursor, sequence_max: table.sequence_max() });
                    }
                }
                Order::Disjoint => {
                    let start = bounds.lower.as_ref().map_or(0, |key| level.index_reaching(key));
                    let end = level.index_after(|first| bounds.is_after(first));
                    let mut run = start..end.max(start);
                    // A table between two others has keys of the range only, so its filter would
                    // tell nothing.
                    while run.start < run.end && !may_hold(level.table(run.start), bounds) {
                        run.start += 1;
                    }
                    while run.start < run.end && !may_hold(level.table(run.end - 1), bounds) {
                        run.end -= 1;
                    }
                    if run.is_empty() {
                        continue;
                    }
                    let sequence_max = level.newest_within(run.clone());
                    let cursor = RunCursor::new(level.clone(), run).wanting(wanted.clone());
                    let cursor = SourceCursor::Run(cursor);
                    sources.push(MergeSource { cursor, sequence_max });
                }
            }
        }
        Ok(sources)
    }

    /// The range tombstones of every source that may have some within `bounds`.
    fn tombstones(&self, bounds: &Bounds) -> Result<Vec<Arc<Fragments>>> {
        let mut lists = Vec::new();
        for table in self.memory.tables() {
            lists.extend(table.memtable.tombstone_lists());
        }
        // Only tables that have tombstones are opened for them.
        for (_, table) in self.version.with_range_tombstones() {
            if touches(table, bounds) {
                lists.push(table.tombstones()?.clone());
            }
        }
        Ok(lists)
    }
}

/// Whether a table may hold keys within `bounds`.
pub(crate) fn touches(table: &OpenReference, bounds: &Bounds) -> bool {
    let range = table.range();
    let ends_before = bounds.lower.as_ref().is_some_and(|lower| range.is_before(lower));
    !ends_before && !bounds.is_after(&range.first)
}

/// Whether a table may hold entries within `bounds`, by its range and the prefixes in its filter.
/// Range tombstones are another matter.
fn is_asked(table: &OpenReference, bounds: &Bounds) -> bool {
    touches(table, bounds) && may_hold(table, bounds)
}

fn may_hold(table: &OpenReference, bounds: &Bounds) -> bool {
    match &bounds.lower {
        Some(lower) => table.may_hold_range(lower, bounds.upper.as_deref()),
        None => true,
    }
}

#[cfg(test)]
mod tests;
