//! The tables of README and `docs/benchmarks.md`, from one run of the suite `claims`.
//!
//! One commit, one machine, one command. This file does not know the pages; each table has a name
//! in them.

use crate::report::bars::space_amplification;
use crate::report::chart::{ENGINES, display, provenance};
use crate::report::markdown::table;
use crate::report::numbers::{NONE, bytes, factor, or_none, rate};
use crate::report::ranking::{Contest, Group, OURS, Verdict, groups};
use crate::result::{Results, Row, Spread, Status};
use crate::suite::CLAIMS;

/// The rows of README and of the chart.
const HEADLINE: [&str; 8] = [
    "put/random",
    "put/batch",
    "put/synced",
    "mixed",
    "get",
    "range-100",
    "iterate/just-written",
    "get/cold",
];
/// The rows whose memory and size are shown.
const COSTS: [&str; 5] = ["put/random", "put/batch", "delete", "mixed", "sustained"];
/// The row that runs for a fixed time.
const SUSTAINED: &str = "sustained";
/// The prefix of the rows in which siltdb runs alone, with more and more threads.
const SCALING: &str = "scaling/";
const YARDSTICK: &str = "rocksdb";
/// Prose of a page is wrapped at this length.
const LINE_BYTES_MAX: usize = 150;
/// What the mark of a row says.
const CAPPED: &str = " ° was cut off by the time limit and did less.";

/// The tables of a results file.
pub struct Claims<'a> {
    results: &'a Results,
    groups: Vec<Group<'a>>,
}

impl<'a> Claims<'a> {
    /// The tables of the suite's rows.
    ///
    /// # Errors
    /// If there are none.
    pub fn of(results: &'a Results) -> Result<Self, String> {
        let groups: Vec<_> =
            groups(results).into_iter().filter(|group| group.suite == CLAIMS).collect();
        match groups.is_empty() {
            true => Err(format!("the results have no row of the suite `{CLAIMS}`")),
            false => Ok(Self { results, groups }),
        }
    }

