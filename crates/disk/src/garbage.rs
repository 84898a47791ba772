//! What of a table becomes garbage later: by time, and once snapshots are gone.
//!
//! It says how much at least, so that what it promises a rewrite frees. It knows neither the time
//! nor the snapshots, and nothing of range tombstones.
//!
//! Two fields of the summary; an empty list is absent:
//!
//! ```text
//! expiring:   | difference of until to the one before, at first to 0: varint |
//!             | entries varint | bytes varint | ...
//! superseded: | difference of to to the one before, at first to 0: varint |
//!             | to - from varint | bytes varint | ...
//! ```

use crate::{
    blob::{BlobReferences, record_bytes},
    block::BlockEntry,
    fields::FieldsWriter,
};
use siltdb_base::{
    codec::{ByteReader, put_varint},
    error::{Error, Result},
    id::SequenceNumber,
    key::{BlobPointer, EntryKind, split_expiring},
    limits::TABLE_END_MAX,
};
use std::cmp::Reverse;

/// Buckets of expiring entries. One holds about a 28th of the bytes at most, unless one moment has
/// more. So the bytes that have expired are known within 4 %.
const EXPIRING_MAX: usize = 64;

/// Buckets while they are gathered are at most this many times as many: the finer they are, the
/// less the order of the entries matters.
const GATHERED_FACTOR: usize = 4;

/// No bucket spans one of the largest gaps between expiries; this is their number. So entries kept
/// for a minute and entries kept for a year stay apart.
const GAPS_KEPT: usize = 8;

/// Buckets of superseded entries: few snapshots live at a time.
const SUPERSEDED_MAX: usize = 16;

/// Entries that have all expired at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiring {
    /// The latest of their expiries, in ms since 1970.
    pub until_ms: u64,
    /// How many they are.
    pub entries: u64,
    /// Their keys and payloads, in bytes.
    pub bytes: u64,
}

/// Entries below a newer value or deletion of their key. Only a snapshot at or after `from` and
/// before `to` can see one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// The oldest of them.
    pub from: SequenceNumber,
    /// The newest entry that hides one of them.
    pub to: SequenceNumber,
    /// Their keys and payloads, in bytes.
    pub bytes: u64,
}

/// What of a table becomes garbage later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Garbage {
    /// By `until_ms`, ascending.
    expiring: Box<[Expiring]>,
    /// By `to`, ascending.
    superseded: Box<[Superseded]>,
}

impl Garbage {
    /// The entries that expire, by the moments when parts of them have.
    #[must_use]
    pub fn expiring(&self) -> &[Expiring] {
        &self.expiring
    }

    /// The entries that a newer one of the same table hides from later snapshots.
    #[must_use]
    pub fn superseded(&self) -> &[Superseded] {
        &self.superseded
    }

    /// Entries that expire some time.
    #[must_use]
    pub fn expiring_entries(&self) -> u64 {
        self.expiring.iter().map(|bucket| bucket.entries).sum()
    }

    /// When the last of them has expired, in ms since 1970.
    #[must_use]
    pub fn expiry_max_ms(&self) -> Option<u64> {
        self.expiring.last().map(|bucket| bucket.until_ms)
    }

    /// Bytes of the entries that have expired at `now_ms`, at least.
    #[must_use]
    pub fn expired_bytes(&self, now_ms: u64) -> u64 {
        let expired = self.expiring.iter().take_while(|bucket| bucket.until_ms <= now_ms);
        expired.map(|bucket| bucket.bytes).sum()
    }

    /// Writes the lists that are not empty as fields with these tags.
    pub fn encode(&self, fields: &mut FieldsWriter<'_>, [expiring, superseded]: [u64; 2]) {
        if !self.expiring.is_empty() {
            fields.put(expiring, |value| self.encode_expiring(value));
        }
        if !self.superseded.is_empty() {
            fields.put(superseded, |value| self.encode_superseded(value));
        }
    }

