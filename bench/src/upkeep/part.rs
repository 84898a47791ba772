//! What a part of the work tells the process that started it, a line of JSON each, and how much
//! time it has.

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
    /// What it does now, for people.
    Doing(String),
    /// What came of a bar.
    Figure {
        /// The bar's id.
        bar: String,
        /// What came of it.
        outcome: Outcome,
    },
    /// It cannot go on.
    Failed(String),
    /// It has done all.
    Done,
}

/// How a part tells what it does, and when it must come to an end.
pub struct Teller<'a> {
    say: &'a dyn Fn(&Line),
    start: Instant,
    most: Duration,
    checked: Cell<u64>,
}

impl<'a> Teller<'a> {
    /// Tells by `say`; the work may take `most`.
    #[must_use]
    pub fn new(say: &'a dyn Fn(&Line), most: Duration) -> Self {
        Self { say, start: Instant::now(), most, checked: Cell::new(0) }
    }

    /// Says what is done now.
    pub fn doing(&self, what: impl Into<String>) {
        (self.say)(&Line::Doing(what.into()));
    }

    /// Whether the time is over: loops end then, and what they did is told as cut off.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.start.elapsed() >= self.most
    }

    /// So many entries were read back and are as they were written.
    pub fn compared(&self, entries: u64) {
        self.checked.set(self.checked.get() + entries);
    }

    /// A figure of `done` steps of `asked`; fewer are told as cut off.
    ///
    /// # Errors
    /// If nothing was compared since the last figure that would show that the work was done.
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

    /// A bar that cannot be measured here.
    pub fn lacks(&self, bar: &str, what: impl Into<String>) {
        self.outcome(bar, Outcome::NotMeasured { note: what.into() });
    }

    fn outcome(&self, bar: &str, outcome: Outcome) {
        (self.say)(&Line::Figure { bar: bar.to_owned(), outcome });
    }
}
