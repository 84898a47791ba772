//! The index of a table while its blocks are written, of either kind.

use crate::frame::{FRAME_BYTES_MIN, FrameKind};
use crate::options::TableKind;
use crate::table::format::block_stats::BlockStats;
use crate::table::format::index::IndexBuilder;
use crate::table::format::tree_builder::TreeBuilder;
use siltdb_base::{error::Result, key::SortKey};
use std::ops::Range;

/// Gathers the blocks of a table.
#[derive(Debug)]
pub enum IndexWriter {
    /// For a block table.
    Whole(IndexBuilder),
    /// For a B+tree table.
    Tree(TreeBuilder),
}

/// The frames of an index that was written.
#[derive(Debug, Default)]
pub struct IndexFrames {
    /// Length of each, in bytes.
    pub bytes: Vec<u64>,
    /// How many of them, from the first on, lead to blocks.
    pub lowest: usize,
}

impl IndexWriter {
    /// An index without blocks.
    #[must_use]
    pub fn new(kind: TableKind) -> Self {
        match kind {
            TableKind::Block => Self::Whole(IndexBuilder::default()),
            TableKind::BTree => Self::Tree(TreeBuilder::default()),
        }
    }

    /// Adds the block after those before it.
    pub fn add(
        &mut self,
        first_key: &[u8],
        last: SortKey<'_>,
        stats: &BlockStats,
        frame_bytes: u64,
    ) {
        assert!(frame_bytes >= FRAME_BYTES_MIN, "a block of {frame_bytes} bytes");
        assert!(last.sequence <= stats.sequence_max, "a block newer than it says");
        assert!(stats.entries > 0 && first_key <= last.key, "a block without keys");
        match self {
            Self::Whole(index) => index.add(first_key, last, stats, frame_bytes),
            Self::Tree(tree) => tree.add(first_key, last, stats, frame_bytes),
        }
    }

    /// The blocks that were added so far.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        match self {
            Self::Whole(index) => index.blocks(),
            Self::Tree(tree) => tree.blocks(),
        }
    }

    /// Bytes of the index so far, before compression.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        match self {
            Self::Whole(index) => index.raw_bytes(),
            Self::Tree(tree) => tree.raw_bytes(),
        }
    }

    /// Has `write` write each frame; it says where the frame lies.
    ///
    /// # Errors
    /// What `write` fails with.
    pub fn finish(
        self,
        mut write: impl FnMut(FrameKind, &[u8]) -> Result<Range<u64>>,
    ) -> Result<IndexFrames> {
        let mut bytes = Vec::new();
        let mut write = |kind, raw: &[u8]| {
            let frame = write(kind, raw)?;
            bytes.push(frame.end - frame.start);
            Ok(frame)
        };
        let lowest = match self {
            Self::Whole(index) => {
                let frames = index.finish();
                frames.iter().try_for_each(|raw| write(FrameKind::Index, raw).map(drop))?;
                frames.len()
            }
            Self::Tree(tree) => tree.finish(&mut |raw| write(FrameKind::Node, raw))?,
        };
        Ok(IndexFrames { bytes, lowest })
    }
}
