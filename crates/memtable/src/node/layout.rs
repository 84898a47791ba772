//! What a node is made of, and the pointers between nodes.
//!
//! It neither searches nor changes a node. The invariants stand in [`super`].

use crate::{entry::EntrySlot, version::NodeVersion};
use siltdb_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::{marker::PhantomData, ops::Deref, ptr::NonNull};

/// Most entries of a node; a power of two. Small where every step is costly, so that splits are
/// common.
pub const FANOUT: usize = if cfg!(loom) {
    4
} else if cfg!(miri) {
    8
} else {
    64
};
/// Bytes of the common prefix that stand in the node itself.
pub const INLINE_BYTES: usize = 24;
/// The same in words of 8 bytes.
pub const INLINE_WORDS: usize = INLINE_BYTES / 8;

/// The part that leaves and inner nodes have in common.
#[repr(C, align(64))]
pub struct NodeKeys {
    /// Guards everything here and in [`Inner`], except `previous`.
    pub version: NodeVersion,
    pub(super) shape: AtomicU64,
    pub(super) inline: [AtomicU64; INLINE_WORDS],
    /// The right neighbour of a leaf (7).
    pub next: Link,
    /// A leaf to the left (7): a hint, stored without the lock.
    pub previous: Link,
    /// The upper bound of a leaf (6).
    pub high: EntrySlot,
    pub(super) heads: [AtomicU64; FANOUT],
    pub(super) slots: [EntrySlot; FANOUT],
}

#[repr(C)]
pub(super) struct Inner {
    pub(super) keys: NodeKeys,
    pub(super) children: [Link; FANOUT + 1],
}

/// The numbers that change together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// Entries in the node.
    pub count: usize,
    /// 0: a leaf.
    pub level: u8,
    /// Bytes that all keys begin with.
    pub prefix_bytes: usize,
}

impl NodeShape {
    #[inline]
    pub(super) fn pack(self) -> u64 {
        self.count as u64 | u64::from(self.level) << 16 | (self.prefix_bytes as u64) << 32
    }

    #[inline]
    pub(super) fn unpack(word: u64) -> Self {
        Self {
            // The mask states (3) in a way that the compiler uses.
            count: ((word & 0xffff) as usize).min(FANOUT),
            level: (word >> 16) as u8,
            prefix_bytes: (word >> 32) as usize,
        }
    }

    /// Whether the node has room for no further entry.
    #[inline]
    pub fn is_full(self) -> bool {
        self.count == FANOUT
    }

    /// Whether the node has no children.
    #[inline]
    pub fn is_leaf(self) -> bool {
        self.level == 0
    }
}

/// A pointer to a node that can be followed while it is being changed.
pub struct Link(AtomicPtr<NodeKeys>);

impl Link {
    /// A link that is null.
    pub fn empty() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The node, if any.
    #[inline]
    pub fn load(&self) -> Option<Node<'_>> {
        // Acquire pairs with the release in `store`: the node is initialised (1).
        let keys = NonNull::new(self.0.load(Ordering::Acquire))?;
        Some(Node { keys, arena: PhantomData })
    }

    /// Points to `node`, which must lie in the same arena (2).
    #[inline]
    pub fn store(&self, node: Node<'_>) {
        // Release pairs with the acquire in `load`.
        self.0.store(node.keys.as_ptr(), Ordering::Release);
    }

    /// Takes over what `other` points to.
    #[inline]
    pub fn copy_from(&self, other: &Self) {
        // As in `load` and `store`.
        self.0.store(other.0.load(Ordering::Acquire), Ordering::Release);
    }

    /// Points to `node`, if it pointed nowhere.
    pub fn store_first(&self, node: Node<'_>) -> bool {
        // Release pairs with the acquire in `load`. A failure reads nothing.
        let (none, order) = (std::ptr::null_mut(), Ordering::Release);
        self.0.compare_exchange(none, node.keys.as_ptr(), order, Ordering::Relaxed).is_ok()
    }
}

/// A node in the arena.
#[derive(Clone, Copy)]
pub struct Node<'t> {
    /// Of an inner node it points to all of [`Inner`].
    pub(super) keys: NonNull<NodeKeys>,
    pub(super) arena: PhantomData<&'t NodeKeys>,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
    }
}

impl Deref for Node<'_> {
    type Target = NodeKeys;

    #[inline]
    fn deref(&self) -> &NodeKeys {
        self.get()
    }
}
