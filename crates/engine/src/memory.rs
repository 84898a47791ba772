//! The memory of a database: its budget, and what is charged to it.

use siltdb_base::budget::Budget;
use siltdb_disk::cache::Cache;
use siltdb_memtable::arena::ArenaPool;
use std::sync::Arc;

/// The sources of memory of a database.
#[derive(Debug)]
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
