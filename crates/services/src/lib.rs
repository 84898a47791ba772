//! Floor 4 of SiltDB: what works on a database from outside: copies, checks and rescue.
//!
//! Commit, flush, compaction and recovery are the engine's, which names nothing of this.
#![forbid(unsafe_code)]

pub mod contents;
pub mod copy_files;
pub mod staging;
pub mod checkpoint;
pub mod backup;
pub mod branch_walk;
pub mod branch_merge;
pub mod archive;
pub mod compression_stats;
pub mod check;
pub mod scrub;
pub mod upgrade;
pub mod inspect;
pub mod adopt;
pub mod follow;
pub mod salvage;
