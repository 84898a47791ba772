//! The verb import: writes the records of a file as entries, chunk by chunk.
//!
//! Memory is bounded by one chunk, or a few small ones of sorted records, whatever the length of
//! the input. The verb reads the first chunk before a database is created, so that bad input
//! creates none. It does not open the database.

pub mod input;
mod tally;
mod known;
mod chunk;
mod load;
mod acknowledge;

use crate::argument::{FamilyArguments, a_ttl, parse_durability};
use crate::failure::{Failure, Result};
use crate::formats::dialect::Delimiter;
use crate::formats::record::{BadRecord, ReadError};
use crate::formats::{Format, Reader};
use crate::hint::told;
use crate::interrupt;
use crate::key_form::KeyForm;
use crate::limits::check_entry;
use crate::output::{Settings, Style, message};
use crate::progress::Progress;
use crate::raw_keys::{RawKeysArguments, has_buckets, refuse};
use crate::session::Session;
use crate::source::{BytesRead, Source, check_records, is_gzip, read_failure};
use crate::text::{counted, grouped, shortened_bytes};
use crate::verbs::families::open_family;
use crate::whole_number::number_in;
use acknowledge::Acknowledge;
use chunk::{Chunk, Placed, Presence};
use clap::{Args, ValueEnum};
use input::InputArguments;
use known::Known;
use load::{Loader, OnRecord};
use siltdb::inspect::refuse_foreign;
use siltdb::{Durability, Family, Ingested, WriteBatch};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tally::{BadPlaced, Span, Tally};

/// Text at the end of `silt import --help`.
pub const HELP: &str = "\
Formats (also in gzip, read as by gunzip; lines only if the name of the file ends in .gz; other
content in a file of such a name is refused):
  csv, tsv  A header, then records. The key is a column, the value the whole
            record as a JSON object of strings. Csv has quotes as in RFC 4180.
            In tsv a quotation mark is text, unless --quote '\"' is given. The
            delimiter of csv is that of a first line as `sep=;`, or detected:
            the one of comma, tab, semicolon and | that splits the first ten
            records into the most fields, and into the same number each.
  jsonl     One JSON object a line. The value is its text. The key is the text
            of a field that is a string or a number. A record as the export writes
            it, {\"key\": …, \"value\": …} with or without \"expires_at\" (ms since
            1970), is that key, value and expiry.
  json      An array or a sequence of such objects. The value is the object
            without white space between its tokens.
  lines     Key, tab, value, split at the first tab. With --escape or --hex they
            can hold any bytes.

Keys: a record replaces the value of its key. The result counts new keys and overwritten values, \
with a warning if more than 1 % of the records overwrote one. --key A,B makes a key of several \
fields (\\, is a comma in a name). --key-line makes it of the line number; in lines the whole line \
is then the value.

--sorted loads records whose keys ascend into tables directly, all or none, past the log. A record \
out of order ends the import with its line, and nothing is imported. It does not count which keys \
are new.

A bad record is reported with line and column (a field in csv and tsv, a byte in the others). It \
ends the import with exit code 2, unless --skip-bad leaves it out. Chunks committed before it \
stay. The message says how many records they have, and which --skip continues after them. The same \
applies to Ctrl-C and a full disk. A bad record in the first chunk creates no database. A missing \
family is created. A record has at most 256 MiB. A chunk is committed at 64 MiB at the latest.

Example:
  silt import demo.db examples/data/airports.csv
  silt import demo.db flights.csv.gz --key year,month,day,carrier,flight
  curl -s https://example.org/events.json | silt import demo.db - --format json --key id";

/// Largest chunk, in bytes: it is committed at this size, however few its records.
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// Largest chunk of sorted records, in bytes: several are in memory at once.
const SORTED_BYTES_MAX: usize = 1 << 20;

/// Default number of records of a chunk.
const CHUNK_RECORDS: usize = 1000;

/// The treatment of a record whose key exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnDuplicate {
    /// Its value replaces the existing one.
    #[default]
    Replace,
    /// The existing value stays.
    Keep,
    /// It ends the import.
    Fail,
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    input: InputArguments,
    /// What to do with a record whose key exists already.
    #[arg(long, value_name = "ACTION", value_enum, default_value_t)]
    on_duplicate: OnDuplicate,
    /// The keys ascend: load all records at once, past the log, and replace existing values.
    #[arg(long, conflicts_with_all = ["on_duplicate", "chunk", "ack", "durability"])]
    sorted: bool,
    /// Commit this many records at once, from 1; each commit is atomic.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = parse_chunk)]
    chunk: usize,
    /// After each commit, append to this file how many records of the input are done.
    #[arg(long, value_name = "FILE")]
    ack: Option<PathBuf>,
    /// The values expire after this time, except for those of records with `expires_at`.
    #[arg(long, value_name = "TIME", value_parser = a_ttl)]
    ttl: Option<Duration>,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    /// What each commit survives: `volatile`, `buffered` (a crash of the process), `interval:MS` or
    /// `synced` (a power cut); at the end everything is synced [default: buffered]
    #[arg(long, value_name = "CLASS", value_parser = parse_durability)]
    durability: Option<Durability>,
}

