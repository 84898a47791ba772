//! Making room: the slow way of an insert that found its leaf full.
//!
//! It splits one node at a time and leaves the rest of the way to the next try.

use super::{MemtableTree, Purpose, Seen, descend};
use crate::{
    entry::EntryRef,
    node::{FANOUT, Node, NodeShape, Ties},
};

/// A full leaf at the right edge that is hit this near to its end is cut there. So keys that come
/// in ascending order leave full leaves behind.
const EDGE: usize = FANOUT - FANOUT / 8;

/// A full node on the way of an entry, with what must be locked to split it.
struct Cut<'t> {
    /// The node above and the index of the full one among its children; none above the root.
    parent: Option<(Seen<'t>, usize)>,
    node: Seen<'t>,
    shape: NodeShape,
}

impl Cut<'_> {
    /// Locks the parent, if any, and the node, if both are as they were seen; else nothing.
    fn try_lock(&self) -> bool {
        let parent = self.parent.map(|(parent, _)| parent);
        if parent.is_some_and(|parent| !parent.node.version.try_lock(parent.stamp)) {
            return false;
        }
        let is_locked = self.node.node.version.try_lock(self.node.stamp);
        if let (false, Some(parent)) = (is_locked, parent) {
            parent.node.version.unlock_unchanged(parent.stamp);
        }
        is_locked
    }
}

impl MemtableTree {
    /// Splits the first full node on the way of `entry`. If that is the leaf, inserts the entry and
    /// gives back the leaf that took it. None means: try again from the root. An unused node is
    /// then left in `spare`, as the arena takes nothing back.
    ///
    /// 1. Go down until a node is full; the node above it is not (2).
    /// 2. Take the memory that the split needs, so that nothing can fail under a lock.
    /// 3. Lock the parent, if any, then the node: both as they were seen, or not at all.
    /// 4. Move the upper part of the node to a new one on its right.
    /// 5. Tell the parent of the new node, or put a new root above both.
    #[inline(never)]
    pub(super) fn insert_splitting<'t>(
        &'t self,
        entry: EntryRef<'t>,
        spare: &mut Option<Node<'t>>,
    ) -> Option<Node<'t>> {
        let cut = self.find_full(entry)?;
        let level = cut.shape.level;
        let fitting = spare.take_if(|spare| spare.shape().level == level);
        let right = fitting.unwrap_or_else(|| Node::new(&self.arena, level));
        let root = match cut.parent {
            Some(_) => None,
            None => Some(Node::new(&self.arena, level + 1)),
        };
        if !cut.try_lock() {
            *spare = Some(right);
            return None;
        }
        let (separator, taker) = if cut.shape.is_leaf() {
            let (separator, taker) = split_leaf(cut.node.node, right, entry);
            (separator, Some(taker))
        } else {
            let middle = cut.shape.count / 2;
            let separator = cut.node.node.get().entry(middle).expect("below the count");
            cut.node.node.move_upper(middle, right);
            (separator, None)
        };
        match (cut.parent, root) {
            (Some((parent, index)), _) => {
                parent.node.insert(index, separator, Some(right));
                parent.node.version.unlock(parent.stamp);
            }
            (None, root) => {
                let root = root.expect("made above for a node without parent");
                root.set_first_child(cut.node.node);
                root.insert(0, separator, Some(right));
                self.root.store(root);
            }
        }
        cut.node.node.version.unlock(cut.node.stamp);
        taker
    }

    /// The first full node on the way of `entry`; none if there is none any more, or after a
    /// change.
    fn find_full(&self, entry: EntryRef<'_>) -> Option<Cut<'_>> {
        let mut parent = None;
        let mut node = self.root()?;
        loop {
            let shape = node.node.shape();
            if shape.is_full() {
                return Some(Cut { parent, node, shape });
            }
            if shape.is_leaf() {
                return None;
            }
            let index = node.node.position(shape, entry.probe(), Ties::After)?;
            let child = descend(node, shape, entry.probe(), Purpose::WholeLeaf)?;
            parent = Some((node, index));
            node = child;
        }
    }
}

/// Splits the locked, full `leaf` and inserts `entry` into one of the halves: the separator of the
/// two and the leaf that took the entry.
fn split_leaf<'t>(
    leaf: Node<'t>,
    right: Node<'t>,
    entry: EntryRef<'t>,
) -> (EntryRef<'t>, Node<'t>) {
    let keys = leaf.get();
    let shape = keys.shape();
    let position = keys.position(shape, entry.probe(), Ties::Before);
    let place = position.expect("no other thread changes a locked leaf");
    let next = keys.next.load();
    let is_edge = place == 0 || place == FANOUT || (next.is_none() && place >= EDGE);
    let at = if is_edge { place } else { FANOUT / 2 };
    let separator = keys.entry(at).unwrap_or(entry);
    let last = keys.entry(FANOUT - 1).expect("the leaf is full");
    leaf.move_upper(at, right);
    let taker = if place == FANOUT || place > at { right } else { leaf };
    let index = if place == FANOUT { 0 } else { place - if taker == right { at } else { 0 } };
    taker.insert(index, entry, None);
    if place == FANOUT {
        right.expect_keys_like(last);
    }
    right.next.copy_from(&keys.next);
    right.previous.store(leaf);
    right.high.copy_from(&keys.high);
    keys.high.store(separator);
    // From here on the new leaf can be reached; it is complete.
    keys.next.store(right);
    if let Some(next) = next {
        next.get().previous.store(right);
    }
    (separator, taker)
}
