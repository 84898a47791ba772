//! The bytes of a write batch: what a commit hands to the log and reads back for the memtable.
//!
//! It knows operations, not their meaning: sequence numbers follow from the record that carries
//! the batch, and whether a family exists is not asked.
//!
//! One operation, and a batch is nothing but operations one after the other:
//!
//! ```text
//! | kind u8 | family varint | key length varint | payload length varint | key | payload |
//! ```
//!
//! `Delete` and `SingleDelete` have no payload and no payload length. `RangeDelete` has the first
//! key that is not deleted as its payload. The other payloads are those of [`EntryKind`].

use siltdb_base::{
    codec::{ByteReader, write_varint},
    error::{Error, Result},
    id::{FamilyId, SequenceNumber},
    key::{BlobPointer, Entry, EntryKind, split_expiring},
    limits::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX},
};

/// Longest [`OperationHead`], in bytes: a kind, a family and two lengths.
pub const HEAD_BYTES_MAX: usize = 1 + 5 + 3 + 5;

// Each bound of the batch is one of a varint's, so that the sum above is right.
const _: () = assert!(KEY_BYTES_MAX < 1 << 21 && (VALUE_BYTES_MAX as u64) < 1 << 35);

/// So one operation always fits into a record.
const _: () = assert!(HEAD_BYTES_MAX + KEY_BYTES_MAX + VALUE_BYTES_MAX <= BATCH_BYTES_MAX);

/// What precedes the key and the payload of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationHead {
    /// What the operation does.
    pub kind: EntryKind,
    /// The family it does it to.
    pub family: FamilyId,
    /// Length of the key, in bytes.
    pub key_bytes: usize,
    /// Length of the payload, in bytes; 0 for kinds without one.
    pub payload_bytes: usize,
}

impl OperationHead {
    /// Writes the head to the front of `out` and returns the bytes used; does not allocate.
    ///
    /// The bytes of a batch of one operation are these, the key and the payload.
    ///
    /// # Errors
    /// `InvalidArgument`, if the key or the payload is longer than allowed; `out` is untouched.
    #[inline]
    pub fn encode(&self, out: &mut [u8; HEAD_BYTES_MAX]) -> Result<usize> {
        self.check()?;
        out[0] = self.kind as u8;
        let mut used = 1;
        used += write_varint(&mut out[used..], u64::from(self.family.0));
        used += write_varint(&mut out[used..], self.key_bytes as u64);
        if has_payload(self.kind) {
            used += write_varint(&mut out[used..], self.payload_bytes as u64);
        }
        Ok(used)
    }

    #[inline]
    fn check(&self) -> Result<()> {
        if self.key_bytes > KEY_BYTES_MAX {
            return Err(too_long("key is too long", self.key_bytes, KEY_BYTES_MAX));
        }
        let (message, payload_bytes_max) = match self.kind {
            EntryKind::RangeDelete => ("end of a range is too long", KEY_BYTES_MAX),
            EntryKind::Delete | EntryKind::SingleDelete => ("deletion has a payload", 0),
            _ => ("value is too long", VALUE_BYTES_MAX),
        };
        if self.payload_bytes > payload_bytes_max {
            return Err(too_long(message, self.payload_bytes, payload_bytes_max));
        }
        Ok(())
    }
}

#[inline]
fn has_payload(kind: EntryKind) -> bool {
    !kind.is_point_tombstone()
}

#[cold]
fn too_long(message: &'static str, found: usize, max: usize) -> Error {
    Error::invalid(message).with_mismatch(format_args!("at most {max}"), found)
}

/// Operations as bytes, in the order in which they were added.
///
/// Every method that adds an operation adds it whole or, if it fails, not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchBytes {
    bytes: Vec<u8>,
    count: u32,
}

