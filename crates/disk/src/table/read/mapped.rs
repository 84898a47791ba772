//! The data blocks of a table where the system maps its file.
//!
//! It reads no file: bytes that are not in memory come when they are looked at.
//!
//! # Thread safety
//! Any thread may open blocks. Two may verify the same one.

use crate::table::format::block_info::BlockInfo;
use crate::table::read::source::TableSource;
use crate::{
    block::Block,
    compress::Codec,
    frame::{Frame, FrameKind, FramePlace},
};
use bytes::Bytes;
use siltdb_base::{
    error::{Error, Result},
    id::TableUid,
    memory::region::{Buffer, Margins},
};
use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// Blocks whose bits share a word.
const BLOCKS_PER_WORD: usize = 64;

/// The bytes of a table, mapped, and which of its blocks were found as they should be.
#[derive(Debug)]
pub(in crate::table) struct Mapped {
    bytes: Bytes,
    uid: TableUid,
    /// Of blocks that are looked at where they lie. What is decoded is verified each time.
    verified: Box<[AtomicU64]>,
}

/// A part of a mapping with an owner of its own: readers of one block count themselves where those
/// of others do not.
struct Share {
    bytes: Bytes,
}

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes of a mapping with an owner of their own.
pub(in crate::table) fn share(bytes: Bytes) -> Bytes {
    Bytes::from_owner(Share { bytes })
}

impl Mapped {
    /// The table `uid` of `blocks` data blocks, which lies in `bytes`.
    pub(in crate::table) fn new(bytes: Bytes, uid: TableUid, blocks: usize) -> Self {
        let words = blocks.div_ceil(BLOCKS_PER_WORD);
        Self { bytes, uid, verified: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Bytes of memory it takes beside itself and what is mapped.
    pub(in crate::table) fn memory_bytes(&self) -> usize {
        size_of_val::<[_]>(&self.verified)
    }

    /// Whether [`Mapped::note_verified`] was called for the block at `index`.
    pub(in crate::table) fn is_verified(&self, index: usize) -> bool {
        // Relaxed, here and below: the bytes are the same for all threads, verified or not.
        let word = self.verified[index / BLOCKS_PER_WORD].load(Ordering::Relaxed);
        word & bit_of(index) != 0
    }

    /// Notes that the block at `index`, described by `info`, was verified. If it is read in place,
    /// it is not verified again.
    pub(in crate::table) fn note_verified(&self, index: usize, info: &BlockInfo<'_>) {
        if self.is_raw(info) {
            self.verified[index / BLOCKS_PER_WORD].fetch_or(bit_of(index), Ordering::Relaxed);
        }
    }

    /// Whether a block says of itself that it is not compressed.
    pub(in crate::table) fn is_raw(&self, info: &BlockInfo<'_>) -> bool {
        let frame = self.bytes.get(info.offset as usize..);
        frame.is_some_and(|frame| Frame::codec_of(frame) == Some(Codec::Raw))
    }

    /// The block at `index`, described by `info`: in place, unless it is compressed. `source` has
    /// the dictionary of its table; `copy` chooses the memory of what lies elsewhere, `buffer` is
    /// working memory.
    ///
    /// # Errors
    /// Corruption, if it is damaged; `Unsupported`, if its codec is unknown.
    pub(in crate::table) fn open(
        &self,
        index: usize,
        info: &BlockInfo<'_>,
        source: &TableSource,
        buffer: &mut Vec<u8>,
        copy: impl FnOnce(&[u8], Margins) -> Buffer,
    ) -> Result<Block> {
        let frame = self.frame(index, info)?;
        match frame.codec {
            Codec::Raw => {
                let raw = self.bytes.slice(self.place_of(&frame, info)?);
                Block::map(share(raw), copy)
            }
            codec => {
                let dictionary = source.dictionary_for(Some(codec))?;
                Block::parse_into(frame.decode(dictionary.as_deref(), buffer)?, copy)
            }
        }
    }

    /// Calls `look` with the bytes of the block at `index`, described by `info`, and with
    /// [`Block::BYTES_BEHIND`] after them. `source` has the dictionary of its table, `buffer` is
    /// working memory.
    ///
    /// # Errors
    /// The errors of [`Mapped::open`].
    pub(in crate::table) fn with_raw<R>(
        &self,
        index: usize,
        info: &BlockInfo<'_>,
        source: &TableSource,
        buffer: &mut Vec<u8>,
        look: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        let frame = self.frame(index, info)?;
        match frame.codec {
            Codec::Raw => look(&self.bytes[self.place_of(&frame, info)?]),
            codec => {
                let dictionary = source.dictionary_for(Some(codec))?;
                look(frame.decode_padded(dictionary.as_deref(), Block::BYTES_BEHIND, buffer)?)
            }
        }
    }

    /// The frame of the block at `index`; its checksum is compared unless it was before.
    fn frame(&self, index: usize, info: &BlockInfo<'_>) -> Result<Frame<'_>> {
        let end = (info.offset + info.bytes) as usize;
        let bytes = self.bytes.get(info.offset as usize..end).ok_or_else(outside)?;
        let place = FramePlace { table: self.uid, offset: info.offset };
        match self.is_verified(index) {
            // Should the system read other bytes than before, they are decoded within bounds.
            true => Frame::open_verified(bytes, FrameKind::Data),
            false => Frame::open(bytes, FrameKind::Data, place),
        }
    }

    /// Where the payload of a frame lies, and what must follow it.
    fn place_of(&self, frame: &Frame<'_>, info: &BlockInfo<'_>) -> Result<Range<usize>> {
        let payload = frame.payload_place((info.offset + info.bytes) as usize);
        let behind = payload.end + Block::BYTES_BEHIND;
        if behind > self.bytes.len() {
            return Err(outside());
        }
        Ok(payload.start..behind)
    }
}

#[cold]
fn outside() -> Error {
    Error::corruption("a block does not lie within its table")
}

/// The bit of a block in its word.
fn bit_of(index: usize) -> u64 {
    1 << (index % BLOCKS_PER_WORD)
}
