//! The verb export: writes entries as records of a file, the inverse of import where possible.
//!
//! It does not open the database.

use crate::argument::{AtArguments, BoundsArguments, FamilyArguments};
use crate::bounds::{KeyRange, earlier, is_empty, later};
use crate::destination::{self, Destination};
use crate::failure::{Failure, Result};
use crate::formats::dialect::{Dialect, Quote};
use crate::formats::key::{KeyFields, KeyRule};
use crate::formats::record::{WriteError, Written};
use crate::formats::{Format, array, csv, jsonl, lines};
use crate::interrupt;
use crate::key_form::KeyForm;
use crate::output::{Style, tell, warning};
use crate::progress::Progress;
use crate::raw_keys::{RawKeysArguments, buckets_in};
use crate::scope::{ReadScope, label};
use crate::session::Session;
use crate::source::is_gzip;
use crate::text::{Form, counted};
use clap::Args;
use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use siltdb::{Family, ReadOptions, salvage::Lost};
use std::io::{self, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

/// Text at the end of `silt export --help`.
pub const HELP: &str = "\
Formats:
  csv, tsv  If all values are JSON objects, one column for each field. A key
            column precedes them, unless the first field of every value (or the
            one --key names) is the key. Else the columns key and value. Tsv
            has no quotes, so a field with a tab or line end is refused, unless
            --quote '\"' is given here and to the import.
  jsonl     A value that is a JSON object with the key in its first field (or in
            the one --key names) is written unchanged. Any other record is
            {\"key\": …, \"value\": …}, with {\"hex\": …} for bytes that are not UTF-8,
            and \"expires_at\" (ms since 1970) if the value expires.
  json      The same in an array.
  lines     Key, tab, value. With --escape or --hex they can hold any bytes.

An import of jsonl and json restores every record byte for byte, with its expiry; take the same \
--key. One of lines restores every record that the export accepts; with --escape or --hex that is \
any record. Lines, csv and tsv do not hold an expiry: the export says how many it left out, and \
how many buckets, if --raw-keys is not given. For \
csv and tsv, all fields must also be strings, and the same in all values. A cell cannot tell a \
string from a number, nor null from an empty string or a missing field.

A record that the format cannot represent ends the export with exit code 2. The export writes a \
new file, which replaces the old one when it is complete. A failed export leaves the old file; a \
killed one also leaves a file NAME.1.tmp. A file in the directory of the database is refused.

Example:
  silt export demo.db airports.jsonl
  silt export demo.db --format lines --escape > airports.lines";

/// Arguments of `export`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file to write, compressed by gzip if its name ends in .gz; `-` is stdout.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The format to write [default: by the extension of the file]
    #[arg(long)]
    format: Option<Format>,
    /// The field of the values that holds the key [default: the first]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// csv, tsv: the character around fields with delimiters or line ends, or `none`
    /// [default: " in csv, none in tsv]
    #[arg(long, value_name = "CHARACTER", value_parser = Quote::parse)]
    quote: Option<Quote>,
    /// Leave out keys that cannot be read, and list them; the exit code is then 3.
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    bounds: BoundsArguments,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    #[command(flatten)]
    moment: AtArguments,
}

/// Writes the entries of a range to a file.
///
/// # Errors
/// [`Failure::Usage`] for entries that the format cannot represent; errors of the database and the
/// file.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let format = format(session, arguments)?;
    let scope = session.read_scope(arguments.family.name(), arguments.moment.at)?;
    let settings = session.output.settings();
    let keys = KeyForm::of(session, &arguments.family)?;
    let range = keys.range(&arguments.bounds)?;
    let name = arguments.file.display().to_string();
    let is_stdout = arguments.file == Path::new("-");
    let skipped = match arguments.skip_damaged {
        true => damage(session, &session.family_of(arguments.family.name())?)?,
        false => Vec::new(),
    };
    let ranges = arguments.raw_keys.parts(&keys, &scope, range.clone())?;
    let is_split = range.is_some_and(|range| ranges != [range]);
    let buckets = if is_split { buckets_in(&scope) } else { 0 };
    let ranges = ranges.into_iter().flat_map(|range| around(range, &skipped)).collect();
    let mut exporter = Exporter {
        scope,
        ranges,
        format,
        key: arguments.key.clone(),
        quote: arguments.quote.unwrap_or(format.quote()),
        form: settings.form,
        keys,
        exported: 0,
        expiring: 0,
        buckets,
    };
    let fail = |error: WriteError| match error {
        WriteError::Unfit(reason) => Failure::Usage(reason),
        WriteError::Io(error) if is_stdout => Failure::Stdout(error),
        WriteError::Io(error) => Failure::file("write", &name, error),
    };
    if is_stdout {
        exporter.export(&mut session.output, &fail)?;
        let exported = exporter.exported;
        session.output.flush()?;
        exporter.tell_left_out(settings.style);
        tell(&match settings.style {
            Style::Text => format!("exported {}", counted(exported, "record")),
            Style::Json => json!({ "exported": exported }).to_string(),
        });
        return left_out(&skipped);
    }
    destination::refuse_inside(&arguments.file, session.path())?;
    // An export may be the only copy, and so may the file that it replaces. So the new file gets
    // the name only when it is complete, and is durable before it is reported.
    let out = Destination::create(&arguments.file);
    let mut out = out.map_err(|error| Failure::file("create", &name, error))?;
    let written = if is_gzip(&arguments.file) {
        let mut compressed = GzEncoder::new(&mut out, Compression::default());
        exporter
            .export(&mut compressed, &fail)
            .and_then(|()| compressed.finish().map(drop).map_err(|error| fail(error.into())))
    } else {
        exporter.export(&mut out, &fail)
    };
    written.map_err(|failure| match failure {
        Failure::Interrupted => failure.with_note(format!("{name} is unchanged")),
        failure => failure,
    })?;
    out.finish().map_err(|error| fail(error.into()))?;
    exporter.tell_left_out(settings.style);
    let exported = exporter.exported;
    let text = format!("exported {}", counted(exported, "record"));
    session.output.result(&text, &json!({ "exported": exported }))?;
    left_out(&skipped)
}