    fn encode_expiring(&self, out: &mut Vec<u8>) {
        let mut before = 0;
        for bucket in &self.expiring {
            put_varint(out, bucket.until_ms - before);
            put_varint(out, bucket.entries);
            put_varint(out, bucket.bytes);
            before = bucket.until_ms;
        }
    }

    fn encode_superseded(&self, out: &mut Vec<u8>) {
        let mut before = 0;
        for bucket in &self.superseded {
            put_varint(out, bucket.to.0 - before);
            put_varint(out, bucket.to.0 - bucket.from.0);
            put_varint(out, bucket.bytes);
            before = bucket.to.0;
        }
    }

    /// Reads the expiring entries from all that is left of `reader`.
    ///
    /// # Errors
    /// Corruption, if the bytes are none.
    pub fn decode_expiring(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let mut buckets: Vec<Expiring> = Vec::new();
        let mut before = None;
        while !reader.is_empty() {
            let until_ms = after(before, reader.varint()?)?;
            let (entries, bytes) = (count(reader)?, count(reader)?);
            buckets.push(Expiring { until_ms, entries, bytes });
            check_number(buckets.len(), EXPIRING_MAX)?;
            before = Some(until_ms);
        }
        self.expiring = buckets.into();
        Ok(())
    }

    /// Reads the superseded entries from all that is left of `reader`.
    ///
    /// # Errors
    /// Corruption, if the bytes are none.
    pub fn decode_superseded(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let mut buckets: Vec<Superseded> = Vec::new();
        let mut before = None;
        while !reader.is_empty() {
            let to = after(before, reader.varint()?)?;
            let from = to.checked_sub(reader.varint()?).filter(|_| to <= SequenceNumber::MAX.0);
            let from =
                from.ok_or_else(|| Error::corruption("bad sequence numbers of a summary"))?;
            let bytes = count(reader)?;
            buckets.push(Superseded { from: SequenceNumber(from), to: SequenceNumber(to), bytes });
            check_number(buckets.len(), SUPERSEDED_MAX)?;
            before = Some(to);
        }
        self.superseded = buckets.into();
        Ok(())
    }
}

/// The number that is greater by `difference` than the one before it.
fn after(before: Option<u64>, difference: u64) -> Result<u64> {
    let number = match before {
        None => Some(difference),
        Some(before) => before.checked_add(difference).filter(|&number| number > before),
    };
    number.ok_or_else(|| Error::corruption("buckets of a summary out of order"))
}

fn count(reader: &mut ByteReader<'_>) -> Result<u64> {
    let count = reader.varint()?;
    if count > TABLE_END_MAX {
        return Err(Error::corruption("a table has more than any file can hold")
            .with_mismatch(format_args!("at most {TABLE_END_MAX}"), count));
    }
    Ok(count)
}

fn check_number(buckets: usize, buckets_max: usize) -> Result<()> {
    if buckets <= buckets_max {
        return Ok(());
    }
    Err(Error::corruption("too many buckets of a summary").with_mismatch(buckets_max, buckets))
}

/// The position of an entry among the entries of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPosition {
    /// It is the newest entry of its key.
    First,
    /// It follows a newer entry of its key.
    Repeated,
}

/// An entry of which the length of the key counts, but not its bytes.
#[derive(Clone, Copy, Debug)]
pub struct SizedEntry<'a> {
    /// Length of the user key, in bytes.
    pub key_bytes: usize,
    /// The sequence number of the entry.
    pub sequence: SequenceNumber,
    /// The operation that the entry stands for.
    pub kind: EntryKind,
    /// The payload, as its kind says.
    pub value: &'a [u8],
}

impl<'a> SizedEntry<'a> {
    /// An entry of a block, with a key of `key_bytes`.
    #[inline]
    #[must_use]
    pub fn of_block(entry: &BlockEntry<'a>, key_bytes: usize) -> Self {
        let BlockEntry { sequence, kind, value, .. } = *entry;
        Self { key_bytes, sequence, kind, value }
    }

