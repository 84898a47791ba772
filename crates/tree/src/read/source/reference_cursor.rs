//! A cursor over what is seen of one table through its reference.
//!
//! A reference can cut a table to a slice of its keys and hide what is newer than a clone. It can
//! also give all entries one sequence number. Most do none of this and cost nothing; stretches
//! remain where no entry is hidden.

use crate::files::open_files::OpenReference;
use siltdb_base::{
    cursor::{Direction, EntryCursor, Fetch, Stretch},
    error::Result,
    id::SequenceNumber,
    key::{Entry, LookupKey, successor},
};
use siltdb_disk::{
    table::{Reach, ScanCursor, TableCursor},
    table_meta::{KeySpan, RangeEnd},
};
use std::{ops::ControlFlow, sync::Arc};

/// What a reader asks of the tables.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// What it wants of each entry; a cursor for keys only may show empty values.
    pub fetch: Fetch,
    /// Where it reads; `None` is everywhere. Beyond it, a cursor may show nothing.
    pub reach: Option<Arc<Reach>>,
}

/// A cursor over a whole table, as readers or jobs use it.
pub trait OfTable: EntryCursor + Sized {
    /// A cursor over the table of `reference` without a position.
    ///
    /// # Errors
    /// The errors of opening the table.
    fn of(reference: &OpenReference, wanted: &Wanted) -> Result<Self>;
}

/// For readers: the table stays open as long as there is memory, and its blocks in the cache.
impl OfTable for TableCursor {
    fn of(reference: &OpenReference, wanted: &Wanted) -> Result<Self> {
        let reach = match &reference.reference().key_slice {
            None => wanted.reach.clone(),
            Some(slice) => Some(Arc::new(within(slice, wanted.reach.as_deref()))),
        };
        Ok(reference.reading()?.cursor_fetching(wanted.fetch).within(reach))
    }
}

/// For jobs: the table stays as it is, open or not.
impl OfTable for ScanCursor {
    fn of(reference: &OpenReference, _: &Wanted) -> Result<Self> {
        reference.pass()?.cursor()
    }
}

/// A cursor over what is seen of one table; it keeps the table's file in use.
#[derive(Debug)]
pub struct ReferenceCursor<C = TableCursor> {
    reference: Arc<OpenReference>,
    way: Way<C>,
}

#[derive(Debug)]
enum Way<C> {
    Whole(C),
    Narrow(Box<Narrow<C>>),
}

impl<C: OfTable> ReferenceCursor<C> {
    /// A cursor that stands nowhere.
    ///
    /// # Errors
    /// What opening the table fails with.
    pub fn new(reference: Arc<OpenReference>) -> Result<Self> {
        Self::wanting(reference, &Wanted::default())
    }

    /// A cursor without a position that shows what is `wanted`.
    ///
    /// # Errors
    /// The errors of opening the table.
    pub fn wanting(reference: Arc<OpenReference>, wanted: &Wanted) -> Result<Self> {
        let cursor = C::of(&reference, wanted)?;
        let way = if reference.is_whole() {
            Way::Whole(cursor)
        } else {
            Way::Narrow(Box::new(Narrow {
                cursor,
                slice: reference.reference().key_slice.clone(),
                visible_to: reference.reference().visible_to.unwrap_or(SequenceNumber::MAX),
                sequence: reference.reference().global_sequence,
                standing: Standing::Nowhere,
            }))
        };
        Ok(Self { reference, way })
    }

    /// What it reads.
    #[must_use]
    pub fn reference(&self) -> &Arc<OpenReference> {
        &self.reference
    }
}

/// A table cursor behind the limits of a reference.
///
/// # Invariants
/// 1. While it stands somewhere, the table's cursor stands on an entry within the limits.
#[derive(Debug)]
struct Narrow<C> {
    cursor: C,
    slice: Option<KeySpan>,
    visible_to: SequenceNumber,
    sequence: Option<SequenceNumber>,
    standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Somewhere,
    Nowhere,
}

