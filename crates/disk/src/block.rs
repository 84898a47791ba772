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
//! In memory two arrays stand beside these bytes, derived when the block is loaded. One has the
//! *head* of each entry: the first 4 bytes of its suffix, as a number of the same order. The other
//! has its offset in these bytes, in 2 bytes unless the block has more than 64 KiB. A lookup is a
//! binary search over the heads; only entries with the head sought are looked at. Deriving the
//! arrays takes about half as long as decoding the LZ4 of the block. Storing them would take a
//! twentieth more space.
//!
//! ```text
//! copied: | head u32, ... | offset u16 or u32, ... | the bytes above | 8 more |
//! mapped: | head u32, ... | offset u16 or u32, ... |
//!         and in the file: | the bytes above | 8 more |
//! ```
//!
//! The leaves of a B+tree table that is not compressed have the arrays on disk, so that they can be
//! searched in a mapping where they lie. Bit 7 of `width` says so, and the arrays, all numbers le,
//! follow the last entry. Offsets take 2 bytes if what lies before the arrays has at most 64 KiB.
//!
//! # Invariants
//! Checked when a block is parsed, so that every access afterwards is within bounds. If the bytes
//! change later, an access panics.
//! 1. There is at least one entry, and each lies between the header and the padding.
//! 2. Each trailer has a kind other than `RangeDelete` and a sequence number of 56 bits.
//! 3. No key is longer than the limit, and expiring entries have an expiry.
//! 4. Arrays on disk are what would be derived.
//!
//! That the entries are in order is not checked here: a block out of order gives wrong answers,
//! and [`Block::each_in_order`] finds it.

mod form;
mod builder;
mod glance;
mod search;

pub use builder::{BlockBuilder, BlockLayout, shared_prefix_bytes};
pub use form::{Entries, Located};
pub use glance::{Glance, glance};

use crate::cache::Cacheable;
use bytes::Bytes;
use form::{BlockForm, HEAD_BYTES, OffsetWidth, PADDING_BYTES, short_head};
use siltdb_base::{
    codec::{ByteReader, VARINT_BYTES_MAX},
    error::{Error, Result},
    hint::CACHE_LINE_BYTES,
    id::SequenceNumber,
    key::EntryKind,
    limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    memory::region::{self, Buffer, Margins},
    slice::Pinnable,
};
use std::{cmp::Ordering, ops::Range};

/// Most bytes in front of the prefix of a block.
const BLOCK_HEADER_BYTES: usize = 3 * VARINT_BYTES_MAX + 1;

/// So an entry of any permitted length, its expiry included, fits into a block of its own.
const _: () = assert!(
    BLOCK_HEADER_BYTES
        + 3 * VARINT_BYTES_MAX
        + KEY_BYTES_MAX
        + size_of::<u64>()
        + VALUE_BYTES_MAX
        + PADDING_BYTES
        <= u32::MAX as usize
);

/// What the owner of a piece of memory costs: its reference count, where the piece lies, and the
/// allocator's header.
const OWNER_BYTES: usize = 48;

/// In the layout of a block: its offsets take four bytes. The bit is free, because each entry takes
/// at least three bytes and a block cannot have 2^31.
const WIDE: u32 = 1 << 31;

/// Bytes of most entries.
const ENTRY_FRONT_BYTES: usize = 3 * CACHE_LINE_BYTES;

/// A block in memory; immutable.
#[derive(Debug)]
pub struct Block {
    /// Heads and offsets. Where the block was copied, they go on with the raw bytes.
    arrays: Bytes,
    /// The block as it is written, and [`PADDING_BYTES`] behind it.
    ///
    /// A handle of its own, although the memory may be the same, because every access goes by it.
    /// Choosing between two each time costs a lookup 60 instructions of 1,000.
    raw: Bytes,
    header: Header,
}

