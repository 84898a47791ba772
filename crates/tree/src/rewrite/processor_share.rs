//! How much of a processor a job keeps while other threads want it, and when it yields.
//!
//! It decides nothing: the engine sets the share by the debt.

use siltdb_base::hint::thread_processor_ns;
use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
    thread,
};

/// How long a job that yields keeps its processor, in nanoseconds: some schedulers take it away
/// only after milliseconds, which are many writes.
const YIELD_INTERVAL_NS: u64 = 200_000;

/// The time over which a share is measured, in nanoseconds. A thread that yields to a busy one gets
/// its processor back after some milliseconds.
const WINDOW_NS: u64 = 20_000_000;

/// The share of a job that does not yield, in thousandths.
const WHOLE: u32 = 1000;

/// The share of a processor that jobs keep. They yield while they have had more.
///
/// # Thread safety
/// Any thread may set and read it.
#[derive(Debug)]
pub struct ProcessorShare(AtomicU32);

impl Default for ProcessorShare {
    fn default() -> Self {
        Self(AtomicU32::new(WHOLE))
    }
}

/// What a thread has had of its processor.
#[derive(Clone, Copy, Debug)]
struct Usage {
    /// When it last looked, by the monotonic clock.
    looked_ns: u64,
    /// The begin of the window, by the monotonic clock.
    from_ns: u64,
    /// What the thread had had of a processor by then, in nanoseconds.
    had_ns: u64,
}

thread_local! {
    static USAGE: Cell<Usage> =
        const { Cell::new(Usage { looked_ns: 0, from_ns: 0, had_ns: 0 }) };
}

impl ProcessorShare {
    /// Sets the share: from 0 to 1, which means that jobs do not yield.
    pub fn set(&self, share: f64) {
        let thousandths = (share.clamp(0.0, 1.0) * f64::from(WHOLE)) as u32;
        // Relaxed, here and below: it carries no other data with it.
        self.0.store(thousandths, Ordering::Relaxed);
    }

    /// The share, from 0 to 1.
    #[must_use]
    pub fn get(&self) -> f64 {
        f64::from(self.0.load(Ordering::Relaxed)) / f64::from(WHOLE)
    }

    /// Yields the processor if this thread has had it for a while, and more than the share. Returns
    /// whether it did. `now_ns` reads the monotonic clock.
    ///
    /// Cost: a load while jobs keep all, else a look at the clock, and each 0.2 ms a system call.
    pub(crate) fn maybe_yield(&self, now_ns: impl Fn() -> u64) -> bool {
        let share = self.0.load(Ordering::Relaxed);
        if share >= WHOLE {
            return false;
        }
        let (now, mut usage) = (now_ns(), USAGE.get());
        if now.saturating_sub(usage.looked_ns) < YIELD_INTERVAL_NS {
            return false;
        }
        let had_ns = thread_processor_ns();
        let yields = had_ns.is_none_or(|had| has_had_more(share, &usage, had, now));
        if now.saturating_sub(usage.from_ns) >= WINDOW_NS {
            (usage.from_ns, usage.had_ns) = (now, had_ns.unwrap_or(0));
        }
        if yields {
            thread::yield_now();
        }
        usage.looked_ns = now_ns();
        USAGE.set(usage);
        yields
    }
}

/// Whether a thread has had more of its processor than `share` thousandths since the window began.
fn has_had_more(share: u32, usage: &Usage, had_ns: u64, now_ns: u64) -> bool {
    let had = u128::from(had_ns.saturating_sub(usage.had_ns));
    had * u128::from(WHOLE) >= u128::from(now_ns.saturating_sub(usage.from_ns)) * u128::from(share)
}

#[cfg(test)]
mod tests;
