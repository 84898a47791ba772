//! Pins of the log: segments that must not be used again while they are read.
//!
//! A pin keeps files, not the place where recovery begins: that is what flushes make of it. So a
//! pinned segment that is retired is replayed by no recovery, and a pin does not outlive its
//! process.

use siltdb_base::{id::SegmentId, sync::lock};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// A segment file, as far as retiring it needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSlot {
    /// Its id.
    pub id: SegmentId,
    /// The slot of its file.
    pub slot: u64,
}

/// The pins of a log.
///
/// # Thread safety
/// Everything may be called from any thread.
///
/// # Invariants
/// 1. A retired segment is let go only if no pin is at it or before it.
#[derive(Debug, Default)]
pub struct Pins {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many pins there are at each segment.
    pinned: BTreeMap<SegmentId, usize>,
    /// Retired segments that a pin keeps.
    kept: Vec<SegmentSlot>,
}

/// Keeps a segment and all later ones until it is dropped.
#[derive(Debug)]
pub struct Pin {
    pins: Arc<Pins>,
    segment: SegmentId,
}

impl Pins {
    /// Keeps the segments from `segment` on, which must not be retired yet.
    #[must_use]
    pub fn pin(self: &Arc<Self>, segment: SegmentId) -> Pin {
        *lock(&self.state).pinned.entry(segment).or_default() += 1;
        Pin { pins: Arc::clone(self), segment }
    }

    /// Takes retired segments, and lets go of those that no pin keeps, of earlier ones as well.
    #[must_use]
    pub fn retire(&self, segments: &[SegmentSlot]) -> Vec<SegmentSlot> {
        let mut state = lock(&self.state);
        state.kept.extend_from_slice(segments);
        let first = match cfg!(seeded_fault = "ignore_log_pins") {
            true => None,
            false => state.pinned.keys().next().copied(),
        };
        let (kept, free) = std::mem::take(&mut state.kept)
            .into_iter()
            .partition(|segment| first.is_some_and(|first| first <= segment.id));
        state.kept = kept;
        free
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = lock(&self.pins.state);
        if let Some(count) = state.pinned.get_mut(&self.segment) {
            *count -= 1;
            if *count == 0 {
                state.pinned.remove(&self.segment);
            }
        }
    }
}

#[cfg(test)]
mod tests;
