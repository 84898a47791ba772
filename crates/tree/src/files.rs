//! The table files of a tree: opened, in levels, as versions.

pub mod table_file;
pub mod table_store;
mod key_slice;
pub mod prefix_counters;
mod weak_map;
mod obsolete;
pub mod open_files;
pub mod stack;
pub mod stretches;
pub mod finder;
pub mod table_sum;
pub mod level;
pub mod version;
pub mod covered;
