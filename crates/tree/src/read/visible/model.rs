//! What the operations mean, by definition: the model that readers and compaction are held to.
//!
//! It is slow on purpose: one list of operations, applied in order.

use crate::{
    merge_operator::MergeOperator,
    read::merge::{
        Merge, MergeSource,
        fixture::{Owned, VecCursor},
    },
    read::visible::reader::Reader,
};
use proptest::prelude::*;
use siltdb_base::{
    clock::ManualClock,
    cursor::Fetch,
    error::{Error, Result},
    id::{FileNumber, SequenceNumber},
    key::{BlobPointer, EntryKind},
    slice::Slice,
    tombstone::{Fragments, RangeTombstone},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The time of all reads in tests.
pub(crate) const NOW_MS: u64 = 1000;

/// How many keys the histories know.
pub(crate) const KEYS: u8 = 30;

/// The keys of histories, ascending: the empty one, short ones, long ones with a common head.
pub(crate) fn key(number: u8) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1..10 => vec![b'a', number],
        _ => format!("common:prefix:{number:02}").into_bytes(),
    }
}

/// Joins base and operands with commas; some operands can be joined beforehand.
///
/// An operand that begins with `!` makes it fail.
#[derive(Debug)]
pub(crate) struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        if operands.iter().any(|operand| operand.starts_with(b"!")) {
            return Err(Error::invalid("bad operand"));
        }
        let parts: Vec<&[u8]> = base.iter().chain(operands).copied().collect();
        Ok(parts.join(&b","[..]))
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let is_possible = (older.len() + newer.len()).is_multiple_of(2) && !newer.starts_with(b"!");
        is_possible.then(|| [older, newer].join(&b","[..]))
    }
}

/// An operation on keys by number.
#[derive(Clone, Debug)]
pub(crate) enum ModelOperation {
    Put(u8),
    /// Puts of neighbouring keys, which make plain blocks and long hidden runs.
    PutRun(u8, u8),
    PutExpiring(u8, u64),
    Blob(u8, Option<u64>),
    Delete(u8),
    SingleDelete(u8),
    DeleteRange(u8, u8),
    Merge(u8),
}

fn expiry_ms() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1), NOW_MS - 1..=NOW_MS + 1, Just(u64::MAX)]
}

/// Operations of all kinds, each with the source it goes to.
pub(crate) fn operations() -> impl Strategy<Value = Vec<(usize, ModelOperation)>> {
    let operation = prop_oneof![
        6 => (0..KEYS).prop_map(ModelOperation::Put),
        2 => (0..KEYS, 1_u8..16).prop_map(|(key, run)| ModelOperation::PutRun(key, run)),
        2 => (0..KEYS, expiry_ms())
            .prop_map(|(key, expiry)| ModelOperation::PutExpiring(key, expiry)),
        2 => (0..KEYS, proptest::option::of(expiry_ms()))
            .prop_map(|(key, expiry)| ModelOperation::Blob(key, expiry)),
        3 => (0..KEYS).prop_map(ModelOperation::Delete),
        1 => (0..KEYS).prop_map(ModelOperation::SingleDelete),
        2 => (0..KEYS, 0..=KEYS).prop_map(|(from, to)| ModelOperation::DeleteRange(from, to)),
        6 => (0..KEYS).prop_map(ModelOperation::Merge),
    ];
    // Few keys most of the time, so that versions pile up.
    (1..=KEYS, proptest::collection::vec((0_usize..5, operation), 0..50)).prop_map(
        |(keys, mut operations)| {
            for (_, operation) in &mut operations {
                match operation {
                    ModelOperation::Put(key)
                    | ModelOperation::PutExpiring(key, _)
                    | ModelOperation::Blob(key, _)
                    | ModelOperation::Delete(key)
                    | ModelOperation::SingleDelete(key)
                    | ModelOperation::Merge(key) => *key %= keys,
                    ModelOperation::PutRun(..) | ModelOperation::DeleteRange(..) => {}
                }
            }
            operations
        },
    )
}

/// What was written to one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) entries: Vec<Owned>,
    pub(crate) tombstones: Vec<RangeTombstone>,
}

impl History {
    /// Does `operation`, with sequence numbers from `sequence` on, which it moves.
    pub(crate) fn apply(&mut self, operation: &ModelOperation, sequence: &mut u64) {
        let first_sequence = *sequence;
        let mut add = |number: u8, kind, payload: &[u8]| {
            self.entries.push(Owned::new(&key(number), *sequence, kind, payload));
            *sequence += 1;
        };
        let value = format!("v{first_sequence}").into_bytes();
        match *operation {
            ModelOperation::Put(key) => add(key, EntryKind::Put, &value),
            ModelOperation::PutRun(first, run) => {
                for key in first..(first + run).min(KEYS) {
                    add(key, EntryKind::Put, &value);
                }
            }
            ModelOperation::PutExpiring(key, expiry_ms) => {
                let payload = [&expiry_ms.to_le_bytes()[..], &value].concat();
                add(key, EntryKind::PutExpiring, &payload);
            }
            ModelOperation::Blob(key, expiry_ms) => {
                let mut payload = Vec::new();
                pointer(first_sequence, expiry_ms).encode(&mut payload);
                add(key, EntryKind::BlobPointer, &payload);
            }
            ModelOperation::Delete(key) => add(key, EntryKind::Delete, b""),
            ModelOperation::SingleDelete(key) => add(key, EntryKind::SingleDelete, b""),
            ModelOperation::Merge(key) => add(key, EntryKind::Merge, &value),
            ModelOperation::DeleteRange(from, to) => {
                self.tombstones.push(RangeTombstone {
                    start: key(from).into(),
                    end: key(to).into(),
                    sequence: SequenceNumber(*sequence),
                });
                *sequence += 1;
            }
        }
    }

