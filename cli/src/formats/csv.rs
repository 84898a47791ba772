//! The formats *csv* and *tsv*: a header, then one record a line, with quotes as in RFC 4180.
//!
//! Read, a record becomes a JSON object of strings, in the order of its columns. Written, objects
//! become columns again; other values stand in the two columns `key` and `value`. It does not guess
//! types.

use super::input::{BoundedReader, RecordStart};
use super::object::{self, Object};
use super::record::{BadRecord, ReadError, Record, WriteError};
use super::track::{Track, TrackingReader};
use crate::text::shortened;
use csv::{ByteRecord, ReaderBuilder, WriterBuilder};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};

#[cfg(test)]
mod tests;

/// Most columns a written file has.
pub const COLUMNS_MAX: usize = 10_000;

/// Most names of columns that a message lists.
const NAMES_LISTED_MAX: usize = 20;

/// What stands between the fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// csv.
    Comma,
    /// tsv.
    Tab,
}

impl Delimiter {
    fn byte(self) -> u8 {
        match self {
            Self::Comma => b',',
            Self::Tab => b'\t',
        }
    }
}

/// Reads the formats *csv* and *tsv*.
pub struct Reader {
    records: csv::Reader<TrackingReader<BoundedReader>>,
    record_start: RecordStart,
    track: Track,
    line: u64,
    key_column: Option<String>,
    header: Option<Header>,
    buffer: ByteRecord,
}

struct Header {
    /// Per column, its name as JSON, with the colon.
    names: Vec<Vec<u8>>,
    /// The index of the column that holds the key.
    key: usize,
}

impl Reader {
    /// Reads records whose key is the column `key_column`, or the first one.
    pub fn new(
        input: Box<dyn Read>,
        delimiter: Delimiter,
        key_column: Option<String>,
        record_bytes_max: u64,
    ) -> Self {
        let input = BoundedReader::new(input, record_bytes_max);
        let record_start = input.record_start();
        let input = TrackingReader::new(input, delimiter.byte());
        let track = input.track();
        let records = ReaderBuilder::new()
            .delimiter(delimiter.byte())
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(256 << 10)
            .from_reader(input);
        Self {
            records,
            record_start,
            track,
            line: 1,
            key_column,
            header: None,
            buffer: ByteRecord::new(),
        }
    }

    /// The line of the record last read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next record into `record`; false at the end of the input.
    ///
    /// # Errors
    /// [`ReadError::Bad`] for a bad header, another number of fields than the header has, or text
    /// that is not UTF-8.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        if self.header.is_none() {
            if !self.read_record()? {
                let reason = "no header: the input is empty".to_owned();
                return Err(BadRecord { line: 1, column: 1, reason }.into());
            }
            self.header = Some(self.read_header()?);
        }
        if !self.read_record()? {
            return Ok(false);
        }
        let header = self.header.as_ref().expect("it was read above");
        self.check_count(header.names.len())?;
        record.key.clear();
        record.key.extend_from_slice(&self.buffer[header.key]);
        record.value.clear();
        for (index, name) in header.names.iter().enumerate() {
            let field = self.field(index)?;
            record.value.push(if index == 0 { b'{' } else { b',' });
            record.value.extend_from_slice(name);
            push_json(field, &mut record.value);
        }
        record.value.push(b'}');
        Ok(true)
    }

    fn read_record(&mut self) -> Result<bool, ReadError> {
        self.record_start.mark();
        let more = self.records.read_byte_record(&mut self.buffer);
        let more = more.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => ReadError::Io(error),
            kind => ReadError::Io(io::Error::other(format!("{kind:?}"))),
        })?;
        self.line = self.track.next_record_line().unwrap_or(self.line);
        if self.track.ends_inside_quotes() {
            let index = self.buffer.len().saturating_sub(1);
            let reason = "the input ends inside quotes".to_owned();
            return Err(bad(self.line, index, reason).into());
        }
        Ok(more)
    }

    fn read_header(&self) -> Result<Header, BadRecord> {
        let bad = |index: usize, reason: String| bad(self.line, index, reason);
        let mut columns: HashMap<&str, usize> = HashMap::new();
        let mut names = Vec::with_capacity(self.buffer.len());
        for index in 0..self.buffer.len() {
            let name = self.field(index)?;
            if let Some(first) = columns.insert(name, index) {
                let name = shortened(name);
                return Err(bad(index, format!("column {} has this name too: {name}", first + 1)));
            }
            let mut json = Vec::new();
            push_json(name, &mut json);
            json.push(b':');
            names.push(json);
        }
        let key = match &self.key_column {
            None => 0,
            Some(name) => *columns.get(name.as_str()).ok_or_else(|| {
                let mut known: Vec<&str> = columns.keys().copied().collect();
                known.sort_by_key(|name| columns[name]);
                bad(0, format!("no column `{name}`; there are: {}", listed(&known)))
            })?,
        };
        Ok(Header { names, key })
    }

    fn check_count(&self, expected: usize) -> Result<(), BadRecord> {
        let found = self.buffer.len();
        if found == expected {
            return Ok(());
        }
        let reason = format!("expected {expected} fields, found {found}");
        Err(bad(self.line, found.min(expected), reason))
    }

    fn field(&self, index: usize) -> Result<&str, BadRecord> {
        std::str::from_utf8(&self.buffer[index])
            .map_err(|_| bad(self.line, index, "not valid UTF-8".to_owned()))
    }
}

/// Names as a message lists them: the file is untrusted, and may have very many.
fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_LISTED_MAX).map(|n| shortened(n)).collect();
    let left = names.len() - shown.len();
    let more = if left > 0 { format!(", and {left} more") } else { String::new() };
    shown.join(", ") + &more
}

