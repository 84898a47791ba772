//! Encodes the end of a table: its properties and its footer.
//!
//! It writes to no file.

use crate::table::format::footer::{FOOTER_BYTES, Footer};
use crate::table::format::properties::Properties;
use crate::{
    compress::Compressor,
    frame::{FrameKind, FramePlace, seal},
    options::Compression,
    table_meta::TableMeta,
};
use siltdb_base::{id::SequenceNumber, limits::TABLE_END_MAX};

/// Checks that the frames before its end fill a table that has `written` bytes so far, and that it
/// has blocks for its entries: a reader finds each frame by the lengths of those before it.
///
/// # Panics
/// If not: the table would become durable.
pub fn assert_whole(properties: &Properties, written: u64) {
    let index_bytes: u64 = properties.index_bytes.iter().sum();
    let parts = properties.index_offset() + index_bytes;
    assert_eq!(parts, written, "the parts of a table do not fill it");
    let (blocks, entries) = (properties.data_frames, properties.meta.entries);
    assert!((blocks == 0) == (entries == 0), "{entries} entries in {blocks} blocks");
    assert!(blocks <= entries, "{blocks} blocks of {entries} entries");
    let TableMeta { point_tombstones, merge_operands, .. } = properties.meta;
    assert!(point_tombstones.max(merge_operands) <= entries, "more deletions than entries");
    let (oldest, newest) = (properties.meta.sequence_min, properties.meta.sequence_max);
    assert!(oldest <= newest, "a table with sequence numbers from {oldest} to {newest}");
    assert!(newest <= SequenceNumber::MAX, "a table with the sequence number {newest}");
}

/// Properties and footer of a table whose other frames end at `place`.
pub fn encode_end(mut properties: Properties, place: FramePlace) -> (TableMeta, Vec<u8>) {
    // The properties say how long the table is, and that depends on how long they are.
    let mut compressor = Compressor::new(Compression::None);
    let mut end = Vec::new();
    loop {
        let mut raw = Vec::new();
        properties.encode(&mut raw);
        end.clear();
        seal(FrameKind::Properties, place, &raw, &mut compressor, &mut end);
        let table_bytes = place.offset + (end.len() + FOOTER_BYTES) as u64;
        if properties.meta.file_bytes == table_bytes {
            break;
        }
        // The length only grows, and its varint ends at ten bytes: this ends.
        properties.meta.file_bytes = table_bytes;
    }
    let (uid, table_bytes) = (place.table, properties.meta.file_bytes);
    assert!(table_bytes <= TABLE_END_MAX, "a table of {table_bytes} bytes");
    let end_bytes = (end.len() + FOOTER_BYTES) as u64;
    assert!(end_bytes <= table_bytes, "an end longer than its table");
    let footer = Footer { uid, table_bytes, properties_bytes: end.len() as u64 };
    end.extend_from_slice(&footer.encode());
    (properties.meta, end)
}

/// Whether a copy, or a table without an origin, has to state its own compression, where a reader
/// would take it for `usual`. Of none and LZ4 it does not, as when there were no others: an output
/// may take over blocks of both.
#[must_use]
pub fn is_to_be_stated(own: Compression, usual: Compression) -> bool {
    let is_old = |one| matches!(one, Compression::None | Compression::Lz4);
    own != usual && !(is_old(own) && is_old(usual))
}
