//! The messages of a part to the process that started it, a line of JSON each, and its time limit.

use crate::{
    engine::{Failure, Result},
    upkeep::bar::Outcome,
};
use serde::{Deserialize, Serialize};
use std::{
    cell::Cell,
    time::{Duration, Instant},
};

/// A line of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The present work, for display.
    Doing(String),
    /// The result of a bar.
    Figure {
        /// The bar's id.
        bar: String,
        /// The result.
        outcome: Outcome,
    },
    /// The part cannot continue.
    Failed(String),
    /// The part is complete.
    Done,
}

/// Sends the messages of a part, and knows its time limit.
pub struct Teller<'a> {
    say: &'a dyn Fn(&Line),
    start: Instant,
    most: Duration,
    checked: Cell<u64>,
}

impl<'a> Teller<'a> {
    /// Sends messages through `say`; the work may take `most`.
    #[must_use]
    pub fn new(say: &'a dyn Fn(&Line), most: Duration) -> Self {
        Self { say, start: Instant::now(), most, checked: Cell::new(0) }
    }

    /// Reports the present work.
    pub fn doing(&self, what: impl Into<String>) {
        (self.say)(&Line::Doing(what.into()));
    }

    /// Whether the time is over. Loops end then, and report their work as cut off.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.start.elapsed() >= self.most
    }

    /// Notes that `entries` entries were read back and are right.
    pub fn compared(&self, entries: u64) {
        self.checked.set(self.checked.get() + entries);
    }

    /// Reports a figure of `done` steps out of `asked`; fewer are reported as cut off.
    ///
    /// # Errors
    /// If no comparison since the last figure shows that the work was done.
    pub fn figure(
        &self,
        bar: &str,
        value: f64,
        (done, asked): (usize, usize),
        note: impl Into<String>,
    ) -> Result<()> {
        let (checked, note) = (self.checked.get(), note.into());
        if checked == 0 {
            return Err(Failure::error(format!("{bar}: nothing was read back")));
        }
        let outcome = if done == asked {
            Outcome::Measured { value, checked, note }
        } else {
            let note = [format!("after {done} of {asked}"), note].join(" ");
            Outcome::CutOff { value: Some(value), note: note.trim_end().to_owned() }
        };
        self.outcome(bar, outcome);
        Ok(())
    }

    /// Reports a bar that cannot be measured here.
    pub fn lacks(&self, bar: &str, what: impl Into<String>) {
        self.outcome(bar, Outcome::NotMeasured { note: what.into() });
    }

    fn outcome(&self, bar: &str, outcome: Outcome) {
        (self.say)(&Line::Figure { bar: bar.to_owned(), outcome });
    }
}
