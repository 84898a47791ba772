//! Results as CSV: one line for each engine in each row, one column for each figure.
//!
//! Samples and curves are left to the JSON. An empty field means: not measured.

use crate::result::{Latency, Results, Row, Spread};

/// A column: its name, and what stands in it.
type Column = (&'static str, fn(&Row) -> String);

const COLUMNS: [Column; 44] = [
    ("suite", |row| row.suite.clone()),
    ("row", |row| row.row.clone()),
    ("engine", |row| row.engine.clone()),
    ("arm", |row| row.arm.word().to_owned()),
    ("durability", |row| row.durability.word().to_owned()),
    ("status", |row| row.status.word().to_owned()),
    ("threads", |row| row.threads.to_string()),
    ("batch", |row| row.batch.to_string()),
    ("ops", |row| row.ops.to_string()),
    ("repeats", |row| row.extra.repeats.to_string()),
    ("keys", |row| field(row.extra.keys)),
    ("key_bytes", |row| field(row.extra.key_bytes)),
    ("value_bytes", |row| field(row.extra.value_bytes)),
    ("state", |row| field(row.extra.state.clone())),
    ("ops_per_s_median", |row| spread(row.ops_per_s, |figure| figure.median)),
    ("ops_per_s_min", |row| spread(row.ops_per_s, |figure| figure.min)),
    ("ops_per_s_max", |row| spread(row.ops_per_s, |figure| figure.max)),
    ("ops_per_s_settled_median", |row| spread(row.ops_per_s_settled, |figure| figure.median)),
    ("ops_per_s_settled_min", |row| spread(row.ops_per_s_settled, |figure| figure.min)),
    ("ops_per_s_settled_max", |row| spread(row.ops_per_s_settled, |figure| figure.max)),
    ("seed_ops_per_s_median", |row| spread(row.extra.seed_ops_per_s, |figure| figure.median)),
    ("latency_ns_min", |row| latency(row, |latency| latency.min)),
    ("latency_ns_avg", |row| latency(row, |latency| latency.avg)),
    ("latency_ns_p50", |row| latency(row, |latency| latency.p50)),
    ("latency_ns_p95", |row| field(row.latency_ns.and_then(|latency| latency.p95))),
    ("latency_ns_p99", |row| field(row.latency_ns.and_then(|latency| latency.p99))),
    ("latency_ns_p999", |row| field(row.latency_ns.and_then(|latency| latency.p999))),
    ("latency_ns_p9999", |row| field(row.latency_ns.and_then(|latency| latency.p9999))),
    ("latency_ns_max", |row| latency(row, |latency| latency.max)),
    ("latency_cv_percent", |row| latency(row, |latency| latency.cv_percent)),
    ("cpu_percent", |row| field(row.cpu_percent)),
    ("peak_rss_bytes", |row| field(row.peak_rss_bytes)),
    ("peak_vms_bytes", |row| field(row.peak_vms_bytes)),
    ("bytes_written", |row| field(row.bytes_written)),
    ("db_bytes", |row| field(row.db_bytes)),
    ("db_bytes_compacted", |row| field(row.db_bytes_compacted)),
    ("write_amp", |row| field(row.write_amp)),
    ("read_amp", |row| field(row.extra.read_amp)),
    ("space_amp", |row| field(row.space_amp)),
    ("harness_ns", |row| field(row.extra.harness_ns)),
    ("limit", |row| field(row.share_of_limit().map(|of| of.limit.clone()))),
    ("share_of_limit", |row| field(row.share_of_limit().map(|of| of.share))),
    ("verified", |row| field(row.verified.map(|of| format!("{}/{}", of.checked, of.expected)))),
    ("reason", |row| field(row.reason.clone())),
];

/// The table as text, with a header line.
pub fn render(results: &Results) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = "writing to memory succeeds, and lines are equally long";
    writer.write_record(COLUMNS.map(|(name, _)| name)).expect(written);
    for row in &results.rows {
        writer.write_record(COLUMNS.map(|(_, write)| write(row))).expect(written);
    }
    let bytes = writer.into_inner().expect("writing to memory succeeds");
    String::from_utf8(bytes).expect("only strings were written")
}

fn field(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn spread(value: Option<Spread>, part: fn(&Spread) -> f64) -> String {
    field(value.as_ref().map(part))
}

fn latency(row: &Row, part: fn(&Latency) -> f64) -> String {
    field(row.latency_ns.as_ref().map(part))
}

#[cfg(test)]
mod tests;
