//! Inserting many entries: several ways down at once, or one leaf after the other.
//!
//! A way down is a chain of cache misses. Those of different entries do not depend on each other.
//! So a group of entries goes down together: each asks for its next node and lets the others walk
//! meanwhile. Entries that follow each other in one leaf need no way down at all. Which of the two
//! a batch is, is seen as it goes.

use super::{Attempt, MemtableTree, Seen, TreePlace, attempt};
use crate::{
    entry::{EntryRef, Probe},
    lane::Lane,
    node::{Node, Ties},
};
use siltdb_base::key::Entry;

/// Ways down at the same time: enough to hide a miss, few enough for the processor to keep track
/// of.
const GROUP: usize = 8;

/// How to go about the next group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the leaf of the entry before.
    Finger,
    /// Down from the root, all together.
    Together,
}

/// One of several ways down, between two steps of it.
#[derive(Clone, Copy)]
struct Walk<'t> {
    at: Seen<'t>,
    /// The child that was asked for and is on its way from memory.
    coming: Option<Node<'t>>,
    place: Option<TreePlace<'t>>,
}

impl MemtableTree {
    /// Copies all entries into the arena and inserts them, in any order.
    ///
    /// # Panics
    /// If a key or value exceeds the limits.
    pub fn insert_batch(&self, entries: &[Entry<'_>]) {
        let mut way = Way::Together;
        for group in entries.chunks(GROUP) {
            let [first, ..] = group else { continue };
            let guard = self.lanes.enter();
            let lane = guard.lane();
            let mut stored = [self.store(&guard, first); GROUP];
            for (place, entry) in stored.iter_mut().zip(group).skip(1) {
                *place = self.store(&guard, entry);
            }
            drop(guard);
            let stored = &stored[..group.len()];
            way = match way {
                Way::Finger => self.insert_in_a_row(lane, stored),
                Way::Together if stored.len() > 1 => self.insert_together(lane, stored),
                Way::Together => {
                    self.insert_stored(lane, stored[0]);
                    way
                }
            };
        }
    }

    /// Inserts each entry near the one before; says what suits the next group.
    fn insert_in_a_row(&self, lane: &Lane, stored: &[EntryRef<'_>]) -> Way {
        let mut near = 0;
        for &entry in stored {
            if lane.latest().is_some_and(|leaf| self.insert_near(leaf, entry)) {
                near += 1;
            } else {
                lane.remember(self.insert_from_root(entry));
            }
        }
        better_way(near, stored.len())
    }

    /// Finds the leaves of all entries at the same time, then inserts one after the other; says
    /// what suits the next group.
    fn insert_together(&self, lane: &Lane, stored: &[EntryRef<'_>]) -> Way {
        let places = self.find_together(stored);
        let mut near = 0;
        let mut last: Option<Node<'_>> = None;
        for (&entry, place) in stored.iter().zip(places) {
            let leaf = match place {
                Some(place) if matches!(attempt(place, entry), Attempt::Done) => place.leaf.node,
                _ => self.insert_from_root(entry),
            };
            near += usize::from(last == Some(leaf));
            last = Some(leaf);
        }
        if let Some(leaf) = last {
            lane.remember(leaf);
        }
        better_way(near, stored.len())
    }

    /// The places of up to [`GROUP`] entries; none for one whose way was disturbed.
    fn find_together<'t>(&'t self, stored: &[EntryRef<'t>]) -> [Option<TreePlace<'t>>; GROUP] {
        let mut places = [None; GROUP];
        let Some(at) = self.root() else { return places };
        let mut walks = [Some(Walk { at, coming: None, place: None }); GROUP];
        let mut walking = stored.len();
        while walking > 0 {
            walking = 0;
            for (walk, entry) in walks.iter_mut().zip(stored) {
                let Some(here) = walk else { continue };
                if here.place.is_some() {
                    continue;
                }
                *walk = here.step(entry.probe());
                walking += usize::from(walk.is_some_and(|walk| walk.place.is_none()));
            }
        }
        for (place, walk) in places.iter_mut().zip(walks).take(stored.len()) {
            *place = walk.and_then(|walk| walk.place);
        }
        places
    }
}

impl Walk<'_> {
    /// Goes to the child that has come, and asks for the next; none if the way is lost.
    #[inline]
    fn step(mut self, probe: Probe<'_>) -> Option<Self> {
        if let Some(child) = self.coming {
            self.at = super::enter_child(self.at, child)?;
        }
        let node = self.at.node;
        let shape = node.shape();
        if shape.is_leaf() {
            let index = node.position(shape, probe, Ties::Before)?;
            self.place = Some(TreePlace { leaf: self.at, shape, index });
        } else {
            let index = node.position(shape, probe, Ties::After)?;
            let child = node.child(index)?;
            child.prefetch_keys();
            if shape.level == 1 {
                child.prefetch_slots();
            }
            self.coming = Some(child);
        }
        Some(self)
    }
}

/// The finger, if at least half of a group followed it.
fn better_way(near: usize, count: usize) -> Way {
    if near * 2 >= count { Way::Finger } else { Way::Together }
}
