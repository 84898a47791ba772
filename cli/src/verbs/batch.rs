//! The verb batch: applies the operations of a file atomically.
//!
//! A line has one operation: `put KEY VALUE`, `put-for TTL KEY VALUE`, `delete KEY`, `single-delete
//! KEY` or `delete-range FROM TO`, with keys and value in escape form (hex with `--hex`). After a
//! tab behind the word, tabs separate the fields.
//! After a space, the first key ends at the next space, and the value is the rest of the line.
//! Blank lines and lines that begin with `#` are skipped. The verb does not open the database.

use crate::argument::a_ttl;
use crate::bounds::KeyRange;
use crate::failure::{Failure, Result};
use crate::formats::input::{BYTE_ORDER_MARK, LineReader, RECORD_BYTES_MAX};
use crate::formats::record::BadRecord;
use crate::hint::told;
use crate::key_form::KeyForm;
use crate::limits::{check_entry, too_long};
use crate::output::Settings;
use crate::progress::Progress;
use crate::raw_keys::RawKeysArguments;
use crate::scope::{ReadScope, Scope, all_or_none};
use crate::session::{Opening, Session};
use crate::source::{Source, read_failure};
use crate::target::WriteArguments;
use crate::text::{Form, counted};
use clap::Args;
use serde_json::json;
use siltdb::{Durability, Transaction, WriteBatch};
use std::io::ErrorKind;
use std::{fmt, ops::Bound, path::PathBuf, time::Duration};

#[cfg(test)]
mod tests;

/// Most memory of the operations before they are handed to the database, in bytes. The size of a
/// batch in the log has the same bound.
const OPERATIONS_BYTES_MAX: usize = u32::MAX as usize;

/// The words with which a line begins.
const WORDS: [&[u8]; 5] = [b"put", b"put-for", b"delete", b"single-delete", b"delete-range"];

/// The reason why a line that begins with another word is bad.
const EXPECTED: &str = "expected `put KEY VALUE`, `put-for TTL KEY VALUE`, `delete KEY`, \
                        `single-delete KEY` or `delete-range FROM TO`";

/// Text at the end of `silt batch --help`.
pub const HELP: &str = "\
One operation a line: `put KEY VALUE`, `put-for 30m KEY VALUE` for a value that expires after that \
time, `delete KEY`, `single-delete KEY` for a key that was put exactly once (see `silt \
single-delete --help` for its warning), or `delete-range FROM TO` for the keys from FROM up to TO, \
without TO. Keys and values are in escape form (\\\\, \
\\n, \\r, \\t, \\0, \\xNN), or hexadecimal with --hex. After the word and a space, the key ends \
at the next space, and the value is the rest of the line. After the word and a tab, tabs separate \
the fields, which may be empty. In a family with a key order keys are text of that order, and \
their bytes with --escape or --hex. Blank lines and lines that begin with # are skipped. A bad \
line is reported with line and column; then nothing is written, and no database is created. A \
family other than default must exist. Ranges spare the buckets of the family; --raw-keys deletes \
and writes their keys, too.

Example:
  printf 'put user:1 Ada Lovelace\\ndelete user:2\\n' | silt batch demo.db -";

/// Arguments of `batch`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file of operations; `-` is stdin.
    file: PathBuf,
    #[command(flatten)]
    target: WriteArguments,
}

impl Arguments {
    /// Decides whether the verb creates a missing database.
    pub fn opening(&self) -> Opening {
        self.target.family.opening()
    }

    /// Reads the operations in the form of `settings`, before a database is created for them.
    ///
    /// # Errors
    /// [`Failure::File`]; [`Failure::Usage`] with line and column for a bad line.
    pub fn operations(&self, settings: Settings) -> Result<Operations> {
        let form = match settings.form {
            Form::Plain => Form::Escape,
            form => form,
        };
        read(Source::open_records(&self.file)?, form, OPERATIONS_BYTES_MAX)
    }
}

/// The operations of a file, all of them valid.
#[derive(Debug)]
pub struct Operations {
    name: String,
    placed: Vec<Placed>,
}

/// An operation and its line.
#[derive(Debug)]
struct Placed {
    line: u64,
    operation: Operation,
}

impl Operations {
    /// Splits ranges around the keys that store buckets, and refuses those keys alone.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the line; errors of the database.
    fn spare_buckets(
        &mut self,
        raw_keys: RawKeysArguments,
        keys: &KeyForm,
        scope: &ReadScope,
    ) -> Result<()> {
        for Placed { line, operation } in &mut self.placed {
            let spared = match operation {
                Operation::Put { key, .. }
                | Operation::Delete { key }
                | Operation::SingleDelete { key } => raw_keys.check(keys, scope, key),
                Operation::DeleteRange { from, to, parts } => {
                    let range = (Bound::Included(from.clone()), Bound::Excluded(to.clone()));
                    let split = raw_keys.parts_to_delete(keys, scope, Some(range));
                    split.map(|split| *parts = split)
                }
            };
            spared.map_err(|failure| match failure {
                Failure::Usage(reason) => bad_line(&self.name, *line, 0, &reason),
                failure => failure,
            })?;
        }
        Ok(())
    }

