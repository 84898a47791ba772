//! The index of a block table that stays in the file: a reader has one frame of it in memory.
//!
//! It is for tables that there is no memory to hold open. It keeps the last key of each frame,
//! which has about 16 KiB, and reads no blocks.
//!
//! # Invariants
//! 1. `FrameIndex::frames` is not empty if the table has blocks, and each frame has some.
//! 2. If a position has a frame at hand, `part` is that frame, as it was when the table was opened:
//!    it has as many blocks, and its last block ends as it did.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::format::properties::Properties;
use crate::table::read::source::TableSource;
use crate::{cache::Cache, frame::FrameKind};
use siltdb_base::{
    budget::{Charge, Part},
    error::{Error, Result},
    id::SequenceNumber,
    key::compare,
    slice::Slice,
};
use std::cmp::Ordering;

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
    first_block: usize,
    blocks: usize,
    pub entries: u64,
    /// Whether the next frame begins with the key that this one ends with.
    is_continued: bool,
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
                        part.come_after((&before.last_key, before.last_sequence))?;
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
        self.frames.partition_point(|frame| {
            compare((&frame.last_key, frame.last_sequence), (key, sequence)) == Ordering::Less
        })
    }

    /// Reads the frame `at` into `part`.
    fn read_part(&self, source: &TableSource, at: usize, part: &mut Index) -> Result<()> {
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
                part.come_after((&before.last_key, before.last_sequence))?;
            }
            if frame.is_continued {
                part.go_on_with_last_key();
            }
            Ok(())
        })
    }
}

/// Where a reader stands in such an index.
#[derive(Debug, Default)]
pub(in crate::table) struct FramePosition {
    /// The frame at hand.
    at: Option<usize>,
    part: Index,
    charge: Option<Charge>,
}

impl FramePosition {
    /// The number of the block that holds the first entry at or after (`key`, `sequence`), if there
    /// is one. Its frame is at hand then.
    ///
    /// # Errors
    /// Corruption, if the frame is damaged; what reading it fails with.
    pub fn find(
        &mut self,
        (index, source, cache): (&FrameIndex, &TableSource, &Cache),
        (key, sequence): (&[u8], SequenceNumber),
    ) -> Result<Option<usize>> {
        let at = index.reaching(key, sequence);
        let Some(frame) = index.frames.get(at) else { return Ok(None) };
        self.go_to((index, source, cache), at)?;
        // By (2) the last block of the frame is at or after the place.
        let number = self.part.lower_bound_within(0..self.part.count(), key, sequence);
        Ok(Some(frame.first_block + number))
    }

    /// The frame with the block of this number, and the position of the block there.
    ///
    /// # Errors
    /// As [`FramePosition::find`].
    pub fn with_block(
        &mut self,
        (index, source, cache): (&FrameIndex, &TableSource, &Cache),
        number: usize,
    ) -> Result<(&Index, usize)> {
        let behind = index.frames.partition_point(|frame| frame.first_block <= number);
        let Some(at) = behind.checked_sub(1) else {
            return Err(Error::corruption("an index has fewer blocks than before"));
        };
        self.go_to((index, source, cache), at)?;
        Ok((&self.part, number - index.frames[at].first_block))
    }

    /// The frame at hand, and the position there of the block of this number, if it is in it.
    #[inline]
    pub fn held(&self, index: &FrameIndex, number: usize) -> Option<(&Index, usize)> {
        let position = number.checked_sub(index.frames[self.at?].first_block)?;
        (position < self.part.count()).then_some((&self.part, position))
    }

    /// The part of the index with the frame `at`.
    ///
    /// # Errors
    /// As [`FramePosition::find`].
    pub fn go_to(
        &mut self,
        (index, source, cache): (&FrameIndex, &TableSource, &Cache),
        at: usize,
    ) -> Result<&Index> {
        if self.at != Some(at) {
            if self.at.take().is_none() {
                self.part = Index::with_capacity(index.frames[at].blocks);
            }
            index.read_part(source, at, &mut self.part)?;
            self.at = Some(at);
            let bytes = size_of::<Self>() + self.part.memory_bytes();
            match &mut self.charge {
                Some(charge) => charge.resize(bytes),
                None => self.charge = Some(Charge::new(cache.budget(), Part::Cursors, bytes)),
            }
        }
        Ok(&self.part)
    }
}
