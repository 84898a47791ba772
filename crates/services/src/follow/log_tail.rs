//! The end of a log that another process writes: reads on from where it stopped.
//!
//! It does not say what a record means, and does not decide whether an unreadable record is damage.
//!
//! # How it reads on
//! 1. The place is given up if the manifest has retired its segment.
//! 2. The headers of all log files are read. Files that vanish meanwhile are passed over.
//! 3. Records are delivered from the place on, until one is not filled or not sound, or points to
//!    a value that is not.
//! 4. If a segment begins exactly there, in bytes and in sequence numbers, reading goes on in it.
//!
//! A record is tied to its segment, its offset and its sequence number. So the bytes of a file that
//! was recycled meanwhile are no records, and a record that is being filled is none yet.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{File, Fs},
    id::{SegmentId, SequenceNumber},
};
use siltdb_disk::{
    file_name::FileName,
    log::{
        read::{Record, SegmentReader, Stop},
        record::{LogPosition, RecordKind},
        segment::SegmentHeader,
    },
};
use siltdb_engine::{catalog::log_state::LogState, open::directory::own_file};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The bytes of a segment that are read at first. A poll that finds nothing reads no more.
const REACH_BYTES: u64 = 64 << 10;

/// The bytes of a segment that are read at a time as long as there are records.
const REACH_BYTES_MAX: u64 = 1 << 20;

/// What takes the records.
pub type Deliver<'a> = dyn FnMut(&Record<'_>) -> Result<Taken> + 'a;

/// What became of a record that was delivered.
#[derive(Debug)]
pub enum Taken {
    /// It counts, and the next one is wanted.
    Next,
    /// It counts, and the reading ends behind it.
    Last,
    /// A separated value that it points to is not there, or not wholly. The reading ends before
    /// it, and it is delivered again.
    NotWhole(Error),
}

/// A place between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailPlace {
    /// Where the next record begins.
    pub position: LogPosition,
    /// The sequence number with which it begins.
    pub next: SequenceNumber,
}

/// The place up to which a log was read.
#[derive(Debug)]
pub struct LogTail {
    directory: Arc<dyn Fs>,
    /// `None`: before the first segment that recovery would need.
    place: Option<TailPlace>,
}

/// A log file with a segment that recovery would need.
#[derive(Debug)]
struct LiveSegment {
    header: SegmentHeader,
    path: PathBuf,
    file: Arc<dyn File>,
}

/// Why the reading ended.
#[derive(Debug)]
pub enum TailEnd {
    /// No further record is filled.
    Reached,
    /// The receiver of records has ended it.
    Stopped,
    /// As `Reached`, but something says that more was durable once. It may have been filled, or
    /// retired, since it was read. If it is still so after the manifest was read again, it is
    /// damage.
    Doubtful(Error),
}

impl LogTail {
    /// The log of the database in `directory`, of which nothing was read.
    #[must_use]
    pub fn new(directory: Arc<dyn Fs>) -> Self {
        Self { directory, place: None }
    }

    /// The place of the next record; `None` before the first segment that recovery would need.
    #[must_use]
    pub fn place(&self) -> Option<TailPlace> {
        self.place
    }

    /// Finds the first segment that recovery would need. Returns the place of its first record;
    /// `None` if there is no such segment yet.
    ///
    /// # Errors
    /// As [`LogTail::advance`].
    pub fn begin(&mut self, log: &LogState) -> Result<Option<TailPlace>> {
        self.leave_retired(log)?;
        if self.place.is_none() {
            self.place = first_place(&live_segments(&*self.directory, log)?, log);
        }
        Ok(self.place)
    }

