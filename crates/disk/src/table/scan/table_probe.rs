//! Looks up keys in a table whose index is not in memory: one frame of it at a time.
//!
//! It is for tables that there is no memory to hold open. It caches nothing. It keeps the last key
//! of each frame of the index, which has about 16 KiB.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::read::lookup::FoundEntry;
use crate::table::read::source::with_scratch;
use crate::table::scan::table_scan::TableScan;
use crate::{
    block::{Block, Glance, glance},
    cache::Cache,
    frame::{Frame, FrameKind, FramePlace},
    zstd::Dictionary,
};
use siltdb_base::{
    budget::{Charge, Part},
    error::{Error, Result},
    id::SequenceNumber,
    key::{LookupKey, compare},
    slice::{Pinnable, Slice},
};
use std::{cmp::Ordering, sync::Arc};

/// A table, and where each frame of its index ends.
///
/// # Thread safety
/// It is immutable.
#[derive(Debug)]
pub struct TableProbe {
    table: Arc<TableScan>,
    frames: Vec<IndexFrame>,
    _charge: Charge,
}

/// A frame of the index, and what it leads to.
#[derive(Debug)]
struct IndexFrame {
    last_key: Slice,
    last_sequence: SequenceNumber,
    /// Where it lies in the table.
    offset: u64,
    bytes: u64,
    /// Where the first of its blocks lies.
    data_offset: u64,
}

impl TableProbe {
    /// Reads the index of `table` once. What it keeps is charged to [`Part::Tables`] of the budget
    /// of `cache`.
    ///
    /// # Errors
    /// Corruption, if the index is damaged; what reading fails with.
    pub fn new(table: Arc<TableScan>, cache: &Cache) -> Result<Self> {
        let properties = &table.properties;
        let mut frames: Vec<IndexFrame> = Vec::new();
        let mut part = Index::default();
        let mut offset = properties.index_offset();
        for &bytes in &properties.index_bytes {
            let data_offset = part.data_bytes();
            part.begin_at(data_offset);
            let read = |raw: &[u8]| {
                part.read_frame(raw, properties.data_bytes)?;
                let Some(last) = part.count().checked_sub(1) else { return Ok(()) };
                if let Some(before) = frames.last() {
                    part.come_after((&before.last_key, before.last_sequence))?;
                }
                let BlockInfo { last_key, last_sequence, .. } = part.info(last);
                let last_key = Slice::copy_from(last_key);
                frames.push(IndexFrame { last_key, last_sequence, offset, bytes, data_offset });
                Ok(())
            };
            table.source.read_frame(FrameKind::Index, offset, bytes, read)?;
            offset += bytes;
        }
        if part.data_bytes() != properties.data_bytes {
            let error = Error::corruption("the parts of a table contradict each other");
            return Err(table.source.locate(error, properties.index_offset()));
        }
        let keys: usize = frames.iter().map(|frame| frame.last_key.len()).sum();
        let bytes = size_of_val(&frames[..]) + keys + size_of_val(&properties.index_bytes[..]);
        // A longer one is refused when it is read.
        let dictionary = properties.dictionary_bytes.min(FrameKind::Dictionary.frame_bytes_max());
        let dictionary = match dictionary as usize {
            0 => 0,
            bytes => Dictionary::memory_bytes(bytes),
        };
        let bytes = bytes + size_of::<TableScan>() + dictionary;
        let charge = Charge::new(cache.budget(), Part::Tables, bytes);
        Ok(Self { table, frames, _charge: charge })
    }

    /// Calls `look` with the newest point entry of `key` that is not newer than `visible`, if
    /// there is one. Reads one frame of the index and one block, and asks no filter.
    ///
    /// # Errors
    /// Corruption, if either is damaged; what reading fails with.
    pub fn get<R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        let (key, source) = (key.key(), &self.table.source);
        let at = self.frames.partition_point(|frame| {
            compare((&frame.last_key, frame.last_sequence), (key, visible)) == Ordering::Less
        });
        let Some(frame) = self.frames.get(at) else { return Ok(None) };
        let mut part = Index::default();
        part.begin_at(frame.data_offset);
        source.read_frame(FrameKind::Index, frame.offset, frame.bytes, |raw| {
            part.read_frame(raw, self.table.properties.data_bytes)
        })?;
        let index = part.lower_bound_within(0..part.count(), key, visible);
        if index == part.count() {
            let error = Error::corruption("a frame of an index is not the one that was opened");
            return Err(source.locate(error, frame.offset));
        }
        let info = part.info(index);
        with_scratch(|scratch| {
            source.read(info.offset, info.bytes, &mut scratch.frame)?;
            let place = FramePlace { table: source.uid, offset: info.offset };
            let frame = Frame::open(&scratch.frame, FrameKind::Data, place)?;
            let dictionary = source.dictionary_for(Some(frame.codec))?;
            let raw = frame.decode_padded(dictionary, Block::BYTES_BEHIND, &mut scratch.raw)?;
            Ok(match glance(raw, info.entries, key, visible)? {
                Glance::Found(located) => {
                    let value = Pinnable::from(located.value(raw));
                    Some(look(FoundEntry::new(value, &located)))
                }
                Glance::Absent | Glance::Newer => None,
            })
        })
        .map_err(|error| source.locate(error, info.offset))
    }
}
