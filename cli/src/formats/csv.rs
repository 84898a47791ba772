//! The formats *csv* and *tsv*: a header, then one record a line, with quotes as in RFC 4180 if
//! the dialect has quotes.
//!
//! The reader converts a record to a JSON object of strings, in the order of its columns. The
//! writer converts objects to columns; other values go to the two columns `key` and `value`. It
//! does not guess types.

use super::detection::{Layout, Preamble, is_unclear};
use super::dialect::Dialect;
use super::fields::{FieldReader, Fields};
use super::key::{KeyRule, of_line};
use super::object::{self, Object};
use super::record::{BadRecord, ReadError, Record, WriteError};
use crate::text::{shortened, shortened_bytes};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};

#[cfg(test)]
mod tests;

/// Most columns of a written file.
pub const COLUMNS_MAX: usize = 10_000;

/// Most column names that a message lists.
const NAMES_LISTED_MAX: usize = 20;

/// The reason to refuse text of other encodings.
const NOT_UTF_8: &str = "not valid UTF-8; a spreadsheet's file may be WINDOWS-1252, which \
    `iconv -f WINDOWS-1252 -t UTF-8` converts";

/// The treatment of a record with fewer fields than the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShortRecord {
    /// The record is bad.
    #[default]
    Refuse,
    /// The record is good; its value leaves out the missing fields.
    Take,
}

/// Reads the formats *csv* and *tsv*.
pub struct Reader {
    records: FieldReader,
    preamble: Preamble,
    rule: KeyRule,
    short_record: ShortRecord,
    header: Option<Header>,
    fields: Fields,
}

struct Header {
    /// For each column, its name as JSON, with the colon.
    names: Vec<Vec<u8>>,
    /// Indexes of the columns that make the key.
    key: Vec<usize>,
}

impl Reader {
    /// Reads records with keys by `rule`.
    pub fn new(
        input: Box<dyn Read>,
        Layout { dialect, preamble }: Layout,
        rule: KeyRule,
        short_record: ShortRecord,
        record_bytes_max: u64,
    ) -> Self {
        let records = FieldReader::new(input, dialect, record_bytes_max);
        Self { records, preamble, rule, short_record, header: None, fields: Fields::default() }
    }

    /// Returns the line of the last record, from 1.
    pub fn line(&self) -> u64 {
        self.fields.line().max(1)
    }

    /// Returns the number of lines that the last record takes.
    pub fn lines(&self) -> u64 {
        self.fields.lines()
    }