/// Returns the unreadable keys of `family`, after reading and verifying all tables.
fn damage(session: &Session, family: &Family) -> Result<Vec<Lost>> {
    let progress = Progress::bytes("checking", Some(0));
    let report = session.db().check(&mut |done| {
        progress.set_total(done.bytes_total);
        progress.set(done.bytes_done);
    })?;
    let label = label(family);
    let is_of = |lost: &Lost| lost.family.as_deref().is_none_or(|name| name == label);
    // A damaged filter does not hide entries from a scan.
    let has_entries = |lost: &Lost| lost.entries_max != Some(0);
    let damage = report.damage.into_iter();
    let mut damage: Vec<_> = damage.filter(|lost| is_of(lost) && has_entries(lost)).collect();
    damage.sort_by(|a, b| a.first.cmp(&b.first));
    Ok(damage)
}

/// Returns the parts of `range` between the `skipped` ones, which are in order.
fn around(range: KeyRange, skipped: &[Lost]) -> Vec<KeyRange> {
    let (mut lower, upper) = range;
    let mut parts = Vec::new();
    for lost in skipped {
        if let Some(first) = &lost.first {
            parts.push((lower.clone(), earlier(&upper, Bound::Excluded(first.clone()))));
        }
        let Some(last) = &lost.last else { return parts };
        lower = later(&lower, Bound::Excluded(last.clone()));
    }
    parts.push((lower, upper));
    parts.retain(|part| !is_empty(part));
    parts
}

/// Fails with a list of what was left out.
fn left_out(skipped: &[Lost]) -> Result<()> {
    if skipped.is_empty() {
        return Ok(());
    }
    let parts: Vec<_> = skipped.iter().map(ToString::to_string).collect();
    Err(Failure::Lost(format!("left out what cannot be read: {}", parts.join("; "))))
}

fn format(session: &Session, arguments: &Arguments) -> Result<Format> {
    let Some(format) = arguments.format.or_else(|| Format::of_path(&arguments.file)) else {
        let hint = "give --format jsonl, json, csv, tsv or lines";
        return Err(Failure::Usage(format!("the format to write is not known; {hint}")));
    };
    if format != Format::Lines && session.output.settings().form != Form::Plain {
        let message = "--escape and --hex are for lines; the other formats hold text";
        return Err(Failure::Usage(message.to_owned()));
    }
    let is_table = matches!(format, Format::Csv | Format::Tsv);
    if arguments.quote.is_some() && !is_table {
        return Err(Failure::Usage("--quote is for csv and tsv".to_owned()));
    }
    let quote = arguments.quote.and_then(Quote::byte);
    let delimiter =
        if format == Format::Csv { Dialect::CSV.delimiter } else { Dialect::TSV.delimiter };
    if is_table && quote == Some(delimiter.byte()) {
        return Err(Failure::Usage("--quote is the delimiter of fields".to_owned()));
    }
    if format == Format::Lines && arguments.key.is_some() {
        let message = "--key is for csv, tsv and jsonl; lines hold the key itself";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(format)
}

/// A callback for each record of a pass.
type OnRecord<'a> = dyn FnMut(Written<'_>) -> Result<()> + 'a;

