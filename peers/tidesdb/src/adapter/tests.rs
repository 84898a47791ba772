//! TidesDB passes every pass of the benchmark, verified in full.

use super::Tidesdb;
use siltdb_bench::{
    engine::{Arm, Class, Config, Durability, Engine, TableKind},
    job::{Job, Op, State},
    trial,
};

/// Small memtables, so that flushes and compactions take part.
fn small(job: &mut Job) {
    job.config.write_buffer_bytes = 64 << 10;
}

#[test]
fn every_operation_is_verified() {
    trial::every_operation::<Tidesdb>(&[], small).unwrap();
}

#[test]
fn its_own_defaults_are_verified() {
    let defaults = |job: &mut Job| job.config.arm = Arm::Defaults;
    trial::every_operation::<Tidesdb>(&[], defaults).unwrap();
}

#[test]
fn families_batches_and_states_hold_what_was_written() {
    trial::every_state::<Tidesdb>(small).unwrap();
}

/// An earlier release's iterator could not seek backwards. One iterator is reused here, over a
/// memtable and many tables.
#[test]
fn one_iterator_seeks_both_ways() {
    for op in [Op::Seek, Op::Range] {
        for state in [State::AsIs, State::Settled, State::Compacted] {
            let report = trial::run::<Tidesdb>(op, |job| {
                job.config.write_buffer_bytes = 256 << 10;
                job.work.keys = 20_000;
                job.work.run.ops = 20_000;
                job.work.state = state;
            });
            report.unwrap_or_else(|failure| panic!("{op:?}, {state:?}: {failure}"));
        }
    }
}

#[test]
fn synced_commits_are_verified_and_said_to_survive_power_loss() {
    let report = trial::run::<Tidesdb>(Op::Put, |job| {
        job.work.run.ops = 200;
        job.config.durability = Durability::Synced;
    });
    assert_eq!(report.unwrap().facts.class, Class::Power);
    assert_eq!(Tidesdb::facts(&Config::default()).class, Class::Memory);
}

#[test]
fn its_tables_are_trees() {
    let report = trial::run::<Tidesdb>(Op::Get, |job| job.config.table = TableKind::Btree);
    assert!(report.unwrap().facts.options.contains("tables are B+trees"));
}