    /// Reads the next record into `record`; false at the end of the input.
    ///
    /// # Errors
    /// [`ReadError::Broken`] for a bad header. [`ReadError::Bad`] for a different number of fields
    /// than the header, text after a closing quotation mark, or text that is not UTF-8.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        if self.header.is_none() {
            if self.preamble == Preamble::SeparatorLine {
                self.records.read(&mut self.fields)?;
                self.preamble = Preamble::None;
            }
            if !self.records.read(&mut self.fields)? {
                let reason = "no header: the input is empty".to_owned();
                return Err(ReadError::Broken(BadRecord { line: 1, column: 1, reason }));
            }
            self.header = Some(self.read_header().map_err(ReadError::Broken)?);
        }
        if !self.records.read(&mut self.fields)? {
            return Ok(false);
        }
        self.check_fault()?;
        let header = self.header.as_ref().expect("it was read above");
        let count = self.count(header)?;
        record.key.clear();
        self.push_key(header, &mut record.key)?;
        record.value.clear();
        for (index, name) in header.names[..count].iter().enumerate() {
            let field = self.field(index)?;
            record.value.push(if index == 0 { b'{' } else { b',' });
            record.value.extend_from_slice(name);
            push_json(field, &mut record.value);
        }
        record.value.push(b'}');
        Ok(true)
    }

    fn check_fault(&self) -> Result<(), BadRecord> {
        match self.fields.fault() {
            Some(fault) => Err(self.bad(fault.index, fault.reason.to_owned())),
            None => Ok(()),
        }
    }

    fn read_header(&self) -> Result<Header, BadRecord> {
        self.check_fault()?;
        let mut columns: HashMap<&str, usize> = HashMap::new();
        let mut names = Vec::with_capacity(self.fields.len());
        for index in 0..self.fields.len() {
            let name = self.field(index)?;
            if let Some(first) = columns.insert(name, index) {
                let reason = match name {
                    "" => format!("columns {} and {} have no name", first + 1, index + 1),
                    _ => format!("column {} has this name too: {}", first + 1, shortened(name)),
                };
                return Err(self.bad(index, reason));
            }
            let mut json = Vec::new();
            push_json(name, &mut json);
            json.push(b':');
            names.push(json);
        }
        let find = |name: &String| {
            columns.get(name.as_str()).copied().ok_or_else(|| {
                let mut known: Vec<&str> = columns.keys().copied().collect();
                known.sort_by_key(|name| columns[name]);
                self.bad(0, format!("no column `{name}`; there are: {}", listed(&known)))
            })
        };
        let key = match &self.rule {
            KeyRule::First => vec![0],
            KeyRule::Line => Vec::new(),
            KeyRule::Named(fields) => fields.names().iter().map(find).collect::<Result<_, _>>()?,
        };
        Ok(Header { names, key })
    }

    /// Returns the number of fields of the record, if that number is permitted.
    fn count(&self, header: &Header) -> Result<usize, BadRecord> {
        let (expected, found) = (header.names.len(), self.fields.len());
        let key_end = header.key.iter().max().map_or(0, |last| last + 1);
        let is_short = key_end <= found && found < expected;
        let hint = match self.short_record {
            _ if found == expected => return Ok(found),
            ShortRecord::Take if is_short => return Ok(found),
            ShortRecord::Refuse if is_short => "; --allow-short takes it",
            ShortRecord::Refuse | ShortRecord::Take => "",
        };
        let reason = format!("expected {expected} fields, found {found}{hint}");
        Err(self.bad(found.min(expected), reason))
    }

    fn push_key(&self, header: &Header, key: &mut Vec<u8>) -> Result<(), BadRecord> {
        let KeyRule::Named(fields) = &self.rule else {
            match header.key.first() {
                Some(column) => key.extend_from_slice(self.fields.get(*column)),
                None => key.extend(of_line(self.fields.line())),
            }
            return Ok(());
        };
        for (index, column) in header.key.iter().enumerate() {
            let pushed = fields.push(key, index, self.fields.get(*column));
            pushed.map_err(|reason| self.bad(*column, reason))?;
        }
        Ok(())
    }

    fn field(&self, index: usize) -> Result<&str, BadRecord> {
        std::str::from_utf8(self.fields.get(index))
            .map_err(|_| self.bad(index, NOT_UTF_8.to_owned()))
    }

    fn bad(&self, index: usize, reason: String) -> BadRecord {
        BadRecord { line: self.fields.line(), column: index as u64 + 1, reason }
    }
}

/// Formats names for a message. Their number is bounded, because the file is untrusted.
fn listed(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_LISTED_MAX).map(|n| shortened(n)).collect();
    let left = names.len() - shown.len();
    let more = if left > 0 { format!(", and {left} more") } else { String::new() };
    shown.join(", ") + &more
}

fn push_json(text: &str, json: &mut Vec<u8>) {
    serde_json::to_writer(json, text).expect("a string is JSON, and a Vec takes any bytes");
}

/// The columns of a set of records, found by one call for each record.
#[derive(Default)]
pub struct Columns {
    names: Vec<String>,
    known: HashSet<String>,
    kind: ColumnsKind,
    /// A field name that occurs twice in one object.
    repeated: Option<String>,
}

/// The layout of the columns. Each variant is the fallback of those above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ColumnsKind {
    /// The fields of the values. One of them holds the keys: the named one, or the first one, where
    /// an import looks for keys.
    #[default]
    Fields,
    /// The key, and the fields of the values.
    KeyAndFields,
    /// The key and the value.
    Pairs,
}

impl Columns {
    /// Adjusts the columns to one record, whose key may be its field `key_field`, or its first.
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

    /// Returns whether an import would find `key` in the column for `key_field`. By default that is
    /// the file's first column, which may differ from the first field of the object.
    fn holds_key(&self, key_field: Option<&str>, key: &[u8], object: &Object<'_>) -> bool {
        let first = object.fields().first().map(|(name, _)| name);
        let is_in_first_column = self.names.is_empty() || self.names.first() == first;
        object.key(key_field).is_ok_and(|found| found.as_bytes() == key)
            && (key_field.is_some() || is_in_first_column)
    }
}

/// Writes the formats *csv* and *tsv*.
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    columns: Columns,
    row: Row,
}

