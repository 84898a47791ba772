//! The curve: a pure function from a debt in bytes to a delay per byte written.
//!
//! The delay grows exponentially with the debt above the soft limit. At first it is of the order of
//! what the write itself costs, so that writers and background work find a common pace. Near the
//! hard limit writers hardly move. The curve has no step, so no writer stops without need.

/// The delay per byte at the hard limit, in nanoseconds. It corresponds to 1 MB/s.
const DELAY_NS_PER_BYTE_MAX: f64 = 1000.0;

/// The bytes that background work has yet to write, and their limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// The debt, in bytes.
    pub bytes: u64,
    /// The debt up to which writes are not delayed, in bytes.
    pub soft: u64,
    /// The debt from which on writes stop, in bytes.
    pub hard: u64,
}

impl Debt {
    /// The place of the debt between the soft limit (0) and the hard limit (1), clamped to this
    /// range.
    #[must_use]
    pub fn share(&self) -> f64 {
        let above = self.bytes.saturating_sub(self.soft) as f64;
        (above / (self.hard - self.soft) as f64).min(1.0)
    }
}

/// What a writer has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Wait this long per byte written by all writers together, in nanoseconds; often zero.
    Delay(f64),
    /// Wait until the debt is below the hard limit.
    Stop,
}

/// The pressure at the largest share of all debts.
#[must_use]
pub fn pressure(share: f64) -> Pressure {
    if share >= 1.0 {
        return Pressure::Stop;
    }
    Pressure::Delay((DELAY_NS_PER_BYTE_MAX + 1.0).powf(share) - 1.0)
}

#[cfg(test)]
mod tests;
