//! The memory of a database: its budget, and what is charged to it.

pub mod compression_turns;

use crate::options::EngineOptions;
use compression_turns::CompressionTurns;
use siltdb_base::{
    budget::{Budget, Charge, Part},
    clock::Clock,
    memory::{allocator::give_back_freed, chunk::Pages},
    seeded_fault,
};
use siltdb_disk::cache::Cache;
use siltdb_memtable::arena::{ArenaOptions, ArenaPool};
use std::sync::Arc;

/// What a backup, an archive, a checkpoint or a scrub takes for its buffers, in bytes: a window to
/// read, one to write, and a block.
const COPY_BYTES: usize = 768 << 10;

/// A database that is closed with at least this many bytes gives them back to the system.
const GIVE_BACK_BYTES_MIN: u64 = 4 << 20;

/// Freed memory is given back when the database has less by this part of its budget.
const LESS_PART: usize = 16;

/// After memory was given back, this many times as long passes until it may be again.
const COST_PAUSES: u64 = 100;

/// The sources of memory of a database.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The budget of all of them.
    pub budget: Arc<Budget>,
    /// The block cache.
    pub cache: Arc<Cache>,
    /// The memory of memtables.
    pub arenas: Arc<ArenaPool>,
    /// The memory of uncommitted writes that transactions read again.
    pub transaction_arenas: Arc<ArenaPool>,
    /// The memory of values that are compressed before they are separated.
    pub compression_turns: Arc<CompressionTurns>,
}

/// Gives freed memory back to the system when it is dropped, if there is much. The allocator of the
/// C library may keep it otherwise, for as long as the process runs.
#[derive(Debug, Default)]
pub struct GiveBackFreed {
    bytes: u64,
}

impl GiveBackFreed {
    /// Notes the bytes that will have been freed by then.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }
}

impl Drop for GiveBackFreed {
    fn drop(&mut self) {
        if self.bytes >= GIVE_BACK_BYTES_MIN && !seeded_fault!("freed_memory_kept") {
            give_back_freed();
        }
    }
}

/// Gives memory that jobs and readers have freed back to the system while a database is in use.
/// Each thread of the C library's allocator may keep its own, beyond the budget.
#[derive(Debug, Default)]
pub struct Trimmer {
    /// When it may be given back again, in monotonic nanoseconds.
    next_ns: u64,
    /// The most that the database had since then, in bytes.
    bytes_max: usize,
}

impl Trimmer {
    /// Gives freed memory back after a job, unless that took more than 1 % of the time.
    pub fn after_job(&mut self, memory: &Memory, clock: &dyn Clock) {
        let start = clock.monotonic_ns();
        if start < self.next_ns || seeded_fault!("freed_memory_kept_by_jobs") {
            return;
        }
        give_back_freed();
        let end = clock.monotonic_ns();
        let bytes_max = memory.budget.total();
        *self = Self { next_ns: end + COST_PAUSES * (end - start), bytes_max };
    }

    /// As [`Trimmer::after_job`], without a job: if the database has much less than before.
    pub fn while_idle(&mut self, memory: &Memory, clock: &dyn Clock) {
        let bytes = memory.budget.total();
        self.bytes_max = self.bytes_max.max(bytes);
        if self.bytes_max - bytes >= memory.budget.limit() / LESS_PART {
            self.after_job(memory, clock);
        }
    }
}

impl Memory {
    /// The memory of an opening with these options.
    #[must_use]
    pub fn new(options: &EngineOptions) -> Self {
        let reserved = options.memtables_reserved();
        let budget = Arc::new(Budget::new(options.memory_budget).reserving(reserved));
        let table_memory = options.table_memory();
        let cache = Cache::new(Arc::clone(&budget), options.cache_bytes_max(), table_memory);
        let mut arenas = ArenaOptions::default();
        arenas.pooled_bytes_max = options.memory_budget.saturating_sub(options.cache_bytes_max());
        arenas.chunk_bytes_max = chunk_bytes_max(options.generation_bytes());
        let arenas = ArenaPool::new(Arc::clone(&budget), arenas);
        let transaction_arenas = transaction_arenas(&budget);
        let compression_turns = Arc::new(CompressionTurns::new(&budget, &cache));
        Self { budget, cache, arenas, transaction_arenas, compression_turns }
    }

