//! Reads a whole log after whatever happened to it: its records in order, and where it ends.
//!
//! It changes no file. Which segments are still needed, and where earlier recoveries cut, it is
//! told by the manifest through [`RecoveryOptions`].
//!
//! 1. Each file says which segment it holds. Segments before the first one needed, and those that
//!    an earlier recovery cut off, are passed over.
//! 2. From the first segment on, records are delivered in order; a segment is followed only by the
//!    one that names its end. The walk ends where no record and no segment follows.
//! 3. From there to the end of every segment, headers are looked for: they tell how far the log was
//!    synced, and how much is lost.
//! 4. If some header, before or after that place, says that the log was synced beyond it, this is
//!    damage. Otherwise it is the end of the log, and what was found behind it is a lost tail.

use super::{
    read::{Record, SegmentReader, Stop},
    record::{LogPosition, PlacedHeader, RecordKind, Synced, record_bytes},
    scan::{HeaderMatch, HeaderSearch, scan_headers},
    segment::{SEGMENT_HEADER_BYTES, SegmentHeader, segments_within},
};
use siltdb_base::{
    error::{Error, Result},
    fs::File,
    id::{SegmentId, SequenceNumber},
    seeded_fault,
};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

/// The advice for a log that is damaged. What loses nothing comes first.
const DAMAGE_HINT: &str = "`salvage::salvage` saves all that verifies; \
                           `RecoveryMode::PointInTime` reads what precedes the damage, and cuts \
                           the log there if it opens for writing";

/// A file that may hold a segment.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Its path, for errors.
    pub path: PathBuf,
    /// The file, open for reading.
    pub file: Arc<dyn File>,
}

/// What to do about damage.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryMode {
    /// Fail with `Corruption`.
    #[default]
    Strict,
    /// Keep what precedes the damage, although more was once durable.
    PointInTime,
}

/// A cut that an earlier recovery made and the manifest recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCut {
    /// Where the log ends: the segment holds nothing behind it.
    pub at: LogPosition,
    /// Segments between that of `at` and this one are cut off as well.
    pub next: SegmentId,
}

impl KnownCut {
    /// Whether the segment is cut off.
    #[must_use]
    pub fn cuts_off(&self, segment: SegmentId) -> bool {
        self.at.segment < segment && segment < self.next
    }
}

/// What the manifest knows of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryOptions {
    /// Segments before this one are retired; the first one needed is it or, if it was never begun,
    /// the first that was.
    pub first: SegmentId,
    /// What to do about damage.
    pub mode: RecoveryMode,
    /// Everything before this position is known to have been durable; may be
    /// [`LogPosition::ZERO`].
    pub synced: LogPosition,
    /// The file that has the segment of that position, as far as the manifest says.
    pub synced_file: Option<PathBuf>,
    /// The file of that segment is at least this long, durably, in bytes; 0 if that is not known.
    pub synced_file_bytes: u64,
    /// Where earlier recoveries cut.
    pub known_cuts: Vec<KnownCut>,
}

/// What became of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The segments whose records were delivered, in order.
    pub segments: Vec<RecoveredSegment>,
    /// Where the log ends: the `previous` of the next segment. At offset 0 if even the header of
    /// the first segment is lost: the next segment is then the first one needed.
    pub end: LogPosition,
    /// The sequence number with which the next segment begins; `None` if there was no segment.
    pub next_sequence: Option<SequenceNumber>,
    /// No larger segment id was seen anywhere, files and manifest.
    pub highest_segment: SegmentId,
    /// The highest position that is known to have been synced.
    pub synced: LogPosition,
    /// Whether the log was closed.
    pub ending: Ending,
    /// What was cut off, if anything was found behind the end.
    pub cut: Option<Cut>,
}

/// A segment whose records were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredSegment {
    /// Which of the files it lies in.
    pub file_index: usize,
    /// What its first bytes say.
    pub header: SegmentHeader,
    /// Where its last record ends, in bytes.
    pub end: u64,
}

