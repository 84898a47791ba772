//! Which sources of a merge have not been searched yet, and whether it pays to leave them.

use std::vec::Drain;

/// Seeks in vain, one after the other, before deferring is given up. A seek was in vain if the key
/// was not there or the cursor moved on. The deferred sources then had to be searched after all.
pub const VAIN_MAX: u8 = 8;

/// Sources of a merge, by index, that its last seek has left where they were.
#[derive(Debug)]
pub struct Deferred {
    sources: Vec<usize>,
    /// How often in a row it was in vain.
    vain: u8,
}

impl Deferred {
    /// None of `count` sources.
    pub fn new(count: usize) -> Self {
        Self { sources: Vec::with_capacity(count), vain: 0 }
    }

    /// Whether all sources are where they belong.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Says whether a seek that begins should defer sources. If there still are any, the cursor did
    /// not move on from where the last seek ended, so deferring was worth it.
    pub fn begin(&mut self) -> bool {
        if !self.is_empty() {
            self.clear();
            self.vain = 0;
        }
        self.vain < VAIN_MAX
    }

    /// Leaves a source for later.
    pub fn push(&mut self, source: usize) {
        self.sources.push(source);
    }

    /// The sources that were left.
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// The same, to be searched now: it was in vain. Afterwards there are none, also if the search
    /// ends early.
    pub fn recall(&mut self) -> Drain<'_, usize> {
        self.vain += 1;
        self.sources.drain(..)
    }

    /// Forgets about them: they have been positioned otherwise.
    pub fn clear(&mut self) {
        self.sources.clear();
    }
}
