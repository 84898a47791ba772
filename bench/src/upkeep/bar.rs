//! The bars: the measured quantities and their limits; and the result of a figure against its bar.

use crate::{
    report::{
        numbers::{bytes, digits, time, whole},
        table::plain,
    },
    result::{Machine, SCHEMA},
};
use serde::{Deserialize, Serialize};

/// A figure with a limit.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// A stable id, such as `flushes/time`.
    pub id: &'static str,
    /// The measured quantity, in words.
    pub about: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its limit.
    pub most: f64,
}

/// The unit of a figure. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A number of things.
    Count,
    /// A factor.
    Ratio,
    /// Bytes.
    Bytes,
}

/// The result of a bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// Measured at its full size; `checked` entries were read back and right.
    Measured {
        /// The figure.
        value: f64,
        /// Entries compared.
        checked: u64,
        /// Further observations.
        note: String,
    },
    /// Cut off by the time limit, and missed with any figure.
    CutOff {
        /// The figure of the finished work, if there is one.
        value: Option<f64>,
        /// The progress.
        note: String,
    },
    /// An error, a crash, or wrong contents.
    Failed {
        /// The message.
        note: String,
    },
    /// The machine lacks something that it needs.
    NotMeasured {
        /// The missing thing.
        note: String,
    },
}

/// A bar and its result.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The bar.
    pub bar: Bar,
    /// Its result.
    pub outcome: Outcome,
}

impl Unit {
    /// A figure in words.
    #[must_use]
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Ns => time(value),
            Self::Bytes => bytes(value),
            Self::Ratio => format!("{}×", digits(value)),
            Self::Count if value.fract() == 0.0 => whole(value as u64),
            Self::Count => digits(value),
        }
    }
}

impl Judged {
    /// Whether the bar is met; none if it was not measured.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        match &self.outcome {
            Outcome::Measured { value, .. } => Some(*value <= self.bar.most),
            Outcome::CutOff { .. } | Outcome::Failed { .. } => Some(false),
            Outcome::NotMeasured { .. } => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match &self.outcome {
            Outcome::Measured { value, .. } => Some(*value),
            Outcome::CutOff { value, .. } => *value,
            Outcome::Failed { .. } | Outcome::NotMeasured { .. } => None,
        }
    }

    fn note(&self) -> &str {
        match &self.outcome {
            Outcome::Measured { note, .. }
            | Outcome::CutOff { note, .. }
            | Outcome::Failed { note }
            | Outcome::NotMeasured { note } => note,
        }
    }

    fn words(&self) -> String {
        let figure = self.value().map(|value| self.bar.unit.write(value));
        match (&self.outcome, figure) {
            (Outcome::CutOff { .. }, figure) => {
                format!("{} (cut off)", figure.unwrap_or_default()).trim_start().to_owned()
            }
            (Outcome::Failed { .. }, _) => "failed".to_owned(),
            (Outcome::NotMeasured { .. }, _) => "not measured".to_owned(),
            (Outcome::Measured { .. }, figure) => figure.unwrap_or_default(),
        }
    }
}

/// Whether no bar is missed.
#[must_use]
pub fn are_met(judged: &[Judged]) -> bool {
    judged.iter().all(|one| one.is_met() != Some(false))
}

/// Whether every part ran to its end and read back the written contents.
#[must_use]
pub fn are_right(judged: &[Judged]) -> bool {
    judged.iter().all(|one| !matches!(one.outcome, Outcome::Failed { .. }))
}

/// A table of all bars, at most `width` characters wide.
#[must_use]
pub fn table(judged: &[Judged], width: u16) -> String {
    let mut table = plain(width, &["row", "what", "bar", "measured", "met?", "note"]);
    for one in judged {
        let met = match one.is_met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "–",
        };
        table.add_row([
            one.bar.id.to_owned(),
            one.bar.about.to_owned(),
            format!("≤ {}", one.bar.unit.write(one.bar.most)),
            one.words(),
            met.to_owned(),
            one.note().to_owned(),
        ]);
    }
    let count = |wanted: Option<bool>| judged.iter().filter(|one| one.is_met() == wanted).count();
    let (met, missed, unknown) = (count(Some(true)), count(Some(false)), count(None));
    format!("{table}\n{met} bars met, {missed} missed, {unknown} not measured\n")
}

/// The same as JSON.
#[must_use]
pub fn json(judged: &[Judged], machine: &Machine, created: u64) -> String {
    let row = |one: &Judged| {
        let mut row = serde_json::json!({
            "row": one.bar.id,
            "about": one.bar.about,
            "unit": one.bar.unit,
            "at_most": one.bar.most,
            "value": one.value(),
            "met": one.is_met(),
        });
        let outcome = serde_json::to_value(&one.outcome).expect("outcomes are plain data");
        if let (Some(row), Some(outcome)) = (row.as_object_mut(), outcome.as_object()) {
            row.extend(outcome.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        row
    };
    let rows: Vec<serde_json::Value> = judged.iter().map(row).collect();
    let file = serde_json::json!({
        "schema": SCHEMA,
        "created": created,
        "machine": machine,
        "upkeep": rows,
    });
    format!("{file:#}\n")
}

#[cfg(test)]
mod tests;
