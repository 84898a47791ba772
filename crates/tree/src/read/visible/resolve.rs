//! The one definition of what a version of a key says to a reader.
//!
//! Point reads, iterators and compaction all ask here; nothing here finds versions.
//!
//! Of the versions of a key a reader looks at those that are not newer than its snapshot. It goes
//! from the newest to the oldest, until one decides:
//!
//! 1. A version older than a visible range tombstone over its key says that there is no value.
//! 2. So does a deletion. A `SingleDelete` hides as a `Delete` does.
//! 3. So does a value whose expiry is not in the future; it hides older versions all the same.
//! 4. A merge operand leaves the decision to the next version and is applied to what that says.
//!    An expiry belongs to the value it was put with: operands applied to it do not expire.

use crate::{
    merge_operator::{MergeOperator, full},
    read::folds::Folds,
};
use siltdb_base::{
    clock::Clock,
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    key::{BlobPointer, Entry, EntryKind, split_expiring},
    seeded_fault,
    slice::Slice,
};
use siltdb_disk::blob::window::BlobWindow;
use std::{cell::Cell, fmt};

/// What one version says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The key has this value. It is a tail of the payload.
    Value(&'a [u8]),
    /// The key has the value that lies there.
    Blob(BlobPointer),
    /// The key has no value, whatever older versions say.
    Absent,
    /// The operand is to be applied to what the next older version says.
    Operand(&'a [u8]),
}

/// Says what a version means to a reader that sees it.
///
/// `covering` is the newest range tombstone over the key that the reader sees.
///
/// # Errors
/// Corruption, if the payload is not one of its kind, or a range tombstone is among the versions.
#[inline]
pub fn judge(
    kind: EntryKind,
    payload: &[u8],
    sequence: SequenceNumber,
    covering: Option<SequenceNumber>,
    now_ms: u64,
) -> Result<Verdict<'_>> {
    if covering.is_some_and(|tombstone| tombstone > sequence) {
        return Ok(Verdict::Absent);
    }
    Ok(match kind {
        EntryKind::Put => Verdict::Value(payload),
        EntryKind::PutExpiring => {
            let (expiry_ms, value) = split_expiring(payload)?;
            if is_expired(expiry_ms, now_ms) { Verdict::Absent } else { Verdict::Value(value) }
        }
        EntryKind::BlobPointer => {
            let pointer = BlobPointer::decode(payload)?;
            match pointer.expiry_ms {
                Some(expiry_ms) if is_expired(expiry_ms, now_ms) => Verdict::Absent,
                _ => Verdict::Blob(pointer),
            }
        }
        EntryKind::Delete | EntryKind::SingleDelete => Verdict::Absent,
        EntryKind::Merge => Verdict::Operand(payload),
        EntryKind::RangeDelete => {
            return Err(Error::corruption("range tombstone among the point entries"));
        }
    })
}

/// When the value of a version of this kind expires, if it does.
///
/// # Errors
/// Corruption, if the payload is not one of its kind.
pub fn expiry_of(kind: EntryKind, payload: &[u8]) -> Result<Option<u64>> {
    match kind {
        EntryKind::PutExpiring => split_expiring(payload).map(|(expiry_ms, _)| Some(expiry_ms)),
        EntryKind::BlobPointer => BlobPointer::decode(payload).map(|pointer| pointer.expiry_ms),
        _ => Ok(None),
    }
}

/// Where the sequence numbers of own writes begin. No committed operation has so high a number: at
/// a billion operations a second they would last for a year.
pub const OWN_FIRST: SequenceNumber = SequenceNumber(1 << 55);

/// The clock that takes note of an entry with this number: none, if it is an own write.
#[must_use]
pub fn noted_by(clock: &dyn Clock, sequence: SequenceNumber) -> Option<&dyn Clock> {
    (sequence < OWN_FIRST).then_some(clock)
}

/// When the value of an entry expires, if it does and is no own write.
///
/// # Errors
/// As [`expiry_of`].
pub fn committed_expiry(entry: &Entry<'_>) -> Result<Option<u64>> {
    if entry.sequence < OWN_FIRST { expiry_of(entry.kind, entry.value) } else { Ok(None) }
}

