//! How a block is put together from its entries.
//!
//! It does not decide where a block ends; its caller does.

use super::{
    BLOCK_HEADER_BYTES,
    form::{KIND_BITS, KIND_MASK, OffsetWidth, short_head},
};
use siltdb_base::{
    codec::{put_varint, varint_len},
    id::SequenceNumber,
    key::{Entry, SortKey, Trailer},
};

/// Whether a block on disk has what it is searched by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockLayout {
    /// Its entries alone.
    #[default]
    Entries,
    /// Its entries, and behind them their heads and offsets.
    Searchable,
}

/// The bit of the width in the header of a block that has its arrays on disk.
const SEARCHABLE: u8 = 1 << 7;

impl BlockLayout {
    fn bit(self) -> u8 {
        match self {
            Self::Entries => 0,
            Self::Searchable => SEARCHABLE,
        }
    }

    /// The width of trailers and the layout that `byte` stands for.
    pub(super) fn split_width(byte: u8) -> (u8, Self) {
        match byte & SEARCHABLE {
            0 => (byte, Self::Entries),
            _ => (byte & !SEARCHABLE, Self::Searchable),
        }
    }
}

/// What a block is searched by, as it is gathered for the disk.
#[derive(Debug, Default)]
struct ArraysBuilder {
    heads: Vec<u8>,
    offsets: Vec<usize>,
}

impl ArraysBuilder {
    fn add(&mut self, suffix: &[u8], offset: usize) {
        self.heads.extend_from_slice(&short_head(suffix).to_le_bytes());
        self.offsets.push(offset);
    }

    /// Appends the arrays of a block whose entries end at `entries_end`.
    fn append_to(&self, out: &mut Vec<u8>, entries_end: usize) {
        let last = self.offsets.last();
        assert!(last.is_none_or(|&last| last < entries_end), "an entry beyond the block's entries");
        out.extend_from_slice(&self.heads);
        let width = OffsetWidth::within(entries_end);
        for &offset in &self.offsets {
            let mut bytes = [0; size_of::<u32>()];
            width.write(offset, &mut bytes[..width.bytes()]);
            out.extend_from_slice(&bytes[..width.bytes()]);
        }
    }
}

/// The bytes at the front that both have.
#[must_use]
pub fn shared_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Gathers the entries of one block after the other and encodes them.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    /// Key and value of each entry, one after the other.
    staged: Vec<u8>,
    entries: Vec<Staged>,
    prefix_bytes: usize,
    last_key_start: usize,
    sequence_min: SequenceNumber,
    sequence_max: SequenceNumber,
    /// Bytes of the entries if they had no common prefix.
    entry_bytes: usize,
}

#[derive(Debug)]
struct Staged {
    key_bytes: usize,
    value_bytes: usize,
    trailer: Trailer,
}

impl BlockBuilder {
    /// Whether it holds no entry.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries it holds.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// About the bytes of the block if an entry of this key and value length were added.
    #[inline]
    #[must_use]
    pub fn raw_bytes_with(&self, key: &[u8], value_bytes: usize) -> usize {
        let entry_bytes = self.entry_bytes + entry_bytes(key.len(), value_bytes);
        // The prefix is that of the entries so far: the new one can only shorten it.
        BLOCK_HEADER_BYTES + entry_bytes - self.prefix_bytes * self.entries.len()
    }

    /// Adds an entry, which must follow those before it.
    #[inline]
    pub fn add(&mut self, entry: Entry<'_>) {
        if self.entries.is_empty() {
            self.prefix_bytes = entry.key.len();
            (self.sequence_min, self.sequence_max) = (entry.sequence, entry.sequence);
        } else {
            let prefix = &self.staged[..self.prefix_bytes];
            if !entry.key.starts_with(prefix) {
                self.prefix_bytes = shared_prefix_bytes(prefix, entry.key);
            }
            self.sequence_min = self.sequence_min.min(entry.sequence);
            self.sequence_max = self.sequence_max.max(entry.sequence);
        }
        self.last_key_start = self.staged.len();
        self.staged.extend_from_slice(entry.key);
        self.staged.extend_from_slice(entry.value);
        self.entries.push(Staged {
            key_bytes: entry.key.len(),
            value_bytes: entry.value.len(),
            trailer: Trailer::new(entry.sequence, entry.kind),
        });
        self.entry_bytes += entry_bytes(entry.key.len(), entry.value.len());
    }