/// How a log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an `End` record and nothing behind it.
    Closed,
    /// Without: its last records may be lost.
    Open,
}

/// What was found behind the end of the log and not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where the log ends.
    pub at: LogPosition,
    /// Why it ends there.
    pub stop: Stop,
    /// Whether any of it was durable.
    pub kind: CutKind,
    /// The bytes of the records and segments that could be told behind it; what is torn beyond
    /// recognition is not counted.
    pub bytes: u64,
    /// The records among them.
    pub records: u64,
    /// The files with what was found, and the one that the cut goes through, as indexes of those
    /// given.
    pub files: Vec<usize>,
}

/// Whether a cut took what had been durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutKind {
    /// No: it had not been synced.
    LostTail,
    /// Yes; only with [`RecoveryMode::PointInTime`].
    Damage,
}

/// Reads the log that lies in `files`, and shows `deliver` its records in order.
///
/// `Skip` records are delivered, `End` records are not. What was delivered before an error must be
/// thrown away. Reads every byte of the needed segments once, in large pieces.
///
/// # Errors
/// `Corruption` with file and offset, if there is damage and the mode is strict, or if two files
/// hold the same segment. `Unsupported`, if a segment or record is of another version. Errors of
/// reading and of `deliver`.
pub fn recover(
    files: &[SegmentFile],
    options: &RecoveryOptions,
    deliver: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Recovered> {
    recover_whole(files, options, &mut |_| Ok(None), deliver)
}

/// As [`recover`], for records that refer to bytes in other files. `find_loss` says what of these
/// is lost or damaged: the log then ends before the record, as if its own bytes were lost.
///
/// # Errors
/// As [`recover`]; below the synced position, the loss itself; errors of `find_loss`.
pub fn recover_whole(
    files: &[SegmentFile],
    options: &RecoveryOptions,
    find_loss: &mut dyn FnMut(&Record<'_>) -> Result<Option<Error>>,
    deliver: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Recovered> {
    let inventory = Inventory::take(files, options)?;
    let mut evidence = Evidence::new(&inventory, options);
    let mut loss = None;
    let mut deliver_whole = |record: Record<'_>| {
        loss = find_loss(&record)?;
        if loss.is_some() {
            return Ok(Delivered::NotWhole);
        }
        deliver(record).map(|()| Delivered::Whole)
    };
    let walk = walk(files, options, &inventory, &mut evidence, &mut deliver_whole)?;
    look_behind(files, options, &inventory, &walk, &mut evidence)?;
    let shorter = inventory.shorter_file(files, options);
    let damaged = evidence.synced > walk.end || shorter.is_some();
    if let (Some(file), RecoveryMode::Strict) = (shorter, options.mode)
        && loss.is_none()
        && evidence.synced <= walk.end
    {
        return Err(cut_short(file, options.synced_file_bytes, walk.end));
    }
    if damaged && options.mode == RecoveryMode::Strict {
        return Err(loss.unwrap_or_else(|| damage(files, options, &walk, &evidence)));
    }
    let (mut segments, mut end) = (walk.segments, walk.end);
    let is_sorted = segments.is_sorted_by(|a, b| a.header.id < b.header.id);
    assert!(is_sorted, "segments were replayed out of order: {segments:?}");
    let last = segments.last();
    let ends = last.is_none_or(|last| last.header.id == end.segment && last.end == end.offset);
    assert!(ends, "a log ends at {end}, and its last segment is {last:?}");
    let highest = evidence.highest_segment;
    assert!(highest >= end.segment, "segment {} is above all, {highest}", end.segment);
    let is_marked = walk.stop == Stop::Closed;
    if let (true, Some(last)) = (is_marked, segments.last_mut()) {
        // Nothing depends on the mark: it need not be durable, and the next segment is no successor
        // of it. A cut must not count it either: a later recovery ends its segment there.
        end.offset -= record_bytes(RecordKind::End, 0, 0);
        last.end = end.offset;
    }
    let kind = if damaged { CutKind::Damage } else { CutKind::LostTail };
    evidence.files.extend(segments.last().map(|last| last.file_index));
    let cut = (damaged || evidence.bytes > 0).then_some(Cut {
        at: end,
        stop: walk.stop,
        kind,
        bytes: evidence.bytes,
        records: evidence.records,
        files: evidence.files.into_iter().collect(),
    });
    let closed = is_marked && cut.is_none();
    Ok(Recovered {
        segments,
        end,
        next_sequence: walk.next_sequence,
        highest_segment: evidence.highest_segment,
        synced: evidence.synced,
        ending: if closed { Ending::Closed } else { Ending::Open },
        cut,
    })
}

/// What became of a record that was delivered.
enum Delivered {
    /// It counts.
    Whole,
    /// Bytes that it refers to are lost: the log ends before it.
    NotWhole,
}

/// Which file holds what.
struct Inventory {
    /// The segments that are needed, in order of their ids.
    live: Vec<(usize, SegmentHeader)>,
    /// Files whose first bytes are no segment header.
    unknown: Vec<usize>,
    highest_segment: SegmentId,
}

impl Inventory {
    fn take(files: &[SegmentFile], options: &RecoveryOptions) -> Result<Self> {
        let mut inventory =
            Self { live: Vec::new(), unknown: Vec::new(), highest_segment: SegmentId(0) };
        for (file_index, SegmentFile { path, file }) in files.iter().enumerate() {
            match SegmentHeader::read(&**file, path)? {
                None => inventory.unknown.push(file_index),
                Some(header) => {
                    inventory.highest_segment = inventory.highest_segment.max(header.id);
                    if is_live(header.id, options) {
                        inventory.live.push((file_index, header));
                    }
                }
            }
        }
        inventory.live.sort_by_key(|(_, header)| header.id);
        for pair in inventory.live.windows(2) {
            if pair[0].1.id == pair[1].1.id {
                return Err(Error::corruption("two files hold the same log segment")
                    .with_file(&files[pair[1].0].path)
                    .with_offset(0)
                    .with_mismatch(
                        format_args!(
                            "segment {} in {}",
                            pair[0].1.id,
                            files[pair[0].0].path.display()
                        ),
                        pair[1].1.id,
                    ));
            }
        }
        Ok(inventory)
    }
}

impl Inventory {
    /// The file of the synced segment, if it is shorter than it was when it was synced.
    fn shorter_file<'f>(
        &self,
        files: &'f [SegmentFile],
        options: &RecoveryOptions,
    ) -> Option<&'f SegmentFile> {
        let is_synced = |header: &SegmentHeader| {
            header.id == options.synced.segment && !seeded_fault!("shorter_log_not_noticed")
        };
        let found = self.live.iter().find(|(_, header)| is_synced(header));
        let file = found.map(|(file_index, _)| &files[*file_index])?;
        (file.file.len() < options.synced_file_bytes).then_some(file)
    }
}

