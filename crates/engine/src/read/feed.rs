//! Feeds: read the commits of the log in order, after their publication.
//!
//! A feed costs writers nothing but log files that are recycled later. The log already holds every
//! commit, in order. A feed reads the log files, but only up to the published sequence number, so
//! everything it reads is filled. It knows neither families nor keys nor readers.
//!
//! Operations that the log lacks are reported as a range of sequence numbers. These are commits
//! that were not logged, and what a power failure took from segments that were already flushed, or
//! from the separated values that they point to.
//!
//! # Seeded fault
//! `feed_skips_a_commit`: a feed skips the first record of each segment.

use crate::{
    blobs::{Blobs, with_values},
    catalog::Catalog,
    database::Database,
    database::installer::Installer,
    log::Log,
    log::pins::{FeedPin, Found, KnownSegment, Origin},
    options::EngineOptions,
};
use siltdb_base::{
    budget::{Charge, Part},
    error::{Error, ErrorKind, Result},
    fs::Fs,
    id::{SegmentId, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    edit::Change,
    family_batch,
    file_name::FileName,
    log::{
        read::{Record, SegmentReader, Stop},
        record::RecordKind,
    },
    prepared::{Decision, split_decision},
};
use std::time::Duration;

/// The longest wait before a feed checks whether the database was closed.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a feed reads of the log at once, in bytes.
const WINDOW_BYTES: usize = 1 << 20;

/// A range of sequence numbers, and the commit that has them.
#[derive(Clone, Debug)]
pub struct FeedItem {
    /// The first sequence number.
    pub first: SequenceNumber,
    /// The last sequence number.
    pub last: SequenceNumber,
    /// The commit; `None` if the log does not have it.
    pub commit: Option<FeedCommit>,
}

/// The content of a commit.
#[derive(Clone, Debug)]
pub struct FeedCommit {
    /// The families that it created or dropped. They take the first sequence number.
    pub families: Vec<Change>,
    /// Its operations, in the encoding of a batch.
    pub operations: Vec<u8>,
    /// The number of its operations.
    pub count: u32,
}

/// A place in the order of commits, and a pin of the log after it.
#[derive(Debug)]
pub struct Feed {
    pin: FeedPin,
    place: Place,
    /// For the window on the log, and the commit that was returned last.
    charge: Charge,
}

#[derive(Debug)]
struct Place {
    /// The next sequence number to read.
    next: SequenceNumber,
    reader: Option<Reader>,
}

#[derive(Debug)]
struct Reader {
    segment: SegmentId,
    reader: SegmentReader,
    /// Everything up to this number was filled when the reader was made.
    filled: SequenceNumber,
}

impl Feed {
    /// A feed of the commits from `first` on; with `None`, of all commits that the log still has.
    /// If `first` is in the middle of a commit, the whole commit is read.
    ///
    /// # Errors
    /// `NotFound`, if the log does not reach back that far: the error names the oldest sequence
    /// number that it has. `InvalidArgument`, if `first` is beyond the next commit. `Closed`.
    pub fn new(database: &Database, first: Option<SequenceNumber>) -> Result<Self> {
        database.health.check_open()?;
        let end = database.log.publisher.published().next();
        let pins = database.log.wal.pins();
        let first = match first {
            Some(first) => first.max(SequenceNumber(1)),
            None => pins.oldest().unwrap_or(end),
        };
        if first > end {
            return Err(Error::invalid("no commit has this sequence number yet")
                .with_mismatch(format_args!("at most {}", end.0), first.0));
        }
        let pin = pins.follow(first, end).map_err(|oldest| not_retained(first, oldest))?;
        let charge = Charge::new(&database.memory.budget, Part::Feeds, WINDOW_BYTES);
        database.memory.cache.fit();
        Ok(Self { pin, place: Place { next: first, reader: None }, charge })
    }

    /// The sequence number at which a later feed can continue.
    #[must_use]
    pub fn position(&self) -> SequenceNumber {
        self.place.next
    }

    /// The next commit; `None` if none was published for `timeout`.
    ///
    /// # Errors
    /// `NotFound`, if the feed was so slow that it lost its pin: the error names the lost range.
    /// `Corruption`, with file and offset; failures of reading; `Closed`.
    pub fn next(&mut self, database: &Database, timeout: Duration) -> Result<Option<FeedItem>> {
        let mut left = timeout;
        loop {
            database.health.check_open()?;
            if !self.pin.is_held() {
                return Err(self.lost(&database.log, &database.options));
            }
            let published = database.log.publisher.published();
            if self.place.next <= published {
                if let Some(item) =
                    self.read(&database.installer(), &database.options, published)?
                {
                    return Ok(Some(item));
                }
                continue;
            }
            if left.is_zero() {
                return Ok(None);
            }
            let patience = left.min(PATIENCE);
            if !database.log.publisher.wait_within(self.place.next, patience) {
                left -= patience;
            }
        }
    }

    /// Reads a record that is published up to `published`; `None`, if it has nothing for a feed.
    fn read(
        &mut self,
        installer: &Installer<'_>,
        options: &EngineOptions,
        published: SequenceNumber,
    ) -> Result<Option<FeedItem>> {
        let Self { pin, place, .. } = self;
        let before = place.next;
        let read = pin.read(place.next, |found| place.read_in(installer, found, published));
        let Some(read) = read else { return Err(self.lost(installer.log, options)) };
        let (item, next) = read?;
        assert!(next > before, "a feed at {before} would go on at {next}");
        let first = item.as_ref().map_or(before, |item| item.first);
        assert!(first <= before, "a feed would skip what is between {before} and {first}");
        self.place.next = next;
        let commit = item.as_ref().and_then(|item| item.commit.as_ref());
        let operations = commit.map_or(0, |commit| commit.operations.len());
        self.charge.resize(WINDOW_BYTES + operations);
        Ok(item)
    }

    fn lost(&self, log: &Log, options: &EngineOptions) -> Error {
        let next = self.place.next;
        let end = log.publisher.published().next();
        let oldest = log.wal.pins().oldest().unwrap_or(end);
        let last = oldest.0.max(next.0 + 1) - 1;
        not_retained(next, oldest).with_mismatch(
            format_args!("a feed that keeps at most {} bytes", options.feed_bytes_max),
            format_args!("operations {}..={last} were released", next.0),
        )
    }
}

impl Place {
    /// Reads a record of a segment that the pin keeps, and says where the next one begins.
    fn read_in(
        &mut self,
        installer: &Installer<'_>,
        found: &Found,
        published: SequenceNumber,
    ) -> Result<(Option<FeedItem>, SequenceNumber)> {
        let next = self.next;
        let end = found.following.map_or(published, |next| before(next.first));
        let filled = published.min(end);
        let Reader { reader, .. } =
            self.reader(installer.catalog, installer.log, &found.segment, filled)?;
        loop {
            if reader.next_sequence() > end {
                // The records behind this point were cut off.
                return Ok((Some(unlogged(next, end)), end.next()));
            }
            let Some(record) = reader.next()? else { break };
            let after = record.header.next_sequence();
            if before(after) > end {
                return Ok((Some(unlogged(next, end)), end.next()));
            }
            if after > next {
                let (first, offset) = (record.header.first_sequence, record.at.offset);
                let item = match (item(&record, installer.blobs), found.segment.origin) {
                    // A recovery may have cut the log here, and what follows with it.
                    (Err(error), Origin::Retained) if is_lost(&error) => {
                        return Ok((Some(unlogged(next.max(first), end)), end.next()));
                    }
                    // The log is released, and with it the files that it refers to.
                    (Err(error), _) if error.kind() == ErrorKind::NotFound => {
                        Ok(Some(unlogged(first, before(after))))
                    }
                    (item, _) => item.map_err(|error| error.or_offset(offset)),
                };
                if item.is_err() {
                    // It stands behind the record, which a later call must read again.
                    self.reader = None;
                }
                return Ok((item?, after));
            }
        }
        let is_whole = found.following.is_some_and(|next| next.previous == reader.position());
        if is_whole || found.segment.origin == Origin::Retained {
            let first = next.max(reader.next_sequence());
            return Ok((Some(unlogged(first, end)), end.next()));
        }
        // A failed commit is published too, so that later ones fail. Then this check returns the
        // error.
        installer.health.check_log()?;
        let stop = reader.stop().unwrap_or(Stop::SegmentEnd);
        Err(Error::corruption(format!("the log stops before a published commit, at {stop}"))
            .with_file(reader.path())
            .with_offset(reader.position().offset))
    }

    /// A reader of the segment that can read what is published up to `filled`.
    fn reader(
        &mut self,
        catalog: &Catalog,
        log: &Log,
        segment: &KnownSegment,
        filled: SequenceNumber,
    ) -> Result<&mut Reader> {
        let id = segment.slot.id;
        let current = self.reader.take().filter(|current| current.segment == id);
        let reader = match current {
            // The reader may have read later bytes before they were filled.
            Some(current) if self.next <= current.filled => current,
            current => {
                let (_, end) = lock(&log.sequencer).last();
                let end = if end.segment == id { end.offset } else { u64::MAX };
                let directory = &**catalog.files.directory();
                let reader = open(directory, segment)?;
                let first = (reader.position().offset, segment.first);
                let at = current.map_or(first, |current| {
                    (current.reader.position().offset, current.reader.next_sequence())
                });
                let mut reader = reader.resumed(at.0, at.1, end);
                if seeded_fault!("feed_skips_a_commit") && at == first && segment.first.0 > 1 {
                    let _ = reader.next()?;
                    self.next = self.next.max(reader.next_sequence());
                }
                Reader { segment: id, reader, filled }
            }
        };
        Ok(self.reader.insert(reader))
    }
}

fn open(directory: &dyn Fs, segment: &KnownSegment) -> Result<SegmentReader> {
    let name = FileName::Segment(segment.slot.slot).to_path();
    SegmentReader::new(directory.open(&name)?, directory.full_path(&name), segment.slot.id)
}

/// Whether a separated value is not there, or not whole.
fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound)
}

