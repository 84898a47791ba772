//! `silt-bench`: measures SiltDB and its peers on the same work, and verifies their answers.
//!
//! Each module uses only those above it.
#![deny(unsafe_code)]

pub mod keys;
pub mod values;
pub mod order;
pub mod engine;
pub mod job;
pub mod plan;
pub mod expect;
pub mod measure;
pub mod pass;
pub mod adapters;
pub mod trial;
pub mod worker;
pub mod told;
pub mod result;
pub mod files;
pub mod suite;
pub mod machine;
pub mod checkout;
pub mod runner;
pub mod report;
pub mod field;
pub mod compare;
pub mod upkeep;
pub mod limits;
pub mod commands;
