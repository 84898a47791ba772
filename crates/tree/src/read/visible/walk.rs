//! Walking over many keys in one go, for less than a step at a time.
//!
//! Where it leads and what it shows is the same. The checks of a step are made once for a stretch
//! of entries, or left out. Or they are made without setting the iterator down on each key.

use crate::read::visible::{
    iter::{From, KeyPlace, ValuePlace, VisibleIter},
    key_buffer::copy,
    resolve::{Verdict, depends_on_time, expiry_of, judge},
};
use siltdb_base::{
    cursor::{Direction, EntryCursor},
    error::Result,
    key::Entry,
};
use std::ops::ControlFlow;

/// Where a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// On an entry that was shown, which said this.
    Shown(ControlFlow<()>),
    /// It ended on an entry that is not seen, and the next key was found.
    Hidden,
    /// The same for one that takes more than a look.
    Unknown,
}

impl<C: EntryCursor> VisibleIter<C> {
    /// The direction of the last movement.
    #[must_use]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// When the value expires, if it does. A value that operands were applied to does not expire.
    ///
    /// Each copy of values asks here: a separated value has its expiry in its pointer, not beside
    /// it.
    ///
    /// # Errors
    /// Corruption, if the payload is not one of its kind.
    ///
    /// # Panics
    /// If the last movement was backward.
    pub fn expiry_ms(&self) -> Result<Option<u64>> {
        assert_eq!(self.direction, Direction::Forward, "backward, an expiry is not known");
        match (self.key_place, self.merge.entry()) {
            (KeyPlace::Cursor, Some(entry)) => expiry_of(entry.kind, entry.value),
            _ => Ok(None),
        }
    }

    /// Shows the key under the iterator and at most `limit` in all from there on along `direction`,
    /// with their values. It ends when `seen` says that it is enough, and stands on the first key
    /// that was not shown. Returns how many were shown.
    ///
    /// # Errors
    /// The errors of [`VisibleIter::seek_to_first`].
    #[inline]
    pub fn walk(
        &mut self,
        direction: Direction,
        limit: u64,
        mut seen: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut shown = 0;
        let mut show = |key: &[u8], value: &[u8]| {
            shown += 1;
            let flow = seen(key, value);
            if shown < limit { flow } else { ControlFlow::Break(()) }
        };
        while limit > 0
            && let Some((key, value)) = self.entry()
        {
            let mut walked = Stand::Shown(show(key, value));
            if walked == Stand::Shown(ControlFlow::Continue(())) && self.direction == direction {
                self.look_ahead();
                walked = match direction {
                    _ if self.plain > 0 => self.walk_plain(&mut show)?,
                    Direction::Forward => self.walk_resolving(&mut show)?,
                    Direction::Backward => walked,
                };
            }
            if let Stand::Shown(flow) = walked {
                match direction {
                    Direction::Forward => self.next()?,
                    Direction::Backward => self.prev()?,
                }
                if flow.is_break() {
                    break;
                }
            }
        }
        Ok(shown)
    }

    /// Has the iterator stand nowhere, and says where it stood. So it does until a walk has ended,
    /// also if that ends by an error, or by a panic of the caller's function.
    #[inline]
    fn lift(&mut self) -> (KeyPlace, usize) {
        let place = std::mem::replace(&mut self.key_place, KeyPlace::Nowhere);
        (place, std::mem::take(&mut self.plain))
    }

    /// Shows plain entries, which show what they hold.
    #[inline]
    fn walk_plain(
        &mut self,
        show: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<Stand> {
        let mut flow = ControlFlow::Continue(());
        let (place, plain) = self.lift();
        let walked = self.merge.walk(self.direction, plain, &mut |entry| {
            flow = show(entry.key, entry.value);
            flow
        })?;
        (self.key_place, self.plain) = (place, plain - walked);
        Ok(Stand::Shown(flow))
    }

    /// Shows what speaks for itself: in the rest of the span at hand, or, if there is none, entry
    /// by entry, up to the bound. Only where no range tombstone is.
    fn walk_resolving(
        &mut self,
        show: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<Stand> {
        let mut stands = Stand::Shown(ControlFlow::Continue(()));
        let (KeyPlace::Cursor, Some(entry)) = (self.key_place, self.merge.entry()) else {
            return Ok(stands);
        };
        let span = self.merge.stretch();
        let steps = match &span {
            None if self.coverage.is_empty() => None,
            Some(span) if self.coverage.is_clear(entry.key, span.last_key) => Some(span.after),
            _ => return Ok(stands),
        };
        copy(&mut self.key, entry.key);
        let (mut deleted, deleted_max) = (0, self.reader.patience());
        let (place, _) = self.lift();
        let (key, sight, bounds) = (&mut self.key, self.reader.sight(), &self.bounds);
        let mut judged = |entry: Entry<'_>| {
            stands = Stand::Hidden;
            if !sight.sees(entry.sequence) || entry.key == key {
                return ControlFlow::Continue(());
            }
            let verdict = match depends_on_time(entry.kind) || bounds.is_after(entry.key) {
                true => None,
                false => judge(entry.kind, entry.value, entry.sequence, None, 0).ok(),
            };
            match verdict {
                Some(Verdict::Value(value)) => {
                    deleted = 0;
                    copy(key, entry.key);
                    let flow = show(entry.key, value);
                    stands = Stand::Shown(flow);
                    flow
                }
                Some(Verdict::Absent) if deleted < deleted_max => {
                    deleted += 1;
                    copy(key, entry.key);
                    ControlFlow::Continue(())
                }
                // What takes more, is damaged, or lies behind the bound is looked at again with all
                // means. So are many deleted keys, because there may be an empty range.
                _ => {
                    stands = Stand::Unknown;
                    ControlFlow::Break(())
                }
            }
        };
        let walked = match steps {
            Some(steps) => self.merge.walk(Direction::Forward, steps, &mut judged),
            None => self.merge.walk_shuffled(&mut judged),
        }?;
        self.key_place = place;
        if walked > 0 {
            self.value_place = ValuePlace::Cursor(0);
            if stands == Stand::Hidden {
                self.key_place = KeyPlace::Nowhere;
                self.merge.next()?;
            }
            if !matches!(stands, Stand::Shown(_)) {
                self.find_forward(From::NextKey)?;
            }
        }
        Ok(stands)
    }
}