/// What a block begins with.
#[derive(Clone, Copy, Debug)]
struct Header {
    form: BlockForm,
    count: u32,
    /// Where the prefix begins in the raw bytes; entries follow it.
    prefix_start: u32,
    prefix_bytes: u32,
    /// Where the entries end; arrays may follow.
    entries_end: u32,
    layout: BlockLayout,
}

impl Header {
    /// Reads the header of the `raw` bytes of a block.
    ///
    /// # Errors
    /// Corruption, if no block begins so, or if it says what cannot be.
    fn parse(raw: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(raw);
        let count = reader.varint()?;
        let prefix_bytes = reader.varint_u32()?;
        let base_sequence = reader.varint()?;
        let (width, layout) = BlockLayout::split_width(reader.u8()?);
        let prefix_start = raw.len() - reader.rest().len();
        reader.take(prefix_bytes as usize)?;
        let entry_bytes_min = 2 + u64::from(width);
        if count == 0 || count > reader.rest().len() as u64 / entry_bytes_min {
            return Err(Error::corruption("bad entry count of a block"));
        }
        if u32::try_from(raw.len() + PADDING_BYTES).is_err() {
            return Err(Error::corruption("block too large"));
        }
        let (entries_end, offset_width) = match layout {
            BlockLayout::Entries => (raw.len(), OffsetWidth::within(raw.len())),
            BlockLayout::Searchable => OffsetWidth::before_arrays(raw.len(), count as usize)
                .filter(|&(end, _)| end >= prefix_start + prefix_bytes as usize)
                .ok_or_else(|| Error::corruption("a block is shorter than its arrays"))?,
        };
        let form = BlockForm::new(base_sequence, width, offset_width)?;
        let (count, prefix_start) = (count as u32, prefix_start as u32);
        let entries_end = entries_end as u32;
        Ok(Self { form, count, prefix_start, prefix_bytes, entries_end, layout })
    }

    /// Where the entries end, with the padding: what follows them.
    #[inline]
    fn padded_end(&self) -> usize {
        self.entries_end as usize + PADDING_BYTES
    }

    /// Where the arrays lie in the raw bytes, if they do.
    #[inline]
    fn arrays_place(&self) -> Option<Range<usize>> {
        let start = self.entries_end as usize;
        (self.layout == BlockLayout::Searchable).then(|| start..start + self.arrays_bytes())
    }

    /// Checks every entry of `raw`, which ends with the padding, and that its arrays are `arrays`.
    ///
    /// # Errors
    /// Corruption, if the invariants do not hold.
    fn check_arrays(&self, arrays: &[u8], raw: &[u8]) -> Result<()> {
        let mut derived = vec![0; arrays.len()];
        self.fill_arrays(&mut derived, raw)?;
        if derived == arrays {
            return Ok(());
        }
        Err(Error::corruption("the heads of a block are not those of its keys"))
    }

    /// Bytes of the two arrays.
    #[inline]
    fn arrays_bytes(&self) -> usize {
        self.count as usize * (HEAD_BYTES + self.form.offset_width().bytes())
    }

    /// Checks every entry of `raw`, which ends with the padding, and writes its head and offset.
    ///
    /// # Errors
    /// Corruption, if the invariants do not hold.
    fn fill_arrays(&self, arrays: &mut [u8], raw: &[u8]) -> Result<()> {
        let (heads, offsets) = arrays.split_at_mut(self.count as usize * HEAD_BYTES);
        let (heads, _) = heads.as_chunks_mut::<HEAD_BYTES>();
        let offsets = offsets.chunks_exact_mut(self.form.offset_width().bytes());
        let Some(suffix_bytes_max) = KEY_BYTES_MAX.checked_sub(self.prefix_bytes as usize) else {
            return Err(Error::corruption("the keys of a block are too long"));
        };
        let mut at = (self.prefix_start + self.prefix_bytes) as usize;
        for (head_bytes, offset_bytes) in heads.iter_mut().zip(offsets) {
            self.form.offset_width().write(at, offset_bytes);
            let entry = self.form.check(raw, at)?;
            let suffix = &raw[entry.suffix_start..entry.value_start];
            if suffix.len() > suffix_bytes_max {
                return Err(
                    Error::corruption("key too long").with_mismatch(suffix_bytes_max, suffix.len())
                );
            }
            *head_bytes = short_head(suffix).to_le_bytes();
            entry.check_kind(raw)?;
            at = entry.value_end;
        }
        if at != raw.len() - PADDING_BYTES {
            return Err(Error::corruption("bytes after the last entry of a block"));
        }
        Ok(())
    }
}

