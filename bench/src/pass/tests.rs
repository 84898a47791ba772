//! Tests of the checks: each check meets the faulty engine that it must detect.

use crate::{
    adapters::{
        btreemap::Btreemap,
        liar::{Liar, lie},
        siltdb::Siltdb,
    },
    engine::{Config, Engine, Failure, FailureKind, Result},
    job::{Extent, Job, Op, Report, Seed, SeedOp, Throughput, Waits},
    keys::KeyStyle,
    measure::{Watch, Watched, watched},
    order::Order,
    pass::{
        data::Data,
        peak,
        special::{self, Door, Finds},
        steps::Unclocked,
    },
    trial::{self, OPS},
    values::ValueStyle,
};
use std::{
    thread,
    time::{Duration, Instant},
};

mod noted;
mod transactions;

fn run_with<E: Engine>(op: Op, change: fn(&mut Job)) -> Result<Report> {
    trial::run::<E>(op, change)
}

/// The failure that detects a fault.
fn caught<const LIE: u8>(op: Op) -> Failure {
    match run_with::<Liar<LIE>>(op, |_| {}) {
        Ok(report) => panic!("{op:?}: a lie went through: {:?}", report.verified),
        Err(failure) => failure,
    }
}

fn caught_by<const LIE: u8>(op: Op, message: &str) {
    let failure = caught::<LIE>(op);
    assert_eq!(failure.kind, FailureKind::Verification, "{op:?}: {failure}");
    assert!(failure.message.contains(message), "{op:?}: {failure}");
}

#[test]
fn an_honest_engine_passes_every_operation() {
    for op in OPS {
        let report = run_with::<Liar<{ lie::HONEST }>>(op, |_| {});
        let report = report.unwrap_or_else(|failure| panic!("{op:?}: {failure}"));
        assert_eq!(report.verified.expected, report.verified.checked, "{op:?}");
        assert!(report.verified.checked >= 1000 || op == Op::Queue, "{op:?}");
        assert!(report.throughput.ops > 0 && report.latency.as_ref().unwrap().calls > 0, "{op:?}");
    }
}

#[test]
fn siltdb_passes_every_operation() {
    for op in OPS {
        let report = run_with::<Siltdb>(op, |job| job.config.write_buffer_bytes = 1 << 20);
        let report = report.unwrap_or_else(|failure| panic!("{op:?}: {failure}"));
        assert!(report.db_bytes > 0 && report.logical_bytes > 0 || op == Op::GetMiss, "{op:?}");
    }
}

#[cfg(feature = "peers")]
#[test]
fn peers_pass_every_operation_that_they_have() {
    use crate::adapters::{fjall::Fjall, lmdb::Lmdb, redb::Redb, sled::Sled, thunder::Thunder};
    // Synced commits are slow, so there are fewer keys and operations.
    let small: fn(&mut Job) = |job| {
        job.work.keys = 200;
        job.work.run.ops = job.work.run.ops.min(400);
        job.config.bytes_max = 1 << 20;
    };
    trial::every_operation::<Fjall>(&[Op::RangeDelete], small).unwrap();
    trial::every_operation::<Lmdb>(&[Op::Compact], small).unwrap();
    trial::every_operation::<Redb>(&[Op::RangeDelete], small).unwrap();
    trial::every_operation::<Sled>(&[Op::RangeDelete, Op::Compact], small).unwrap();
    let lacks = [Op::RangeDelete, Op::ScanReverse, Op::Compact];
    trial::every_operation::<Thunder>(&lacks, small).unwrap();
}

