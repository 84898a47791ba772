//! The index of a block table that stays in the file: where each frame of it lies.
//!
//! It is for tables that there is no memory to hold open. It keeps the last key of each frame,
//! which has about 16 KiB; frames that are read often stay in the cache. It reads no blocks.
//!
//! # Invariants
//! 1. `frames` is not empty if the table has blocks, and each frame has some.
//! 2. A frame that is read again is the one that was read when the table was opened: it has as many
//!    blocks, and its last block ends as it did.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::format::properties::Properties;
use crate::table::read::loaded_frame::{LoadedFrame, Surroundings};
use crate::table::read::source::TableSource;
use crate::{
    cache::{Cache, CacheFill, Cached, Slots},
    frame::FrameKind,
};
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    key::SortKey,
    slice::Slice,
};
use std::sync::Arc;

/// Where each frame of an index lies, and what it leads to.
#[derive(Debug)]
pub(in crate::table) struct FrameIndex {
    frames: Vec<IndexFrame>,
    /// The first key of the table.
    first_key: Slice,
    data_bytes: u64,
    /// Of the frames.
    loaded: Slots<LoadedFrame>,
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
    pub fn read(source: &TableSource, properties: &Properties, cache: &Arc<Cache>) -> Result<Self> {
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
        let loaded = Slots::new(cache, frames.len());
        Ok(Self { frames, first_key, data_bytes: properties.data_bytes, loaded })
    }

    /// Bytes of memory that it takes, but for what is in the cache.
    pub fn memory_bytes(&self) -> usize {
        let keys: usize = self.frames.iter().map(|frame| frame.last_key.len()).sum();
        let slots = Slots::<LoadedFrame>::bytes(self.frames.len());
        size_of_val(&self.frames[..]) + keys + self.first_key.len() + slots
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

    /// What stands around the frame `at`.
    pub fn around(&self, at: usize) -> Surroundings<'_> {
        Surroundings {
            before: at.checked_sub(1).map(|before| self.frames[before].last()),
            is_continued: self.frames[at].is_continued,
            data_bytes: self.data_bytes,
        }
    }

    /// The frame `at`, from the cache, if it is there.
    #[inline]
    pub fn cached(&self, at: usize) -> Option<Arc<Cached<LoadedFrame>>> {
        self.loaded.get(at)
    }

    /// Reads the frame `at`, which the cache does not have, into `part`. Returns it if it is in the
    /// cache now.
    ///
    /// # Errors
    /// Corruption, if the frame is damaged; what reading it fails with.
    #[cold]
    pub fn load(
        &self,
        source: &TableSource,
        cache: &Arc<Cache>,
        at: usize,
        part: &mut Index,
    ) -> Result<Option<Arc<Cached<LoadedFrame>>>> {
        let frame = &self.frames[at];
        part.begin_at(frame.data_offset);
        let read = |raw: &[u8]| {
            let starts = LoadedFrame::decode(raw, part, self.data_bytes)?;
            self.check_same(at, part)?;
            Ok(match self.loaded.admit(at) {
                CacheFill::Pass => None,
                CacheFill::Keep => {
                    let loaded = LoadedFrame::new(raw, &starts, part, cache);
                    let bytes = loaded.memory_bytes();
                    Some(Arc::new(Cached::new(loaded, bytes)))
                }
            })
        };
        let loaded = source.read_frame(FrameKind::Index, frame.offset, frame.bytes, read)?;
        if let Some(loaded) = &loaded {
            self.loaded.insert(at, loaded);
        }
        Ok(loaded)
    }

    /// Checks (2) for the frame `at`, which was read into `part`, and notes there what stands
    /// around it.
    fn check_same(&self, at: usize, part: &mut Index) -> Result<()> {
        let frame = &self.frames[at];
        let last = part.count().checked_sub(1).map(|last| part.info(last));
        let is_same = part.count() == frame.blocks
            && last.is_some_and(|last| {
                SortKey::new(last.last_key, last.last_sequence) == frame.last()
            });
        if !is_same {
            return Err(Error::corruption("a frame of an index is not the one that was opened"));
        }
        let around = self.around(at);
        if let Some(before) = around.before {
            part.come_after(before)?;
        }
        if around.is_continued {
            part.go_on_with_last_key();
        }
        Ok(())
    }
}
