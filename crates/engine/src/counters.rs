//! What a database counts of its background work while it is open.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was counted since the database was opened.
#[derive(Debug, Default)]
pub struct Counters {
    /// Flushes.
    pub flushes: AtomicU64,
    /// Bytes of tables written by flushes.
    pub flushed_bytes: AtomicU64,
    /// Compactions, moves by reference included.
    pub compactions: AtomicU64,
    /// Bytes of tables written by compactions.
    pub compacted_bytes: AtomicU64,
    /// Tables that were removed unread, as nothing of them could be seen any more.
    pub dropped_tables: AtomicU64,
    /// Compactions of tables that were garbage for a fair part.
    pub space_compactions: AtomicU64,
}

impl Counters {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, amount: u64) {
        // Relaxed: a counter carries no other data with it.
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
