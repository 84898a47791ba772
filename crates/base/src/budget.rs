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
    /// Memtables, active, frozen, and flushed ones that readers still hold.
    Memtables,
    /// Chunks of flushed memtables that wait for their next use.
    IdleMemtables,
    /// Blocks in the cache: a share of [`Part::BlockMemory`].
    Blocks,
    /// The memory that blocks lie in: those of the cache, those that only readers hold, and gaps.
    BlockMemory,
    /// Indexes, filters and properties of open tables.
    Tables,
    /// Values that readers folded of merge operands.
    Folds,
    /// Writes and footprints of open transactions, and prepared ones.
    Transactions,
    /// What iterators have read ahead.
    Cursors,
    /// Buffers of flushes, compactions, bulk loads, copies and scrubs.
    Jobs,
    /// What subscriptions and followers read ahead.
    Feeds,
    /// What each family takes beside its memtables and tables.
    Families,
}

/// The number of parts.
const PARTS: usize = Part::Families as usize + 1;

/// Bytes held, by part, and the limit for their sum.
///
/// # Thread safety
/// Any thread may charge and release; sums are exact once all have finished.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    /// What memtables may have, in bytes: others leave it to them.
    memtables_reserved: usize,
    parts: [AtomicUsize; PARTS],
}

impl Budget {
    /// An empty account with a limit in bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, memtables_reserved: 0, parts: Default::default() }
    }

    /// The account with `bytes` of the limit reserved for memtables.
    #[must_use]
    pub fn reserving(self, bytes: usize) -> Self {
        Self { memtables_reserved: bytes, ..self }
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// What [`Part::Cursors`] may take before walks stop to read ahead, in bytes: a sixteenth of
    /// the limit.
    #[must_use]
    pub fn readahead_max(&self) -> usize {
        self.limit / 16
    }

    /// Adds `bytes` to a part.
    pub fn charge(&self, part: Part, bytes: usize) {
        // Relaxed, here and below: counters carry no other data with them.
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

    /// Bytes of the memory that blocks lie in, at least those of the blocks in the cache.
    #[must_use]
    pub fn block_memory(&self) -> usize {
        self.used(Part::BlockMemory).max(self.used(Part::Blocks))
    }

    /// Bytes held by memtables, idle ones included.
    #[must_use]
    pub fn memtables(&self) -> usize {
        self.used(Part::Memtables) + self.used(Part::IdleMemtables)
    }

    /// Bytes held by all parts but memtables and blocks.
    #[must_use]
    pub fn others(&self) -> usize {
        use Part::{Cursors, Families, Feeds, Folds, Jobs, Tables, Transactions};
        let parts = [Tables, Folds, Transactions, Cursors, Jobs, Feeds, Families];
        parts.map(|part| self.used(part)).iter().sum()
    }

    /// Bytes of the limit that are not reserved for memtables.
    #[must_use]
    pub fn beside_memtables(&self) -> usize {
        self.limit.saturating_sub(self.memtables_reserved)
    }

    /// Bytes that memtables, or what is reserved for them, and other parts leave to blocks.
    #[must_use]
    pub fn left_to_blocks(&self) -> usize {
        let memtables = self.memtables().max(self.memtables_reserved);
        self.limit.saturating_sub(memtables.saturating_add(self.others()))
    }

    /// Bytes held by all parts. [`Part::Blocks`] is within [`Part::BlockMemory`].
    #[must_use]
    pub fn total(&self) -> usize {
        self.memtables() + self.block_memory() + self.others()
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

    /// Charges `bytes` from now on instead of what it charged before.
    pub fn resize(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.charge(self.part, more),
            None => self.budget.release(self.part, self.bytes - bytes),
        }
        self.bytes = bytes;
    }

    /// The bytes that it charges.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(self.part, self.bytes);
    }
}
