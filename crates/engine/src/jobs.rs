//! Background work, one job at a time, called by a worker, a simulator or a waiting writer.
//!
//! Pure functions in `tree` decide what is worth doing. A job pins its inputs, has the tree write
//! files, installs the edit, and releases what the edit replaces.

pub mod pause;
pub mod context;
pub mod shared;
pub mod blobs;
pub mod space;
pub mod dead_parts;
pub mod flush;
pub mod compact;
pub mod tiers;
pub mod next;
pub mod log_keeper;
pub mod request;
pub mod replayed;
pub mod workers;
