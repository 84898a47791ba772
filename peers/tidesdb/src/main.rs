//! `silt-bench-tidesdb`: the worker that drives TidesDB. It measures nothing by itself.

mod reader;
mod adapter;

use adapter::Tidesdb;
use siltdb_bench::worker::{Entry, serve};
use std::process::ExitCode;

fn main() -> ExitCode {
    serve(&[Entry::of::<Tidesdb>()])
}
