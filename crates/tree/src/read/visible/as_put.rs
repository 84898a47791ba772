//! What an iterator shows, as an entry that can be stored: with its expiry.
//!
//! It is for walks forward: backward, expiries are not kept.

use crate::read::visible::iter::{KeyPlace, ValuePlace, VisibleIter};
use siltdb_base::{
    cursor::{Direction, EntryCursor},
    key::EntryKind,
};

impl<C: EntryCursor> VisibleIter<C> {
    /// The key, and what a put of its value would store: kind and payload. `None` if the iterator
    /// stands nowhere.
    ///
    /// A value that was folded from operands does not expire, as readers of the family see it.
    ///
    /// # Panics
    /// If the last movement was backward.
    #[inline]
    #[must_use]
    pub fn as_put(&self) -> Option<(&[u8], EntryKind, &[u8])> {
        assert_eq!(self.direction, Direction::Forward, "backward, an expiry is not known");
        match (self.key_place, self.value_place) {
            // It lies there as it was put.
            (KeyPlace::Cursor, ValuePlace::Cursor(_)) => {
                self.merge.entry().map(|entry| (entry.key, entry.kind, entry.value))
            }
            _ => self.entry().map(|(key, value)| (key, EntryKind::Put, value)),
        }
    }
}
