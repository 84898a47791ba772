//! The rows that meet their bars, as Markdown; missed bars come first.
//!
//! A bar compares medians of engines of the same durability class. A bar against an engine without
//! a figure is not judged. Rows that write are also compared with RocksDB's memory, write
//! amplification and size. A row of transactions may have a bar against another row of its run.

use crate::report::markdown::table;
use crate::report::numbers::{NONE, bytes, factor, or_none, percent, rate, time};
use crate::report::ranking::{Contest, Group, OURS, groups, is_ours};
use crate::result::{Bars, Beside, Latency, Results, Row, Spread, Status};
use std::fmt::Write;

const WRITTEN: &str = "writing to a string succeeds";
/// The engine whose costs rows that write are compared with.
const YARDSTICK: &str = "rocksdb";
/// Above this space amplification hardly any data is live, so the database's size has no meaning.
const SPACE_AMP_MAX: f64 = 1000.0;
/// The other log-structured merge trees.
const LSMS: [&str; 6] = ["rocksdb", "fjall", "pebble", "badger", "tidesdb", "wildcat"];

/// All rows with bars of some runs.
#[derive(Debug)]
pub struct Judgement {
    lines: Vec<Line>,
}

/// A row with bars.
#[derive(Debug)]
struct Line {
    name: String,
    threads: u32,
    /// The cells of the table after the name, except the last.
    cells: Vec<String>,
    costs: Option<Vec<String>>,
    verdicts: Vec<Verdict>,
}

/// The result of a row against one bar.
#[derive(Debug)]
pub struct Verdict {
    /// The measured value and the bar.
    pub text: String,
    /// Whether the bar is met.
    pub is_met: bool,
}

/// A part of latencies, by name.
type LatencyPart = (&'static str, fn(&Latency) -> Option<f64>);
/// A cost of a row: its name, its value, and its text.
type Cost = (&'static str, fn(&Row) -> Option<f64>, fn(f64) -> String);

/// A row, the judged engine, and the engines that it is compared with.
struct Case<'a> {
    group: &'a Group<'a>,
    contest: &'a Contest<'a>,
    ours: &'a Row,
    own: Spread,
}

impl Judgement {
    /// Judges all rows of `runs` that have bars. If several runs measured the same row with as many
    /// threads, the last one counts, so that single rows can be measured again.
    #[must_use]
    pub fn of(runs: &[Results]) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for run in runs {
            let all = groups(run);
            for line in all.iter().filter_map(|group| judge(group, &all)) {
                let is_same =
                    |old: &&mut Line| old.name == line.name && old.threads == line.threads;
                match lines.iter_mut().find(is_same) {
                    Some(old) => *old = line,
                    None => lines.push(line),
                }
            }
        }
        Self { lines }
    }

    /// Whether every bar is met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.lines.iter().flat_map(|line| &line.verdicts).all(|verdict| verdict.is_met)
    }

    /// The missed bars, then two tables: speed, and the cost of writes.
    #[must_use]
    pub fn render(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| &line.verdicts);
        let (met, judged) = (all().filter(|verdict| verdict.is_met).count(), all().count());
        let mut text = format!("{met} of {judged} bars are met, in {} rows.\n", self.lines.len());
        for line in &self.lines {
            for missed in line.verdicts.iter().filter(|verdict| !verdict.is_met) {
                let Line { name, threads, .. } = line;
                let threads = match threads {
                    1 => "one thread".to_owned(),
                    more => format!("{more} threads"),
                };
                writeln!(text, "- `{name}`, {threads}: {}", missed.text).expect(WRITTEN);
            }
        }
        text + "\n" + &table(&SPEED, self.lines.iter().map(Line::speed)) + &self.costs()
    }

    fn costs(&self) -> String {
        let lines = self.lines.iter().filter_map(|line| {
            Some(
                [
                    &[format!("`{}`", line.name), line.threads.to_string()],
                    &line.costs.as_ref()?[..],
                ]
                .concat(),
            )
        });
        format!("\nsiltdb's and RocksDB's:\n\n{}", table(&COSTS, lines))
    }
}

const SPEED: [&str; 9] = [
    "row",
    "threads",
    "siltdb",
    "best other",
    "RocksDB",
    "to the best other",
    "to RocksDB",
    "of the limit",
    "bars",
];
const COSTS: [&str; 8] = [
    "row",
    "threads",
    "variation of calls",
    "99.9 %",
    "longest",
    "peak memory",
    "write amplification",
    "space amplification",
];

