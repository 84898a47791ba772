//! What a follower has read of the log: memtables by segment, and the changes of families.
//!
//! It does not know which families exist: the manifest may be read later than the log.

use siltdb_base::{
    clock::StoredTime,
    error::{Error, Result},
    id::{FamilyId, SegmentId, SequenceNumber},
    key::Entry,
};
use siltdb_disk::{
    batch::operations,
    edit::Edit,
    family_batch,
    log::{
        read::Record,
        record::{LogPosition, RecordKind},
        time_note::time_after,
    },
    prepared::{DecisionRecord, PreparedBatch, split_decision},
};
use siltdb_memtable::{arena::ArenaPool, memtable::Memtable};
use siltdb_tree::memory::{Generation, Memtables};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The number of entries handed to a memtable at once.
const ENTRIES_AT_ONCE: usize = 512;

/// The memtables of a log that is followed.
///
/// # Invariants
/// 1. A segment has its own memtables, so that a flush, which retires whole segments, retires whole
///    memtables. No entry is both in a memtable and in a table of the same state.
/// 2. A record is inserted as a whole or not at all, and once.
#[derive(Debug)]
pub struct LogMemory {
    arenas: Arc<ArenaPool>,
    segments: BTreeMap<SegmentId, BTreeMap<FamilyId, Arc<Memtable>>>,
    /// Families that commits have created and dropped, in order.
    changes: Vec<(LogPosition, Edit)>,
    /// Transactions that were prepared, and `None` for those that were decided, in order.
    prepared: Vec<(SegmentId, SequenceNumber, Option<Arc<PreparedBatch>>)>,
    /// The families with entries since [`LogMemory::take_written`].
    written: BTreeSet<FamilyId>,
    /// The latest time of expiry that a record notes.
    time: StoredTime,
}

impl LogMemory {
    /// No records yet; memtables will come from `arenas`.
    #[must_use]
    pub fn new(arenas: Arc<ArenaPool>) -> Self {
        Self {
            arenas,
            segments: BTreeMap::new(),
            changes: Vec::new(),
            prepared: Vec::new(),
            written: BTreeSet::new(),
            time: StoredTime::default(),
        }
    }

    /// Applies a record. Returns whether it changes families.
    ///
    /// # Errors
    /// `Corruption`, if it is no record of a log; `Unsupported`. Nothing is applied then.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<bool> {
        let header = &record.header;
        let first = header.first_sequence;
        match header.kind {
            RecordKind::Batch => {
                self.insert(record.at.segment, first, header.count, record.payload)?;
                Ok(false)
            }
            RecordKind::FamilyBatch => {
                let (edit, payload) = family_batch::split(record.payload)?;
                let count = header.count.checked_sub(1);
                let count =
                    count.ok_or_else(|| Error::corruption("a commit has no sequence numbers"))?;
                self.insert(record.at.segment, first.next(), count, payload)?;
                let last = self.changes.last().map(|(at, _)| *at);
                assert!(last < Some(record.at), "changes of families are read out of order");
                self.changes.push((record.at, edit));
                Ok(true)
            }
            RecordKind::Decide => {
                let DecisionRecord { number, operations, .. } = split_decision(record.payload)?;
                let count = header.count.checked_sub(1);
                let count = count.ok_or_else(|| Error::corruption("a decision takes no place"))?;
                self.insert(record.at.segment, first.next(), count, operations)?;
                self.note_prepared(record.at.segment, number, None);
                Ok(false)
            }
            RecordKind::Prepare => {
                let transaction = Arc::new(PreparedBatch::decode(record.payload)?);
                self.note_prepared(record.at.segment, first, Some(transaction));
                Ok(false)
            }
            RecordKind::Void => {
                self.time = time_after(self.time, record);
                Ok(false)
            }
            RecordKind::Skip => Ok(false),
            RecordKind::Edit | RecordKind::End => {
                Err(Error::corruption("the log has a record of a manifest"))
            }
        }
    }

    /// The latest time of expiry that was read, also from segments that are retired.
    #[must_use]
    pub fn time(&self) -> StoredTime {
        self.time
    }

    /// Frees what was read of segments before `first`.
    pub fn retire(&mut self, first: SegmentId) {
        self.segments = self.segments.split_off(&first);
        self.changes.retain(|(at, _)| at.segment >= first);
        self.prepared.retain(|(segment, ..)| *segment >= first);
    }

    /// The changes of families in records from `position` on.
    pub fn changes_from(
        &self,
        position: LogPosition,
    ) -> impl Iterator<Item = &(LogPosition, Edit)> {
        self.changes.iter().filter(move |(at, _)| *at >= position)
    }

    /// The transactions without a decision, where those of `before` had none before the log began.
    #[must_use]
    pub fn undecided(
        &self,
        before: &BTreeMap<SequenceNumber, Arc<PreparedBatch>>,
    ) -> BTreeMap<SequenceNumber, Arc<PreparedBatch>> {
        let mut undecided = before.clone();
        for (_, number, transaction) in &self.prepared {
            match transaction {
                Some(transaction) => undecided.insert(*number, Arc::clone(transaction)),
                None => undecided.remove(number),
            };
        }
        undecided
    }

    /// The families that have a memtable.
    #[must_use]
    pub fn families(&self) -> BTreeSet<FamilyId> {
        self.segments.values().flat_map(BTreeMap::keys).copied().collect()
    }

    /// The families that got entries since the last call.
    #[must_use]
    pub fn take_written(&mut self) -> BTreeSet<FamilyId> {
        std::mem::take(&mut self.written)
    }

    /// The memtables of a family.
    #[must_use]
    pub fn memtables(&self, family: FamilyId) -> Memtables {
        self.segments.iter().fold(Memtables::default(), |memory, (segment, memtables)| {
            match memtables.get(&family) {
                Some(memtable) => memory.with(Generation(segment.0), Arc::clone(memtable)),
                None => memory,
            }
        })
    }

    fn note_prepared(
        &mut self,
        segment: SegmentId,
        number: SequenceNumber,
        transaction: Option<Arc<PreparedBatch>>,
    ) {
        let last = self.prepared.last().map(|(last, ..)| *last);
        assert!(last <= Some(segment), "decisions are read out of order, in segment {segment}");
        self.prepared.push((segment, number, transaction));
    }

    fn insert(
        &mut self,
        segment: SegmentId,
        first: SequenceNumber,
        count: u32,
        payload: &[u8],
    ) -> Result<()> {
        // By (2): all of it is read before anything is inserted.
        operations(payload, count).try_for_each(|operation| operation.map(drop))?;
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(ENTRIES_AT_ONCE.min(count as usize));
        let mut family = None;
        let mut sequence = first;
        for operation in operations(payload, count) {
            let operation = operation?;
            if family != Some(operation.family) || entries.len() == ENTRIES_AT_ONCE {
                self.insert_entries(segment, family, &entries);
                entries.clear();
                family = Some(operation.family);
            }
            entries.push(operation.entry(sequence));
            sequence = sequence.next();
        }
        self.insert_entries(segment, family, &entries);
        let inserted = sequence.0 - first.0;
        assert_eq!(inserted, u64::from(count), "a record is inserted in part");
        Ok(())
    }

    fn insert_entries(
        &mut self,
        segment: SegmentId,
        family: Option<FamilyId>,
        entries: &[Entry<'_>],
    ) {
        let Some(family) = family else { return };
        let memtables = self.segments.entry(segment).or_default();
        let memtable = memtables.entry(family).or_insert_with(|| Memtable::new(&self.arenas));
        memtable.insert_batch(entries);
        self.written.insert(family);
    }
}
