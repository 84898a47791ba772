//! How often the prefixes in filters were asked for, and how often that saved a table.
//!
//! It asks nothing itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one database.
#[derive(Debug, Default)]
pub struct PrefixCounters {
    asked: AtomicU64,
    skipped: AtomicU64,
}

/// What was counted since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCounts {
    /// How often a walk within one prefix asked the filter of a table.
    pub asked: u64,
    /// How often the filter said that the table has no key of the prefix.
    pub skipped: u64,
}

impl PrefixCounters {
    /// Counts an answer, and the tables that it saved: 0 or 1.
    pub fn note(&self, skipped: u64) {
        // Relaxed, as in `counts`: numbers that nothing depends on.
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> PrefixCounts {
        let (asked, skipped) =
            (self.asked.load(Ordering::Relaxed), self.skipped.load(Ordering::Relaxed));
        PrefixCounts { asked, skipped }
    }
}
