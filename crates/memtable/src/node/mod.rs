//! A node of the tree: ordered entries with the heads of their keys beside them, and below an inner
//! node its children.
//!
//! It keeps one node in order. The tree splits nodes and finds the way through them.
//!
//! The heads are the 8 bytes of each key *after the prefix that all keys of the node share*. So
//! keys like `user:0000123` are told apart by looking at integers that lie together.
//!
//! # Thread safety
//! A method that says "the node is locked" may be called only by the holder of the node's version
//! lock, or before the node is published. All others may run beside it, and give a mixture of
//! states then: their caller checks the version afterwards. They are memory-safe in any case.
//!
//! # Invariants
//! 1. A node is fully initialised before something points to it, lives as long as the arena, and
//!    is never moved. Every field that can change is an atomic.
//! 2. A [`Link`] is null or points to a node of the arena that the link itself lies in.
//! 3. `count <= FANOUT`; slots below `count` are not null; entries ascend and are distinct. A slot
//!    that was ever filled stays filled, so a stale count leads to a stale entry, never to nowhere.
//! 4. All keys of the node begin with the same `prefix_bytes` bytes; the first [`INLINE_BYTES`] of
//!    them stand in `inline`, zero-filled. `heads[i]` is `head_at(key of slots[i], prefix_bytes)`.
//! 5. An inner node with `count` entries has `count + 1` children. Entries of child `i` are below
//!    entry `i` and not below entry `i - 1`. All leaves have the same depth.
//! 6. The lower bound of a node never changes. Its upper bound only sinks, when it is split and a
//!    new node to its right takes over. `high` is the upper bound of a leaf; null means none.
//! 7. `next` of an unlocked leaf is its right neighbour. `previous` is some leaf to its left.

mod layout;
mod search;

use crate::{
    arena::Arena,
    entry::{EntryRef, EntrySlot},
    version::{NodeVersion, Stamp},
};
use layout::Inner;
pub use layout::{FANOUT, Link, Node, NodeKeys, NodeShape};
pub use search::Ties;
use search::{common_prefix, head_at, inline_words};
use siltdb_base::{
    hint::prefetch_bytes,
    sync::atomic::{AtomicU64, Ordering},
};
use std::{array, marker::PhantomData, ptr::NonNull};

impl<'t> Node<'t> {
    /// A new node without entries, not yet published.
    pub fn new(arena: &'t Arena, level: u8) -> Self {
        let keys = if level == 0 {
            let place =
                arena.carve(size_of::<NodeKeys>(), align_of::<NodeKeys>()).cast::<NodeKeys>();
            // SAFETY: the piece is fresh, large enough and aligned.
            unsafe { place.write(NodeKeys::new(level)) };
            place
        } else {
            let place = arena.carve(size_of::<Inner>(), align_of::<Inner>()).cast::<Inner>();
            let children = array::from_fn(|_| Link::empty());
            // SAFETY: as above.
            unsafe { place.write(Inner { keys: NodeKeys::new(level), children }) };
            place.cast()
        };
        Self { keys, arena: PhantomData }
    }

    /// A node from its address.
    ///
    /// # Safety
    /// `keys` came from [`Self::as_ptr`] of a node whose arena lives for `'t`.
    #[inline]
    pub unsafe fn from_ptr(keys: NonNull<NodeKeys>) -> Self {
        Self { keys, arena: PhantomData }
    }

    /// The address of the node.
    #[inline]
    pub fn as_ptr(self) -> NonNull<NodeKeys> {
        self.keys
    }

    /// The node for as long as the arena lives.
    #[inline]
    pub fn get(self) -> &'t NodeKeys {
        // SAFETY: by (1) and (2).
        unsafe { self.keys.as_ref() }
    }

    /// The children of an inner node.
    #[inline]
    fn children(self) -> &'t [Link; FANOUT + 1] {
        assert!(!self.shape().is_leaf(), "a leaf has no children");
        // SAFETY: a node whose level is not 0 was created as `Inner`; the level never changes.
        let inner = unsafe { self.keys.cast::<Inner>().as_ref() };
        &inner.children
    }

    /// The child at `index`; none only amid a change.
    #[inline]
    pub fn child(self, index: usize) -> Option<Node<'t>> {
        self.children().get(index)?.load()
    }

    /// Makes `child` the first child. The node is locked.
    pub fn set_first_child(self, child: Node<'t>) {
        self.children()[0].store(child);
    }

    /// Loads what a search of the node looks at.
    #[inline]
    pub fn prefetch_keys(self) {
        let bytes = size_of::<NodeKeys>() - size_of::<[EntrySlot; FANOUT]>();
        prefetch_bytes(self.keys.as_ptr().cast(), bytes);
    }

    /// Loads the pointers to its entries.
    #[inline]
    pub fn prefetch_slots(self) {
        let slots = std::ptr::from_ref(&self.get().slots);
        prefetch_bytes(slots.cast(), size_of::<[EntrySlot; FANOUT]>());
    }

    /// Inserts `entry` at `index`, and `child` to the right of it if this is an inner node. The
    /// node is locked and not full, and `index` is where the entry belongs.
    pub fn insert(self, index: usize, entry: EntryRef<'t>, child: Option<Node<'t>>) {
        let keys = self.get();
        let shape = keys.shape();
        assert!(!shape.is_full() && index <= shape.count, "no room for an entry");
        if let Some(child) = child {
            let children = self.children();
            for place in (index + 1..=shape.count).rev() {
                children[place + 1].copy_from(&children[place]);
            }
            children[index + 1].store(child);
        }
        keys.insert_key(index, shape, entry);
    }

    /// Moves the upper part to `right`, an empty, unpublished node of the same level. Of a leaf
    /// these are the entries from `at` on. Of an inner node they are those after `at` with the
    /// children around them, and the entry at `at` leaves the node. The node is locked.
    pub fn move_upper(self, at: usize, right: Node<'t>) {
        let (keys, upper) = (self.get(), right.get());
        let shape = keys.shape();
        let first = if shape.is_leaf() { at } else { at + 1 };
        for from in first..shape.count {
            upper.set_key(
                from - first,
                keys.heads[from].load(Ordering::Relaxed),
                &keys.slots[from],
            );
        }
        if !shape.is_leaf() {
            let children = right.children().iter().zip(&self.children()[first..=shape.count]);
            children.for_each(|(to, from)| to.copy_from(from));
        }
        for (to, from) in upper.inline.iter().zip(&keys.inline) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        upper.set_shape(NodeShape { count: shape.count - first, ..shape });
        keys.set_shape(NodeShape { count: at, ..shape });
        keys.sharpen_if_unclear();
        upper.sharpen_if_unclear();
    }
}

