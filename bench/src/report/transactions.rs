//! The table of `docs/benchmarks.md` about transactions, from one run of the suite `transactions`.
//!
//! This file does not know the page.

use crate::report::bars::verdicts;
use crate::report::chart::{display, provenance};
use crate::report::claims::{about, figure, judged, wrapped};
use crate::report::markdown::table;
use crate::report::numbers::{NONE, or_none};
use crate::report::ranking::{Group, OURS, groups};
use crate::result::{Results, Row, Spread};

/// The suite of the table.
pub const TRANSACTIONS: &str = "transactions";
const ROCKSDB: &str = "rocksdb";
const HEADER: [&str; 7] = ["row", "what", "SiltDB", "best other", "to it", "RocksDB", "bars"];

/// The table, with commit, machine and command.
///
/// # Errors
/// If the results have no row of the suite.
pub fn render(results: &Results) -> Result<String, String> {
    let all = groups(results);
    let rows: Vec<&Group<'_>> = all.iter().filter(|group| group.suite == TRANSACTIONS).collect();
    if rows.is_empty() {
        return Err(format!("the results have no row of the suite `{TRANSACTIONS}`"));
    }
    let table = table(&HEADER, rows.iter().map(|group| line(group, &all)));
    let options = &results.options;
    let runs = if options.repeat == 1 { "run" } else { "runs" };
    let prose = format!(
        "{}, {} {runs}. Medians of transactions a second, or of puts where a row puts; until \
         background work is done. All that transactions read, and all that the database held \
         then, was checked.",
        provenance(results),
        options.repeat,
    );
    Ok(format!("{table}\n{}\n    {}\n", wrapped(&prose), options.command))
}

/// The line of a row: SiltDB and its rivals of the same durability class, and the bars.
fn line(group: &Group<'_>, all: &[Group<'_>]) -> Vec<String> {
    let contests = group.contests();
    let contest = contests.iter().find(|contest| contest.entry(OURS).is_some());
    let own = contest.and_then(|contest| contest.entry(OURS));
    let standing = contest.and_then(|contest| contest.standing());
    let other = standing.and_then(|standing| contest?.entry(&standing.other.engine));
    let rocksdb = contest.and_then(|contest| {
        contest.ranked.iter().find(|(row, _)| row.engine.starts_with(ROCKSDB)).copied()
    });
    let named =
        |(row, spread): (&Row, Spread)| format!("{} {}", display(&row.engine), figure(row, spread));
    vec![
        format!("`{}`", group.row),
        about(group).to_owned(),
        or_none(own, |(row, spread)| figure(row, spread)),
        or_none(other, named),
        or_none(standing, |standing| judged(standing.ratio, standing.verdict)),
        or_none(rocksdb, named),
        bars(group, all),
    ]
}

/// The missed bars of a row, in words.
fn bars(group: &Group<'_>, all: &[Group<'_>]) -> String {
    let verdicts = verdicts(group, all);
    let missed: Vec<&str> =
        verdicts.iter().filter(|one| !one.is_met).map(|one| one.text.as_str()).collect();
    match (verdicts.len(), &missed[..]) {
        (0, _) => NONE.to_owned(),
        (_, []) => "met".to_owned(),
        (_, missed) => format!("**missed**: {}", missed.join("; ")),
    }
}

#[cfg(test)]
pub(crate) mod tests;