#[cfg(feature = "peers")]
#[test]
fn peers_hold_families_apart() {
    use crate::adapters::{fjall::Fjall, lmdb::Lmdb, redb::Redb, sled::Sled, thunder::Thunder};
    fn families<E: Engine>(op: Op) -> Result<Report> {
        trial::run::<E>(op, |job| {
            job.config.families = 3;
            job.work.seed[0].batch = 1;
        })
    }
    for op in [Op::Mixed, Op::YcsbA, Op::Get] {
        families::<Fjall>(op).unwrap();
        families::<Lmdb>(op).unwrap();
        families::<Redb>(op).unwrap();
        families::<Sled>(op).unwrap();
    }
    assert_eq!(families::<Thunder>(Op::Get).unwrap_err().kind, FailureKind::Unsupported);
}

#[test]
fn families_batches_and_states_hold_what_was_written() {
    trial::every_state::<Siltdb>(|job| job.config.write_buffer_bytes = 1 << 20).unwrap();
}

#[test]
fn seeks_pass_the_range_that_a_seed_deletes() {
    let seek: fn(&mut Job) = |job| {
        job.work.threads = 1;
        job.work.seed.push(Seed {
            op: SeedOp::DeleteRange,
            order: Order::Random,
            percent: 60,
            batch: 1,
        });
    };
    let report = run_with::<Siltdb>(Op::Seek, seek).unwrap();
    assert!(report.verified.checked >= 1000, "{:?}", report.verified);
    assert_eq!(report.seed.last().map(|phase| phase.ops), Some(1));
    let failure = run_with::<Liar<{ lie::SWALLOWS_DELETES }>>(Op::Seek, seek).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Verification, "{failure}");
    let failure = run_with::<Siltdb>(Op::Seek, |job| {
        let of_two = Seed { op: SeedOp::DeleteRange, percent: 60, ..job.work.seed[0].clone() };
        job.work.threads = 2;
        job.work.seed.push(of_two);
    });
    assert!(failure.unwrap_err().message.contains("one thread"));
}

#[test]
fn dropped_writes_are_caught() {
    caught_by::<{ lie::DROPS_WRITES }>(Op::Put, "scan: another entry");
    caught_by::<{ lie::DROPS_WRITES }>(Op::Get, "other entries were found");
    caught_by::<{ lie::DROPS_WRITES }>(Op::Mixed, "");
}

#[test]
fn what_is_lost_at_close_is_caught() {
    caught_by::<{ lie::FORGETS_AT_CLOSE }>(Op::Put, "entries are missing");
}

#[test]
fn stale_values_are_caught() {
    caught_by::<{ lie::STALE_VALUES }>(Op::YcsbA, "do not add up");
    // Nothing reads here, so only the comparison of the reopened database detects the fault.
    caught_by::<{ lie::STALE_VALUES }>(Op::Put, "scan: another entry");
}

#[test]
fn empty_values_are_caught() {
    caught_by::<{ lie::EMPTY_VALUES }>(Op::Get, "do not add up");
}

#[test]
fn values_that_are_wrong_in_the_middle_are_caught() {
    // The sums are right; only the comparison in full detects the fault.
    caught_by::<{ lie::BENT_VALUES }>(Op::Get, "get: found another value");
}

#[test]
fn errors_fail_with_their_message() {
    for op in [Op::Put, Op::Get, Op::Mixed] {
        let failure = caught::<{ lie::ERRORS }>(op);
        assert_eq!(failure, Failure::error("the disk is on fire"), "{op:?}");
    }
}

#[test]
fn truncated_scans_are_caught() {
    for op in [Op::Scan, Op::ScanReverse, Op::Iterate, Op::Range] {
        caught_by::<{ lie::TRUNCATES_SCANS }>(op, "other entries were found");
    }
}

#[test]
fn scans_in_the_wrong_order_are_caught() {
    // The sums are right, and so is the number.
    for op in [Op::Scan, Op::ScanReverse, Op::Range] {
        caught_by::<{ lie::SWAPS_ENTRIES }>(op, "scan: another entry");
    }
}

