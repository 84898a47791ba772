//! SiltDB on jemalloc: the allocator arm of the suite tidesdb-v7.

use siltdb_bench::{
    adapters::siltdb::Siltdb,
    worker::{Entry, serve},
};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    serve(&[Entry::named::<Siltdb>("siltdb-jemalloc")])
}
