//! `cargo xtask peers`: fetches and builds the worker binaries of third-party engines.
//!
//! A worker that cannot be built is reported with the reason, and the others are still built. It
//! runs no benchmark.

use crate::checkout::root;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod tools;
pub mod allocators;
pub mod go;
pub mod rocksdb;
pub mod tidesdb;

/// A requested worker.
pub struct Prepared {
    /// Its folder below `peers`.
    pub name: &'static str,
    /// The program, or the reason why there is none.
    pub outcome: Result<PathBuf, String>,
}

/// Builds all workers below `root`, one after the other.
pub fn prepare(root: &Path) -> Vec<Prepared> {
    let peers = root.join("peers");
    [
        (allocators::NAME, allocators::prepare as fn(&Path) -> Result<PathBuf, String>),
        (rocksdb::NAME, rocksdb::prepare),
        (tidesdb::NAME, tidesdb::prepare),
        (go::NAME, go::prepare),
    ]
    .into_iter()
    .map(|(name, prepare)| Prepared { name, outcome: prepare(&peers.join(name)) })
    .collect()
}

/// Builds all workers and prints the results. Exit code 1 if one is missing.
pub fn run() -> ExitCode {
    let all = prepare(root());
    for Prepared { name, outcome } in &all {
        match outcome {
            Ok(program) => println!("{name}: {}", program.display()),
            Err(reason) => println!("{name}: not built: {reason}"),
        }
    }
    if all.iter().all(|peer| peer.outcome.is_ok()) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}