impl Line {
    fn speed(&self) -> Vec<String> {
        let missed = self.verdicts.iter().filter(|verdict| !verdict.is_met).count();
        let bars = match (self.verdicts.len(), missed) {
            (0, _) => NONE.to_owned(),
            (_, 0) => "met".to_owned(),
            (all, missed) => format!("**{missed} of {all} missed**"),
        };
        let name = [format!("`{}`", self.name), self.threads.to_string()];
        [&name, &self.cells[..], &[bars]].concat()
    }
}

/// The verdicts on a row, one of `all` of its run; empty for a row without bars.
#[must_use]
pub fn verdicts(group: &Group<'_>, all: &[Group<'_>]) -> Vec<Verdict> {
    judge(group, all).map_or_else(Vec::new, |line| line.verdicts)
}

/// The line of a row, one of `all` of its run; `None` for a row without bars.
fn judge(group: &Group<'_>, all: &[Group<'_>]) -> Option<Line> {
    let bars = &group.definition?.bars;
    if *bars == Bars::default() {
        return None;
    }
    let name = format!("{}/{}", group.suite, group.row);
    let wanted = bars.engine.as_deref().unwrap_or(OURS);
    let contests = group.contests();
    let found = contests.iter().find_map(|contest| Some((contest, contest.entry(wanted)?)));
    let Some((contest, (ours, own))) = found else {
        let threads = group.entries.first().map_or(0, |row| row.threads);
        let verdicts = vec![Verdict { text: format!("{wanted} has no figure"), is_met: false }];
        return Some(Line {
            name,
            threads,
            cells: vec![NONE.to_owned(); 6],
            costs: None,
            verdicts,
        });
    };
    let case = Case { group, contest, ours, own };
    let mut verdicts = case.speed(bars);
    verdicts.extend(case.calls(bars));
    verdicts.extend(case.transactions(bars, all));
    verdicts.extend(case.resources());
    let (cells, costs) = (case.cells(), case.costs());
    Some(Line { name, threads: ours.threads, cells, costs, verdicts })
}

impl<'a> Case<'a> {
    fn best(&self, may_be: impl Fn(&str) -> bool) -> Option<(&'a Row, Spread)> {
        self.contest.ranked.iter().find(|(row, _)| may_be(&row.engine)).copied()
    }

    fn best_other(&self) -> Option<(&'a Row, Spread)> {
        self.best(|engine| !is_ours(engine))
    }

    fn ratio(&self, theirs: Spread) -> f64 {
        self.own.median / theirs.median
    }

    fn speed(&self, bars: &Bars) -> Vec<Verdict> {
        let rivals = [
            (bars.others, self.best_other()),
            (bars.lsm, self.best(|engine| LSMS.contains(&engine))),
            (bars.lmdb, self.contest.entry("lmdb")),
            (bars.rocksdb, self.rocksdb()),
        ];
        let judged = rivals.into_iter().filter_map(|(bar, rival)| Some((bar?, rival?)));
        let verdict = |(bar, (rival, theirs)): (f64, (&Row, Spread))| {
            let ratio = self.ratio(theirs);
            let text = format!("{} of {}, {bar} asked for", factor(ratio), rival.engine);
            Verdict { text, is_met: ratio >= bar }
        };
        judged.map(verdict).collect()
    }

    fn calls(&self, bars: &Bars) -> Vec<Verdict> {
        let Some(own) = &self.ours.latency_ns else { return Vec::new() };
        let mut verdicts = Vec::new();
        if let Some(most) = bars.cv_percent {
            let text = format!("calls vary by {:.0} %, {most} % asked for", own.cv_percent);
            verdicts.push(Verdict { text, is_met: own.cv_percent <= most });
        }
        let parts: [LatencyPart; 2] =
            [("99.9 % of calls", |of| of.p999), ("the longest calls", |of| Some(of.max))];
        for (what, part) in parts.into_iter().filter(|_| bars.slowest) {
            let others = self.contest.ranked.iter().filter(|(row, _)| !is_ours(&row.engine));
            let best = others.filter_map(|(row, _)| part(row.latency_ns.as_ref()?));
            if let (Some(best), Some(own)) = (best.min_by(f64::total_cmp), part(own)) {
                let text = format!("{what} take {}, {} asked for", time(own), time(best));
                verdicts.push(Verdict { text, is_met: own <= best });
            }
        }
        verdicts
    }

