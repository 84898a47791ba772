//! The records that an import commits at once, and which of their keys are new.
//!
//! It neither reads nor writes: it asks the family which keys it has.
//!
//! 1. The records are sorted by key, those of one key in the order of the input.
//! 2. All but the first record of a key find the key there.
//! 3. A first record with a key above all keys of the family has a new key. An import of sorted
//!    keys into a new family asks for nothing.
//! 4. For any other first record the family is asked.

use crate::formats::record::Record;
use siltdb::{Family, Read, Result};

#[cfg(test)]
mod tests;

/// Records longer than this on average are not kept to be refilled, in bytes: a thousand of them
/// would hold most of a chunk's memory beside the batch.
const LARGE_RECORD_BYTES: usize = 16 << 10;

/// What a record's key is to the family at the moment the record is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// The family does not have it.
    #[default]
    New,
    /// The family has it, or an earlier record of the input had it.
    Present,
}

/// A record, where it stands, and what its key is to the family.
#[derive(Debug, Default)]
pub struct Placed {
    /// The line on which it begins.
    pub line: u64,
    /// The record.
    pub record: Record,
    /// Whether its key is new; known after [`Chunk::look_up`].
    pub presence: Presence,
}

/// The records of a chunk, in the order of the input. Refilled, it reuses their memory.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The first `len` of them count.
    slots: Vec<Placed>,
    len: usize,
    bytes: usize,
    /// Indexes of the records, by key and then in order.
    sorted: Vec<u32>,
}

impl Chunk {
    /// The next record to fill; it counts when [`Chunk::accept`] is called.
    pub fn next_slot(&mut self) -> &mut Placed {
        if self.slots.len() == self.len {
            self.slots.push(Placed::default());
        }
        &mut self.slots[self.len]
    }

    /// Counts the record that was filled.
    pub fn accept(&mut self) {
        let Placed { record, .. } = &self.slots[self.len];
        self.bytes += size_of::<Placed>() + record.key.len() + record.value.len();
        self.len += 1;
    }

    /// The records, in the order of the input.
    pub fn records(&self) -> &[Placed] {
        &self.slots[..self.len]
    }

    /// What the records take in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets the records. Memory that few long records would hold on to is given back.
    pub fn clear(&mut self) {
        if self.bytes / self.len.max(1) > LARGE_RECORD_BYTES {
            self.slots.clear();
        }
        (self.len, self.bytes) = (0, 0);
    }

    /// Finds out which keys are new to `family`, in which no key is above `greatest`, if that is
    /// known; raises `greatest` to the greatest key of the chunk.
    ///
    /// # Errors
    /// Those of the database.
    pub fn look_up(&mut self, family: &Family, greatest: &mut Option<Vec<u8>>) -> Result<()> {
        let (slots, sorted) = (&mut self.slots[..self.len], &mut self.sorted);
        sorted.clear();
        sorted.extend(0..u32::try_from(slots.len()).expect("a chunk is bounded by its bytes"));
        if !slots.is_sorted_by(|a, b| a.record.key < b.record.key) {
            sorted.sort_by(|a, b| {
                let key = |index: &u32| &slots[*index as usize].record.key;
                key(a).cmp(key(b))
            });
        }
        let mut before: Option<usize> = None;
        for index in sorted.iter().map(|index| *index as usize) {
            let key = &slots[index].record.key;
            let is_repeated = before.is_some_and(|before| slots[before].record.key == *key);
            let is_above = greatest.as_ref().is_none_or(|greatest| key > greatest);
            let is_present = is_repeated || (!is_above && family.contains(key)?);
            slots[index].presence = if is_present { Presence::Present } else { Presence::New };
            before = Some(index);
        }
        if let Some(last) = before
            && greatest.as_ref().is_none_or(|greatest| slots[last].record.key > *greatest)
        {
            *greatest = Some(slots[last].record.key.clone());
        }
        Ok(())
    }
}
