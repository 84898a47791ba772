//! Floor 2 of SiltDB: one ordered map across memory and disk.
//!
//! A tree owns no threads and no logs; work on files returns changes and installs nothing.
#![forbid(unsafe_code)]

pub mod merge_operator;
pub mod compaction_filter;
pub mod strategy;
pub mod order_name;
pub mod options;
pub mod memory;
pub mod files;
pub mod read;
pub mod retain;
pub mod planning;
pub mod rewrite;
pub mod tree;

#[cfg(test)]
mod fixture;
