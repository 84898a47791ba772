//! Followers: read a database beside its writer, which may be another process.
//!
//! A follower takes no lock and writes nothing, so the writer cannot notice it. It applies the
//! manifest and the log to states of its own, each a prefix of the writer's commits.

mod doubts;
pub mod log_tail;
pub mod log_memory;
mod base;
mod state;
pub mod log_feed;
mod contents;
pub mod follower;
mod copies;
