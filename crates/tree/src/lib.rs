//! Floor 2 of SiltDB: one ordered map across memory and disk.
//!
//! A tree owns no threads and no log; work that changes its files returns an edit.
#![forbid(unsafe_code)]

pub mod merge_operator;
pub mod merge;
pub mod visible;
pub mod retain;
