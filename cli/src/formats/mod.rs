//! The formats that `import` reads and `export` writes.
//!
//! They know keys and values, not databases.

pub mod record;
pub mod input;
pub mod object;
pub mod track;
pub mod lines;
pub mod jsonl;
pub mod csv;

use crate::text::Form;
use clap::ValueEnum;
use record::{ReadError, Record};
use std::{io::Read, path::Path};

/// A format that records are read from and written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated, with a header.
    Csv,
    /// Tab-separated, with a header.
    Tsv,
    /// Key, tab, value.
    Lines,
}

impl Format {
    /// The format that the extension of `path` names.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "lines" => Some(Self::Lines),
            _ => None,
        }
    }
}

/// Reads records in one of the formats.
pub enum Reader {
    /// One JSON object a line.
    Jsonl(jsonl::Reader),
    /// csv and tsv.
    Csv(csv::Reader),
    /// Key, tab, value.
    Lines(lines::Reader),
}

impl Reader {
    /// Reads `input` in `format`; `key` names the field or column of the key, `form` is that of
    /// *lines*.
    pub fn new(format: Format, input: Box<dyn Read>, key: Option<String>, form: Form) -> Self {
        let limit = input::RECORD_BYTES_MAX;
        match format {
            Format::Jsonl => Self::Jsonl(jsonl::Reader::new(input, key, limit)),
            Format::Csv => Self::Csv(csv::Reader::new(input, csv::Delimiter::Comma, key, limit)),
            Format::Tsv => Self::Csv(csv::Reader::new(input, csv::Delimiter::Tab, key, limit)),
            Format::Lines => Self::Lines(lines::Reader::new(input, form, limit)),
        }
    }

    /// Reads the next record into `record`; false at the end of the input.
    ///
    /// # Errors
    /// [`ReadError::Bad`] with line and column for what the format does not allow.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        match self {
            Self::Jsonl(reader) => reader.read(record),
            Self::Csv(reader) => reader.read(record),
            Self::Lines(reader) => reader.read(record),
        }
    }

    /// The line of the record last read, from 1.
    pub fn line(&self) -> u64 {
        match self {
            Self::Jsonl(reader) => reader.line(),
            Self::Csv(reader) => reader.line(),
            Self::Lines(reader) => reader.line(),
        }
    }
}
