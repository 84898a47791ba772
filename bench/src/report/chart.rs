//! Results as SVG pictures: bars of workloads side by side, and operations by second.
//!
//! A picture stands alone in a page of Markdown. So each has a light and a dark theme, and a foot
//! that names the commit, machine and date. It needs no font and no style of the page.

use crate::report::age;
use crate::report::markup::escape;
use crate::report::numbers::{NONE, date, rate};
use crate::report::ranking::{Group, OURS};
use crate::result::{Results, Row};
use std::fmt::Write;

const WRITTEN: &str = "writing to a string succeeds";

/// The engines of a chart by default.
pub const ENGINES: [&str; 4] = ["siltdb", "rocksdb", "lmdb", "fjall"];

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 24.0;
/// The left end of bars and the length of the longest; figures stand to the right.
const BARS: (f64, f64) = (350.0, 410.0);
/// A longer label is cut after this many characters, so that it ends before the bars.
const LABEL_CHARACTERS: usize = 47;
const BAR: f64 = 13.0;
const GAP: f64 = 14.0;
const HEAD: f64 = 66.0;
const FOOT: f64 = 52.0;
/// Height of a plot of curves.
const PLOT: f64 = 260.0;
/// Seconds of a row that make one point of a curve. Single seconds differ so much that their curves
/// cover each other.
const WINDOW: usize = 10;

/// The colours of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// For a white background.
    Light,
    /// For an almost black background.
    Dark,
}

impl Theme {
    /// Background, text, faint text, lines.
    fn colours(self) -> [&'static str; 4] {
        match self {
            Self::Light => ["#ffffff", "#1c1e21", "#5a5f66", "#dcdcd6"],
            Self::Dark => ["#0d1117", "#e8eaed", "#a2a8b0", "#30363d"],
        }
    }

    fn engine(self, index: usize) -> &'static str {
        let all = match self {
            Self::Light => ["#0b6bcb", "#b45309", "#be123c", "#15803d", "#7c3aed", "#475569"],
            Self::Dark => ["#4da3ff", "#f0a030", "#fb7185", "#4ade80", "#a78bfa", "#94a3b8"],
        };
        all[index % all.len()]
    }
}

/// A bar for each of `engines` in each of `groups`. Each group has a scale of its own, because
/// scans read a hundred entries in the time of a put. An engine without a figure, or of another
/// durability class than siltdb, has a dash.
#[must_use]
pub fn bars(results: &Results, groups: &[&Group<'_>], engines: &[String], theme: Theme) -> String {
    let group_height = BAR * engines.len() as f64 + GAP;
    let height = HEAD + group_height * groups.len() as f64 + FOOT;
    let label =
        format!("Operations a second of {} in {} workloads", engines.join(", "), groups.len());
    let mut text = head(height, &label, engines, theme);
    let [_, ink, faint, _] = theme.colours();
    for (index, group) in groups.iter().enumerate() {
        let top = HEAD + group_height * index as f64;
        let middle = top + BAR * engines.len() as f64 / 2.0 + 4.0;
        let label = escape(&short_label(group));
        writeln!(text, "<text x=\"{MARGIN}\" y=\"{middle:.1}\" fill=\"{ink}\">{label}</text>")
            .expect(WRITTEN);
        let figures: Vec<Option<f64>> = engines.iter().map(|one| comparable(group, one)).collect();
        let most = figures.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (index, figure) in figures.iter().enumerate() {
            let y = top + BAR * index as f64;
            let length = BARS.1 * figure.unwrap_or(0.0) / most;
            let (x, colour) = (BARS.0, theme.engine(index));
            writeln!(
                text,
                "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{:.1}\" \
                 fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" \
                 fill=\"{faint}\">{}</text>",
                BAR - 2.0,
                x + length + 6.0,
                y + BAR - 3.5,
                figure.map_or_else(|| NONE.to_owned(), rate),
            )
            .expect(WRITTEN);
        }
    }
    let says = "Operations a second, longer is better; each workload has its own scale.";
    text + &foot(results, height, says, theme)
}

/// The description of a group, cut to the space beside the bars.
fn short_label(group: &Group<'_>) -> String {
    let about = group.definition.map_or(group.row, |definition| &definition.about);
    match about.char_indices().nth(LABEL_CHARACTERS) {
        Some((end, _)) => format!("{}…", about[..end].trim_end()),
        None => about.to_owned(),
    }
}

/// An engine's median in a group, if it is comparable with siltdb's.
fn comparable(group: &Group<'_>, engine: &str) -> Option<f64> {
    let contests = group.contests();
    let ours = contests.iter().find(|contest| contest.entry(OURS).is_some())?;
    ours.entry(engine).map(|(_, figure)| figure.median)
}

/// A curve for each of `engines` with one: the median of the operations finished in each second,
/// over `WINDOW` seconds, in a band from the slowest of them to the fastest.
#[must_use]
pub fn curves(results: &Results, group: &Group<'_>, engines: &[String], theme: Theme) -> String {
    let height = HEAD + PLOT + 20.0 + FOOT;
    let about = group.definition.map_or(group.row, |definition| &definition.about);
    let mut text = head(height, &format!("Operations a second over time: {about}"), engines, theme);
    let sampled = |engine: &String| -> Option<&Row> {
        let row = group.entries.iter().find(|row| row.engine == *engine)?;
        (row.figure().is_some() && row.extra.samples.len() > 1).then_some(*row)
    };
    let rows: Vec<Option<&Row>> = engines.iter().map(sampled).collect();
    let samples = || rows.iter().flatten().map(|row| &row.extra.samples);
    let seconds = samples().map(Vec::len).max().unwrap_or(0).max(2);
    let most = samples().flatten().max().copied().unwrap_or(0).max(1) as f64;
    let (left, width) = (MARGIN + 48.0, WIDTH - 2.0 * MARGIN - 48.0);
    let up = |ops: f64| HEAD + PLOT * (1.0 - ops / most);
    let [_, _, faint, line] = theme.colours();
    for quarter in 0..=4 {
        let ops = most * f64::from(quarter) / 4.0;
        writeln!(
            text,
            "<path d=\"M{left} {y:.1}h{width}\" stroke=\"{line}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\" font-size=\"11\" fill=\"{faint}\">{}</text>",
            left - 6.0,
            up(ops) + 4.0,
            rate(ops),
            y = up(ops),
        )
        .expect(WRITTEN);
        let second = seconds as f64 * f64::from(quarter) / 4.0;
        writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"11\" \
             fill=\"{faint}\">{second:.0} s</text>",
            left + width * f64::from(quarter) / 4.0,
            HEAD + PLOT + 18.0,
        )
        .expect(WRITTEN);
    }
    for (index, row) in rows.iter().enumerate() {
        let Some(row) = row else { continue };
        let windows = windows(&row.extra.samples);
        let x = |window: &Window| left + width * window.middle / seconds as f64;
        let place = |window: &Window, ops: u64| format!("{:.1},{:.1}", x(window), up(ops as f64));
        let highest = windows.iter().map(|window| place(window, window.highest));
        let lowest = windows.iter().rev().map(|window| place(window, window.lowest));
        let medians = windows.iter().map(|window| place(window, window.median));
        let band: Vec<String> = highest.chain(lowest).collect();
        let medians: Vec<String> = medians.collect();
        writeln!(
            text,
            "<polygon fill=\"{colour}\" fill-opacity=\"0.18\" points=\"{}\"/>\
             <polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" points=\"{}\"/>",
            band.join(" "),
            medians.join(" "),
            colour = theme.engine(index),
        )
        .expect(WRITTEN);
    }
    let says = format!(
        "{about}. Lines join the medians of {WINDOW} seconds each; bands go from the slowest \
         second to the fastest."
    );
    text + &foot(results, height, &says, theme)
}