fn parse_chunk(text: &str) -> std::result::Result<usize, String> {
    number_in(text, 1..=usize::MAX)
}

/// An import with open files and its first chunk read, before the database is created.
pub struct Job {
    reader: Reader,
    name: String,
    /// Records that are read and not committed.
    chunk: Chunk,
    has_ended: bool,
    /// Records read, including bad and skipped ones.
    taken: u64,
    tally: Tally,
    acknowledge: Acknowledge,
    order: Order,
    progress: Progress,
    bytes_read: BytesRead,
    skip: u64,
    bad: OnBad,
    on_duplicate: OnDuplicate,
    chunk_records: usize,
    ttl: Option<Duration>,
    family: FamilyArguments,
    raw_keys: RawKeysArguments,
    /// Whether the family has buckets that records must not change.
    spares_buckets: bool,
    durability: Durability,
}

/// The order of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Any,
    Sorted,
}

/// The treatment of a bad record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnBad {
    Stop,
    LeaveOut,
}

impl Arguments {
    /// Opens the input and the file for acknowledgements, and reads the first chunk. `db` is the
    /// directory of the database.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the format is unknown, or a record of the first chunk is bad;
    /// [`Failure::File`] if a file cannot be opened or read.
    pub fn job(&self, db: &Path, settings: Settings) -> Result<Job> {
        if db.is_file() {
            refuse_foreign(db)?;
            let name = db.display();
            let hint = "the database comes first: `silt import DB FILE`";
            return Err(Failure::Usage(format!("{name} is a file; {hint}")));
        }
        let mut job = self.input.open(settings, "importing")?;
        job.acknowledge = Acknowledge::open(self.ack.as_deref(), db)?;
        job.order = if self.sorted { Order::Sorted } else { Order::Any };
        job.on_duplicate = self.on_duplicate;
        job.chunk_records = self.chunk;
        job.ttl = self.ttl;
        job.family = self.family.clone();
        job.raw_keys = self.raw_keys;
        job.durability = self.durability.unwrap_or(Durability::Buffered);
        job.fill()?;
        Ok(job)
    }
}

impl InputArguments {
    /// Opens the input and reads the first records of those whose keys ascend.
    ///
    /// # Errors
    /// As [`Arguments::job`].
    pub fn job(&self, settings: Settings, verb: &'static str) -> Result<Job> {
        let mut job = self.open(settings, verb)?;
        job.order = Order::Sorted;
        job.fill()?;
        Ok(job)
    }

    fn open(&self, settings: Settings, verb: &'static str) -> Result<Job> {
        // Before the format: the extension of such a file is that of none.
        check_records(&self.file)?;
        let options = self.reader_options(settings)?;
        let mut source = Source::open(&self.file)?;
        if options.format != Format::Lines || is_gzip(&self.file) {
            source = source.uncompressed(&self.file, settings.style)?;
        }
        let reader = Reader::new(source.input, options);
        let (reader, found) = reader.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Failure::Usage(format!("{}: {error}", source.name)),
            _ => read_failure(&source.name, error),
        })?;
        if let Some(delimiter) = found.filter(|found| *found != Delimiter::COMMA) {
            let name = delimiter.name();
            message(
                settings.style,
                &format!("fields stand between {name}; --delimiter sets another"),
            );
        }
        Ok(Job {
            reader,
            name: source.name,
            chunk: Chunk::default(),
            has_ended: false,
            taken: 0,
            tally: Tally::default(),
            acknowledge: Acknowledge::NONE,
            order: Order::Any,
            progress: Progress::bytes(verb, source.bytes_total),
            bytes_read: source.bytes_read,
            skip: self.skip,
            bad: if self.skip_bad { OnBad::LeaveOut } else { OnBad::Stop },
            on_duplicate: OnDuplicate::Replace,
            chunk_records: CHUNK_RECORDS,
            ttl: None,
            family: FamilyArguments::default(),
            raw_keys: RawKeysArguments::default(),
            spares_buckets: false,
            durability: Durability::Buffered,
        })
    }
}

