//! Leaves out merge operands of retired log segments whose base these segments do not have.
//!
//! A table may have folded such operands into its value, and they would count twice. With a value
//! or a deletion below them in the same segments, nothing of tables is needed.

use siltdb_base::{
    cursor::ForwardCursor,
    error::Result,
    id::SequenceNumber,
    key::{Entry, EntryKind},
    tombstone::Fragments,
};
use std::{collections::VecDeque, ops::Range, sync::Arc};

/// An operand that waits for its base.
struct Operand {
    sequence: SequenceNumber,
    value: Vec<u8>,
}

/// The entries of a cursor without operands of retired segments that have no base there.
pub struct BasedCursor<C> {
    cursor: C,
    /// The sequence numbers of retired segments.
    retired: Range<u64>,
    tombstones: Arc<Fragments>,
    key: Vec<u8>,
    /// The operands of `key` that come before the entry under the cursor; they have a base.
    operands: VecDeque<Operand>,
}

impl<C: ForwardCursor> BasedCursor<C> {
    /// The entries of `cursor`. Operations of retired segments have the numbers `retired`.
    pub fn new(cursor: C, retired: Range<u64>, tombstones: Arc<Fragments>) -> Self {
        let (key, operands) = (Vec::new(), VecDeque::new());
        Self { cursor, retired, tombstones, key, operands }
    }

    /// Passes over operands without a base.
    fn settle(&mut self) -> Result<()> {
        while let Some(operand) = self.retired_operand() {
            let newest = operand.sequence;
            self.operands.push_back(operand);
            let is_based = loop {
                self.cursor.next()?;
                if let Some(operand) = self.retired_operand() {
                    self.operands.push_back(operand);
                    continue;
                }
                let has_base = self.cursor.entry().is_some_and(|entry| {
                    entry.key == self.key && self.retired.contains(&entry.sequence.0)
                });
                let covering = self.tombstones.covering(&self.key, newest);
                break has_base || covering.is_some_and(|at| self.retired.contains(&at.0));
            };
            if is_based {
                return Ok(());
            }
            self.operands.clear();
        }
        Ok(())
    }

    /// The operand of a retired segment under the cursor: any, or the next one of the key.
    fn retired_operand(&mut self) -> Option<Operand> {
        let entry = self.cursor.entry()?;
        if entry.kind != EntryKind::Merge || !self.retired.contains(&entry.sequence.0) {
            return None;
        }
        if self.operands.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        }
        let operand = Operand { sequence: entry.sequence, value: entry.value.to_vec() };
        (entry.key == self.key).then_some(operand)
    }
}

impl<C: ForwardCursor> ForwardCursor for BasedCursor<C> {
    fn entry(&self) -> Option<Entry<'_>> {
        match self.operands.front() {
            Some(Operand { sequence, value }) => {
                Some(Entry { key: &self.key, sequence: *sequence, kind: EntryKind::Merge, value })
            }
            None => self.cursor.entry(),
        }
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.operands.clear();
        self.cursor.seek_to_first()?;
        self.settle()
    }

    fn next(&mut self) -> Result<()> {
        if self.operands.pop_front().is_none() {
            self.cursor.next()?;
        } else if !self.operands.is_empty() {
            return Ok(());
        }
        self.settle()
    }
}
