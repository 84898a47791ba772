//! The index of a block table that stays in the file: where each frame of it lies.
//!
//! It is for tables that there is no memory to hold open. It keeps the last key of each frame,
//! which has about 16 KiB, and reads no blocks.
//!
//! # Invariants
//! 1. `frames` is not empty if the table has blocks, and each frame has some.
//! 2. A frame that is read again is the one that was read when the table was opened: it has as many
//!    blocks, and its last block ends as it did.

use crate::frame::FrameKind;
use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::format::properties::Properties;
use crate::table::read::source::TableSource;
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    key::SortKey,
    slice::Slice,
};

/// Where each frame of an index lies, and what it leads to.
#[derive(Debug)]
pub(in crate::table) struct FrameIndex {
    frames: Vec<IndexFrame>,
    /// The first key of the table.
    first_key: Slice,
    data_bytes: u64,
}

/// A frame of an index.
#[derive(Debug)]
pub(in crate::table) struct IndexFrame {
    pub last_key: Slice,
    last_sequence: SequenceNumber,
    /// Where it lies in the table.
    offset: u64,
    bytes: u64,
    /// Where the first of its blocks lies.
    data_offset: u64,
    /// The blocks of the frames before it.
    pub first_block: usize,
    pub blocks: usize,
    pub entries: u64,
    /// Whether the next frame begins with the key that this one ends with.
    is_continued: bool,
}

impl IndexFrame {
    /// Its last entry.
    fn last(&self) -> SortKey<'_> {
        SortKey::new(&self.last_key, self.last_sequence)
    }
}

impl FrameIndex {
    /// Reads the index of a block table once.
    ///
    /// # Errors
    /// Corruption, if it is damaged or contradicts the properties; what reading fails with.
    pub fn read(source: &TableSource, properties: &Properties) -> Result<Self> {
        let mut frames: Vec<IndexFrame> = Vec::new();
        let mut first_key = Slice::default();
        let mut part = Index::default();
        let (mut offset, mut first_block) = (properties.index_offset(), 0);
        for &bytes in &properties.index_bytes {
            let data_offset = part.data_bytes();
            part.begin_at(data_offset);
            let read = |raw: &[u8]| {
                part.read_frame(raw, properties.data_bytes)?;
                let Some(last) = part.count().checked_sub(1) else { return Ok(()) };
                match frames.last_mut() {
                    None => first_key = Slice::copy_from(part.info(0).first_key),
                    Some(before) => {
                        part.come_after(before.last())?;
                        before.is_continued = part.continues(0);
                    }
                }
                let BlockInfo { last_key, last_sequence, .. } = part.info(last);
                frames.push(IndexFrame {
                    last_key: Slice::copy_from(last_key),
                    last_sequence,
                    offset,
                    bytes,
                    data_offset,
                    first_block,
                    blocks: part.count(),
                    entries: part.entries(),
                    is_continued: false,
                });
                first_block += part.count();
                Ok(())
            };
            source.read_frame(FrameKind::Index, offset, bytes, read)?;
            offset += bytes;
        }
        let agrees = first_block as u64 == properties.data_frames
            && part.data_bytes() == properties.data_bytes
            && frames.iter().map(|frame| frame.entries).sum::<u64>() == properties.meta.entries;
        if !agrees {
            let error = Error::corruption("the parts of a table contradict each other");
            return Err(source.locate(error, properties.index_offset()));
        }
        frames.shrink_to_fit();
        Ok(Self { frames, first_key, data_bytes: properties.data_bytes })
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.frames.iter().map(|frame| frame.last_key.len()).sum();
        size_of_val(&self.frames[..]) + keys + self.first_key.len()
    }

    /// First and last key of the table.
    pub fn keys(&self) -> Option<(&[u8], &[u8])> {
        Some((&self.first_key, &self.frames.last()?.last_key))
    }

    /// Its frames.
    pub fn frames(&self) -> &[IndexFrame] {
        &self.frames
    }

    /// Bytes of the data frames that the frame `at` leads to.
    pub fn data_bytes_of(&self, at: usize) -> u64 {
        let end = self.frames.get(at + 1).map_or(self.data_bytes, |next| next.data_offset);
        end - self.frames[at].data_offset
    }

    /// The first frame whose last entry is at or after (`key`, `sequence`); behind the last, the
    /// number of frames.
    pub fn reaching(&self, key: &[u8], sequence: SequenceNumber) -> usize {
        self.frames.partition_point(|frame| frame.last() < SortKey::new(key, sequence))
    }

    /// Reads the frame `at` into `part`.
    ///
    /// # Errors
    /// Corruption, if the frame is damaged; what reading it fails with.
    pub fn read_part(&self, source: &TableSource, at: usize, part: &mut Index) -> Result<()> {
        let frame = &self.frames[at];
        let before = at.checked_sub(1).map(|before| &self.frames[before]);
        part.begin_at(frame.data_offset);
        source.read_frame(FrameKind::Index, frame.offset, frame.bytes, |raw| {
            part.read_frame(raw, self.data_bytes)?;
            let last = part.count().checked_sub(1).map(|last| part.info(last));
            let is_same = part.count() == frame.blocks
                && last.is_some_and(|last| {
                    last.last_key == &frame.last_key[..]
                        && last.last_sequence == frame.last_sequence
                });
            if !is_same {
                return Err(Error::corruption(
                    "a frame of an index is not the one that was opened",
                ));
            }
            if let Some(before) = before {
                part.come_after(before.last())?;
            }
            if frame.is_continued {
                part.go_on_with_last_key();
            }
            Ok(())
        })
    }
}
