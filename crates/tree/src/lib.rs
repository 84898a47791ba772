//! Floor 2 of SiltDB: one ordered map across memory and disk.
//!
//! A tree owns no threads and no logs; work on files returns changes and installs nothing.
#![forbid(unsafe_code)]

pub mod merge_operator;
pub mod operands;
pub mod folds;
pub mod options;
pub mod memory;
pub mod open_files;
pub mod stack;
pub mod level;
pub mod version;
pub mod covered;
pub mod merge;
pub mod commit_hook;
pub mod gaps;
pub mod visible;
pub mod source;
pub mod view;
pub mod range_size;
pub mod retain;
pub mod deeper;
pub mod progress;
pub mod job;
pub mod watched;
pub mod plan;
pub mod copies;
pub mod output;
pub mod flush;
pub mod pick_small;
pub mod pick_leveled;
pub mod pick_garbage;
pub mod garbage_watch;
pub mod pick_range;
pub mod compact;
pub mod tree;

#[cfg(test)]
mod fixture;
