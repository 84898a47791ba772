//! The arguments that say where records come from, and how they are read.
//!
//! It opens no file.

use crate::failure::{Failure, Result};
use crate::formats::csv::ShortRecord;
use crate::formats::dialect::{Delimiter, Quote};
use crate::formats::key::{KeyFields, KeyRule};
use crate::formats::{Format, ReaderOptions};
use crate::output::Settings;
use crate::text::Form;
use crate::whole_number::any_number;
use clap::Args;
use std::path::PathBuf;

/// Default separator between the parts of a key.
const KEY_SEPARATOR: &str = "/";

/// Arguments of a verb that reads records.
#[derive(Args, Debug)]
pub struct InputArguments {
    /// The file to read, also compressed by gzip; `-` is stdin.
    pub file: PathBuf,
    /// The format of the file [default: by its extension]
    #[arg(long)]
    format: Option<Format>,
    /// The column (csv, tsv) or field (jsonl, json) that holds the key, or several between commas
    /// [default: the first]
    #[arg(long, value_name = "NAMES")]
    key: Option<String>,
    /// The separator between the parts of a key of several columns, in escape form [default: /]
    #[arg(long, value_name = "TEXT", requires = "key")]
    key_separator: Option<String>,
    /// Take the number of a record's first line as its key, in ten digits; in json the number of
    /// the record.
    #[arg(long, conflicts_with = "key")]
    key_line: bool,
    /// csv: the delimiter of fields, a character or `tab` [default: detected in the first records]
    #[arg(long, value_name = "CHARACTER", value_parser = Delimiter::parse)]
    delimiter: Option<Delimiter>,
    /// csv, tsv: the character around fields that hold any text, or `none` [default: " in csv,
    /// none in tsv]
    #[arg(long, value_name = "CHARACTER", value_parser = Quote::parse)]
    quote: Option<Quote>,
    /// csv, tsv: accept records with fewer fields than the header, without the missing ones.
    #[arg(long)]
    allow_short: bool,
    /// Leave bad records out and count them, instead of ending at the first.
    #[arg(long)]
    pub skip_bad: bool,
    /// Leave out the first N records of the file; an import that stops reports this number.
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    #[arg(value_parser = any_number)]
    pub skip: u64,
}

impl InputArguments {
    /// Returns how the file is read.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the format is not known, or an option is not for it.
    pub fn reader_options(&self, settings: Settings) -> Result<ReaderOptions> {
        let usage = |message: &str| Err(Failure::Usage(message.to_owned()));
        let Some(format) = self.format.or_else(|| Format::of_path(&self.file)) else {
            let name = self.file.display();
            let hint = "give --format jsonl, json, csv, tsv or lines";
            return usage(&format!("the format of {name} is not known; {hint}"));
        };
        let is_table = matches!(format, Format::Csv | Format::Tsv);
        if format == Format::Lines && self.key.is_some() {
            return usage("--key is for csv, tsv, jsonl and json; in lines the key comes first");
        }
        if format != Format::Lines && settings.form != Form::Plain {
            return usage("--escape and --hex are for lines; the other formats hold text");
        }
        if !is_table && self.delimiter.is_some() {
            return usage("--delimiter is for csv and tsv");
        }
        if !is_table && self.quote.is_some() {
            return usage("--quote is for csv and tsv");
        }
        let quote = self.quote.and_then(Quote::byte);
        if quote.is_some() && quote == self.delimiter.map(Delimiter::byte) {
            return usage("--quote and --delimiter are the same character");
        }
        if !is_table && self.allow_short {
            return usage("--allow-short is for csv and tsv");
        }
        let short_record = if self.allow_short { ShortRecord::Take } else { ShortRecord::Refuse };
        Ok(ReaderOptions {
            format,
            rule: self.rule()?,
            form: settings.form,
            delimiter: self.delimiter,
            quote: self.quote,
            short_record,
        })
    }

    fn rule(&self) -> Result<KeyRule> {
        let Some(list) = &self.key else {
            return Ok(if self.key_line { KeyRule::Line } else { KeyRule::First });
        };
        let separator = self.key_separator.as_deref().unwrap_or(KEY_SEPARATOR);
        let separator = Form::Escape.parse(separator.as_bytes()).map_err(|bad| {
            Failure::Usage(format!("--key-separator, byte {}: {}", bad.index + 1, bad.reason))
        })?;
        KeyFields::parse(list, separator).map(KeyRule::Named).map_err(Failure::Usage)
    }
}
