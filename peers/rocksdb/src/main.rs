//! `silt-bench-rocksdb`: the worker that drives RocksDB. It measures nothing by itself.
#![forbid(unsafe_code)]

mod adapter;

use adapter::Rocksdb;
use siltdb_bench::worker::{Entry, serve};
use std::process::ExitCode;

fn main() -> ExitCode {
    serve(&[Entry::of::<Rocksdb>()])
}