struct Exporter {
    scope: ReadScope,
    /// In order, and disjoint.
    ranges: Vec<KeyRange>,
    format: Format,
    key: Option<String>,
    quote: Quote,
    form: Form,
    keys: KeyForm,
    exported: u64,
    /// Of these, records whose value expires.
    expiring: u64,
    /// Buckets that are left out.
    buckets: u64,
}

impl Exporter {
    fn export(&mut self, out: &mut dyn Write, fail: &dyn Fn(WriteError) -> Failure) -> Result<()> {
        let dialect = match self.format {
            Format::Csv => Dialect { quote: self.quote, ..Dialect::CSV },
            Format::Tsv => Dialect { quote: self.quote, ..Dialect::TSV },
            Format::Jsonl | Format::Json | Format::Lines => return self.stream(out, fail),
        };
        // Two passes, because the header needs the columns of all values. Nothing is written
        // between them, since this process holds the database.
        let mut columns = csv::Columns::default();
        let key_field = self.key.clone();
        self.pass("reading", &mut |Written { key, value, .. }| {
            columns.observe(key_field.as_deref(), key, value).map_err(fail)
        })?;
        let mut writer = csv::Writer::new(out, dialect, columns).map_err(fail)?;
        self.pass("exporting", &mut |Written { key, value, .. }| {
            writer.write(key, value).map_err(fail)
        })
    }

    fn stream(&mut self, out: &mut dyn Write, fail: &dyn Fn(WriteError) -> Failure) -> Result<()> {
        let (format, form) = (self.format, self.form);
        let rule = self.key.as_ref().map_or(KeyRule::First, |name| KeyFields::one(name).into());
        let io = |error: io::Error| fail(error.into());
        if format == Format::Json {
            out.write_all(b"[").map_err(io)?;
        }
        let mut separator = "\n";
        self.pass("exporting", &mut |record| {
            if format == Format::Lines {
                return lines::write(out, form, record.key, record.value).map_err(fail);
            }
            if format == Format::Json {
                out.write_all(std::mem::replace(&mut separator, ",\n").as_bytes()).map_err(io)?;
            }
            if format == Format::Json {
                return array::write(out, &rule, record).map_err(io);
            }
            jsonl::write(out, &rule, record).map_err(io)?;
            out.write_all(b"\n").map_err(io)
        })?;
        if format == Format::Json { out.write_all(b"\n]\n").map_err(io) } else { Ok(()) }
    }

    /// Calls `on_entry` with every entry of the range.
    fn pass(&mut self, verb: &'static str, on_entry: &mut OnRecord<'_>) -> Result<()> {
        let progress = Progress::bytes(verb, None);
        let mut bytes = 0;
        (self.exported, self.expiring) = (0, 0);
        for range in &self.ranges {
            let mut cursor = self.scope.cursor_with(&ReadOptions::new().range(range.clone()))?;
            cursor.seek_to_first()?;
            while let (Some((key, value)), Some(expiry)) = (cursor.entry(), cursor.expires_at()?) {
                interrupt::check()?;
                let (shown, expires_at) = (self.keys.shown(key)?, expiry.ms());
                on_entry(Written { key: &shown, value, expires_at })?;
                self.exported += 1;
                self.expiring += u64::from(expires_at.is_some());
                bytes += (key.len() + value.len()) as u64;
                if self.exported.is_multiple_of(1024) {
                    progress.set(bytes);
                }
                cursor.next()?;
            }
        }
        Ok(())
    }

    /// Says how many buckets and expiries the export has left out.
    fn tell_left_out(&self, style: Style) {
        if self.buckets > 0 {
            let are = if self.buckets == 1 { "is" } else { "are" };
            let buckets = counted(self.buckets, "bucket");
            let hint = "--raw-keys exports the keys in which buckets are stored";
            warning(style, &format!("{buckets} {are} left out; {hint}"));
        }
        if self.expiring > 0 && !self.format.holds_expiry() {
            let values = counted(self.expiring, "value");
            let text = format!(
                "the expiry of {values} is left out, because the format has none; jsonl and json do"
            );
            warning(style, &text);
        }
    }
}
