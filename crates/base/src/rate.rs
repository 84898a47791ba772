//! The pace of work at a limited rate.
//!
//! It neither sleeps nor reads a clock; its callers do.

use std::time::Duration;

const NS_PER_SECOND: u128 = 1_000_000_000;

/// When work at a limited rate may go on: a token bucket without a reserve. Time that passed
/// without work counts for nothing, so that no burst follows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// When the next piece may begin, on the clock of the caller.
    next_ns: u64,
}

impl Pace {
    /// Counts `bytes`, which take their part of a second of `bytes_per_second`, from `now_ns` on or
    /// behind what was counted before.
    pub fn count(&mut self, bytes: u64, bytes_per_second: u64, now_ns: u64) {
        let takes_ns = u128::from(bytes) * NS_PER_SECOND / u128::from(bytes_per_second.max(1));
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        self.next_ns = self.next_ns.max(now_ns).saturating_add(takes_ns);
    }

    /// Forgets what is counted for the time after `latest_ns`.
    pub fn bound(&mut self, latest_ns: u64) {
        self.next_ns = self.next_ns.min(latest_ns);
    }

    /// How long the next piece must wait; `None` if it may begin.
    #[must_use]
    pub fn rest(&self, now_ns: u64) -> Option<Duration> {
        let rest_ns = self.next_ns.saturating_sub(now_ns);
        (rest_ns > 0).then(|| Duration::from_nanos(rest_ns))
    }
}

#[cfg(test)]
mod tests;
