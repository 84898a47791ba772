//! A data block of one table, verified and ready to be copied into another without encoding it
//! again.
//!
//! It does not say which blocks may be copied: whose entries overlap nothing and lose nothing is
//! decided by compaction.

use crate::table::format::block_stats::BlockStats;
use crate::{
    block::Block,
    compress::Codec,
    frame::{CHECKSUM_BYTES, Frame, FrameKind, FramePlace, moved_checksum},
    zstd::Dictionary,
};
use bytes::Bytes;
use siltdb_base::{error::Result, invariant, memory::region::Buffer};
use std::ops::Range;

/// A verified data block: the frame as it lies in its table, and what it decodes to.
#[derive(Debug)]
pub struct SealedBlock {
    frame: Bytes,
    place: FramePlace,
    block: Block,
    stats: BlockStats,
}

impl SealedBlock {
    /// Verifies the frame that lies at `place`: checksum, decoding and order. `dictionary` is that
    /// of its table, if the frame may need it; `buffer` is working memory. A block that is not
    /// compressed stays where it is.
    ///
    /// # Errors
    /// Corruption, if anything is wrong; `Unsupported`, if its codec is unknown.
    pub fn open(
        mut frame: Vec<u8>,
        place: FramePlace,
        dictionary: Option<&Dictionary>,
        buffer: &mut Vec<u8>,
    ) -> Result<Self> {
        let frame_bytes = frame.len();
        let opened = Frame::open(&frame, FrameKind::Data, place)?;
        let (frame, block) = match opened.codec {
            Codec::Raw => {
                let Range { start, end } = opened.payload_place(frame_bytes);
                // What has to be behind a block that stays where it is.
                frame.reserve_exact(Block::BYTES_BEHIND);
                frame.resize(end + Block::BYTES_BEHIND.max(CHECKSUM_BYTES), 0);
                let bytes = Bytes::from(frame);
                let raw = bytes.slice(start..end + Block::BYTES_BEHIND);
                (bytes.slice(..frame_bytes), Block::map(raw, Buffer::copy_on_heap)?)
            }
            Codec::Lz4 | Codec::Zstd | Codec::Snappy => {
                let block = Block::parse(opened.decode(dictionary, buffer)?)?;
                (frame.into(), block)
            }
        };
        let stats = BlockStats::of(&block)?;
        Ok(Self { frame, place, block, stats })
    }

    /// The block that holds the entries.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// What is known of the entries.
    #[must_use]
    pub fn stats(&self) -> &BlockStats {
        &self.stats
    }

    /// Bytes of the frame.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// The frame as it lies at `place`: all but its checksum, and the checksum.
    #[must_use]
    pub fn sealed_for(&self, place: FramePlace) -> (&[u8], [u8; CHECKSUM_BYTES]) {
        let covered = &self.frame[..self.frame.len() - CHECKSUM_BYTES];
        let checksum = moved_checksum(&self.frame, self.place, place);
        invariant!(
            Frame::open(&[covered, &checksum].concat(), FrameKind::Data, place).is_ok(),
            "a copied frame that does not open at {place:?}"
        );
        (covered, checksum)
    }
}
