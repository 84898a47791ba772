//! How far a job is: a hint for those who wait for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an entry counts when it was read, and when what became of it was verified: to write it into
/// a table takes about twice as long as to read it back and check it.
const READ: u64 = 2;
const VERIFIED: u64 = 1;

/// How much of its work a job has done, by the entries that it is to read, to write, and to verify.
/// Any thread may tell it or ask it.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// Begins again: nothing of `all` entries is read.
    pub fn begin(&self, all: u64) {
        // Relaxed, here and below: it carries no other data with it, and nobody relies on it.
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all * (READ + VERIFIED), Ordering::Relaxed);
    }

    /// So many more are read.
    pub fn read(&self, entries: u64) {
        self.done.fetch_add(entries * READ, Ordering::Relaxed);
    }

    /// So many more are verified in their tables. Those that nobody can see any more never are.
    pub fn verified(&self, entries: u64) {
        self.done.fetch_add(entries * VERIFIED, Ordering::Relaxed);
    }

    /// What is left of `bytes` that those entries amount to.
    #[must_use]
    pub fn rest_of(&self, bytes: u64) -> u64 {
        let all = self.all.load(Ordering::Relaxed).max(1);
        let left = all.saturating_sub(self.done.load(Ordering::Relaxed));
        (bytes as f64 * left as f64 / all as f64) as u64
    }
}

#[cfg(test)]
mod tests;
