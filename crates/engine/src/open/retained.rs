//! Log files that an opening keeps although recovery does not need them: those that the options
//! retain for feeds.
//!
//! It changes no file. A retired segment counts only if the next segment names it as its
//! predecessor. What an earlier recovery cut off is not part of the log.

use crate::{
    log::{
        pins::{KnownSegment, Origin, Retention, SegmentSlot},
        wal::Wal,
    },
    options::{Access, EngineOptions},
};
use siltdb_base::{
    error::{ErrorKind, Result},
    fs::Fs,
    id::SequenceNumber,
};
use siltdb_disk::{
    file_name::FileName,
    log::{
        record::LogPosition,
        recover::Recovered,
        segment::{SEGMENT_HEADER_BYTES, SegmentHeader},
    },
};
use std::sync::Arc;

/// The retention that the options ask for.
pub(super) fn retention(options: &EngineOptions) -> Retention {
    let time = options.retain_log_for;
    Retention {
        bytes: options.retain_log_bytes,
        time: (!time.is_zero()).then(|| (time, Arc::clone(&options.clock))),
        feed_bytes_max: options.feed_bytes_max,
    }
}

/// Notes in `wal` the segments that were replayed, and the retained ones before them. `last` is the
/// last sequence number that was given.
///
/// # Errors
/// Failures of opening and reading files.
pub(super) fn note_segments(
    wal: &Wal,
    directory: &dyn Fs,
    options: &EngineOptions,
    slots: &[u64],
    recovered: &Recovered,
    last: SequenceNumber,
) -> Result<()> {
    let ours = recovered.segments.iter().map(|segment| KnownSegment {
        bytes: segment.end,
        ..known(&segment.header, slots[segment.file_index], Origin::Ours)
    });
    let ours: Vec<_> = ours.collect();
    ours.iter().for_each(|segment| wal.begin(*segment));
    if !options.retains_log() && options.access != Access::ReadOnly {
        return Ok(());
    }
    let mut older = Vec::new();
    for &slot in slots.iter().filter(|slot| ours.iter().all(|ours| ours.slot.slot != **slot)) {
        let name = FileName::Segment(slot).to_path();
        let file = directory.open(&name)?;
        let header = match SegmentHeader::read(&*file, &directory.full_path(&name)) {
            // The file was being recycled when the process ended.
            Err(error) if error.kind() == ErrorKind::Corruption => None,
            header => header?,
        };
        let first = header.map(|header| header.first_sequence);
        if let (Some(header), true) = (header, first.is_some_and(|first| first <= last)) {
            let known = known(&header, slot, Origin::Retained);
            older.push(KnownSegment { bytes: file.len(), ..known });
        }
    }
    wal.pins().retain(&chain(ours.first(), older));
    Ok(())
}

fn known(header: &SegmentHeader, slot: u64, origin: Origin) -> KnownSegment {
    KnownSegment {
        slot: SegmentSlot { id: header.id, slot },
        first: header.first_sequence,
        previous: header.previous,
        bytes: 0,
        origin,
    }
}

/// Those of `older` that precede `next` without a gap, oldest first.
///
/// A segment names the one before it and where that one ends. Two kinds of segments are passed
/// over, both without records: one that an opening began and the next crash emptied, which is there
/// and not named; and one whose file a power loss took, which is named and not there.
fn chain(next: Option<&KnownSegment>, mut older: Vec<KnownSegment>) -> Vec<KnownSegment> {
    older.sort_by_key(|segment| segment.slot.id);
    let mut chain: Vec<KnownSegment> = Vec::new();
    for segment in older.into_iter().rev() {
        let Some(next) = chain.last().or(next) else {
            chain.push(segment);
            continue;
        };
        let (id, named) = (segment.slot.id, next.previous);
        let is_empty_missing = named.offset == SEGMENT_HEADER_BYTES as u64 && id < named.segment;
        let is_named = named.segment == id && named.offset > 0;
        let is_before = named == LogPosition::ZERO || is_named || is_empty_missing;
        if id < next.slot.id && segment.first <= next.first && is_before {
            let bytes = if is_named { named.offset } else { segment.bytes };
            chain.push(KnownSegment { bytes, ..segment });
            continue;
        }
        // Retained segments precede those that recovery needs; any later one is passed over, too.
        let is_passed = named != LogPosition::ZERO && id > named.segment;
        if id < next.slot.id && !is_passed {
            break;
        }
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests;
