//! What a reader has passed over since the last key that it saw.
//!
//! It only counts; what follows from that is done by `leap`.

use crate::{read::gaps::Survey, read::visible::coverage::Cover};

/// Deleted keys that are passed over before a gap is looked for; then twice as many each time.
const ASKED_AFTER: u32 = 8;

/// Deleted keys that are passed over before the family is watched.
pub(super) const WATCHED_AFTER: u32 = 64;

/// The run of entries that one range tombstone hides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HiddenRun {
    pub(super) cover: Option<Cover>,
    pub(super) length: u32,
}

/// Deleted keys, one after the other.
#[derive(Debug)]
pub(super) struct Crossing {
    pub(super) keys: u32,
    /// A gap is looked for when there are so many, ...
    pub(super) ask_at: u32,
    /// ... and if there is none, so many later.
    pub(super) pause: u32,
    pub(super) survey: Option<Survey>,
}

impl Default for Crossing {
    fn default() -> Self {
        Self { keys: 0, ask_at: ASKED_AFTER, pause: ASKED_AFTER, survey: None }
    }
}

impl Crossing {
    /// Begins anew.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.is_short() {
            self.keys = 0;
        } else {
            *self = Self::default();
        }
    }

    /// Whether nobody has looked for a gap yet.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        self.keys < ASKED_AFTER
    }
}
