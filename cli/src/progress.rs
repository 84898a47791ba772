//! A progress bar on stderr for long verbs: bytes or entries, rate, and time left.
//!
//! It prints nothing unless stderr is a terminal. It starts no thread: reports of the verb move it.

use crate::text::{grouped, size};
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Shortest time between two updates of the bar.
const INTERVAL: Duration = Duration::from_millis(120);

/// Characters of a full bar. With the numbers beside it, it fits a terminal of 80 columns.
const BAR_CHARACTERS: usize = 20;

/// A progress bar; it disappears when dropped.
pub struct Progress {
    line: Option<Line>,
}

/// The unit of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Entries,
    Nothing,
}

/// The line that shows the progress.
struct Line {
    verb: &'static str,
    unit: Unit,
    total: Cell<Option<u64>>,
    started: Instant,
    shown: Cell<Option<Instant>>,
}

impl Progress {
    /// Creates a bar for `total` bytes, or for an unknown number.
    pub fn bytes(verb: &'static str, total: Option<u64>) -> Self {
        Self::start(verb, Unit::Bytes, total)
    }

    /// Creates a count of entries.
    pub fn entries(verb: &'static str) -> Self {
        Self::start(verb, Unit::Entries, None)
    }

    /// Creates a clock for work without reports; each [`Progress::set`] updates it.
    pub fn time(verb: &'static str) -> Self {
        Self::start(verb, Unit::Nothing, None)
    }

    fn start(verb: &'static str, unit: Unit, total: Option<u64>) -> Self {
        let line = io::stderr().is_terminal().then(|| Line {
            verb,
            unit,
            total: Cell::new(total),
            started: Instant::now(),
            shown: Cell::new(None),
        });
        Self { line }
    }

    /// Reports `done` units.
    pub fn set(&self, done: u64) {
        let Some(line) = &self.line else { return };
        let now = Instant::now();
        let last = line.shown.get().unwrap_or(line.started);
        if now.duration_since(last) < INTERVAL {
            return;
        }
        line.shown.set(Some(now));
        let text = line.text(done, now.duration_since(line.started));
        // A failure to show the bar must not fail the verb.
        let _ = write!(io::stderr().lock(), "\r\x1b[K{text}");
    }

    /// Sets the total.
    pub fn set_total(&self, total: u64) {
        if let Some(line) = &self.line {
            line.total.set(Some(total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.line.as_ref().is_some_and(|line| line.shown.get().is_some()) {
            // A failure to clear the bar must not fail the verb, either.
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Line {
    fn text(&self, done: u64, elapsed: Duration) -> String {
        let verb = self.verb;
        let seconds = elapsed.as_secs_f64().max(0.001);
        let rate = done as f64 / seconds;
        match (self.unit, self.total.get()) {
            (Unit::Bytes, Some(total)) if total > 0 => {
                let done = done.min(total);
                let full = (done as f64 / total as f64 * BAR_CHARACTERS as f64) as usize;
                let bar = format!("{:<BAR_CHARACTERS$}", "=".repeat(full));
                let left = Duration::try_from_secs_f64((total - done) as f64 / rate);
                let left = left.map_or_else(|_| "?".to_owned(), clock);
                let (done, total, rate) = (size(done as f64), size(total as f64), size(rate));
                format!("{verb} [{bar}] {done}/{total}  {rate}/s  {left} left")
            }
            (Unit::Bytes, _) => {
                let (done, rate) = (size(done as f64), size(rate));
                format!("{verb}  {done}  {rate}/s  {}", clock(elapsed))
            }
            (Unit::Entries, _) => {
                let (done, rate) = (grouped(done), grouped(rate as u64));
                format!("{verb}  {done} entries  {rate}/s  {}", clock(elapsed))
            }
            (Unit::Nothing, _) => format!("{verb}  {}", clock(elapsed)),
        }
    }
}

/// Formats a time for people.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}
