//! What a transaction reads: keys, and the ranges that its cursors covered.
//!
//! It only takes notes; what they are checked for is decided when the transaction commits.
//!
//! A cursor covers everything from where it was placed to where it stands, the key under it
//! included: had another key been there, the cursor would have shown it.

use siltdb_base::{error::Result, key::successor, slice::Slice, sync::lock};
use siltdb_engine::{
    catalog::family::FamilyData,
    footprint::{CoveredRange, Footprint},
    read::ReadRange,
};
use siltdb_tree::read::visible::bounds::Bounds;
use std::{
    fmt,
    sync::{Arc, Mutex},
};

/// What of a walk counts as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// The keys that it showed.
    Keys,
    /// Those, and that there are no others between them.
    Ranges,
}

/// Where the reads of one family are noted.
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
    /// Notes that `key` was read, whether it was there or not.
    pub(crate) fn key(&self, key: &[u8]) {
        lock(&self.footprint).add_key(&self.family, key);
    }

    /// Takes notes of a cursor over `range`.
    pub(crate) fn track(&self, range: ReadRange) -> Track {
        Track { reads: self.clone(), bounds: range.bounds(), range: None }
    }
}

/// How a cursor came to where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move<'a> {
    /// From the start of its range.
    First,
    /// From the end of its range.
    Last,
    /// From this key on.
    From(&'a [u8]),
    /// From this key back.
    BackFrom(&'a [u8]),
    /// From where it stood, to later keys.
    On,
    /// From where it stood, to earlier keys.
    Back,
}

/// The notes of one cursor.
#[derive(Debug)]
pub(crate) struct Track {
    reads: Reads,
    bounds: Bounds,
    /// What was covered since the cursor was placed.
    range: Option<CoveredRange>,
}

impl Track {
    /// Notes a movement that led to `at`; `None` is beyond an end. One that failed counts as a walk
    /// over everything.
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
        if cfg!(seeded_fault = "ranges_not_tracked") {
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

    /// Notes a key that was passed on the way.
    pub(crate) fn passed(&self, key: &[u8]) {
        if self.reads.covered == Tracking::Keys {
            self.reads.key(key);
        }
    }

    fn begin(&mut self, bounds: Bounds) {
        let range = lock(&self.reads.footprint).add_range(&self.reads.family);
        range.set(bounds);
        self.range = Some(range);
    }
}
