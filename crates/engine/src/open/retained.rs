//! Which log files an opening keeps although recovery does not need them: those that the options
//! retain for feeds.
//!
//! It changes no file. A retired segment counts only if the segment behind it follows it, as far as
//! that one says so: what an earlier recovery cut off is no part of the log.

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

/// What the options retain of the log.
pub(super) fn retention(options: &EngineOptions) -> Retention {
    let time = options.retain_log_for;
    Retention {
        bytes: options.retain_log_bytes,
        time: (!time.is_zero()).then(|| (time, Arc::clone(&options.clock))),
        feed_bytes_max: options.feed_bytes_max,
    }
}

/// Tells the log of the segments that were replayed, and of the retired ones before them that are
/// kept. `last` is the last sequence number that was given.
///
/// # Errors
/// What opening and reading files fails with.
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
            // A file that was being taken into use when the process ended.
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

/// Those of the segments `older` that come right before `next`, if there is one, oldest first.
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
                // A segment that recovery did not need lies before those that it did.
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
