//! The record log: segments of checksummed records, shared by the write-ahead log and the manifest.
//!
//! It does not know what the payload of a record means, when to sync, or when a segment may go.
//!
//! ```text
//! segment: | segment header, 64 bytes | record | record | … | unused or stale bytes |
//! record:  | record header, 24 bytes | count, if it is told | payload | zeros up to 8 |
//! ```
//!
//! # Invariants
//! 1. Records of a segment follow each other without gaps; each begins at a multiple of 8.
//! 2. The first sequence number of a record is that of the record before it plus its count; its
//!    header has the low bits of it.
//! 3. A segment begins where its header's `previous` says that the one before it ended, and with
//!    the next sequence number. So what survives of a segment whose predecessor lost its tail is
//!    not replayed.
//! 4. A record's header is tied to its segment and its offset, and a segment's id is never used
//!    twice. So stale bytes of a recycled file and misplaced writes are not records.
//! 5. A record's `synced` is a position at or before the record, at most 15 segments back.
//!    Everything before that position was durable when the record was filled.
//! 6. Nothing follows an `End` record, and nothing is appended to a segment after recovery.
//!
//! # What the writer owes
//! 1. Segment ids come from [`segment::next_segment`]. Because of their random part, values chosen
//!    by a user cannot form a payload that passes for a record.
//! 2. `synced` names an offset in a segment whose header is synced. After a rotation it stays in
//!    the old segment until bytes of the new one are durable. It is never an offset 0.
//! 3. After a recovery two things hold before a new commit is acknowledged. The segments replayed
//!    are synced, and a cut is durable in the manifest as a [`recover::KnownCut`].
//!
//! # Seeded faults
//! With the fault `replay_without_segment_id` a record need not be tied to its segment, nor have
//! the next sequence number. With `skip_checksum` the checksum of a body is not looked at. A crash
//! suite that does not notice them proves nothing.

pub mod record;
pub mod segment;
pub mod fill;
mod window;
pub mod read;
pub mod time_note;
mod scan;
pub mod recover;
pub mod salvage;

#[cfg(test)]
mod tests;
