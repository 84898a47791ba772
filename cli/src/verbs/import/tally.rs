//! The counts of an import, and its messages.
//!
//! It decides nothing about records.

use crate::formats::record::BadRecord;
use crate::output::{Style, message, warning};
use crate::text::{counted, grouped};
use serde_json::{Value, json};
use std::fmt;

#[cfg(test)]
mod tests;

/// Most bad records that are reported one by one; the others are only counted.
const BAD_TOLD_MAX: usize = 20;

/// A warning appears if more than one record in this many overwrote a value.
const OVERWRITTEN_EXPECTED: u64 = 100;

/// Whether the family had keys before the import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// No key.
    Empty,
    /// Some keys.
    Keys,
}

/// The lines of a record.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The first, from 1.
    pub line: u64,
    /// Their number.
    pub lines: u64,
}

/// A bad record and its number in the input.
#[derive(Debug, PartialEq, Eq)]
pub struct BadPlaced {
    /// From 1; `--skip` counts the same way.
    pub number: u64,
    /// Position and reason.
    pub bad: BadRecord,
}

impl fmt::Display for BadPlaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}, {}", grouped(self.number), self.bad)
    }
}

/// Counts of records by outcome.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Records of the input that need not be read again.
    pub done: u64,
    /// Records with a new key.
    pub new: u64,
    /// Records that replaced a value.
    pub overwritten: u64,
    /// Records left out in favour of the existing value.
    pub kept: u64,
    /// Bad records left out.
    bad: u64,
    /// The first of them, with position and reason.
    told: Vec<String>,
    /// Records with a line end in a field.
    multiline: u64,
    /// The lines of these records.
    lines: u64,
    /// The first of these lines, from 1.
    first_line: u64,
}

impl Tally {
    /// Counts a bad record that was left out.
    pub fn leave_out(&mut self, bad: &BadPlaced) {
        self.bad += 1;
        if self.told.len() < BAD_TOLD_MAX {
            self.told.push(bad.to_string());
        }
    }

    /// Counts a record that takes more than one line.
    pub fn span(&mut self, span: Span) {
        if self.multiline == 0 {
            self.first_line = span.line;
        }
        self.multiline += 1;
        self.lines += span.lines;
    }

    /// Reports the bad records that were left out, and fields that span lines.
    pub fn tell(&self, style: Style) {
        self.tell_bad(style);
        if self.multiline > 0 {
            let records = counted(self.multiline, "record");
            let span = if self.multiline == 1 { "spans" } else { "span" };
            let (lines, first) = (grouped(self.lines), self.first_line);
            message(
                style,
                &format!(
                    "a field of {records} {span} lines: {lines} lines in all, the first at line \
                     {first}; --quote none takes quotes as text"
                ),
            );
        }
    }

    fn tell_bad(&self, style: Style) {
        for bad in &self.told {
            message(style, &format!("left out: {bad}"));
        }
        let more = self.bad - self.told.len() as u64;
        if more > 0 {
            message(style, &format!("left out: {} more", counted(more, "bad record")));
        }
    }

    /// Warns if unexpectedly many keys repeated.
    pub fn warn(&self, style: Style, before: Before) {
        let all = self.new + self.overwritten + self.kept;
        let present = self.overwritten + self.kept;
        if present <= all / OVERWRITTEN_EXPECTED {
            return;
        }
        let what = match (self.overwritten > 0, before) {
            (true, Before::Empty) => "replaced the value of an earlier one with the same key",
            (true, Before::Keys) => "replaced a value that was there already",
            (false, _) => "were left out, because their keys were there already",
        };
        let mut text = format!("{} of {} {what}", grouped(present), counted(all, "record"));
        if before == Before::Empty {
            text.push_str(
                "; --key A,B takes several fields as the key, --key-line the line number",
            );
        }
        warning(style, &text);
    }

    /// Returns the counts as an object.
    pub fn json(&self) -> Value {
        json!({
            "imported": self.new + self.overwritten,
            "new": self.new,
            "overwritten": self.overwritten,
            "kept": self.kept,
            "bad": self.bad,
            "multiline": self.multiline,
            "done": self.done,
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let imported = counted(self.new + self.overwritten, "record");
        write!(f, "imported {imported}: {} new", counted(self.new, "key"))?;
        for (count, what) in [
            (self.overwritten, "overwritten"),
            (self.kept, "there already and kept"),
            (self.bad, "bad and left out"),
            (self.multiline, "over several lines"),
        ] {
            if count > 0 {
                write!(f, ", {} {what}", grouped(count))?;
            }
        }
        Ok(())
    }
}