/// The error for a log file that was cut behind its last record that is known to be synced. What
/// was synced behind that cannot be told.
#[cold]
fn cut_short(file: &SegmentFile, bytes: u64, end: LogPosition) -> Error {
    Error::corruption("a log file is shorter than when it was synced")
        .with_file(&file.path)
        .with_offset(end.offset)
        .with_mismatch(format_args!("at least {bytes} bytes"), file.file.len())
        .with_hint(DAMAGE_HINT)
}

fn is_live(segment: SegmentId, options: &RecoveryOptions) -> bool {
    segment >= options.first && !options.known_cuts.iter().any(|cut| cut.cuts_off(segment))
}

/// What the headers say about the log as a whole.
struct Evidence {
    /// The segments that are needed and have a header.
    live: Vec<SegmentId>,
    /// The highest synced position, and the file that says so.
    synced: LogPosition,
    synced_by: Option<usize>,
    /// Bytes of records and segments behind the end.
    bytes: u64,
    records: u64,
    /// The files that have them.
    files: BTreeSet<usize>,
    highest_segment: SegmentId,
}

impl Evidence {
    fn new(inventory: &Inventory, options: &RecoveryOptions) -> Self {
        let cut_off = options.known_cuts.iter().map(|cut| SegmentId(cut.next.0.saturating_sub(1)));
        let known = options.first.max(options.synced.segment);
        let highest_segment = cut_off.fold(inventory.highest_segment.max(known), std::cmp::max);
        let live = inventory.live.iter().map(|(_, header)| header.id).collect();
        let (synced, synced_by) = (options.synced, None);
        let (bytes, records, files) = (0, 0, BTreeSet::new());
        let mut evidence = Self { live, synced, synced_by, bytes, records, files, highest_segment };
        for (file_index, header) in &inventory.live {
            evidence.claim(header.synced, *file_index);
        }
        evidence
    }

