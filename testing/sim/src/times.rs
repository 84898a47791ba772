//! The time by which a database decides expiry. It follows the wall clock, is never earlier than a
//! time already used, and advances while the wall clock is far behind (decision 0004).
//!
//! It mirrors the promise and judges nothing. The simulated clock does not jump by years.

use siltdb_base::clock::{Clock, LAG_MS_MAX, ManualClock};

/// The known times of one open database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    latest_ms: u64,
    /// The time of that reading, by the monotonic clock.
    at_ns: u64,
    /// The times to which a crash may set it back: the last durable one, and those used since.
    floors_ms: Vec<u64>,
    /// The latest expiry of what was seen expired: a kill sets the time back to no earlier one.
    seen_ms: u64,
}

impl Times {
    /// A database whose time is `latest_ms` when `clock` is read. A crash sets it back to that time
    /// or to one of `floors_ms`.
    #[must_use]
    pub fn new(latest_ms: u64, floors_ms: &[u64], clock: &ManualClock) -> Self {
        let (at_ns, floors_ms) = (clock.monotonic_ns(), floors_ms.to_vec());
        let mut times = Self { latest_ms, at_ns, floors_ms, seen_ms: 0 };
        times.note_floor();
        times
    }

    fn note_floor(&mut self) {
        self.floors_ms.push(self.latest_ms);
        self.floors_ms.sort_unstable();
        self.floors_ms.dedup();
    }

    /// The time that decides expiry when `clock` is read now.
    #[must_use]
    pub fn at(&self, clock: &ManualClock) -> u64 {
        let wall_ms = clock.wall_ms();
        let passed_ms = clock.monotonic_ns().saturating_sub(self.at_ns) / 1_000_000;
        match self.latest_ms.saturating_sub(wall_ms) {
            0 => wall_ms,
            1..=LAG_MS_MAX => self.latest_ms,
            _ => self.latest_ms + passed_ms,
        }
    }

    /// The latest time that the database has used.
    #[must_use]
    pub fn latest_ms(&self) -> u64 {
        self.latest_ms
    }

    /// The times to which a crash may set it back, earliest first.
    #[must_use]
    pub fn floors_ms(&self) -> &[u64] {
        &self.floors_ms
    }

    /// The time to which a kill may set it back at most.
    #[must_use]
    pub fn seen_ms(&self) -> u64 {
        self.seen_ms
    }

    /// Notes that what expires at `expiry_ms` was seen expired.
    pub fn saw_expired(&mut self, expiry_ms: u64) {
        self.seen_ms = self.seen_ms.max(expiry_ms);
    }

    /// Follows a reading of `clock` by the database.
    pub fn read(&mut self, clock: &ManualClock) {
        // The database takes no note of when it reads the time that it gave last.
        if clock.wall_ms() != self.latest_ms {
            (self.latest_ms, self.at_ns) = (self.at(clock), clock.monotonic_ns());
        }
        self.note_floor();
    }

    /// Notes that an edit has made the time durable, so that no crash sets it back.
    pub fn made_durable(&mut self) {
        self.floors_ms = vec![self.latest_ms];
    }
}

#[cfg(test)]
mod tests;