    /// Charges the buffers of a copy or a scrub, before they are taken.
    #[must_use]
    pub fn charge_copy(&self) -> Charge {
        let charge = Charge::new(&self.budget, Part::Jobs, COPY_BYTES);
        self.cache.fit();
        charge
    }

    /// Has the cache give way to `bytes` that memtables are about to take. It would otherwise do so
    /// when the next block enters it.
    #[cold]
    pub fn make_room_for_memtables(&self, bytes: usize) {
        let _charge = Charge::new(&self.budget, Part::Memtables, bytes);
        self.cache.fit();
    }

    /// What each part takes now.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        let used = |part| self.budget.used(part) as u64;
        let blocks = self.budget.block_memory() as u64;
        let cached = used(Part::Blocks).min(blocks);
        let pinned = (self.cache.pinned_bytes() as u64).min(blocks - cached);
        MemoryStats {
            budget: self.budget.limit() as u64,
            memtables: used(Part::Memtables),
            idle_memtables: used(Part::IdleMemtables),
            cached_blocks: cached,
            pinned_blocks: pinned,
            free_blocks: blocks - cached - pinned,
            tables: used(Part::Tables),
            folds: used(Part::Folds),
            transactions: used(Part::Transactions),
            cursors: used(Part::Cursors),
            jobs: used(Part::Jobs),
            feeds: used(Part::Feeds),
            families: used(Part::Families),
        }
    }
}

/// The memory of a database by part, in bytes, and the budget for their sum.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// The limit for the sum of all parts.
    pub budget: u64,
    /// Memtables: active, frozen, and flushed ones that iterators still hold.
    pub memtables: u64,
    /// Chunks of flushed memtables that wait for their next use.
    pub idle_memtables: u64,
    /// Blocks in the cache.
    pub cached_blocks: u64,
    /// Blocks that iterators and values of callers hold, and the cache does not, about.
    pub pinned_blocks: u64,
    /// Gaps between blocks.
    pub free_blocks: u64,
    /// Indexes, filters and properties of open tables.
    pub tables: u64,
    /// Values that readers folded from merge operands.
    pub folds: u64,
    /// Writes and footprints of open transactions, and prepared transactions.
    pub transactions: u64,
    /// What iterators have read ahead.
    pub cursors: u64,
    /// Buffers of flushes, compactions, bulk loads, copies and scrubs.
    pub jobs: u64,
    /// What subscriptions have read ahead.
    pub feeds: u64,
    /// What each family takes beside its memtables and tables, about.
    pub families: u64,
}

impl MemoryStats {
    /// The sum of all parts, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Every part with its name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 12] {
        [
            ("memtables", self.memtables),
            ("idle_memtables", self.idle_memtables),
            ("cached_blocks", self.cached_blocks),
            ("pinned_blocks", self.pinned_blocks),
            ("free_blocks", self.free_blocks),
            ("tables", self.tables),
            ("folds", self.folds),
            ("transactions", self.transactions),
            ("cursors", self.cursors),
            ("jobs", self.jobs),
            ("feeds", self.feeds),
            ("families", self.families),
        ]
    }
}

/// The largest chunk of the memtables of a generation: a power of two up to an eighth of it, so
/// that little of the last one is unused.
fn chunk_bytes_max(generation_bytes: usize) -> usize {
    let default = ArenaOptions::default();
    let most = 1 << (generation_bytes / 8).max(1).ilog2();
    most.clamp(default.chunk_bytes_first, default.chunk_bytes_max)
}

/// The arenas for the writes of transactions. Small pages, because most transactions need little,
/// and none of this memory is flushed.
fn transaction_arenas(budget: &Arc<Budget>) -> Arc<ArenaPool> {
    let mut options = ArenaOptions::default();
    options.pages = Pages::Small;
    options.part = Part::Transactions;
    ArenaPool::new(Arc::clone(budget), options)
}
