//! `silt-bench`: measures SiltDB and its peers on the same work, and checks what they answered.
//!
//! Each module uses only those above it.
#![forbid(unsafe_code)]

pub mod result;
pub mod report;
pub mod compare;
pub mod limits;
pub mod commands;