    /// The key of the first entry, if there is one.
    #[must_use]
    pub fn first_key(&self) -> Option<&[u8]> {
        self.entries.first().map(|entry| &self.staged[..entry.key_bytes])
    }

    /// The last entry, if there is one.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Option<SortKey<'_>> {
        let last = self.entries.last()?;
        let start = self.last_key_start;
        let key = &self.staged[start..start + last.key_bytes];
        Some(SortKey::new(key, last.trailer.sequence()))
    }

    /// Writes the block over the contents of `out`.
    ///
    /// # Panics
    /// If there is no entry.
    pub fn encode(&self, layout: BlockLayout, out: &mut Vec<u8>) {
        out.clear();
        let first = self.first_key().expect("a block has an entry");
        let prefix = &first[..self.prefix_bytes];
        assert!(self.sequence_min <= self.sequence_max, "no sequence numbers in a block");
        let base = self.sequence_min.0;
        let largest = (self.sequence_max.0 - base) << KIND_BITS | u64::from(KIND_MASK);
        let width = (64 - largest.leading_zeros() as usize).div_ceil(8);
        out.reserve(BLOCK_HEADER_BYTES + self.entry_bytes + self.entries.len() * 8);
        put_varint(out, self.entries.len() as u64);
        put_varint(out, prefix.len() as u64);
        put_varint(out, base);
        out.push(width as u8 | layout.bit());
        out.extend_from_slice(prefix);
        let mut arrays = ArraysBuilder::default();
        let mut rest = &self.staged[..];
        for entry in &self.entries {
            let (key, after) = rest.split_at(entry.key_bytes);
            let (value, after) = after.split_at(entry.value_bytes);
            rest = after;
            let suffix = &key[prefix.len()..];
            if layout == BlockLayout::Searchable {
                arrays.add(suffix, out.len());
            }
            put_varint(out, suffix.len() as u64);
            put_varint(out, value.len() as u64);
            let kind = entry.trailer.0 & u64::from(KIND_MASK);
            let trailer = (entry.trailer.sequence().0 - base) << KIND_BITS | kind;
            out.extend_from_slice(&trailer.to_le_bytes()[..width]);
            out.extend_from_slice(suffix);
            out.extend_from_slice(value);
        }
        assert!(rest.is_empty(), "{} bytes of a block are in no entry", rest.len());
        arrays.append_to(out, out.len());
    }

    /// Writes over the contents of `out` what comes before the value in the block of `entry` alone.
    /// Returns what comes after it.
    pub fn encode_around_value(
        entry: &Entry<'_>,
        layout: BlockLayout,
        out: &mut Vec<u8>,
    ) -> Vec<u8> {
        out.clear();
        put_varint(out, 1);
        put_varint(out, entry.key.len() as u64);
        put_varint(out, entry.sequence.0);
        // The trailer is the kind, as its sequence number is the base.
        out.push(1 | layout.bit());
        out.extend_from_slice(entry.key);
        let offset = out.len();
        put_varint(out, 0);
        put_varint(out, entry.value.len() as u64);
        out.push((Trailer::new(entry.sequence, entry.kind).0 & u64::from(KIND_MASK)) as u8);
        let mut arrays = ArraysBuilder::default();
        let mut behind = Vec::new();
        if layout == BlockLayout::Searchable {
            arrays.add(b"", offset);
            arrays.append_to(&mut behind, out.len() + entry.value.len());
        }
        behind
    }

    /// Forgets the entries.
    pub fn clear(&mut self) {
        self.staged.clear();
        self.entries.clear();
        self.entry_bytes = 0;
        self.prefix_bytes = 0;
    }
}

/// About the bytes of an entry without a common prefix.
#[inline]
fn entry_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    const TRAILER_BYTES: usize = 4;
    let lengths = varint_len(key_bytes as u64) + varint_len(value_bytes as u64);
    lengths + TRAILER_BYTES + key_bytes + value_bytes
}
