//! Flushes and compactions: entries and blocks go from memory and tables into new tables.

pub mod deeper;
pub mod progress;
pub mod job;
pub mod copies;
pub mod watched;
pub mod output;
pub mod flush;
pub mod compact;
