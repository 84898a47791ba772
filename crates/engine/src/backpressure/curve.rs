//! The curve: pure functions from a debt to its share, and from a share to a delay per byte.
//!
//! The delay grows exponentially with the share. At first it is of the order of what the write
//! itself costs, so that writers and background work find a common pace. Near the hard limit
//! writers hardly move. The curve has no step, so no writer stops without need.

/// The delay per byte at the hard limit, in nanoseconds. It corresponds to 1 MB/s.
const DELAY_NS_PER_BYTE_MAX: f64 = 1000.0;

/// The share of the debt of levels from which on the curve delays writers: the pace has failed to
/// hold the debt, and what it computes from here on comes too late.
pub const SHARE_GUARDED: f64 = 0.9;

/// The share of a debt of levels at its soft limit.
pub const SHARE_SOFT: f64 = 0.5;

/// The bounds of a debt, ascending, in the unit of the debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebtLimits {
    /// The debt that causes nothing.
    pub free: u64,
    /// The debt at which its share is [`SHARE_SOFT`].
    pub soft: u64,
    /// The debt from which on writes stop.
    pub hard: u64,
}

impl DebtLimits {
    /// The place of `debt` between the bounds: 0 up to the first, [`SHARE_SOFT`] at the second, 1
    /// from the third on.
    #[must_use]
    pub fn share_of(&self, debt: f64) -> f64 {
        let part = |from: u64, to: u64| ((debt - from as f64) / (to - from) as f64).clamp(0.0, 1.0);
        part(self.free, self.soft) * SHARE_SOFT + part(self.soft, self.hard) * (1.0 - SHARE_SOFT)
    }
}

/// The delay per byte written, in nanoseconds, at this place of the curve: 0 at 0. `None`, if
/// writes stop.
#[must_use]
pub fn delay_ns_per_byte(share: f64) -> Option<f64> {
    (share < 1.0).then(|| (DELAY_NS_PER_BYTE_MAX + 1.0).powf(share.max(0.0)) - 1.0)
}

/// The same for the debt of levels, which the curve delays beyond [`SHARE_GUARDED`] alone.
#[must_use]
pub fn guard_ns_per_byte(level_share: f64) -> Option<f64> {
    delay_ns_per_byte((level_share - SHARE_GUARDED) / (1.0 - SHARE_GUARDED))
}

#[cfg(test)]
mod tests;
