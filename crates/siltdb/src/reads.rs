//! The reads in the footprint of a transaction: keys, and the ranges that its cursors covered.
//!
//! It only records. The commit of the transaction decides what to check.
//!
//! A cursor covers the range from its first position to the present one, the key under it included.
//! A key committed in this range would have appeared in the walk.

use siltdb_base::{
    cursor::Direction, error::Result, key::successor, seeded_fault, slice::Slice, sync::lock,
};
use siltdb_engine::{
    catalog::family::FamilyData,
    read::ReadRange,
    transactions::footprint::{CoveredRange, Footprint},
};
use siltdb_tree::read::visible::bounds::Bounds;
use std::{
    fmt,
    sync::{Arc, Mutex},
};

/// What a cursor's walk adds to the footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// The keys that it returned.
    Keys,
    /// The keys that it returned, and the gaps between them.
    Ranges,
}

/// Records the reads of one family.
#[derive(Clone)]
pub struct Reads {
    pub(crate) footprint: Arc<Mutex<Footprint>>,
    pub(crate) family: Arc<FamilyData>,
    pub(crate) covered: Tracking,
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("covered", &self.covered).finish_non_exhaustive()
    }
}

impl Reads {
    /// Records that `key` was read, present or absent.
    pub(crate) fn key(&self, key: &[u8]) {
        lock(&self.footprint).add_key(&self.family, key);
    }

    /// Creates the record of a cursor over `range`.
    pub(crate) fn track(&self, range: ReadRange) -> Track {
        Track { reads: self.clone(), bounds: range.bounds(), range: None }
    }
}

/// The movement that brought a cursor to its position.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move<'a> {
    /// To the first key of its range.
    First,
    /// To the last key of its range.
    Last,
    /// A seek to this key or the next.
    From(&'a [u8]),
    /// A seek to this key or the previous.
    BackFrom(&'a [u8]),
    /// A step to the next key.
    On,
    /// A step to the previous key.
    Back,
}

/// The record of one cursor.
#[derive(Debug)]
pub(crate) struct Track {
    reads: Reads,
    bounds: Bounds,
    /// The range covered since the last seek.
    range: Option<CoveredRange>,
}

impl Track {
    /// Records a movement that ended at `at`; `None` is past an end of the range. A failed movement
    /// counts as a walk over the whole range.
    pub(crate) fn note(
        &mut self,
        at: Option<&[u8]>,
        moved: Result<()>,
        way: &Move<'_>,
    ) -> Result<()> {
        if self.reads.covered == Tracking::Keys {
            if let Some(key) = at {
                self.reads.key(key);
            }
            return moved;
        }
        if seeded_fault!("ranges_not_tracked") {
            return moved;
        }
        if moved.is_err() {
            self.begin(self.bounds.clone());
            return moved;
        }
        let behind = || at.map(|key| Slice::from(successor(key))).or(self.bounds.upper.clone());
        let before = || at.map(Slice::copy_from).or(self.bounds.lower.clone());
        match *way {
            Move::First => self.begin(Bounds { lower: self.bounds.lower.clone(), upper: behind() }),
            Move::Last => self.begin(Bounds { lower: before(), upper: self.bounds.upper.clone() }),
            Move::From(key) => {
                self.begin(Bounds { lower: Some(Slice::copy_from(key)), upper: behind() });
            }
            Move::BackFrom(key) => {
                let upper = Some(Slice::from(successor(key)));
                self.begin(Bounds { lower: before(), upper });
            }
            Move::On => {
                if let Some(range) = &self.range {
                    range.extend_up(behind());
                }
            }
            Move::Back => {
                if let Some(range) = &self.range {
                    range.extend_down(before());
                }
            }
        }
        moved
    }

    /// Records a key that a walk is about to return. The walk may end by a panic of its caller.
    pub(crate) fn passing(&self, key: &[u8]) {
        if self.reads.covered == Tracking::Keys {
            self.reads.key(key);
        }
    }

    /// Extends the range to its end in `direction`, and returns what was covered before. If the
    /// caller of the walk panics, [`end_walk`](Self::end_walk) is not called and the range stays
    /// extended.
    pub(crate) fn begin_walk(&self, direction: Direction) -> Option<Bounds> {
        let range = self.range.as_ref()?;
        let reached = range.bounds();
        match direction {
            Direction::Forward => range.extend_up(self.bounds.upper.clone()),
            Direction::Backward => range.extend_down(self.bounds.lower.clone()),
        }
        reached
    }

    /// Undoes the extension of `begin_walk`, which returned `reached`.
    pub(crate) fn end_walk(&self, reached: Option<Bounds>) {
        if let (Some(range), Some(reached)) = (&self.range, reached) {
            range.set(reached);
        }
    }

    fn begin(&mut self, bounds: Bounds) {
        let range = lock(&self.reads.footprint).add_range(&self.reads.family);
        range.set(bounds);
        self.range = Some(range);
    }
}
