//! The records that an import commits at once, and which of their keys are new.
//!
//! It reads no input and writes nothing: it only looks keys up in the family.
//!
//! The records are sorted by key, those of one key in the order of the input. Each but the first of
//! a key finds the key present; for the first, [`Known`] decides.

use super::known::Known;
use super::tally::BadPlaced;
use crate::formats::record::{BadRecord, Record};
use crate::key_form::KeyForm;
use siltdb::{Family, Result};

#[cfg(test)]
mod tests;

/// Longest average record whose memory is kept for reuse, in bytes. A thousand longer ones would
/// hold most of a chunk's memory in addition to the batch.
const LARGE_RECORD_BYTES: usize = 16 << 10;

/// The presence of a record's key at the moment the record is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// The family does not have the key.
    #[default]
    New,
    /// The family has the key, or an earlier record of the input has it.
    Present,
}

/// A record with its line and the presence of its key.
#[derive(Debug, Default)]
pub struct Placed {
    /// The number of the record in the input, from 1.
    pub number: u64,
    /// The line on which the record begins.
    pub line: u64,
    /// The record.
    pub record: Record,
    /// Valid after [`Chunk::look_up`].
    pub presence: Presence,
}

/// The records of a chunk, in the order of the input. A refill reuses their memory.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The first `len` slots are in use.
    slots: Vec<Placed>,
    len: usize,
    bytes: usize,
    /// Indexes of the records, sorted by key and then by input order.
    sorted: Vec<u32>,
}

impl Chunk {
    /// Returns the slot for the next record; [`Chunk::accept`] adds it.
    pub fn next_slot(&mut self) -> &mut Placed {
        if self.slots.len() == self.len {
            self.slots.push(Placed::default());
        }
        &mut self.slots[self.len]
    }

    /// Adds the record in the next slot.
    pub fn accept(&mut self) {
        let Placed { record, .. } = &self.slots[self.len];
        self.bytes += size_of::<Placed>() + record.key.len() + record.value.len();
        self.len += 1;
    }

    /// Returns the records in the order of the input.
    pub fn records(&self) -> &[Placed] {
        &self.slots[..self.len]
    }

    /// Returns the memory of the records, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes the records, and frees memory that a few long records hold.
    pub fn clear(&mut self) {
        if self.bytes / self.len.max(1) > LARGE_RECORD_BYTES {
            self.slots.clear();
        }
        (self.len, self.bytes) = (0, 0);
    }

    /// Replaces the text of each key by the key, and removes the records whose text is none.
    /// Returns these.
    pub fn encode(&mut self, keys: &KeyForm) -> Vec<BadPlaced> {
        self.keep(|key| {
            *key = keys.encoded(key)?.into_owned();
            Ok(())
        })
    }

    /// Removes the records whose key `check` refuses, and returns these. It may change the others.
    pub fn keep(
        &mut self,
        mut check: impl FnMut(&mut Vec<u8>) -> crate::failure::Result<()>,
    ) -> Vec<BadPlaced> {
        let mut bad = Vec::new();
        let mut index = 0;
        while index < self.len {
            let Placed { number, line, record, .. } = &mut self.slots[index];
            match check(&mut record.key) {
                Ok(()) => index += 1,
                Err(failure) => {
                    let fault = BadRecord { line: *line, column: 1, reason: failure.to_string() };
                    bad.push(BadPlaced { number: *number, bad: fault });
                    self.slots[index..self.len].rotate_left(1);
                    self.len -= 1;
                }
            }
        }
        bad
    }

    /// Determines which keys are new to `family`, with the help of `known`. Called once for a
    /// chunk.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn look_up(&mut self, family: &Family, known: &mut Known) -> Result<()> {
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
            let is_present = is_repeated || known.import(family, key)?;
            slots[index].presence = if is_present { Presence::Present } else { Presence::New };
            before = Some(index);
        }
        if let Some(last) = before {
            known.raise(&slots[last].record.key);
        }
        Ok(())
    }
}
