//! A cursor that fails when its job is cancelled, tells the job how far it has come, and leaves out
//! blocks that are copied.
//!
//! It stands under everything that drops entries: a job that drops millions in a row must end soon
//! too.

use crate::rewrite::{block_copy::BlockCopies, job::JobContext};
use siltdb_base::{
    cursor::{EntryCursor, Stretch},
    error::Result,
    id::SequenceNumber,
    key::Entry,
    slice::Slice,
};
use std::collections::VecDeque;

/// Steps between two looks at whether the job was cancelled, and two reports: few enough that they
/// do not take long with large values either.
const STEPS_BETWEEN_REPORTS: u32 = 64;

/// A cursor that reports to its job.
#[derive(Debug)]
pub struct JobCursor<'a, C> {
    cursor: C,
    context: JobContext<'a>,
    steps: u32,
    /// The first key of the next run of copied blocks, and the first key after it.
    skips: VecDeque<(Slice, Slice)>,
    /// Entries from this key on are those of other parts of the job.
    upper: Option<Slice>,
    /// It was found behind the upper border, and shows nothing any more.
    has_passed: bool,
}

impl<'a, C> JobCursor<'a, C> {
    /// Reports for `cursor`, which stays where it stands.
    #[must_use]
    pub fn new(cursor: C, context: &JobContext<'a>) -> Self {
        let (skips, upper) = (VecDeque::new(), None);
        Self { cursor, context: *context, steps: 0, skips, upper, has_passed: false }
    }

    fn report(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        if let Some(progress) = self.context.progress {
            progress.read(u64::from(steps));
        }
    }
}

impl<C: EntryCursor> JobCursor<'_, C> {
    /// The same up to the key `upper`, or to a few entries behind it. A part of a job of which the
    /// rest is dropped would otherwise read on through the keys of all other parts.
    #[must_use]
    pub fn up_to(mut self, upper: Option<Slice>) -> Self {
        self.upper = upper;
        self
    }

    /// The same going round the blocks of `copies`, forward. It stands before all of them.
    ///
    /// # Errors
    /// What going round the first blocks fails with.
    pub fn around(mut self, copies: &BlockCopies) -> Result<Self> {
        self.skips = copies.skips().collect();
        self.skip()?;
        Ok(self)
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        self.steps += 1;
        if self.steps < STEPS_BETWEEN_REPORTS {
            return Ok(());
        }
        self.report();
        let upper = self.upper.as_ref();
        let entry = self.cursor.entry();
        self.has_passed = entry.zip(upper).is_some_and(|(entry, upper)| entry.key >= &upper[..]);
        self.context.go_on()
    }

    #[inline]
    fn skip(&mut self) -> Result<()> {
        while let Some((first, after)) = self.skips.front() {
            if self.cursor.entry().is_none_or(|entry| entry.key < first.as_bytes()) {
                break;
            }
            self.cursor.seek(after, SequenceNumber::MAX)?;
            self.skips.pop_front();
        }
        Ok(())
    }
}

impl<C> Drop for JobCursor<'_, C> {
    fn drop(&mut self) {
        self.report();
    }
}

impl<C: EntryCursor> EntryCursor for JobCursor<'_, C> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        if self.has_passed { None } else { self.cursor.entry() }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.seek_to_first()?;
        self.skip()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.seek_to_last()
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.cursor.seek(key, sequence)?;
        self.skip()
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.cursor.seek_before(key, sequence)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.step()?;
        self.cursor.next()?;
        self.skip()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.step()?;
        self.cursor.prev()
    }

    #[inline]
    fn stretch(&self) -> Option<Stretch<'_>> {
        self.cursor.stretch()
    }
}
