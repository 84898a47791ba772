//! A time of expiry in the log: the payload of a void record of one sequence number.
//!
//! It decides neither when a time is noted nor what follows from it. A reader that does not know
//! notes takes them for voids, which say nothing.
//!
//! ```text
//! | 0 u8, "siltime" | latest ms u64 le | jump ms u64 le |
//! ```
//!
//! The payload of any other void of one number is that of a commit that failed. It begins with the
//! kind of an operation, a length or a number, and none of these is 0.

use crate::log::{read::Record, record::RecordKind};
use siltdb_base::clock::StoredTime;

/// Length of a note, in bytes.
pub const TIME_NOTE_BYTES: usize = 24;

const MARK: [u8; 8] = *b"\0siltime";

/// The payload of a note.
#[must_use]
pub fn encode_time_note(time: StoredTime) -> [u8; TIME_NOTE_BYTES] {
    let mut note = [0; TIME_NOTE_BYTES];
    let words = [u64::from_le_bytes(MARK), time.latest_ms, time.jump_ms];
    for (bytes, word) in note.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    note
}

/// The later of `time` and what a record notes.
#[must_use]
pub fn time_after(time: StoredTime, record: &Record<'_>) -> StoredTime {
    time_note(record).map_or(time, |noted| time.later(noted))
}

/// The time that a record notes, if it is a note.
fn time_note(record: &Record<'_>) -> Option<StoredTime> {
    let header = &record.header;
    if header.kind != RecordKind::Void || header.count != 1 {
        return None;
    }
    let note: &[u8; TIME_NOTE_BYTES] = record.payload.try_into().ok()?;
    let (words, _) = note.as_chunks::<8>();
    let &[mark, latest_ms, jump_ms] = words else { return None };
    let (latest_ms, jump_ms) = (u64::from_le_bytes(latest_ms), u64::from_le_bytes(jump_ms));
    (mark == MARK).then_some(StoredTime { latest_ms, jump_ms })
}
