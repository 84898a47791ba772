//! Time, as an argument: the real one, or one that a test turns by hand.
//!
//! Wall time decides expiry; monotonic time decides waiting. Neither orders commits.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Where the engine reads the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since 1970 (UTC); may jump.
    fn wall_ms(&self) -> u64;

    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Lets `duration` pass.
    fn sleep(&self, duration: Duration);
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock whose wall time never goes back, not even below that of an earlier process.
///
/// What has been shown as expired stays expired when somebody sets the machine's clock back.
#[derive(Debug)]
pub struct ForwardClock {
    clock: Arc<dyn Clock>,
    latest_ms: AtomicU64,
}

impl ForwardClock {
    /// `clock`, but never before `latest_ms`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, latest_ms: u64) -> Self {
        Self { clock, latest_ms: AtomicU64::new(latest_ms) }
    }
}

impl Clock for ForwardClock {
    fn wall_ms(&self) -> u64 {
        let now = self.clock.wall_ms();
        // Relaxed: a time carries no other data with it. The common case writes nothing, so that
        // readers do not contend for the line: within a millisecond one of them moves it.
        let latest = self.latest_ms.load(Ordering::Relaxed);
        if now <= latest {
            return latest;
        }
        self.latest_ms.fetch_max(now, Ordering::Relaxed).max(now)
    }

    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

/// A clock that moves only when told, or when somebody sleeps on it.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicU64,
    monotonic_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `wall_ms`.
    #[must_use]
    pub fn new(wall_ms: u64) -> Self {
        Self { wall_ms: AtomicU64::new(wall_ms), monotonic_ns: AtomicU64::new(0) }
    }

    /// Moves both times forward.
    pub fn advance(&self, duration: Duration) {
        let (ms, ns) = (duration.as_millis() as u64, duration.as_nanos() as u64);
        // Relaxed: a time carries no other data with it.
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
        self.monotonic_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Sets the wall time, back too, as an administrator would.
    pub fn set_wall_ms(&self, wall_ms: u64) {
        // Relaxed: as in `advance`.
        self.wall_ms.store(wall_ms, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> u64 {
        // Relaxed: as in `advance`.
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        // Relaxed: as in `advance`.
        self.monotonic_ns.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests;
