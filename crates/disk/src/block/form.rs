//! How the entries of a block are laid out, and where the parts of one lie.
//!
//! It knows no block: only bytes, the header's numbers, and where entries begin.

use siltdb_base::{
    codec::ByteReader,
    error::{Error, Result},
    hint::{CACHE_LINE_BYTES, prefetch_bytes},
    id::SequenceNumber,
    key::{EntryKind, head, split_expiring},
};

/// Low bits of a trailer that hold the kind.
pub(super) const KIND_BITS: u32 = 3;
/// The same as a mask.
pub(super) const KIND_MASK: u8 = (1 << KIND_BITS) - 1;

/// The kinds by their numbers. A checked entry has a valid one, so the first element is never used.
/// The compiler leaves out a lookup that cannot fail where its result is not used.
const KINDS: [EntryKind; KIND_MASK as usize + 1] = [
    EntryKind::Put,
    EntryKind::Put,
    EntryKind::PutExpiring,
    EntryKind::Delete,
    EntryKind::SingleDelete,
    EntryKind::RangeDelete,
    EntryKind::Merge,
    EntryKind::BlobPointer,
];

/// Bytes of a head.
pub(super) const HEAD_BYTES: usize = size_of::<u32>();

/// The head of a key, cut to four bytes. Among the keys of one block, which share what comes
/// before, four tell nearly as many apart as eight.
#[inline]
pub(super) fn short_head(suffix: &[u8]) -> u32 {
    (head(suffix) >> 32) as u32
}

/// How the offset of an entry is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OffsetWidth {
    /// In two bytes.
    Short,
    /// In four bytes.
    Wide,
}

impl OffsetWidth {
    /// For offsets below `bytes`, the length of a block.
    pub(super) fn within(bytes: usize) -> Self {
        if bytes <= 1 << 16 { Self::Short } else { Self::Wide }
    }

    /// Where the entries of a block of `bytes` end that has the arrays of `count` entries behind
    /// them, and the width of its offsets; `None`, if the arrays are longer.
    pub(super) fn before_arrays(bytes: usize, count: usize) -> Option<(usize, Self)> {
        let end = |width: Self| bytes.checked_sub(count.checked_mul(HEAD_BYTES + width.bytes())?);
        let short = end(Self::Short)?;
        match Self::within(short) {
            Self::Short => Some((short, Self::Short)),
            Self::Wide => Some((end(Self::Wide)?, Self::Wide)),
        }
    }

    /// Bytes of an offset.
    #[inline]
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Short => size_of::<u16>(),
            Self::Wide => size_of::<u32>(),
        }
    }

    /// Writes an offset into as many bytes.
    #[inline]
    pub(super) fn write(self, offset: usize, out: &mut [u8]) {
        match self {
            Self::Short => out.copy_from_slice(&(offset as u16).to_le_bytes()),
            Self::Wide => out.copy_from_slice(&(offset as u32).to_le_bytes()),
        }
    }

    /// Reads the one that `bytes` begin with.
    ///
    /// # Panics
    /// If they are too few.
    #[inline]
    pub(super) fn read(self, bytes: &[u8]) -> usize {
        match self {
            Self::Short => u16::from_le_bytes(*bytes.first_chunk().expect("index < count")).into(),
            Self::Wide => u32::from_le_bytes(*bytes.first_chunk().expect("index < count")) as usize,
        }
    }
}

/// Bytes after the entries, so that eight can be read at once from everywhere.
pub(super) const PADDING_BYTES: usize = 8;

/// The high bits of the first two bytes of an entry: set where a length goes on.
const FIRST_TWO_GO_ON: u64 = 0x8080;
/// Those of the first and the third.
const FIRST_AND_THIRD_GO_ON: u64 = 0x80_0080;

/// Where the parts of an entry lie in the bytes of its block.
#[derive(Clone, Copy, Debug)]
pub struct Located {
    /// Its place in the order of the database.
    pub sequence: SequenceNumber,
    /// The operation that the entry stands for.
    pub kind: EntryKind,
    pub(super) suffix_start: usize,
    pub(super) value_start: usize,
    pub(super) value_end: usize,
}

