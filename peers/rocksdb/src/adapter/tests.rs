//! RocksDB passes every pass of the benchmark, verified in full.

use super::Rocksdb;
use siltdb_bench::{
    engine::{Arm, Class, Config, Durability, Engine, FailureKind, TableKind},
    job::{Job, Op},
    trial,
};

/// Small memtables, so that flushes and compactions take part.
fn small(job: &mut Job) {
    job.config.write_buffer_bytes = 64 << 10;
}

#[test]
fn every_operation_is_verified() {
    trial::every_operation::<Rocksdb>(&[], small).unwrap();
}

#[test]
fn bulk_loads_over_other_data_are_verified() {
    let report = trial::run::<Rocksdb>(Op::Ingest, small).unwrap();
    assert_eq!((report.throughput.ops, report.live_bytes), (1000, 1000 * 116));
    assert!(report.verified.checked >= 1000 && report.verified.checked == report.verified.expected);
}

#[test]
fn its_own_defaults_are_verified() {
    let defaults = |job: &mut Job| job.config.arm = Arm::Defaults;
    trial::every_operation::<Rocksdb>(&[], defaults).unwrap();
}

#[test]
fn families_batches_and_states_hold_what_was_written() {
    trial::every_state::<Rocksdb>(small).unwrap();
}

#[test]
fn synced_commits_are_verified_and_said_to_survive_power_loss() {
    let report = trial::run::<Rocksdb>(Op::Put, |job| {
        job.work.run.ops = 200;
        job.config.durability = Durability::Synced;
    });
    assert_eq!(report.unwrap().facts.class, Class::Power);
    assert_eq!(Rocksdb::facts(&Config::default()).class, Class::Process);
}

#[test]
fn trees_are_unsupported() {
    let failure = trial::run::<Rocksdb>(Op::Get, |job| job.config.table = TableKind::Btree);
    assert_eq!(failure.unwrap_err().kind, FailureKind::Unsupported);
}
