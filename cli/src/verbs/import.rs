//! The verb import: records of a file become entries, chunk by chunk.
//!
//! Memory is bounded by one chunk, however long the input. The first chunk is read before there is
//! a database: nothing is made for what is bad from the start. It does not open the database.

use crate::argument::{FamilyArguments, parse_durability};
use crate::failure::{Failure, Result};
use crate::formats::record::{ReadError, Record};
use crate::formats::{Format, Reader};
use crate::limits::check_entry;
use crate::output::{Settings, Style, message};
use crate::progress::Progress;
use crate::session::Session;
use crate::source::Source;
use crate::text::Form;
use clap::Args;
use serde_json::json;
use siltdb::{Durability, Error, Family, FamilyOptions, WriteBatch};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// A chunk is committed at this size at the latest, in bytes, however few its records.
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// What `import` is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file to read; `-` is stdin.
    file: PathBuf,
    /// The format of the file [default: by its extension]
    #[arg(long)]
    format: Option<Format>,
    /// The column (csv, tsv) or field (jsonl) that holds the key [default: the first]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
    /// Commit this many records at once; each commit is atomic.
    #[arg(long, value_name = "N", default_value = "1000")]
    chunk: NonZeroUsize,
    /// After each commit, append the number of records committed so far to this file.
    #[arg(long, value_name = "FILE")]
    ack: Option<PathBuf>,
    #[command(flatten)]
    family: FamilyArguments,
    /// What each commit survives: `volatile`, `buffered` (a crash of the process), `interval:MS` or
    /// `synced` (a power cut); at the end everything is synced [default: buffered]
    #[arg(long, value_name = "CLASS", value_parser = parse_durability)]
    durability: Option<Durability>,
}

/// An import with its files open and its first chunk read, before a database is made for it.
pub struct Job {
    reader: Reader,
    name: String,
    /// The records of the first chunk with their lines, as far as they are not committed.
    first: VecDeque<(u64, Record)>,
    /// Nothing follows `first`.
    has_ended: bool,
    /// The line of the record last taken.
    line: u64,
    acknowledge: Acknowledge,
    progress: Progress,
    bytes_read: crate::source::BytesRead,
    chunk: usize,
    family: Option<String>,
    durability: Durability,
}

impl Arguments {
    /// Opens the input and the file for acknowledgements, and reads the first chunk.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the format is not known, or a record of the first chunk is bad;
    /// [`Failure::File`] if a file cannot be opened or read.
    pub fn job(&self, settings: Settings) -> Result<Job> {
        let Some(format) = self.format.or_else(|| Format::of_path(&self.file)) else {
            let name = self.file.display();
            let hint = "give --format jsonl, csv, tsv or lines";
            return Err(Failure::Usage(format!("the format of {name} is not known; {hint}")));
        };
        if format == Format::Lines && self.key.is_some() {
            let message = "--key is for csv, tsv and jsonl; in lines the key comes first";
            return Err(Failure::Usage(message.to_owned()));
        }
        if format != Format::Lines && settings.form != Form::Plain {
            let message = "--escape and --hex are for lines; the other formats hold text";
            return Err(Failure::Usage(message.to_owned()));
        }
        let source = Source::open(&self.file)?;
        let mut job = Job {
            reader: Reader::new(format, source.input, self.key.clone(), settings.form),
            name: source.name,
            first: VecDeque::new(),
            has_ended: false,
            line: 0,
            acknowledge: Acknowledge::open(self.ack.as_ref())?,
            progress: Progress::bytes("importing", source.bytes_total),
            bytes_read: source.bytes_read,
            chunk: self.chunk.get(),
            family: self.family.family.clone(),
            durability: self.durability.unwrap_or(Durability::Buffered),
        };
        job.read_first()?;
        Ok(job)
    }
}

/// Does `job`.
///
/// # Errors
/// [`Failure::Usage`] with line and column for a bad record; what was committed before it stays.
pub fn run(session: &mut Session, mut job: Job) -> Result<()> {
    let family = open_family(session, job.family.as_deref())?;
    let mut imported = 0;
    let outcome = job.transfer(session, &family, &mut imported);
    // What was committed before a bad record is as safe as after a good end.
    match job.durability {
        Durability::Volatile => session.db().flush()?,
        _ => session.db().sync_wal()?,
    }
    drop(job);
    outcome?;
    let text = format!("imported {imported} records");
    session.output.result(&text, &json!({ "imported": imported }))
}

