//! The time by which a database decides expiry: that of the wall clock, but never an earlier one
//! than it has used, and running on while the wall clock is far behind (decision 0004).
//!
//! It follows the promise and judges nothing. The simulated clock does not jump by years.

use siltdb_base::clock::{Clock, LAG_MS_MAX, ManualClock};

/// What is known of the time of one open database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    latest_ms: u64,
    /// When that was, by the monotonic clock.
    at_ns: u64,
    /// What a crash may take it back to: the last one known to be durable, and those used since.
    floors_ms: Vec<u64>,
}

impl Times {
    /// Those of a database whose time is `latest_ms` when `clock` is read, and that a crash takes
    /// back to that or to one of `floors_ms`.
    #[must_use]
    pub fn new(latest_ms: u64, floors_ms: &[u64], clock: &ManualClock) -> Self {
        let (at_ns, floors_ms) = (clock.monotonic_ns(), floors_ms.to_vec());
        let mut times = Self { latest_ms, at_ns, floors_ms };
        times.note_floor();
        times
    }

    fn note_floor(&mut self) {
        self.floors_ms.push(self.latest_ms);
        self.floors_ms.sort_unstable();
        self.floors_ms.dedup();
    }

    /// The time that decides at what `clock` shows.
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

    /// The latest that it has used.
    #[must_use]
    pub fn latest_ms(&self) -> u64 {
        self.latest_ms
    }

    /// What a crash may take it back to, earliest first.
    #[must_use]
    pub fn floors_ms(&self) -> &[u64] {
        &self.floors_ms
    }

    /// The database has read `clock`.
    pub fn read(&mut self, clock: &ManualClock) {
        (self.latest_ms, self.at_ns) = (self.at(clock), clock.monotonic_ns());
        self.note_floor();
    }

    /// An edit has made the time durable: no crash takes it back any more.
    pub fn made_durable(&mut self) {
        self.floors_ms = vec![self.latest_ms];
    }
}

#[cfg(test)]
mod tests;