    fn claim(&mut self, synced: LogPosition, file_index: usize) {
        if synced > self.synced {
            self.synced = synced;
            self.synced_by = Some(file_index);
        }
    }

    /// As [`Evidence::claim`], for what a record of `segment` says.
    fn claim_of_record(&mut self, synced: Synced, segment: SegmentId, file_index: usize) {
        self.claim(synced.position(segment, &self.live), file_index);
    }

    fn behind_end(&mut self, placed: &PlacedHeader, file_index: usize) {
        self.claim_of_record(placed.synced, placed.at.segment, file_index);
        self.bytes += placed.record_bytes();
        // Marks have no body.
        self.records += u64::from(placed.body_bytes > 0);
        self.files.insert(file_index);
        self.highest_segment = self.highest_segment.max(placed.at.segment);
    }
}

/// How far the records followed each other.
struct Walk {
    segments: Vec<RecoveredSegment>,
    end: LogPosition,
    next_sequence: Option<SequenceNumber>,
    stop: Stop,
}

fn walk(
    files: &[SegmentFile],
    options: &RecoveryOptions,
    inventory: &Inventory,
    evidence: &mut Evidence,
    deliver: &mut dyn FnMut(Record<'_>) -> Result<Delivered>,
) -> Result<Walk> {
    let mut walk = Walk {
        segments: Vec::new(),
        end: LogPosition { segment: options.first, offset: 0 },
        next_sequence: None,
        stop: Stop::NoHeader,
    };
    for (index, &(file_index, header)) in inventory.live.iter().enumerate() {
        if !walk.is_followed_by(&header, options) {
            break;
        }
        let successor = inventory.live.get(index + 1).map(|(_, header)| header.previous);
        let cut = options.known_cuts.iter().map(|cut| cut.at);
        let end = cut.chain(successor).filter(|end| end.segment == header.id).min();
        let SegmentFile { path, file } = &files[file_index];
        let mut reader = SegmentReader::with_header(Arc::clone(file), path.clone(), header);
        if let Some(end) = end {
            reader = reader.ending_at(end.offset);
        }
        while let Some(record) = reader.next()? {
            evidence.claim_of_record(record.header.synced, header.id, file_index);
            if record.header.kind == RecordKind::End {
                continue;
            }
            let (at, first) = (record.at, record.header.first_sequence);
            let delivered = deliver(record);
            let delivered = delivered.map_err(|error| error.or_file(path).or_offset(at.offset))?;
            if let Delivered::NotWhole = delivered {
                (walk.end, walk.next_sequence, walk.stop) = (at, Some(first), Stop::NotWhole);
                walk.segments.push(RecoveredSegment { file_index, header, end: at.offset });
                return Ok(walk);
            }
        }
        walk.end = reader.position();
        walk.next_sequence = Some(reader.next_sequence());
        walk.stop = reader.stop().expect("a reader that returned no record says why");
        walk.segments.push(RecoveredSegment { file_index, header, end: walk.end.offset });
    }
    Ok(walk)
}

impl Walk {
    /// Whether a segment begins where the walk stands, in bytes and in sequence numbers.
    fn is_followed_by(&self, header: &SegmentHeader, options: &RecoveryOptions) -> bool {
        match self.next_sequence {
            // The first one needed follows what is retired, or nothing.
            None => header.previous == LogPosition::ZERO || header.previous.segment < options.first,
            Some(next) => header.previous == self.end && header.first_sequence == next,
        }
    }
}

/// Collects what the headers behind the end of the walk say.
fn look_behind(
    files: &[SegmentFile],
    options: &RecoveryOptions,
    inventory: &Inventory,
    walk: &Walk,
    evidence: &mut Evidence,
) -> Result<()> {
    let known_end = options.known_cuts.iter().any(|cut| cut.at == walk.end);
    if let Some(last) = walk.segments.last().filter(|_| !known_end) {
        let SegmentFile { path, file } = &files[last.file_index];
        let search = HeaderSearch { segment: Some(last.header.id), offset: last.end };
        scan_headers(file, path, search, &mut |placed| {
            evidence.behind_end(placed, last.file_index);
            HeaderMatch::Ours
        })?;
    }
    for &(file_index, header) in &inventory.live[walk.segments.len()..] {
        evidence.bytes += SEGMENT_HEADER_BYTES as u64;
        evidence.files.insert(file_index);
        let SegmentFile { path, file } = &files[file_index];
        let first = header.first_record();
        let search = HeaderSearch { segment: Some(first.segment), offset: first.offset };
        scan_headers(file, path, search, &mut |placed| {
            evidence.behind_end(placed, file_index);
            HeaderMatch::Ours
        })?;
    }
    // A file whose first bytes are lost or damaged may still hold records of a segment that is
    // needed. It holds one of those that follow the known ones, at most one per file. Larger ids
    // are ignored, because only a forged value has one.
    let end = segments_within(evidence.highest_segment, inventory.unknown.len() as u64);
    for &file_index in &inventory.unknown {
        let SegmentFile { path, file } = &files[file_index];
        scan_headers(file, path, HeaderSearch { segment: None, offset: 0 }, &mut |placed| {
            if !is_live(placed.at.segment, options) || placed.at.segment >= end {
                return HeaderMatch::Stale;
            }
            evidence.behind_end(placed, file_index);
            HeaderMatch::Ours
        })?;
    }
    Ok(())
}

#[cold]
fn damage(
    files: &[SegmentFile],
    options: &RecoveryOptions,
    walk: &Walk,
    evidence: &Evidence,
) -> Error {
    // Where no segment is left to blame, the file that knows of it is named.
    let file_index = walk.segments.last().map(|last| last.file_index).or(evidence.synced_by);
    let says = evidence.synced_by.map_or("the manifest".to_owned(), |file_index| {
        files[file_index].path.display().to_string()
    });
    let error = Error::corruption("log is damaged below its synced position")
        .with_offset(walk.end.offset)
        .with_mismatch(
            format_args!("records up to {} as {says} says", evidence.synced),
            format_args!("{} at {}", walk.stop, walk.end),
        )
        .with_hint(DAMAGE_HINT);
    // Where the file of the synced segment is there, the damage lies before it.
    let is_found = |segment: SegmentId| evidence.live.contains(&segment);
    match (&options.synced_file, file_index) {
        (Some(path), _) if evidence.synced_by.is_none() && !is_found(evidence.synced.segment) => {
            error.with_file(path)
        }
        (_, Some(file_index)) => error.with_file(&files[file_index].path),
        (_, None) => error,
    }
}
