//! Walks over the entries of a family or a bucket, in both directions.
//!
//! It prints nothing.

use crate::bounds::KeyRange;
use crate::failure::Result;
use crate::interrupt;
use crate::scope::{ReadScope, ScopedBucket};
use crate::value::{PrintedValue, STREAMED_BYTES_MIN};
use siltdb::{BucketCursor, Cursor, ReadOptions, ValueStream};
use std::ops::ControlFlow;

/// The direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Keys ascend.
    Forward,
    /// Keys descend.
    Backward,
}

/// Whether a walk reads values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Keys and values.
    Entries,
    /// Keys only; values are not read, and are empty.
    Keys,
}

/// How entries are walked over.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// The direction.
    pub direction: Direction,
    /// Whether values are read.
    pub wanted: Wanted,
}

/// A callback for each key and value that decides whether to continue.
pub type OnEntry<'a> = dyn FnMut(&[u8], PrintedValue<'_>) -> Result<ControlFlow<()>> + 'a;

impl Walk {
    /// Returns the options of a cursor over `range`.
    fn options(self, range: KeyRange) -> ReadOptions {
        let options = ReadOptions::new().range(range).keys_only(self.wanted == Wanted::Keys);
        options.stream_from(STREAMED_BYTES_MIN)
    }
}

/// Calls `on_entry` with the entries of `ranges`, which are in order, until it breaks.
///
/// # Errors
/// [`Failure::Interrupted`](crate::failure::Failure::Interrupted); errors of the database and of
/// `on_entry`.
pub fn visit(
    scope: &ReadScope,
    mut ranges: Vec<KeyRange>,
    walk: Walk,
    on_entry: &mut OnEntry<'_>,
) -> Result<()> {
    if walk.direction == Direction::Backward {
        ranges.reverse();
    }
    for range in ranges {
        let cursor = scope.cursor_with(&walk.options(range))?;
        if go_over(cursor, walk.direction, on_entry)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Visits the keys of a bucket, as [`visit`] does.
///
/// # Errors
/// As [`visit`].
pub fn visit_bucket(
    bucket: &ScopedBucket,
    range: KeyRange,
    walk: Walk,
    on_entry: &mut OnEntry<'_>,
) -> Result<()> {
    let (options, direction) = (walk.options(range), walk.direction);
    let walked = match bucket {
        ScopedBucket::Committed(bucket) => {
            go_over(bucket.cursor_with(&options)?, direction, on_entry)
        }
        ScopedBucket::Transaction(bucket) => {
            go_over(bucket.cursor_with(&options)?, direction, on_entry)
        }
        ScopedBucket::Snapshot(bucket) => {
            go_over(bucket.cursor_with(&options)?, direction, on_entry)
        }
    };
    walked.map(|_| ())
}

/// A cursor over a family or a bucket.
trait EntryCursor {
    fn entry(&self) -> Option<(&[u8], &[u8])>;
    fn value_reader(&self) -> siltdb::Result<Option<ValueStream>>;
    fn begin(&mut self, direction: Direction) -> siltdb::Result<()>;
    fn step(&mut self, direction: Direction) -> siltdb::Result<()>;
}

macro_rules! entry_cursor {
    ($cursor:ty $(, $source:ident)?) => {
        impl$(<$source>)? EntryCursor for $cursor {
            fn entry(&self) -> Option<(&[u8], &[u8])> {
                self.entry()
            }

            fn value_reader(&self) -> siltdb::Result<Option<ValueStream>> {
                self.value_reader()
            }

            fn begin(&mut self, direction: Direction) -> siltdb::Result<()> {
                match direction {
                    Direction::Forward => self.seek_to_first(),
                    Direction::Backward => self.seek_to_last(),
                }
            }

            fn step(&mut self, direction: Direction) -> siltdb::Result<()> {
                match direction {
                    Direction::Forward => self.next(),
                    Direction::Backward => self.prev(),
                }
            }
        }
    };
}

entry_cursor!(Cursor);
entry_cursor!(BucketCursor<S>, S);

fn go_over(
    mut cursor: impl EntryCursor,
    direction: Direction,
    on_entry: &mut OnEntry<'_>,
) -> Result<ControlFlow<()>> {
    interrupt::check()?;
    cursor.begin(direction)?;
    while let Some((key, value)) = cursor.entry() {
        let value = PrintedValue::of(value, cursor.value_reader()?);
        if on_entry(key, value)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        interrupt::check()?;
        cursor.step(direction)?;
    }
    Ok(ControlFlow::Continue(()))
}
