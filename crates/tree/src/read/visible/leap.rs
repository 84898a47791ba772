//! Crossing what is deleted: who passes over many keys skips what a range tombstone hides, leaps
//! over the gaps that are known, and makes known what it found out.
//!
//! Where it leads is the same without; only how many entries are looked at on the way is not.

use crate::read::visible::{
    coverage::Cover,
    crossing::{HiddenRun, WATCHED_AFTER},
    iter::{KeyPlace, Visible, copy, successor_into},
};
use siltdb_base::{
    cursor::{Course, Cursor},
    error::Result,
    id::SequenceNumber,
};

/// Entries hidden by one range tombstone that are walked over before its rest is skipped.
const HIDDEN_MAX: u32 = 8;

impl<C: Cursor> Visible<C> {
    /// Counts the key in the buffer, which is deleted. Returns whether the merge was moved, to the
    /// end of a gap.
    #[inline]
    pub(super) fn cross(&mut self) -> Result<bool> {
        self.crossing.keys = self.crossing.keys.saturating_add(1);
        if self.crossing.keys == self.crossing.ask_at { self.leap() } else { Ok(false) }
    }

    /// Leaps over the gap in which the key in the buffer lies, if there is one.
    #[cold]
    fn leap(&mut self) -> Result<bool> {
        let Some(gaps) = &self.reader.gaps else { return Ok(false) };
        let crossing = &mut self.crossing;
        if !gaps.is_watched() {
            if crossing.keys < WATCHED_AFTER {
                crossing.ask_at = WATCHED_AFTER;
                return Ok(false);
            }
            let Some(sequence_lock) = &self.reader.sequence_lock else { return Ok(false) };
            sequence_lock.hold(&mut |last| gaps.watch(last));
        }
        let (course, snapshot) = (self.course, self.reader.snapshot);
        let is_in_gap = gaps.leap(&self.key, snapshot, course, &mut self.target);
        if !is_in_gap {
            match course {
                Course::Forward => copy(&mut self.target, &self.key),
                Course::Backward => successor_into(&mut self.target, &self.key),
            }
        }
        if crossing.survey.is_none() {
            crossing.survey = gaps.survey(&self.target, snapshot, course);
        }
        if !is_in_gap {
            crossing.ask_at = crossing.keys.saturating_add(crossing.pause);
            crossing.pause = crossing.pause.saturating_mul(2);
            return Ok(false);
        }
        // The next deleted key is one that a writer took out of a gap, or that has become deleted
        // since: another gap may follow at once.
        crossing.ask_at = crossing.keys.saturating_add(1);
        crossing.pause = 1;
        match course {
            Course::Forward => self.merge.seek(&self.target, snapshot)?,
            Course::Backward => self.merge.seek_before(&self.target, SequenceNumber::MAX)?,
        }
        Ok(true)
    }

    /// Ends the crossing, once the search that made it came to an end.
    #[inline]
    pub(super) fn arrive<T>(&mut self, searched: Result<T>) -> Result<T> {
        if !self.crossing.is_short() && searched.is_ok() {
            self.close_survey();
        }
        self.crossing.clear();
        searched
    }

    #[cold]
    fn close_survey(&mut self) {
        let Some(survey) = self.crossing.survey.take() else { return };
        // In the buffer lies the last deleted key; backward, the one that is seen, if there is one.
        if self.course == Course::Backward && self.key_place == KeyPlace::Nowhere {
            survey.close(&self.key, self.crossing.keys);
        } else {
            successor_into(&mut self.target, &self.key);
            survey.close(&self.target, self.crossing.keys);
        }
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
        let border = match self.course {
            Course::Forward => &fragment.end,
            Course::Backward => &fragment.start,
        };
        self.merge.skip_hidden(border, cover.sequence)?;
        Ok(true)
    }
}
