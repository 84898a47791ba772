//! The time by which a database decides expiry: that of the wall clock, but never an earlier one
//! than it has used (decision 0004).
//!
//! It follows the promise and judges nothing.

/// What is known of the time of one open database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    latest_ms: u64,
    /// What a crash may take it back to: the last one known to be durable, and those used since.
    floors_ms: Vec<u64>,
}

impl Times {
    /// Those of a database whose time is `latest_ms` and that a crash takes back to that or to one
    /// of `floors_ms`.
    #[must_use]
    pub fn new(latest_ms: u64, floors_ms: &[u64]) -> Self {
        let mut times = Self { latest_ms, floors_ms: floors_ms.to_vec() };
        times.note_floor();
        times
    }

    fn note_floor(&mut self) {
        self.floors_ms.push(self.latest_ms);
        self.floors_ms.sort_unstable();
        self.floors_ms.dedup();
    }

    /// The time that decides while the clock shows `clock_ms`.
    #[must_use]
    pub fn at(&self, clock_ms: u64) -> u64 {
        self.latest_ms.max(clock_ms)
    }

    /// What a crash may take it back to, earliest first.
    #[must_use]
    pub fn floors_ms(&self) -> &[u64] {
        &self.floors_ms
    }

    /// The database has read the clock, which shows `clock_ms`.
    pub fn read(&mut self, clock_ms: u64) {
        self.latest_ms = self.at(clock_ms);
        self.note_floor();
    }

    /// An edit has made the time durable: no crash takes it back any more.
    pub fn made_durable(&mut self) {
        self.floors_ms = vec![self.latest_ms];
    }
}

#[cfg(test)]
mod tests;
