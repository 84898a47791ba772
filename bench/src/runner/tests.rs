//! Tests of results made from rounds. `tests/command.rs` has the tests of worker processes.

use super::{
    Entry, Options,
    assemble::{self, Known},
    child::{Limits, peer_programs},
    classes::Established,
    repeated, turns,
};
use crate::{
    adapters::siltdb::Siltdb,
    engine::{self, Arm, Class, Config, Engine},
    job::{Latency, Report, Throughput, Usage, Verified},
    result::{Durability, Status},
    suite::{Chosen, Overrides, suites},
};
use std::{collections::HashMap, sync::atomic::AtomicBool};

fn chosen(op: &str) -> Chosen {
    chosen_of("layerdb", op)
}

fn chosen_of(suite: &str, id: &str) -> Chosen {
    let arm = Arm::Equal;
    let overrides = Overrides { scale: 0.001, arm, ..Overrides::default() };
    let suites = suites();
    let suite = suites.iter().find(|one| one.suite == suite).unwrap();
    suite.choose(suite.rows.iter().find(|row| row.id == id).unwrap(), &overrides)
}

fn options(interrupted: &AtomicBool) -> Options<'_> {
    Options {
        absent: HashMap::new(),
        machine: Vec::new(),
        cores: 2,
        classes: HashMap::new(),
        repeat: 3,
        repeat_within: None,
        always: |engine| engine == "ours",
        dir: std::env::temp_dir(),
        cap_seconds: 1.0,
        limits: Limits::default(),
        workers: Vec::new(),
        interrupted,
    }
}

fn report(seconds: f64, capped: bool) -> Report {
    Report {
        facts: Siltdb::facts(&Config::default()),
        seed: Vec::new(),
        throughput: Throughput {
            ops: 1000,
            seconds,
            settled_seconds: seconds * 2.0,
            samples: vec![seconds as u64],
            capped,
        },
        latency: Some(Latency { p50: seconds as u64, ..Latency::default() }),
        verified: Verified::all(1000),
        logical_bytes: 1000,
        db_bytes: 500,
        db_bytes_compacted: Some(400),
        live_bytes: 1000,
        usage: Usage {
            harness_rss_bytes: 30,
            peak_rss_bytes: 100,
            bytes_written: 1500,
            ..Usage::default()
        },
        transactions: None,
    }
}

#[test]
fn each_round_has_every_engine_and_another_begins() {
    let orders: Vec<Vec<usize>> = (0..5).map(|round| turns(7 + round, 4).collect()).collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3]);
    }
    assert_eq!(orders[0], [3, 0, 1, 2]);
    let begin: Vec<usize> = orders.iter().map(|order| order[0]).collect();
    assert_eq!(begin, [3, 0, 1, 2, 3]);
    assert_eq!(turns(3, 0).count(), 0);
}

#[test]
fn a_row_is_the_median_of_its_rounds() {
    let reports = [report(10.0, false), report(1.0, false), report(2.0, false)];
    let known = Known { harness_ns: Some(7.0), bound: None, class: Some(Class::Memory) };
    let row = assemble::row(&chosen("fill/5k"), "siltdb", &reports, None, known);
    let per_second = row.ops_per_s.unwrap();
    assert_eq!((per_second.median, per_second.min, per_second.max), (500.0, 100.0, 1000.0));
    assert_eq!(row.ops_per_s_settled.unwrap().median, 250.0);
    assert_eq!((row.latency_ns.unwrap().p50, row.extra.samples), (10.0, vec![2]));
    assert_eq!((row.write_amp, row.space_amp), (Some(1.5), Some(0.5)));
    assert_eq!((row.peak_rss_bytes, row.extra.harness_ns), (Some(70), Some(7.0)));
    assert_eq!((row.status, row.extra.repeats), (Status::Ok, 3));
    assert_eq!(row.durability, Durability::Memory, "what was established counts, not the word");
}

#[test]
fn reading_leaves_no_debt_and_a_cap_is_said() {
    let row = assemble::row(
        &chosen("readseq/5k"),
        "siltdb",
        &[report(1.0, true)],
        None,
        Known::default(),
    );
    assert_eq!((row.ops_per_s_settled, row.write_amp), (None, None));
    assert_eq!((row.status, row.figure().is_some()), (Status::Capped, true));
}