    /// The bars of transactions: another figure of the run, and the share of the slowest thread.
    fn transactions(&self, bars: &Bars, all: &[Group<'_>]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        if let Some(Beside { row, engine, least }) = &bars.beside {
            let is_meant = |group: &&Group<'_>| group.suite == self.group.suite && group.row == row;
            let contests = all.iter().find(is_meant).map(Group::contests).unwrap_or_default();
            let found = contests.iter().find_map(|contest| contest.entry(engine));
            verdicts.extend(found.map(|(_, theirs)| {
                let ratio = self.ratio(theirs);
                let text = format!("{} of {engine} in `{row}`, {least} asked for", factor(ratio));
                Verdict { text, is_met: ratio >= *least }
            }));
        }
        let share = self.ours.extra.transactions.as_ref().and_then(|of| of.slowest_share);
        if let (Some(least), Some(share)) = (bars.slowest_share, share) {
            let text = format!("the slowest thread did {share:.2} of the mean, {least} asked for");
            verdicts.push(Verdict { text, is_met: share >= least });
        }
        verdicts
    }

    /// RocksDB; in rows of transactions the faster of its two kinds.
    fn rocksdb(&self) -> Option<(&'a Row, Spread)> {
        self.best(|engine| engine.starts_with(YARDSTICK))
    }

    /// RocksDB, if the row writes.
    fn yardstick(&self) -> Option<&'a Row> {
        let (row, _) = self.contest.entry(YARDSTICK)?;
        self.group.writes().then_some(row)
    }

    /// The costs of the row, ours and theirs, if both were measured.
    fn resources(&self) -> Vec<Verdict> {
        let Some(theirs) = self.yardstick() else { return Vec::new() };
        let memory = |row: &Row| row.peak_rss_bytes.map(|bytes| bytes as f64);
        let parts: [Cost; 3] = [
            ("peak memory", memory, bytes),
            ("write amplification", |row| row.write_amp, amplification),
            ("space amplification", space_amplification, amplification),
        ];
        let judged = parts.into_iter().filter_map(|(what, part, write)| {
            let (own, theirs) = (part(self.ours)?, part(theirs)?);
            let text = format!("{what} {}, RocksDB's {}", write(own), write(theirs));
            Some(Verdict { text, is_met: own <= theirs })
        });
        judged.collect()
    }

    fn cells(&self) -> Vec<String> {
        let (other, rocksdb) = (self.best_other(), self.rocksdb());
        let ratio = |rival: Option<(&Row, Spread)>| {
            or_none(rival, |(_, theirs)| factor(self.ratio(theirs)))
        };
        let share = self.ours.share_of_limit();
        vec![
            figure((self.ours, self.own)),
            or_none(other, |other| format!("{} {}", other.0.engine, figure(other))),
            or_none(rocksdb, figure),
            ratio(other),
            ratio(rocksdb),
            or_none(share, |of| format!("{} of {}", percent(of.share), of.limit)),
        ]
    }

    fn costs(&self) -> Option<Vec<String>> {
        let theirs = self.yardstick()?;
        let both =
            |write: &dyn Fn(&Row) -> String| format!("{} · {}", write(self.ours), write(theirs));
        let latency =
            |row: &Row, part: fn(&Latency) -> String| or_none(row.latency_ns.as_ref(), part);
        Some(vec![
            both(&|row| latency(row, |of| format!("{:.0} %", of.cv_percent))),
            both(&|row| latency(row, |of| or_none(of.p999, time))),
            both(&|row| latency(row, |of| time(of.max))),
            both(&|row| or_none(row.peak_rss_bytes, |value| bytes(value as f64))),
            both(&|row| or_none(row.write_amp, amplification)),
            both(&|row| or_none(space_amplification(row), amplification)),
        ])
    }
}

/// The size of a database over its live data; none if hardly any data is live.
pub fn space_amplification(row: &Row) -> Option<f64> {
    row.space_amp.filter(|&value| value < SPACE_AMP_MAX)
}

fn amplification(value: f64) -> String {
    format!("{value:.2}")
}

/// The median, with the smallest and the largest; a degree sign if the time limit cut it off.
fn figure((row, spread): (&Row, Spread)) -> String {
    let capped = if row.status == Status::Capped { "°" } else { "" };
    format!("{}{capped} ({}–{})", rate(spread.median), rate(spread.min), rate(spread.max))
}

#[cfg(test)]
mod tests;
