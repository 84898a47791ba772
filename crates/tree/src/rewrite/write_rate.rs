//! The common rate of all jobs that write tables.
//!
//! Every byte of a new table is counted, and every separated value that moves. Compactions wait
//! when they are ahead of the rate; flushes never do, because writers wait for them. So flushes
//! come first: what they write is missing to compactions. While writers are delayed because
//! compactions lag behind, the limit is lifted.

use siltdb_base::{clock::Clock, error::Result, fs::WriteFile, rate::Pace, sync::lock};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How far what was written may be ahead of the rate. A flush writes as fast as it can, and
/// compactions must go on some time after it. No append waits for longer.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Longest sleep before a job looks whether the limit was lifted.
const NAP: Duration = Duration::from_millis(50);

/// Whether a job waits for the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateUse {
    /// It waits while what was written is ahead of the rate.
    Waits,
    /// It does not: its bytes count all the same.
    Counts,
}

/// A rate for all jobs of a database, and what they have written.
///
/// # Thread safety
/// Any thread may count and ask. The lock is never held during IO.
#[derive(Debug)]
pub struct WriteRate {
    bytes_per_second: u64,
    clock: Arc<dyn Clock>,
    pace: Mutex<Pace>,
    is_lifted: AtomicBool,
    is_ended: AtomicBool,
}

impl WriteRate {
    /// A rate in bytes a second, by `clock`.
    #[must_use]
    pub fn new(bytes_per_second: u64, clock: Arc<dyn Clock>) -> Self {
        let (is_lifted, is_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { bytes_per_second, clock, pace: Mutex::default(), is_lifted, is_ended }
    }

    /// Notes the share of the debt of compactions. While it is not 0, writers are delayed, and no
    /// job waits for the rate.
    pub fn note_debt(&self, share: f64) {
        // Relaxed: a hint, which carries no other data with it.
        self.is_lifted.store(share > 0.0, Ordering::Relaxed);
    }

    /// Lets no job wait any more, so that a close need not.
    pub fn end(&self) {
        // Relaxed: as above.
        self.is_ended.store(true, Ordering::Relaxed);
    }

    /// Counts bytes that were written.
    fn count(&self, bytes: u64) {
        let now_ns = self.clock.monotonic_ns();
        let mut pace = lock(&self.pace);
        pace.count(bytes, self.bytes_per_second, now_ns);
        pace.bound(now_ns.saturating_add(AHEAD_MAX.as_nanos() as u64));
    }

    /// How long a job has to wait; `None` if it may go on.
    fn rest(&self) -> Option<Duration> {
        // Relaxed: as above.
        if self.is_lifted.load(Ordering::Relaxed) || self.is_ended.load(Ordering::Relaxed) {
            return None;
        }
        lock(&self.pace).rest(self.clock.monotonic_ns())
    }

    fn wait(&self) {
        while let Some(rest) = self.rest() {
            self.clock.sleep(rest.min(NAP));
        }
    }

    /// Counts bytes that are about to be written beside tables, and waits first if they are to.
    pub fn pass(&self, bytes: u64, rate_use: RateUse) {
        if rate_use == RateUse::Waits {
            self.wait();
        }
        self.count(bytes);
    }

    /// `file`, of which each byte that is appended is counted, and waits if it is to.
    #[must_use]
    pub fn counted(
        self: &Arc<Self>,
        file: Box<dyn WriteFile>,
        rate_use: RateUse,
    ) -> Box<dyn WriteFile> {
        Box::new(CountedFile { file, rate_use, rate: Arc::clone(self) })
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Box<dyn WriteFile>,
    rate_use: RateUse,
    rate: Arc<WriteRate>,
}

impl WriteFile for CountedFile {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.rate.pass(bytes.len() as u64, self.rate_use);
        self.file.append(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
}

#[cfg(test)]
mod tests;
