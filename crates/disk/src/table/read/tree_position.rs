//! Where a cursor stands in the tree of a B+tree table: at a node of level 0.
//!
//! It walks no entries: the cursor does.

use crate::table::format::node::NodeView;
use crate::table::read::key_block::key_block;
use crate::table::read::mapped::share;
use crate::table::read::readahead::Readahead;
use crate::table::read::reader::{Table, hold_verified};
use crate::table::read::tree::{NodeHold, TreeIndex};
use crate::{block::Block, cache::Cached};
use bytes::Bytes;
use siltdb_base::{
    cursor::Fetch,
    error::{Error, Result},
    id::SequenceNumber,
};
use std::sync::Arc;

/// How a cursor comes to a block.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct BlockWay {
    pub fetch: Fetch,
    pub is_long_walk: bool,
}

/// A place in a tree. A move to the next block costs a look at the node; to a block of another node
/// a way down from the root.
#[derive(Debug, Default)]
pub(in crate::table) struct TreePosition {
    node: Option<NodeHold>,
    /// The mapping, with an owner that is this cursor's: cursors of other threads do not count
    /// themselves there.
    share: Option<Bytes>,
}

impl TreePosition {
    /// The number of the block that holds the first entry at or after (`key`, `sequence`), if there
    /// is one.
    pub fn find(
        &mut self,
        table: &Table,
        tree: &TreeIndex,
        key: &[u8],
        sequence: SequenceNumber,
    ) -> Result<Option<usize>> {
        let found = table.descend(tree, |node| node.lower_bound(key, sequence))?;
        Ok(found.map(|(hold, at)| {
            let number = tree.view(&hold).first_block_of(at) as usize;
            self.node = Some(hold);
            number
        }))
    }

    /// The node that holds the block of this number, and its position there, if the place is in
    /// that node.
    #[inline]
    pub fn held<'a>(&'a self, tree: &'a TreeIndex, number: usize) -> Option<(NodeView<'a>, usize)> {
        held(self.node.as_ref(), tree, number)
    }

    /// Goes to the node that holds the block of this number. Returns it, and the position of the
    /// block there.
    ///
    /// # Errors
    /// Corruption, if a node is damaged; the errors of reading.
    pub fn with_block<'a>(
        &'a mut self,
        table: &Table,
        tree: &'a TreeIndex,
        number: usize,
    ) -> Result<(NodeView<'a>, usize)> {
        if self.held(tree, number).is_none() {
            let found = table.descend(tree, |node| node.position_of(number as u64))?;
            self.node = found.map(|(hold, _)| hold);
        }
        held(self.node.as_ref(), tree, number)
            .ok_or_else(|| Error::corruption("a tree has fewer blocks than before"))
    }

    /// Goes to the block of this number, and reads it.
    pub fn block(
        &mut self,
        table: &Table,
        tree: &TreeIndex,
        number: usize,
        way: BlockWay,
        ahead: &mut Readahead,
    ) -> Result<Arc<Cached<Block>>> {
        self.with_block(table, tree, number)?;
        let Some((node, at)) = held(self.node.as_ref(), tree, number) else {
            return Err(Error::corruption("a tree has fewer blocks than before"));
        };
        let info = node.info(at);
        let known = || match way.fetch {
            Fetch::Values => None,
            Fetch::KeysOnly => key_block(&info),
        };
        if let TreeIndex::Mapped(tree) = tree {
            if let Some(block) = known() {
                return Ok(block);
            }
            let place = tree.leaf(&table.source, number as u64, &info)?;
            let share = self.share.get_or_insert_with(|| share(tree.bytes().clone()));
            let block = Block::in_place(&share.slice(place))
                .map_err(|error| table.source.locate(error, info.offset))?;
            return Ok(hold_verified(block));
        }
        let Some(NodeHold::Cached(held)) = &self.node else {
            return Err(Error::corruption("a tree has fewer blocks than before"));
        };
        let Some(site) = held.site(at) else {
            return Err(Error::corruption("a tree has fewer blocks than before"));
        };
        match site.slots.get(at).or_else(known) {
            Some(block) => Ok(block),
            None if !way.is_long_walk => table.load_if_admitted(&site),
            None => table.pass_by(&site, ahead),
        }
    }
}

/// The node and the position in it of the block of this number, if `hold` is that node.
#[inline]
fn held<'a>(
    hold: Option<&'a NodeHold>,
    tree: &'a TreeIndex,
    number: usize,
) -> Option<(NodeView<'a>, usize)> {
    let node = tree.view(hold?);
    let number = number as u64;
    let is_within = (node.first_block()..node.end_block()).contains(&number);
    is_within.then(|| (node, node.position_of(number)))
}