impl NodeKeys {
    fn new(level: u8) -> Self {
        Self {
            version: NodeVersion::new(),
            shape: AtomicU64::new(NodeShape { count: 0, level, prefix_bytes: 0 }.pack()),
            inline: array::from_fn(|_| AtomicU64::new(0)),
            next: Link::empty(),
            previous: Link::empty(),
            high: EntrySlot::empty(),
            heads: array::from_fn(|_| AtomicU64::new(0)),
            slots: array::from_fn(|_| EntrySlot::empty()),
        }
    }

    /// The numbers of the node.
    #[inline]
    pub fn shape(&self) -> NodeShape {
        // Acquire pairs with the release in `set_shape`: slots below the count are filled (3).
        NodeShape::unpack(self.shape.load(Ordering::Acquire))
    }

    #[inline]
    fn set_shape(&self, shape: NodeShape) {
        // Release pairs with the acquire in `shape`.
        self.shape.store(shape.pack(), Ordering::Release);
    }

    /// The entry at `index`; none at or after the count, or amid a change.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<EntryRef<'_>> {
        self.slots.get(index)?.load()
    }

    /// Whether nothing has changed since `stamp`.
    #[inline]
    pub fn is_unchanged(&self, stamp: Stamp) -> bool {
        self.version.is_unchanged(stamp)
    }

    // Heads are read and written relaxed: the version word orders them, and a torn head is only
    // wrong.

    #[inline]
    fn set_key(&self, index: usize, head: u64, slot: &EntrySlot) {
        self.heads[index].store(head, Ordering::Relaxed);
        self.slots[index].copy_from(slot);
    }

    #[inline]
    fn insert_key(&self, index: usize, mut shape: NodeShape, entry: EntryRef<'_>) {
        let key = entry.key();
        if shape.count == 0 {
            shape.prefix_bytes = 0;
        } else if !self.has_prefix(shape, key) {
            let first = self.entry(0).expect("the count is not 0, by (3)");
            shape.prefix_bytes = common_prefix(first.key(), key).min(shape.prefix_bytes);
            self.set_prefix(shape);
        }
        let head = head_at(key, shape.prefix_bytes);
        for place in (index..shape.count).rev() {
            let moved = self.heads[place].load(Ordering::Relaxed);
            self.set_key(place + 1, moved, &self.slots[place]);
        }
        self.heads[index].store(head, Ordering::Relaxed);
        self.slots[index].store(entry);
        shape.count += 1;
        self.set_shape(shape);
        // Looking whether a longer prefix would help costs as much as there are entries: seldom.
        if shape.count.is_power_of_two() {
            self.sharpen_if_unclear();
        }
    }

    /// Lengthens the prefix to what all keys share, if heads that are equal show that it is too
    /// short. The node is locked.
    fn sharpen_if_unclear(&self) {
        let mut shape = self.shape();
        let heads = &self.heads[..shape.count];
        let unclear = heads
            .windows(2)
            .any(|pair| pair[0].load(Ordering::Relaxed) == pair[1].load(Ordering::Relaxed));
        if !unclear {
            return;
        }
        let first = self.entry(0).expect("the count is not 0, by (3)").key();
        let last = self.entry(shape.count - 1).expect("below the count, by (3)").key();
        // Keys between the two share what these share.
        let common = common_prefix(first, last);
        if common > shape.prefix_bytes {
            shape.prefix_bytes = common;
            self.set_prefix(shape);
            self.set_shape(shape);
        }
    }

    /// Expects keys that share the first bytes of `like` to come to this leaf, which has one entry.
    /// The node is locked.
    pub fn expect_keys_like(&self, like: EntryRef<'_>) {
        let mut shape = self.shape();
        assert_eq!(shape.count, 1, "of several entries the prefix is known");
        let only = self.entry(0).expect("the count is 1, by (3)");
        shape.prefix_bytes = common_prefix(only.key(), like.key());
        self.set_prefix(shape);
        self.set_shape(shape);
    }

    /// Writes inline prefix and heads for `shape.prefix_bytes`, which all keys share; not the
    /// shape.
    fn set_prefix(&self, shape: NodeShape) {
        let first = self.entry(0).expect("callers have an entry, by (3)");
        let words = inline_words(first.key(), shape.prefix_bytes);
        for (place, word) in self.inline.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        for index in 0..shape.count {
            let entry = self.entry(index).expect("below the count, by (3)");
            self.heads[index].store(head_at(entry.key(), shape.prefix_bytes), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
