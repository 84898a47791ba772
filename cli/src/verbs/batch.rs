//! The verb batch: operations from a file, all or none.
//!
//! One operation a line, `put KEY VALUE` or `delete KEY`, keys and values in escape form (hex with
//! `--hex`). After the word comes a tab, and then the fields stand between tabs; or a space, and
//! then the key ends at the next space and the value is the rest. Blank lines and lines that begin
//! with `#` are skipped. It does not open the database.

use crate::argument::{DurabilityArguments, FamilyArguments};
use crate::failure::{Failure, Result};
use crate::formats::input::{LineReader, RECORD_BYTES_MAX};
use crate::formats::record::BadRecord;
use crate::progress::Progress;
use crate::session::Session;
use crate::source::Source;
use crate::text::Form;
use clap::Args;
use serde_json::json;
use siltdb::{Durability, WriteBatch};
use std::path::PathBuf;

#[cfg(test)]
mod tests;

/// What `batch` is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file of operations; `-` is stdin.
    file: PathBuf,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    durability: DurabilityArguments,
}

impl Arguments {
    /// Opens the file, before a database is made for it.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub fn source(&self) -> Result<Source> {
        Source::open(&self.file)
    }
}

/// Applies the operations of `source`, all or none.
///
/// # Errors
/// [`Failure::Usage`] with line and column for a bad line; those of the database.
pub fn run(session: &mut Session, arguments: &Arguments, source: Source) -> Result<()> {
    let family = session.family(arguments.family.name())?;
    let form = match session.output.settings().form {
        Form::Plain => Form::Escape,
        form => form,
    };
    let progress = Progress::bytes("reading", source.bytes_total);
    let mut lines = LineReader::new(source.input, RECORD_BYTES_MAX);
    let mut line = Vec::new();
    let mut batch = WriteBatch::new();
    while lines.read(&mut line).map_err(|e| Failure::file("read", &source.name, e))? {
        let bad = |column: usize, reason: String| {
            let bad = BadRecord { line: lines.line(), column: column as u64 + 1, reason };
            Failure::Usage(format!("{}: {bad}; nothing was written", source.name))
        };
        match parse(&line, form).map_err(|e| bad(e.index, e.reason.to_owned()))? {
            None => Ok(()),
            Some(Operation::Put { key, value }) => batch.put(&family, &key, &value),
            Some(Operation::Delete { key }) => batch.delete(&family, &key),
        }
        .map_err(|error| bad(0, error.to_string()))?;
        progress.set(source.bytes_read.get());
    }
    drop(progress);
    let operations = batch.len();
    session.write_once(batch, arguments.durability.or(Durability::Synced))?;
    let text = format!("applied {operations} operations");
    session.output.result(&text, &json!({ "operations": operations }))
}

/// One line of a batch.
#[derive(Debug, PartialEq, Eq)]
enum Operation {
    Put { key: Vec<u8>, value: Vec<u8> },
    Delete { key: Vec<u8> },
}

/// A line that is no operation.
#[derive(Debug, PartialEq, Eq)]
struct BadLine {
    index: usize,
    reason: &'static str,
}

fn parse(line: &[u8], form: Form) -> std::result::Result<Option<Operation>, BadLine> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line[0] == b'#' {
        return Ok(None);
    }
    let bad = |index, reason| BadLine { index, reason };
    let word_end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let word = &line[..word_end];
    if !matches!(word, b"put" | b"delete") {
        return Err(bad(0, "expected `put KEY VALUE` or `delete KEY`"));
    }
    let Some(separator) = line.get(word_end).copied() else {
        return Err(bad(word_end, "no key"));
    };
    let key_start = word_end + 1;
    let rest = &line[key_start..];
    let key_length = rest.iter().position(|byte| *byte == separator);
    let key = &rest[..key_length.unwrap_or(rest.len())];
    if key.is_empty() && separator == b' ' {
        return Err(bad(key_start, "empty key; separate by tabs to mean one"));
    }
    let text = |text: &[u8], start| form.parse(text).map_err(|e| bad(start + e.index, e.reason));
    let key = text(key, key_start)?;
    match (word, key_length) {
        (b"put", Some(length)) => {
            let value_start = key_start + length + 1;
            let value = &line[value_start..];
            if let Some(tab) = value.iter().position(|byte| *byte == b'\t')
                && separator == b'\t'
            {
                return Err(bad(value_start + tab, "a tab in the value; write it as `\\t`"));
            }
            Ok(Some(Operation::Put { key, value: text(value, value_start)? }))
        }
        (b"put", None) => Err(bad(line.len(), "no value")),
        (_, Some(length)) => {
            Err(bad(key_start + length, "more than a key; write a space in it as `\\x20`"))
        }
        (_, None) => Ok(Some(Operation::Delete { key })),
    }
}
