//! The stripes into which snapshots cut the order of the database.
//!
//! It does not know which readers hold the snapshots.

use siltdb_base::{id::SequenceNumber, seeded_fault};

/// The points from which the database is looked at: all live snapshots and the published present,
/// or with a retention floor, the snapshots up to it and every number from it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripes {
    /// Ascending, without repetition, never empty; the last is the present or an older floor.
    ends: Vec<SequenceNumber>,
    /// The retention floor.
    floor: Option<SequenceNumber>,
    /// No live snapshot sees an entry from this number on.
    first_unseen: SequenceNumber,
    /// The time of the reader whose time is the earliest, in ms since 1970.
    earliest_ms: u64,
}

/// One stripe: the sequence numbers up to its snapshot and newer than the snapshot before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// 0 is the oldest.
    pub index: usize,
    /// The snapshot that looks at it.
    pub end: SequenceNumber,
}

impl Stripe {
    /// Whether it is the oldest of all.
    #[must_use]
    pub fn is_oldest(self) -> bool {
        self.index == 0
    }
}

impl Stripes {
    /// The stripes between the live `snapshots`, in any order, and the published `present`.
    ///
    /// A snapshot newer than the present changes nothing: what is newer than the present is in no
    /// stripe, so that it is kept.
    #[must_use]
    pub fn new(snapshots: &[SequenceNumber], present: SequenceNumber) -> Self {
        let seen = if seeded_fault!("ignore_snapshot_in_flush") { &[] } else { snapshots };
        let mut ends = seen.to_vec();
        ends.retain(|&end| end < present);
        ends.push(present);
        ends.sort_unstable();
        ends.dedup();
        let ends_stripe = |at: &SequenceNumber| *at >= present || ends.binary_search(at).is_ok();
        assert!(snapshots.iter().all(ends_stripe), "a snapshot ends no stripe: {snapshots:?}");
        // Whether the present is a snapshot, too, is not known here.
        Self { ends, floor: None, first_unseen: SequenceNumber::MAX, earliest_ms: u64::MAX }
    }

    /// The same with the `newest` of the live snapshots, which may be the present; `None`, if there
    /// is none.
    #[must_use]
    pub fn with_newest_snapshot(mut self, newest: Option<SequenceNumber>) -> Self {
        self.first_unseen = newest.map_or(SequenceNumber::ZERO, |newest| {
            SequenceNumber((newest.0 + 1).min(SequenceNumber::MAX.0))
        });
        self
    }

    /// The same for readers of which the earliest reads as of `earliest_ms`, in ms since 1970: what
    /// expires later is still seen.
    #[must_use]
    pub fn with_earliest_time(mut self, earliest_ms: u64) -> Self {
        self.earliest_ms = earliest_ms;
        self
    }

    /// The time by which all readers see an entry as expired, present and later ones, when the
    /// clock shows `settled_ms`.
    ///
    /// # Seeded faults
    /// `expired_dropped_under_a_snapshot`: the time of snapshots does not count.
    #[must_use]
    pub fn expiry_time_ms(&self, settled_ms: u64) -> u64 {
        match seeded_fault!("expired_dropped_under_a_snapshot") {
            true => settled_ms,
            false => settled_ms.min(self.earliest_ms),
        }
    }

    /// Whether a compaction filter may decide about an entry: no live snapshot sees it, and with a
    /// retention floor no reader can look at an older state. What is newer than the present may be
    /// seen from any point.
    #[inline]
    #[must_use]
    pub fn may_filter(&self, sequence: SequenceNumber) -> bool {
        if seeded_fault!("compaction_filter_below_a_snapshot") {
            return true;
        }
        self.floor.is_none() && sequence >= self.first_unseen && sequence <= self.present()
    }

    /// Whether [`Stripes::may_filter`] holds for any number.
    #[must_use]
    pub fn may_filter_any(&self) -> bool {
        self.may_filter(self.present())
    }

    /// The present, or an older floor.
    fn present(&self) -> SequenceNumber {
        self.ends[self.ends.len() - 1]
    }

    /// The same with the retention floor `floor`: what is newer than it is in no stripe, so that it
    /// is kept as it was written.
    #[must_use]
    pub fn with_floor(mut self, floor: Option<SequenceNumber>) -> Self {
        let Some(number) = floor else { return self };
        let newest = self.ends.last().copied().unwrap_or(number).min(number);
        self.ends.retain(|&end| end < newest);
        self.ends.push(newest);
        let is_sorted = self.ends.is_sorted_by(|older, newer| older < newer);
        assert!(is_sorted && newest <= number, "the floor {number} ends {:?}", self.ends);
        self.floor = floor;
        self
    }

    /// The retention floor: a reader may yet look from any number that is not older.
    #[must_use]
    pub fn floor(&self) -> Option<SequenceNumber> {
        self.floor
    }

    /// The stripe that holds `sequence`; `None` if it is newer than the present or the floor.
    #[inline]
    #[must_use]
    pub fn find(&self, sequence: SequenceNumber) -> Option<Stripe> {
        let index = self.ends.partition_point(|&end| end < sequence);
        self.ends.get(index).map(|&end| Stripe { index, end })
    }

    /// The snapshots older than the present and the floor, ascending.
    #[must_use]
    pub fn snapshots(&self) -> &[SequenceNumber] {
        &self.ends[..self.ends.len() - 1]
    }

    /// Whether some snapshot sees an entry at `older` and not yet the one at `newer` that hides it.
    #[must_use]
    pub fn separate(&self, older: SequenceNumber, newer: SequenceNumber) -> bool {
        match (self.find(older), self.find(newer)) {
            (Some(older), Some(newer)) => older != newer,
            _ => true,
        }
    }

    /// Where the oldest stripe ends: every reader, present or future, sees what is not newer.
    #[must_use]
    pub fn oldest_end(&self) -> SequenceNumber {
        self.ends[0]
    }

    /// Where the stripe before `stripe` ends; `None`, if that is the oldest.
    #[must_use]
    pub fn end_before(&self, stripe: Stripe) -> Option<SequenceNumber> {
        Some(self.ends[stripe.index.checked_sub(1)?])
    }
}

/// What lies below the output of a flush or compaction under the keys asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OlderEntries {
    /// No table below the output can hold the keys asked about.
    None,
    /// A table below may.
    Possible,
}
