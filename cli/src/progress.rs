//! A progress bar on stderr for verbs that take long: bytes or entries, rate and time left.
//!
//! It shows nothing when stderr is not a terminal, and starts no thread: it moves when the verb
//! reports.

use crate::text::grouped;
use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// The bar moves at most this often.
const INTERVAL: Duration = Duration::from_millis(120);

/// Characters of a full bar: with the numbers beside it, it fits into a terminal of 80 columns.
const BAR_CHARACTERS: usize = 20;

/// A progress bar; it disappears when dropped.
pub struct Progress {
    line: Option<Line>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Entries,
    Nothing,
}

/// The line that shows it.
struct Line {
    verb: &'static str,
    unit: Unit,
    total: Cell<Option<u64>>,
    started: Instant,
    shown: Cell<Option<Instant>>,
}

impl Progress {
    /// A bar for `total` bytes, or for an unknown number of them.
    pub fn bytes(verb: &'static str, total: Option<u64>) -> Self {
        Self::start(verb, Unit::Bytes, total)
    }

    /// Counts entries.
    pub fn entries(verb: &'static str) -> Self {
        Self::start(verb, Unit::Entries, None)
    }

    /// Shows the time that work takes which reports nothing, whenever [`Progress::set`] is called.
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

    /// `done` of the whole is done.
    pub fn set(&self, done: u64) {
        let Some(line) = &self.line else { return };
        let now = Instant::now();
        let last = line.shown.get().unwrap_or(line.started);
        if now.duration_since(last) < INTERVAL {
            return;
        }
        line.shown.set(Some(now));
        let text = line.text(done, now.duration_since(line.started));
        // A bar that cannot be shown is no reason to fail.
        let _ = write!(io::stderr().lock(), "\r\x1b[K{text}");
    }

    /// The whole is now known to be `total`.
    pub fn set_total(&self, total: u64) {
        if let Some(line) = &self.line {
            line.total.set(Some(total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.line.as_ref().is_some_and(|line| line.shown.get().is_some()) {
            // As above.
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

/// A number of bytes as people read it.
fn size(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1000.0 {
            return if unit == "B" {
                format!("{value:.0} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A time as people read it.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}
