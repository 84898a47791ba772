//! `silt-bench upkeep`: what small steps, many families and removed data cost, against bars.
//!
//! Each part runs in a process of its own with a time limit, on SiltDB's public face alone, and
//! reads back and compares what it wrote. It compares no engines.

pub mod bar;
pub mod part;
pub mod data;
mod steps;
mod syncs;
mod families;
mod space;
mod reads;
pub mod parts;
pub mod course;
