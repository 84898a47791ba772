//! Builds the index of a B+tree table from the bottom up, as its blocks are written.
//!
//! It does not write frames: its caller does, and says where they lie.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::block_stats::BlockStats;
use crate::table::format::node::{CONTINUES, NodeBuilder, NodeView};
use siltdb_base::{
    error::Result,
    key::SortKey,
    limits::{INDEX_FRAME_BYTES, NODE_LEVELS_MAX},
};
use std::ops::Range;

/// Raw length from which on a node is full, in bytes. The tests of this floor have shorter ones, so
/// that their trees are tall.
const NODE_BYTES: usize = if cfg!(test) { 600 } else { INDEX_FRAME_BYTES };

/// A node has at least as many children, but for the last of a level: so levels come to an end,
/// however long the keys.
const CHILDREN_MIN: usize = 2;

/// Gathers the blocks of a table, and encodes the nodes that lead to them.
#[derive(Debug, Default)]
pub struct TreeBuilder {
    full: Vec<Vec<u8>>,
    full_bytes: usize,
    open: NodeBuilder,
    last_key: Vec<u8>,
    blocks: u64,
    data_bytes: u64,
}

impl TreeBuilder {
    /// Adds the block after those before it.
    pub fn add(
        &mut self,
        first_key: &[u8],
        last: SortKey<'_>,
        stats: &BlockStats,
        frame_bytes: u64,
    ) {
        let SortKey { key: last_key, sequence: last_sequence } = last;
        let info = BlockInfo {
            first_key,
            last_key,
            last_sequence,
            sequence_max: stats.sequence_max,
            expiry_min_ms: stats.expiry_min_ms,
            contents: stats.contents,
            entries: stats.entries,
            offset: self.data_bytes,
            bytes: frame_bytes,
        };
        let continues = self.blocks > 0 && self.last_key == first_key;
        if let Some(full) = add_child(&mut self.open, &info, self.blocks, continues) {
            self.full_bytes += full.len();
            self.full.push(full);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(last_key);
        self.blocks += 1;
        self.data_bytes += frame_bytes;
    }

    /// The blocks that were added so far.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of the lowest nodes so far.
    #[must_use]
    pub fn raw_bytes(&self) -> usize {
        self.full_bytes + self.open.raw_bytes()
    }

    /// Has `write` write the nodes, level by level, the root last. It returns where the frame of
    /// one lies. Returns the number of the lowest nodes; 0, if there is no block.
    ///
    /// # Errors
    /// What `write` fails with.
    pub fn finish(mut self, write: &mut dyn FnMut(&[u8]) -> Result<Range<u64>>) -> Result<usize> {
        if self.open.count() > 0 {
            self.full.push(self.open.finish());
        }
        let (mut nodes, mut level) = (self.full, 0);
        let lowest = nodes.len();
        while !nodes.is_empty() {
            let is_root = nodes.len() == 1;
            level += 1;
            let (mut open, mut above) = (NodeBuilder::new(level), Vec::new());
            for raw in &nodes {
                let (frame, node) = (write(raw)?, NodeView::at(raw)?);
                let (info, first_block) = (node.beneath(), node.first_block());
                above.extend(add_child(&mut open, &info, first_block, node.continues(0)));
                open.place_last(&frame, node.end_block());
            }
            if is_root {
                break;
            }
            above.push(open.finish());
            assert!(above.len() < nodes.len(), "a level of a tree as long as the one beneath");
            assert!(level < NODE_LEVELS_MAX, "a tree that no reader goes down");
            nodes = above;
        }
        Ok(lowest)
    }
}

/// Adds a child to the open node, or to the next one, if it is full, which is then returned.
fn add_child(
    open: &mut NodeBuilder,
    info: &BlockInfo<'_>,
    first_block: u64,
    continues: bool,
) -> Option<Vec<u8>> {
    if continues && open.count() > 0 {
        open.continue_last();
    }
    let is_full = open.raw_bytes() >= NODE_BYTES && open.count() >= CHILDREN_MIN;
    let full = is_full.then(|| open.finish());
    open.add(info, first_block, if continues { CONTINUES } else { 0 });
    full
}
