//! `silt-bench`: the command.
#![forbid(unsafe_code)]

fn main() {}
