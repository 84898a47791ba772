//! Results as tables for the terminal, one for each row of a suite.

use crate::report::numbers::{bytes, factor, or_none, percent, rate, time, whole};
use crate::report::ranking::{Contest, Group, Verdict, groups, is_ours};
use crate::result::{Arm, Limit, LimitUnit, Results, Row, Spread, Status};
use comfy_table::{CellAlignment, ContentArrangement, Row as Cells, Table, presets};

const HEADER: [&str; 11] = [
    "engine",
    "class",
    "ops/s",
    "runs",
    "to siltdb",
    "p50",
    "p99",
    "max",
    "RSS",
    "size",
    "verified",
];

/// The columns about transactions.
const TRANSACTIONS: [&str; 7] = [
    "engine",
    "isolation",
    "retries",
    "slowest thread",
    "held open",
    "to begin one",
    "memory of one",
];

/// The cells of these columns; `None` for a row without transactions.
fn transactions(row: &Row) -> Option<Vec<String>> {
    let found = row.extra.transactions.as_ref()?;
    let share = |share: f64| format!("{} of the mean", percent(share));
    Some(vec![
        name(row),
        found.isolation.clone(),
        whole(found.retries),
        or_none(found.slowest_share, share),
        or_none(found.held, |count| whole(u64::from(count))),
        or_none(found.begin_ns, time),
        or_none(found.held_bytes, bytes),
    ])
}

/// The tables of all rows, at most `width` characters wide.
pub fn render(results: &Results, width: u16) -> String {
    groups(results).iter().map(|group| render_group(group, width)).collect::<Vec<_>>().join("\n")
}

/// The table of one row, with a title and a summary.
pub fn render_group(group: &Group<'_>, width: u16) -> String {
    let mut table = plain(width, &HEADER);
    let contests = group.contests();
    for contest in &contests {
        let ours = contest.ours();
        for (row, figure) in &contest.ranked {
            table.add_row(cells(row, *figure, ours.map(|(_, own)| own)));
        }
    }
    for column in 2..HEADER.len() {
        let column = table.column_mut(column).expect("the header made it");
        column.set_cell_alignment(CellAlignment::Right);
    }
    let size = group.size().map_or_else(String::new, |size| format!(" · {size}"));
    let mut text = format!("{} {}{size}\n", group.suite, group.row);
    if !contests.is_empty() {
        text += &format!("{table}\n");
    }
    let lines: Vec<_> = group.entries.iter().filter_map(|row| transactions(row)).collect();
    if !lines.is_empty() {
        let mut others = plain(width, &TRANSACTIONS);
        others.add_rows(lines);
        text += &format!("{others}\n");
    }
    for contest in &contests {
        text += &format!("  {}\n", says(contest));
    }
    for row in group.entries.iter().filter(|row| row.status != Status::Ok) {
        let reason = row.reason.as_deref().unwrap_or("no reason given");
        text += &format!("  {} {}: {reason}\n", name(row), row.status.word().replace('_', " "));
    }
    text
}

/// The limits of the machine, at most `width` characters wide.
pub fn limits(limits: &[Limit], width: u16) -> String {
    let mut table = plain(width, &["limit", "median", "min", "max", "what"]);
    for limit in limits {
        let write = |value: f64| match limit.unit {
            LimitUnit::BytesPerS => format!("{}/s", bytes(value)),
            LimitUnit::Ns => time(value),
        };
        let Spread { median, min, max } = limit.value;
        let cells = [&limit.limit, &write(median), &write(min), &write(max), &limit.about];
        table.add_row(Cells::from(cells));
    }
    for column in 1..4 {
        let column = table.column_mut(column).expect("the header made it");
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}

/// A table without borders, except a line below `header`.
pub fn plain(width: u16, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width).set_header(header.to_vec());
    table
}

fn name(row: &Row) -> String {
    match row.arm {
        Arm::Equal => row.engine.clone(),
        Arm::Defaults => format!("{} (defaults)", row.engine),
    }
}

fn cells(row: &Row, figure: Spread, ours: Option<Spread>) -> Vec<String> {
    let latency = row.latency_ns;
    let size = |value: Option<u64>| or_none(value, |value| bytes(value as f64));
    let against = ours.filter(|ours| ours.median > 0.0 && !is_ours(&row.engine));
    vec![
        name(row),
        row.durability.word().to_owned(),
        rate(figure.median),
        format!("{}–{}", rate(figure.min), rate(figure.max)),
        against.map_or_else(String::new, |ours| factor(figure.median / ours.median)),
        or_none(latency, |latency| time(latency.p50)),
        or_none(latency.and_then(|latency| latency.p99), time),
        or_none(latency, |latency| time(latency.max)),
        size(row.peak_rss_bytes),
        size(row.db_bytes),
        or_none(row.verified, |of| format!("{}/{}", whole(of.checked), whole(of.expected))),
    ]
}

/// The outcome of a contest in one sentence.
fn says(contest: &Contest<'_>) -> String {
    let class = contest.class();
    let winner = name(contest.winner());
    let Some((second, lead)) = contest.lead() else {
        return format!("{class}: {winner} is alone");
    };
    let leads = format!("{class}: {winner} leads {} by {}", name(second), factor(lead));
    match contest.standing() {
        Some(standing) if standing.verdict == Verdict::Level => {
            let (ours, other) = (name(standing.ours), name(standing.other));
            format!("{leads}; {ours} and {other} are level within the runs")
        }
        Some(standing) if standing.verdict == Verdict::Behind => {
            format!("{leads}; {} reaches {}", name(standing.ours), factor(standing.ratio))
        }
        _ => leads,
    }
}

#[cfg(test)]
mod tests;
