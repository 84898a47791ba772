//! Walking a memtable in order, both ways, beside running inserts.
//!
//! The cursor copies the entry pointers of one leaf at a time and walks the copy; it decides
//! nothing about visibility. It shows every entry that was inserted before it was positioned, none
//! twice, and of those inserted later any.
//!
//! # Invariants
//! 1. `leaf`, `next` and the first `count` of `entries` are one state of a leaf of `tree`, which
//!    keeps everything they point to alive.
//! 2. The cursor stands on entry `index`, if that is below `count`; else nowhere, and `count` is 0.

use crate::{
    entry::{EntryHeader, EntryRef, Probe},
    node::{FANOUT, Node, NodeKeys},
    tree::{MemtableTree, Purpose, Seen, TreePlace},
};
use siltdb_base::{
    cursor::{EntryCursor, Stretch, StretchContent},
    error::Result,
    hint::{CACHE_LINE_BYTES, prefetch_bytes},
    id::SequenceNumber,
    key::Entry,
};
use std::{fmt, ptr::NonNull, sync::Arc};

/// Entries that are loaded ahead of the cursor.
const AHEAD: usize = 12;
/// Bytes of each that are loaded.
const ENTRY_BYTES_AHEAD: usize = 3 * CACHE_LINE_BYTES;

/// A position in a memtable; keeps the memtable alive.
///
/// Positioning and stepping never fail. Cost: seeking goes down the tree once; a step from leaf to
/// leaf copies up to 64 pointers; other steps only move.
pub struct MemtableCursor {
    tree: Arc<MemtableTree>,
    leaf: Option<NonNull<NodeKeys>>,
    next: Option<NonNull<NodeKeys>>,
    index: usize,
    count: usize,
    entries: [NonNull<EntryHeader>; FANOUT],
}

// SAFETY: what the pointers lead to is shared between threads anyway, and `tree` keeps it alive
// (1).
unsafe impl Send for MemtableCursor {}
// SAFETY: shared references only read the copy and immutable entries.
unsafe impl Sync for MemtableCursor {}

impl MemtableCursor {
    /// A cursor that stands nowhere.
    pub(crate) fn new(tree: Arc<MemtableTree>) -> Self {
        let entries = [NonNull::dangling(); FANOUT];
        Self { tree, leaf: None, next: None, index: 0, count: 0, entries }
    }

