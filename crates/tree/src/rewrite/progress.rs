//! How far a job is: a hint for writers that wait for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an entry counts when it was read, and when what became of it was verified. Writing it into
/// a table takes about twice as long as reading it back and checking it.
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
        // Relaxed, here and below: it carries no other data with it, and no decision relies on it.
        self.done.store(0, Ordering::Relaxed);
        self.all.store(all * (READ + VERIFIED), Ordering::Relaxed);
    }

    /// Counts `entries` more as read.
    pub fn read(&self, entries: u64) {
        self.done.fetch_add(entries * READ, Ordering::Relaxed);
    }

    /// Counts `entries` more as written and verified.
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

    /// The part that is done, from 0 to 1.
    #[must_use]
    pub fn done_part(&self) -> f64 {
        let all = self.all.load(Ordering::Relaxed).max(1);
        self.done.load(Ordering::Relaxed).min(all) as f64 / all as f64
    }
}

/// What one part of a job does for its progress.
///
/// Many entries may be read for one that is written, because no reader sees the others any more.
/// That one stands for all of them when it is verified.
#[derive(Debug)]
pub struct PartProgress<'a> {
    whole: &'a Progress,
    /// Entries that were read for tables that are not verified yet.
    unverified: AtomicU64,
}

impl<'a> PartProgress<'a> {
    /// A part that has done nothing yet.
    #[must_use]
    pub fn new(whole: &'a Progress) -> Self {
        Self { whole, unverified: AtomicU64::new(0) }
    }

    /// Counts `entries` more as read.
    pub fn read(&self, entries: u64) {
        self.unverified.fetch_add(entries, Ordering::Relaxed);
        self.whole.read(entries);
    }

    /// Ends the part. What was read and is not written counts as verified, too.
    pub fn finish(&self) {
        drop(self.verification_of(0));
    }

    /// Begins to verify `entries`, all that were written since this was asked for last.
    #[must_use]
    pub fn verification_of(&self, entries: u64) -> Verification<'a> {
        let stand_for = self.unverified.swap(0, Ordering::Relaxed);
        Verification { progress: self.whole, entries, stand_for, verified: 0, told: 0 }
    }
}

/// Tables of a part that are being verified.
#[derive(Debug)]
pub struct Verification<'a> {
    progress: &'a Progress,
    /// Entries in these tables.
    entries: u64,
    /// Entries that were read for these tables.
    stand_for: u64,
    verified: u64,
    told: u64,
}

impl Verification<'_> {
    /// Counts `entries` more as verified.
    pub fn advance(&mut self, entries: u64) {
        self.verified += entries;
        let part = self.verified as f64 / self.entries.max(1) as f64;
        self.tell_up_to((self.stand_for as f64 * part) as u64);
    }

    fn tell_up_to(&mut self, entries: u64) {
        self.progress.verified(entries.saturating_sub(self.told));
        self.told = self.told.max(entries);
    }
}

impl Drop for Verification<'_> {
    fn drop(&mut self) {
        // So do entries that were read and not written.
        self.tell_up_to(self.stand_for);
    }
}

#[cfg(test)]
mod tests;