/// Runs `job`.
///
/// # Errors
/// [`Failure::Usage`] with line and column of a bad record; [`Failure::Interrupted`]; errors of the
/// database. Earlier commits stay, and the failure says how to continue.
pub fn run(session: &mut Session, mut job: Job) -> Result<()> {
    let family = open_family(session, job.family.name())?;
    let keys = KeyForm::new(session.output.settings().form, family.key_order());
    job.spares_buckets = !job.raw_keys.is_given() && has_buckets(&family)?;
    if job.order == Order::Sorted {
        return run_sorted(session, job, (&family, &keys));
    }
    let mut known = Known::of(&family)?;
    let before = known.before();
    let outcome = job.transfer(session, (&family, &keys), &mut known);
    // After a bad record, earlier commits are made as safe as at a regular end.
    let synced = match job.durability {
        Durability::Volatile => session.db().flush(),
        _ => session.db().sync_wal(),
    };
    let settings = session.output.settings();
    job.progress.end();
    job.tell(settings.style);
    let Job { tally, .. } = job;
    match (outcome, synced) {
        (Ok(()), synced) => synced?,
        (outcome @ Err(_), Ok(())) => return outcome,
        (Err(failure), Err(error)) => {
            return Err(
                failure.with_note(format!("and what was imported is not synced: {}", told(&error)))
            );
        }
    }
    tally.warn(settings.style, before);
    session.output.result(&tally.to_string(), &tally.json())
}

/// Loads the records of `job`, whose keys ascend, at once or not at all.
fn run_sorted(
    session: &mut Session,
    mut job: Job,
    (family, keys): (&Family, &KeyForm),
) -> Result<()> {
    let (mut ingestion, ttl) = (family.ingest()?, job.ttl);
    job.each_sorted(keys, &mut |record| {
        ingestion.put_with(&record.key, &record.value, &record.write_options(ttl))
    })?;
    job.tally.new = ingestion.entries();
    let ingested = ingestion.finish()?;
    job.tell(session.output.settings().style);
    let Ingested { sequence, entries, tables, bytes, .. } = ingested;
    let (records, in_tables) = (counted(entries, "record"), counted(tables, "table"));
    let text = format!("imported {records} in {in_tables} ({})", counted(bytes, "byte"));
    let mut object = job.tally.json();
    object["sequence"] = sequence.into();
    object["tables"] = tables.into();
    object["bytes"] = bytes.into();
    session.output.result(&text, &object)
}

impl Job {
    /// Reads the records of the next commit.
    fn fill(&mut self) -> Result<()> {
        self.chunk.clear();
        let bytes_max = match self.order {
            Order::Any => CHUNK_BYTES_MAX,
            Order::Sorted => SORTED_BYTES_MAX,
        };
        while self.chunk.records().len() < self.chunk_records && self.chunk.bytes() < bytes_max {
            interrupt::check().map_err(|failure| self.stopped(failure))?;
            let slot = self.chunk.next_slot();
            let read = self.reader.read(&mut slot.record);
            slot.line = self.reader.line();
            let bad = match read {
                Ok(false) => {
                    self.has_ended = true;
                    // Ctrl-C also ends the program at the other end of a pipe, and so the input.
                    return interrupt::check().map_err(|failure| self.stopped(failure));
                }
                Ok(true) => check_entry(&slot.record.key, &slot.record.value).err().map(|error| {
                    BadRecord { line: slot.line, column: 1, reason: error.to_string() }
                }),
                Err(ReadError::Bad(bad)) => Some(bad),
                Err(ReadError::Broken(bad)) => return Err(self.broken(bad)),
                Err(ReadError::Io(error)) => return Err(self.unreadable(error)),
            };
            self.taken += 1;
            slot.number = self.taken;
            match bad {
                _ if self.taken <= self.skip => {}
                None => {
                    self.chunk.accept();
                    let span = Span { line: self.reader.line(), lines: self.reader.lines() };
                    if span.lines > 1 {
                        self.tally.span(span);
                    }
                }
                Some(bad) if self.bad == OnBad::LeaveOut => {
                    self.tally.leave_out(&BadPlaced { number: self.taken, bad });
                }
                Some(bad) => {
                    return Err(self.refused(&BadPlaced { number: self.taken, bad }));
                }
            }
        }
        Ok(())
    }

    /// Converts the keys of the next commit from the text of the family's order, and refuses those
    /// that store buckets.
    fn encode(&mut self, keys: &KeyForm) -> Result<()> {
        let bad = match (keys.has_text(), self.spares_buckets) {
            (true, _) => self.chunk.encode(keys),
            (false, true) => self.chunk.keep(|key| refuse(key)),
            (false, false) => return Ok(()),
        };
        for bad in bad {
            match self.bad {
                OnBad::LeaveOut => self.tally.leave_out(&bad),
                OnBad::Stop => return Err(self.refused(&bad)),
            }
        }
        Ok(())
    }