#[test]
fn seeks_to_the_wrong_place_are_caught() {
    caught_by::<{ lie::SEEKS_PAST }>(Op::Seek, "do not add up");
    caught_by::<{ lie::SEEKS_PAST }>(Op::Queue, "do not add up");
    // In each round, not only where everything is compared in full.
    for op in [Op::Seek, Op::Scan, Op::ScanReverse, Op::Iterate, Op::Range, Op::Queue] {
        caught_by::<{ lie::WRONG_KEYS }>(op, "do not add up");
    }
}

#[test]
fn swallowed_deletes_are_caught() {
    caught_by::<{ lie::SWALLOWS_DELETES }>(Op::Delete, "scan: another entry");
    caught_by::<{ lie::SWALLOWS_DELETES }>(Op::RangeDelete, "scan: another entry");
    caught_by::<{ lie::SWALLOWS_DELETES }>(Op::Queue, "");
}

#[test]
fn keys_found_that_never_were_are_caught() {
    caught_by::<{ lie::FINDS_MISSING }>(Op::GetMiss, "do not add up");
}

#[test]
fn a_capped_row_is_verified_as_far_as_it_came() {
    let report = run_with::<Siltdb>(Op::YcsbA, |job| {
        job.work.run.ops = 40_000_000;
        job.cap_seconds = 0.05;
    });
    let report = report.unwrap();
    assert!(report.throughput.capped);
    assert!(report.throughput.ops < 40_000_000);
    assert!(report.verified.checked > 0);
}

#[test]
fn a_pass_does_no_more_than_the_one_before_that_was_cut_off() {
    let report = run_with::<Liar<{ lie::HONEST }>>(Op::Get, |job| {
        job.work.threads = 1;
        job.work.run.ops = 400_000;
        // So slow with clocks that it is cut off.
        job.work.run.open_loop_percent = 1;
        job.cap_seconds = 0.2;
    });
    let report = report.unwrap();
    let (ops, calls) = (report.throughput.ops, report.latency.unwrap().calls);
    assert!(calls < ops / 2, "{calls} of {ops}");
    assert_eq!(report.verified.checked, ops + calls);
}

#[test]
fn an_open_loop_charges_waiting_to_the_calls() {
    let report = run_with::<Liar<{ lie::HONEST }>>(Op::Get, |job| {
        job.work.threads = 1;
        job.work.run.open_loop_percent = 50;
    });
    let latency = report.unwrap().latency.unwrap();
    assert!(latency.rate.is_some() && latency.calls == 2000);
    let report = run_with::<Liar<{ lie::HONEST }>>(Op::Get, |job| {
        job.work.run.open_loop_percent = 50;
        job.work.run.open_loop_per_s = 20_000;
    });
    let latency = report.unwrap().latency.unwrap();
    assert_eq!(latency.rate, Some(20_000.0));
}

#[test]
fn the_rate_of_a_pass_that_was_cut_off_is_a_share_of_its_median_second() {
    let throughput = |capped| Throughput {
        ops: 1_000,
        seconds: 5.0,
        settled_seconds: 10.0,
        samples: vec![400, 10, 300, 20, 270],
        capped,
    };
    assert_eq!(peak(&throughput(true)), 270.0);
    assert_eq!(peak(&throughput(false)), 100.0);
    assert_eq!(peak(&Throughput { samples: Vec::new(), ..throughput(true) }), 100.0);
}

#[test]
fn a_paced_row_that_runs_for_a_time_has_latencies_and_compares_what_it_read() {
    let report = run_with::<Liar<{ lie::HONEST }>>(Op::Mixed, |job| {
        job.work.threads = 2;
        job.work.run.ops = 20_000_000;
        job.work.run.open_loop_percent = 60;
        job.work.run.waits = Waits::Sleeping;
        job.cap_seconds = 2.5;
    });
    let report = report.unwrap();
    let latency = report.latency.unwrap();
    assert!(report.throughput.capped && report.throughput.samples.len() >= 2);
    assert!((latency.rate.unwrap() / peak(&report.throughput) - 0.6).abs() < 1e-9);
    assert!(latency.calls > 0 && latency.calls <= report.throughput.ops);
    assert!(report.verified.checked > 0);
}