    /// Each table with its name.
    #[must_use]
    pub fn tables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("headline", self.headline()),
            ("claims", self.all()),
            ("losses", self.losses()),
            ("costs", self.costs()),
            ("sustained", self.sustained()),
            ("scaling", self.scaling()),
        ]
    }

    /// The groups of the chart that were measured.
    #[must_use]
    pub fn charted(&self) -> Vec<&Group<'a>> {
        HEADLINE.iter().filter_map(|id| self.group(id)).collect()
    }

    /// The group of the row that runs for a fixed time.
    #[must_use]
    pub fn curve(&self) -> Option<&Group<'a>> {
        self.group(SUSTAINED)
    }

    fn group(&self, id: &str) -> Option<&Group<'a>> {
        self.groups.iter().find(|group| group.row == id)
    }

    /// The contests in which siltdb meets other engines.
    fn contests(&self) -> Vec<(&Group<'a>, Contest<'a>)> {
        let compared = self.groups.iter().filter(|group| !group.row.starts_with(SCALING));
        let own = |group: &'_ Group<'a>| {
            group.contests().into_iter().find(|contest| contest.entry(OURS).is_some())
        };
        compared.filter_map(|group| Some((group, own(group)?))).collect()
    }

    fn headline(&self) -> String {
        let mut header = vec!["operations a second"];
        header.extend(ENGINES.map(display));
        let contests = self.contests();
        let lines = HEADLINE.iter().filter_map(|id| {
            let (group, contest) = contests.iter().find(|(group, _)| group.row == *id)?;
            let entries = ENGINES.map(|engine| contest.entry(engine));
            let most = entries.iter().flatten().map(|(_, own)| own.median).fold(0.0, f64::max);
            let cell = |entry: &Option<(&Row, Spread)>| match entry {
                Some((row, own)) if own.median == most => format!("**{}**", figure(row, *own)),
                Some((row, own)) => figure(row, *own),
                None => NONE.to_owned(),
            };
            Some([vec![about(group).to_owned()], entries.iter().map(cell).collect()].concat())
        });
        let table = table(&header, lines);
        let behind: Vec<&str> = self.behind().iter().map(|(group, ..)| about(group)).collect();
        let (count, all) = (behind.len(), contests.len());
        let behind = match count {
            0 => "SiltDB is the fastest in all of them.".to_owned(),
            _ => format!("Another engine is faster in {count} of {all}: {}.", behind.join("; ")),
        };
        let shown = contests.iter().flat_map(|(_, contest)| &contest.ranked);
        let capped = match shown.into_iter().any(|(row, _)| row.status == Status::Capped) {
            true => CAPPED,
            false => "",
        };
        let dashes = "A dash: the engine survives less than SiltDB there, or cannot do it.";
        let prose =
            format!("{behind} {dashes}{capped} {}.{}", provenance(self.results), self.trial());
        format!("{table}\n{}", wrapped(&prose))
    }

    /// The notice about a run that was not at full size.
    fn trial(&self) -> String {
        match self.results.options.scale {
            1.0 => String::new(),
            scale => format!(" **A trial at {scale} of the size: no claim.**"),
        }
    }

    fn all(&self) -> String {
        let header = ["work", "SiltDB", "best other", "to it", "RocksDB", "to RocksDB"];
        let contests = self.contests();
        let lines = contests.iter().map(|(group, contest)| {
            let own = contest.entry(OURS);
            let rocksdb = contest.entry(YARDSTICK);
            let standing = contest.standing();
            let other = standing.and_then(|standing| contest.entry(&standing.other.engine));
            vec![
                about(group).to_owned(),
                or_none(own, ranged),
                or_none(other, |entry| format!("{} {}", display(&entry.0.engine), ranged(entry))),
                or_none(standing, |standing| judged(standing.ratio, standing.verdict)),
                or_none(rocksdb, ranged),
                or_none(own.zip(rocksdb), |((_, own), (_, theirs))| {
                    factor(own.median / theirs.median)
                }),
            ]
        });
        let table = table(&header, lines);
        let Results { options, .. } = self.results;
        let capped = contests.iter().flat_map(|(_, contest)| &contest.ranked);
        let capped = match capped.into_iter().any(|(row, _)| row.status == Status::Capped) {
            true => CAPPED,
            false => "",
        };
        let limit = "Medians of operations a second, with the smallest and the largest run in \
                     brackets; rows that write count until background work is done. All answers \
                     were checked.";
        let runs = if options.repeat == 1 { "run" } else { "runs" };
        let prose = format!(
            "{}, {} {runs}{}.{} {limit}{capped}",
            provenance(self.results),
            options.repeat,
            options.run_once(),
            self.trial(),
        );
        format!("{table}\n{}\n    {}\n", wrapped(&prose), options.command)
    }

    /// The rows in which another engine has the larger median.
    fn behind(&self) -> Vec<(&Group<'a>, Contest<'a>)> {
        let is_behind = |(_, contest): &(&Group<'a>, Contest<'a>)| {
            contest.standing().is_some_and(|standing| standing.ratio < 1.0)
        };
        self.contests().into_iter().filter(is_behind).collect()
    }

    fn losses(&self) -> String {
        let header = ["work", "SiltDB", "faster", "ratio", "cause"];
        let behind = self.behind();
        if behind.is_empty() {
            return "In none of the rows above.\n".to_owned();
        }
        let lines = behind.iter().filter_map(|(group, contest)| {
            let standing = contest.standing()?;
            let cause = group.definition.map_or(NONE, |definition| &definition.cause);
            Some(vec![
                about(group).to_owned(),
                or_none(contest.entry(OURS), |(row, own)| figure(row, own)),
                or_none(contest.entry(&standing.other.engine), |(row, theirs)| {
                    format!("{} {}", display(&row.engine), figure(row, theirs))
                }),
                judged(standing.ratio, standing.verdict),
                cause.to_owned(),
            ])
        });
        table(&header, lines)
    }

    fn costs(&self) -> String {
        let header = ["work", "peak memory", "write amplification", "size to live data"];
        let lines = COSTS.iter().filter_map(|id| {
            let group = self.group(id)?;
            let each = |part: fn(&Row) -> Option<String>| {
                let cell = |engine: &str| {
                    let row = group.entries.iter().find(|row| row.engine == engine);
                    or_none(
                        row.filter(|row| row.figure().is_some()).and_then(|row| part(row)),
                        |x| x,
                    )
                };
                ENGINES.map(cell).join(" · ")
            };
            Some(vec![
                about(group).to_owned(),
                each(|row| Some(bytes(row.peak_rss_bytes? as f64))),
                each(|row| Some(format!("{:.2}", row.write_amp?))),
                each(|row| Some(format!("{:.2}", space_amplification(row)?))),
            ])
        });
        table(&header, lines) + &format!("\nIn each cell {}.\n", ENGINES.map(display).join(" · "))
    }

    fn sustained(&self) -> String {
        let header =
            ["engine", "median second", "slowest", "1 % slowest", "below half", "operations"];
        let entries = self.curve().map_or(&[][..], |group| &group.entries);
        let lines = entries.iter().filter(|row| row.figure().is_some()).filter_map(|row| {
            let mut sorted = row.extra.samples.clone();
            sorted.sort_unstable();
            let median = *sorted.get(sorted.len() / 2)?;
            let below = sorted.iter().filter(|&&ops| ops * 2 < median).count();
            let at = |index: usize| rate(sorted[index] as f64);
            Some(vec![
                display(&row.engine).to_owned(),
                at(sorted.len() / 2),
                at(0),
                at(sorted.len() / 100),
                format!("{below} of {} s", sorted.len()),
                rate(row.ops as f64),
            ])
        });
        let lines: Vec<_> = lines.collect();
        match lines.is_empty() {
            true => "This run has no sustained row.\n".to_owned(),
            false => table(&header, lines.into_iter()),
        }
    }

    fn scaling(&self) -> String {
        let of = |kind: &str, threads: u32| {
            let group = self.group(&format!("{SCALING}{kind}/{threads}"));
            let row = group.and_then(|group| group.entries.iter().find(|row| row.engine == OURS));
            or_none(row.and_then(|row| Some((*row, row.figure()?))), ranged)
        };
        let kinds = self.groups.iter().filter(|group| group.row.starts_with(SCALING));
        let mut threads: Vec<u32> =
            kinds.filter_map(|group| group.entries.first()).map(|row| row.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        let lines = threads
            .iter()
            .map(|&count| vec![count.to_string(), of("get", count), of("put", count)]);
        table(&["threads", "gets, all in cache", "puts, random keys, 1,000 in a batch"], lines)
    }
}

/// `text` in lines of the permitted length.
pub fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("it begins with one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= LINE_BYTES_MAX {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n") + "\n"
}

/// The description of a row, from its suite.
pub fn about<'a>(group: &Group<'a>) -> &'a str {
    group.definition.map_or(group.row, |definition| &definition.about)
}

/// A median; a degree sign if the time limit cut it off.
pub fn figure(row: &Row, own: Spread) -> String {
    let capped = if row.status == Status::Capped { "°" } else { "" };
    format!("{}{capped}", rate(own.median))
}

/// The same with the smallest and the largest run.
fn ranged((row, own): (&Row, Spread)) -> String {
    match row.extra.repeats {
        0 | 1 => figure(row, own),
        _ => format!("{} ({}–{})", figure(row, own), rate(own.min), rate(own.max)),
    }
}

/// A ratio and its verdict.
pub fn judged(ratio: f64, verdict: Verdict) -> String {
    match verdict {
        Verdict::Ahead => format!("**{}**", factor(ratio)),
        Verdict::Level => format!("{}, level", factor(ratio)),
        Verdict::Behind => format!("{}, lost", factor(ratio)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
