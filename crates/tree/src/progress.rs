//! How far a job is: a hint for those who wait for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Entries that a job has read, of those it is to read. Any thread may tell it or ask it.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// Begins again: nothing of `all` entries is read.
    pub fn begin(&self, all: u64) {
        // Relaxed, here and below: it carries no other data with it, and nobody relies on it.
        self.read.store(0, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }

    /// So many more are read.
    pub fn add(&self, entries: u64) {
        self.read.fetch_add(entries, Ordering::Relaxed);
    }

    /// What is left of `bytes` that those entries amount to.
    #[must_use]
    pub fn rest_of(&self, bytes: u64) -> u64 {
        let all = self.all.load(Ordering::Relaxed).max(1);
        let left = all.saturating_sub(self.read.load(Ordering::Relaxed));
        (bytes as f64 * left as f64 / all as f64) as u64
    }
}

#[cfg(test)]
mod tests;
