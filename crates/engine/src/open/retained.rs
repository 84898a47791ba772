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
    log::{record::LogPosition, recover::Recovered, segment::SegmentHeader},
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
    (directory, options): (&dyn Fs, &EngineOptions),
    slots: &[u64],
    (recovered, last): (&Recovered, SequenceNumber),
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

/// Those of `older` that directly precede `next`, without gaps, oldest first.
fn chain(next: Option<&KnownSegment>, mut older: Vec<KnownSegment>) -> Vec<KnownSegment> {
    older.sort_by_key(|segment| segment.slot.id);
    let mut chain: Vec<KnownSegment> = Vec::new();
    for segment in older.into_iter().rev() {
        let follows = |next: &KnownSegment| {
            let is_named = next.previous == LogPosition::ZERO
                || next.previous.segment == segment.slot.id && next.previous.offset > 0;
            segment.slot.id < next.slot.id && segment.first <= next.first && is_named
        };
        match chain.last().or(next) {
            Some(next) if !follows(next) => {
                // Retained segments precede those that recovery needs; any other is skipped.
                if segment.slot.id < next.slot.id {
                    break;
                }
            }
            Some(KnownSegment { previous: LogPosition { offset, .. }, .. }) if *offset > 0 => {
                chain.push(KnownSegment { bytes: *offset, ..segment });
            }
            _ => chain.push(segment),
        }
    }
    chain.reverse();
    chain
}
