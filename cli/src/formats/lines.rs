//! The format *lines*: key, tab, value, one record a line, split at the first tab.
//!
//! The plain form takes bytes unchanged. So a key can hold neither tab nor line end, and a value no
//! line end. The forms escape and hex hold any bytes.

use super::input::LineReader;
use super::key::{KeyRule, of_line};
use super::record::{BadRecord, ReadError, Record, WriteError};
use crate::text::Form;
use std::io::{Read, Write};

#[cfg(test)]
mod tests;

/// Reads the format *lines*.
pub struct Reader {
    lines: LineReader,
    form: Form,
    rule: KeyRule,
    buffer: Vec<u8>,
}

impl Reader {
    /// Reads records with keys and values in `form`. With [`KeyRule::Line`] the whole line is the
    /// value.
    pub fn new(input: Box<dyn Read>, form: Form, rule: KeyRule, record_bytes_max: u64) -> Self {
        Self { lines: LineReader::new(input, record_bytes_max), form, rule, buffer: Vec::new() }
    }

    /// Returns the line of the last record, from 1.
    pub fn line(&self) -> u64 {
        self.lines.line()
    }

    /// Reads the next record into `record`; false at the end of the input.
    ///
    /// # Errors
    /// [`ReadError::Bad`] for a line without a tab, or text that is not in the form.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        if !self.lines.read(&mut self.buffer)? {
            return Ok(false);
        }
        let line = self.lines.line();
        let bad = |column: usize, reason: &str| BadRecord {
            line,
            column: column as u64 + 1,
            reason: reason.to_owned(),
        };
        if self.rule == KeyRule::Line {
            record.key = of_line(line);
            record.value = self.form.parse(&self.buffer).map_err(|e| bad(e.index, e.reason))?;
            return Ok(true);
        }
        let Some(tab) = self.buffer.iter().position(|byte| *byte == b'\t') else {
            return Err(bad(self.buffer.len(), "no tab between key and value").into());
        };
        let (key, value) = (&self.buffer[..tab], &self.buffer[tab + 1..]);
        if self.form == Form::Plain {
            record.key.clear();
            record.key.extend_from_slice(key);
            record.value.clear();
            record.value.extend_from_slice(value);
            return Ok(true);
        }
        record.key = self.form.parse(key).map_err(|e| bad(e.index, e.reason))?;
        record.value = self.form.parse(value).map_err(|e| bad(tab + 1 + e.index, e.reason))?;
        Ok(true)
    }
}

/// Writes one record in `form`.
///
/// # Errors
/// [`WriteError::Unfit`] for a record that this form cannot hold.
pub fn write(out: &mut dyn Write, form: Form, key: &[u8], value: &[u8]) -> Result<(), WriteError> {
    if form == Form::Plain {
        let unfit = |what: &str| {
            WriteError::Unfit(format!("{what}; `--escape` and `--hex` write any bytes"))
        };
        if key.iter().any(|byte| matches!(byte, b'\t' | b'\n')) {
            return Err(unfit("a key holds a tab or a line end"));
        }
        if value.contains(&b'\n') {
            return Err(unfit("a value holds a line end"));
        }
        out.write_all(key)?;
        out.write_all(b"\t")?;
        out.write_all(value)?;
        out.write_all(b"\n")?;
        return Ok(());
    }
    let mut text = String::new();
    form.render(key, &mut text);
    text.push('\t');
    form.render(value, &mut text);
    text.push('\n');
    out.write_all(text.as_bytes())?;
    Ok(())
}
