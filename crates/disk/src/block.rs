//! Data blocks: a stretch of ordered entries, searched by key heads.
//!
//! It does not compress, checksum or cache.
//!
//! ```text
//! | count varint | prefix length varint | base sequence varint | width u8 | prefix | entry, ... |
//!
//! entry: | suffix length varint | value length varint | trailer, `width` bytes le | suffix | value
//! |
//! ```
//!
//! The key of an entry is the prefix and its suffix; the prefix is the longest that all keys of
//! the block share. The trailer is `(sequence - base sequence) << 3 | kind`, `width` (1 to 8) the
//! bytes that the largest trailer of the block needs. Entries are in the order of
//! [`siltdb_base::key`].
//!
//! In memory two arrays stand in front of these bytes, derived when the block is loaded: of each
//! entry the *head* (the first 8 bytes of its suffix as a number that orders as they do) and the
//! offset. A lookup is a binary search over the heads; only entries with the head sought are looked
//! at. Deriving the arrays takes about half as long as decoding the LZ4 of the block; storing them
//! would take a tenth more space.
//!
//! ```text
//! | head u64, ... | offset u32, ... | the bytes above | 8 zeros |
//! ```
//!
//! # Invariants
//! Checked when a block is parsed, so that every access afterwards is within bounds:
//! 1. There is at least one entry, and each lies between the header and the zeros.
//! 2. Each trailer has a kind other than `RangeDelete` and a sequence number of 56 bits.
//! 3. No key is longer than the limit, and expiring entries have an expiry.
//!
//! That the entries are in order is not checked here: a block out of order gives wrong answers,
//! and [`Block::check_order`] finds it.

mod form;

pub use form::{Entries, Located};

use crate::cache::Resident;
use bytes::Bytes;
use form::{Form, HEAD_BYTES, KIND_BITS, KIND_MASK, OFFSET_BYTES, PADDING_BYTES};
use siltdb_base::{
    codec::{Reader, VARINT_BYTES_MAX, put_varint, varint_len},
    error::{Error, Result},
    hint::{CACHE_LINE_BYTES, prefetch_address, prefetch_bytes},
    id::SequenceNumber,
    key::{Entry, EntryKind, Trailer, compare, head, split_expiring},
    limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    memory::region::{Buffer, Margins},
    slice::Pinnable,
};
use std::cmp::Ordering;

/// Most bytes in front of the prefix of a block.
const BLOCK_HEADER_BYTES: usize = 3 * VARINT_BYTES_MAX + 1;

/// So an entry of any permitted length, its expiry included, fits into a block of its own.
const _: () = assert!(
    HEAD_BYTES
        + OFFSET_BYTES
        + BLOCK_HEADER_BYTES
        + 3 * VARINT_BYTES_MAX
        + KEY_BYTES_MAX
        + size_of::<u64>()
        + VALUE_BYTES_MAX
        + PADDING_BYTES
        <= u32::MAX as usize
);

/// Bytes of most entries.
const ENTRY_FRONT_BYTES: usize = 3 * CACHE_LINE_BYTES;

/// A block in memory; immutable.
#[derive(Debug)]
pub struct Block {
    /// See the file header.
    bytes: Bytes,
    form: Form,
    count: u32,
    prefix_start: u32,
    prefix_bytes: u32,
}

/// An entry of a block without the prefix of its key.
#[derive(Clone, Copy, Debug)]
pub struct BlockEntry<'a> {
    /// The key without the prefix of the block.
    pub suffix: &'a [u8],
    /// Its place in the order of the database.
    pub sequence: SequenceNumber,
    /// What it does.
    pub kind: EntryKind,
    /// Its payload.
    pub value: &'a [u8],
}

impl Resident for Block {
    /// The heads and offsets of some 40 entries.
    const FRONT_BYTES: usize = 8 * CACHE_LINE_BYTES;

    fn front(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// The number of entries, and the bytes of one on average.
    fn layout(&self) -> u64 {
        let entries_bytes = self.bytes.len() - self.count() * (HEAD_BYTES + OFFSET_BYTES);
        let stride = u32::try_from(entries_bytes / self.count()).unwrap_or(u32::MAX);
        u64::from(stride) << 32 | u64::from(self.count)
    }
}

impl Block {
    /// Bytes at its front that a walk over it looks at first: some of its entries, too.
    pub const WALK_FRONT_BYTES: usize = 12 * CACHE_LINE_BYTES;

