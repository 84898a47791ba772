//! The way of a read: entries of all sources are merged, and what a reader may see is judged.

pub mod operands;
pub mod folds;
pub mod merge;
pub mod commit_hook;
pub mod empty_ranges;
pub mod visible;
pub mod source;
pub mod view;
pub mod changed;
pub mod range_size;
