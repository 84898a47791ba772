//! Random histories of transactions from eight threads, over kills and reopens. They are checked
//! for the dependency cycles that their isolation level forbids.
//!
//! A run has 20,000 transactions. More of them:
//! `HISTORIES_TRANSACTIONS=200000 cargo test -p siltdb --test database histories`.
//! `HISTORIES_SEED` takes a printed seed. It decides the actions of each thread, not their
//! interleaving.

mod graph;
mod record;
mod run;
mod totals;

use crate::histories::{
    graph::{Edges, Graph},
    run::History,
};
use siltdb::Isolation;
use std::env;

/// Threads that run transactions.
const THREADS: u64 = 8;

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// Transactions of each level.
fn transactions() -> u64 {
    number("HISTORIES_TRANSACTIONS").unwrap_or(20_000) / Isolation::ALL.len() as u64
}

/// The seed, which is printed.
fn seed() -> u64 {
    let seed = number("HISTORIES_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap().as_nanos() as u64
    });
    println!("HISTORIES_SEED={seed}");
    seed
}

fn run(level: Isolation) -> Graph {
    let history = History::run(level, transactions(), seed());
    println!("{level:?}: {} committed, {} conflicts", history.committed(), history.conflicts);
    assert!(history.committed() * 10 > transactions(), "{} committed", history.committed());
    assert_eq!(history.conflicts > 0, level >= Isolation::RepeatableRead);
    let graph = history.graph();
    // G0 and G1c at every level; the construction of the graph detects G1a and G1b.
    graph.assert_no_cycle(&[Edges::Written, Edges::Read]);
    graph
}

const ITEMS: &[Edges] = &[Edges::Written, Edges::Read, Edges::OverwrittenItem];
const ALL: &[Edges] =
    &[Edges::Written, Edges::Read, Edges::OverwrittenItem, Edges::OverwrittenRange];

#[test]
fn read_uncommitted_reads_nothing_uncommitted() {
    let graph = run(Isolation::ReadUncommitted);
    assert!(graph.cycle(ITEMS).is_some(), "nothing ran side by side");
}

#[test]
fn read_committed_has_no_cycle_of_writes_and_reads() {
    let graph = run(Isolation::ReadCommitted);
    assert!(graph.cycle(ITEMS).is_some(), "nothing ran side by side");
}

#[test]
fn repeatable_read_has_no_cycle_of_items() {
    let graph = run(Isolation::RepeatableRead);
    graph.assert_no_cycle(ITEMS);
    assert!(graph.cycle(ALL).is_some(), "no phantom in a history that permits them");
}

#[test]
fn snapshot_has_no_cycle_without_two_overwritten_reads_in_a_row() {
    let graph = run(Isolation::Snapshot);
    graph.assert_snapshot_isolation();
    assert!(graph.cycle(ALL).is_some(), "no write skew in a history that permits it");
}

#[test]
fn serializable_has_no_cycle() {
    run(Isolation::Serializable).assert_no_cycle(ALL);
}
