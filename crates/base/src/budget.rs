//! The one memory account: how many bytes of the budget each holder has.
//!
//! It counts; it does not evict, wait or refuse. Holders that can give memory back look at it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A part of the memory of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Memtables, active and frozen.
    Memtables,
    /// Blocks in the cache.
    Blocks,
    /// Indexes, filters and properties of open tables.
    Tables,
    /// Values that readers folded of merge operands.
    Folds,
    /// Uncommitted writes of transactions, as far as they were read again.
    Transactions,
}

/// Bytes held, by part, and the limit for their sum.
///
/// # Thread safety
/// Any thread may charge and release; sums are exact once all have finished.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    parts: [AtomicUsize; 5],
}

impl Budget {
    /// An empty account with a limit in bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit: AtomicUsize::new(limit), parts: Default::default() }
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        // Relaxed, here and below: counters carry no other data with them.
        self.limit.load(Ordering::Relaxed)
    }

    /// Adds `bytes` to a part.
    pub fn charge(&self, part: Part, bytes: usize) {
        self.parts[part as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes` off a part, which must have been charged before.
    pub fn release(&self, part: Part, bytes: usize) {
        let before = self.parts[part as usize].fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "released more than was charged");
    }

    /// Bytes held by a part.
    #[must_use]
    pub fn used(&self, part: Part) -> usize {
        self.parts[part as usize].load(Ordering::Relaxed)
    }

    /// Bytes held by all parts.
    #[must_use]
    pub fn total(&self) -> usize {
        self.parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }
}

/// Bytes that are charged for as long as this lives.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    part: Part,
    bytes: usize,
}

impl Charge {
    /// Charges `bytes` to a part of `budget`.
    #[must_use]
    pub fn new(budget: &Arc<Budget>, part: Part, bytes: usize) -> Self {
        budget.charge(part, bytes);
        Self { budget: Arc::clone(budget), part, bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(self.part, self.bytes);
    }
}
