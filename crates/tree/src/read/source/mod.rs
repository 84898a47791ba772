//! The cursors a merge walks over: a memtable, one table, or a whole run of tables.
//!
//! They show every entry that is seen through their references, and hide nothing else.

pub mod reference_cursor;
pub mod run_cursor;

use crate::read::source::{
    reference_cursor::{OfTable, ReferenceCursor},
    run_cursor::RunCursor,
};
use siltdb_base::{
    cursor::{Direction, EntryCursor, Stretch},
    error::Result,
    id::SequenceNumber,
    key::{Entry, LookupKey},
};
use siltdb_disk::table::TableCursor;
use siltdb_memtable::cursor::MemtableCursor;
use std::ops::ControlFlow;

/// One input of a merge.
///
/// An enum, because each step of a scan goes through here. A branch that is always the same costs
/// less than a call through a table of functions, and the steps below it can be inlined.
#[expect(
    clippy::large_enum_variant,
    reason = "a merge has few, and a box would cost each step a load"
)]
#[derive(Debug)]
pub enum SourceCursor<C = TableCursor> {
    /// Over a memtable.
    Memtable(MemtableCursor),
    /// Over one table.
    Table(ReferenceCursor<C>),
    /// Over the tables of a run.
    Run(RunCursor<C>),
}

/// The same of each kind.
macro_rules! each {
    ($source:expr, $cursor:ident => $do:expr) => {
        match $source {
            Self::Memtable($cursor) => $do,
            Self::Table($cursor) => $do,
            Self::Run($cursor) => $do,
        }
    };
}

impl<C: OfTable> EntryCursor for SourceCursor<C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        each!(self, cursor => cursor.entry())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_to_last())
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        each!(self, cursor => cursor.seek(key, sequence))
    }

    fn prefetch(&self, key: &[u8], sequence: SequenceNumber) {
        match self {
            Self::Memtable(_) => {}
            Self::Table(cursor) => cursor.prefetch(key, sequence),
            Self::Run(cursor) => cursor.prefetch(key, sequence),
        }
    }

    fn prefetch_filter(&self, key: LookupKey<'_>) {
        match self {
            Self::Memtable(_) => {}
            Self::Table(cursor) => cursor.prefetch_filter(key),
            Self::Run(cursor) => cursor.prefetch_filter(key),
        }
    }

    fn may_hold(&self, key: LookupKey<'_>) -> bool {
        each!(self, cursor => cursor.may_hold(key))
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key, sequence))
    }

    #[inline(always)]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }

    #[inline]
    fn walk(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        each!(self, cursor => cursor.walk(direction, steps, seen))
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }

    #[inline]
    fn stretch(&self) -> Option<Stretch<'_>> {
        each!(self, cursor => cursor.stretch())
    }

    #[inline]
    fn stretch_along(&self, direction: Direction) -> Option<Stretch<'_>> {
        each!(self, cursor => cursor.stretch_along(direction))
    }
}

#[cfg(test)]
mod tests;