impl<'w> Writer<'w> {
    /// Writes the header for `columns`.
    ///
    /// # Errors
    /// [`WriteError::Unfit`] if an object has two fields of one name, or a name needs quotes that
    /// `dialect` does not have; errors of `out`.
    pub fn new(
        out: &'w mut dyn Write,
        dialect: Dialect,
        columns: Columns,
    ) -> Result<Self, WriteError> {
        let repeated = columns.repeated.as_deref();
        if let Some(name) = repeated.filter(|_| columns.kind != ColumnsKind::Pairs) {
            let name = shortened(name);
            let reason = format!("an object has two fields `{name}`; jsonl holds such values");
            return Err(WriteError::Unfit(reason));
        }
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
        let mut row = Row::new(dialect);
        for name in &header {
            let is_unclear = is_unclear(name, dialect, header.len());
            let quotes = if is_unclear { Quotes::Always } else { Quotes::IfNeeded };
            row.push(name, quotes).map_err(|NeedsQuotes| {
                needs_quotes(&format!("the column name `{}`", shortened(name)))
            })?;
        }
        row.write(out)?;
        Ok(Self { out, columns, row })
    }

    /// Writes one of the records for which the columns were determined.
    ///
    /// # Errors
    /// [`WriteError::Unfit`] for bytes that are not UTF-8, and for a field that needs quotes that
    /// the dialect does not have.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), WriteError> {
        let row = &mut self.row;
        let mut push = |name: &str, text: &str| {
            row.push(text, Quotes::IfNeeded).map_err(|NeedsQuotes| {
                let (name, key) = (shortened(name), shortened_bytes(key));
                needs_quotes(&format!("field `{name}` of the key `{key}`"))
            })
        };
        if self.columns.kind != ColumnsKind::Fields {
            push("key", utf8(key, "key")?)?;
        }
        let value = utf8(value, "value")?;
        if self.columns.kind == ColumnsKind::Pairs {
            push("value", value)?;
        } else {
            let object = Object::parse(value)
                .map_err(|bad| WriteError::Unfit(format!("a value changed: {}", bad.reason)))?;
            for name in &self.columns.names {
                let text = object.field(name).map_or(Ok(Cow::Borrowed("")), object::cell);
                let text = text.map_err(|_| {
                    let name = shortened(name);
                    WriteError::Unfit(format!(
                        "a field `{name}` is not valid Unicode; jsonl holds such values"
                    ))
                })?;
                push(name, &text)?;
            }
        }
        self.row.write(self.out)
    }
}

/// Whether to quote a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    Always,
    IfNeeded,
}

/// A field needs quotes, and the dialect has none.
#[derive(Debug)]
struct NeedsQuotes;

fn needs_quotes(what: &str) -> WriteError {
    WriteError::Unfit(format!(
        "{what} can only be written in quotes, because of a delimiter or line end in it; \
         --quote '\"' of export and import has quotes"
    ))
}

/// One line of the file.
struct Row {
    dialect: Dialect,
    text: Vec<u8>,
    fields: usize,
}

impl Row {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, text: Vec::new(), fields: 0 }
    }

    fn push(&mut self, field: &str, quotes: Quotes) -> Result<(), NeedsQuotes> {
        let Dialect { delimiter, quote } = self.dialect;
        if self.fields > 0 {
            self.text.push(delimiter.byte());
        }
        self.fields += 1;
        let is_special = |byte: &u8| {
            matches!(byte, b'\n' | b'\r')
                || *byte == delimiter.byte()
                || Some(*byte) == quote.byte()
        };
        if quotes == Quotes::IfNeeded && !field.as_bytes().iter().any(is_special) {
            self.text.extend_from_slice(field.as_bytes());
            return Ok(());
        }
        let mark = quote.byte().ok_or(NeedsQuotes)?;
        self.text.push(mark);
        for part in field.as_bytes().split_inclusive(|byte| *byte == mark) {
            self.text.extend_from_slice(part);
            self.text.extend(part.last().filter(|last| **last == mark));
        }
        self.text.push(mark);
        Ok(())
    }

    /// Writes the line and begins the next one.
    fn write(&mut self, out: &mut dyn Write) -> Result<(), WriteError> {
        if self.text.is_empty() {
            // An empty line would be skipped as blank, so it gets quotes.
            let mark = self.dialect.quote.byte();
            let mark = mark.ok_or_else(|| needs_quotes("a row of one empty field"))?;
            self.text.extend([mark, mark]);
        }
        self.text.push(b'\n');
        out.write_all(&self.text)?;
        self.text.clear();
        self.fields = 0;
        Ok(())
    }
}

fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, WriteError> {
    std::str::from_utf8(bytes).map_err(|_| {
        let hint = "lines with --escape or --hex hold any bytes, and import brings them back";
        WriteError::Unfit(format!("a {what} is not UTF-8; {hint}"))
    })
}

/// Prefixes `name` with underscores until no column has the same name.
fn free_name(name: &str, columns: &Columns) -> String {
    let mut name = name.to_owned();
    while columns.known.contains(&name) {
        name.insert(0, '_');
    }
    name
}