fn bad(line: u64, index: usize, reason: String) -> BadRecord {
    BadRecord { line, column: index as u64 + 1, reason }
}

fn push_json(text: &str, json: &mut Vec<u8>) {
    serde_json::to_writer(json, text).expect("a string is JSON, and a Vec takes any bytes");
}

/// The columns that a set of records needs; found by showing it each of them once.
#[derive(Default)]
pub struct Columns {
    names: Vec<String>,
    known: HashSet<String>,
    kind: ColumnsKind,
    /// The name of a field that some object has twice.
    repeated: Option<String>,
}

/// What the columns hold. Each kind is the one to fall back to from those above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ColumnsKind {
    /// The fields of the values, which hold the keys too: in the column that is named, or in the
    /// first one, where import looks for them.
    #[default]
    Fields,
    /// The key, and the fields of the values.
    KeyAndFields,
    /// The key and the value.
    Pairs,
}

impl Columns {
    /// Makes room for one record, whose key may be its field `key_field`, or its first.
    ///
    /// # Errors
    /// [`WriteError::Unfit`] if there are too many columns.
    pub fn observe(
        &mut self,
        key_field: Option<&str>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), WriteError> {
        if self.kind == ColumnsKind::Pairs {
            return Ok(());
        }
        let text = std::str::from_utf8(value).ok();
        let Some(object) = text.and_then(|text| Object::parse(text).ok()) else {
            self.kind = ColumnsKind::Pairs;
            return Ok(());
        };
        if !self.holds_key(key_field, key, &object) {
            self.kind = ColumnsKind::KeyAndFields;
        }
        let mut seen = HashSet::new();
        for (name, _) in object.fields() {
            if !seen.insert(name) && self.repeated.is_none() {
                self.repeated = Some(name.clone());
            }
            if !self.known.contains(name) {
                self.known.insert(name.clone());
                self.names.push(name.clone());
            }
        }
        if self.names.len() > COLUMNS_MAX {
            let reason = format!("more than {COLUMNS_MAX} columns; jsonl has no such limit");
            return Err(WriteError::Unfit(reason));
        }
        Ok(())
    }

    /// Whether `key` is found again in the column for `key_field`. Without one that is the first
    /// column of the file, which need not be the first field of every object.
    fn holds_key(&self, key_field: Option<&str>, key: &[u8], object: &Object<'_>) -> bool {
        let first = object.fields().first().map(|(name, _)| name);
        let is_in_first_column = self.names.is_empty() || self.names.first() == first;
        object.key(key_field).is_ok_and(|found| found.as_bytes() == key)
            && (key_field.is_some() || is_in_first_column)
    }
}

/// Writes the formats *csv* and *tsv*.
pub struct Writer<'w> {
    records: csv::Writer<&'w mut dyn Write>,
    columns: Columns,
}

impl<'w> Writer<'w> {
    /// Writes the header for `columns`.
    ///
    /// # Errors
    /// [`WriteError::Unfit`] if an object has two fields of one name; those of `out`.
    pub fn new(
        out: &'w mut dyn Write,
        delimiter: Delimiter,
        columns: Columns,
    ) -> Result<Self, WriteError> {
        let repeated = columns.repeated.as_deref();
        if let Some(name) = repeated.filter(|_| columns.kind != ColumnsKind::Pairs) {
            let name = shortened(name);
            let reason = format!("an object has two fields `{name}`; jsonl holds such values");
            return Err(WriteError::Unfit(reason));
        }
        let mut records =
            WriterBuilder::new().delimiter(delimiter.byte()).flexible(false).from_writer(out);
        let key_name = free_name("key", &columns);
        let header: Vec<&str> = match columns.kind {
            ColumnsKind::Pairs => vec!["key", "value"],
            ColumnsKind::Fields if columns.names.is_empty() => vec!["key", "value"],
            ColumnsKind::Fields => columns.names.iter().map(String::as_str).collect(),
            ColumnsKind::KeyAndFields => {
                let names = columns.names.iter().map(String::as_str);
                std::iter::once(key_name.as_str()).chain(names).collect()
            }
        };
        records.write_record(&header).map_err(csv_error)?;
        Ok(Self { records, columns })
    }

    /// Writes one of the records that the columns were made for.
    ///
    /// # Errors
    /// [`WriteError::Unfit`] for bytes that are not UTF-8.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), WriteError> {
        if self.columns.kind != ColumnsKind::Fields {
            self.records.write_field(utf8(key, "key")?).map_err(csv_error)?;
        }
        let value = utf8(value, "value")?;
        if self.columns.kind == ColumnsKind::Pairs {
            self.records.write_field(value).map_err(csv_error)?;
        } else {
            let object = Object::parse(value)
                .map_err(|bad| WriteError::Unfit(format!("a value changed: {}", bad.reason)))?;
            for name in &self.columns.names {
                let text = object.field(name).map(object::cell).unwrap_or_default();
                self.records.write_field(text.as_bytes()).map_err(csv_error)?;
            }
        }
        self.records.write_record(None::<&[u8]>).map_err(csv_error)
    }

    /// Hands everything to the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> Result<(), WriteError> {
        Ok(self.records.flush()?)
    }
}

fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, WriteError> {
    std::str::from_utf8(bytes).map_err(|_| {
        let hint = "lines with --escape or --hex hold any bytes, and import brings them back";
        WriteError::Unfit(format!("a {what} is not UTF-8; {hint}"))
    })
}

/// `name`, with underscores before it until no column has that name.
fn free_name(name: &str, columns: &Columns) -> String {
    let mut name = name.to_owned();
    while columns.known.contains(&name) {
        name.insert(0, '_');
    }
    name
}

fn csv_error(error: csv::Error) -> WriteError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => WriteError::Io(error),
        kind => WriteError::Unfit(format!("{kind:?}")),
    }
}