    /// The histories of `sources` sources after `operations`.
    pub(crate) fn distribute(operations: &[(usize, ModelOperation)], sources: usize) -> Vec<Self> {
        let mut histories = vec![Self::default(); sources];
        let mut sequence = 1;
        for (source, operation) in operations {
            histories[source % sources].apply(operation, &mut sequence);
        }
        histories
    }

    /// All histories in one.
    pub(crate) fn union<'a>(histories: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut union = Self::default();
        for history in histories {
            union.entries.extend_from_slice(&history.entries);
            union.tombstones.extend_from_slice(&history.tombstones);
        }
        union
    }

    pub(crate) fn sequence_max(&self) -> u64 {
        let points = self.entries.iter().map(|entry| entry.sequence.0);
        points
            .chain(self.tombstones.iter().map(|tombstone| tombstone.sequence.0))
            .max()
            .unwrap_or(0)
    }

    /// What a reader sees, by definition: all operations up to the snapshot, in order.
    pub(crate) fn seen_at(&self, snapshot: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut keys: Vec<_> = self.entries.iter().map(|entry| entry.key.clone()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .filter_map(|key| self.get(&key, snapshot).map(|value| (key, value)))
            .collect()
    }

    pub(crate) fn get(&self, key: &[u8], snapshot: u64) -> Option<Vec<u8>> {
        let mut steps: Vec<(u64, Option<&Owned>)> = Vec::new();
        steps.extend(
            self.entries
                .iter()
                .filter(|entry| entry.key == key)
                .map(|entry| (entry.sequence.0, Some(entry))),
        );
        let covers = |tombstone: &&RangeTombstone| {
            tombstone.start.as_bytes() <= key && key < tombstone.end.as_bytes()
        };
        let tombstones = self.tombstones.iter().filter(covers);
        steps.extend(tombstones.map(|tombstone| (tombstone.sequence.0, None)));
        steps.retain(|&(sequence, _)| sequence <= snapshot);
        steps.sort_by_key(|&(sequence, _)| sequence);
        let mut value: Option<Vec<u8>> = None;
        for (sequence, entry) in steps {
            value = entry.and_then(|entry| match entry.kind {
                EntryKind::Put => Some(entry.value.clone()),
                EntryKind::PutExpiring => {
                    let expiry_ms = u64::from_le_bytes(*entry.value.first_chunk().unwrap());
                    (expiry_ms > NOW_MS).then(|| entry.value[8..].to_vec())
                }
                EntryKind::BlobPointer => {
                    let pointer = BlobPointer::decode(&entry.value).unwrap();
                    let is_alive = pointer.expiry_ms.is_none_or(|expiry_ms| expiry_ms > NOW_MS);
                    is_alive.then(|| blob(sequence))
                }
                EntryKind::Merge => {
                    let operand = entry.value.as_slice();
                    Some(Append.full(key, value.as_deref(), &[operand]).unwrap())
                }
                EntryKind::Delete | EntryKind::SingleDelete | EntryKind::RangeDelete => None,
            });
        }
        value
    }

    pub(crate) fn fragments(&self) -> Arc<Fragments> {
        Arc::new(Fragments::new(&self.tombstones))
    }
}

fn pointer(sequence: u64, expiry_ms: Option<u64>) -> BlobPointer {
    let (length, stored_bytes, codec, checksum) = (9, 5, 1, 7);
    let (file, offset) = (FileNumber(1), sequence);
    BlobPointer { file, offset, length, stored_bytes, codec, checksum, expiry_ms }
}

fn blob(offset: u64) -> Vec<u8> {
    format!("blob{offset}").into_bytes()
}

/// A reader with all means.
pub(crate) fn reader(snapshot: u64) -> Reader {
    Reader {
        snapshot: SequenceNumber(snapshot),
        clock: Arc::new(ManualClock::at(Duration::from_millis(NOW_MS))),
        operator: Some(Arc::new(Append)),
        blobs: Some(Arc::new(|pointer: &BlobPointer| Ok(Slice::from(blob(pointer.offset))))),
        budget: None,
        fetch: Fetch::Values,
        streamed_from: None,
        empty_ranges: None,
        sequence_lock: None,
        own: None,
        folds: None,
    }
}

/// A merge over the entries of `histories`, in blocks of `block_entries`.
pub(crate) fn merge(histories: &[History], block_entries: usize) -> Merge<VecCursor> {
    let source = |history: &History| {
        let cursor = VecCursor::new(history.entries.clone(), block_entries);
        MergeSource { sequence_max: cursor.sequence_max(), cursor }
    };
    Merge::new(histories.iter().map(source).collect())
}
