//! What of an open table is in memory, whichever its kind.
//!
//! It reads no blocks, and no filter.

use crate::table::format::index::Index;
use crate::table::format::properties::Properties;
use crate::table::format::tombstones;
use crate::table::read::frame_index::FrameIndex;
use crate::table::read::source::{FilterFrame, TableSource};
use crate::table::read::tree::TreeIndex;
use crate::{
    cache::Cache,
    frame::{FRAME_BYTES_MIN, FrameKind},
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use bytes::Bytes;
use siltdb_base::{
    error::{Error, Result},
    slice::Slice,
    tombstone::Fragments,
};
use std::sync::Arc;

/// What of a table is in memory.
#[derive(Debug)]
pub struct TableContents {
    pub meta: TableMeta,
    pub index: TableIndex,
    pub filter_frame: FilterFrame,
    pub tombstones: Arc<Fragments>,
    /// The number of data blocks.
    pub blocks: usize,
    /// Length of all data frames, in bytes.
    pub data_bytes: u64,
}

/// What of the index of a block table is held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexHold {
    /// All of it.
    Whole,
    /// The last key of each of its frames.
    Frames,
}

/// How the blocks are found.
#[derive(Debug)]
pub enum TableIndex {
    /// By a list of all of them. An open table without blocks has an empty one.
    Whole(Index),
    /// By the same list, which is in the file.
    Frames(FrameIndex),
    /// By a tree, of which the root is in memory.
    Tree(TreeIndex),
}

impl TableIndex {
    /// Bytes of memory that it takes, but for what is in the cache.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Whole(index) => index.memory_bytes(),
            Self::Frames(index) => index.memory_bytes(),
            Self::Tree(tree) => tree.memory_bytes(),
        }
    }

    /// First and last key of all blocks.
    fn keys(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Whole(index) => {
                let last = index.count().checked_sub(1)?;
                Some((index.info(0).first_key, index.info(last).last_key))
            }
            Self::Frames(index) => index.keys(),
            Self::Tree(tree) => Some((tree.beneath().first_key, tree.beneath().last_key)),
        }
    }
}

impl TableContents {
    /// Reads everything that the `properties` of the table at `source` lead to, except the filter,
    /// the data frames and the nodes below the root. `mapping` has its bytes, if they are mapped;
    /// `hold` is for a block table.
    ///
    /// # Errors
    /// Corruption, if a part is damaged, or parts contradict each other; what reading fails with.
    pub fn read(
        source: &TableSource,
        properties: Properties,
        mapping: Option<&Bytes>,
        hold: IndexHold,
        cache: &Arc<Cache>,
    ) -> Result<Self> {
        let index = match (properties.tree, hold) {
            (Some(tree), _) if tree.lowest > 0 => {
                TableIndex::Tree(TreeIndex::open(source, &properties, mapping, cache)?)
            }
            (_, IndexHold::Whole) => TableIndex::Whole(read_index(source, &properties)?),
            (_, IndexHold::Frames) => {
                TableIndex::Frames(FrameIndex::read(source, &properties, cache)?)
            }
        };
        let fragments = source.read_tombstones(&properties)?;
        check_contents(&properties, &index, &fragments)
            .map_err(|error| source.locate(error, properties.index_offset()))?;
        Ok(Self {
            index,
            filter_frame: FilterFrame::of(&properties),
            tombstones: Arc::new(fragments),
            blocks: properties.data_frames as usize,
            data_bytes: properties.data_bytes,
            meta: properties.meta,
        })
    }
}

/// Reads the whole index of a block table.
fn read_index(source: &TableSource, properties: &Properties) -> Result<Index> {
    // What they say beyond what there is room for will be found out.
    let frames = properties.data_frames.min(properties.data_bytes / FRAME_BYTES_MIN);
    let mut index = Index::with_capacity(frames as usize);
    let mut offset = properties.index_offset();
    for &bytes in &properties.index_bytes {
        source.read_frame(FrameKind::Index, offset, bytes, |raw| {
            index.read_frame(raw, properties.data_bytes)
        })?;
        offset += bytes;
    }
    index.finish();
    let agrees = index.count() as u64 == properties.data_frames
        && index.data_bytes() == properties.data_bytes
        && index.entries() == properties.meta.entries;
    if agrees { Ok(index) } else { Err(source.locate(contradiction(), properties.index_offset())) }
}

/// Checks that what was read apart agrees.
fn check_contents(
    properties: &Properties,
    index: &TableIndex,
    fragments: &Fragments,
) -> Result<()> {
    let meta = &properties.meta;
    let blocks = index.keys().map(|(first, last)| KeySpan {
        first: Slice::copy_from(first),
        last: Slice::copy_from(last),
        end: RangeEnd::Inclusive,
    });
    let range = tombstones::united_range(blocks, fragments);
    let agrees =
        fragments.count() as u64 == meta.range_tombstones && range.as_ref() == Some(&meta.range);
    if agrees { Ok(()) } else { Err(contradiction()) }
}

#[cold]
fn contradiction() -> Error {
    Error::corruption("the parts of a table contradict each other")
}