/// An entry of a block without the prefix of its key.
#[derive(Clone, Copy, Debug)]
pub struct BlockEntry<'a> {
    /// The key without the prefix of the block.
    pub suffix: &'a [u8],
    /// Its place in the order of the database.
    pub sequence: SequenceNumber,
    /// The operation that the entry stands for.
    pub kind: EntryKind,
    /// The payload, as the kind says.
    pub value: &'a [u8],
}

impl Cacheable for Block {
    /// The heads and offsets of some 40 entries.
    const FRONT_BYTES: usize = 4 * CACHE_LINE_BYTES;

    /// Of a mapped block the raw bytes. The other part, its arrays, is not prefetched.
    fn front(&self) -> *const u8 {
        if self.is_mapped() { self.raw.as_ptr() } else { self.arrays.as_ptr() }
    }

    /// The number of entries whose heads and offsets lie between the front and the raw bytes, with
    /// `WIDE` if offsets take four bytes. The upper half has the average bytes of an entry.
    fn layout(&self) -> u64 {
        let between = match (self.is_mapped(), self.header.form.offset_width()) {
            (true, _) => 0,
            (false, OffsetWidth::Short) => self.header.count,
            (false, OffsetWidth::Wide) => self.header.count | WIDE,
        };
        let stride = u32::try_from(self.raw.len() / self.count()).unwrap_or(u32::MAX);
        u64::from(stride) << 32 | u64::from(between)
    }
}

impl Block {
    /// Bytes at its front that a walk over it looks at first: some of its entries, too.
    pub const WALK_FRONT_BYTES: usize = 8 * CACHE_LINE_BYTES;

    /// Checks `raw` and takes a copy of it that can be searched.
    ///
    /// Allocates at most 4 times the length of `raw`.
    ///
    /// # Errors
    /// Corruption, if the invariants do not hold.
    pub fn parse(raw: &[u8]) -> Result<Self> {
        Self::parse_into(raw, Buffer::copy_on_heap)
    }

    /// The same, where `copy` chooses the memory.
    ///
    /// # Errors
    /// The errors of [`Block::parse`].
    pub fn parse_into(raw: &[u8], copy: impl FnOnce(&[u8], Margins) -> Buffer) -> Result<Self> {
        let header = Header::parse(raw)?;
        let arrays_bytes = header.arrays_bytes();
        // Arrays on disk are compared and left behind.
        let entries = &raw[..header.entries_end as usize];
        let mut bytes = copy(entries, Margins { front: arrays_bytes, back: PADDING_BYTES });
        let (arrays, copied) = bytes.split_at_mut(arrays_bytes);
        header.fill_arrays(arrays, copied)?;
        if let Some(place) = header.arrays_place()
            && raw[place] != *arrays
        {
            return Err(Error::corruption("the heads of a block are not those of its keys"));
        }
        Ok(Self::copied(bytes, header))
    }

    /// Checks `raw`, which stays where it is, and derives what it takes to search it, unless that
    /// is there; `copy` chooses the memory for it. Bytes of something else follow the block: as
    /// many as [`Block::BYTES_BEHIND`].
    ///
    /// # Errors
    /// The errors of [`Block::parse`].
    pub fn map(raw: Bytes, copy: impl FnOnce(&[u8], Margins) -> Buffer) -> Result<Self> {
        let Some(block_bytes) = raw.len().checked_sub(PADDING_BYTES) else {
            return Err(Error::corruption("a block does not end within its table"));
        };
        let header = Header::parse(&raw[..block_bytes])?;
        if let Some(place) = header.arrays_place() {
            let (arrays, raw) = (raw.slice(place), raw.slice(..header.padded_end()));
            header.check_arrays(&arrays, &raw)?;
            return Ok(Self { arrays, raw, header });
        }
        let mut arrays = copy(&[], Margins { front: header.arrays_bytes(), back: 0 });
        header.fill_arrays(&mut arrays, &raw)?;
        Ok(Self { arrays: arrays.freeze(), raw, header })
    }

