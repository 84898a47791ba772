//! The memory of a database: its budget, and what is charged to it.

use crate::options::EngineOptions;
use siltdb_base::{
    budget::{Budget, Part},
    memory::chunk::Pages,
};
use siltdb_disk::cache::Cache;
use siltdb_memtable::arena::{ArenaOptions, ArenaPool};
use std::sync::Arc;

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
}

impl Memory {
    /// The memory of an opening with these options.
    #[must_use]
    pub fn new(options: &EngineOptions) -> Self {
        let budget = Arc::new(Budget::new(options.memory_budget));
        let table_memory = options.table_memory();
        let cache = Cache::new(Arc::clone(&budget), options.cache_bytes_max(), table_memory);
        let mut arenas = ArenaOptions::default();
        arenas.pooled_bytes_max = options.memory_budget.saturating_sub(options.cache_bytes_max());
        let arenas = ArenaPool::new(Arc::clone(&budget), arenas);
        let transaction_arenas = transaction_arenas(&budget);
        Self { budget, cache, arenas, transaction_arenas }
    }
}

/// The arenas for the writes of transactions. Small pages, because most transactions need little,
/// and none of this memory is flushed.
fn transaction_arenas(budget: &Arc<Budget>) -> Arc<ArenaPool> {
    let mut options = ArenaOptions::default();
    options.pages = Pages::Small;
    options.part = Part::Transactions;
    ArenaPool::new(Arc::clone(budget), options)
}
