//! Floor 3 of SiltDB: many trees, one log: order, durability and background work.
//!
//! It knows nothing of transactions.
#![forbid(unsafe_code)]

pub mod options;
pub mod health;
pub mod snapshots;
pub mod publish;
pub mod throttle;
pub mod signal;
pub mod calls;
pub mod counters;
pub mod sync_timer;
pub mod random;
pub mod instance;
pub mod pace;
pub mod debts;
pub mod chunked;
pub mod numbers;
pub mod wal;
pub mod generation;
pub mod tail;
pub mod family;
pub mod manifest;
pub mod share;
pub mod database;
pub mod install;
pub mod log_sync;
pub mod replay;
pub mod family_options;
pub mod recovery;
pub mod destroy;
pub mod family_names;
pub mod commit;
pub mod space;
pub mod jobs;
pub mod request;
pub mod replayed;
pub mod workers;
pub mod read;
pub mod stats;
pub mod lost;
pub mod check;
pub mod inspect;
pub mod engine;
pub mod salvage;

#[cfg(test)]
mod fixture;
