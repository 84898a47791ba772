//! The tables of a row: its costs, and all other numbers.

use crate::report::markup::{SWATCH, class, escape, name, table};
use crate::report::numbers::{NONE, bytes, or_none, percent, rate, time, whole};
use crate::report::ranking::Group;
use crate::result::{Latency, Row, Spread};

/// A column of a table: its name, its text, and a figure of which the smallest is the best.
struct Column {
    name: &'static str,
    cell: fn(&Row) -> String,
    least: Option<fn(&Row) -> Option<f64>>,
}

const fn plain(name: &'static str, cell: fn(&Row) -> String) -> Column {
    Column { name, cell, least: None }
}

const fn least(
    name: &'static str,
    cell: fn(&Row) -> String,
    figure: fn(&Row) -> Option<f64>,
) -> Column {
    Column { name, cell, least: Some(figure) }
}

const COST: [Column; 12] = [
    least("p50", |row| ns(row, p50), |row| row.latency_ns.as_ref().map(p50)),
    least("p99", |row| or_none(p99(row), time), p99),
    least("p99.9", |row| or_none(p999(row), time), p999),
    least("p99.99", |row| or_none(p9999(row), time), p9999),
    least("max", |row| ns(row, longest), |row| row.latency_ns.as_ref().map(longest)),
    least("peak RSS", |row| size(row.peak_rss_bytes), |row| number(row.peak_rss_bytes)),
    least("size", |row| size(row.db_bytes), |row| number(row.db_bytes)),
    least("compacted", |row| size(row.db_bytes_compacted), |row| number(row.db_bytes_compacted)),
    least("write amp", |row| amplification(row.write_amp), |row| row.write_amp),
    least("space amp", |row| amplification(row.space_amp), |row| row.space_amp),
    plain("of the limit", of_limit),
    plain("verified", verified),
];

const REST: [Column; 18] = [
    plain("ops/s on the clock", |row| spread(row.ops_per_s)),
    plain("ops/s settled", |row| spread(row.ops_per_s_settled)),
    plain("MB/s", |row| or_none(megabytes(row), |value| bytes(value) + "/s")),
    plain("seeding ops/s", |row| spread(row.extra.seed_ops_per_s)),
    plain("min", |row| ns(row, |latency| latency.min)),
    plain("avg", |row| ns(row, |latency| latency.avg)),
    plain("p95", |row| or_none(row.latency_ns.and_then(|latency| latency.p95), time)),
    plain("calls timed", |row| or_none(row.latency_ns.and_then(|latency| latency.calls), whole)),
    plain("CV", |row| or_none(row.latency_ns, |latency| percent(latency.cv_percent / 100.0))),
    plain("CPU", |row| or_none(row.cpu_percent, |value| percent(value / 100.0))),
    plain("switches", |row| or_none(row.extra.context_switches, whole)),
    plain("peak VMS", |row| size(row.peak_vms_bytes)),
    plain("written", |row| size(row.bytes_written)),
    plain("read amp", |row| amplification(row.extra.read_amp)),
    plain("harness", |row| or_none(row.extra.harness_ns, time)),
    plain("its share", |row| or_none(harness_share(row), percent)),
    plain("runs", |row| row.extra.repeats.to_string()),
    plain("durability", |row| row.durability.word().to_owned()),
];

/// Latency, memory, size, amplification, share of the limit, verification.
pub fn cost(group: &Group<'_>) -> String {
    let rows: Vec<&Row> = ranked(group);
    if rows.is_empty() {
        return String::new();
    }
    let mut names: Vec<&str> =
        rows.iter().filter_map(|row| row.share_of_limit().map(|of| &of.limit[..])).collect();
    names.sort_unstable();
    names.dedup();
    let limit = if names.is_empty() {
        String::new()
    } else {
        format!("; the limit is {}", names.join(", "))
    };
    render(&format!("Latency, memory, disk and amplification{limit}"), &rows, &COST)
}