#[test]
fn what_an_engine_lacks_is_unsupported_and_not_an_error() {
    let failure = run_with::<Btreemap>(Op::Get, |job| {
        job.config.table = crate::engine::TableKind::Btree;
    });
    assert_eq!(failure.unwrap_err().kind, FailureKind::Unsupported);
}

#[test]
fn short_work_takes_as_long_as_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Liar::<{ lie::HONEST }>::open(dir.path(), &Config::default()).unwrap();
    let least = Duration::from_micros(200);
    for _ in 0..100 {
        let (_, seconds) = super::steps::on_threads(&engine, vec![(), ()], |_, _, ()| {
            let start = Instant::now();
            while start.elapsed() < least {}
            Ok(())
        })
        .unwrap();
        assert!(seconds >= least.as_secs_f64(), "{seconds}");
    }
}

#[test]
fn the_thread_that_opens_is_not_counted_twice() {
    let dir = tempfile::tempdir().unwrap();
    let job = trial::job(Op::Open, dir.path());
    let config = &job.config;
    let engine = Liar::<{ lie::HONEST }>::open(dir.path(), config).unwrap();
    let data = Data::new(&job.work, 1);
    let watch = Watch { tell: &|_| {}, cap: Duration::from_secs(60) };
    let what = Watched { phase: "test", total: 0, threads: 1, cap: None };
    let opened = watched(what, &watch, |pace| {
        // The process has waited before, and the count of the process includes that.
        thread::sleep(Duration::from_millis(1));
        let door = Door { dir: dir.path(), config, finds: Finds::AsLeft };
        special::open(engine, door, &job.work, &data, pace, Unclocked)
    });
    let ((_, outcome, ..), _) = opened.unwrap();
    assert_eq!((outcome.done, outcome.context_switches), (3, 0));
}

#[test]
fn a_phase_that_seeds_is_not_cut_off() {
    let report = trial::run::<Siltdb>(Op::Get, |job| {
        job.work.keys = 50_000;
        job.cap_seconds = 0.001;
    });
    let report = report.unwrap();
    assert!(report.seed[0].seconds > 0.001, "{:?}", report.seed);
    assert_eq!(report.seed[0].ops, 50_000);
}

#[test]
fn repeats_are_verified_but_not_timed_call_by_call() {
    for op in OPS {
        let throughput = |job: &mut Job| job.extent = Extent::Throughput;
        let report = run_with::<Liar<{ lie::HONEST }>>(op, throughput);
        let report = report.unwrap_or_else(|failure| panic!("{op:?}: {failure}"));
        assert!(report.latency.is_none() && report.db_bytes_compacted.is_none(), "{op:?}");
        assert_eq!(report.verified.checked, report.verified.expected, "{op:?}");
        assert!(report.throughput.ops > 0, "{op:?}");
    }
    let failure = trial::run::<Liar<{ lie::DROPS_WRITES }>>(Op::Put, |job| {
        job.extent = Extent::Throughput;
    });
    assert_eq!(failure.unwrap_err().kind, FailureKind::Verification);
}

#[test]
fn published_keys_and_values_are_verified() {
    for key_style in [KeyStyle::Counter, KeyStyle::ReversedCounter] {
        for op in [Op::Put, Op::Delete, Op::Get, Op::GetMiss, Op::Seek, Op::Range, Op::Scan] {
            let report = trial::run::<Siltdb>(op, |job| {
                job.work.key_style = key_style;
                job.work.value_style = ValueStyle::Ramp;
                let (op, order) = (SeedOp::Delete, Order::Uniform);
                job.work.seed.push(Seed { op, order, percent: 20, batch: 10 });
            });
            report.unwrap_or_else(|failure| panic!("{key_style:?}, {op:?}: {failure}"));
        }
    }
}