#[test]
fn the_end_of_its_time_is_no_cap_for_a_row_that_runs_for_a_time() {
    let sustained = chosen_of("claims", "sustained");
    let row = assemble::row(&sustained, "siltdb", &[report(600.0, true)], None, Known::default());
    assert_eq!((row.status, row.reason), (Status::Ok, None));
}

#[test]
fn a_row_that_failed_once_shows_no_figure() {
    let failure = Some((Status::Failed, "verification: wrong".to_owned()));
    let row =
        assemble::row(&chosen("fill/5k"), "sled", &[report(1.0, false)], failure, Known::default());
    assert_eq!((row.ops_per_s, row.verified, row.figure()), (None, None, None));
    assert_eq!(row.reason.as_deref(), Some("verification: wrong"));
}

#[test]
fn workers_of_peers_are_found_where_they_are_built() {
    let peers = tempfile::tempdir().unwrap();
    let release = peers.path().join("rocksdb/target/release");
    std::fs::create_dir_all(&release).unwrap();
    std::fs::create_dir_all(peers.path().join("go")).unwrap();
    for file in ["silt-bench-rocksdb", "silt-bench-rocksdb.d", "other"] {
        std::fs::write(release.join(file), "").unwrap();
    }
    std::fs::write(peers.path().join("go/silt-bench-go"), "").unwrap();
    let found = peer_programs(peers.path());
    let wanted = [peers.path().join("go/silt-bench-go"), release.join("silt-bench-rocksdb")];
    assert_eq!(found, wanted);
}

#[test]
fn only_who_is_near_the_best_of_its_class_is_repeated() {
    let interrupted = AtomicBool::new(false);
    let promise = |engine: &str| (engine.to_owned(), engine::Durability::Buffered);
    let memory = Established { class: Class::Memory, how: String::new() };
    let mut options = Options {
        classes: HashMap::from([(promise("careless"), memory)]),
        repeat_within: Some(3.0),
        ..options(&interrupted)
    };
    let entry = |engine, seconds| {
        let reports = vec![report(seconds, false)];
        Entry { engine, reports, failure: None }
    };
    let failed = Entry { engine: "failed", reports: Vec::new(), failure: None };
    let entries = [
        entry("best", 1.0),
        entry("near", 2.9),
        entry("far", 3.1),
        entry("ours", 9.0),
        failed,
        entry("careless", 0.1),
    ];
    let of = |row, options: &Options<'_>| repeated(&chosen(row), &entries, options);
    assert_eq!(of("fill/5k", &options), [true, true, false, true, false, true]);
    // Reads are compared across classes.
    assert_eq!(of("readseq/5k", &options), [false, false, false, true, false, true]);
    options.repeat_within = None;
    assert_eq!(of("fill/5k", &options), [true; 6]);
    let sustained = chosen_of("claims", "sustained");
    assert_eq!(repeated(&sustained, &entries, &options), [false; 6]);
}

#[test]
fn who_may_lose_commits_by_a_kill_has_no_figure_after_one() {
    let interrupted = AtomicBool::new(false);
    let promise = |durability| ("careless".to_owned(), durability);
    let established = |class| Established { class, how: "as was seen".to_owned() };
    let classes = HashMap::from([
        (promise(engine::Durability::Buffered), established(Class::Memory)),
        (promise(engine::Durability::Synced), established(Class::Process)),
    ]);
    let options = Options { classes, ..options(&interrupted) };
    let failure = |engine, row| Entry::new(engine, &chosen_of("open-time", row), &options).failure;
    let (status, reason) = failure("careless", "1gb/killed").unwrap();
    assert_eq!(status, Status::Unsupported);
    assert_eq!(reason, "may lose acknowledged commits when it is killed; as was seen");
    for row in ["1gb", "1gb/killed/synced"] {
        assert_eq!(failure("careless", row), None, "{row}");
    }
    assert_eq!(failure("another", "1gb/killed"), None);
}
