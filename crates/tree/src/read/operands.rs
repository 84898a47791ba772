//! Merge operands of one key, one after the other in one piece of memory.
//!
//! It does not fold them.

use siltdb_base::id::SequenceNumber;

/// Memory that is kept for the operands of the next key, in bytes: most keys have a few short ones.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What an operand takes beside its bytes.
const MARK_BYTES: usize = size_of::<Mark>();

/// In which order operands were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// As a walk forward meets them.
    NewestFirst,
    /// As a walk backward meets them.
    OldestFirst,
}

/// Operands of one key.
#[derive(Debug, Default)]
pub struct Operands {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    sequence: SequenceNumber,
    /// Where the operand ends in the bytes; it begins where the one before ends.
    end: usize,
}

impl Operands {
    /// Adds one operand.
    #[inline]
    pub fn push(&mut self, sequence: SequenceNumber, operand: &[u8]) {
        self.bytes.extend_from_slice(operand);
        self.marks.push(Mark { sequence, end: self.bytes.len() });
    }

    /// Removes all operands.
    #[inline]
    pub fn clear(&mut self) {
        if self.bytes.capacity() + self.marks.capacity() * MARK_BYTES > KEPT_BYTES_MAX {
            *self = Self::default();
        } else {
            self.bytes.clear();
            self.marks.clear();
        }
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.marks.len()
    }

    /// Bytes of memory that they take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.marks.len() * MARK_BYTES
    }

    /// The sequence number of the newest.
    #[must_use]
    pub fn newest(&self, added: Added) -> Option<SequenceNumber> {
        let mark = match added {
            Added::NewestFirst => self.marks.first(),
            Added::OldestFirst => self.marks.last(),
        };
        mark.map(|mark| mark.sequence)
    }

    /// Each with its sequence number, in the order in which they were added.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (SequenceNumber, &[u8])> {
        (0..self.marks.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.marks[before].end);
            let Mark { sequence, end } = self.marks[index];
            (sequence, &self.bytes[start..end])
        })
    }

    /// All of them, oldest first, as operators take them.
    #[must_use]
    pub fn oldest_first(&self, added: Added) -> Vec<&[u8]> {
        let operands = self.iter().map(|(_, operand)| operand);
        match added {
            Added::NewestFirst => operands.rev().collect(),
            Added::OldestFirst => operands.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
