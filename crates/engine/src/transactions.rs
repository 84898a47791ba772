//! Commits under a condition: the reads of a transaction, its own writes, preparation.
//!
//! It names no isolation level: that is for the crate above.

pub mod footprint;
pub mod own_writes;
pub mod conditional_commit;
pub mod prepared;
