//! A concurrent, insert-only, ordered B+tree: optimistic lock coupling over nodes that never go
//! away.
//!
//! It keeps entries apart that differ in key or sequence number, and does not know which of them a
//! reader may see.
//!
//! # Thread safety
//! Any thread may insert, get and walk at the same time. Readers write nothing and wait only for
//! the node in front of them while it is being changed. An insert locks one leaf, or two nodes when
//! it splits.
//!
//! # Invariants
//! Those of [`crate::node`], and:
//! 1. Locks are taken downwards, parent before child, and only with `try_lock`: no deadlock.
//! 2. A node is split only under the lock of its parent, which is not full; the root under its own.
//! 3. A way down is valid if at each step the parent was unchanged *after* the child's stamp was
//!    taken. Then the child was responsible for the key when the stamp was taken, and is as long as
//!    the stamp holds. For the root, being the root is checked in place of a parent.
//!
//! The protocol is that of Leis, Scheibner, Kemper and Neumann, "The ART of Practical
//! Synchronization" (2016), carried over to B+trees.

mod batch;
mod split;

use crate::{
    arena::{Arena, ArenaPool},
    entry::{ENTRY_ALIGN, EntryRef, Probe, stored_bytes},
    lane::{Lane, LaneGuard, Lanes},
    node::{Link, Node, NodeShape, Ties},
    version::Stamp,
};
use siltdb_base::{id::SequenceNumber, key::Entry};
use std::{fmt, sync::Arc};

/// An ordered set of entries in one arena.
pub struct MemtableTree {
    root: Link,
    lanes: Lanes,
    arena: Arena,
}

/// A node as it was when its stamp was taken.
#[derive(Clone, Copy)]
pub struct Seen<'t> {
    /// The node that was reached.
    pub node: Node<'t>,
    /// What its version was.
    pub stamp: Stamp,
}

impl Seen<'_> {
    /// Whether the node is still as it was.
    #[inline]
    pub fn is_unchanged(&self) -> bool {
        self.node.is_unchanged(self.stamp)
    }
}

/// A place in a leaf.
#[derive(Clone, Copy)]
pub struct TreePlace<'t> {
    /// The leaf that was reached.
    pub leaf: Seen<'t>,
    /// Entry count and stamp of the leaf when it was reached.
    pub shape: NodeShape,
    /// Entries of the leaf before the place.
    pub index: usize,
}

/// How much of the leaf is touched after a way down to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// One or two of its entries.
    Lookup,
    /// All of its pointers, to move or to copy them.
    WholeLeaf,
}

/// What came of inserting at a place.
enum Attempt {
    Done,
    /// Another thread was faster: look again.
    Changed,
    /// The leaf must be split.
    Full,
}

impl MemtableTree {
    /// A tree without entries; it takes memory with the first.
    pub fn new(pool: &Arc<ArenaPool>) -> Self {
        Self { root: Link::empty(), lanes: Lanes::new(), arena: Arena::new(pool) }
    }

    /// Counts and memory use of the tree's threads.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Bytes of its arena.
    pub fn held(&self) -> usize {
        self.arena.held()
    }

    /// Bytes of its arena that entries and nodes take. Beside running inserts it is a little off.
    pub fn used(&self) -> usize {
        self.arena.used().saturating_sub(self.lanes.free_bytes())
    }

    /// Copies `entry` into the arena and inserts it.
    ///
    /// # Panics
    /// If key or value exceed the limits.
    #[inline]
    pub fn insert(&self, entry: &Entry<'_>) {
        let (lane, entry) = {
            let guard = self.lanes.enter();
            (guard.lane(), self.store(&guard, entry))
        };
        self.insert_stored(lane, entry);
    }

