//! Floor 1 of SiltDB: the concurrent, insert-only ordered tree in memory.
//!
//! It knows nothing of logs, tables or snapshots. Entries come in and stay until the whole memtable
//! is dropped. They are read in the order of [`siltdb_base::key`], beside running inserts.

pub mod arena;
mod entry;
mod version;
mod node;
mod lane;
mod tree;
mod range_tombstones;
pub mod cursor;
pub mod memtable;
#[cfg(all(test, loom))]
mod loom_tests;
