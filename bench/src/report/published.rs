//! The tables of `docs/benchmarks-published.md`: published comparisons, repeated in one run, beside
//! the figures that their authors published.
//!
//! A suite has a table and a chart. This file does not know the page.

use crate::report::chart::{ENGINES, display, provenance};
use crate::report::claims::{about, figure, judged, wrapped};
use crate::report::markdown::table;
use crate::report::numbers::{NONE, factor, or_none, rate};
use crate::report::ranking::{Group, OURS, groups};
use crate::result::Results;

/// The suites that repeat a published comparison.
pub const PUBLISHED: [&str; 5] =
    ["layerdb", "thunder", "tidesdb-v5", "tidesdb-v7", "tidesdb-btree"];
/// The engines whose authors published a comparison.
const AUTHORS: [&str; 2] = ["tidesdb", "thunder"];
const YARDSTICK: &str = "rocksdb";
const HEADER: [&str; 7] =
    ["row", "what", "SiltDB", "best other", "to it", "to RocksDB", "published"];

/// A suite in results.
pub struct Comparison<'a> {
    results: &'a Results,
    /// Its name, one of [`PUBLISHED`].
    pub suite: &'static str,
    /// Its rows.
    pub groups: Vec<Group<'a>>,
}

impl<'a> Comparison<'a> {
    /// The published comparisons among the results, in the order of [`PUBLISHED`].
    #[must_use]
    pub fn all(results: &'a Results) -> Vec<Self> {
        let groups =
            |suite: &str| groups(results).into_iter().filter(|one| one.suite == suite).collect();
        let comparisons = PUBLISHED.map(|suite| Self { results, suite, groups: groups(suite) });
        comparisons.into_iter().filter(|one| !one.groups.is_empty()).collect()
    }

    /// The engines of its chart: those of each chart, and its author if it took part.
    #[must_use]
    pub fn engines(&self) -> Vec<String> {
        let took_part = |engine: &&&str| {
            let mut rows = self.groups.iter().flat_map(|group| &group.entries);
            rows.any(|row| row.engine == ***engine && row.figure().is_some())
        };
        let authors = AUTHORS.iter().filter(took_part);
        ENGINES.iter().chain(authors).map(|engine| (*engine).to_owned()).collect()
    }

    /// The table, with commit, machine and command.
    #[must_use]
    pub fn render(&self) -> String {
        let options = &self.results.options;
        let runs = if options.repeat == 1 { "run" } else { "runs" };
        let known = self.results.suites.iter().find(|known| known.suite == self.suite);
        let prose = format!(
            "{}. {}, {} {runs}{}. Medians of operations a second; rows that write count until \
             background work is done. All answers were checked. *Published* are the figures of \
             the authors on their machine, with as many keys and threads as they had.",
            or_none(known, |known| known.about.clone()),
            provenance(self.results),
            options.repeat,
            options.run_once(),
        );
        let table = table(&HEADER, self.groups.iter().map(line));
        format!("{table}\n{}\n    {}\n", wrapped(&prose), options.command)
    }
}

/// The line of a row: SiltDB and its rivals of the same durability class, and published figures.
fn line(group: &Group<'_>) -> Vec<String> {
    let contests = group.contests();
    let contest = contests.iter().find(|contest| contest.ours().is_some());
    let own = contest.and_then(|contest| contest.ours());
    let standing = contest.and_then(|contest| contest.standing());
    let other = standing.and_then(|standing| contest?.entry(&standing.other.engine));
    let rocksdb = contest.and_then(|contest| contest.entry(YARDSTICK));
    vec![
        format!("`{}`", group.row),
        about(group).to_owned(),
        or_none(own, |(row, spread)| match row.engine == OURS {
            true => figure(row, spread),
            false => format!("{} {}", display(&row.engine), figure(row, spread)),
        }),
        or_none(other, |(row, spread)| format!("{} {}", display(&row.engine), figure(row, spread))),
        or_none(standing, |standing| judged(standing.ratio, standing.verdict)),
        or_none(own.zip(rocksdb), |((_, own), (_, theirs))| factor(own.median / theirs.median)),
        published(group),
    ]
}

/// The figures of the authors, fastest first.
fn published(group: &Group<'_>) -> String {
    let Some(definition) = group.definition else { return NONE.to_owned() };
    let mut figures: Vec<_> = definition.published.iter().collect();
    figures.sort_by(|a, b| b.ops_per_s.total_cmp(&a.ops_per_s));
    let words = figures.iter().map(|figure| {
        let part =
            if figure.part.is_empty() { String::new() } else { format!(" ({})", figure.part) };
        format!("{}{part} {}", display(&figure.engine), rate(figure.ops_per_s))
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { NONE.to_owned() } else { words.join(" · ") }
}

#[cfg(test)]
pub(crate) mod tests;
