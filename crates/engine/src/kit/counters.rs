//! Counters of background work since the database was opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was counted since the database was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// The number of flushes.
    pub flushes: AtomicU64,
    /// Bytes of tables written by flushes.
    pub flushed_bytes: AtomicU64,
    /// The number of compactions, trivial moves included.
    pub compactions: AtomicU64,
    /// The number of edits by which merges were installed: one for each step.
    pub compaction_steps: AtomicU64,
    /// Bytes of tables written by compactions.
    pub compacted_bytes: AtomicU64,
    /// The number of tables removed unread, because no reader could see any of their entries.
    pub dropped_tables: AtomicU64,
    /// The number of compactions of tables to free space.
    pub space_compactions: AtomicU64,
    /// The number of tables that moved to another tier.
    pub moved_tables: AtomicU64,
    /// Bytes of these tables.
    pub moved_bytes: AtomicU64,
    /// The number of notes in the log of the time at which something was seen expired.
    pub expiry_notes: AtomicU64,
}

impl Counters {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        // Relaxed: a counter carries no other data with it.
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
