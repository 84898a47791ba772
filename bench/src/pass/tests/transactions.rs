//! Rows of transactions, on correct engines and on one that loses updates.

use super::{caught_by, run_with};
use crate::{
    adapters::{
        liar::{Liar, lie},
        siltdb::Siltdb,
    },
    engine::{Concurrency, FailureKind, Isolation},
    job::{Job, Op},
    pass::{
        history::{Change, History, apply},
        steps::Outcome,
        transactions::slowest_share,
    },
    trial::{self, TRANSACTIONS},
    values::ValueStyle,
};

/// Few keys for several threads.
fn hot(job: &mut Job) {
    job.work.keys = 16;
    job.work.run.range = 4;
    job.work.threads = 4;
    job.work.seed.iter_mut().for_each(|seed| seed.percent = 10_000);
}

#[test]
fn an_honest_engine_passes_every_transaction() {
    trial::every_transaction::<Liar<{ lie::HONEST }>>(&[], |_| {}).unwrap();
    trial::every_transaction::<Liar<{ lie::HONEST }>>(&[], hot).unwrap();
}

#[test]
fn siltdb_loses_no_update_at_any_level_nor_with_locks() {
    for op in TRANSACTIONS {
        for isolation in [Isolation::Snapshot, Isolation::Serializable] {
            for concurrency in [Concurrency::Optimistic, Concurrency::Locks] {
                let changes: [fn(&mut Job); 2] = [|_| {}, hot];
                for change in changes {
                    let report = trial::run::<Siltdb>(op, |job| {
                        change(job);
                        job.work.run.isolation = isolation;
                        job.config.concurrency = concurrency;
                    });
                    let name = format!("{op:?}, {isolation:?}, {concurrency:?}");
                    let report = report.unwrap_or_else(|failure| panic!("{name}: {failure}"));
                    assert_eq!(report.verified.expected, report.verified.checked, "{name}");
                    assert_eq!(report.throughput.ops, 2000, "{name}");
                    let level = report.transactions.expect("a row of transactions").isolation;
                    let wanted = match (concurrency, isolation) {
                        (Concurrency::Optimistic, Isolation::Snapshot) => "snapshot",
                        _ => "serializable",
                    };
                    assert!(level.starts_with(wanted), "{name}: {level}");
                }
            }
        }
    }
}

#[cfg(all(feature = "fjall", feature = "lmdb", feature = "redb", feature = "sled"))]
#[test]
fn peers_pass_every_transaction_that_they_have() {
    use crate::adapters::{fjall::Fjall, lmdb::Lmdb, redb::Redb, sled::Sled};
    trial::every_transaction::<Fjall>(&[], hot).unwrap();
    trial::every_transaction::<Lmdb>(&[], hot).unwrap();
    trial::every_transaction::<Redb>(&[], hot).unwrap();
    trial::every_transaction::<Sled>(&[Op::RangeIncrement], hot).unwrap();
}

#[cfg(feature = "peers")]
#[test]
fn peers_whose_transactions_are_not_driven_are_unsupported() {
    use crate::adapters::{mdbx::Mdbx, sqlite::Sqlite, thunder::Thunder};
    // Each commit is synced at ThunderDB, so few operations are enough.
    let few: fn(&mut Job) = |job| job.work.run.ops = 20;
    trial::every_transaction::<Thunder>(&TRANSACTIONS, few).unwrap();
    trial::every_transaction::<Mdbx>(&TRANSACTIONS, few).unwrap();
    trial::every_transaction::<Sqlite>(&TRANSACTIONS, few).unwrap();
}

#[test]
fn lost_updates_are_caught() {
    type Loses = Liar<{ lie::LOSES_UPDATES }>;
    for op in [Op::Increment, Op::RangeIncrement, Op::Transfer, Op::InsertAbsent] {
        let message = "scan: another entry";
        let failure = run_with::<Loses>(op, hot).expect_err("updates were lost");
        assert_eq!(failure.kind, FailureKind::Verification, "{op:?}: {failure}");
        assert!(failure.message.contains(message), "{op:?}: {failure}");
    }
    // Each thread puts keys of its own, so nothing is lost.
    run_with::<Loses>(Op::TransactionPut, hot).unwrap();
    caught_by::<{ lie::LOSES_UPDATES }>(Op::Increment, "scan: another entry");
}

#[test]
fn what_a_history_cannot_have_led_to_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let job = trial::job(Op::Transfer, dir.path());
    let mut model = crate::pass::prepare::draw(&job.work).unwrap().model;
    let before = model.version(3);
    let taken = |by| {
        let mut history = History::default();
        history.add(&mut vec![Change { id: 3, by }]);
        history
    };
    let more = [taken(-(before as i32) - 1), taken(2)];
    apply(&more, &mut model).unwrap();
    assert_eq!(model.version(3), 1);
    let failure = apply(&[taken(-2)], &mut model).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Verification);
}

#[test]
fn held_transactions_are_counted_and_do_not_hinder() {
    for op in [Op::Put, Op::Increment] {
        let report = trial::run::<Siltdb>(op, |job| job.work.run.held = 100).unwrap();
        let held = report.transactions.unwrap().held.unwrap();
        assert!(held.count == 100 && held.begin_ns > 0.0, "{op:?}: {held:?}");
    }
    let failure = trial::run::<Siltdb>(Op::Scan, |job| job.work.run.held = 1).unwrap_err();
    assert!(failure.message.contains("no transactions are held open"), "{failure}");
    #[cfg(feature = "redb")]
    {
        let held = |job: &mut Job| job.work.run.held = 1;
        let failure = trial::run::<crate::adapters::redb::Redb>(Op::Increment, held).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unsupported);
    }
}

#[test]
fn workloads_that_cannot_be_checked_are_refused() {
    let refused = |change: fn(&mut Job)| {
        let failure = run_with::<Siltdb>(Op::RangeIncrement, change).unwrap_err();
        assert!(failure.message.contains("makes no sense"), "{failure}");
    };
    refused(|job| job.work.run.order = crate::order::Order::Random);
    refused(|job| job.work.value_style = ValueStyle::Ramp);
    refused(|job| job.work.run.range = 1000);
    let failure = run_with::<Siltdb>(Op::Increment, |job| job.config.families = 2).unwrap_err();
    assert!(failure.message.contains("one family"), "{failure}");
}

#[test]
fn the_slowest_thread_is_measured_against_the_mean() {
    let done = |done| Outcome { done, ..Outcome::default() };
    assert_eq!(slowest_share(&[done(10), done(30), done(20)]), Some(0.5));
    assert_eq!(slowest_share(&[done(0), done(8)]), Some(0.0));
    assert_eq!(slowest_share(&[done(0)]), None);
    assert_eq!(slowest_share(&[]), None);
}

#[test]
fn a_row_of_transactions_that_is_cut_off_is_verified_as_far_as_it_came() {
    let report = trial::run::<Siltdb>(Op::Increment, |job| {
        job.work.run.ops = 10_000_000;
        job.cap_seconds = 0.05;
    });
    let report = report.unwrap();
    assert!(report.throughput.capped && report.throughput.ops < 10_000_000);
    assert!(report.verified.checked > 0);
}
