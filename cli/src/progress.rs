//! A progress bar on stderr for long verbs: bytes or entries, rate, and time left.
//!
//! It prints nothing unless stderr is a terminal that moves its cursor (`TERM=dumb` does not). The
//! line fits the width of the terminal. It starts no thread: reports of the verb move it.

use crate::text::{counted, grouped, size};
use rustix::termios::tcgetwinsize;
use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Shortest time between two updates of the bar.
const INTERVAL: Duration = Duration::from_millis(120);

/// Characters of a full bar. With the numbers beside it, it fits a terminal of 80 columns; on a
/// narrower one the bar is shorter.
const BAR_CHARACTERS: usize = 20;

/// Shortest bar that tells something, in characters.
const BAR_CHARACTERS_MIN: usize = 4;

/// Columns of a terminal that does not tell them.
const COLUMNS: usize = 80;

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
        let moves_cursor = moves_cursor(std::env::var_os("TERM").as_deref());
        let line = (moves_cursor && io::stderr().is_terminal()).then(|| Line {
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
        // Each time: the user may change the width.
        let text = line.text(done, now.duration_since(line.started), columns());
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

impl Progress {
    /// Removes the bar, before something else is printed.
    pub fn end(&mut self) {
        if self.line.take().is_some_and(|line| line.shown.get().is_some()) {
            // A failure to clear the bar must not fail the verb, either.
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns whether a terminal of this name obeys the characters that replace a line.
fn moves_cursor(term: Option<&OsStr>) -> bool {
    term.is_none_or(|term| term != "dumb")
}

/// Returns the width of the terminal at stderr.
fn columns() -> usize {
    let size = tcgetwinsize(io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

impl Line {
    /// Returns the line, shorter than `columns`: a terminal would begin another line after its last
    /// column, and the next update would leave this one there.
    ///
    /// What tells least is left out first: part of the bar, all of it, then from the right.
    fn text(&self, done: u64, elapsed: Duration, columns: usize) -> String {
        let room = columns.saturating_sub(1);
        let parts = self.parts(done, elapsed);
        let length = |count: usize| {
            let parts = parts.iter().take(count).map(|part| part.chars().count() + 2);
            (self.verb.chars().count() + parts.sum::<usize>(), count)
        };
        let fitting = (0..=parts.len()).rev().map(length).find(|(length, _)| *length <= room);
        let (taken, count) = fitting.unwrap_or((0, 0));
        let bar = match self.total.get().filter(|total| *total > 0 && self.unit == Unit::Bytes) {
            // Two characters for brackets; the space is one of the two before the numbers.
            Some(total) if count == parts.len() => {
                let length = (room - taken).saturating_sub(2).min(BAR_CHARACTERS);
                let full = done.min(total) as f64 / total as f64 * length as f64;
                let filled = "=".repeat(full as usize);
                let bar = format!(" [{filled:<length$}]");
                if length < BAR_CHARACTERS_MIN { String::new() } else { bar }
            }
            _ => String::new(),
        };
        let mut text = format!("{}{bar}", self.verb);
        for (index, part) in parts.iter().take(count).enumerate() {
            text.push_str(if index == 0 && !bar.is_empty() { " " } else { "  " });
            text.push_str(part);
        }
        text.chars().take(room).collect()
    }

    /// Returns the parts of the line behind verb and bar, the most important first.
    fn parts(&self, done: u64, elapsed: Duration) -> Vec<String> {
        let seconds = elapsed.as_secs_f64().max(0.001);
        let rate = done as f64 / seconds;
        match (self.unit, self.total.get()) {
            (Unit::Bytes, Some(total)) if total > 0 => {
                let done = done.min(total);
                let left = Duration::try_from_secs_f64((total - done) as f64 / rate);
                let left = left.map_or_else(|_| "?".to_owned(), clock);
                let (done, total) = (size(done as f64), size(total as f64));
                vec![format!("{done}/{total}"), format!("{}/s", size(rate)), format!("{left} left")]
            }
            (Unit::Bytes, _) => {
                vec![size(done as f64), format!("{}/s", size(rate)), clock(elapsed)]
            }
            (Unit::Entries, _) => {
                vec![counted(done, "entry"), format!("{}/s", grouped(rate as u64)), clock(elapsed)]
            }
            (Unit::Nothing, _) => vec![clock(elapsed)],
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
