//! The format *jsonl*: one JSON object a line. The value is the text of the object.
//!
//! The key is the text of one of its fields, by default the first. The reader does not re-encode
//! the object. A [`wrapper`] stands for another record.

use super::input::LineReader;
use super::key::KeyRule;
use super::object::Object;
use super::record::{BadRecord, ReadError, Record, Written};
use super::wrapper;
use std::io::{self, Read, Write};

#[cfg(test)]
mod tests;

/// Reads the format *jsonl*.
pub struct Reader {
    lines: LineReader,
    rule: KeyRule,
}

impl Reader {
    /// Reads objects with keys by `rule`.
    pub fn new(input: Box<dyn Read>, rule: KeyRule, record_bytes_max: u64) -> Self {
        Self { lines: LineReader::new(input, record_bytes_max), rule }
    }

    /// Returns the line of the last record, from 1.
    pub fn line(&self) -> u64 {
        self.lines.line()
    }

    /// Reads the next record into `record`; false at the end of the input. Blank lines are skipped.
    ///
    /// # Errors
    /// [`ReadError::Bad`] for a line that is not a JSON object or has no key.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        let indent = loop {
            if !self.lines.read(&mut record.value)? {
                return Ok(false);
            }
            let indent = trim(&mut record.value);
            if !record.value.is_empty() {
                break indent;
            }
        };
        let line = self.lines.line();
        let bad = |column: u64, reason: String| BadRecord { line, column: indent + column, reason };
        let text = std::str::from_utf8(&record.value)
            .map_err(|e| bad(e.valid_up_to() as u64 + 1, "not valid UTF-8".to_owned()))?;
        let object = Object::parse(text).map_err(|e| {
            let hint = if text.starts_with('[') { "; --format json reads arrays" } else { "" };
            bad(e.column, e.reason + hint)
        })?;
        if let Some(unwrapped) = wrapper::unwrapped(&object, &self.rule) {
            *record = unwrapped;
            return Ok(true);
        }
        record.key.clear();
        let pushed = object.push_key(&self.rule, line, &mut record.key);
        pushed.map_err(|reason| bad(1, reason))?;
        Ok(true)
    }
}

/// Trims white space from both ends, and returns the number of bytes trimmed at the start.
fn trim(line: &mut Vec<u8>) -> u64 {
    line.truncate(line.trim_ascii_end().len());
    let indent = line.len() - line.trim_ascii_start().len();
    line.drain(..indent);
    indent as u64
}

/// Writes one record without a line end: the value itself if it holds the key and an import finds
/// both in it again, else a [`wrapper`].
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut dyn Write, rule: &KeyRule, record: Written<'_>) -> io::Result<()> {
    let Written { key, value, expires_at } = record;
    if expires_at.is_none() && is_whole(rule, key, value) && wrapper::is_one_line(value) {
        return out.write_all(value);
    }
    wrapper::write(out, record)
}

/// Returns whether `value` is an object that has `key` by `rule`, and is no wrapper.
pub fn is_whole(rule: &KeyRule, key: &[u8], value: &[u8]) -> bool {
    let text = std::str::from_utf8(value).ok();
    let Some(object) = text.and_then(|text| Object::parse(text).ok()) else { return false };
    let mut found = Vec::new();
    object.push_key(rule, 0, &mut found).is_ok()
        && found == key
        && !wrapper::is_wrapper(&object, rule)
}
