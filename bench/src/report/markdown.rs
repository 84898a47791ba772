//! Results as Markdown.
//!
//! For each suite: the figures of all engines side by side, reasons for missing figures, and costs.

use crate::report::numbers::{NONE, bytes, factor, or_none, percent, rate, time, whole};
use crate::report::ranking::{Contest, Group, Verdict, groups, suites};
use crate::result::{Arm, Engine, Latency, Results, Row, Status};
use std::fmt::Write;

const WRITTEN: &str = "writing to a string succeeds";

/// A table: each line has as many cells as `header`.
pub fn table(header: &[&str], lines: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let header = line(header.iter().map(|&cell| cell.to_owned()).collect())
        + &format!("|{}\n", "---|".repeat(header.len()));
    lines.fold(header, |text, cells| text + &line(cells.iter().map(|text| cell(text)).collect()))
}

/// The report, without a title of its own.
pub fn render(results: &Results) -> String {
    let mut text = machine(results);
    let groups = groups(results);
    for (suite, rows) in suites(&groups) {
        writeln!(text, "\n### {suite}\n").expect(WRITTEN);
        if let Some(known) = results.suites.iter().find(|known| known.suite == suite) {
            writeln!(text, "{}\n", cell(&known.about)).expect(WRITTEN);
        }
        text += &figures(rows);
        text += &reasons(rows);
        text += &costs(rows);
        text += &transactions(rows);
    }
    text += &engines(&results.engines);
    text
}

fn machine(results: &Results) -> String {
    let (machine, options) = (&results.machine, &results.options);
    format!(
        "{}, {} cores, {} of memory, {}, {} on {}. Scale {}, {} runs of each{}; median, with the \
         smallest and the largest in brackets. Rows that write count the time until background \
         work has settled. Every figure is of a run whose answers were all checked and right.\n",
        machine.cpu,
        machine.cores,
        bytes(machine.memory_bytes as f64),
        machine.kernel,
        machine.file_system,
        machine.device,
        options.scale,
        options.repeat,
        options.run_once(),
    )
}

/// One line for each contest: its leader, and every engine's figure.
fn figures(rows: &[Group<'_>]) -> String {
    let contests = rows.iter().flat_map(|group| {
        group.contests().into_iter().map(move |contest| {
            vec![sized(group), class(&contest), standing(&contest), leader(&contest), all(&contest)]
        })
    });
    table(&["row", "class", "siltdb to best other", "leader", "all"], contests)
}

/// The id of a row, and its size and threads.
fn sized(group: &Group<'_>) -> String {
    match group.size() {
        Some(size) => format!("`{}` ({size})", group.row),
        None => format!("`{}`", group.row),
    }
}

fn class(contest: &Contest<'_>) -> String {
    match contest.arm {
        Arm::Equal => contest.class().to_owned(),
        Arm::Defaults => format!("{}, defaults", contest.class()),
    }
}

/// The rows in which siltdb loses are marked.
fn standing(contest: &Contest<'_>) -> String {
    let Some(standing) = contest.standing() else { return NONE.to_owned() };
    let ratio = factor(standing.ratio);
    match standing.verdict {
        Verdict::Ahead => format!("**{ratio}**"),
        Verdict::Level => format!("{ratio}, level"),
        Verdict::Behind => format!("{ratio}, **loses**"),
    }
}

fn leader(contest: &Contest<'_>) -> String {
    let name = &contest.winner().engine;
    match contest.lead() {
        Some((_, ratio)) => format!("{name} ({})", factor(ratio)),
        None => format!("{name} (alone)"),
    }
}

fn all(contest: &Contest<'_>) -> String {
    let entry = |(row, figure): &(&Row, crate::result::Spread)| {
        let capped = if row.status == Status::Capped { ", capped" } else { "" };
        format!(
            "{} {} ({}–{}){capped}",
            row.engine,
            rate(figure.median),
            rate(figure.min),
            rate(figure.max)
        )
    };
    contest.ranked.iter().map(entry).collect::<Vec<_>>().join(" · ")
}

/// The reasons why an engine has no figure, or only a partial one.
fn reasons(rows: &[Group<'_>]) -> String {
    let mut text = String::new();
    for row in rows.iter().flat_map(|group| &group.entries) {
        if row.status != Status::Ok {
            let reason = row.reason.as_deref().unwrap_or("no reason given");
            let status = row.status.word().replace('_', " ");
            writeln!(text, "- `{}` {}: {status}: {}", row.row, row.engine, cell(reason))
                .expect(WRITTEN);
        }
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

const COSTS: [&str; 15] = [
    "row",
    "engine",
    "p50",
    "p99",
    "p99.9",
    "p99.99",
    "max",
    "CPU",
    "peak RSS",
    "size",
    "compacted",
    "write amp",
    "space amp",
    "of the limit",
    "verified",
];

fn costs(rows: &[Group<'_>]) -> String {
    let entries = rows.iter().flat_map(|group| &group.entries);
    let lines = entries.filter(|row| row.figure().is_some()).map(|row| {
        let latency = |part: fn(&Latency) -> Option<f64>| {
            or_none(row.latency_ns.as_ref().and_then(part), time)
        };
        let size = |value: Option<u64>| or_none(value, |value| bytes(value as f64));
        vec![
            format!("`{}`", row.row),
            row.engine.clone(),
            latency(|latency| Some(latency.p50)),
            latency(|latency| latency.p99),
            latency(|latency| latency.p999),
            latency(|latency| latency.p9999),
            latency(|latency| Some(latency.max)),
            or_none(row.cpu_percent, |value| percent(value / 100.0)),
            size(row.peak_rss_bytes),
            size(row.db_bytes),
            size(row.db_bytes_compacted),
            or_none(row.write_amp, |value| format!("{value:.2}")),
            or_none(row.space_amp, |value| format!("{value:.2}")),
            or_none(row.share_of_limit(), |of| format!("{} of {}", percent(of.share), of.limit)),
            or_none(row.verified, |of| format!("{}/{}", whole(of.checked), whole(of.expected))),
        ]
    });
    format!("\n{}", table(&COSTS, lines))
}

const TRANSACTIONS: [&str; 8] = [
    "row",
    "engine",
    "isolation",
    "retries",
    "slowest thread",
    "held open",
    "to begin one",
    "memory of one",
];

/// The table about transactions; empty if no row has any.
fn transactions(rows: &[Group<'_>]) -> String {
    let entries = rows.iter().flat_map(|group| &group.entries);
    let lines = entries.filter_map(|row| {
        let found = row.extra.transactions.as_ref()?;
        Some(vec![
            format!("`{}`", row.row),
            row.engine.clone(),
            found.isolation.clone(),
            whole(found.retries),
            or_none(found.slowest_share, percent),
            or_none(found.held, |count| whole(u64::from(count))),
            or_none(found.begin_ns, time),
            or_none(found.held_bytes, bytes),
        ])
    });
    let lines: Vec<Vec<String>> = lines.collect();
    if lines.is_empty() {
        return String::new();
    }
    let about = "The slowest thread's transactions are a share of the mean of all threads.";
    format!("\n{}\n{about}\n", table(&TRANSACTIONS, lines.into_iter()))
}

fn engines(engines: &[Engine]) -> String {
    let known = engines.iter().filter(|engine| !engine.version.is_empty());
    let lines = known.map(|one| {
        [&one.engine, &one.version, &one.build, &one.options, &one.durability]
            .map(Clone::clone)
            .to_vec()
    });
    format!("\n{}", table(&["engine", "version", "build", "options", "durability"], lines))
}

/// Text with neither a cell border nor a line break.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests;
