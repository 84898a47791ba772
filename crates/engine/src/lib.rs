//! Floor 3 of SiltDB: many trees on one log, with order, durability and background work.
//!
//! It knows nothing of isolation levels, and names nothing that works on a database from outside.
#![forbid(unsafe_code)]

pub mod options;
pub mod health;
pub mod kit;
pub mod blobs;
pub mod snapshots;
pub mod memory;
pub mod log;
pub mod lock_state;
pub mod catalog;
pub mod reports;
pub mod backpressure;
pub mod background;
pub mod database;
pub mod install;
pub mod write;
pub mod transactions;
pub mod families;
pub mod jobs;
pub mod copies;
pub mod open;
pub mod read;
pub mod stats;
pub mod engine;

#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