    /// The newest entry of `key` that is not newer than `visible`.
    #[inline(always)]
    pub fn get(&self, key: &[u8], visible: SequenceNumber) -> Option<EntryRef<'_>> {
        let probe = Probe { key, sequence: visible };
        let found = self.first_from(probe)?;
        (found.key() == key).then_some(found)
    }

    /// The first entry not before `probe`.
    #[inline]
    fn first_from(&self, probe: Probe<'_>) -> Option<EntryRef<'_>> {
        loop {
            let place = self.find(probe, Purpose::Lookup)?;
            if place.index < place.shape.count {
                let entry = place.leaf.node.get().entry(place.index);
                if place.leaf.is_unchanged() {
                    return entry;
                }
                continue;
            }
            let Ok(next) = next_leaf(place.leaf) else { continue };
            return first_of_chain(next?);
        }
    }

    /// The leaf that is responsible for `probe`, and the place in it before the first entry that is
    /// not before `probe`. None if the tree is empty. The caller checks the stamp after its last
    /// look at the leaf.
    #[inline]
    pub fn find(&self, probe: Probe<'_>, purpose: Purpose) -> Option<TreePlace<'_>> {
        'restart: loop {
            let mut seen = self.root()?;
            loop {
                let shape = seen.node.shape();
                if shape.is_leaf() {
                    match seen.node.position(shape, probe, Ties::Before) {
                        Some(index) => return Some(TreePlace { leaf: seen, shape, index }),
                        None => continue 'restart,
                    }
                }
                match descend(seen, shape, probe, purpose) {
                    Some(child) => seen = child,
                    None => continue 'restart,
                }
            }
        }
    }

    /// The last leaf; none if the tree is empty.
    pub fn last_leaf(&self) -> Option<Node<'_>> {
        'restart: loop {
            let mut seen = self.root()?;
            loop {
                let shape = seen.node.shape();
                if shape.is_leaf() {
                    return Some(seen.node);
                }
                let child = seen.node.child(shape.count);
                match child.and_then(|child| enter_child(seen, child)) {
                    Some(child) => seen = child,
                    None => continue 'restart,
                }
            }
        }
    }

    /// The root with a stamp taken while it was the root (3); none if the tree is empty.
    #[inline]
    fn root(&self) -> Option<Seen<'_>> {
        loop {
            let node = self.root.load()?;
            let stamp = node.get().version.begin();
            if self.root.load() == Some(node) {
                return Some(Seen { node, stamp });
            }
        }
    }

    #[inline]
    fn store(&self, guard: &LaneGuard<'_>, entry: &Entry<'_>) -> EntryRef<'_> {
        const { assert!(ENTRY_ALIGN <= 8, "lanes align to 8") };
        let place = guard.allocate(&self.arena, stored_bytes(entry));
        guard.count(entry.sequence, 1);
        // SAFETY: the piece is fresh, aligned and large enough, and the arena lives as long as
        // `self`.
        unsafe { EntryRef::write(place, entry) }
    }

    /// Inserts an entry that lies in the arena: where the lane inserted last, if that fits.
    fn insert_stored(&self, lane: &Lane, entry: EntryRef<'_>) {
        if let Some(leaf) = lane.finger()
            && self.insert_near(leaf, entry)
        {
            return;
        }
        let leaf = self.insert_from_root(entry);
        lane.remember(leaf);
    }

    /// Tries to insert into `leaf`; false if it is not known to be responsible, or is full or busy.
    fn insert_near(&self, leaf: Node<'_>, entry: EntryRef<'_>) -> bool {
        let leaf = Seen { node: leaf, stamp: leaf.get().version.begin() };
        let shape = leaf.node.shape();
        let probe = entry.probe();
        let Some(index) = leaf.node.position(shape, probe, Ties::Before) else { return false };
        // Before the first entry lies what may belong to another leaf, as after the last one.
        let is_within = index > 0
            && (index < shape.count
                || leaf.node.high.load().is_none_or(|high| high.compare(probe).is_gt()));
        is_within && matches!(attempt(TreePlace { leaf, shape, index }, entry), Attempt::Done)
    }

    /// Inserts an entry that lies in the arena; the leaf that took it.
    fn insert_from_root<'t>(&'t self, entry: EntryRef<'t>) -> Node<'t> {
        let mut spare = None;
        loop {
            let Some(place) = self.find(entry.probe(), Purpose::WholeLeaf) else {
                self.plant();
                continue;
            };
            match attempt(place, entry) {
                Attempt::Done => return place.leaf.node,
                Attempt::Changed => {}
                Attempt::Full => {
                    if let Some(leaf) = self.insert_splitting(entry, &mut spare) {
                        return leaf;
                    }
                }
            }
        }
    }

    /// Gives an empty tree its first leaf.
    #[cold]
    fn plant(&self) {
        let leaf = Node::new(&self.arena, 0);
        // The loser of the race leaves a leaf unused in the arena.
        self.root.store_first(leaf);
    }
}

/// The child of `parent` that is responsible for `probe`; none if the parent has changed.
#[inline]
fn descend<'t>(
    parent: Seen<'t>,
    shape: NodeShape,
    probe: Probe<'_>,
    purpose: Purpose,
) -> Option<Seen<'t>> {
    let index = parent.node.position(shape, probe, Ties::After)?;
    let child = parent.node.child(index)?;
    child.prefetch_keys();
    if purpose == Purpose::WholeLeaf && shape.level == 1 {
        child.prefetch_slots();
    }
    enter_child(parent, child)
}

/// Takes the child's stamp, then makes sure that the parent has not changed (3).
#[inline]
fn enter_child<'t>(parent: Seen<'t>, child: Node<'t>) -> Option<Seen<'t>> {
    let stamp = child.get().version.begin();
    parent.is_unchanged().then_some(Seen { node: child, stamp })
}

/// Inserts at `place`, if the leaf is as it was and has room.
#[inline]
fn attempt<'t>(place: TreePlace<'t>, entry: EntryRef<'t>) -> Attempt {
    let TreePlace { leaf, shape, index } = place;
    if shape.is_full() {
        return if leaf.is_unchanged() { Attempt::Full } else { Attempt::Changed };
    }
    if !leaf.node.version.try_lock(leaf.stamp) {
        return Attempt::Changed;
    }
    leaf.node.insert(index, entry, None);
    leaf.node.version.unlock(leaf.stamp);
    Attempt::Done
}

/// The right neighbour of `leaf`; an error if the leaf has changed.
#[inline]
fn next_leaf(leaf: Seen<'_>) -> Result<Option<Node<'_>>, Changed> {
    let next = leaf.node.get().next.load();
    if leaf.is_unchanged() { Ok(next) } else { Err(Changed) }
}

/// A node was changed while it was looked at: look again.
#[derive(Debug)]
struct Changed;

/// The first entry of `leaf` or of those to its right.
///
/// The lower bound of a leaf never changes. So whatever happens to `leaf` meanwhile, its first
/// entry is the first one from that bound on.
#[cold]
fn first_of_chain(mut leaf: Node<'_>) -> Option<EntryRef<'_>> {
    loop {
        let seen = Seen { node: leaf, stamp: leaf.get().version.begin() };
        if leaf.shape().count > 0 {
            let first = leaf.get().entry(0);
            if seen.is_unchanged() {
                return first;
            }
        } else if let Ok(next) = next_leaf(seen) {
            leaf = next?;
        }
    }
}

impl fmt::Debug for MemtableTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableTree")
            .field("entries", &self.lanes.entries())
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}