fn before(sequence: SequenceNumber) -> SequenceNumber {
    SequenceNumber(sequence.0.saturating_sub(1))
}

/// The item for sequence numbers of which the log has nothing.
#[must_use]
pub fn unlogged(first: SequenceNumber, last: SequenceNumber) -> FeedItem {
    FeedItem { first, last, commit: None }
}

/// What a record contributes to a feed; `None` if that is nothing.
///
/// # Errors
/// `Corruption` and `Unsupported`, for changes of families and values that cannot be read;
/// `NotFound`, if a blob file was removed.
pub fn item(record: &Record<'_>, blobs: &Blobs) -> Result<Option<FeedItem>> {
    let header = &record.header;
    let first = header.first_sequence;
    let last = before(header.next_sequence());
    let (families, operations, count) = match header.kind {
        // A prepared transaction is told at its decision.
        RecordKind::Void | RecordKind::End | RecordKind::Prepare => return Ok(None),
        RecordKind::Batch => (Vec::new(), record.payload, header.count),
        RecordKind::FamilyBatch => {
            let (edit, operations) = family_batch::split(record.payload)?;
            (edit.changes, operations, header.count.saturating_sub(1))
        }
        RecordKind::Decide => {
            let decided = split_decision(record.payload)?;
            if decided.decision == Decision::RollBack {
                return Ok(None);
            }
            (Vec::new(), decided.operations, header.count.saturating_sub(1))
        }
        // A feed reports everything that it cannot read.
        _ => return Ok(Some(unlogged(first, last))),
    };
    let operations = with_values(operations, count, blobs)?;
    let commit = Some(FeedCommit { families, operations, count });
    Ok(Some(FeedItem { first, last, commit }))
}

/// The error for a feed that is to begin before `oldest`.
#[cold]
#[must_use]
pub fn not_retained(first: SequenceNumber, oldest: SequenceNumber) -> Error {
    Error::new(ErrorKind::NotFound, "the log does not reach back that far")
        .with_mismatch(format_args!("a sequence number of at least {}", oldest.0), first.0)
        .with_hint("`retain_log_bytes` and `retain_log_for` keep more of the log")
}