/// Some seconds of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Window {
    /// Where its middle lies, in seconds from the start.
    middle: f64,
    lowest: u64,
    median: u64,
    highest: u64,
}

/// The windows of a row, the last one perhaps shorter.
fn windows(samples: &[u64]) -> Vec<Window> {
    let window = |(index, seconds): (usize, &[u64])| {
        let mut sorted = seconds.to_vec();
        sorted.sort_unstable();
        Window {
            middle: (index * WINDOW) as f64 + seconds.len() as f64 / 2.0,
            lowest: sorted[0],
            median: sorted[(sorted.len() - 1) / 2],
            highest: sorted[sorted.len() - 1],
        }
    };
    samples.chunks(WINDOW).enumerate().map(window).collect()
}

/// The background and the legend.
fn head(height: f64, label: &str, engines: &[String], theme: Theme) -> String {
    let [ground, ink, _, _] = theme.colours();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{}\" font-size=\"13\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', sans-serif\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"{ground}\"/>\n",
        escape(label)
    );
    for (index, engine) in engines.iter().enumerate() {
        let x = MARGIN + 120.0 * index as f64;
        writeln!(
            text,
            "<rect x=\"{x}\" y=\"24\" width=\"14\" height=\"14\" rx=\"2\" fill=\"{}\"/>\
             <text x=\"{}\" y=\"35.5\" font-size=\"15\" font-weight=\"{}\" \
             fill=\"{ink}\">{}</text>",
            theme.engine(index),
            x + 21.0,
            if engine == OURS { 600 } else { 400 },
            escape(display(engine)),
        )
        .expect(WRITTEN);
    }
    text
}

/// The subject of the picture, and the machine of the run.
fn foot(results: &Results, height: f64, says: &str, theme: Theme) -> String {
    let [_, _, faint, _] = theme.colours();
    let line = |y: f64, words: &str| {
        let words = escape(words);
        format!("<text x=\"{MARGIN}\" y=\"{y}\" font-size=\"11\" fill=\"{faint}\">{words}</text>\n")
    };
    line(height - 30.0, says) + &line(height - 13.0, &provenance(results)) + "</svg>\n"
}

/// Commit with its age if it is old, machine, date and scale of a run, in one line.
#[must_use]
pub fn provenance(results: &Results) -> String {
    let machine = &results.machine;
    let commit = if results.commit.is_empty() { "unknown" } else { &results.commit };
    let day = date(results.created);
    let day = day.split(' ').next().unwrap_or(&day);
    format!(
        "Commit {commit}{}, {} ({} cores), {day}, scale {}",
        age::mark(results.commits_since),
        machine.cpu,
        machine.cores,
        results.options.scale
    )
}

/// The name of an engine as its authors write it.
#[must_use]
pub fn display(engine: &str) -> &str {
    match engine {
        "siltdb" => "SiltDB",
        "rocksdb" => "RocksDB",
        "rocksdb-optimistic" => "RocksDB, optimistic",
        "rocksdb-pessimistic" => "RocksDB, with locks",
        "lmdb" => "LMDB",
        "sqlite" => "SQLite",
        "thunder" => "ThunderDB",
        "tidesdb" => "TidesDB",
        "layerdb" => "LayerDB",
        other => other,
    }
}

#[cfg(test)]
mod tests;
