//! Sources for tests: a cursor over a vector, with blocks, true spans and failures on order.
//!
//! It knows nothing of visibility.

use siltdb_base::{
    cursor::{Direction, EntryCursor, Stretch, StretchContent},
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    key::{Entry, EntryKind, LookupKey, SortKey},
};
use std::sync::Arc;

/// An entry that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: SequenceNumber,
    pub(crate) kind: EntryKind,
    pub(crate) value: Vec<u8>,
}

impl Owned {
    pub(crate) fn new(key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Self {
        let sequence = SequenceNumber(sequence);
        Self { key: key.to_vec(), sequence, kind, value: value.to_vec() }
    }

    pub(crate) fn from(entry: Entry<'_>) -> Self {
        Self::new(entry.key, entry.sequence.0, entry.kind, entry.value)
    }

    pub(crate) fn place(&self) -> SortKey<'_> {
        SortKey::new(&self.key, self.sequence)
    }

    pub(crate) fn borrow(&self) -> Entry<'_> {
        let Self { key, sequence, kind, value } = self;
        Entry { key, sequence: *sequence, kind: *kind, value }
    }
}

/// Sorts into the order of entries.
pub(crate) fn sort(entries: &mut [Owned]) {
    entries.sort_by(|a, b| a.place().cmp(&b.place()));
}

#[derive(Debug)]
struct Block {
    start: usize,
    end: usize,
    sequence_max: SequenceNumber,
    content: StretchContent,
}

/// A cursor over sorted entries, cut into blocks.
#[derive(Clone, Debug)]
pub(crate) struct VecCursor {
    entries: Arc<Vec<Owned>>,
    blocks: Arc<Vec<Block>>,
    block_entries: usize,
    position: Option<usize>,
    /// Operations until every further one fails.
    fails_in: Option<usize>,
}

impl VecCursor {
    /// A cursor over `entries`; 0 block entries: without spans.
    pub(crate) fn new(mut entries: Vec<Owned>, block_entries: usize) -> Self {
        sort(&mut entries);
        let single = |index: usize| {
            let key = &entries[index].key;
            (index == 0 || entries[index - 1].key != *key)
                && entries.get(index + 1).is_none_or(|next| next.key != *key)
        };
        let mut blocks = Vec::new();
        if block_entries > 0 {
            for start in (0..entries.len()).step_by(block_entries) {
                let end = (start + block_entries).min(entries.len());
                let plain = (start..end)
                    .all(|index| single(index) && entries[index].kind == EntryKind::Put);
                let sequences = entries[start..end].iter().map(|entry| entry.sequence);
                blocks.push(Block {
                    start,
                    end,
                    sequence_max: sequences.max().expect("a block has entries"),
                    content: if plain { StretchContent::Plain } else { StretchContent::Any },
                });
            }
        }
        Self {
            entries: Arc::new(entries),
            blocks: Arc::new(blocks),
            block_entries,
            position: None,
            fails_in: None,
        }
    }

    pub(crate) fn fail_in(&mut self, operations: usize) {
        self.fails_in = Some(operations);
    }

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    pub(crate) fn sequence_max(&self) -> SequenceNumber {
        self.entries.iter().map(|entry| entry.sequence).max().unwrap_or_default()
    }

    fn go(&mut self, position: Option<usize>) -> Result<()> {
        if let Some(left) = &mut self.fails_in {
            if *left == 0 {
                self.position = None;
                return Err(Error::new(ErrorKind::Io, "failed on order"));
            }
            *left -= 1;
        }
        self.position = position.filter(|&position| position < self.entries.len());
        Ok(())
    }

    fn lower_bound(&self, key: &[u8], sequence: SequenceNumber) -> usize {
        self.entries.partition_point(|entry| entry.place() < SortKey::new(key, sequence))
    }
}

impl EntryCursor for VecCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.position.map(|position| self.entries[position].borrow())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.go(self.entries.len().checked_sub(1))
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.go(Some(self.lower_bound(key, sequence)))
    }

    /// Knows what it holds, and takes a quarter of the other keys for one of its own.
    fn may_hold(&self, key: LookupKey<'_>) -> bool {
        key.hash().is_multiple_of(4) || self.holds(key.key())
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        self.go(self.lower_bound(key, sequence).checked_sub(1))
    }

    fn next(&mut self) -> Result<()> {
        match self.position {
            Some(position) => self.go(Some(position + 1)),
            None => Ok(()),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self.position {
            Some(position) => self.go(position.checked_sub(1)),
            None => Ok(()),
        }
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        let position = self.position?;
        let block = self.blocks.get(position.checked_div(self.block_entries)?)?;
        Some(Stretch {
            first_key: &self.entries[block.start].key,
            last_key: &self.entries[block.end - 1].key,
            before: position - block.start,
            after: block.end - 1 - position,
            sequence_max: block.sequence_max,
            content: block.content,
        })
    }

    fn stretch_along(&self, direction: Direction) -> Option<Stretch<'_>> {
        let mut span = self.stretch()?;
        let own = self.position? / self.block_entries;
        let is_plain = |block: &&Block| block.content == StretchContent::Plain;
        let (before, after) = self.blocks.split_at(own);
        // The own one is among them if it is plain.
        let stretch: Vec<&Block> = match direction {
            Direction::Forward => after.iter().take_while(is_plain).take(3).collect(),
            Direction::Backward => {
                let back = before.iter().rev();
                after[..1].iter().chain(back).take_while(is_plain).take(3).collect()
            }
        };
        for block in stretch {
            span.sequence_max = span.sequence_max.max(block.sequence_max);
            match direction {
                Direction::Forward => {
                    span.last_key = &self.entries[block.end - 1].key;
                    span.after = block.end - 1 - self.position?;
                }
                Direction::Backward => {
                    span.first_key = &self.entries[block.start].key;
                    span.before = self.position? - block.start;
                }
            }
        }
        Some(span)
    }
}
