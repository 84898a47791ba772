//! How far a reader may go without checking what it sees.
//!
//! It looks at what is known of a stretch of entries, never at the entries.

use crate::{
    read::merge::Merge,
    read::visible::{bounds::Bounds, coverage::Coverage},
};
use siltdb_base::{
    cursor::{Direction, EntryCursor, Stretch, StretchContent},
    id::SequenceNumber,
};

/// What is known of the entries after the one that a merge stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// This many are plain: one `Put` of each key, none newer than the snapshot, no range tombstone
    /// over them, all within the bounds.
    Steps(usize),
    /// Nothing is known, nor will be for this many entries.
    NotFor(usize),
}

/// What the reader sees, and which tombstones are over it.
#[derive(Clone, Copy, Debug)]
pub struct Outlook<'a> {
    /// What is newer is not seen.
    pub snapshot: SequenceNumber,
    /// What lies beyond is not shown.
    pub bounds: &'a Bounds,
    /// The range tombstones.
    pub coverage: &'a Coverage,
}

impl Outlook<'_> {
    /// Looks ahead along `direction`.
    #[inline]
    pub fn ahead(&self, merge: &Merge<impl EntryCursor>, direction: Direction) -> Plain {
        let steps = |span: &Stretch<'_>| match direction {
            Direction::Forward => span.after,
            Direction::Backward => span.before,
        };
        let Some(far) = merge.stretch_along(direction) else { return Plain::NotFor(0) };
        if self.is_plain(&far, merge, direction) {
            return Plain::Steps(steps(&far));
        }
        match merge.stretch() {
            Some(near) if steps(&near) < steps(&far) && self.is_plain(&near, merge, direction) => {
                Plain::Steps(steps(&near))
            }
            Some(near) => Plain::NotFor(steps(&near)),
            None => Plain::NotFor(0),
        }
    }

    #[inline]
    fn is_plain(
        &self,
        span: &Stretch<'_>,
        merge: &Merge<impl EntryCursor>,
        direction: Direction,
    ) -> bool {
        let is_within = match direction {
            Direction::Forward => !self.bounds.is_after(span.last_key),
            Direction::Backward => !self.bounds.is_before(span.first_key),
        };
        span.content == StretchContent::Plain
            && span.sequence_max <= self.snapshot
            && is_within
            && merge.entry().is_some_and(|entry| match direction {
                Direction::Forward => self.coverage.is_clear(entry.key, span.last_key),
                Direction::Backward => self.coverage.is_clear(span.first_key, entry.key),
            })
    }
}
