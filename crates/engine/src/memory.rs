//! The memory of a database: one account, and what is on it.

use siltdb_base::budget::Budget;
use siltdb_disk::cache::Cache;
use siltdb_memtable::arena::ArenaPool;
use std::sync::Arc;

/// Where a database has its memory from.
#[derive(Debug)]
pub struct Memory {
    /// The one account.
    pub budget: Arc<Budget>,
    /// The block cache.
    pub cache: Arc<Cache>,
    /// Where memtables get their memory.
    pub arenas: Arc<ArenaPool>,
    /// Where transactions get the memory of what they wrote and read again.
    pub transaction_arenas: Arc<ArenaPool>,
}
