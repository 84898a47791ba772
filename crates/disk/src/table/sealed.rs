//! A data block of one table, verified and ready to be copied into another without encoding it
//! again.
//!
//! It does not say which blocks may be copied: whose entries overlap nothing and lose nothing is
//! decided by compaction.

use super::facts::Facts;
use crate::{
    block::Block,
    frame::{Frame, FrameKind, Place, reseal},
};
use siltdb_base::error::Result;

/// A verified data block: the frame as it lies in its table, and what it decodes to.
#[derive(Debug)]
pub struct SealedBlock {
    frame: Vec<u8>,
    place: Place,
    block: Block,
    facts: Facts,
}

impl SealedBlock {
    /// Verifies the frame that lies at `place`: checksum, decoding and order; `buffer` is working
    /// memory.
    ///
    /// # Errors
    /// Corruption, if anything is wrong; `Unsupported`, if its codec is unknown.
    pub fn open(frame: Vec<u8>, place: Place, buffer: &mut Vec<u8>) -> Result<Self> {
        let opened = Frame::open(&frame, FrameKind::Data, place)?;
        let block = Block::parse(opened.decode(buffer)?)?;
        let facts = Facts::of(&block)?;
        Ok(Self { frame, place, block, facts })
    }

    /// The entries.
    #[must_use]
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// What is known of the entries.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Bytes of the frame.
    #[must_use]
    pub fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// Writes the frame, sealed for `place`, over the contents of `out`.
    pub fn seal_for(&self, place: Place, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.frame);
        reseal(out, self.place, place);
    }
}
