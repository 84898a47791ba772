//! The one way to walk ordered entries, whatever they lie in.
//!
//! A cursor shows every entry of its source, newest first within a key, tombstones included;
//! what a reader may see of them is decided above.

use crate::{
    error::{Error, Result},
    id::SequenceNumber,
    key::{Entry, LookupKey},
};
use std::ops::ControlFlow;

/// The direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To later entries.
    Forward,
    /// To earlier entries.
    Backward,
}

/// Whether the values are wanted too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// Keys and values.
    #[default]
    Values,
    /// Keys only: a source may show empty values, separated values are not read, and operands are
    /// not combined.
    KeysOnly,
}

/// A position among the ordered entries of one source (see [`crate::key`] for the order).
///
/// A new cursor stands nowhere. A cursor that returned an error stands nowhere, and keeps returning
/// that there is nothing, until it is positioned anew.
pub trait EntryCursor {
    /// The entry under the cursor; `None` before the first positioning and past either end.
    fn entry(&self) -> Option<Entry<'_>>;

    /// Goes to the first entry.
    ///
    /// # Errors
    /// What reading the source fails with.
    fn seek_to_first(&mut self) -> Result<()>;

    /// Goes to the last entry.
    ///
    /// # Errors
    /// What reading the source fails with.
    fn seek_to_last(&mut self) -> Result<()>;

    /// Goes to the first entry at or after (`key`, `sequence`). That is the newest entry of `key`
    /// that is not newer than `sequence`, or the newest entry of the next key.
    ///
    /// # Errors
    /// What reading the source fails with.
    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()>;

    /// Prefetches the memory that a seek to (`key`, `sequence`) will look at, as far as it is known
    /// without waiting. So several cursors wait for theirs at the same time. Moves nothing; by
    /// default it does nothing.
    fn prefetch(&self, key: &[u8], sequence: SequenceNumber) {
        let _ = (key, sequence);
    }

    /// Prefetches the memory that [`EntryCursor::may_hold`] will look at, as
    /// [`EntryCursor::prefetch`] does.
    fn prefetch_filter(&self, key: LookupKey<'_>) {
        let _ = key;
    }

    /// Whether the source may show an entry of `key`. `false` is certain, and found without a
    /// search. The default is `true`, for sources that cannot tell.
    fn may_hold(&self, key: LookupKey<'_>) -> bool {
        let _ = key;
        true
    }

    /// Goes to the last entry strictly before (`key`, `sequence`).
    ///
    /// # Errors
    /// What reading the source fails with.
    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()>;

    /// Goes to the next entry; does nothing if the cursor stands nowhere.
    ///
    /// # Errors
    /// What reading the source fails with.
    fn next(&mut self) -> Result<()>;

    /// Goes to the previous entry; does nothing if the cursor stands nowhere.
    ///
    /// # Errors
    /// What reading the source fails with.
    fn prev(&mut self) -> Result<()>;

    /// Goes over at most `steps` entries, which must lie in a span of the one under the cursor.
    /// Shows each until `seen` says that it is enough. The cursor then stands on the entry shown
    /// last. Returns how many were shown: perhaps fewer than there are.
    ///
    /// The same as `next` or `prev` and `entry` in turns, for less.
    ///
    /// # Errors
    /// What reading the source fails with.
    fn walk(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        for made in 0..steps {
            match direction {
                Direction::Forward => self.next()?,
                Direction::Backward => self.prev()?,
            }
            let Some(entry) = self.entry() else { return Ok(made) };
            if seen(entry).is_break() {
                return Ok(made + 1);
            }
        }
        Ok(steps)
    }

    /// What is known without looking about the entries around the cursor; `None` where nothing is.
    fn stretch(&self) -> Option<Stretch<'_>> {
        None
    }

    /// As [`EntryCursor::stretch`], but if the entries around the cursor are plain, the stretch may
    /// go on along `direction` while they are known to be plain.
    fn stretch_along(&self, direction: Direction) -> Option<Stretch<'_>> {
        let _ = direction;
        self.stretch()
    }
}

/// A position among ordered entries that only goes forward. [`OnlyForward`] makes an
/// [`EntryCursor`] of it, for callers that walk a source once.
pub trait ForwardCursor {
    /// As [`EntryCursor::entry`].
    fn entry(&self) -> Option<Entry<'_>>;

    /// As [`EntryCursor::seek_to_first`].
    ///
    /// # Errors
    /// The errors of reading the source.
    fn seek_to_first(&mut self) -> Result<()>;

    /// As [`EntryCursor::next`].
    ///
    /// # Errors
    /// The errors of reading the source.
    fn next(&mut self) -> Result<()>;

    /// As [`EntryCursor::stretch`].
    fn stretch(&self) -> Option<Stretch<'_>> {
        None
    }
}

/// An [`EntryCursor`] over a [`ForwardCursor`]. A walk in another direction and a seek fail with
/// `InvalidArgument`.
#[derive(Debug)]
pub struct OnlyForward<C>(pub C);

#[cold]
fn only_forward<T>() -> Result<T> {
    Err(Error::invalid("the source can only be read forward"))
}

impl<C: ForwardCursor> EntryCursor for OnlyForward<C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.0.entry()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.0.seek_to_first()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.0.next()
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        self.0.stretch()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        only_forward()
    }

    fn seek(&mut self, _: &[u8], _: SequenceNumber) -> Result<()> {
        only_forward()
    }

    fn seek_before(&mut self, _: &[u8], _: SequenceNumber) -> Result<()> {
        only_forward()
    }

    fn prev(&mut self) -> Result<()> {
        only_forward()
    }
}

/// A stretch of entries of one source, the cursor's among them: those of its block, or of several.
///
/// It allows a merge to walk the stretch without comparing, and a reader to walk it without
/// checking visibility.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// The user key of the first entry of the stretch.
    pub first_key: &'a [u8],
    /// The user key of the last entry of the stretch.
    pub last_key: &'a [u8],
    /// Entries of the stretch before the cursor's.
    pub before: usize,
    /// Entries of the stretch after the cursor's.
    pub after: usize,
    /// No entry of the stretch is newer.
    pub sequence_max: SequenceNumber,
    /// What kinds of entries the stretch can hold.
    pub content: StretchContent,
}

/// What kinds of entries a [`Stretch`] can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StretchContent {
    /// Only `Put`, and of each key of the stretch the source has one entry.
    Plain,
    /// Entries of any kind, and several of one key.
    Any,
}