    /// What it takes in tables and blob files before compression, in bytes: key, payload, and the
    /// record of its separated value.
    #[must_use]
    pub fn occupied_bytes(&self) -> u64 {
        let own = (self.key_bytes + self.value.len()) as u64;
        let is_pointer = self.kind == EntryKind::BlobPointer;
        let pointer = is_pointer.then(|| BlobPointer::decode(self.value));
        // A payload that is no pointer is refused where its contents are asked for.
        own + pointer.and_then(Result::ok).map_or(0, |pointer| record_bytes(pointer.stored_bytes))
    }
}

/// A bucket of expiring entries that is still being filled.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The earliest of their expiries, in ms since 1970.
    from_ms: u64,
    bucket: Expiring,
}

/// Gathers the [`Garbage`] of entries in their order.
#[derive(Debug, Default)]
pub struct GarbageBuilder {
    /// Disjoint stretches of time, ascending.
    expiring: Vec<Stretch>,
    superseded: Vec<Superseded>,
    /// The oldest value or deletion so far of the key at hand: it hides what is older.
    hider: Option<SequenceNumber>,
    /// What the entries refer to in blob files, where garbage is what nothing refers to.
    blobs: BlobReferences,
}

impl GarbageBuilder {
    /// Adds an entry, which has `position` among those of its key.
    ///
    /// # Errors
    /// Corruption, if the payload is not what the kind says.
    #[inline]
    pub fn add(&mut self, position: KeyPosition, entry: SizedEntry<'_>) -> Result<()> {
        let SizedEntry { key_bytes, sequence, kind, value } = entry;
        if position == KeyPosition::Repeated {
            // A `SingleDelete` may outlast what hides it: its own value may lie deeper.
            if let Some(to) = self.hider.filter(|_| kind != EntryKind::SingleDelete) {
                self.add_superseded(sequence, to, (key_bytes + value.len()) as u64);
            }
        } else {
            self.hider = None;
        }
        let expiry_ms = match kind {
            EntryKind::PutExpiring => Some(split_expiring(value)?.0),
            EntryKind::BlobPointer => {
                let pointer = BlobPointer::decode(value)?;
                self.blobs.note(&pointer);
                pointer.expiry_ms
            }
            _ => None,
        };
        if let Some(expiry_ms) = expiry_ms {
            self.add_expiring(expiry_ms, (key_bytes + value.len()) as u64);
        }
        if kind != EntryKind::Merge {
            self.hider = Some(sequence);
        }
        Ok(())
    }

    /// Adds plain entries; `last_sequence` is that of the last one. None has the key of the entry
    /// before.
    pub fn add_plain(&mut self, last_sequence: SequenceNumber) {
        self.hider = Some(last_sequence);
    }

    #[cold]
    fn add_superseded(&mut self, from: SequenceNumber, to: SequenceNumber, bytes: u64) {
        match self.superseded.binary_search_by_key(&to, |bucket| bucket.to) {
            Ok(place) => {
                let bucket = &mut self.superseded[place];
                bucket.from = bucket.from.min(from);
                bucket.bytes += bytes;
            }
            Err(place) => self.superseded.insert(place, Superseded { from, to, bytes }),
        }
        if self.superseded.len() >= 2 * SUPERSEDED_MAX {
            condense_superseded(&mut self.superseded);
        }
    }

    fn add_expiring(&mut self, until_ms: u64, bytes: u64) {
        let place = self.expiring.partition_point(|stretch| stretch.bucket.until_ms < until_ms);
        if let Some(stretch) = self.expiring.get_mut(place).filter(|it| it.from_ms <= until_ms) {
            stretch.bucket.entries += 1;
            stretch.bucket.bytes += bytes;
            return;
        }
        let bucket = Expiring { until_ms, entries: 1, bytes };
        self.expiring.insert(place, Stretch { from_ms: until_ms, bucket });
        if self.expiring.len() >= GATHERED_FACTOR * EXPIRING_MAX {
            condense_expiring(&mut self.expiring, GATHERED_FACTOR / 2 * EXPIRING_MAX);
        }
    }