impl Located {
    /// Where the next entry begins, if there is one.
    #[inline]
    #[must_use]
    pub fn end(&self) -> usize {
        self.value_end
    }

    /// Checks that this is the kind of an entry, and that the payload, which lies in `raw`, is one
    /// of this kind.
    ///
    /// # Errors
    /// Corruption, if not.
    #[inline]
    pub(super) fn check_kind(&self, raw: &[u8]) -> Result<()> {
        match self.kind {
            EntryKind::RangeDelete => Err(Error::corruption("range tombstone among the entries")),
            EntryKind::PutExpiring => split_expiring(self.value(raw)).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The payload, which lies in `raw`, the bytes of the block.
    ///
    /// # Panics
    /// Perhaps, if the bytes are another block's.
    #[inline]
    #[must_use]
    pub fn value<'r>(&self, raw: &'r [u8]) -> &'r [u8] {
        &raw[self.value_start..self.value_end]
    }
}

/// What the header of a block says about all its entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockForm {
    base_sequence: u64,
    trailer_bytes: u8,
    offset_width: OffsetWidth,
}

impl BlockForm {
    /// Entries with trailers of `trailer_bytes`, relative to `base_sequence`.
    ///
    /// # Errors
    /// Corruption, if there are no such entries.
    pub(super) fn new(
        base_sequence: u64,
        trailer_bytes: u8,
        offset_width: OffsetWidth,
    ) -> Result<Self> {
        if !(1..=8).contains(&trailer_bytes) || base_sequence > SequenceNumber::MAX.0 {
            return Err(Error::corruption("bad block header"));
        }
        Ok(Self { base_sequence, trailer_bytes, offset_width })
    }

    /// How the offsets of the entries are kept.
    #[inline]
    pub(super) fn offset_width(self) -> OffsetWidth {
        self.offset_width
    }

    #[inline]
    fn trailer_mask(self) -> u64 {
        u64::MAX >> (u64::BITS - 8 * u32::from(self.trailer_bytes))
    }

    /// Finds the parts of the entry at `at` in `bytes`, which end with the padding, and checks that
    /// they lie before it.
    ///
    /// # Errors
    /// Corruption, if they do not, or if they say what no entry says.
    #[inline]
    pub(super) fn check(&self, bytes: &[u8], at: usize) -> Result<Located> {
        let end = bytes.len() - PADDING_BYTES;
        if at >= end {
            return Err(Error::corruption("fewer entries than a block should have"));
        }
        let (suffix_bytes, value_bytes, at) = match short_lengths(word(bytes, at), at) {
            Some(lengths) => lengths,
            None => long_lengths(&bytes[..end], at)?,
        };
        let suffix_start = at + usize::from(self.trailer_bytes);
        let value_start = suffix_start.saturating_add(suffix_bytes);
        if value_start > end || value_bytes > end - value_start {
            return Err(Error::corruption("an entry does not end within its block"));
        }
        let trailer = word(bytes, at) & self.trailer_mask();
        let sequence = self.base_sequence + (trailer >> KIND_BITS);
        if sequence > SequenceNumber::MAX.0 {
            return Err(Error::corruption("bad sequence number"));
        }
        Ok(Located {
            sequence: SequenceNumber(sequence),
            kind: EntryKind::from_u8(trailer as u8 & KIND_MASK)?,
            suffix_start,
            value_start,
            value_end: value_start + value_bytes,
        })
    }

