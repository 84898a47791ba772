//! Floor 3 of SiltDB: many trees on one log, with order, durability and background work.
//!
//! It knows nothing of isolation levels, and names nothing that works on a database from outside.
#![forbid(unsafe_code)]

pub mod options;
pub mod health;
pub mod read_point;
pub mod blobs;
pub mod snapshots;
pub mod signal;
pub mod in_flight;
pub mod counters;
pub mod random;
pub mod turns;
pub mod id_blocks;
pub mod open_id;
pub mod copying;
pub mod compression_turns;
pub mod memory;
pub mod log;
pub mod lock_table;
pub mod prepared_set;
pub mod catalog;
pub mod backpressure;
pub mod background;
pub mod lost;
pub mod kept;
pub mod value_check;
pub mod check_report;
pub mod scrub_report;
pub mod database;
pub mod pause;
pub mod install;
pub mod log_sync;
pub mod feed;
pub mod family_options;
pub mod separation;
pub mod locks;
pub mod commit;
pub mod time_notes;
pub mod footprint;
pub mod own_writes;
pub mod conditional_commit;
pub mod family_commit;
pub mod prepared;
pub mod jobs;
pub mod retention;
pub mod family_clone;
pub mod ingest;
pub mod branch;
pub mod open;
pub mod read;
pub mod streams;
pub mod stats;
pub mod engine;

#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