    /// Checks `raw` and takes a copy of it that can be searched.
    ///
    /// Allocates at most 5 times the length of `raw`.
    ///
    /// # Errors
    /// Corruption, if the invariants do not hold.
    pub fn parse(raw: &[u8]) -> Result<Self> {
        Self::parse_into(raw, Buffer::copy_on_heap)
    }

    /// The same, where `copy` chooses the memory.
    ///
    /// # Errors
    /// As [`Block::parse`].
    pub fn parse_into(raw: &[u8], copy: impl FnOnce(&[u8], Margins) -> Buffer) -> Result<Self> {
        let mut reader = Reader::new(raw);
        let count = reader.varint()?;
        let prefix_bytes = reader.varint_u32()?;
        let base_sequence = reader.varint()?;
        let width = reader.u8()?;
        let prefix = reader.take(prefix_bytes as usize)?;
        let form = Form::new(base_sequence, width)?;
        let entry_bytes_min = 2 + u64::from(width);
        if count == 0 || count > reader.rest().len() as u64 / entry_bytes_min {
            return Err(Error::corruption("bad entry count of a block"));
        }
        let count = count as usize;
        let arrays = count * (HEAD_BYTES + OFFSET_BYTES);
        // The arrays are written last, by `fill_arrays`.
        let mut bytes = copy(raw, Margins { front: arrays, back: PADDING_BYTES });
        let header_bytes = raw.len() - reader.rest().len();
        let block = Self {
            bytes: Bytes::new(),
            form,
            count: u32::try_from(count).map_err(|_| Error::corruption("too many entries"))?,
            prefix_start: u32::try_from(arrays + header_bytes - prefix.len())
                .map_err(|_| Error::corruption("block too large"))?,
            prefix_bytes,
        };
        block.fill_arrays(&mut bytes, header_bytes)?;
        Ok(Self { bytes: bytes.freeze(), ..block })
    }

    /// A copy of it, where `copy` chooses the memory.
    #[must_use]
    pub fn copy_into(&self, copy: impl FnOnce(&[u8], Margins) -> Buffer) -> Self {
        let bytes = copy(&self.bytes, Margins { front: 0, back: 0 }).freeze();
        let Self { form, count, prefix_start, prefix_bytes, .. } = *self;
        Self { bytes, form, count, prefix_start, prefix_bytes }
    }

    /// Checks every entry, the first of which follows `header_bytes` of the block, and writes its
    /// head and offset to the front of `bytes`.
    fn fill_arrays(&self, bytes: &mut [u8], header_bytes: usize) -> Result<()> {
        let count = self.count as usize;
        let (heads, rest) = bytes.split_at_mut(count * HEAD_BYTES);
        let (heads, _) = heads.as_chunks_mut::<HEAD_BYTES>();
        let (offsets, raw) = rest.split_at_mut(count * OFFSET_BYTES);
        let (offsets, _) = offsets.as_chunks_mut::<OFFSET_BYTES>();
        let arrays_bytes = count * (HEAD_BYTES + OFFSET_BYTES);
        let Some(suffix_bytes_max) = KEY_BYTES_MAX.checked_sub(self.prefix_bytes as usize) else {
            return Err(Error::corruption("the keys of a block are too long"));
        };
        if u32::try_from(arrays_bytes + raw.len()).is_err() {
            return Err(Error::corruption("block too large"));
        }
        let mut at = header_bytes;
        for (head_bytes, offset_bytes) in heads.iter_mut().zip(offsets) {
            *offset_bytes = ((arrays_bytes + at) as u32).to_ne_bytes();
            let entry = self.form.check(raw, at)?;
            let suffix = &raw[entry.suffix_start..entry.value_start];
            if suffix.len() > suffix_bytes_max {
                return Err(
                    Error::corruption("key too long").with_mismatch(suffix_bytes_max, suffix.len())
                );
            }
            *head_bytes = head(suffix).to_ne_bytes();
            match entry.kind {
                EntryKind::RangeDelete => {
                    return Err(Error::corruption("range tombstone among the entries"));
                }
                EntryKind::PutExpiring => {
                    split_expiring(&raw[entry.value_start..entry.value_end])?;
                }
                _ => {}
            }
            at = entry.value_end;
        }
        if at != raw.len() - PADDING_BYTES {
            return Err(Error::corruption("bytes after the last entry of a block"));
        }
        Ok(())
    }

