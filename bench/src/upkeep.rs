//! `silt-bench upkeep`: the cost of small steps, many families, copies and removed data, compared
//! with bars.
//!
//! Each part runs in a process of its own with a time limit, through SiltDB's public API alone. It
//! reads back and compares what it wrote. It compares no engines.

pub mod bar;
pub mod part;
pub mod data;
mod steps;
mod syncs;
mod families;
mod branches;
mod scale;
mod space;
mod reads;
mod budget;
mod small_cache;
mod copies;
mod backups;
mod followers;
pub mod parts;
pub mod course;