    fn transfer(
        &mut self,
        session: &Session,
        (family, keys): (&Family, &KeyForm),
        known: &mut Known,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        loop {
            self.encode(keys)?;
            let looked_up = self.chunk.look_up(family, known);
            looked_up.map_err(|error| self.stopped(error.into()))?;
            if self.on_duplicate == OnDuplicate::Fail {
                let is_present = |placed: &&Placed| placed.presence == Presence::Present;
                if let Some(placed) = self.chunk.records().iter().find(is_present) {
                    return Err(self.duplicate(placed));
                }
            }
            let mut committed = self.tally.clone();
            for Placed { record, presence, .. } in self.chunk.records() {
                match (presence, self.on_duplicate) {
                    (Presence::New, _) => committed.new += 1,
                    (Presence::Present, OnDuplicate::Keep) => {
                        committed.kept += 1;
                        continue;
                    }
                    (Presence::Present, _) => committed.overwritten += 1,
                }
                // A record that is too long was refused when it was read.
                let options = record.write_options(self.ttl);
                let put = batch.put_with(family, &record.key, &record.value, &options);
                put.map_err(|error| self.stopped(error.into()))?;
            }
            if !batch.is_empty() {
                let written = session.write(std::mem::take(&mut batch), self.durability);
                written.map_err(|failure| self.stopped(failure))?;
            }
            committed.done = self.taken;
            if committed.done > self.tally.done.max(self.skip) {
                self.acknowledge.append(committed.done)?;
            }
            self.tally = committed;
            self.progress.set(self.bytes_read.get());
            if self.has_ended {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Calls `put` with each record, in the order of the input, on another thread: it loads a chunk
    /// while this one reads the next.
    ///
    /// # Errors
    /// [`Failure::Usage`] with the line of a bad record, and of one that `put` refuses as invalid;
    /// [`Failure::Interrupted`]; errors of the input and of `put`.
    pub fn each_sorted(&mut self, keys: &KeyForm, put: &mut OnRecord<'_>) -> Result<()> {
        let (read, loaded) = load::while_reading(put, |loader| self.read_for(keys, loader))?;
        loaded.map_err(|load::Refused { line, error }| match error.kind() {
            siltdb::ErrorKind::InvalidArgument => {
                let reason = format!("{}: line {line}: {}", self.name, told(&error));
                self.stopped(Failure::Usage(reason))
            }
            _ => self.stopped(error.into()),
        })?;
        read
    }

    fn read_for(&mut self, keys: &KeyForm, loader: &Loader) -> Result<()> {
        loop {
            self.encode(keys)?;
            self.tally.done = self.taken;
            self.progress.set(self.bytes_read.get());
            let Some(next) = loader.exchange(std::mem::take(&mut self.chunk)) else {
                return Ok(());
            };
            self.chunk = next;
            if self.has_ended {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// Reports the bad records that were left out, and fields that span lines.
    pub fn tell(&self, style: Style) {
        self.tally.tell(style);
        if self.has_ended && self.taken < self.skip {
            let (skip, records) = (self.skip, counted(self.taken, "record"));
            message(
                style,
                &format!("the input has {records}; --skip {skip} leaves all of them out"),
            );
        }
    }

    fn unreadable(&self, error: std::io::Error) -> Failure {
        if error.kind() == ErrorKind::InvalidData && interrupt::check().is_ok() {
            let line = self.reader.line() + 1;
            let bad = BadRecord { line, column: 1, reason: error.to_string() };
            return self.broken(bad);
        }
        self.stopped(read_failure(&self.name, error))
    }

    /// The failure of an input that cannot be read on from a bad record.
    fn broken(&self, bad: BadRecord) -> Failure {
        let placed = BadPlaced { number: self.taken + 1, bad };
        self.stopped(Failure::Usage(format!("{}: {placed}", self.name)))
    }

    /// The failure of a bad record. Without `--skip-bad`, `--skip` alone would meet it again.
    fn refused(&self, bad: &BadPlaced) -> Failure {
        let failure = self.stopped(Failure::Usage(format!("{}: {bad}", self.name)));
        failure.with_note("`--skip-bad` leaves bad records out".to_owned())
    }

    /// The failure for a key that exists, if that is not permitted.
    fn duplicate(&self, placed: &Placed) -> Failure {
        let Placed { number, line, record, .. } = placed;
        let (name, number, key) = (&self.name, grouped(*number), shortened_bytes(&record.key));
        let reason =
            format!("{name}: record {number}, line {line}: the key `{key}` is there already");
        self.stopped(Failure::Usage(reason))
    }

    /// The failure of an import that stops because of `failure`.
    fn stopped(&self, failure: Failure) -> Failure {
        if self.order == Order::Sorted {
            return failure.with_note("nothing was written".to_owned());
        }
        let imported = counted(self.tally.new + self.tally.overwritten, "record");
        let were = if imported == "1 record" { "was" } else { "were" };
        let done = self.tally.done.max(self.skip);
        let note = format!("{imported} {were} imported before");
        failure.with_note(match done {
            0 => note,
            _ => format!("{note}, `--skip {done}` goes on after them"),
        })
    }
}
