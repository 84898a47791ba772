//! What an index, of either kind, knows of one data block.

use crate::table::format::block_stats::Contents;
use siltdb_base::id::SequenceNumber;

/// What the index knows of one data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo<'a> {
    /// The key of its first entry.
    pub first_key: &'a [u8],
    /// The key of its last entry.
    pub last_key: &'a [u8],
    /// The sequence number of its last entry.
    pub last_sequence: SequenceNumber,
    /// The newest sequence number.
    pub sequence_max: SequenceNumber,
    /// The earliest expiry, in ms since 1970.
    pub expiry_min_ms: Option<u64>,
    /// What it holds beside plain entries.
    pub contents: Contents,
    /// Entries of the block.
    pub entries: u64,
    /// Offset of its frame from the start of the table, in bytes.
    pub offset: u64,
    /// Length of its frame, in bytes.
    pub bytes: u64,
}

/// Some blocks that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The one farthest away.
    pub last: usize,
    /// Entries of all of them.
    pub entries: usize,
    /// The newest sequence number.
    pub sequence_max: SequenceNumber,
}
