//! Transactions of RocksDB lose no update, and plain rows are verified on their databases.

use super::{Kind, Pessimistic, Transactional};
use rocksdb::OptimisticTransactionDB;
use siltdb_bench::{
    engine::Isolation,
    job::{Job, Op},
    trial,
};

/// Full often enough that flushes and compactions take part.
fn small(job: &mut Job) {
    job.config.write_buffer_bytes = 64 << 10;
}

/// Few keys for several threads.
fn hot(job: &mut Job) {
    job.work.keys = 16;
    job.work.run.range = 4;
    job.work.threads = 4;
    job.work.seed.iter_mut().for_each(|seed| seed.percent = 10_000);
}

fn passes<D: Kind>() {
    trial::every_transaction::<Transactional<D>>(&[Op::RangeIncrement], small).unwrap();
    trial::every_transaction::<Transactional<D>>(&[Op::RangeIncrement], hot).unwrap();
    let snapshot: fn(&mut Job) = |job| {
        hot(job);
        job.work.run.isolation = Isolation::Snapshot;
    };
    trial::every_transaction::<Transactional<D>>(&[], snapshot).unwrap();
    let held = trial::run::<Transactional<D>>(Op::Increment, |job| job.work.run.held = 50);
    assert_eq!(held.unwrap().transactions.unwrap().held.unwrap().count, 50);
}

#[test]
fn optimistic_transactions_are_verified() {
    passes::<OptimisticTransactionDB>();
    let lacks = [Op::RangeDelete];
    trial::every_operation::<Transactional<OptimisticTransactionDB>>(&lacks, small).unwrap();
}

#[test]
fn pessimistic_transactions_are_verified() {
    passes::<Pessimistic>();
    let lacks = [Op::RangeDelete, Op::Compact];
    trial::every_operation::<Transactional<Pessimistic>>(&lacks, small).unwrap();
}
