//! What is known of a run of entries without looking at them: counts, bounds and kinds.
//!
//! The writer, the copying of whole blocks and the verification gather them in the same way, so
//! that they can be compared.

use crate::block::Block;
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    key::{BlobPointer, EntryKind, split_expiring},
};

/// What entries other than plain ones a block holds, one bit each. The bits lie on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contents(u8);

impl Contents {
    /// Only `Put`, and of each key one entry.
    pub const PLAIN: Self = Self(0);
    /// Entries that are point tombstones.
    pub const TOMBSTONES: Self = Self(1);
    /// Several entries of one key.
    pub const VERSIONS: Self = Self(1 << 1);
    /// Entries that expire.
    pub const EXPIRING: Self = Self(1 << 2);
    /// Entries that are merge operands.
    pub const MERGES: Self = Self(1 << 3);
    /// Values that lie in blob files.
    pub const BLOB_POINTERS: Self = Self(1 << 4);

    const ALL: u8 = (1 << 5) - 1;

    /// The contents with these bits.
    ///
    /// # Errors
    /// Corruption, if a bit has no meaning.
    pub fn from_bits(bits: u8) -> Result<Self> {
        if bits & !Self::ALL == 0 {
            Ok(Self(bits))
        } else {
            Err(Error::corruption("unknown block contents").with_mismatch(Self::ALL, bits))
        }
    }

    /// The bits as the index stores them.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `other` is in it.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Adds what `other` has.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Latest expiry that is told apart, in ms since 1970: on disk an expiry is the number plus one. An
/// entry that expires later is said to do so then.
const EXPIRY_MS_MAX: u64 = u64::MAX - 1;

/// What is known of a run of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStats {
    /// Entries of all kinds.
    pub entries: u64,
    /// Entries that delete.
    pub point_tombstones: u64,
    /// Entries that are merge operands.
    pub merge_operands: u64,
    /// The oldest sequence number; `MAX` if there are no entries.
    pub sequence_min: SequenceNumber,
    /// The newest sequence number; 0 if there are no entries.
    pub sequence_max: SequenceNumber,
    /// The earliest expiry, in ms since 1970.
    pub expiry_min_ms: Option<u64>,
    /// Keys and payloads, in bytes.
    pub logical_bytes: u64,
    /// Kinds of entries. The caller adds [`Contents::VERSIONS`], because it compares the keys.
    pub contents: Contents,
}

impl Default for BlockStats {
    fn default() -> Self {
        Self {
            entries: 0,
            point_tombstones: 0,
            merge_operands: 0,
            sequence_min: SequenceNumber::MAX,
            sequence_max: SequenceNumber::ZERO,
            expiry_min_ms: None,
            logical_bytes: 0,
            contents: Contents::PLAIN,
        }
    }
}

impl BlockStats {
    /// The facts of the entries of `block`.
    ///
    /// # Errors
    /// Corruption, if they are not in order, or a payload is not what the kind of its entry says.
    pub fn of(block: &Block) -> Result<Self> {
        let mut stats = Self::default();
        let prefix_bytes = block.prefix().len();
        block.each_in_order(|entry, is_version| {
            if is_version {
                stats.contents.add(Contents::VERSIONS);
            }
            let key_bytes = prefix_bytes + entry.suffix.len();
            stats.add(key_bytes, entry.sequence, entry.kind, entry.value)
        })?;
        Ok(stats)
    }

    /// Adds one entry.
    ///
    /// # Errors
    /// Corruption, if the payload is not what the kind says.
    #[inline]
    pub fn add(
        &mut self,
        key_bytes: usize,
        sequence: SequenceNumber,
        kind: EntryKind,
        value: &[u8],
    ) -> Result<()> {
        self.entries += 1;
        self.sequence_min = self.sequence_min.min(sequence);
        self.sequence_max = self.sequence_max.max(sequence);
        self.logical_bytes += (key_bytes + value.len()) as u64;
        match kind {
            EntryKind::Put => {}
            EntryKind::PutExpiring => self.add_expiry(split_expiring(value)?.0),
            EntryKind::Delete | EntryKind::SingleDelete => {
                self.point_tombstones += 1;
                self.contents.add(Contents::TOMBSTONES);
            }
            EntryKind::Merge => {
                self.merge_operands += 1;
                self.contents.add(Contents::MERGES);
            }
            EntryKind::BlobPointer => {
                self.contents.add(Contents::BLOB_POINTERS);
                if let Some(expiry_ms) = BlobPointer::decode(value)?.expiry_ms {
                    self.add_expiry(expiry_ms);
                }
            }
            EntryKind::RangeDelete => {
                return Err(Error::corruption("range tombstone among the entries"));
            }
        }
        Ok(())
    }

    fn add_expiry(&mut self, expiry_ms: u64) {
        let expiry_ms = expiry_ms.min(EXPIRY_MS_MAX);
        let earliest = self.expiry_min_ms.map_or(expiry_ms, |earliest| earliest.min(expiry_ms));
        self.expiry_min_ms = Some(earliest);
        self.contents.add(Contents::EXPIRING);
    }

    /// Adds the facts of another run.
    pub fn merge(&mut self, other: &Self) {
        self.entries += other.entries;
        self.point_tombstones += other.point_tombstones;
        self.merge_operands += other.merge_operands;
        self.sequence_min = self.sequence_min.min(other.sequence_min);
        self.sequence_max = self.sequence_max.max(other.sequence_max);
        self.logical_bytes += other.logical_bytes;
        self.contents.add(other.contents);
        if let Some(expiry_ms) = other.expiry_min_ms {
            self.add_expiry(expiry_ms);
        }
    }
}