    /// A block that has its arrays on disk and was checked by [`Block::map`]; it stays where it is.
    ///
    /// # Errors
    /// Corruption, if it is no such block as far as its header tells.
    pub fn in_place(raw: &Bytes) -> Result<Self> {
        let block_bytes = raw.len().saturating_sub(PADDING_BYTES);
        let header = Header::parse(&raw[..block_bytes])?;
        let Some(place) = header.arrays_place() else {
            return Err(Error::corruption("a leaf cannot be searched where it lies"));
        };
        Ok(Self { arrays: raw.slice(place), raw: raw.slice(..header.padded_end()), header })
    }

    /// Whether its arrays lie on disk.
    #[must_use]
    pub fn is_searchable(&self) -> bool {
        self.header.layout == BlockLayout::Searchable
    }

    /// Bytes that must follow a block that is mapped.
    pub const BYTES_BEHIND: usize = PADDING_BYTES;

    /// A copy of it, where `copy` chooses the memory.
    #[must_use]
    pub fn copy_into(&self, copy: impl FnOnce(&[u8], Margins) -> Buffer) -> Self {
        let front = self.header.arrays_bytes();
        let mut bytes = copy(&self.raw, Margins { front, back: 0 });
        bytes[..front].copy_from_slice(&self.arrays[..front]);
        Self::copied(bytes, self.header)
    }

    /// A block that lies behind its arrays.
    fn copied(bytes: Buffer, header: Header) -> Self {
        let arrays = bytes.freeze();
        Self { raw: arrays.slice(header.arrays_bytes()..), arrays, header }
    }

    /// Whether its raw bytes lie elsewhere than behind its arrays.
    fn is_mapped(&self) -> bool {
        self.arrays.len() == self.header.arrays_bytes()
    }

    /// Entries; never 0.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.header.count as usize
    }

    /// Bytes of memory it takes beside itself; what is mapped is not among them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        region::piece_bytes(self.arrays.len()) + OWNER_BYTES
    }

    /// What all keys of the block begin with.
    #[inline]
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        let start = self.header.prefix_start as usize;
        &self.raw[start..start + self.header.prefix_bytes as usize]
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
        let Header { form, count, .. } = self.header;
        Entries { arrays: &self.arrays, raw: &self.raw, form, count: count as usize }
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
        Pinnable::within(&self.raw, self.value_at(located))
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

    /// Shows each entry, and whether its key is that of the one before, to `seen`.
    ///
    /// # Errors
    /// Corruption, naming the first entry that is not after the one before; what `seen` fails with.
    pub fn each_in_order(
        &self,
        mut seen: impl FnMut(&BlockEntry<'_>, bool) -> Result<()>,
    ) -> Result<()> {
        let mut before = self.entry(0);
        seen(&before, false)?;
        for index in 1..self.count() {
            let entry = self.entry(index);
            let is_version = match before.suffix.cmp(entry.suffix) {
                Ordering::Less => false,
                Ordering::Equal if before.sequence > entry.sequence => true,
                _ => {
                    let message = format!("entry {index} of a block out of order");
                    return Err(Error::corruption(message));
                }
            };
            seen(&entry, is_version)?;
            before = entry;
        }
        Ok(())
    }

    /// The entries that are the first of their keys.
    pub fn firsts(&self) -> impl Iterator<Item = usize> {
        let mut before = None;
        (0..self.count()).filter(move |&index| {
            let suffix = self.entry(index).suffix;
            before.replace(suffix) != Some(suffix)
        })
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

#[cfg(test)]
mod tests;
