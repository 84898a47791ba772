//! The display during a run: a line for each run of an engine, and the progress of the present one.

use indicatif::{ProgressBar, ProgressStyle};
use siltdb_bench::{
    engine::Failure,
    job::{Progress, Report},
    report::numbers::rate,
    result::Row,
    runner::Listener,
    suite::Chosen,
    worker::is_trial,
};
use std::env;

/// Tables need at least this width.
const WIDTH_MIN: u16 = 60;
/// The width of tables, unless the shell gives another.
const WIDTH: u16 = 140;

/// The width of tables.
pub fn width() -> u16 {
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(WIDTH).max(WIDTH_MIN)
}

/// Writes progress to standard error; stores finished rows.
pub struct Terminal<F: FnMut(&[Row], &[(String, Report)])> {
    bar: ProgressBar,
    total: usize,
    done: usize,
    now: String,
    /// A report of each engine that has run.
    reports: Vec<(String, Report)>,
    keep: F,
    rows: Vec<Row>,
}

impl<F: FnMut(&[Row], &[(String, Report)])> Terminal<F> {
    /// For `total` rows; calls `keep` with all finished rows after each.
    pub fn new(total: usize, keep: F) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let (now, reports, rows) = (String::new(), Vec::new(), Vec::new());
        Self { bar, total, done: 0, now, reports, keep, rows }
    }

    /// Clears the progress line.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }

    fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            anstream::eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}

impl<F: FnMut(&[Row], &[(String, Report)])> Listener for Terminal<F> {
    fn begins(&mut self, row: &Chosen, engine: &str, round: u32) {
        let (place, round) = (self.done + 1, round + 1);
        let total = self.total;
        self.now = format!("{place}/{total} {} {} · {engine} · {round}", row.suite, row.row);
        self.bar.set_message(self.now.clone());
    }

    fn progresses(&mut self, progress: &Progress) {
        let Progress { phase, done, total, second_ops } = progress;
        let share = match total {
            0 => String::new(),
            _ => format!(" {:.0} %, {}/s", *done as f64 * 100.0 / *total as f64, {
                rate(*second_ops as f64)
            }),
        };
        self.bar.set_message(format!("{} · {phase}{share}", self.now));
        self.bar.tick();
    }

    fn ended(&mut self, _: &Chosen, engine: &str, outcome: &Result<Report, Failure>) {
        match outcome {
            Ok(report) => {
                let throughput = &report.throughput;
                let per_second = throughput.ops as f64 / throughput.seconds.max(1e-9);
                let settled = throughput.ops as f64 / throughput.settled_seconds.max(1e-9);
                let (per_second, settled) = (rate(per_second), rate(settled));
                self.say(&format!("{}: {per_second}/s, settled {settled}/s", self.now));
                if !is_trial(engine) && self.reports.iter().all(|(known, _)| known != engine) {
                    self.reports.push((engine.to_owned(), report.clone()));
                }
            }
            Err(failure) => self.say(&format!("{}: {failure}", self.now)),
        }
    }

    fn finished(&mut self, rows: &[Row]) {
        self.done += 1;
        self.rows.extend_from_slice(rows);
        (self.keep)(&self.rows, &self.reports);
    }
}
