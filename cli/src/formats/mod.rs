//! The formats that `import` reads and `export` writes.
//!
//! They know keys and values, not databases.

pub mod record;
pub mod input;
pub mod dialect;
pub mod fields;
pub mod detection;
pub mod key;
pub mod object;
pub mod wrapper;
pub mod lines;
pub mod jsonl;
pub mod array;
pub mod csv;

use crate::text::Form;
use clap::ValueEnum;
use detection::Layout;
use dialect::{Delimiter, Quote};
use key::KeyRule;
use record::{ReadError, Record};
use std::{
    io::{self, Read},
    path::Path,
};

/// A format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Jsonl,
    /// A JSON array of objects; import also accepts a sequence of objects.
    Json,
    /// Comma-separated, with a header.
    Csv,
    /// Tab-separated, with a header.
    Tsv,
    /// Key, tab, value.
    Lines,
}

impl Format {
    /// Returns whether a record can say when its value expires.
    pub fn holds_expiry(self) -> bool {
        matches!(self, Self::Jsonl | Self::Json)
    }

    /// Returns the quotes of csv and tsv by default: none in tsv, where a quotation mark is text.
    pub fn quote(self) -> Quote {
        if self == Self::Csv { Quote::DOUBLE } else { Quote::NONE }
    }

    /// Returns the format for the extension of `path`; in `.gz` files, for the extension before it.
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

/// Options of a reader.
#[derive(Clone, Debug)]
pub struct ReaderOptions {
    /// The format.
    pub format: Format,
    /// The rule for keys.
    pub rule: KeyRule,
    /// The form of keys and values in *lines*.
    pub form: Form,
    /// The delimiter of csv and tsv. By default it is a tab in tsv, and detected in csv.
    pub delimiter: Option<Delimiter>,
    /// The quotes of csv and tsv. By default they are those of [`Format::quote`].
    pub quote: Option<Quote>,
    /// The treatment of records with too few fields in csv and tsv.
    pub short_record: csv::ShortRecord,
}

/// A reader of any format.
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
    /// Opens a reader of `input`, and returns the delimiter if it was detected.
    ///
    /// # Errors
    /// Errors of the input, whose first bytes are read; `InvalidData` for another encoding, and for
    /// a header with another delimiter than the records.
    pub fn new(
        input: Box<dyn Read>,
        options: ReaderOptions,
    ) -> io::Result<(Self, Option<Delimiter>)> {
        let limit = input::RECORD_BYTES_MAX;
        let ReaderOptions { format, rule, form, delimiter, quote, short_record } = options;
        if format == Format::Lines {
            // No byte order mark is removed, because a line may begin with any bytes.
            return Ok((Self::Lines(lines::Reader::new(input, form, rule, limit)), None));
        }
        let input = input::without_mark(input)?;
        let mut found = None;
        let reader = match format {
            Format::Jsonl | Format::Lines => Self::Jsonl(jsonl::Reader::new(input, rule, limit)),
            Format::Json => Self::Json(array::Reader::new(input, rule, limit)),
            Format::Csv | Format::Tsv => {
                let (sample, whole) = input::peek(input, detection::SAMPLE_BYTES)?;
                let quote = quote.unwrap_or(format.quote());
                let layout = match format {
                    Format::Tsv => Layout::of_tsv(&sample, delimiter, quote),
                    _ => Layout::of_csv(&sample, delimiter, quote),
                };
                let layout =
                    layout.map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
                if delimiter.is_none() && format == Format::Csv {
                    found = Some(layout.dialect.delimiter);
                }
                Self::Csv(csv::Reader::new(whole, layout, rule, short_record, limit))
            }
        };
        Ok((reader, found))
    }

    /// Reads the next record into `record`; false at the end of the input.
    ///
    /// # Errors
    /// [`ReadError::Bad`] with line and column for a record that violates the format.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        record.expires_at = None;
        match self {
            Self::Jsonl(reader) => reader.read(record),
            Self::Json(reader) => reader.read(record),
            Self::Csv(reader) => reader.read(record),
            Self::Lines(reader) => reader.read(record),
        }
    }

    /// Returns the line of the last record, from 1.
    pub fn line(&self) -> u64 {
        match self {
            Self::Jsonl(reader) => reader.line(),
            Self::Json(reader) => reader.line(),
            Self::Csv(reader) => reader.line(),
            Self::Lines(reader) => reader.line(),
        }
    }

    /// Returns the number of lines that the last record of csv and tsv takes, from 1; in other
    /// formats 1.
    pub fn lines(&self) -> u64 {
        match self {
            Self::Csv(reader) => reader.lines(),
            Self::Jsonl(_) | Self::Json(_) | Self::Lines(_) => 1,
        }
    }
}
