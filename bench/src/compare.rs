//! `silt-bench compare A.json B.json`: the changes between two runs that exceed noise.
//!
//! A change exceeds noise if the medians differ by more than the mean of both ranges from the
//! smallest to the largest run. Only the figure that bars refer to is judged, because the file has
//! no spread of latencies and sizes. SiltDB's engines decide the outcome; the others show how much
//! the machine changed between the runs.

use crate::report::numbers::{NONE, or_none, percent, rate};
use crate::report::ranking::is_ours;
use crate::report::table::plain;
use crate::result::{Results, Row, Spread};

/// The changes between two runs.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// One element for each engine in each row that at least one of the runs has.
    pub changes: Vec<Change<'a>>,
    /// Differences between the runs as a whole, which may cause changes instead of the engine.
    pub differences: Vec<String>,
    /// A larger slowdown, as a share of one, is a regression.
    pub threshold: f64,
}

/// One engine in one row.
#[derive(Debug)]
pub struct Change<'a> {
    /// Its entry in the later run; in the earlier one if only that has it.
    pub row: &'a Row,
    /// The figure of the earlier run.
    pub before: Option<Spread>,
    /// The figure of the later run.
    pub after: Option<Spread>,
    /// The kind of change.
    pub kind: Kind,
}

/// The kind of change of an engine in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Within noise.
    Same,
    /// Faster, beyond noise, by this share.
    Faster(f64),
    /// Slower, beyond noise, by this share.
    Slower(f64),
    /// The earlier run has a figure, and the later one ran without a figure.
    Broken,
    /// Only the later run has a figure.
    Mended,
    /// Only the earlier run has it.
    Gone,
    /// Only the later run has it.
    New,
    /// Neither has a figure.
    Nothing,
}

/// Compares `before` with `after`. A slowdown above `threshold`, a share of one, is a regression.
pub fn compare<'a>(before: &'a Results, after: &'a Results, threshold: f64) -> Comparison<'a> {
    let find = |rows: &'a [Row], row: &Row| rows.iter().find(|other| key(other) == key(row));
    let mut changes: Vec<Change<'a>> = Vec::new();
    for row in &after.rows {
        let was = find(&before.rows, row);
        changes.push(change(row, was.map(Row::figure), Some(row.figure())));
    }
    for row in &before.rows {
        if find(&after.rows, row).is_none() {
            changes.push(change(row, Some(row.figure()), None));
        }
    }
    Comparison { changes, differences: differences(before, after), threshold }
}

/// The identity of a measurement. The class is not part of it, because an engine that failed may
/// not know its own.
fn key(row: &Row) -> impl PartialEq + '_ {
    (&row.suite, &row.row, &row.engine, row.arm, row.threads, row.batch)
}

fn change(row: &Row, before: Option<Option<Spread>>, after: Option<Option<Spread>>) -> Change<'_> {
    let kind = match (before, after) {
        (Some(_), None) => Kind::Gone,
        (None, _) => Kind::New,
        (Some(Some(before)), Some(Some(after))) => judge(before, after),
        (Some(Some(_)), Some(None)) => Kind::Broken,
        (Some(None), Some(Some(_))) => Kind::Mended,
        (Some(None), Some(None)) => Kind::Nothing,
    };
    Change { row, before: before.flatten(), after: after.flatten(), kind }
}

/// The change of medians against the ranges of the runs.
fn judge(before: Spread, after: Spread) -> Kind {
    let difference = after.median - before.median;
    let noise = f64::midpoint(before.max - before.min, after.max - after.min);
    if difference.abs() <= noise || before.median <= 0.0 {
        return Kind::Same;
    }
    let share = difference.abs() / before.median;
    if difference > 0.0 { Kind::Faster(share) } else { Kind::Slower(share) }
}