impl<C: EntryCursor> Narrow<C> {
    /// The entry as the reference shows it.
    fn shown<'e>(&self, entry: Entry<'e>) -> Entry<'e> {
        Entry { sequence: self.sequence.unwrap_or(entry.sequence), ..entry }
    }

    /// Positions the table's cursor with `position`, then goes on to what may be shown.
    fn go(
        &mut self,
        direction: Direction,
        position: impl FnOnce(&mut C) -> Result<()>,
    ) -> Result<()> {
        self.standing = Standing::Nowhere;
        position(&mut self.cursor)?;
        loop {
            let Some(entry) = self.cursor.entry() else { return Ok(()) };
            if let Some(slice) = &self.slice {
                let is_past = match direction {
                    Direction::Forward => slice.is_before(entry.key),
                    Direction::Backward => slice.is_after(entry.key),
                };
                if is_past {
                    return Ok(());
                }
            }
            if self.shown(entry).sequence <= self.visible_to {
                self.standing = Standing::Somewhere;
                return Ok(());
            }
            match direction {
                Direction::Forward => self.cursor.next()?,
                Direction::Backward => self.cursor.prev()?,
            }
        }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let first = self.slice.as_ref().map(|slice| slice.first.clone());
        self.go(Direction::Forward, |cursor| match first {
            Some(first) => cursor.seek(&first, SequenceNumber::MAX),
            None => cursor.seek_to_first(),
        })
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let slice = self.slice.clone();
        self.go(Direction::Backward, |cursor| match slice {
            None => cursor.seek_to_last(),
            Some(slice) => match slice.end {
                RangeEnd::Exclusive => cursor.seek_before(&slice.last, SequenceNumber::MAX),
                RangeEnd::Inclusive => seek_to_or_before(cursor, &slice.last),
            },
        })
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        if self.slice.as_ref().is_some_and(|slice| slice.is_after(key)) {
            return self.seek_to_first();
        }
        let given = self.sequence;
        self.go(Direction::Forward, |cursor| match given {
            None => cursor.seek(key, sequence),
            Some(given) if given <= sequence => cursor.seek(key, SequenceNumber::MAX),
            Some(_) => cursor.seek(&successor(key), SequenceNumber::MAX),
        })
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        if self.slice.as_ref().is_some_and(|slice| slice.is_before(key)) {
            return self.seek_to_last();
        }
        let given = self.sequence;
        self.go(Direction::Backward, |cursor| match given {
            None => cursor.seek_before(key, sequence),
            Some(given) if given <= sequence => cursor.seek_before(key, SequenceNumber::MAX),
            Some(_) => seek_to_or_before(cursor, key),
        })
    }

    /// What `stretch` says of the entries around the table's cursor, as the reference shows them;
    /// `None` where it may hide some.
    fn renumbered<'c>(
        &'c self,
        stretch: impl FnOnce(&'c C) -> Option<Stretch<'c>>,
    ) -> Option<Stretch<'c>> {
        if self.visible_to < SequenceNumber::MAX || self.standing == Standing::Nowhere {
            return None;
        }
        let is_shown = |found: &Stretch<'_>| {
            let slice = self.slice.as_ref();
            slice.is_none_or(|slice| {
                slice.contains(found.first_key) && slice.contains(found.last_key)
            })
        };
        let found = stretch(&self.cursor).filter(is_shown)?;
        Some(Stretch { sequence_max: self.sequence.unwrap_or(found.sequence_max), ..found })
    }

    /// As [`EntryCursor::walk`], where [`Narrow::renumbered`] gives a stretch; else nowhere.
    fn walk(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        if self.renumbered(|cursor| cursor.stretch_along(direction)).is_none() {
            return Ok(0);
        }
        let given = self.sequence;
        let mut show =
            |entry: Entry<'_>| seen(Entry { sequence: given.unwrap_or(entry.sequence), ..entry });
        let walked = self.cursor.walk(direction, steps, &mut show);
        if walked.is_err() || self.cursor.entry().is_none() {
            self.standing = Standing::Nowhere;
        }
        walked
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        match (self.standing, direction) {
            (Standing::Nowhere, _) => Ok(()),
            (_, Direction::Forward) => self.go(direction, C::next),
            (_, Direction::Backward) => self.go(direction, C::prev),
        }
    }
}

/// The keys of `slice` that are within `reach`.
fn within(slice: &KeySpan, reach: Option<&Reach>) -> Reach {
    let slice = Reach { lower: Some(slice.first.clone()), upper: Some(slice.end_key()) };
    reach.map_or(slice.clone(), |reach| slice.and(reach))
}

/// Goes to the last entry whose key is `key` or before it.
fn seek_to_or_before(cursor: &mut impl EntryCursor, key: &[u8]) -> Result<()> {
    cursor.seek_before(&successor(key), SequenceNumber::MAX)
}

impl<C: EntryCursor> EntryCursor for ReferenceCursor<C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match &self.way {
            Way::Whole(cursor) => cursor.entry(),
            Way::Narrow(narrow) => match narrow.standing {
                Standing::Nowhere => None,
                Standing::Somewhere => narrow.cursor.entry().map(|entry| narrow.shown(entry)),
            },
        }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Whole(cursor) => cursor.seek_to_first(),
            Way::Narrow(narrow) => narrow.seek_to_first(),
        }
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Whole(cursor) => cursor.seek_to_last(),
            Way::Narrow(narrow) => narrow.seek_to_last(),
        }
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        match &mut self.way {
            Way::Whole(cursor) => cursor.seek(key, sequence),
            Way::Narrow(narrow) => narrow.seek(key, sequence),
        }
    }

    fn prefetch(&self, key: &[u8], sequence: SequenceNumber) {
        match &self.way {
            Way::Whole(cursor) => cursor.prefetch(key, sequence),
            Way::Narrow(_) => {}
        }
    }

    fn prefetch_filter(&self, key: LookupKey<'_>) {
        self.reference.prefetch(key);
    }

    fn may_hold(&self, key: LookupKey<'_>) -> bool {
        self.reference.may_hold(key)
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        match &mut self.way {
            Way::Whole(cursor) => cursor.seek_before(key, sequence),
            Way::Narrow(narrow) => narrow.seek_before(key, sequence),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Whole(cursor) => cursor.next(),
            Way::Narrow(narrow) => narrow.step(Direction::Forward),
        }
    }

    #[inline]
    fn walk(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        match &mut self.way {
            Way::Whole(cursor) => cursor.walk(direction, steps, seen),
            Way::Narrow(narrow) => narrow.walk(direction, steps, seen),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Whole(cursor) => cursor.prev(),
            Way::Narrow(narrow) => narrow.step(Direction::Backward),
        }
    }

    #[inline]
    fn stretch(&self) -> Option<Stretch<'_>> {
        match &self.way {
            Way::Whole(cursor) => cursor.stretch(),
            Way::Narrow(narrow) => narrow.renumbered(|cursor| cursor.stretch()),
        }
    }

    #[inline]
    fn stretch_along(&self, direction: Direction) -> Option<Stretch<'_>> {
        match &self.way {
            Way::Whole(cursor) => cursor.stretch_along(direction),
            Way::Narrow(narrow) => narrow.renumbered(|cursor| cursor.stretch_along(direction)),
        }
    }
}