/// Has `clock` take note of a version that is judged at `now_ms` and has expired. Returns its
/// expiry, if it has one.
///
/// # Errors
/// Corruption, if the payload is not one of its kind.
pub fn note_expiry(
    kind: EntryKind,
    payload: &[u8],
    now_ms: u64,
    clock: Option<&dyn Clock>,
) -> Result<Option<u64>> {
    let expiry_ms = expiry_of(kind, payload)?;
    if let (Some(expiry_ms), Some(clock)) = (expiry_ms, clock)
        && is_expired(expiry_ms, now_ms)
    {
        clock.saw_expired(expiry_ms);
    }
    Ok(expiry_ms)
}

/// Whether [`judge`] looks at the time for a version of this kind.
#[inline]
#[must_use]
pub fn depends_on_time(kind: EntryKind) -> bool {
    matches!(kind, EntryKind::PutExpiring | EntryKind::BlobPointer)
}

fn is_expired(expiry_ms: u64, now_ms: u64) -> bool {
    expiry_ms <= now_ms && !seeded_fault!("resurrect_expired")
}

/// Reads separated values.
pub trait BlobSource: Send + Sync {
    /// The value that lies at `pointer`.
    ///
    /// # Errors
    /// What reading fails with; corruption, if the bytes there are not the value.
    fn read(&self, pointer: &BlobPointer) -> Result<Slice>;

    /// As [`BlobSource::read`], for a walk that has `window` on the files.
    ///
    /// # Errors
    /// As [`BlobSource::read`].
    fn read_on_walk(&self, pointer: &BlobPointer, _window: &mut BlobWindow) -> Result<Slice> {
        self.read(pointer)
    }

    /// Says that the value at `pointer` will be read soon. It only saves time.
    fn will_read(&self, _pointer: &BlobPointer) {}
}

impl<F: Fn(&BlobPointer) -> Result<Slice> + Send + Sync> BlobSource for F {
    fn read(&self, pointer: &BlobPointer) -> Result<Slice> {
        self(pointer)
    }
}

/// What it takes to turn versions into a value.
#[derive(Clone, Copy, Default)]
pub struct Resolver<'a> {
    /// The wall time that decides expiry, in ms since 1970.
    pub now_ms: u64,
    /// The family's merge operator.
    pub operator: Option<&'a dyn MergeOperator>,
    /// Where separated values are read.
    pub blobs: Option<&'a dyn BlobSource>,
    /// What earlier readers of the family folded, and where to keep more.
    pub folds: Option<&'a Folds>,
    /// The clock that takes note of what has expired.
    pub clock: Option<&'a dyn Clock>,
    /// Where a lookup of one key notes when the value that it finds expires.
    pub expiry_ms: Option<&'a Cell<Option<u64>>>,
}

impl Resolver<'_> {
    /// The separated value at `pointer`.
    ///
    /// # Errors
    /// `Unsupported` without a blob source; what reading fails with.
    pub fn fetch(&self, pointer: &BlobPointer) -> Result<Slice> {
        match self.blobs {
            Some(blobs) => blobs.read(pointer),
            None => Err(Error::new(ErrorKind::Unsupported, "separated value without blob files")),
        }
    }

    /// The value after `operands`, oldest first, are applied to `base`.
    ///
    /// # Errors
    /// `Unsupported` without a merge operator; what the operator fails with; `InvalidArgument`, if
    /// its result is longer than a value may be.
    pub fn combine(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let Some(operator) = self.operator else {
            return Err(Error::new(ErrorKind::Unsupported, "merge operand without an operator")
                .with_hint("open the family with the merge operator it was written with"));
        };
        full(operator, key, base, operands)
    }
}

impl fmt::Debug for Resolver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver")
            .field("now_ms", &self.now_ms)
            .field("operator", &self.operator)
            .field("blobs", &self.blobs.is_some())
            .finish()
    }
}