    /// The same for an entry that was checked.
    ///
    /// # Panics
    /// If the entry was not checked.
    // Always inlined, because a walk makes this step for each entry, and the call costs an eighth
    // of it.
    #[inline(always)]
    pub(super) fn locate(&self, bytes: &[u8], at: usize) -> Located {
        let (suffix_bytes, value_bytes, at) = match short_lengths(word(bytes, at), at) {
            Some(lengths) => lengths,
            None => long_lengths(bytes, at).expect("it was checked"),
        };
        let trailer = word(bytes, at) & self.trailer_mask();
        let suffix_start = at + usize::from(self.trailer_bytes);
        let value_start = suffix_start + suffix_bytes;
        Located {
            sequence: SequenceNumber(self.base_sequence + (trailer >> KIND_BITS)),
            kind: KINDS[usize::from(trailer as u8 & KIND_MASK)],
            suffix_start,
            value_start,
            value_end: value_start + value_bytes,
        }
    }
}

/// The entries of a block that was checked: its bytes and what its header says, at hand. A walk
/// over many entries takes it out of the block once.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'b> {
    /// Heads and offsets first.
    pub(super) arrays: &'b [u8],
    /// As they are written, with the padding.
    pub(super) raw: &'b [u8],
    pub(super) form: BlockForm,
    pub(super) count: usize,
}

impl<'b> Entries<'b> {
    /// Where the entry at `index` begins.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[must_use]
    pub fn offset(&self, index: usize) -> usize {
        let start = self.count * HEAD_BYTES + index * self.form.offset_width.bytes();
        self.form.offset_width.read(&self.arrays[start..])
    }

    /// Finds the parts of the entry that begins at `offset`.
    ///
    /// # Panics
    /// Perhaps, if none does.
    #[inline(always)]
    #[must_use]
    pub fn at(&self, offset: usize) -> Located {
        self.form.locate(self.raw, offset)
    }

    /// Prefetches what a walk that has come to `offset` looks at some entries later, because the
    /// walk is faster than the prefetching of the processor.
    #[inline]
    pub fn prefetch_behind(&self, offset: usize) {
        const AHEAD_BYTES: usize = 10 * CACHE_LINE_BYTES;
        let place = self.raw.as_ptr().wrapping_add(offset + AHEAD_BYTES);
        prefetch_bytes(place, 2 * CACHE_LINE_BYTES);
    }

    /// The key of one of these without the prefix of its block.
    ///
    /// # Panics
    /// Perhaps, if it is another block's.
    #[inline]
    #[must_use]
    pub fn suffix_at(&self, located: &Located) -> &'b [u8] {
        &self.raw[located.suffix_start..located.value_start]
    }

    /// The payload of one of these.
    ///
    /// # Panics
    /// Perhaps, if it is another block's.
    #[inline]
    #[must_use]
    pub fn value_at(&self, located: &Located) -> &'b [u8] {
        located.value(self.raw)
    }
}

/// The lengths of suffix and value at the front of `word`, which lies at `at`, and where they end.
/// Only if the first is one byte long, and the second one or two.
#[inline]
fn short_lengths(word: u64, at: usize) -> Option<(usize, usize, usize)> {
    let suffix_bytes = (word & 0x7f) as usize;
    let value_bytes = (word >> 8 & 0x7f) as usize;
    if word & FIRST_TWO_GO_ON == 0 {
        return Some((suffix_bytes, value_bytes, at + 2));
    }
    let value_bytes = value_bytes + (word >> 16 & 0x7f) as usize * 128;
    (word & FIRST_AND_THIRD_GO_ON == 0).then_some((suffix_bytes, value_bytes, at + 3))
}

/// The same for lengths of any size.
#[cold]
fn long_lengths(bytes: &[u8], at: usize) -> Result<(usize, usize, usize)> {
    let mut reader = ByteReader::new(&bytes[at..]);
    let suffix_bytes = reader.varint_u32()? as usize;
    let value_bytes =
        usize::try_from(reader.varint()?).map_err(|_| Error::corruption("value exceeds memory"))?;
    Ok((suffix_bytes, value_bytes, bytes.len() - reader.rest().len()))
}

/// Eight bytes at `at`, which is at most the offset of the padding.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..].first_chunk::<8>().expect("eight bytes follow every entry");
    u64::from_le_bytes(*bytes)
}
