//! The leader of a row, its lead, and whether that exceeds noise.
//!
//! Only engines of the same arm are compared and, in rows that write, of the same durability class.
//! The durability of writes does not make reads faster.

use crate::report::numbers::{bytes, whole};
use crate::result::{Arm, Definition, Durability, Results, Row, Spread};

/// All engines in one row of a suite.
#[derive(Debug)]
pub struct Group<'a> {
    /// The suite.
    pub suite: &'a str,
    /// The row.
    pub row: &'a str,
    /// The suite's definition of the row.
    pub definition: Option<&'a Definition>,
    /// The engines, in the order of the report.
    pub entries: Vec<&'a Row>,
}

/// The engines of a row that may be compared with each other, fastest first.
#[derive(Debug)]
pub struct Contest<'a> {
    /// Their durability class; None in rows that only read, where all classes meet.
    pub durability: Option<Durability>,
    /// Their configuration.
    pub arm: Arm,
    /// The engines with a figure; at least one.
    pub ranked: Vec<(&'a Row, Spread)>,
}

/// The result of a comparison of two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Faster in every run.
    Ahead,
    /// The runs overlap: noise.
    Level,
    /// Slower in every run.
    Behind,
}

/// SiltDB against the best of the other engines. If SiltDB as it is built has no figure, its best
/// variant stands for it.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'a> {
    /// SiltDB's row.
    pub ours: &'a Row,
    /// The row of the best other engine.
    pub other: &'a Row,
    /// SiltDB's median over that of the other engine.
    pub ratio: f64,
    /// Whether that exceeds noise.
    pub verdict: Verdict,
}

/// SiltDB as it is built.
pub const OURS: &str = "siltdb";

/// Whether `engine` is SiltDB or a variant of it.
pub fn is_ours(engine: &str) -> bool {
    engine == OURS || engine.starts_with("siltdb-")
}

/// The rows of `results`, in the order of their definitions, then of their appearance.
pub fn groups(results: &Results) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &results.rows {
        match groups.iter_mut().find(|group| (group.suite, group.row) == (&row.suite, &row.row)) {
            Some(group) => group.entries.push(row),
            None => groups.push(Group {
                suite: &row.suite,
                row: &row.row,
                definition: definition(results, row),
                entries: vec![row],
            }),
        }
    }
    groups.sort_by_key(|group| place(results, group));
    for group in &mut groups {
        let position = |row: &&Row| {
            let known = results.engines.iter().position(|engine| engine.engine == row.engine);
            (row.arm, known.unwrap_or(usize::MAX))
        };
        group.entries.sort_by_key(position);
    }
    groups
}

/// `groups`, divided by suite.
pub fn suites<'g, 'a>(groups: &'g [Group<'a>]) -> Vec<(&'a str, &'g [Group<'a>])> {
    groups.chunk_by(|a, b| a.suite == b.suite).map(|part| (part[0].suite, part)).collect()
}

fn definition<'a>(results: &'a Results, row: &Row) -> Option<&'a Definition> {
    let suite = results.suites.iter().find(|suite| suite.suite == row.suite)?;
    suite.rows.iter().find(|definition| definition.row == row.row)
}

fn place(results: &Results, group: &Group<'_>) -> (usize, usize, usize) {
    let suite = results.suites.iter().position(|suite| suite.suite == group.suite);
    let first = results.rows.iter().position(|row| row.suite == group.suite);
    let row = suite.and_then(|suite| {
        results.suites[suite].rows.iter().position(|definition| definition.row == group.row)
    });
    let last = usize::MAX;
    (suite.unwrap_or(last), first.unwrap_or(last), row.unwrap_or(last))
}

impl<'a> Group<'a> {
    /// Number of keys and size of the data that the row really ran with, in words. At a small scale
    /// its name gives larger numbers. None if no engine reports them.
    pub fn size(&self) -> Option<String> {
        let size = |row: &&Row| {
            let extra = &row.extra;
            let entry_bytes = u64::from(extra.key_bytes?) + u64::from(extra.value_bytes?);
            Some((extra.keys?, entry_bytes))
        };
        let (keys, entry_bytes) = self.entries.iter().find_map(size)?;
        Some(format!("{} keys, {}", whole(keys), bytes((keys * entry_bytes) as f64)))
    }

    /// Its contests: equal options before defaults, strongest durability first.
    pub fn contests(&self) -> Vec<Contest<'a>> {
        let mut ranked: Vec<(&Row, Spread)> =
            self.entries.iter().filter_map(|&row| Some((row, row.figure()?))).collect();
        let writes = self.writes();
        let durability = |row: &Row| writes.then_some(row.durability);
        let class = |row: &Row| (row.arm, std::cmp::Reverse(durability(row)));
        ranked.sort_by(|(a, one), (b, other)| {
            class(a).cmp(&class(b)).then(other.median.total_cmp(&one.median))
        });
        let parts = ranked.chunk_by(|(a, _), (b, _)| class(a) == class(b));
        parts
            .map(|part| Contest {
                durability: durability(part[0].0),
                arm: part[0].0.arm,
                ranked: part.to_vec(),
            })
            .collect()
    }

    /// Whether the row writes; its figure then includes the time until background work is done.
    pub fn writes(&self) -> bool {
        self.entries.iter().any(|row| row.ops_per_s_settled.is_some())
    }

    /// The largest figure that a bar of this row has to show.
    pub fn figure_max(&self) -> f64 {
        let figures = self.entries.iter().filter_map(|row| row.figure());
        figures.map(|figure| figure.max).fold(0.0, f64::max)
    }
}

impl<'a> Contest<'a> {
    /// The common property of the engines: their durability class, or `reads`.
    pub fn class(&self) -> &'static str {
        self.durability.map_or("reads", Durability::word)
    }

    /// The row and the figure of an engine.
    pub fn entry(&self, engine: &str) -> Option<(&'a Row, Spread)> {
        self.ranked.iter().find(|(row, _)| row.engine == engine).copied()
    }

    /// The fastest.
    pub fn winner(&self) -> &'a Row {
        self.ranked[0].0
    }

    /// The second, and the median of the fastest over its median.
    pub fn lead(&self) -> Option<(&'a Row, f64)> {
        let &(second, figure) = self.ranked.get(1)?;
        (figure.median > 0.0).then(|| (second, self.ranked[0].1.median / figure.median))
    }

    /// SiltDB as it is built; if it has no figure, the best of its variants.
    pub fn ours(&self) -> Option<(&'a Row, Spread)> {
        let variant = || self.ranked.iter().find(|(row, _)| is_ours(&row.engine)).copied();
        self.entry(OURS).or_else(variant)
    }

    /// SiltDB's standing; None if it, or every other engine, has no figure.
    pub fn standing(&self) -> Option<Standing<'a>> {
        let (ours, own) = self.ours()?;
        let (other, theirs) = self.ranked.iter().find(|(row, _)| !is_ours(&row.engine))?;
        (theirs.median > 0.0).then(|| Standing {
            ours,
            other,
            ratio: own.median / theirs.median,
            verdict: verdict(own, *theirs),
        })
    }
}

/// Compares the runs of `own` with those of `theirs`.
pub fn verdict(own: Spread, theirs: Spread) -> Verdict {
    if own.min > theirs.max {
        Verdict::Ahead
    } else if own.max < theirs.min {
        Verdict::Behind
    } else {
        Verdict::Level
    }
}

#[cfg(test)]
mod tests;