impl BatchBytes {
    /// An empty batch; allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with room for `bytes` encoded bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), count: 0 }
    }

    /// The batch of these bytes, which may be anything: as many operations as they hold.
    ///
    /// One pass; allocates as much as `bytes` take.
    ///
    /// # Errors
    /// Corruption, if the bytes are no operations; `InvalidArgument`, if they exceed a limit.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > BATCH_BYTES_MAX {
            return Err(too_long("batch is too long", bytes.len(), BATCH_BYTES_MAX));
        }
        let mut all =
            BatchOperations { reader: ByteReader::new(bytes), left: 1, state: State::Reading };
        // An operation takes some bytes, so their number is below that of the bytes.
        let mut count = 0_u32;
        while !all.reader.is_empty() {
            all.read()?;
            count += 1;
        }
        Ok(Self { bytes: bytes.to_vec(), count })
    }

    /// Gives `key` a value.
    ///
    /// # Errors
    /// `InvalidArgument`, if the key, the value or the batch would exceed its limit.
    pub fn put(&mut self, family: FamilyId, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(family, EntryKind::Put, key, &[value])
    }

    /// Gives `key` a value until `expiry_ms`, in ms since 1970.
    ///
    /// # Errors
    /// As [`BatchBytes::put`]; the expiry counts as 8 bytes of the value.
    pub fn put_expiring(
        &mut self,
        family: FamilyId,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<()> {
        self.add(family, EntryKind::PutExpiring, key, &[&expiry_ms.to_le_bytes(), value])
    }

    /// Takes the value of `key` away.
    ///
    /// # Errors
    /// The errors of [`BatchBytes::put`].
    pub fn delete(&mut self, family: FamilyId, key: &[u8]) -> Result<()> {
        self.add(family, EntryKind::Delete, key, &[])
    }

    /// Cancels exactly one older put of `key`.
    ///
    /// # Errors
    /// The errors of [`BatchBytes::put`].
    pub fn single_delete(&mut self, family: FamilyId, key: &[u8]) -> Result<()> {
        self.add(family, EntryKind::SingleDelete, key, &[])
    }

    /// Takes the values of all keys in `[start, end)` away; an empty range is allowed.
    ///
    /// # Errors
    /// The errors of [`BatchBytes::put`].
    pub fn delete_range(&mut self, family: FamilyId, start: &[u8], end: &[u8]) -> Result<()> {
        self.add(family, EntryKind::RangeDelete, start, &[end])
    }

    /// Adds an operand for the family's merge operator.
    ///
    /// # Errors
    /// The errors of [`BatchBytes::put`].
    pub fn merge(&mut self, family: FamilyId, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add(family, EntryKind::Merge, key, &[operand])
    }

    /// Adds an operation that was read from another batch.
    ///
    /// # Errors
    /// The errors of [`BatchBytes::put`].
    pub fn push(&mut self, operation: &BatchOperation<'_>) -> Result<()> {
        self.add(operation.family, operation.kind, operation.key, &[operation.payload])
    }

    /// Adds all operations of another batch.
    ///
    /// # Errors
    /// The errors of [`BatchBytes::put`].
    pub fn append(&mut self, other: &Self) -> Result<()> {
        let bytes = self.bytes.len() + other.bytes.len();
        if bytes > BATCH_BYTES_MAX {
            return Err(too_long("batch is too long", bytes, BATCH_BYTES_MAX));
        }
        // An operation takes at least three bytes, so the sum of the counts fits.
        self.bytes.extend_from_slice(&other.bytes);
        self.count += other.count;
        Ok(())
    }

    #[inline]
    fn add(
        &mut self,
        family: FamilyId,
        kind: EntryKind,
        key: &[u8],
        payload: &[&[u8]],
    ) -> Result<()> {
        let payload_bytes = payload.iter().map(|part| part.len()).sum();
        let head = OperationHead { kind, family, key_bytes: key.len(), payload_bytes };
        let mut head_bytes = [0; HEAD_BYTES_MAX];
        let head_bytes_used = head.encode(&mut head_bytes)?;
        let added = head_bytes_used + key.len() + payload_bytes;
        if added > BATCH_BYTES_MAX - self.bytes.len() {
            return Err(too_long("batch is too long", self.bytes.len() + added, BATCH_BYTES_MAX));
        }
        if self.count as usize >= BATCH_OPERATIONS_MAX {
            return Err(too_long(
                "batch has too many operations",
                BATCH_OPERATIONS_MAX + 1,
                BATCH_OPERATIONS_MAX,
            ));
        }
        self.bytes.reserve(added);
        self.bytes.extend_from_slice(&head_bytes[..head_bytes_used]);
        self.bytes.extend_from_slice(key);
        for part in payload {
            self.bytes.extend_from_slice(part);
        }
        self.count += 1;
        Ok(())
    }

    /// The number of operations.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no operation.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoded operations.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all operations and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Drops what was added since the batch had `bytes` bytes and `count` operations.
    pub fn truncate(&mut self, bytes: usize, count: u32) {
        assert!(bytes <= self.bytes.len() && count <= self.count, "a later state");
        self.bytes.truncate(bytes);
        self.count = count;
    }

    /// The operations, in the order in which they were added.
    #[must_use]
    pub fn operations(&self) -> BatchOperations<'_> {
        operations(&self.bytes, self.count)
    }

    /// The operations behind the first `count`, which take `bytes` bytes.
    #[must_use]
    pub fn operations_from(&self, bytes: usize, count: u32) -> BatchOperations<'_> {
        assert!(bytes <= self.bytes.len() && count <= self.count, "a later state");
        operations(&self.bytes[bytes..], self.count - count)
    }
}

