//! A write on its way down: locks, separation of large values, log, memory, publication.
//!
//! It judges no conflict and changes no family.

pub mod log_sync;
pub mod separation;
pub mod locks;
pub mod commit;
pub mod time_notes;
pub mod streams;
