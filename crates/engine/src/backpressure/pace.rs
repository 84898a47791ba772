//! The pace: a pure function from the debt of levels and the passing time to one rate for all
//! writers.
//!
//! It reads no clock and delays no writer.
//!
//! 1. What compactions drain follows from what was written and how the debt changed meanwhile. A
//!    moving average of it is the *base*: the rate at which the debt would stay as it is.
//! 2. The rate is the base, times a factor of the share of the debt: 1 at [`SHARE_WANTED`], more
//!    below it, less above it. So the debt moves towards that share, and nothing swings: the base
//!    does not depend on where the debt is, and the debt alone follows the rate.
//! 3. Without debt there is no rate: writers are free. The factor grows without bound as the debt
//!    vanishes, so the rate has no step there.
//! 4. While no compaction runs, nothing is learned of how fast they are.
//!
//! # Seeded fault
//! `pace_never_recovers`: the base falls and never rises.

use siltdb_base::seeded_fault;
use std::time::Duration;

/// The share of the debt that the pace steers towards. It leaves room for what the pace learns
/// late, and keeps enough runs for compactions to be large.
pub const SHARE_WANTED: f64 = 0.4;

/// How strongly the factor depends on the share. With 2 the rate is 1.35 times the base where the
/// share is 0.15 too small. A larger number makes each step of a compaction felt, a smaller one
/// lets the debt wander further before the rate has followed.
const STRENGTH: f64 = 2.0;

/// Below this share the factor also grows as the share falls.
const SHARE_NEARLY_FREE: f64 = 0.1;

/// The time over which the base is averaged, in seconds. It is longer than the steps in which
/// compactions end, and shorter than writers take to fill the debt between wanted and stopped.
const BASE_SECONDS: f64 = 10.0;

/// The time over which the flow of writers is averaged, in seconds.
const FLOW_SECONDS: f64 = 3.0;

/// How long writers must have been watched before the pace holds them, in seconds: a database may
/// be opened with debt, and then nothing tells how fast they are.
const WATCHED_SECONDS_MIN: f64 = 1.0;

/// The lowest base, in bytes a second: a compaction that reports no progress stops no writer.
const BASE_MIN: f64 = 1e6;

/// No observation counts for more than this many times the base. The debt of another family may
/// become the largest, and then the change of the debt says nothing.
const OBSERVED_MAX: f64 = 4.0;

/// The shortest time between two steps, in nanoseconds.
pub const STEP_NS_MIN: u64 = 20_000_000;

/// The longest time that one step counts for, in seconds: what the pace has not watched, it has not
/// learned.
const STEP_SECONDS_MAX: f64 = 2.0;

/// What the pace has learned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WritePace {
    /// What writers write, in bytes a second.
    flow: f64,
    /// The time over which that is averaged so far, in seconds.
    watched: f64,
    /// What compactions drain, in bytes a second; `None` until there was a debt.
    base: Option<f64>,
    /// The share of the debt at the last step.
    share: f64,
}

/// What happened since the last step.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The share of the debt of levels now.
    pub share: f64,
    /// What writing this much adds to the share, if nothing is drained: all of it. In bytes.
    pub bytes_per_share: f64,
    /// The bytes that writers wrote.
    pub written_bytes: u64,
    /// The time that passed.
    pub elapsed: Duration,
    /// Whether compactions are at work on the debt.
    pub drain: Drain,
}

/// Whether compactions are at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// At least one is.
    Running,
    /// None is: perhaps none is due, or none may begin.
    Resting,
}

impl WritePace {
    /// The pace after what was observed.
    #[must_use]
    pub fn step(self, observed: &Observation) -> Self {
        let seconds = observed.elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return self;
        }
        let written = observed.written_bytes as f64 / seconds;
        let watched = (self.watched + seconds).min(FLOW_SECONDS);
        let flow = self.flow + (seconds / watched).min(1.0) * (written - self.flow);
        let base = match self.base {
            None => {
                let is_known = watched >= WATCHED_SECONDS_MIN && observed.share > 0.0;
                is_known.then_some(flow.max(BASE_MIN))
            }
            Some(base) => {
                let weight = weight_of(seconds, BASE_SECONDS);
                Some((base + weight * (self.drained(base, flow, observed) - base)).max(BASE_MIN))
            }
        };
        Self { flow, watched, base, share: observed.share }
    }

    /// What compactions have drained, in bytes a second, as far as that was seen; else the `base`.
    fn drained(&self, base: f64, flow: f64, observed: &Observation) -> f64 {
        let seconds = observed.elapsed.as_secs_f64();
        let seen = match observed.drain {
            // They keep up with the writers: they can do at least this much.
            _ if self.share == 0.0 && observed.share == 0.0 => flow.max(base),
            Drain::Resting => base,
            Drain::Running => {
                let grown = (observed.share - self.share) * observed.bytes_per_share;
                let drained = (observed.written_bytes as f64 - grown) / seconds;
                drained.clamp(0.0, base * OBSERVED_MAX)
            }
        };
        if seeded_fault!("pace_never_recovers") { seen.min(base) } else { seen }
    }

    /// The rate of all writers together, in bytes a second; `None` if they are free.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let base = self.base.filter(|_| self.share > 0.0)?;
        let factor = (STRENGTH * (SHARE_WANTED - self.share)).exp();
        Some(base * factor * (SHARE_NEARLY_FREE / self.share).max(1.0))
    }
}

/// The weight of what was seen for these seconds in an average over others.
fn weight_of(seconds: f64, average: f64) -> f64 {
    1.0 - (-seconds.min(STEP_SECONDS_MAX) / average).exp()
}

#[cfg(test)]
mod tests;