/// One operation, borrowed from the bytes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOperation<'a> {
    /// The kind of the operation.
    pub kind: EntryKind,
    /// The family it does it to.
    pub family: FamilyId,
    /// The key; of a range deletion, the first key deleted.
    pub key: &'a [u8],
    /// The payload, as [`EntryKind`] says; empty for kinds without one.
    pub payload: &'a [u8],
}

impl<'a> BatchOperation<'a> {
    /// The entry this operation becomes at its place in the order of the database.
    #[inline]
    #[must_use]
    pub fn entry(&self, sequence: SequenceNumber) -> Entry<'a> {
        Entry { key: self.key, sequence, kind: self.kind, value: self.payload }
    }
}

/// Reads `count` operations that fill all of `bytes`, which may be anything.
///
/// One pass, without allocation. After an error, and at the end, there is nothing more.
#[inline]
#[must_use]
pub fn operations(bytes: &[u8], count: u32) -> BatchOperations<'_> {
    BatchOperations { reader: ByteReader::new(bytes), left: count, state: State::Reading }
}

/// The operations of a batch; see [`operations`].
#[derive(Clone, Debug)]
pub struct BatchOperations<'a> {
    reader: ByteReader<'a>,
    left: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    Finished,
}

impl<'a> BatchOperations<'a> {
    #[inline]
    fn read(&mut self) -> Result<BatchOperation<'a>> {
        let kind = EntryKind::from_u8(self.reader.u8()?)?;
        let family = FamilyId(self.reader.varint_u32()?);
        let key_bytes = self.reader.varint()?;
        let payload_bytes = if has_payload(kind) { self.reader.varint()? } else { 0 };
        // Lengths that `usize` cannot hold exceed the limits as well, so saturation is caught.
        let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (key_bytes, payload_bytes) = (length(key_bytes), length(payload_bytes));
        let head = OperationHead { kind, family, key_bytes, payload_bytes };
        head.check()
            .map_err(|error| Error::corruption("operation exceeds a limit").with_source(error))?;
        let key = self.reader.take(key_bytes)?;
        let payload = self.reader.take(payload_bytes)?;
        match kind {
            EntryKind::PutExpiring => drop(split_expiring(payload)?),
            EntryKind::BlobPointer => drop(BlobPointer::decode(payload)?),
            _ => {}
        }
        Ok(BatchOperation { kind, family, key, payload })
    }

    #[cold]
    fn finish(&mut self) -> Option<Result<BatchOperation<'a>>> {
        let was = std::mem::replace(&mut self.state, State::Finished);
        (was == State::Reading && !self.reader.is_empty())
            .then(|| Err(Error::corruption("bytes after the last operation of a batch")))
    }
}

impl<'a> Iterator for BatchOperations<'a> {
    type Item = Result<BatchOperation<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return self.finish();
        }
        let operation = self.read();
        self.left -= 1;
        if operation.is_err() {
            self.left = 0;
            self.state = State::Finished;
        }
        Some(operation)
    }
}

#[cfg(test)]
mod tests;