    /// Takes out what the entries refer to in blob files.
    #[must_use]
    pub fn take_blobs(&mut self) -> BlobReferences {
        std::mem::take(&mut self.blobs)
    }

    /// What was gathered.
    #[must_use]
    pub fn finish(mut self) -> Garbage {
        if self.expiring.len() > EXPIRING_MAX {
            condense_expiring(&mut self.expiring, EXPIRING_MAX);
        }
        if self.superseded.len() > SUPERSEDED_MAX {
            condense_superseded(&mut self.superseded);
        }
        let is_sorted = self.expiring.is_sorted_by(|a, b| a.bucket.until_ms < b.from_ms);
        assert!(is_sorted, "expiring entries are out of order: {:?}", self.expiring);
        let is_sorted = self.superseded.is_sorted_by(|a, b| a.to < b.to);
        assert!(is_sorted, "superseded entries are out of order: {:?}", self.superseded);
        let expiring = self.expiring.into_iter().map(|stretch| stretch.bucket).collect();
        Garbage { expiring, superseded: self.superseded.into() }
    }
}

/// Joins stretches until at most `stretches_max` are left, which is more than [`GAPS_KEPT`].
fn condense_expiring(stretches: &mut Vec<Stretch>, stretches_max: usize) {
    let gap = |earlier: &Stretch, later: &Stretch| later.from_ms - earlier.bucket.until_ms;
    let mut gaps: Vec<_> = stretches.windows(2).map(|pair| gap(&pair[0], &pair[1])).collect();
    gaps.sort_unstable_by_key(|&gap| Reverse(gap));
    let gap_max = gaps.get(GAPS_KEPT).copied().unwrap_or(0);
    // Each gap that is kept parts two stretches that might else be joined.
    condense(
        stretches,
        stretches_max - GAPS_KEPT,
        |stretch| stretch.bucket.bytes,
        |stretch, later, joined_bytes_max| {
            let bytes = stretch.bucket.bytes + later.bucket.bytes;
            let joins = bytes <= joined_bytes_max && gap(stretch, later) <= gap_max;
            if joins {
                stretch.bucket.until_ms = later.bucket.until_ms;
                stretch.bucket.entries += later.bucket.entries;
                stretch.bucket.bytes = bytes;
            }
            joins
        },
    );
}

fn condense_superseded(buckets: &mut Vec<Superseded>) {
    condense(
        buckets,
        SUPERSEDED_MAX,
        |bucket| bucket.bytes,
        |bucket, later, joined_bytes_max| {
            let bytes = bucket.bytes + later.bytes;
            if bytes > joined_bytes_max {
                return false;
            }
            *bucket = Superseded { from: bucket.from.min(later.from), to: later.to, bytes };
            true
        },
    );
}

/// Has `join` add neighbours to each other that together have at most a share of all bytes. `join`
/// may refuse. At most `buckets_max` are left, not counting refusals, because any two that stay
/// apart have more than that share.
fn condense<T>(
    buckets: &mut Vec<T>,
    buckets_max: usize,
    bytes: impl Fn(&T) -> u64,
    join: impl Fn(&mut T, &T, u64) -> bool,
) {
    let total: u64 = buckets.iter().map(&bytes).sum();
    let share = total * 2 / buckets_max as u64 + 1;
    let mut joined: Vec<T> = Vec::with_capacity(buckets.len());
    for bucket in buckets.drain(..) {
        if !joined.last_mut().is_some_and(|last| join(last, &bucket, share)) {
            joined.push(bucket);
        }
    }
    *buckets = joined;
}

#[cfg(test)]
mod tests;
