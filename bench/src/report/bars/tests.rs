//! Tests of verdicts, on made-up results.

use super::*;
use crate::result::Transactions;

const RUN: &str = include_str!("../../../tests/data/run.json");
const ROW: &str = "sequential-write/batch-1000";

/// The run, with bars on one of its rows.
fn run(bars: Bars) -> Results {
    let mut results = Results::from_json(RUN).unwrap();
    let rows = results.suites.iter_mut().flat_map(|suite| &mut suite.rows);
    rows.into_iter().find(|definition| definition.row == ROW).unwrap().bars = bars;
    results
}

fn entry<'a>(results: &'a mut Results, engine: &str) -> &'a mut Row {
    let of = |row: &&mut Row| row.row == ROW && row.engine == engine;
    results.rows.iter_mut().find(of).unwrap()
}

fn missed(results: Results) -> Vec<String> {
    let judgement = Judgement::of(&[results]);
    let all = judgement.lines.into_iter().flat_map(|line| line.verdicts);
    all.filter(|verdict| !verdict.is_met).map(|verdict| verdict.text).collect()
}

#[test]
fn a_bar_is_met_at_its_number_and_missed_below() {
    let others = |others| Bars { others: Some(others), ..Bars::default() };
    // 3.40 M against TidesDB's 2.84 M, and RocksDB's 2.22 M.
    assert_eq!(missed(run(others(3.40 / 2.84))), [""; 0]);
    assert_eq!(missed(run(others(1.2))), ["1.20× of tidesdb, 1.2 asked for"]);
    let named = Bars { rocksdb: Some(1.5), lsm: Some(1.3), lmdb: Some(9.0), ..Bars::default() };
    // LMDB is of another durability class.
    assert_eq!(missed(run(named)), ["1.20× of tidesdb, 1.3 asked for"]);
}

#[test]
fn calls_must_not_vary_or_last_longer_than_asked_for() {
    let cv = |most| Bars { cv_percent: Some(most), ..Bars::default() };
    assert_eq!(missed(run(cv(43.8))), [""; 0]);
    assert_eq!(missed(run(cv(43.0))), ["calls vary by 44 %, 43 % asked for"]);
    let slowest = Bars { slowest: true, ..Bars::default() };
    let mut results = run(slowest);
    entry(&mut results, "siltdb").latency_ns.as_mut().unwrap().max = 2e7;
    assert_eq!(missed(results), ["the longest calls take 20 ms, 17.3 ms asked for"]);
}

#[test]
fn writes_are_held_to_what_they_cost_rocksdb() {
    let bars = Bars { others: Some(1.0), ..Bars::default() };
    let mut results = run(bars);
    let own = entry(&mut results, "siltdb");
    (own.peak_rss_bytes, own.write_amp, own.space_amp) = (Some(200_000_000), Some(1.3), Some(0.7));
    let wanted = [
        "peak memory 200 MB, RocksDB's 181 MB",
        "write amplification 1.30, RocksDB's 1.26",
        "space amplification 0.70, RocksDB's 0.65",
    ];
    assert_eq!(missed(results.clone()), wanted);
    // If hardly any data is live, size has no meaning.
    entry(&mut results, "siltdb").space_amp = Some(266_240.0);
    assert_eq!(missed(results), wanted[..2]);
}

#[test]
fn no_figure_misses_every_bar() {
    let mut results = run(Bars { rocksdb: Some(0.1), ..Bars::default() });
    entry(&mut results, "siltdb").status = Status::Failed;
    assert_eq!(missed(results), ["siltdb has no figure"]);
    let variant = Bars { engine: Some("siltdb-map".to_owned()), ..Bars::default() };
    assert_eq!(missed(run(variant)), ["siltdb-map has no figure"]);
}

#[test]
fn rows_without_bars_are_not_judged_and_misses_stand_first() {
    assert!(Judgement::of(&[run(Bars::default())]).lines.is_empty());
    let judgement = Judgement::of(&[run(Bars { rocksdb: Some(2.0), ..Bars::default() })]);
    assert!(!judgement.is_met());
    let text = judgement.render();
    let miss = format!("- `tidesdb-v7/{ROW}`, 8 threads: 1.53× of rocksdb, 2 asked for\n");
    assert!(text.starts_with("3 of 4 bars are met, in 1 rows.\n- "), "{text}");
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
    assert!(place(&miss) < place("| row | threads | siltdb |"), "{text}");
    place("| tidesdb 2.84M (2.80M–2.94M) | 2.22M (2.20M–2.24M) | 1.20× | 1.53× |");
    place("**1 of 4 missed**");
    place("| 44 % · 292 % |");
}

