//! Turns the reports of a worker, one for each round, into a row of the results: medians and their
//! spread.
//!
//! A value that has no median is taken from the round with the middle throughput.

use crate::{
    engine::{Arm, Class},
    job::{Latency, Op, Report},
    result::{
        CurvePoint, Durability, Extra, Latency as LatencyRow, Row, Spread, Status, Transactions,
        Verified,
    },
    runner::bound::Bound,
    suite::Chosen,
};

/// The whole, in thousandths of a percent.
const PER_CENT_MILLE: u64 = 100_000;

/// Facts about a row besides the reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The benchmark's own time for an operation.
    pub harness_ns: Option<f64>,
    /// The limit of the machine.
    pub bound: Option<&'a Bound>,
    /// The established durability class; without it, the class that the engine claims.
    pub class: Option<Class>,
}

/// Builds a row. With a failure it has no figure.
#[must_use]
pub fn row(
    chosen: &Chosen,
    engine: &str,
    reports: &[Report],
    failure: Option<(Status, String)>,
    known: Known<'_>,
) -> Row {
    let reports = if failure.is_some() { &[] } else { reports };
    let mut sorted: Vec<&Report> = reports.iter().collect();
    sorted.sort_by(|a, b| per_second(a).total_cmp(&per_second(b)));
    let middle = sorted.get(sorted.len() / 2).copied();
    let of =
        |figure: fn(&Report) -> f64| Spread::of(&reports.iter().map(figure).collect::<Vec<_>>());
    let median = |figure: fn(&Report) -> f64| of(figure).map(|spread| spread.median);
    let bytes = |figure: fn(&Report) -> f64| median(figure).map(|bytes| bytes as u64);
    let is_cut_off = |report: &Report| chosen.seconds.is_none() && report.throughput.capped;
    let capped = reports.iter().any(is_cut_off);
    let writes = chosen.work.run.op.writes();
    let said = middle.map(|report| report.facts.class);
    let timed = reports.iter().find_map(|report| report.latency.as_ref());
    let mut verified = crate::job::Verified::default();
    reports.iter().for_each(|report| verified.add(report.verified));
    let (status, reason) = match failure {
        Some((status, reason)) => (status, Some(reason)),
        None if reports.is_empty() => (Status::NotRun, Some("it was not run".to_owned())),
        None if capped => (Status::Capped, Some("cut off by the time limit of rows".to_owned())),
        None => (Status::Ok, None),
    };
    let mut row = Row {
        suite: chosen.suite.clone(),
        row: chosen.row.clone(),
        engine: engine.to_owned(),
        arm: arm(chosen.config.arm),
        durability: durability(known.class.or(said).unwrap_or(Class::Memory)),
        threads: chosen.work.threads,
        batch: if writes { chosen.work.run.batch } else { 1 },
        ops: middle.map_or(0, |report| report.throughput.ops),
        ops_per_s: of(per_second),
        ops_per_s_settled: of(per_second_settled).filter(|_| writes),
        latency_ns: timed.map(latency),
        cpu_percent: median(|report| report.usage.cpu_percent),
        peak_vms_bytes: bytes(|report| report.usage.peak_vms_bytes as f64),
        verified: middle
            .map(|_| Verified { expected: verified.expected, checked: verified.checked }),
        peak_rss_bytes: bytes(own_rss),
        bytes_written: bytes(|report| report.usage.bytes_written as f64),
        db_bytes: bytes(|report| report.db_bytes as f64),
        db_bytes_compacted: reports.iter().find_map(|report| report.db_bytes_compacted),
        write_amp: median(write_amp).filter(|_| writes),
        space_amp: median(space_amp),
        status,
        reason,
        extra: extra(chosen, reports, middle, known.harness_ns),
    };
    row.extra.share_of_limit = known.bound.and_then(|bound| Some(bound.share(row.figure()?)));
    row
}