/// All other numbers, and the checks of engines without a figure.
pub fn rest(group: &Group<'_>) -> String {
    let rows: Vec<&Row> = ranked(group);
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>All numbers</summary>{}</details>",
        render("All other numbers; median (min–max)", &rows, &REST)
    )
}

/// Engines with a figure, in the order of the bars.
fn ranked<'a>(group: &Group<'a>) -> Vec<&'a Row> {
    let contests = group.contests();
    contests.iter().flat_map(|contest| &contest.ranked).map(|(row, _)| *row).collect()
}

fn render(caption: &str, rows: &[&Row], columns: &[Column]) -> String {
    let mut header = vec!["engine"];
    header.extend(columns.iter().map(|column| column.name));
    let best: Vec<Option<f64>> = columns
        .iter()
        .map(|column| {
            let figure = column.least?;
            let figures = rows.iter().filter_map(|row| figure(row));
            (rows.len() > 1).then(|| figures.fold(f64::INFINITY, f64::min))
        })
        .collect();
    let lines: Vec<(String, Vec<String>)> = rows
        .iter()
        .map(|row| {
            let mut cells = vec![format!("{SWATCH}{}", name(row))];
            for (column, best) in columns.iter().zip(&best) {
                let cell = (column.cell)(row);
                let figure = column.least.and_then(|figure| figure(row));
                let is_best = figure.is_some() && figure == *best;
                cells.push(if is_best { format!("<b>{cell}</b>") } else { cell });
            }
            (class(&row.engine), cells)
        })
        .collect();
    table(caption, &header, &lines)
}

fn p50(latency: &Latency) -> f64 {
    latency.p50
}

fn p99(row: &Row) -> Option<f64> {
    row.latency_ns?.p99
}

fn p999(row: &Row) -> Option<f64> {
    row.latency_ns?.p999
}

fn p9999(row: &Row) -> Option<f64> {
    row.latency_ns?.p9999
}

fn longest(latency: &Latency) -> f64 {
    latency.max
}

fn ns(row: &Row, part: fn(&Latency) -> f64) -> String {
    or_none(row.latency_ns.as_ref().map(part), time)
}

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn size(value: Option<u64>) -> String {
    or_none(number(value), bytes)
}

fn amplification(value: Option<f64>) -> String {
    or_none(value, |value| format!("{value:.2}"))
}

fn spread(figure: Option<Spread>) -> String {
    or_none(figure, |figure| {
        format!(
            "{} <small>({}–{})</small>",
            rate(figure.median),
            rate(figure.min),
            rate(figure.max)
        )
    })
}

fn of_limit(row: &Row) -> String {
    let Some(of) = row.share_of_limit() else { return NONE.to_owned() };
    let width = (of.share * 100.0).clamp(0.0, 100.0);
    let limit = escape(&of.limit);
    format!(
        "<span class=share title=\"of {limit}\"><svg width=40 height=8 aria-hidden=true>\
         <rect class=track width=40 height=8 rx=2 />\
         <rect class=f width=\"{width:.1}%\" height=8 rx=2 /></svg><span>{}</span></span>",
        percent(of.share),
    )
}

fn verified(row: &Row) -> String {
    or_none(row.verified, |of| {
        let mark = if of.checked == of.expected { "✓" } else { "✗" };
        let (checked, expected) = (whole(of.checked), whole(of.expected));
        format!("<span title=\"{checked} of {expected}\">{mark} {}</span>", rate(of.checked as f64))
    })
}

/// Logical bytes a second, from the figure.
fn megabytes(row: &Row) -> Option<f64> {
    let each = row.extra.logical_bytes? as f64 / (row.ops > 0).then_some(row.ops)? as f64;
    Some(row.figure()?.median * each)
}

/// The harness's share of the time of an operation in the throughput pass, on one of its threads.
fn harness_share(row: &Row) -> Option<f64> {
    let each = 1e9 * f64::from(row.threads) / row.ops_per_s?.median;
    row.extra.harness_ns.map(|harness| harness / each)
}