#[test]
fn of_a_row_that_was_measured_again_the_last_counts() {
    let bars = Bars { others: Some(1.2), ..Bars::default() };
    let with_median = |median: f64, threads: u32| {
        let mut results = run(bars.clone());
        for row in results.rows.iter_mut().filter(|row| row.row == ROW) {
            row.threads = threads;
        }
        entry(&mut results, "siltdb").ops_per_s_settled.as_mut().unwrap().median = median;
        results
    };
    let judgement = |runs: &[Results]| Judgement::of(runs).render();
    let (slow, fast) = (with_median(2.9e6, 8), with_median(4e6, 8));
    let alone = judgement(std::slice::from_ref(&fast));
    assert_eq!(judgement(&[slow.clone(), fast.clone()]), alone);
    assert_eq!(judgement(&[fast.clone(), slow.clone()]), judgement(&[slow]));
    let both = judgement(&[fast, with_median(2.9e6, 4)]);
    assert!(
        both.contains("in 2 rows.\n") && both.contains("4 threads: 1.02× of tidesdb"),
        "{both}"
    );
}

/// How transactions went, but for what a test sets.
fn transactions(slowest_share: Option<f64>) -> Transactions {
    Transactions {
        isolation: "serializable".to_owned(),
        retries: 12_345,
        slowest_share,
        held: Some(7),
        begin_ns: Some(250.0),
        held_bytes: Some(300.0),
    }
}

#[test]
fn a_row_may_be_held_to_another_row_of_its_run() {
    let beside = |row: &str, least| {
        let (row, engine) = (row.to_owned(), "fjall".to_owned());
        Bars { beside: Some(Beside { row, engine, least }), ..Bars::default() }
    };
    let results = run(Bars::default());
    let median = |row: &str, engine: &str| {
        let of = |one: &&Row| one.row == row && one.engine == engine;
        results.rows.iter().find(of).unwrap().figure().unwrap().median
    };
    let ratio = median(ROW, "siltdb") / median("mixed/batch-1", "fjall");
    assert_eq!(missed(run(beside("mixed/batch-1", ratio * 0.999))), [""; 0]);
    let text = format!("{} of fjall in `mixed/batch-1`, {} asked for", factor(ratio), 2.0 * ratio);
    assert_eq!(missed(run(beside("mixed/batch-1", 2.0 * ratio))), [text]);
    // What has no figure is not judged.
    assert_eq!(missed(run(beside("no-such-row", 1e9))), [""; 0]);
}

#[test]
fn the_slowest_thread_must_not_fall_behind() {
    let asked = Bars { slowest_share: Some(0.25), ..Bars::default() };
    let of = |share| {
        let mut results = run(asked.clone());
        entry(&mut results, "siltdb").extra.transactions = Some(transactions(share));
        missed(results)
    };
    assert_eq!(of(Some(0.25)), [""; 0]);
    assert_eq!(of(Some(0.1)), ["the slowest thread did 0.10 of the mean, 0.25 asked for"]);
    assert_eq!(of(None), [""; 0]);
}

#[test]
fn rocksdb_in_rows_of_transactions_is_its_faster_way() {
    let mut results = run(Bars { rocksdb: Some(9.0), ..Bars::default() });
    let plain = entry(&mut results, "rocksdb");
    plain.engine = "rocksdb-pessimistic".to_owned();
    let mut faster = plain.clone();
    faster.engine = "rocksdb-optimistic".to_owned();
    let double = |spread: &mut Option<Spread>| {
        if let Some(Spread { median, min, max }) = spread {
            (*median, *min, *max) = (2.0 * *median, 2.0 * *min, 2.0 * *max);
        }
    };
    double(&mut faster.ops_per_s);
    double(&mut faster.ops_per_s_settled);
    results.rows.push(faster);
    let missed = missed(results);
    assert!(missed.len() == 1 && missed[0].contains("of rocksdb-optimistic"), "{missed:?}");
}
