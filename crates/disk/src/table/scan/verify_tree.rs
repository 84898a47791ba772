//! Checks every node of a B+tree table against its children.
//!
//! It reads no blocks: what the lowest nodes say of them is checked with the blocks.

use crate::frame::FrameKind;
use crate::table::format::node::NodeView;
use crate::table::read::source::TableSource;
use crate::table::read::tree::check_root;
use crate::table::scan::table_scan::TableScan;
use siltdb_base::error::{Error, Result};
use std::ops::Range;

impl TableScan {
    /// Checks that the root leads to each node of the index once, in order, and that each node says
    /// of its children what these say themselves. Does nothing for a block table.
    ///
    /// Cost: reads each node once, but the lowest ones again for the blocks.
    ///
    /// # Errors
    /// Corruption, naming file and offset; what reading fails with.
    pub(in crate::table) fn verify_tree(&self) -> Result<()> {
        let properties = &self.properties;
        let Some(root_bytes) = properties.tree.and(properties.index_bytes.last()) else {
            return Ok(());
        };
        let mut offset = properties.index_offset();
        let mut frames = Vec::with_capacity(properties.index_bytes.len());
        for &bytes in &properties.index_bytes {
            frames.push(offset..offset + bytes);
            offset += bytes;
        }
        let root = offset - root_bytes..offset;
        let raw = read_node(&self.source, &root)?;
        let node = NodeView::at(&raw)?;
        check_root(&node, properties).map_err(|error| self.source.locate(error, root.start))?;
        let mut visit = TreeVisit { source: &self.source, frames, seen: 1 };
        visit.check(&node, root.start)?;
        if visit.seen == visit.frames.len() {
            return Ok(());
        }
        let error = Error::corruption("nodes of a table are not part of its tree");
        Err(self.source.locate(error.with_mismatch(visit.frames.len(), visit.seen), root.start))
    }
}

/// One way through all nodes.
struct TreeVisit<'t> {
    source: &'t TableSource,
    /// Where the nodes lie, in order.
    frames: Vec<Range<u64>>,
    /// The nodes that were come to.
    seen: usize,
}

impl TreeVisit<'_> {
    /// Checks the children of `node`, whose frame begins at `offset`.
    fn check(&mut self, node: &NodeView<'_>, offset: u64) -> Result<()> {
        if node.level() == 0 {
            return Ok(());
        }
        for at in 0..node.count() {
            let frame = node.child_place(at);
            if self.frames.binary_search_by_key(&frame.start, |frame| frame.start).is_err() {
                let error = Error::corruption("a node leads to no frame of its index");
                return Err(self.source.locate(error, offset));
            }
            let raw = read_node(self.source, &frame)?;
            let child = NodeView::at(&raw)?;
            node.check_child(at, &child).map_err(|error| self.source.locate(error, frame.start))?;
            // Children cover other blocks each, so no node is come to twice.
            self.seen += 1;
            self.check(&child, frame.start)?;
        }
        Ok(())
    }
}

/// The raw bytes of the node at `frame`, which is sound by itself.
fn read_node(source: &TableSource, frame: &Range<u64>) -> Result<Vec<u8>> {
    if frame.end > source.length {
        let error = Error::corruption("a node does not lie within its table");
        return Err(source.locate(error, frame.start));
    }
    source.read_frame(FrameKind::Node, frame.start, frame.end - frame.start, |raw| {
        NodeView::at(raw)?.check()?;
        Ok(raw.to_vec())
    })
}