    #[inline]
    fn at(&self, index: usize) -> Option<EntryRef<'_>> {
        if index >= self.count {
            return None;
        }
        // SAFETY: by (1), and `self.tree` outlives the reference.
        Some(unsafe { EntryRef::from_ptr(self.entries[index]) })
    }

    fn leave(&mut self) {
        self.index = 0;
        self.count = 0;
    }

    /// Copies the leaf if it is still as it was seen; says whether.
    fn copy_seen(&mut self, seen: Seen<'_>, count: usize) -> bool {
        self.count = 0;
        let keys = seen.node.get();
        for index in 0..count {
            let Some(entry) = keys.entry(index) else { return false };
            self.entries[index] = entry.as_ptr();
        }
        let next = keys.next.load();
        if !seen.is_unchanged() {
            return false;
        }
        if let Some(next) = next {
            next.prefetch_keys();
            next.prefetch_slots();
        }
        self.leaf = Some(seen.node.as_ptr());
        self.next = next.map(Node::as_ptr);
        self.count = count;
        true
    }

    /// Copies the leaf as it is now.
    fn copy(&mut self, leaf: NonNull<NodeKeys>) {
        loop {
            // SAFETY: callers take it from a state of the tree's leaves (1).
            let node: Node<'_> = unsafe { Node::from_ptr(leaf) };
            let seen = Seen { node, stamp: node.get().version.begin() };
            if self.copy_seen(seen, node.get().shape().count) {
                return;
            }
        }
    }

    /// Goes to the first entry of the leaves to the right.
    fn enter_next(&mut self) {
        loop {
            let Some(next) = self.next else { return self.leave() };
            self.copy(next);
            if self.count > 0 {
                self.index = 0;
                return self.prefetch_from(0);
            }
        }
    }

    /// Goes to the last entry of the leaves to the left.
    ///
    /// The lower bound of the leaf has not moved, and some leaf ends there. From a leaf on the left
    /// the `next` links lead to it, whatever was split meanwhile.
    fn enter_previous(&mut self) {
        loop {
            let Some(right) = self.leaf else { return self.leave() };
            // SAFETY: by (1).
            let right_node: Node<'_> = unsafe { Node::from_ptr(right) };
            let previous = right_node.get().previous.load().map(Node::as_ptr);
            let Some(mut candidate) = previous else { return self.leave() };
            loop {
                self.copy(candidate);
                if self.next == Some(right) {
                    break;
                }
                candidate = self.next.expect("the leaf on the right is still to come");
            }
            if self.count > 0 {
                self.index = self.count - 1;
                return self.prefetch_back();
            }
        }
    }

    /// Copies the leaf responsible for `probe` and gives the place in it; none if the tree is
    /// empty.
    fn find(&mut self, probe: Probe<'_>) -> Option<usize> {
        let tree = Arc::clone(&self.tree);
        loop {
            let Some(TreePlace { leaf, shape, index }) = tree.find(probe, Purpose::WholeLeaf)
            else {
                self.leave();
                return None;
            };
            if self.copy_seen(leaf, shape.count) {
                return Some(index);
            }
        }
    }

    /// Loads the entries that come next.
    fn prefetch_from(&self, index: usize) {
        (index..index + AHEAD).for_each(|ahead| self.prefetch_after(ahead));
    }

    /// Prefetches the entry at `index`, which may be in the next leaf. That leaf is not looked at
    /// again before the cursor gets there, so a change meanwhile costs no more than a useless hint.
    #[inline]
    fn prefetch_after(&self, index: usize) {
        if index < self.count {
            prefetch_entry(self.entries[index]);
        } else if let Some(next) = self.next {
            // SAFETY: by (1).
            let next: Node<'_> = unsafe { Node::from_ptr(next) };
            if let Some(entry) = next.get().entry(index - self.count) {
                prefetch_entry(entry.as_ptr());
            }
        }
    }

    /// Loads the entries that came before.
    fn prefetch_back(&self) {
        self.entries[..self.count]
            .iter()
            .rev()
            .take(AHEAD)
            .for_each(|entry| prefetch_entry(*entry));
    }
}

/// Loads the part of an entry that is most often looked at.
#[inline]
fn prefetch_entry(entry: NonNull<EntryHeader>) {
    prefetch_bytes(entry.as_ptr().cast(), ENTRY_BYTES_AHEAD);
}

impl EntryCursor for MemtableCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.at(self.index).map(EntryRef::entry)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.seek(b"", SequenceNumber::MAX)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(leaf) = self.tree.last_leaf().map(Node::as_ptr) else {
            self.leave();
            return Ok(());
        };
        self.copy(leaf);
        while let Some(next) = self.next {
            self.copy(next);
        }
        match self.count.checked_sub(1) {
            Some(last) => self.index = last,
            None => self.enter_previous(),
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        if let Some(index) = self.find(Probe { key, sequence }) {
            if index < self.count {
                self.index = index;
                self.prefetch_from(index);
            } else {
                self.enter_next();
            }
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        if let Some(index) = self.find(Probe { key, sequence }) {
            match index.checked_sub(1) {
                Some(before) => self.index = before,
                None => self.enter_previous(),
            }
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.index + 1 < self.count {
            self.index += 1;
            self.prefetch_after(self.index + AHEAD - 1);
        } else if self.count > 0 {
            self.enter_next();
        }
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.index > 0 {
            self.index -= 1;
            if let Some(ahead) = self.index.checked_sub(AHEAD - 1) {
                prefetch_entry(self.entries[ahead]);
            }
        } else if self.count > 0 {
            self.enter_previous();
        }
        Ok(())
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        let last = self.count.checked_sub(1)?;
        Some(Stretch {
            first_key: self.at(0)?.key(),
            last_key: self.at(last)?.key(),
            before: self.index,
            after: last - self.index,
            sequence_max: SequenceNumber::MAX,
            content: StretchContent::Any,
        })
    }
}

impl fmt::Debug for MemtableCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemtableCursor").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