    /// Delivers the records from the place on that are filled now, and moves the place behind them.
    /// `log` is what the manifest says; it must have been read before.
    ///
    /// # Errors
    /// `Poisoned`, if a recovery has lost what was delivered; `Unsupported`; the errors of
    /// `deliver`, of which the record is delivered again; the system's.
    pub fn advance(&mut self, log: &LogState, deliver: &mut Deliver<'_>) -> Result<TailEnd> {
        self.leave_retired(log)?;
        let segments = live_segments(&*self.directory, log)?;
        if self.place.is_some_and(|place| goes_back(&segments, place)) {
            return Err(lost_commits());
        }
        let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.header.id).collect();
        let mut synced =
            segments.iter().map(|segment| segment.header.synced).fold(log.synced.position, max);
        self.place = self.place.or_else(|| first_place(&segments, log));
        let mut loss = None;
        while let Some(place) = self.place {
            let id = place.position.segment;
            let Some(segment) = segments.iter().find(|segment| segment.header.id == id) else {
                return Ok(TailEnd::Doubtful(self.missing(place.position)));
            };
            let end = end_of(&segments, log, id);
            let mut note = |record: &Record<'_>| {
                synced = synced.max(record.header.synced.position(id, &ids));
                deliver(record)
            };
            match self.read(segment, end, &mut note)? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(None) => return Ok(TailEnd::Stopped),
                ControlFlow::Break(Some(error)) => {
                    loss = Some(error);
                    break;
                }
            }
            let Some(next) = self.place.and_then(|place| successor(&segments, place)) else {
                break;
            };
            let following = next.position.segment;
            assert!(following > id, "segment {following} of a log is read after {id}");
            self.place = Some(next);
        }
        let begin = LogPosition { segment: log.first, offset: 0 };
        let at = self.place.map_or(begin, |place| place.position);
        if synced > at && synced.segment >= log.first {
            let damage = || self.damage(at, synced, &segments);
            return Ok(TailEnd::Doubtful(loss.unwrap_or_else(damage)));
        }
        Ok(TailEnd::Reached)
    }

    /// Gives up the place if its segment is retired.
    fn leave_retired(&mut self, log: &LogState) -> Result<()> {
        let Some(TailPlace { position, .. }) = self.place else { return Ok(()) };
        if position.segment < log.first {
            self.place = None;
            return Ok(());
        }
        let is_lost = log.cuts.iter().any(|cut| {
            cut.cuts_off(position.segment)
                || cut.at.segment == position.segment && cut.at.offset < position.offset
        });
        if is_lost { Err(lost_commits()) } else { Ok(()) }
    }

    /// Delivers the records of `segment` before the offset `end`. It breaks with what is not there
    /// of a record that is not whole.
    fn read(
        &mut self,
        segment: &LiveSegment,
        end: u64,
        deliver: &mut Deliver<'_>,
    ) -> Result<ControlFlow<Option<Error>>> {
        let end = end.min(segment.file.len());
        let mut reach = REACH_BYTES;
        while let Some(place) = self.place {
            let offset = place.position.offset;
            let limit = offset.saturating_add(reach).min(end);
            let (file, path) = (Arc::clone(&segment.file), segment.path.clone());
            let reader = match SegmentReader::new(file, path, segment.header.id) {
                // The file was recycled.
                Err(error) if error.kind() == ErrorKind::Corruption => break,
                reader => reader?,
            };
            let mut reader = reader.resumed(offset, place.next, limit);
            let flow = self.deliver(&mut reader, deliver)?;
            if flow.is_break() {
                return Ok(flow);
            }
            let is_cut = matches!(reader.stop(), Some(Stop::SegmentEnd | Stop::PastEnd));
            if !is_cut || limit == end {
                break;
            }
            let has_moved = self.place != Some(place);
            reach = if has_moved { REACH_BYTES_MAX } else { reach.saturating_mul(4) };
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Delivers what `reader` reads, as [`LogTail::read`].
    fn deliver(
        &mut self,
        reader: &mut SegmentReader,
        deliver: &mut Deliver<'_>,
    ) -> Result<ControlFlow<Option<Error>>> {
        loop {
            let record = match reader.next() {
                // The writer has freed the space behind the end of a closed log.
                Err(error) if error.kind() == ErrorKind::Corruption => None,
                record => record?,
            };
            // Nothing depends on the mark of a closed log: the next segment is no successor of it.
            let Some(record) = record.filter(|record| record.header.kind != RecordKind::End) else {
                return Ok(ControlFlow::Continue(()));
            };
            let offset = record.at.offset;
            let taken = deliver(&record);
            let taken = taken.map_err(|error| error.or_file(reader.path()).or_offset(offset))?;
            if let Taken::NotWhole(error) = taken {
                return Ok(ControlFlow::Break(Some(error)));
            }
            let next = TailPlace { position: reader.position(), next: reader.next_sequence() };
            let is_forward = self
                .place
                .is_some_and(|before| before.position < next.position && before.next <= next.next);
            assert!(is_forward, "a log is read from {:?} back to {next:?}", self.place);
            self.place = Some(next);
            if matches!(taken, Taken::Last) {
                return Ok(ControlFlow::Break(None));
            }
        }
    }

    /// The segment of a place was read. If it is not retired, it can be missing because a recovery
    /// did not find it, or because it was removed; a new follower tells.
    #[cold]
    fn missing(&self, at: LogPosition) -> Error {
        lost_commits()
            .with_file(&self.directory.full_path(Path::new("")))
            .with_mismatch(format_args!("segment {}", at.segment), "no file with it")
    }

    #[cold]
    fn damage(&self, at: LogPosition, synced: LogPosition, segments: &[LiveSegment]) -> Error {
        let directory = self.directory.full_path(Path::new(""));
        let segment = segments.iter().find(|segment| segment.header.id == at.segment);
        Error::corruption("log is damaged below its synced position")
            .with_file(segment.map_or(&directory, |segment| &segment.path))
            .with_offset(at.offset)
            .with_mismatch(format_args!("records up to {synced}"), format_args!("none at {at}"))
    }
}

/// The error for commits that were shown and that the database no longer has.
#[cold]
pub(super) fn lost_commits() -> Error {
    Error::new(ErrorKind::Poisoned, "the database has lost commits that this follower has shown")
        .with_hint(
            "a sync of the writer failed, or the directory was replaced: open a new follower",
        )
}

fn max(a: LogPosition, b: LogPosition) -> LogPosition {
    a.max(b)
}

/// The log files that hold segments which recovery would need, in the order of the segments.
fn live_segments(directory: &dyn Fs, log: &LogState) -> Result<Vec<LiveSegment>> {
    let mut segments = Vec::new();
    for entry in directory.list(Path::new(""))? {
        let Some(name @ FileName::Segment(_)) = own_file(&entry) else { continue };
        let path = directory.full_path(&name.to_path());
        let file = match directory.open(&name.to_path()) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            file => file?,
        };
        let header = match SegmentHeader::read(&*file, &path) {
            // The file was shortened.
            Err(error) if error.kind() == ErrorKind::Corruption => continue,
            header => header?,
        };
        let is_cut_off = |id| log.cuts.iter().any(|cut| cut.cuts_off(id));
        let is_live = |header: &SegmentHeader| header.id >= log.first && !is_cut_off(header.id);
        if let Some(header) = header.filter(is_live) {
            segments.push(LiveSegment { header, path, file });
        }
    }
    segments.sort_by_key(|segment| segment.header.id);
    Ok(segments)
}

