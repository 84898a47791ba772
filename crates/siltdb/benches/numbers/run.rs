//! Runs contestants in processes of their own, in alternation, and prints what they measured.
//!
//! It does not know what is measured: a contestant is a name and a function.

use crate::data::Result;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// What a contestant measured, by name.
pub type Figures = BTreeMap<String, f64>;

/// What a contestant is told.
#[derive(Clone, Debug)]
pub struct Job {
    /// How many records.
    pub count: u64,
    /// Where it may write, or where its database lies.
    pub dir: PathBuf,
}

/// Somebody who measures himself, in a process that does nothing else.
pub struct Contestant {
    /// How the process is told who it is.
    pub name: &'static str,
    /// What it does.
    pub run: fn(&Job) -> Result<Figures>,
}

/// How a row is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Multiplies the number of records.
    pub scale: f64,
    /// Rounds.
    pub repeat: usize,
    /// Where databases lie while they are measured.
    pub dir: PathBuf,
}

impl Plan {
    /// The number of records of a row that has `full` of them.
    pub fn count(&self, full: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(1000)
    }

    /// Lets each contestant run once a round, the order turning from round to round.
    pub fn rounds(&self, names: &[&str], job: &Job) -> Result<Vec<Rounds>> {
        let mut rounds = vec![Rounds::default(); names.len()];
        for round in 0..self.repeat {
            for turn in 0..names.len() {
                let index = (round + turn) % names.len();
                rounds[index].0.push(child(names[index], job)?);
                eprintln!("  round {} {}: {:?}", round + 1, names[index], rounds[index].0[round]);
            }
        }
        Ok(rounds)
    }
}

/// The arguments that make a process a contestant.
pub fn child_arguments(name: &str, job: &Job) -> Vec<String> {
    let dir = job.dir.display().to_string();
    ["--child", name, "--count", &job.count.to_string(), "--dir", &dir].map(str::to_owned).into()
}

/// Runs a contestant in a process of its own.
pub fn child(name: &str, job: &Job) -> Result<Figures> {
    let output =
        Command::new(std::env::current_exe()?).args(child_arguments(name, job)).output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed with {}: {message}", output.status).into());
    }
    let mut figures = Figures::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let (name, figure) = line.split_once('=').ok_or("a figure without a name")?;
        figures.insert(name.to_owned(), figure.parse()?);
    }
    Ok(figures)
}

/// What a contestant measured in each round.
#[derive(Clone, Debug, Default)]
pub struct Rounds(Vec<Figures>);

impl Rounds {
    /// One figure of each round.
    pub fn figure(&self, name: &str) -> Result<Samples> {
        let figure = |figures: &Figures| figures.get(name).copied();
        let samples: Option<Vec<f64>> = self.0.iter().map(figure).collect();
        Ok(Samples::new(samples.ok_or_else(|| format!("no figure {name}"))?))
    }
}

/// A figure of each round.
#[derive(Clone, Debug)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// The figure in each round, at least one.
    pub fn new(figures: Vec<f64>) -> Self {
        assert!(!figures.is_empty(), "a row has a round");
        Self(figures)
    }

    /// This figure divided by the other, round by round.
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }

    /// The one in the middle.
    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            sorted[middle - 1].midpoint(sorted[middle])
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The median and the spread, in `unit`, one of which is `scale`.
    pub fn show(&self, unit: &str, scale: f64) -> String {
        let sorted = self.sorted();
        let (min, max) = (sorted[0] / scale, sorted[sorted.len() - 1] / scale);
        format!("{:.2}{unit} ({min:.2}–{max:.2})", self.median() / scale)
    }
}

/// What a row must reach.
#[derive(Clone, Copy, Debug)]
pub enum Bar {
    /// The median must be at least this.
    AtLeast(f64),
    /// The median must be at most this.
    AtMost(f64),
    /// Every round must stay at or below this.
    NeverAbove(f64),
    /// Nothing: it is shown to be known.
    Nothing,
}

impl Bar {
    fn show(self, unit: &str, samples: &Samples, scale: f64) -> String {
        let found = samples.median() / scale;
        let largest = samples.sorted().last().map_or(found, |largest| largest / scale);
        let (sign, bound, is_met) = match self {
            Self::AtLeast(bound) => ("≥", bound, found >= bound),
            Self::AtMost(bound) => ("≤", bound, found <= bound),
            Self::NeverAbove(bound) => ("never >", bound, largest <= bound),
            Self::Nothing => return "–".to_owned(),
        };
        format!("{sign} {bound}{unit}: {}", if is_met { "met" } else { "missed" })
    }
}

/// Prints the head of the table.
pub fn print_head() {
    println!("| row | siltdb | yardstick | ratio | bar |");
    println!("|---|---|---|---|---|");
}

/// Prints a row that compares.
pub fn print_ratio(row: &str, cells: [String; 2], ratio: &Samples, bar: Bar) {
    let [ours, yardstick] = cells;
    let (shown, bar) = (ratio.show("x", 1.0), bar.show("x", ratio, 1.0));
    println!("| {row} | {ours} | {yardstick} | {shown} | {bar} |");
}

/// Prints a row that stands alone.
pub fn print_figure(row: &str, figure: &Samples, (unit, scale): (&str, f64), bar: Bar) {
    let (shown, bar) = (figure.show(unit, scale), bar.show(unit, figure, scale));
    println!("| {row} | {shown} | – | – | {bar} |");
}

/// A folder in `dir` that goes with the guard.
pub fn scratch(dir: &Path) -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("numbers-").tempdir_in(dir)?)
}
