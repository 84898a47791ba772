//! When the log must be synced next, for commits that do not wait for a sync.
//!
//! The timer syncs nothing.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The interval of syncs for commits that ask for none.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The time of the next sync.
///
/// # Thread safety
/// Any thread may ask for a sync and look when one is due.
#[derive(Debug)]
pub struct SyncTimer {
    /// The time within which commits since the last sync must be synced, in nanoseconds.
    within_ns: AtomicU64,
    /// When the timer last began a sync, by the monotonic clock.
    last_ns: AtomicU64,
}

impl SyncTimer {
    /// A timer whose last sync began at `now_ns`.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        let within_ns = AtomicU64::new(nanoseconds(SYNC_INTERVAL));
        Self { within_ns, last_ns: AtomicU64::new(now_ns) }
    }

    /// Asks for a sync within `interval`. The result says whether that is sooner than before.
    pub fn ask(&self, interval: Duration) -> bool {
        let interval_ns = nanoseconds(interval);
        // Relaxed: the syncing thread reads it again in each turn.
        interval_ns < self.within_ns.fetch_min(interval_ns, Ordering::Relaxed)
    }

    /// The time until the next sync is due; zero if it is due.
    #[must_use]
    pub fn due_in(&self, now_ns: u64) -> Duration {
        // Relaxed, here and below: two syncs instead of one do no harm.
        let within = self.within_ns.load(Ordering::Relaxed);
        let due = self.last_ns.load(Ordering::Relaxed).saturating_add(within);
        Duration::from_nanos(due.saturating_sub(now_ns))
    }

    /// Notes the beginning of a sync. To be called before the sync reads the end of the log. Then
    /// the next sync serves each later request, and each earlier one is published and so part of
    /// this sync.
    pub fn begin(&self, now_ns: u64) {
        self.last_ns.store(now_ns, Ordering::Relaxed);
        self.within_ns.store(nanoseconds(SYNC_INTERVAL), Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