fn differences(before: &Results, after: &Results) -> Vec<String> {
    let (old, new) = (&before.options, &after.options);
    let text = |value: Option<u32>| or_none(value, |value| value.to_string());
    let mib = |value: Option<u64>| or_none(value, |value| value.to_string());
    let sides = [
        ("processor", before.machine.cpu.clone(), after.machine.cpu.clone()),
        ("cores", before.machine.cores.to_string(), after.machine.cores.to_string()),
        ("kernel", before.machine.kernel.clone(), after.machine.kernel.clone()),
        ("file system", before.machine.file_system.clone(), after.machine.file_system.clone()),
        ("device", before.machine.device.clone(), after.machine.device.clone()),
        ("scale", old.scale.to_string(), new.scale.to_string()),
        ("value bytes", text(old.value_bytes), text(new.value_bytes)),
        ("cache in MiB", mib(old.cache_mib), mib(new.cache_mib)),
        ("warming up", old.warm.to_string(), new.warm.to_string()),
        ("published shapes", old.published.to_string(), new.published.to_string()),
    ];
    let differing = sides.into_iter().filter(|(_, before, after)| before != after);
    differing.map(|(what, before, after)| format!("{what}: {before}, then {after}")).collect()
}

impl Comparison<'_> {
    /// The regressions: SiltDB's engines, slower by more than the threshold, or broken.
    pub fn regressions(&self) -> impl Iterator<Item = &Change<'_>> {
        let regressed = |change: &&Change<'_>| match change.kind {
            Kind::Slower(share) => share > self.threshold,
            Kind::Broken => true,
            _ => false,
        };
        self.changes.iter().filter(|change| is_ours(&change.row.engine)).filter(regressed)
    }

    /// The text for the terminal, at most `width` characters wide.
    pub fn render(&self, width: u16) -> String {
        let mut text = String::new();
        for difference in &self.differences {
            text += &format!("the runs differ in their {difference}\n");
        }
        let mut table = plain(width, &["suite", "row", "engine", "before", "after", "change"]);
        let silent = |kind| matches!(kind, Kind::Same | Kind::Nothing);
        let mut shown: Vec<_> = self.changes.iter().filter(|of| !silent(of.kind)).collect();
        shown.sort_by_key(|change| !is_ours(&change.row.engine));
        for change in &shown {
            let row = change.row;
            table.add_row([
                row.suite.clone(),
                row.row.clone(),
                row.engine.clone(),
                or_none(change.before, spread),
                or_none(change.after, spread),
                change.words(),
            ]);
        }
        if !shown.is_empty() {
            text += &format!("{table}\n");
        }
        text + &self.summary()
    }

    fn summary(&self) -> String {
        let count = |wanted: fn(&Kind) -> bool| {
            self.changes.iter().filter(|change| wanted(&change.kind)).count()
        };
        let judged = count(|kind| matches!(kind, Kind::Same | Kind::Faster(_) | Kind::Slower(_)));
        let mut text = format!(
            "{judged} compared: {} faster, {} slower, {} the same within noise\n",
            count(|kind| matches!(kind, Kind::Faster(_))),
            count(|kind| matches!(kind, Kind::Slower(_))),
            count(|kind| *kind == Kind::Same),
        );
        if let Some(peers) = self.peers() {
            let sign = if peers < 0.0 { '−' } else { '+' };
            text += &format!(
                "the other engines changed by {sign}{} in the median: so much is the machine's\n",
                percent(peers.abs())
            );
        }
        match self.regressions().count() {
            0 => text + &format!("no regression over {}\n", percent(self.threshold)),
            found => text + &format!("{found} regressions over {}\n", percent(self.threshold)),
        }
    }

    /// The median change of the other engines, with its sign: it shows the change of the machine.
    fn peers(&self) -> Option<f64> {
        let peers = self.changes.iter().filter(|change| !is_ours(&change.row.engine));
        let shares: Vec<f64> = peers
            .filter_map(|change| Some(change.after?.median / change.before?.median - 1.0))
            .collect();
        Spread::of(&shares).map(|shares| shares.median)
    }
}

impl Change<'_> {
    fn words(&self) -> String {
        let reason = self.row.reason.as_deref().unwrap_or(NONE);
        match self.kind {
            Kind::Same | Kind::Nothing => String::new(),
            Kind::Faster(share) => format!("+{}", percent(share)),
            Kind::Slower(share) => format!("−{}", percent(share)),
            Kind::Broken => format!("{}: {reason}", self.row.status.word().replace('_', " ")),
            Kind::Mended => "has a figure now".to_owned(),
            Kind::Gone => "not in the second run".to_owned(),
            Kind::New => "not in the first run".to_owned(),
        }
    }
}

fn spread(figure: Spread) -> String {
    format!("{} ({}–{})", rate(figure.median), rate(figure.min), rate(figure.max))
}

#[cfg(test)]
mod tests;
