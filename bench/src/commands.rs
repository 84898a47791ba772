//! The subcommands that need no engine: `bars`, `compare`, `limits` and `report`.
//!
//! The binary includes [`Command`] in its own command line, prints the text, and exits with the
//! code.

use crate::compare::compare;
use crate::files::{Output, read};
use crate::limits::effort::Effort;
use crate::limits::measure;
use crate::report::bars::Judgement;
use crate::report::chart::Theme;
use crate::report::claims::Claims;
use crate::report::ranking::groups;
use crate::report::{chart, html, markdown, pages, table};
use crate::result::{Limit, Results, SCHEMA};
use clap::{Args, Subcommand};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// A subcommand that needs no engine.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show which rows meet their bars, as Markdown; exits with 1 if any is missed
    Bars(Runs),
    /// Show the changes between two runs that exceed noise
    Compare(Compare),
    /// Measure the limits of this machine
    Limits(Limits),
    /// Show a results file again, in other forms
    Report(Report),
}

/// Arguments of `bars`.
#[derive(Debug, Args)]
pub struct Runs {
    /// Results of some runs, such as those of different numbers of threads. If several files have
    /// the same row with as many threads, the last file's figures are taken
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
    /// Permitted slowdown of siltdb's rows; a larger one exits with code 1
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    threshold: f64,
}

/// Arguments of `limits`.
#[derive(Debug, Args)]
pub struct Limits {
    /// Directory for the files, on the disk to measure
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Number of runs of each measurement
    #[arg(long, value_name = "N", default_value = "5")]
    repeat: NonZeroU32,
    /// Write the limits to a file too; `-` writes them to stdout instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Results of a run
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
    /// Write a bar chart for a light background: of the claims, or of the first eight rows
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the same chart for a dark background
    #[arg(long, value_name = "FILE")]
    svg_dark: Option<PathBuf>,
    /// The engines of the chart
    #[arg(long, value_name = "ENGINES", value_delimiter = ',', default_values = chart::ENGINES)]
    svg_engines: Vec<String>,
    /// Write results of the suites `claims`, `transactions` or of published comparisons into the
    /// pages of the repository at DIR: README, docs/benchmarks*.md, docs/charts, docs/results
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// A chart of results other than the claims has bars for at most this many rows.
const CHARTED_MAX: usize = 8;

/// A form of results.
#[derive(Clone, Copy, Debug)]
enum Form {
    Html,
    Markdown,
    Svg(Theme),
}

/// The files of [`Outputs`], checked to be writable.
#[derive(Debug)]
pub struct OpenOutputs {
    opened: Vec<(Output, Form)>,
    engines: Vec<String>,
    into: Option<PathBuf>,
}

/// The outcome of a subcommand.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The text for standard output.
    pub text: String,
    /// 0, or 1 if a bar was missed or a comparison found a regression.
    pub exit_code: u8,
}

impl Command {
    /// Runs the subcommand; `width` is that of the terminal.
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
                arguments.outputs.open(&[])?.write(&results)?;
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
        let is_stdout = self.json.as_deref() == Some(Path::new("-"));
        let file = self.json.as_deref().filter(|_| !is_stdout).map(Output::open).transpose()?;
        let limits = limits(&self.dir, &effort)?;
        if let Some(file) = file {
            file.write(&limits_json(&limits))?;
        }
        let text = if is_stdout { limits_json(&limits) } else { table::limits(&limits, width) };
        Ok(Outcome { text, exit_code: 0 })
    }
}

impl Outputs {
    /// Opens every requested file to check that it can be written, so that a run of hours does not
    /// end with a wrong name. `others` are written besides.
    ///
    /// # Errors
    /// A message that names the file, if one cannot be written or is named twice.
    pub fn open(&self, others: &[&Path]) -> Result<OpenOutputs, String> {
        let forms = [
            (&self.html, Form::Html),
            (&self.markdown, Form::Markdown),
            (&self.svg, Form::Svg(Theme::Light)),
            (&self.svg_dark, Form::Svg(Theme::Dark)),
        ];
        let mut named = others.to_vec();
        let mut opened = Vec::new();
        for (path, form) in forms {
            let Some(path) = path else { continue };
            if named.contains(&path.as_path()) {
                return Err(format!("{} is to hold two forms of the results", path.display()));
            }
            named.push(path);
            opened.push((Output::open(path)?, form));
        }
        if let Some(root) = &self.into
            && !root.join(pages::FOLDER).is_dir()
        {
            return Err(format!("--into: {} has no {}", root.display(), pages::FOLDER));
        }
        Ok(OpenOutputs { opened, engines: self.svg_engines.clone(), into: self.into.clone() })
    }

    /// The file of the page, if it was requested.
    #[must_use]
    pub fn html(&self) -> Option<&Path> {
        self.html.as_deref()
    }

    /// Adds a page at `path`, if none was requested.
    #[must_use]
    pub fn or_html(mut self, path: &str) -> Self {
        self.html.get_or_insert_with(|| path.into());
        self
    }
}

impl OpenOutputs {
    /// Writes `results` in every requested form.
    ///
    /// # Errors
    /// A message that names the file, if one cannot be written.
    pub fn write(&self, results: &Results) -> Result<(), String> {
        for (output, form) in &self.opened {
            output.write(&match form {
                Form::Html => html::render(results),
                Form::Markdown => markdown::render(results),
                Form::Svg(theme) => self.chart(results, *theme),
            })?;
        }
        self.into.as_ref().map_or(Ok(()), |root| pages::write(root, results))
    }

    fn chart(&self, results: &Results, theme: Theme) -> String {
        if let Ok(claims) = Claims::of(results) {
            return chart::bars(results, &claims.charted(), &self.engines, theme);
        }
        let groups = groups(results);
        let first: Vec<_> = groups.iter().take(CHARTED_MAX).collect();
        chart::bars(results, &first, &self.engines, theme)
    }
}

/// Measures the limits of the machine, with files in `dir`.
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
