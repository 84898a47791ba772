//! Back-pressure as a debt in bytes: how long a write of so many bytes should wait (DESIGN D12).
//!
//! Pure: it neither waits nor knows who owes. The delay per byte grows with the square of the debt
//! above the soft limit, so that writers slow down long before they would have to stop, and
//! without a step anywhere.

/// Delay per byte at the hard limit, in nanoseconds: 1 MB/s.
const DELAY_NS_PER_BYTE_MAX: f64 = 1000.0;

/// Shortest sleep worth asking for, in nanoseconds; less is owed until it adds up.
pub const SLEEP_NS_MIN: u64 = 200_000;

/// Longest single sleep, in nanoseconds, so that no one write pays for all.
pub const SLEEP_NS_MAX: u64 = 10_000_000;

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

/// What a writer shall do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Wait this long per byte written, in nanoseconds; often zero.
    Delay(f64),
    /// Wait until the debt is below the hard limit.
    Stop,
}

/// The pressure that the worst of several debts exerts.
#[must_use]
pub fn pressure(debts: &[Debt]) -> Pressure {
    let mut worst = 0.0_f64;
    for debt in debts {
        if debt.bytes >= debt.hard {
            return Pressure::Stop;
        }
        if debt.bytes > debt.soft {
            let share = (debt.bytes - debt.soft) as f64 / (debt.hard - debt.soft) as f64;
            worst = worst.max(share);
        }
    }
    Pressure::Delay(DELAY_NS_PER_BYTE_MAX * worst * worst)
}

#[cfg(test)]
mod tests {
    //! The shape of the curve.

    use super::*;

    fn delay(bytes: u64) -> f64 {
        match pressure(&[Debt { bytes, soft: 100, hard: 200 }]) {
            Pressure::Delay(delay) => delay,
            Pressure::Stop => f64::INFINITY,
        }
    }

    #[test]
    fn the_delay_starts_at_zero_and_rises_without_a_step() {
        assert_eq!(delay(0), 0.0);
        assert_eq!(delay(100), 0.0);
        let mut before = 0.0;
        for bytes in 101..200 {
            assert!(delay(bytes) > before);
            assert!(delay(bytes) - before < 25.0);
            before = delay(bytes);
        }
        assert_eq!(delay(200), f64::INFINITY);
    }

    #[test]
    fn the_worst_debt_decides() {
        let idle = Debt { bytes: 0, soft: 1, hard: 2 };
        let full = Debt { bytes: 2, soft: 1, hard: 2 };
        assert_eq!(pressure(&[idle, full]), Pressure::Stop);
        assert_eq!(pressure(&[idle]), Pressure::Delay(0.0));
        assert_eq!(pressure(&[]), Pressure::Delay(0.0));
    }
}