/// The family to fill; an import into a new one makes it.
fn open_family(session: &Session, name: Option<&str>) -> Result<Family> {
    let Some(name) = name else { return session.family(None) };
    match session.family(Some(name)) {
        Err(Failure::Missing(_)) => {}
        found => return found,
    }
    let family = session.db().create_family(name, FamilyOptions::new())?;
    if session.output.settings().style == Style::Text {
        message(&format!("created family `{name}`"));
    }
    Ok(family)
}

impl Job {
    /// Reads what the first commit takes: where a record of it is bad, no database is made.
    fn read_first(&mut self) -> Result<()> {
        let mut bytes = 0;
        while self.first.len() < self.chunk && bytes < CHUNK_BYTES_MAX {
            let mut record = Record::default();
            if !self.reader.read(&mut record).map_err(|e| self.bad_record(e, 0))? {
                self.has_ended = true;
                return Ok(());
            }
            let line = self.reader.line();
            let checked = check_entry(&record.key, &record.value);
            checked.map_err(|error| self.refused(line, &error, 0))?;
            bytes += size_of::<(u64, Record)>() + record.key.len() + record.value.len();
            self.first.push_back((line, record));
        }
        Ok(())
    }

    /// Takes the next record; false at the end of the input.
    fn take(&mut self, record: &mut Record) -> std::result::Result<bool, ReadError> {
        if let Some((line, first)) = self.first.pop_front() {
            (self.line, *record) = (line, first);
            return Ok(true);
        }
        if self.has_ended || !self.reader.read(record)? {
            return Ok(false);
        }
        self.line = self.reader.line();
        Ok(true)
    }

    fn transfer(&mut self, session: &Session, family: &Family, imported: &mut u64) -> Result<()> {
        let mut record = Record::default();
        let mut batch = WriteBatch::new();
        loop {
            let more = self.take(&mut record).map_err(|e| self.bad_record(e, *imported))?;
            if more {
                batch
                    .put(family, &record.key, &record.value)
                    .map_err(|error| self.refused(self.line, &error, *imported))?;
            }
            let count = batch.len();
            let full = count >= self.chunk || batch.bytes() >= CHUNK_BYTES_MAX;
            if full || (!more && count > 0) {
                session.write(std::mem::replace(&mut batch, WriteBatch::new()), self.durability)?;
                *imported += count as u64;
                self.acknowledge.append(*imported)?;
                self.progress.set(self.bytes_read.get());
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn bad_record(&self, error: ReadError, imported: u64) -> Failure {
        match error {
            ReadError::Bad(bad) => self.stopped(bad.to_string(), imported),
            ReadError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                let line = self.reader.line() + 1;
                self.stopped(format!("line {line}, column 1: {error}"), imported)
            }
            ReadError::Io(error) => Failure::file("read", &self.name, error),
        }
    }

    /// A record that the database does not take.
    fn refused(&self, line: u64, error: &Error, imported: u64) -> Failure {
        self.stopped(format!("line {line}, column 1: {error}"), imported)
    }

    fn stopped(&self, reason: String, imported: u64) -> Failure {
        let name = &self.name;
        Failure::Usage(format!("{name}: {reason}; {imported} records were imported before"))
    }
}

/// Tells a file how many records are committed.
struct Acknowledge(Option<(File, String)>);

impl Acknowledge {
    fn open(path: Option<&PathBuf>) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        let name = path.display().to_string();
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| Failure::file("open", &name, error))?;
        Ok(Self(Some((file, name))))
    }

    /// One write per commit, straight to the operating system: a kill leaves no half line.
    fn append(&mut self, imported: u64) -> Result<()> {
        let Some((file, name)) = &mut self.0 else { return Ok(()) };
        let line = format!("{imported}\n");
        file.write_all(line.as_bytes())
            .and_then(|()| file.flush())
            .map_err(|error| Failure::file("write", name.clone(), error))
    }
}