/// Where the log begins, if its first segment is there.
fn first_place(segments: &[LiveSegment], log: &LogState) -> Option<TailPlace> {
    let header = &segments.first()?.header;
    let is_first = header.previous == LogPosition::ZERO || header.previous.segment < log.first;
    // With a gap between them, the manifest is older than the segment.
    let is_joined = header.first_sequence <= log.last_sequence.next();
    (is_first && is_joined).then(|| first_of(header))
}

fn first_of(header: &SegmentHeader) -> TailPlace {
    TailPlace { position: header.first_record(), next: header.first_sequence }
}

/// Where a segment ends, as a cut or the next segment says: the file may have stale bytes behind.
fn end_of(segments: &[LiveSegment], log: &LogState, id: SegmentId) -> u64 {
    let cuts = log.cuts.iter().map(|cut| cut.at);
    let ends = cuts.chain(segments.iter().map(|segment| segment.header.previous));
    ends.filter(|end| end.segment == id).map(|end| end.offset).min().unwrap_or(u64::MAX)
}

/// Whether a later segment gives numbers of `place` again: a recovery did not find what was there,
/// and recorded no cut, because it found nothing behind either.
fn goes_back(segments: &[LiveSegment], place: TailPlace) -> bool {
    let is_later = |header: &SegmentHeader| header.id > place.position.segment;
    let headers = segments.iter().map(|segment| &segment.header);
    headers.filter(|header| is_later(header)).any(|header| header.first_sequence < place.next)
}

/// The first record of the segment that begins at `place`.
fn successor(segments: &[LiveSegment], place: TailPlace) -> Option<TailPlace> {
    let begins = |header: &SegmentHeader| {
        header.previous == place.position && header.first_sequence == place.next
    };
    segments.iter().map(|segment| &segment.header).find(|header| begins(header)).map(first_of)
}
