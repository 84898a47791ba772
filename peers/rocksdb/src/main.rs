//! `silt-bench-rocksdb`: the worker that drives RocksDB. It measures nothing by itself.
#![forbid(unsafe_code)]

mod walk;
mod adapter;
mod transactional;

use adapter::Rocksdb;
use rocksdb::OptimisticTransactionDB;
use siltdb_bench::worker::{Entry, serve};
use std::process::ExitCode;
use transactional::{Pessimistic, Transactional};

fn main() -> ExitCode {
    serve(&[
        Entry::of::<Rocksdb>(),
        Entry::of::<Rocksdb>().with_separation("rocksdb-blobs"),
        Entry::of::<Transactional<OptimisticTransactionDB>>(),
        Entry::of::<Transactional<Pessimistic>>(),
    ])
}
