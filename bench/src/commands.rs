//! The subcommands that need no engine: `bars`, `compare`, `limits` and `report`.
//!
//! The binary embeds [`Command`] in its own; it prints the text, and exits with the code.

use crate::compare::compare;
use crate::limits::effort::Effort;
use crate::limits::measure;
use crate::report::bars::Judgement;
use crate::report::{csv, html, markdown, table};
use crate::result::{Limit, Results, SCHEMA};
use clap::{Args, Subcommand};
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// A subcommand that needs no engine.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say which rows meet their bars, as Markdown; 1 is returned if any is missed
    Bars(Runs),
    /// Say what changed between two runs beyond noise
    Compare(Compare),
    /// Measure what this machine can do at best
    Limits(Limits),
    /// Show a results file again, in other forms
    Report(Report),
}

/// Arguments of `bars`.
#[derive(Debug, Args)]
pub struct Runs {
    /// Results of some runs, such as those of different numbers of threads; of a row that several
    /// measured with as many threads the last file's counts
    #[arg(required = true)]
    results: Vec<PathBuf>,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Results of the earlier run
    before: PathBuf,
    /// Results of the later run
    after: PathBuf,
    /// How much slower one of siltdb's rows may be; more ends with exit code 1
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    threshold: f64,
}

/// Arguments of `limits`.
#[derive(Debug, Args)]
pub struct Limits {
    /// Directory for the files: put it on the disk that is meant
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Runs of each measurement
    #[arg(long, value_name = "N", default_value = "5")]
    repeat: NonZeroU32,
    /// Write the limits to a file too; `-` writes them to stdout instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The results
    results: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
}

/// The forms in which results are written to files.
#[derive(Clone, Debug, Default, Args)]
pub struct Outputs {
    /// Write a page of HTML that needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown tables
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write comma-separated values
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// How a subcommand ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For stdout.
    pub text: String,
    /// 0, or 1 if a bar was missed or a comparison found a regression.
    pub exit_code: u8,
}

impl Command {
    /// Runs it; `width` is that of the terminal.
    ///
    /// # Errors
    /// A message that names the file, if one cannot be read, understood or written.
    pub fn run(&self, width: u16) -> Result<Outcome, String> {
        match self {
            Self::Bars(arguments) => {
                let runs = arguments.results.iter().map(|path| read(path));
                let judgement = Judgement::of(&runs.collect::<Result<Vec<_>, _>>()?);
                let exit_code = u8::from(!judgement.is_met());
                Ok(Outcome { text: judgement.render(), exit_code })
            }
            Self::Compare(arguments) => arguments.run(width),
            Self::Limits(arguments) => arguments.run(width),
            Self::Report(arguments) => {
                let results = read(&arguments.results)?;
                arguments.outputs.write(&results)?;
                Ok(Outcome { text: table::render(&results, width), exit_code: 0 })
            }
        }
    }
}

impl Compare {
    fn run(&self, width: u16) -> Result<Outcome, String> {
        let (before, after) = (read(&self.before)?, read(&self.after)?);
        let comparison = compare(&before, &after, self.threshold / 100.0);
        let exit_code = u8::from(comparison.regressions().next().is_some());
        Ok(Outcome { text: comparison.render(width), exit_code })
    }
}

impl Limits {
    fn run(&self, width: u16) -> Result<Outcome, String> {
        let effort = Effort { repeat: self.repeat.get() as usize, ..Effort::default() };
        let limits = limits(&self.dir, &effort)?;
        let text = match &self.json {
            Some(path) if path.as_os_str() == "-" => limits_json(&limits),
            Some(path) => {
                write(path, &limits_json(&limits))?;
                table::limits(&limits, width)
            }
            None => table::limits(&limits, width),
        };
        Ok(Outcome { text, exit_code: 0 })
    }
}

impl Outputs {
    /// Writes `results` in every form that was asked for.
    ///
    /// # Errors
    /// A message that names the file, if one cannot be written.
    pub fn write(&self, results: &Results) -> Result<(), String> {
        let forms = [
            (&self.html, html::render as fn(&Results) -> String),
            (&self.markdown, markdown::render),
            (&self.csv, csv::render),
        ];
        for (path, render) in forms {
            if let Some(path) = path {
                write(path, &render(results))?;
            }
        }
        Ok(())
    }
}

/// Reads a results file.
///
/// # Errors
/// A message that names the file.
pub fn read(path: &Path) -> Result<Results, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Results::from_json(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Measures what the machine can do at best, with files in `dir`.
///
/// # Errors
/// A message that names the directory.
pub fn limits(dir: &Path, effort: &Effort) -> Result<Vec<Limit>, String> {
    measure(dir, effort, |_| ())
        .map_err(|error| format!("cannot measure. dir={}: {error}", dir.display()))
}

fn limits_json(limits: &[Limit]) -> String {
    let file = serde_json::json!({ "schema": SCHEMA, "limits": limits });
    format!("{file:#}\n")
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("a number of percent, 0 or more, is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests;