    /// Converts the keys from the text of the family's order.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the line of a text that is no key.
    fn encode(&mut self, keys: &KeyForm) -> Result<()> {
        for Placed { line, operation } in &mut self.placed {
            let (key, to) = match operation {
                Operation::Put { key, .. }
                | Operation::Delete { key }
                | Operation::SingleDelete { key } => (key, None),
                Operation::DeleteRange { from, to, .. } => (from, Some(to)),
            };
            for key in std::iter::once(key).chain(to) {
                let encoded = keys.encoded(key);
                let encoded = encoded.map_err(|bad| bad_line(&self.name, *line, 0, &bad))?;
                *key = encoded.into_owned();
            }
        }
        Ok(())
    }
}

/// Reads operations that take at most `bytes_max` bytes of memory.
fn read(source: Source, form: Form, bytes_max: usize) -> Result<Operations> {
    let progress = Progress::bytes("reading", source.bytes_total);
    let mut lines = LineReader::new(source.input, RECORD_BYTES_MAX);
    let mut line = Vec::new();
    let (name, mut placed, mut bytes) = (source.name, Vec::new(), 0);
    loop {
        let more = lines.read(&mut line).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => bad_line(&name, lines.line() + 1, 0, &error),
            _ => read_failure(&name, error),
        })?;
        if !more {
            drop(progress);
            return Ok(Operations { name, placed });
        }
        let number = lines.line();
        if number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        let operation = parse(&line, form);
        let operation = operation.map_err(|bad| bad_line(&name, number, bad.index, &bad.reason))?;
        progress.set(source.bytes_read.get());
        let Some(operation) = operation else { continue };
        let (key, value) = operation.entry();
        check_entry(key, value).map_err(|error| bad_line(&name, number, 0, &told(&error)))?;
        bytes += size_of::<Placed>() + key.len() + value.len();
        if bytes > bytes_max {
            let error = too_long("batch is too long", bytes_max, "more");
            return Err(bad_line(&name, number, 0, &error));
        }
        placed.push(Placed { line: number, operation });
    }
}

/// The failure of a line at its byte `index`.
fn bad_line(name: &str, line: u64, index: usize, reason: &dyn fmt::Display) -> Failure {
    let bad = BadRecord { line, column: index as u64 + 1, reason: reason.to_string() };
    Failure::Usage(format!("{name}: {bad}; nothing was written"))
}

/// Applies `operations` atomically.
///
/// # Errors
/// [`Failure::Usage`] with the line of an operation that the database refuses; errors of the
/// database.
pub fn run(session: &mut Session, arguments: &Arguments, mut operations: Operations) -> Result<()> {
    let keys = KeyForm::of(session, &arguments.target.family)?;
    operations.encode(&keys)?;
    let count = operations.placed.len();
    let scope = session.scope(arguments.target.family.name())?;
    operations.spare_buckets(arguments.target.raw_keys, &keys, &scope.clone().into())?;
    let family = match scope {
        Scope::Committed(family) => family,
        Scope::Transaction(transaction) => {
            arguments.target.durability.refuse_in_transaction()?;
            all_or_none(&transaction, || add(&transaction, operations))?;
            return applied(session, count);
        }
    };
    let mut batch = WriteBatch::new();
    for Placed { line, operation } in operations.placed {
        let added = match operation {
            Operation::Put { key, value, ttl: None } => batch.put(&family, &key, &value),
            Operation::Put { key, value, ttl: Some(ttl) } => {
                batch.put_for(&family, &key, &value, ttl)
            }
            Operation::Delete { key } => batch.delete(&family, &key),
            Operation::SingleDelete { key } => batch.single_delete(&family, &key),
            Operation::DeleteRange { parts, .. } => {
                parts.into_iter().try_for_each(|part| batch.delete_range(&family, part))
            }
        };
        added.map_err(|error| bad_line(&operations.name, line, 0, &told(&error)))?;
    }
    session.write_once(batch, arguments.target.durability.or(Durability::Synced))?;
    applied(session, count)
}

/// Adds `operations` to a transaction.
fn add(transaction: &Transaction, operations: Operations) -> Result<()> {
    for Placed { line, operation } in operations.placed {
        let added = match operation {
            Operation::Put { key, value, ttl: None } => transaction.put(&key, &value),
            Operation::Put { key, value, ttl: Some(ttl) } => transaction.put_for(&key, &value, ttl),
            Operation::Delete { key } => transaction.delete(&key),
            Operation::SingleDelete { key } => transaction.single_delete(&key),
            Operation::DeleteRange { parts, .. } => {
                parts.into_iter().try_for_each(|part| transaction.delete_range(part))
            }
        };
        added.map_err(|error| bad_line(&operations.name, line, 0, &told(&error)))?;
    }
    Ok(())
}

