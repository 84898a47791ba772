//! A simulator of SiltDB: a seed decides operations, faults and crashes, and a model judges the
//! results.
//!
//! The whole engine runs on one thread, with a file system in memory and a manual clock. So a run
//! is a function of its seed. `tests/stress.rs` tests real threads.
#![forbid(unsafe_code)]

pub mod draw;
pub mod ending;
pub mod violation;
pub mod counts;
pub mod report;
pub mod operator;
pub mod same_values;
pub mod model;
pub mod keys;
pub mod guests;
pub mod settings;
pub mod watch;
pub mod times;
pub mod prepared;
pub mod expected;
pub mod directory;
pub mod database;
pub mod truth;
mod cursor_moves;
pub mod reads;
pub mod guest_reads;
pub mod buckets;
pub mod transaction;
mod history;
pub mod recovery;
mod rescue;
pub mod plan;
mod ingests;
mod carry_out;
pub mod subscriber;
pub mod run;
mod disturbances;
mod parts;
mod steps;
mod upkeep;
mod tiers;
mod twin;
mod checkpoints;
mod copied;
mod clones;
mod old_states;
mod backups;
mod archives;
mod tiny;
mod tables;
mod locks;
mod bucket_steps;
mod single_keys;
mod guest_steps;
mod feeds;
mod transactions;
mod two_phases;
mod ground;
mod follow;
pub mod campaign;
