//! Seeks that pass over what a range tombstone hides.

use super::{Merge, MergeSource};
use siltdb_base::{
    cursor::{Direction, EntryCursor},
    error::Result,
    id::SequenceNumber,
};

/// A range of keys that a range tombstone hides, seen from a place in it.
#[derive(Clone, Copy, Debug)]
pub struct HiddenRange<'a> {
    /// Where the range ends along the direction of the seek: its end forward, its start backward.
    pub border: &'a [u8],
    /// The sequence number of the tombstone. It hides what is older.
    pub tombstone: SequenceNumber,
}

impl HiddenRange<'_> {
    /// Whether it hides all entries that `source` has there.
    fn hides<C>(self, source: &MergeSource<C>) -> bool {
        source.sequence_max < self.tombstone
    }
}

impl<C: EntryCursor> Merge<C> {
    /// Seeks as [`EntryCursor::seek`], and passes over what a range tombstone above `key` hides:
    /// every source whose entries are all older than the tombstone goes to the border at once.
    ///
    /// # Errors
    /// What reading a source fails with.
    pub fn seek_past(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        hidden: HiddenRange<'_>,
    ) -> Result<()> {
        self.position(Direction::Forward, |source| match hidden.hides(source) {
            true => source.cursor.seek(hidden.border, SequenceNumber::MAX),
            false => source.cursor.seek(key, sequence),
        })
    }

    /// The same for [`EntryCursor::seek_before`] and all versions.
    ///
    /// # Errors
    /// What reading a source fails with.
    pub fn seek_before_past(&mut self, key: &[u8], hidden: HiddenRange<'_>) -> Result<()> {
        self.position(Direction::Backward, |source| {
            let key = if hidden.hides(source) { hidden.border } else { key };
            source.cursor.seek_before(key, SequenceNumber::MAX)
        })
    }
}
