//! Skipping what is deleted. A reader passes what a range tombstone hides when it seeks into it, or
//! after it has passed many keys. It skips empty ranges that are known, and makes known what it
//! found out.
//!
//! It changes only how many entries are looked at on the way, not which key is found.

use crate::read::merge::HiddenRange;
use crate::read::visible::{
    coverage::Cover,
    deleted_run::{HiddenRun, TRACKED_AFTER},
    iter::{KeyPlace, VisibleIter},
    key_buffer::{copy, successor_into},
};
use siltdb_base::{
    cursor::{Direction, EntryCursor},
    error::Result,
    id::SequenceNumber,
};

/// Entries hidden by one range tombstone that are walked over before its rest is skipped.
const HIDDEN_MAX: u32 = 8;

impl<C: EntryCursor> VisibleIter<C> {
    /// Counts the key in the buffer, which is deleted. Returns whether the merge was moved, to the
    /// end of an empty range.
    #[inline]
    pub(super) fn skip_deleted(&mut self) -> Result<bool> {
        self.deleted_run.keys = self.deleted_run.keys.saturating_add(1);
        if self.deleted_run.keys == self.deleted_run.ask_at { self.skip() } else { Ok(false) }
    }

    /// Skips the empty range in which the key in the buffer lies, if there is one.
    #[cold]
    fn skip(&mut self) -> Result<bool> {
        let Some(empty_ranges) = &self.reader.empty_ranges else { return Ok(false) };
        let deleted_run = &mut self.deleted_run;
        if !empty_ranges.is_tracking() {
            if deleted_run.keys < TRACKED_AFTER {
                deleted_run.ask_at = TRACKED_AFTER;
                return Ok(false);
            }
            let Some(sequence_lock) = &self.reader.sequence_lock else { return Ok(false) };
            sequence_lock.hold(&mut |last| empty_ranges.track(last));
        }
        let (direction, snapshot) = (self.direction, self.reader.snapshot);
        let is_in_empty_range = {
            let now_ms = self.reader.clock.wall_ms();
            empty_ranges.skip(&self.key, snapshot, now_ms, direction, &mut self.target)
        };
        if !is_in_empty_range {
            match direction {
                Direction::Forward => copy(&mut self.target, &self.key),
                Direction::Backward => successor_into(&mut self.target, &self.key),
            }
        }
        if deleted_run.candidate.is_none() {
            deleted_run.candidate = empty_ranges.candidate(&self.target, snapshot, direction);
        }
        if !is_in_empty_range {
            deleted_run.ask_at = deleted_run.keys.saturating_add(deleted_run.pause);
            deleted_run.pause = deleted_run.pause.saturating_mul(2);
            return Ok(false);
        }
        // The next deleted key is one that a writer took out of an empty range, or that has become
        // deleted since. Another empty range may follow at once.
        deleted_run.ask_at = deleted_run.keys.saturating_add(1);
        deleted_run.pause = 1;
        match direction {
            Direction::Forward => self.merge.seek(&self.target, snapshot)?,
            Direction::Backward => self.merge.seek_before(&self.target, SequenceNumber::MAX)?,
        }
        Ok(true)
    }

    /// Ends the crossing, once the search that made it came to an end.
    #[inline]
    pub(super) fn arrive<T>(&mut self, searched: Result<T>) -> Result<T> {
        if !self.deleted_run.is_short() && searched.is_ok() {
            self.learn();
        }
        self.deleted_run.clear();
        searched
    }

    #[cold]
    fn learn(&mut self) {
        let Some(candidate) = self.deleted_run.candidate.take() else { return };
        let as_of_ms = self.reader.clock.wall_ms();
        // In the buffer lies the last deleted key; backward, the one that is seen, if there is one.
        if self.direction == Direction::Backward && self.key_place == KeyPlace::Nowhere {
            candidate.learn(&self.key, self.deleted_run.keys, as_of_ms);
        } else {
            successor_into(&mut self.target, &self.key);
            candidate.learn(&self.target, self.deleted_run.keys, as_of_ms);
        }
    }

    /// Has the merge seek `key`. What a range tombstone over it hides is not looked at.
    #[inline]
    pub(super) fn seek_merge(&mut self, key: &[u8]) -> Result<()> {
        match self.coverage.find(key) {
            None => self.merge.seek(key, self.reader.newest()),
            Some(cover) => self.seek_past(key, cover),
        }
    }

    /// The same with the range tombstone over `key`.
    #[cold]
    pub(super) fn seek_past(&mut self, key: &[u8], cover: Cover) -> Result<()> {
        copy(&mut self.target, &self.coverage.fragment(cover).end);
        // Ranges that were deleted one after the other are passed together.
        while let Some(next) = self.coverage.find(&self.target)
            && next.sequence >= cover.sequence
            && !self.bounds.is_after(&self.target)
        {
            copy(&mut self.target, &self.coverage.fragment(next).end);
        }
        let newest = self.reader.newest();
        let hidden = HiddenRange { border: &self.target, tombstone: cover.sequence };
        self.merge.seek_past(key, newest, hidden)
    }

    /// Has the merge seek the last entry of a key up to `key`, in the same way.
    pub(super) fn seek_merge_for_prev(&mut self, key: &[u8]) -> Result<()> {
        successor_into(&mut self.target, key);
        let Some(cover) = self.coverage.find(key) else {
            return self.merge.seek_before(&self.target, SequenceNumber::MAX);
        };
        let start = &self.coverage.fragment(cover).start;
        let hidden = HiddenRange { border: start, tombstone: cover.sequence };
        self.merge.seek_before_past(&self.target, hidden)
    }

    /// Counts an entry that `cover` hides, and after some skips what else it hides.
    ///
    /// Says whether the merge was moved, so that its entry, new or not, is to be looked at (again).
    pub(super) fn skip_hidden(
        &mut self,
        cover: Option<Cover>,
        sequence: SequenceNumber,
    ) -> Result<bool> {
        let Some(cover) = cover.filter(|cover| cover.sequence > sequence) else {
            return Ok(false);
        };
        if self.hidden.cover == Some(cover) {
            self.hidden.length = self.hidden.length.saturating_add(1);
        } else {
            self.hidden = HiddenRun { cover: Some(cover), length: 1 };
        }
        if self.hidden.length != HIDDEN_MAX {
            return Ok(false);
        }
        let fragment = self.coverage.fragment(cover);
        let border = match self.direction {
            Direction::Forward => &fragment.end,
            Direction::Backward => &fragment.start,
        };
        self.merge.skip_hidden(border, cover.sequence)?;
        Ok(true)
    }
}
