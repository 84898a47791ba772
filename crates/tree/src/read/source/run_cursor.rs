//! A cursor over the tables of a run, one after the other.
//!
//! It opens a table when it comes to it, and holds one open at a time.

use crate::{
    files::level::Level,
    read::source::reference_cursor::{OfTable, ReferenceCursor, Wanted},
};
use siltdb_base::{
    cursor::{Direction, EntryCursor, Stretch},
    error::Result,
    id::SequenceNumber,
    key::{Entry, LookupKey},
};
use siltdb_disk::table::TableCursor;
use std::{
    ops::{ControlFlow, Range},
    sync::Arc,
};

/// A cursor over neighbouring tables of a run; it keeps their files in use.
///
/// # Invariants
/// 1. If `current` is there, it is a cursor of table `index`, and `index` is in `tables`.
/// 2. Between two calls, `current` stands on an entry, or the cursor stands nowhere.
#[derive(Debug)]
pub struct RunCursor<C = TableCursor> {
    level: Arc<Level>,
    tables: Range<usize>,
    index: usize,
    current: Option<ReferenceCursor<C>>,
    wanted: Wanted,
}

impl<C: OfTable> RunCursor<C> {
    /// A cursor over the `tables` of `level`, which is a run, standing nowhere.
    #[must_use]
    pub fn new(level: Arc<Level>, tables: Range<usize>) -> Self {
        Self { level, index: tables.start, tables, current: None, wanted: Wanted::default() }
    }

    /// The cursor, which shows what is `wanted`.
    #[must_use]
    pub fn wanting(self, wanted: Wanted) -> Self {
        Self { wanted, ..self }
    }

    /// The cursor of table `index`; nothing if there is no such table.
    fn enter(&mut self, index: usize) -> Result<Option<&mut ReferenceCursor<C>>> {
        if !self.tables.contains(&index) {
            self.current = None;
            return Ok(None);
        }
        // Going back to the table at hand keeps the blocks it holds.
        if self.index != index || self.current.is_none() {
            self.current = None;
            let table = self.level.table(index).clone();
            self.current = Some(ReferenceCursor::wanting(table, &self.wanted)?);
            self.index = index;
        }
        Ok(self.current.as_mut())
    }

    fn is_at_end(&self) -> bool {
        self.current.as_ref().is_some_and(|cursor| cursor.entry().is_none())
    }

    /// Goes on to the first entry of the next table that shows any, if this one is at its end.
    fn settle_forward(&mut self) -> Result<()> {
        while self.is_at_end() {
            if let Some(cursor) = self.enter(self.index + 1)? {
                cursor.seek_to_first()?;
            }
        }
        Ok(())
    }

    /// Goes back to the last entry of the table before that shows any, if this one is at its end.
    fn settle_backward(&mut self) -> Result<()> {
        while self.is_at_end() {
            // Before the first table there is `usize::MAX`, which is no table.
            if let Some(cursor) = self.enter(self.index.wrapping_sub(1))? {
                cursor.seek_to_last()?;
            }
        }
        Ok(())
    }

    /// After an error the cursor stands nowhere.
    fn or_nowhere(&mut self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.current = None;
        }
        result
    }

    /// The table that a seek to `key` begins in, which may be past the last.
    fn index_of_seek(&self, key: &[u8]) -> usize {
        self.level.index_reaching(key).max(self.tables.start)
    }

    fn try_seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        if let Some(cursor) = self.enter(self.index_of_seek(key))? {
            cursor.seek(key, sequence)?;
        }
        self.settle_forward()
    }

    fn try_seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        if self.tables.is_empty() {
            return Ok(());
        }
        // The table that reaches the key, or else the last one: it may begin after the key.
        let index = self.level.index_reaching(key).clamp(self.tables.start, self.tables.end - 1);
        if let Some(cursor) = self.enter(index)? {
            cursor.seek_before(key, sequence)?;
        }
        self.settle_backward()
    }

    fn try_end(
        &mut self,
        index: usize,
        end: fn(&mut ReferenceCursor<C>) -> Result<()>,
    ) -> Result<()> {
        match self.enter(index)? {
            Some(cursor) => end(cursor),
            None => Ok(()),
        }
    }
}

impl<C: OfTable> EntryCursor for RunCursor<C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.entry()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let result = self
            .try_end(self.tables.start, ReferenceCursor::seek_to_first)
            .and_then(|()| self.settle_forward());
        self.or_nowhere(result)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let last = self.tables.end.wrapping_sub(1);
        let result =
            self.try_end(last, ReferenceCursor::seek_to_last).and_then(|()| self.settle_backward());
        self.or_nowhere(result)
    }

    fn prefetch(&self, key: &[u8], sequence: SequenceNumber) {
        let index = self.index_of_seek(key);
        match &self.current {
            Some(cursor) if self.index == index => cursor.prefetch(key, sequence),
            // A cursor of that table has yet to be made.
            _ if self.tables.contains(&index) => {
                self.level.table(index).prefetch(LookupKey::new(key));
            }
            _ => {}
        }
    }

    fn prefetch_filter(&self, key: LookupKey<'_>) {
        if let Some(table) = self.level.find(key.key()) {
            table.prefetch(key);
        }
    }

    fn may_hold(&self, key: LookupKey<'_>) -> bool {
        self.level.find(key.key()).is_some_and(|table| table.may_hold(key))
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        let result = self.try_seek(key, sequence);
        self.or_nowhere(result)
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        let result = self.try_seek_before(key, sequence);
        self.or_nowhere(result)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let result = current.next();
        if result.is_ok() && current.entry().is_some() {
            return Ok(());
        }
        let result = result.and_then(|()| self.settle_forward());
        self.or_nowhere(result)
    }

    #[inline]
    fn walk(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        match &mut self.current {
            Some(current) => current.walk(direction, steps, seen),
            None => Ok(0),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let result = current.prev();
        if result.is_ok() && current.entry().is_some() {
            return Ok(());
        }
        let result = result.and_then(|()| self.settle_backward());
        self.or_nowhere(result)
    }

    #[inline]
    fn stretch(&self) -> Option<Stretch<'_>> {
        self.current.as_ref()?.stretch()
    }

    #[inline]
    fn stretch_along(&self, direction: Direction) -> Option<Stretch<'_>> {
        self.current.as_ref()?.stretch_along(direction)
    }
}
