//! When the log must be synced next, for commits that do not wait for a sync.
//!
//! It syncs nothing.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A commit for which no sync was asked is synced after this long.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The time of the next sync.
///
/// # Thread safety
/// Any thread may ask for a sync and look when one is due.
#[derive(Debug)]
pub struct SyncTimer {
    /// How soon commits since the last sync must be synced, in nanoseconds.
    within_ns: AtomicU64,
    /// When the log was last synced for time's sake, by the monotonic clock.
    last_ns: AtomicU64,
}

impl SyncTimer {
    /// One whose last sync was now.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        let within_ns = AtomicU64::new(nanoseconds(SYNC_INTERVAL));
        Self { within_ns, last_ns: AtomicU64::new(now_ns) }
    }

    /// Asks for a sync within `interval`; says whether that is sooner than before.
    pub fn ask(&self, interval: Duration) -> bool {
        let interval_ns = nanoseconds(interval);
        // Relaxed: the thread that syncs looks again at each turn.
        interval_ns < self.within_ns.fetch_min(interval_ns, Ordering::Relaxed)
    }

    /// In how long the next sync is due; zero if it is.
    #[must_use]
    pub fn due_in(&self, now_ns: u64) -> Duration {
        // Relaxed, here and below: two syncs for one turn do no harm.
        let within = self.within_ns.load(Ordering::Relaxed);
        let due = self.last_ns.load(Ordering::Relaxed).saturating_add(within);
        Duration::from_nanos(due.saturating_sub(now_ns))
    }

    /// A sync is made for what was asked so far. To be called before the end of the log is looked
    /// at: what is asked for after this is seen to by the next sync, and what was asked before is
    /// published, and so within this one.
    pub fn begin(&self, now_ns: u64) {
        self.last_ns.store(now_ns, Ordering::Relaxed);
        self.within_ns.store(nanoseconds(SYNC_INTERVAL), Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