    /// Entries; never 0.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes of memory it takes beside itself.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// What all keys of the block begin with.
    #[inline]
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        let start = self.prefix_start as usize;
        &self.bytes[start..start + self.prefix_bytes as usize]
    }

    /// The entry at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn entry(&self, index: usize) -> BlockEntry<'_> {
        let located = self.locate(index);
        BlockEntry {
            suffix: self.suffix_at(&located),
            sequence: located.sequence,
            kind: located.kind,
            value: self.value_at(&located),
        }
    }

    /// Its entries, to be walked over.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries { bytes: &self.bytes, form: self.form, count: self.count() }
    }

    /// The key without the prefix of an entry of this block.
    ///
    /// # Panics
    /// Perhaps, if the entry is another block's.
    #[inline]
    #[must_use]
    pub fn suffix_at(&self, located: &Located) -> &[u8] {
        self.entries().suffix_at(located)
    }

    /// The payload of an entry of this block.
    ///
    /// # Panics
    /// Perhaps, if the entry is another block's.
    #[inline]
    #[must_use]
    pub fn value_at(&self, located: &Located) -> &[u8] {
        self.entries().value_at(located)
    }

    /// The payload of an entry of this block, which can be made to stay with its block.
    ///
    /// # Panics
    /// Perhaps, if the entry is another block's.
    #[inline]
    #[must_use]
    pub fn pinnable_value_at(&self, located: &Located) -> Pinnable<'_> {
        Pinnable::within(&self.bytes, self.value_at(located))
    }

    /// The key of the entry at `index`, put together in `key`.
    ///
    /// # Panics
    /// If there is none.
    pub fn copy_key(&self, index: usize, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix());
        key.extend_from_slice(self.entry(index).suffix);
    }

    /// The first entry at or after (`key`, `sequence`); the count, if all entries lie before.
    #[must_use]
    pub fn lower_bound(&self, key: &[u8], sequence: SequenceNumber) -> usize {
        let prefix = self.prefix();
        let Some(suffix) = key.strip_prefix(prefix) else {
            return if key < prefix { 0 } else { self.count() };
        };
        let sought = head(suffix);
        let heads = self.heads();
        let first = heads.partition_point(|head| u64::from_ne_bytes(*head) < sought);
        let same =
            |index: usize| heads.get(index).is_some_and(|head| *head == sought.to_ne_bytes());
        if !same(first) {
            return first;
        }
        if !same(first + 1) {
            return first + usize::from(self.is_before(first, suffix, sequence));
        }
        // Several: versions of a key, or keys that agree in their heads.
        let end = heads.partition_point(|head| u64::from_ne_bytes(*head) <= sought);
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low.midpoint(high);
            if self.is_before(middle, suffix, sequence) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The newest entry of `key` that is not newer than `visible`.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8], visible: SequenceNumber) -> Option<Located> {
        let suffix = key.strip_prefix(self.prefix())?;
        let heads = self.heads();
        let sought = head(suffix);
        let first = heads.partition_point(|head| u64::from_ne_bytes(*head) < sought);
        let is_sought = |index: usize| heads.get(index) == Some(&sought.to_ne_bytes());
        if !is_sought(first) {
            return None;
        }
        if !is_sought(first + 1) {
            self.prefetch_entry(first);
            let located = self.locate(first);
            let is_it = located.sequence <= visible && self.suffix_at(&located) == suffix;
            return is_it.then_some(located);
        }
        // Several: versions of a key, or keys that agree in their heads.
        let index = self.lower_bound(key, visible);
        if index == self.count() {
            return None;
        }
        let located = self.locate(index);
        (self.suffix_at(&located) == suffix).then_some(located)
    }

    /// Checks that the entries are in order.
    ///
    /// # Errors
    /// Corruption, naming the entry that is not after the one before.
    pub fn check_order(&self) -> Result<()> {
        let mut before = self.entry(0);
        for index in 1..self.count() {
            let after = self.entry(index);
            let order = compare((before.suffix, before.sequence), (after.suffix, after.sequence));
            if order != Ordering::Less {
                return Err(Error::corruption(format!("entry {index} of a block out of order")));
            }
            before = after;
        }
        Ok(())
    }

    /// Asks for what [`Block::get_at`] will look at, of a block of this `layout` that begins at
    /// `front`: where the entry at `index` lies is guessed from the length of others.
    #[inline]
    pub fn prefetch_guess(front: *const u8, layout: u64, index: usize) {
        let (count, stride) = (layout as u32 as usize, (layout >> 32) as usize);
        let offsets = front.wrapping_add(count * HEAD_BYTES);
        prefetch_address(offsets.wrapping_add(index * OFFSET_BYTES));
        let raw = offsets.wrapping_add(count * OFFSET_BYTES);
        prefetch_address(raw);
        prefetch_bytes(raw.wrapping_add(index.wrapping_mul(stride)), ENTRY_FRONT_BYTES);
    }

    /// The entry at `index`, if it is one of `key`.
    #[inline]
    #[must_use]
    pub fn get_at(&self, index: usize, key: &[u8]) -> Option<Located> {
        if index >= self.count() {
            return None;
        }
        let located = self.locate(index);
        let suffix = key.strip_prefix(self.prefix())?;
        (self.suffix_at(&located) == suffix).then_some(located)
    }

    /// The entries that are the first of their keys.
    pub fn firsts(&self) -> impl Iterator<Item = usize> {
        let mut before = None;
        (0..self.count()).filter(move |&index| {
            let suffix = self.entry(index).suffix;
            before.replace(suffix) != Some(suffix)
        })
    }

    /// Asks for the front of the entry at `index`, the lines of which are looked at one after the
    /// other.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn prefetch_entry(&self, index: usize) {
        let offset = self.entries().offset(index);
        prefetch_bytes(self.bytes.as_ptr().wrapping_add(offset), ENTRY_FRONT_BYTES);
    }

    #[inline]
    fn heads(&self) -> &[[u8; HEAD_BYTES]] {
        self.bytes[..self.count() * HEAD_BYTES].as_chunks().0
    }

    /// Whether the entry at `index`, which has the head of `suffix`, lies before (suffix,
    /// sequence).
    #[inline]
    fn is_before(&self, index: usize, suffix: &[u8], sequence: SequenceNumber) -> bool {
        let entry = self.entry(index);
        compare((entry.suffix, entry.sequence), (suffix, sequence)) == Ordering::Less
    }

    /// Finds the parts of the entry at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn locate(&self, index: usize) -> Located {
        let entries = self.entries();
        entries.at(entries.offset(index))
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

    /// Key and sequence number of the last entry, if there is one.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Option<(&[u8], SequenceNumber)> {
        let last = self.entries.last()?;
        let start = self.last_key_start;
        Some((&self.staged[start..start + last.key_bytes], last.trailer.sequence()))
    }

    /// Writes the block over the contents of `out`.
    ///
    /// # Panics
    /// If there is no entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        let first = self.first_key().expect("a block has an entry");
        let prefix = &first[..self.prefix_bytes];
        let base = self.sequence_min.0;
        let largest = (self.sequence_max.0 - base) << KIND_BITS | u64::from(KIND_MASK);
        let width = (64 - largest.leading_zeros() as usize).div_ceil(8);
        out.reserve(BLOCK_HEADER_BYTES + self.entry_bytes + self.entries.len() * 8);
        put_varint(out, self.entries.len() as u64);
        put_varint(out, prefix.len() as u64);
        put_varint(out, base);
        out.push(width as u8);
        out.extend_from_slice(prefix);
        let mut rest = &self.staged[..];
        for entry in &self.entries {
            let (key, after) = rest.split_at(entry.key_bytes);
            let (value, after) = after.split_at(entry.value_bytes);
            rest = after;
            let suffix = &key[prefix.len()..];
            put_varint(out, suffix.len() as u64);
            put_varint(out, value.len() as u64);
            let kind = entry.trailer.0 & u64::from(KIND_MASK);
            let trailer = (entry.trailer.sequence().0 - base) << KIND_BITS | kind;
            out.extend_from_slice(&trailer.to_le_bytes()[..width]);
            out.extend_from_slice(suffix);
            out.extend_from_slice(value);
        }
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

#[cfg(test)]
mod tests;
