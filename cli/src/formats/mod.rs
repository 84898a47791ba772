//! The formats that `import` reads and `export` writes.
//!
//! They know keys and values, not databases.

pub mod record;
pub mod input;
pub mod fields;
pub mod delimiter;
pub mod key;
pub mod object;
pub mod lines;
pub mod jsonl;
pub mod array;
pub mod csv;

use crate::text::Form;
use clap::ValueEnum;
use delimiter::Delimiter;
use key::KeyRule;
use record::{ReadError, Record};
use std::{
    io::{self, Read},
    path::Path,
};

/// A format that records are read from and written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Jsonl,
    /// A JSON array of objects; import takes objects one after another as well.
    Json,
    /// Comma-separated, with a header.
    Csv,
    /// Tab-separated, with a header.
    Tsv,
    /// Key, tab, value.
    Lines,
}

impl Format {
    /// The format that the extension of `path` names; that before `.gz` counts.
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = Path::new(name.strip_suffix(".gz").unwrap_or(&name));
        match name.extension()?.to_str()? {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "lines" => Some(Self::Lines),
            _ => None,
        }
    }
}

/// How records are read.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The format.
    pub format: Format,
    /// Where the key is.
    pub rule: KeyRule,
    /// The form of keys and values in *lines*.
    pub form: Form,
    /// What stands between the fields of csv and tsv; if none is given, tabs in tsv, and in csv
    /// what [`Delimiter::find`] finds.
    pub delimiter: Option<Delimiter>,
    /// What becomes of records with too few fields in csv and tsv.
    pub short_record: csv::ShortRecord,
}

/// Reads records in one of the formats.
pub enum Reader {
    /// One JSON object a line.
    Jsonl(jsonl::Reader),
    /// JSON objects over any number of lines.
    Json(array::Reader),
    /// csv and tsv.
    Csv(csv::Reader),
    /// Key, tab, value.
    Lines(lines::Reader),
}

impl Reader {
    /// Reads `input`; also returns the delimiter if it was found out.
    ///
    /// # Errors
    /// Those of the input, whose first bytes are read.
    pub fn new(
        input: Box<dyn Read>,
        options: ReaderOptions,
    ) -> io::Result<(Self, Option<Delimiter>)> {
        let limit = input::RECORD_BYTES_MAX;
        let ReaderOptions { format, rule, form, delimiter, short_record } = options;
        if format == Format::Lines {
            // Any bytes may begin a line.
            return Ok((Self::Lines(lines::Reader::new(input, form, rule, limit)), None));
        }
        let mut input = input::without_mark(input)?;
        let mut found = None;
        let reader = match format {
            Format::Jsonl | Format::Lines => Self::Jsonl(jsonl::Reader::new(input, rule, limit)),
            Format::Json => Self::Json(array::Reader::new(input, rule, limit)),
            Format::Csv | Format::Tsv => {
                let delimiter = match (delimiter, format) {
                    (Some(delimiter), _) => delimiter,
                    (None, Format::Tsv) => Delimiter::TAB,
                    (None, _) => {
                        let (sample, whole) = input::peek(input, delimiter::SAMPLE_BYTES)?;
                        input = whole;
                        *found.insert(Delimiter::find(&sample))
                    }
                };
                Self::Csv(csv::Reader::new(input, delimiter, rule, short_record, limit))
            }
        };
        Ok((reader, found))
    }

    /// Reads the next record into `record`; false at the end of the input.
    ///
    /// # Errors
    /// [`ReadError::Bad`] with line and column for what the format does not allow.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        match self {
            Self::Jsonl(reader) => reader.read(record),
            Self::Json(reader) => reader.read(record),
            Self::Csv(reader) => reader.read(record),
            Self::Lines(reader) => reader.read(record),
        }
    }

    /// The line of the record last read, from 1.
    pub fn line(&self) -> u64 {
        match self {
            Self::Jsonl(reader) => reader.line(),
            Self::Json(reader) => reader.line(),
            Self::Csv(reader) => reader.line(),
            Self::Lines(reader) => reader.line(),
        }
    }
}
