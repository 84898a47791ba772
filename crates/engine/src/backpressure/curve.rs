//! Back-pressure as a debt in bytes: how long a write of so many bytes should wait (DESIGN D12).
//!
//! Pure: it neither waits nor knows who owes. The delay per byte grows exponentially with the debt
//! above the soft limit: at first it is of the order of what the write costs by itself, so that
//! writers and background work find a common pace; near the hard limit they hardly move. The curve
//! has no step, so nobody stops who does not have to.

/// Delay per byte at the hard limit, in nanoseconds: 1 MB/s.
const DELAY_NS_PER_BYTE_MAX: f64 = 1000.0;

/// What background work has yet to do, and when that is too much, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// The debt.
    pub bytes: u64,
    /// Up to here writes are not delayed.
    pub soft: u64,
    /// From here on writes stop.
    pub hard: u64,
}

impl Debt {
    /// How far the debt is from the soft limit, 0, to the hard limit, 1; beyond them it is that.
    #[must_use]
    pub fn share(&self) -> f64 {
        let above = self.bytes.saturating_sub(self.soft) as f64;
        (above / (self.hard - self.soft) as f64).min(1.0)
    }
}

/// What a writer shall do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Wait this long per byte written, in nanoseconds, all writers taken together; often zero.
    Delay(f64),
    /// Wait until the debt is below the hard limit.
    Stop,
}

/// The pressure that the worst of all debts exerts, whose share this is.
#[must_use]
pub fn pressure(share: f64) -> Pressure {
    if share >= 1.0 {
        return Pressure::Stop;
    }
    Pressure::Delay((DELAY_NS_PER_BYTE_MAX + 1.0).powf(share) - 1.0)
}

#[cfg(test)]
mod tests;