fn applied(session: &mut Session, count: usize) -> Result<()> {
    let text = format!("applied {}", counted(count as u64, "operation"));
    session.output.result(&text, &json!({ "operations": count }))
}

/// One line of a batch.
#[derive(Debug, PartialEq, Eq)]
enum Operation {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
        ttl: Option<Duration>,
    },
    Delete {
        key: Vec<u8>,
    },
    SingleDelete {
        key: Vec<u8>,
    },
    DeleteRange {
        from: Vec<u8>,
        to: Vec<u8>,
        /// What is deleted of the range, in order; nothing before that is known.
        parts: Vec<KeyRange>,
    },
}

impl Operation {
    /// Returns key and value, or both bounds; the value of a deletion is empty.
    fn entry(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Put { key, value, .. } => (key.as_slice(), value.as_slice()),
            Self::Delete { key } | Self::SingleDelete { key } => (key.as_slice(), &[]),
            Self::DeleteRange { from, to, .. } => (from.as_slice(), to.as_slice()),
        }
    }
}

/// A line that is not an operation.
#[derive(Debug, PartialEq, Eq)]
struct BadLine {
    index: usize,
    reason: &'static str,
}

/// Parses the TTL that begins at `start`, and returns it and the index of the separator behind it.
fn ttl_at(
    line: &[u8],
    start: usize,
    separator: u8,
) -> std::result::Result<(Duration, usize), BadLine> {
    let rest = &line[start..];
    let length = rest.iter().position(|byte| *byte == separator).unwrap_or(rest.len());
    let time = str::from_utf8(&rest[..length]).ok().and_then(|text| a_ttl(text).ok());
    let Some(time) = time else {
        return Err(BadLine {
            index: start,
            reason: "a TTL is a number and ms, s, m, h or d: 30m",
        });
    };
    if length == rest.len() {
        return Err(BadLine { index: line.len(), reason: "no key" });
    }
    Ok((time, start + length))
}

fn parse(line: &[u8], form: Form) -> std::result::Result<Option<Operation>, BadLine> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line[0] == b'#' {
        return Ok(None);
    }
    let bad = |index, reason| BadLine { index, reason };
    let word_end = line.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(line.len());
    let word = &line[..word_end];
    if !WORDS.contains(&word) {
        return Err(bad(0, EXPECTED));
    }
    let Some(separator) = line.get(word_end).copied() else {
        return Err(bad(word_end, "no key"));
    };
    let mut key_start = word_end + 1;
    let mut ttl = None;
    if word == b"put-for" {
        let (time, end) = ttl_at(line, key_start, separator)?;
        (ttl, key_start) = (Some(time), end + 1);
    }
    let rest = &line[key_start..];
    let key_length = rest.iter().position(|byte| *byte == separator);
    let key = &rest[..key_length.unwrap_or(rest.len())];
    if key.is_empty() && separator == b' ' {
        return Err(bad(key_start, "empty key; separate by tabs to mean one"));
    }
    let text = |text: &[u8], start| form.parse(text).map_err(|e| bad(start + e.index, e.reason));
    let key = text(key, key_start)?;
    match (word, key_length) {
        (b"put" | b"put-for" | b"delete-range", Some(length)) => {
            let value_start = key_start + length + 1;
            let value = &line[value_start..];
            if let Some(tab) = value.iter().position(|byte| *byte == b'\t')
                && separator == b'\t'
            {
                return Err(bad(value_start + tab, "a tab in the value; write it as `\\t`"));
            }
            if word != b"delete-range" {
                let value = text(value, value_start)?;
                return Ok(Some(Operation::Put { key, value, ttl }));
            }
            if let Some(space) = value.iter().position(|byte| *byte == b' ')
                && separator == b' '
            {
                let reason = "more than two keys; write a space in one as `\\x20`";
                return Err(bad(value_start + space, reason));
            }
            let to = text(value, value_start)?;
            Ok(Some(Operation::DeleteRange { from: key, to, parts: Vec::new() }))
        }
        (b"put" | b"put-for", None) => Err(bad(line.len(), "no value")),
        (b"delete-range", None) => Err(bad(line.len(), "no end of the range")),
        (_, Some(length)) => {
            Err(bad(key_start + length, "more than a key; write a space in it as `\\x20`"))
        }
        (b"single-delete", None) => Ok(Some(Operation::SingleDelete { key })),
        (_, None) => Ok(Some(Operation::Delete { key })),
    }
}
