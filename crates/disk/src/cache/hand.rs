//! The hand of the clock: where it stands, and which piece of its way a thread takes.
//!
//! It evicts nothing. Several threads may pass over pieces at the same time. What a thread leaves
//! of its piece is the next one to be taken, so each round passes every slot once.
//!
//! # Seeded fault
//! `rest_of_a_piece_passed_over`: what a thread leaves of its piece waits for the next round.

use super::cached::Sweep;
use siltdb_base::seeded_fault;
use std::{
    ops::Range,
    sync::{Arc, Weak},
};

/// Slots of a piece: those whose bits share a word.
const PIECE_SLOTS: usize = super::array::SLOTS_PER_WORD;

/// Arrays up to which none is looked for that is gone.
const ARRAYS_MIN: usize = 64;

/// Slots of one array.
pub(super) struct Piece {
    pub(super) array: Arc<dyn Sweep>,
    pub(super) slots: Range<usize>,
}

impl Piece {
    /// The part of it from `slot` on.
    pub(super) fn from(self, slot: usize) -> Self {
        Self { slots: slot..self.slots.end, ..self }
    }
}

/// Where the clock stands.
///
/// An array of slots that is gone is left out when the hand comes to it, or when there are twice as
/// many as were left the last time. Its drop takes no lock, because a value that is evicted may own
/// slots itself.
#[derive(Default)]
pub(super) struct Hand {
    arrays: Vec<Weak<dyn Sweep>>,
    array: usize,
    slot: usize,
    /// How often it has passed all arrays.
    round: u64,
    /// What threads have left of their pieces.
    left: Vec<(Weak<dyn Sweep>, Range<usize>)>,
    /// Arrays at which those that are gone are looked for.
    arrays_max: usize,
}

impl Hand {
    /// How often it has passed all arrays.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// The next piece; `None` after the round `last`, or without slots.
    pub(super) fn advance(&mut self, last: u64) -> Option<Piece> {
        while let Some((array, slots)) = self.left.pop() {
            if let Some(array) = array.upgrade() {
                return Some(Piece { array, slots });
            }
        }
        while self.round <= last {
            let Some(array) = self.arrays.get(self.array)?.upgrade() else {
                self.arrays.swap_remove(self.array);
                self.slot = 0;
                self.wrap();
                continue;
            };
            let slots = self.slot..array.count().min(self.slot + PIECE_SLOTS);
            self.slot = slots.end;
            if slots.end == array.count() {
                self.slot = 0;
                self.array += 1;
                self.wrap();
            }
            return Some(Piece { array, slots });
        }
        None
    }

    /// Behind the last array, the first is next.
    fn wrap(&mut self) {
        if self.array >= self.arrays.len() {
            self.array = 0;
            self.round += 1;
        }
    }

    /// Has the next thread take a piece that was not passed to its end.
    pub(super) fn leave(&mut self, piece: Piece) {
        if !piece.slots.is_empty() && !seeded_fault!("rest_of_a_piece_passed_over") {
            self.left.push((Arc::downgrade(&piece.array), piece.slots));
        }
    }

    /// Adds an array behind the others.
    pub(super) fn add(&mut self, array: Weak<dyn Sweep>) {
        if self.arrays.len() >= self.arrays_max {
            let is_there = |array: &Weak<dyn Sweep>| array.strong_count() > 0;
            let before =
                self.arrays.iter().take(self.array).filter(|array| is_there(array)).count();
            if !self.arrays.get(self.array).is_some_and(is_there) {
                self.slot = 0;
            }
            self.arrays.retain(is_there);
            // Behind the last one, the first is next.
            self.array = if before < self.arrays.len() { before } else { 0 };
            self.arrays_max = (2 * self.arrays.len()).max(ARRAYS_MIN);
        }
        self.arrays.push(array);
    }

    /// All arrays that are still there.
    pub(super) fn arrays(&self) -> Vec<Arc<dyn Sweep>> {
        self.arrays.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests;
