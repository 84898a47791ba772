//! Puts the records of the log back into memtables.
//!
//! It trusts no byte of them, and knows nothing of files.

use crate::{
    catalog::family::Families,
    log::generation::Frozen,
    log::pins::SegmentSlot,
    log::tail::{Counts, memtable_bytes},
};
use siltdb_base::{
    error::{Error, Result},
    id::{FamilyId, SegmentId, SequenceNumber},
    key::{Entry, EntryKind},
};
use siltdb_disk::{
    batch::operations,
    log::{read::Record, record::RecordKind, recover::Recovered},
};
use siltdb_memtable::{arena::ArenaPool, memtable::Memtable};
use siltdb_tree::memory::Generation;
use std::{collections::HashMap, sync::Arc};

/// Entries handed to a memtable at once.
const ENTRIES_AT_ONCE: usize = 512;

/// A replay that is under way.
pub struct Replay<'a> {
    families: &'a Families,
    arenas: &'a Arc<ArenaPool>,
    next_family: FamilyId,
    memtable_bytes: u64,
    /// The memtables of the current generation, by family; `None` for a dropped one.
    memtables: HashMap<FamilyId, Option<Arc<Memtable>>>,
    generations: Vec<ReplayedGeneration>,
    last: SequenceNumber,
    records: u64,
}

struct ReplayedGeneration {
    /// The first segment names it.
    segments: Vec<SegmentId>,
    bytes: u64,
    last: SequenceNumber,
}

/// What a replay came to.
pub struct Replayed {
    /// The generations, oldest first.
    pub frozen: Vec<Frozen>,
    /// The last sequence number replayed.
    pub last: SequenceNumber,
    /// How many records were replayed.
    pub records: u64,
}

impl<'a> Replay<'a> {
    /// A replay into the trees of `families`; a new generation begins with the segment after one
    /// in which it has reached `memtable_bytes`.
    #[must_use]
    pub fn new(
        families: &'a Families,
        arenas: &'a Arc<ArenaPool>,
        next_family: FamilyId,
        memtable_bytes: usize,
    ) -> Self {
        Self {
            families,
            arenas,
            next_family,
            memtable_bytes: memtable_bytes as u64,
            memtables: HashMap::new(),
            generations: Vec::new(),
            last: SequenceNumber::ZERO,
            records: 0,
        }
    }

    /// Replays one record.
    ///
    /// # Errors
    /// `Corruption`, if its payload is no batch or names a family that never existed.
    pub fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let header = &record.header;
        let generation = self.enter(record.at.segment);
        let mut counts = Counts { all: header.count, range_deletes: 0 };
        if header.kind == RecordKind::Batch {
            counts.range_deletes =
                self.batch(generation, header.first_sequence, header.count, record.payload)?;
        } else if !matches!(header.kind, RecordKind::Skip | RecordKind::Void) {
            return Err(Error::corruption("the log has a record that belongs into a manifest"));
        }
        self.records += 1;
        self.last = SequenceNumber(header.next_sequence().0 - 1);
        let current = self.generations.last_mut().expect("a segment was entered above");
        current.bytes += memtable_bytes(record.payload.len() as u64, counts);
        current.last = self.last;
        Ok(())
    }

    /// The generation that records of `segment` belong to.
    fn enter(&mut self, segment: SegmentId) -> Generation {
        let limit = self.memtable_bytes;
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

    /// Says how many of the operations delete a range.
    fn batch(
        &mut self,
        generation: Generation,
        first: SequenceNumber,
        count: u32,
        payload: &[u8],
    ) -> Result<u32> {
        let mut range_deletes = 0;
        let mut entries: Vec<Entry<'_>> = Vec::with_capacity(ENTRIES_AT_ONCE.min(count as usize));
        let mut family = None;
        let mut sequence = first;
        for operation in operations(payload, count) {
            let operation = operation?;
            if family != Some(operation.family) || entries.len() == ENTRIES_AT_ONCE {
                self.insert(generation, family, &entries)?;
                entries.clear();
                family = Some(operation.family);
            }
            range_deletes += u32::from(operation.kind == EntryKind::RangeDelete);
            entries.push(operation.entry(sequence));
            sequence = sequence.next();
        }
        self.insert(generation, family, &entries)?;
        Ok(range_deletes)
    }

    fn insert(
        &mut self,
        generation: Generation,
        family: Option<FamilyId>,
        entries: &[Entry<'_>],
    ) -> Result<()> {
        let Some(family) = family else { return Ok(()) };
        let memtable = match self.memtables.get(&family) {
            Some(memtable) => memtable,
            None => {
                let memtable = self.find(generation, family)?;
                self.memtables.entry(family).or_insert(memtable)
            }
        };
        if let Some(memtable) = memtable {
            memtable.insert_batch(entries);
        }
        Ok(())
    }

    fn find(&self, generation: Generation, family: FamilyId) -> Result<Option<Arc<Memtable>>> {
        match self.families.get(family) {
            Some(found) => Ok(Some(found.tree.memtable(generation, self.arenas))),
            // Dropped since: nobody asks for its entries any more.
            None if family < self.next_family => Ok(None),
            None => Err(Error::corruption("the log names a family that never existed")
                .with_mismatch(format_args!("below {}", self.next_family), family)),
        }
    }

    /// The generations that were replayed. Segments without records go with the last one.
    #[must_use]
    pub fn finish(self, recovered: &Recovered, slots: &[u64]) -> Replayed {
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
        if let Some(last) = frozen.last_mut() {
            last.segments.extend(empty);
        } else if let Some(first) = empty.first() {
            let number = Generation(first.id.0);
            let progress = Arc::default();
            frozen.push(Frozen { number, segments: empty, last: self.last, bytes: 0, progress });
        }
        let next = recovered.next_sequence.unwrap_or_default();
        let last = self.last.max(SequenceNumber(next.0.saturating_sub(1)));
        Replayed { frozen, last, records: self.records }
    }
}
