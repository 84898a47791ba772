//! Replays the records of the log into memtables.
//!
//! Replay trusts no byte of the records, and knows nothing of files. One thread decodes the records
//! in order, and several insert their entries (`inserts`).

mod inserts;

use crate::{
    families::family_commit::replay_changes,
    install::target::Target,
    log::generation::Frozen,
    log::pins::SegmentSlot,
    log::sequencer::{Counts, memtable_bytes},
    open::replay::inserts::Inserts,
};
use siltdb_base::{
    clock::StoredTime,
    error::{Error, Result},
    id::{FamilyId, SegmentId, SequenceNumber},
    key::EntryKind,
};
use siltdb_disk::{
    batch::operations,
    edit::{Change, Edit},
    family_batch,
    log::{
        read::Record,
        record::{LogPosition, RecordKind},
        recover::Recovered,
        time_note::time_after,
    },
    prepared::{DecisionRecord, PreparedBatch, split_decision},
};
use siltdb_memtable::{arena::ArenaPool, memtable::Memtable};
use siltdb_tree::memory::Generation;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// A replay in progress.
pub struct Replay<'a> {
    target: Target<'a>,
    arenas: &'a Arc<ArenaPool>,
    next_family: FamilyId,
    /// The manifest has the changes of families of all records before this position.
    families_said: LogPosition,
    /// Changes of families that are not in the manifest.
    owed: Vec<Change>,
    memtable_bytes: u64,
    /// The memtables of the current generation by family; `None` for a dropped family.
    memtables: HashMap<FamilyId, Option<Arc<Memtable>>>,
    inserts: Inserts,
    generations: Vec<ReplayedGeneration>,
    /// Prepared transactions without a decision so far.
    prepared: BTreeMap<SequenceNumber, Arc<PreparedBatch>>,
    last: SequenceNumber,
    records: u64,
    time: StoredTime,
}

struct ReplayedGeneration {
    /// The segments; the first gives the generation its number.
    segments: Vec<SegmentId>,
    bytes: u64,
    last: SequenceNumber,
}

/// The result of a replay.
pub struct Replayed {
    /// The generations, oldest first.
    pub frozen: Vec<Frozen>,
    /// The last sequence number replayed.
    pub last: SequenceNumber,
    /// The number of replayed records.
    pub records: u64,
    /// Changes of families that are in force and not in the manifest.
    pub owed: Vec<Change>,
    /// The next family id: neither it nor a greater one was used.
    pub next_family: FamilyId,
    /// Prepared transactions without a decision, by their numbers.
    pub prepared: BTreeMap<SequenceNumber, Arc<PreparedBatch>>,
    /// The latest time that the log notes.
    pub time: StoredTime,
}

impl<'a> Replay<'a> {
    /// A replay into the trees of `target`. The manifest says that family ids end before
    /// `next_family`, and that it has the changes of families up to a position. A new generation
    /// begins with the first segment after the generation has reached `memtable_bytes`.
    #[must_use]
    pub fn new(
        target: Target<'a>,
        arenas: &'a Arc<ArenaPool>,
        next_family: FamilyId,
        families_said: LogPosition,
        memtable_bytes: usize,
    ) -> Self {
        Self {
            target,
            arenas,
            next_family,
            families_said,
            owed: Vec::new(),
            memtable_bytes: memtable_bytes as u64,
            memtables: HashMap::new(),
            inserts: Inserts::new(0),
            generations: Vec::new(),
            prepared: BTreeMap::new(),
            time: StoredTime::default(),
            last: SequenceNumber::ZERO,
            records: 0,
        }
    }

    /// The same replay, of a log before whose begin these transactions were prepared.
    #[must_use]
    pub fn with_prepared(self, prepared: BTreeMap<SequenceNumber, Arc<PreparedBatch>>) -> Self {
        Self { prepared, ..self }
    }

