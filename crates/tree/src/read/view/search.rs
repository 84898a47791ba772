//! The versions of one key, from the newest source to the oldest, where they lie.
//!
//! It judges none of them; it stops where no older version can matter.

use crate::{
    files::open_files::OpenReference, files::version::Version as Tables, memory::Memtables,
    read::source::reference_cursor::ReferenceCursor, read::visible::point::KeyVersion,
    read::visible::reader::OwnWrites,
};
use siltdb_base::{
    cursor::EntryCursor, error::Result, id::SequenceNumber, key::LookupKey, limits::LEVELS,
};
use siltdb_disk::table::{FoundEntry, TableCursor};
use siltdb_memtable::memtable::Memtable;
use std::{ops::ControlFlow, sync::Arc};

/// Versions of one source that are looked up. More are walked over by a cursor, which costs more to
/// begin with and much less for each.
const LOOKED_UP_MAX: u32 = 4;

/// A search for the versions of one key that a reader sees.
#[derive(Debug)]
pub struct VersionSearch<'k> {
    key: &'k [u8],
    snapshot: SequenceNumber,
    /// Versions up to this one have not been shown.
    upto: SequenceNumber,
    covering: Option<SequenceNumber>,
}

impl<'k> VersionSearch<'k> {
    /// A search that has not looked anywhere yet.
    #[inline]
    pub fn new(key: &'k [u8], snapshot: SequenceNumber) -> Self {
        Self { key, snapshot, upto: snapshot, covering: None }
    }

    /// Shows the versions, from the newest to the oldest, to `seen`, until it has seen enough. They
    /// come from the memtables, the tables of level 0, and one table of each further level.
    ///
    /// No older source is worth it once a range tombstone covers the key, for that hides everything
    /// in it.
    ///
    /// # Errors
    /// What reading a table fails with; that of `seen`.
    #[inline]
    pub fn each(
        &mut self,
        memory: &Memtables,
        tables: &Tables,
        mut seen: impl FnMut(KeyVersion<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        for table in memory.tables() {
            if self.look_into_memory(&table.memtable, &mut seen)?.is_break() {
                return Ok(());
            }
        }
        self.each_in_tables(tables, &mut seen)
    }

    /// As [`Search::each`], after a look into writes that only this reader sees.
    ///
    /// # Errors
    /// The errors of [`Search::each`].
    pub fn each_with_own(
        &mut self,
        own: &OwnWrites,
        memory: &Memtables,
        tables: &Tables,
        mut seen: impl FnMut(KeyVersion<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let snapshot = std::mem::replace(&mut self.snapshot, own.last);
        self.upto = own.last;
        if self.look_into_memory(&own.memtable, &mut seen)?.is_break() {
            return Ok(());
        }
        (self.snapshot, self.upto) = (snapshot, snapshot);
        self.each(memory, tables, seen)
    }

    fn each_in_tables(
        &mut self,
        tables: &Tables,
        seen: &mut impl FnMut(KeyVersion<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let key = LookupKey::new(self.key);
        let mut candidates = [None; LEVELS];
        // What the filters of all sources need is prefetched before the first one is asked. One
        // after the other, each would cost the time of a cache miss.
        for leaf in tables.stack().leaves() {
            leaf.iter().for_each(|table| table.prefetch(key));
        }
        for (candidate, run) in candidates.iter_mut().zip(tables.runs()) {
            *candidate = run.find(self.key).inspect(|table| table.prefetch(key));
        }
        for leaf in tables.stack().leaves() {
            for table in leaf {
                if table.range().contains(self.key) && self.look_into(table, key, seen)?.is_break()
                {
                    return Ok(());
                }
            }
        }
        for table in candidates.into_iter().flatten() {
            if self.look_into(table, key, seen)?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    #[inline]
    fn look_into_memory(
        &mut self,
        memtable: &Arc<Memtable>,
        seen: &mut impl FnMut(KeyVersion<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        self.covering = self.covering.max(memtable.covering(self.key, self.snapshot));
        let mut shown = 0;
        while let Some(entry) = memtable.get(self.key, self.upto) {
            let (sequence, kind) = (entry.sequence, entry.kind);
            let value = entry.value.into();
            let goes_on = seen(KeyVersion { sequence, kind, value, covering: self.covering })?;
            if goes_on.is_break() || self.pass(sequence).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            shown += 1;
            if shown == LOOKED_UP_MAX {
                return self.walk(&mut memtable.cursor(), seen);
            }
        }
        Ok(self.leave())
    }

    fn look_into(
        &mut self,
        table: &Arc<OpenReference>,
        key: LookupKey<'_>,
        seen: &mut impl FnMut(KeyVersion<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        if table.has_range_tombstones() {
            let tombstone = table.tombstones()?.covering(self.key, self.snapshot);
            self.covering = self.covering.max(tombstone);
        }
        for _ in 0..LOOKED_UP_MAX {
            let covering = self.covering;
            let look = |found: FoundEntry<'_>| {
                let FoundEntry { sequence, kind, value } = found;
                Ok((seen(KeyVersion { sequence, kind, value, covering })?, sequence))
            };
            let shown = table.get(key, self.upto, look)?.transpose()?;
            let Some((goes_on, sequence)) = shown else { return Ok(self.leave()) };
            if goes_on.is_break() || self.pass(sequence).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        self.walk(&mut ReferenceCursor::<TableCursor>::new(table.clone())?, seen)
    }

    /// Shows the rest of the versions of a source whose cursor this is.
    #[cold]
    fn walk(
        &mut self,
        cursor: &mut impl EntryCursor,
        seen: &mut impl FnMut(KeyVersion<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<ControlFlow<()>> {
        cursor.seek(self.key, self.upto)?;
        while let Some(entry) = cursor.entry().filter(|entry| entry.key == self.key) {
            let (sequence, kind, value) = (entry.sequence, entry.kind, entry.value.into());
            let goes_on = seen(KeyVersion { sequence, kind, value, covering: self.covering })?;
            if goes_on.is_break() || self.pass(sequence).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            cursor.next()?;
        }
        Ok(self.leave())
    }

    /// Goes on below a version that was shown: another may be in the same source.
    #[inline]
    fn pass(&mut self, sequence: SequenceNumber) -> ControlFlow<()> {
        match sequence.0.checked_sub(1) {
            Some(below) => {
                self.upto = SequenceNumber(below);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }

    /// Goes on to the next source, if that is worth it.
    #[inline]
    fn leave(&self) -> ControlFlow<()> {
        match self.covering {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}
