//! A reader: at which point of the order it reads, by which clock, and with what means.
//!
//! It does not read anything itself.

use crate::{
    merge_operator::MergeOperator,
    read::empty_ranges::{EmptyRanges, SequenceLock},
    read::folds::Folds,
    read::visible::{
        coverage::Cover,
        resolve::{
            BlobSource, OWN_FIRST, Resolver, Verdict, committed_expiry, depends_on_time, judge,
            note_expiry, noted_by,
        },
    },
};
use siltdb_base::{
    budget::Budget, clock::Clock, cursor::Fetch, error::Result, id::SequenceNumber, key::Entry,
};
use siltdb_memtable::memtable::Memtable;
use std::{fmt, sync::Arc};

/// The point of view of a reader, and its means to build values and to find its way.
#[derive(Clone)]
pub struct Reader {
    /// Entries newer than this are not seen.
    pub snapshot: SequenceNumber,
    /// Tells the time that decides expiry, whenever the reader comes to an entry.
    pub clock: Arc<dyn Clock>,
    /// The family's merge operator.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// Where separated values are read.
    pub blobs: Option<Arc<dyn BlobSource>>,
    /// The account of what iterators read ahead of separated values; `None` reads one by one.
    pub budget: Option<Arc<Budget>>,
    /// What is wanted.
    pub fetch: Fetch,
    /// The length from which on iterators do not read separated values, in bytes, but say where
    /// they lie; `None` reads all. Operands are applied to any.
    pub streamed_from: Option<u64>,
    /// The empty ranges of the family, as earlier readers found them.
    pub empty_ranges: Option<Arc<EmptyRanges>>,
    /// The lock under which the reader has the family tracked, if it passes many deleted keys.
    pub sequence_lock: Option<Arc<dyn SequenceLock>>,
    /// What earlier readers folded, and where to keep more.
    pub folds: Option<Arc<Folds>>,
    /// Writes that only this reader sees, newer than all others.
    pub own: Option<OwnWrites>,
}

/// The uncommitted writes of a transaction in one family, as a reader sees them.
///
/// They lie in a memtable that nothing else reads, under numbers from [`OWN_FIRST`] on. So they are
/// the newest versions of their keys. Range tombstones, merges and expiry among them follow the
/// same rules as those of committed entries.
#[derive(Clone, Debug)]
pub struct OwnWrites {
    /// The memtable with the writes.
    pub memtable: Arc<Memtable>,
    /// The newest that the reader sees.
    pub last: SequenceNumber,
}

/// Deleted keys that a walk passes over in one go where empty ranges may be known.
const DELETED_MAX: u32 = 32;

/// The same where it may be worth it to have the family tracked.
const DELETED_MAX_UNWATCHED: u32 = 256;

impl Reader {
    /// How many deleted keys a walk may pass over before it looks for an empty range.
    pub(super) fn patience(&self) -> u32 {
        match &self.empty_ranges {
            Some(empty_ranges) if empty_ranges.is_tracking() => DELETED_MAX,
            Some(_) if self.sequence_lock.is_some() => DELETED_MAX_UNWATCHED,
            _ => u32::MAX,
        }
    }

    /// The newest number that the reader may see.
    #[inline]
    #[must_use]
    pub fn newest(&self) -> SequenceNumber {
        self.own.as_ref().map_or(self.snapshot, |own| own.last)
    }

    /// What the reader sees of the numbers of entries.
    #[inline]
    #[must_use]
    pub fn sight(&self) -> Sight {
        Sight { snapshot: self.snapshot, newest: self.newest() }
    }

    /// What an entry that the snapshot sees says now. The clock takes note if it has expired.
    #[inline]
    pub(super) fn verdict<'a>(
        &self,
        entry: &Entry<'a>,
        cover: Option<Cover>,
    ) -> Result<Verdict<'a>> {
        let covering = cover.map(|cover| cover.sequence);
        let now_ms = if depends_on_time(entry.kind) { self.time_for(entry)? } else { 0 };
        judge(entry.kind, entry.value, entry.sequence, covering, now_ms)
    }

    /// The same for an entry that no newer one hides. The clock takes note also of a value that
    /// will expire.
    #[inline(always)]
    pub(super) fn decide<'a>(
        &self,
        entry: &Entry<'a>,
        cover: Option<Cover>,
    ) -> Result<Verdict<'a>> {
        let verdict = self.verdict(entry, cover)?;
        if matches!(verdict, Verdict::Value(_) | Verdict::Blob(_)) && depends_on_time(entry.kind) {
            self.note_unexpired(committed_expiry(entry)?);
        }
        Ok(verdict)
    }

    /// Has the clock take note of what a reader saw, which expires then.
    #[inline]
    pub(super) fn note_unexpired(&self, expiry_ms: Option<u64>) {
        if let Some(expiry_ms) = expiry_ms {
            self.clock.saw_unexpired(expiry_ms);
        }
    }

    fn time_for(&self, entry: &Entry<'_>) -> Result<u64> {
        let now_ms = self.clock.wall_ms();
        let clock = noted_by(&*self.clock, entry.sequence);
        note_expiry(entry.kind, entry.value, now_ms, clock)?;
        Ok(now_ms)
    }

    /// The reader's means to turn versions into values, now.
    #[must_use]
    pub fn resolver(&self) -> Resolver<'_> {
        Resolver {
            now_ms: self.clock.wall_ms(),
            operator: self.operator.as_deref(),
            blobs: self.blobs.as_deref(),
            folds: self.folds.as_deref(),
            clock: Some(&*self.clock),
            expiry_ms: None,
        }
    }
}

/// Which sequence numbers a reader sees: those of its snapshot, and its own.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    snapshot: SequenceNumber,
    newest: SequenceNumber,
}

impl Sight {
    /// Whether the reader sees entries with this number.
    #[inline]
    #[must_use]
    pub fn sees(self, sequence: SequenceNumber) -> bool {
        sequence <= self.snapshot || (sequence >= OWN_FIRST && sequence <= self.newest)
    }

    /// The newest number below `sequence`, which the reader does not see, that it may see.
    #[must_use]
    pub fn newest_below(self, sequence: SequenceNumber) -> SequenceNumber {
        if sequence >= OWN_FIRST { self.newest } else { self.snapshot }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("snapshot", &self.snapshot)
            .field("resolver", &self.resolver())
            .field("fetch", &self.fetch)
            .finish()
    }
}