fn extra(
    chosen: &Chosen,
    reports: &[Report],
    middle: Option<&Report>,
    harness_ns: Option<f64>,
) -> Extra {
    let work = &chosen.work;
    let seeds: Vec<f64> = reports.iter().filter_map(seed_per_second).collect();
    let timed = reports.iter().find_map(|report| report.latency.as_ref());
    Extra {
        repeats: reports.len() as u32,
        keys: Some(u64::from(work.keys)),
        key_bytes: Some(work.key_bytes),
        value_bytes: Some(work.value_bytes),
        logical_bytes: middle.map(|report| report.logical_bytes),
        state: serde_json::to_value(work.state).ok().and_then(|s| Some(s.as_str()?.to_owned())),
        seed_ops_per_s: Spread::of(&seeds),
        context_switches: middle.map(|report| report.usage.context_switches),
        samples: middle.map(|report| report.throughput.samples.clone()).unwrap_or_default(),
        curve: timed.map(curve).unwrap_or_default(),
        harness_ns,
        transactions: middle.and_then(transactions),
        ..Extra::default()
    }
}

fn transactions(report: &Report) -> Option<Transactions> {
    let found = report.transactions.as_ref()?;
    Some(Transactions {
        isolation: found.isolation.clone(),
        retries: found.retries,
        slowest_share: found.slowest_share,
        held: found.held.map(|held| held.count),
        begin_ns: found.held.map(|held| held.begin_ns),
        held_bytes: found.held.map(|held| held.bytes),
    })
}

/// The arm, as results have it.
#[must_use]
pub fn arm(arm: Arm) -> crate::result::Arm {
    match arm {
        Arm::Equal => crate::result::Arm::Equal,
        Arm::Defaults => crate::result::Arm::Defaults,
    }
}

fn durability(class: Class) -> Durability {
    match class {
        Class::Memory => Durability::Memory,
        Class::Process => Durability::Process,
        Class::Power => Durability::Power,
    }
}

/// The figure by which engines are compared: operations a second; if they write, including the time
/// until background work is done.
#[must_use]
pub fn figure(report: &Report, op: Op) -> f64 {
    if op.writes() { per_second_settled(report) } else { per_second(report) }
}

fn per_second(report: &Report) -> f64 {
    report.throughput.ops as f64 / report.throughput.seconds.max(1e-9)
}

fn per_second_settled(report: &Report) -> f64 {
    report.throughput.ops as f64 / report.throughput.settled_seconds.max(1e-9)
}

fn seed_per_second(report: &Report) -> Option<f64> {
    let ops: u64 = report.seed.iter().map(|phase| phase.ops).sum();
    let seconds: f64 = report.seed.iter().map(|phase| phase.seconds).sum();
    (ops > 0).then(|| ops as f64 / seconds.max(1e-9))
}

/// The peak of memory without that of the benchmark itself.
fn own_rss(report: &Report) -> f64 {
    report.usage.peak_rss_bytes.saturating_sub(report.usage.harness_rss_bytes) as f64
}

fn write_amp(report: &Report) -> f64 {
    report.usage.bytes_written as f64 / report.logical_bytes.max(1) as f64
}

fn space_amp(report: &Report) -> f64 {
    report.db_bytes as f64 / report.live_bytes.max(1) as f64
}

/// The latencies that the number of calls supports: of n calls, 1 − 1/n is the last percentile
/// below the longest call.
fn latency(latency: &Latency) -> LatencyRow {
    let borne = |ns: u64, per_cent_mille: u64| {
        let calls_min = PER_CENT_MILLE / (PER_CENT_MILLE - per_cent_mille);
        (latency.calls >= calls_min).then_some(ns as f64)
    };
    LatencyRow {
        calls: Some(latency.calls),
        min: latency.min as f64,
        avg: latency.avg,
        p50: latency.p50 as f64,
        p95: borne(latency.p95, 95_000),
        p99: borne(latency.p99, 99_000),
        p999: borne(latency.p999, 99_900),
        p9999: borne(latency.p9999, 99_990),
        max: latency.max as f64,
        cv_percent: latency.cv_percent,
    }
}

/// The distribution up to 1 − 1/n of n calls, and the longest call at its end.
fn curve(latency: &Latency) -> Vec<CurvePoint> {
    let last = 100.0 * (1.0 - 1.0 / latency.calls.max(1) as f64);
    let within = latency.curve.iter().filter(|(percentile, _)| *percentile <= last);
    let point = |&(percentile, ns): &(f64, u64)| CurvePoint { percentile, ns: ns as f64 };
    let longest = CurvePoint { percentile: 100.0, ns: latency.max as f64 };
    within.map(point).chain((latency.calls > 0).then_some(longest)).collect()
}

#[cfg(test)]
mod tests;
