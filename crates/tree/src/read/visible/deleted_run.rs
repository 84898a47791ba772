//! What a reader has passed over since the last key that it saw.
//!
//! It only counts; what follows from that is done by `skip`.

use crate::{read::empty_ranges::Candidate, read::visible::coverage::Cover};

/// Deleted keys that are passed over before an empty range is looked for; then twice as many each
/// time.
const ASKED_AFTER: u32 = 8;

/// Deleted keys that are passed over before the family is tracked.
pub(super) const TRACKED_AFTER: u32 = 64;

/// The run of entries that one range tombstone hides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HiddenRun {
    pub(super) cover: Option<Cover>,
    pub(super) length: u32,
}

/// Deleted keys, one after the other.
#[derive(Debug)]
pub(super) struct DeletedRun {
    pub(super) keys: u32,
    /// An empty range is looked for when `keys` reaches this.
    pub(super) ask_at: u32,
    /// Further keys after which the search is tried again, if there was none.
    pub(super) pause: u32,
    pub(super) candidate: Option<Candidate>,
}

impl Default for DeletedRun {
    fn default() -> Self {
        Self { keys: 0, ask_at: ASKED_AFTER, pause: ASKED_AFTER, candidate: None }
    }
}

impl DeletedRun {
    /// Begins a new run, without keys.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.is_short() {
            self.keys = 0;
        } else {
            *self = Self::default();
        }
    }

    /// Whether the run is still too short to look for an empty range.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.keys < ASKED_AFTER
    }
}