    /// The same replay, of which up to `threads` threads insert beside the caller.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { inserts: Inserts::new(threads), ..self }
    }

    /// Replays one record.
    ///
    /// # Errors
    /// `Corruption`, if the payload is no batch or names a family that never existed.
    pub fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let header = &record.header;
        let generation = self.enter(record.at.segment);
        let mut counts = Counts { all: header.count, range_deletes: 0 };
        let first = header.first_sequence;
        match header.kind {
            RecordKind::Batch => {
                counts.range_deletes =
                    self.batch(generation, first, header.count, record.payload)?;
            }
            RecordKind::FamilyBatch => {
                let (edit, operations) = family_batch::split(record.payload)?;
                let count = header.count.checked_sub(1);
                let count =
                    count.ok_or_else(|| Error::corruption("a commit has no sequence numbers"))?;
                self.change_families(record.at, edit)?;
                counts.range_deletes = self.batch(generation, first.next(), count, operations)?;
            }
            RecordKind::Prepare => {
                let transaction = PreparedBatch::decode(record.payload)?;
                self.prepared.insert(first, Arc::new(transaction));
            }
            RecordKind::Decide => {
                let DecisionRecord { number, operations, .. } = split_decision(record.payload)?;
                let count = header.count.checked_sub(1);
                let count = count.ok_or_else(|| Error::corruption("a decision takes no place"))?;
                counts.range_deletes = self.batch(generation, first.next(), count, operations)?;
                self.prepared.remove(&number);
            }
            RecordKind::Void => {
                self.time = time_after(self.time, record);
            }
            RecordKind::Skip => {}
            RecordKind::Edit | RecordKind::End => {
                return Err(Error::corruption("the log has a record of a manifest"));
            }
        }
        self.records += 1;
        self.last = SequenceNumber(header.next_sequence().0 - 1);
        let current = self.generations.last_mut().expect("a segment was entered above");
        current.bytes += memtable_bytes(record.payload.len() as u64, counts);
        current.last = self.last;
        Ok(())
    }

    /// Applies the changes of families in the record at `at`, if the manifest lacks them.
    fn change_families(&mut self, at: LogPosition, edit: Edit) -> Result<()> {
        if at < self.families_said {
            return Ok(());
        }
        for change in &edit.changes {
            if let Change::CreateFamily { id, .. } = change {
                self.next_family = self.next_family.max(FamilyId(id.0.saturating_add(1)));
            }
        }
        // The cached lookups of families may have changed.
        self.memtables.clear();
        replay_changes(&self.target, edit, at, &mut self.owed)
    }

    /// The generation of the records of `segment`.
    fn enter(&mut self, segment: SegmentId) -> Generation {
        let limit = self.memtable_bytes;
        let before = self.generations.last().and_then(|current| current.segments.last().copied());
        assert!(before <= Some(segment), "segment {segment} would be replayed after {before:?}");
        match self.generations.last_mut() {
            Some(current) if current.segments.last() == Some(&segment) => {}
            Some(current) if current.bytes < limit => current.segments.push(segment),
            _ => {
                self.memtables.clear();
                let last = self.last;
                let segments = vec![segment];
                self.generations.push(ReplayedGeneration { segments, bytes: 0, last });
            }
        }
        let current = self.generations.last().expect("a generation was begun above");
        Generation(current.segments[0].0)
    }

    /// Inserts the operations of a batch. Returns how many of them delete a range.
    fn batch(
        &mut self,
        generation: Generation,
        first: SequenceNumber,
        count: u32,
        payload: &[u8],
    ) -> Result<u32> {
        let mut range_deletes = 0;
        let mut found: Option<(FamilyId, Option<Arc<Memtable>>)> = None;
        let mut sequence = first;
        for operation in operations(payload, count) {
            let operation = operation?;
            let memtable = match &found {
                Some((family, memtable)) if *family == operation.family => memtable,
                _ => {
                    let memtable = self.memtable(generation, operation.family)?;
                    &found.insert((operation.family, memtable)).1
                }
            };
            if let Some(memtable) = memtable {
                self.inserts.add(memtable, operation.entry(sequence));
            }
            range_deletes += u32::from(operation.kind == EntryKind::RangeDelete);
            sequence = sequence.next();
        }
        Ok(range_deletes)
    }

    /// The memtable of a family in the current generation; `None` for a dropped family.
    fn memtable(
        &mut self,
        generation: Generation,
        family: FamilyId,
    ) -> Result<Option<Arc<Memtable>>> {
        if let Some(memtable) = self.memtables.get(&family) {
            return Ok(memtable.clone());
        }
        let memtable = self.find(generation, family)?;
        self.memtables.insert(family, memtable.clone());
        Ok(memtable)
    }

    fn find(&self, generation: Generation, family: FamilyId) -> Result<Option<Arc<Memtable>>> {
        match self.target.families.get(family) {
            Some(found) => Ok(Some(found.tree.memtable(generation, self.arenas))),
            // The family was dropped later, so its entries are not needed.
            None if family < self.next_family => Ok(None),
            None => Err(Error::corruption("the log names a family that never existed")
                .with_mismatch(format_args!("below {}", self.next_family), family)),
        }
    }

    /// Returns the replayed generations, once all entries are in their memtables. A segment without
    /// records belongs to the generation behind it, or to the last one. So segments are retired in
    /// their order.
    #[must_use]
    pub fn finish(self, recovered: &Recovered, slots: &[u64]) -> Replayed {
        self.inserts.finish();
        let slot_of = |id: SegmentId| {
            let segment = recovered.segments.iter().find(|segment| segment.header.id == id);
            segment.map(|segment| SegmentSlot { id, slot: slots[segment.file_index] })
        };
        let mut frozen: Vec<Frozen> = self
            .generations
            .iter()
            .map(|generation| Frozen {
                number: Generation(generation.segments[0].0),
                segments: generation.segments.iter().filter_map(|&id| slot_of(id)).collect(),
                last: generation.last,
                bytes: generation.bytes,
                progress: Arc::default(),
            })
            .collect();
        let known: Vec<SegmentId> =
            frozen.iter().flat_map(|frozen| &frozen.segments).map(|segment| segment.id).collect();
        let empty = recovered.segments.iter().map(|segment| segment.header.id);
        let empty: Vec<_> = empty.filter(|id| !known.contains(id)).filter_map(slot_of).collect();
        if let (true, Some(first)) = (frozen.is_empty(), empty.first()) {
            let number = Generation(first.id.0);
            let progress = Arc::default();
            frozen.push(Frozen { number, segments: empty, last: self.last, bytes: 0, progress });
        } else {
            empty.into_iter().for_each(|segment| add_empty(&mut frozen, segment));
        }
        let is_sorted = frozen.is_sorted_by(|a, b| a.number < b.number && a.last <= b.last);
        assert!(is_sorted, "generations would be flushed out of order: {frozen:?}");
        let next = recovered.next_sequence.unwrap_or_default();
        let last = self.last.max(SequenceNumber(next.0.saturating_sub(1)));
        let (owed, next_family, prepared) = (self.owed, self.next_family, self.prepared);
        let (records, time) = (self.records, self.time);
        Replayed { frozen, last, records, owed, next_family, prepared, time }
    }
}

/// Adds a segment without records to the first of `frozen` that ends behind it, or to the last.
fn add_empty(frozen: &mut [Frozen], segment: SegmentSlot) {
    let behind = |frozen: &Frozen| frozen.segments.iter().any(|other| other.id > segment.id);
    let place = frozen.iter().position(behind).unwrap_or(frozen.len().saturating_sub(1));
    if let Some(frozen) = frozen.get_mut(place) {
        let at = frozen.segments.partition_point(|other| other.id < segment.id);
        frozen.segments.insert(at, segment);
    }
}

#[cfg(test)]
mod tests;
