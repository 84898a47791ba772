//! The uncommitted writes of a transaction as memtables, so that the transaction can read them.
//!
//! The memtables follow the bytes of a batch. They must be cleared if the batch is truncated.

use crate::memory::Memory;
use siltdb_base::{
    error::Result,
    id::{FamilyId, SequenceNumber},
    key::EntryKind,
    seeded_fault,
};
use siltdb_disk::batch::BatchBytes;
use siltdb_memtable::memtable::Memtable;
use siltdb_tree::read::visible::{reader::OwnWrites, resolve::OWN_FIRST};
use std::sync::Arc;

/// What an indexed operation takes at most besides its key and payload, in bytes: the head of the
/// entry, its slot, and its part of the nodes, which may be half empty.
const OPERATION_BYTES_MAX: usize = 64;

/// At most one part in this many of the memory of an index is the unused ends of chunks.
const UNUSED_OF: usize = 8;

/// The indexed writes of a batch, by family.
#[derive(Debug, Default)]
pub struct IndexedWrites {
    families: Vec<(FamilyId, Arc<Memtable>)>,
    /// The number of indexed operations of the batch, and their bytes.
    count: u32,
    bytes: usize,
}

impl IndexedWrites {
    /// Removes all entries. Readers keep the memtables that they hold.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The memory that the memtables of `writes` take at most, in bytes, whether or not they are
    /// indexed yet.
    #[must_use]
    pub fn bytes_max(writes: &BatchBytes) -> usize {
        let bytes = writes.as_bytes().len();
        bytes + bytes / UNUSED_OF + writes.count() as usize * OPERATION_BYTES_MAX
    }

    /// The memtable of a family, with everything that `writes` has for it; `None` if that is
    /// nothing.
    ///
    /// Cost: one insertion into a memtable for each operation added since the last call.
    ///
    /// # Errors
    /// `Corruption`, if the batch is damaged.
    pub fn of(
        &mut self,
        memory: &Memory,
        writes: &BatchBytes,
        family: FamilyId,
    ) -> Result<Option<OwnWrites>> {
        let (bytes, indexed) = (writes.as_bytes().len(), self.bytes);
        assert!(indexed <= bytes, "{indexed} bytes of a batch are indexed that was cut to {bytes}");
        for operation in writes.operations_from(self.bytes, self.count) {
            let operation = operation?;
            let sequence = SequenceNumber(OWN_FIRST.0 + u64::from(self.count));
            let is_range = operation.kind == EntryKind::RangeDelete;
            if !is_range || !seeded_fault!("own_range_deletions_not_read") {
                self.memtable(memory, operation.family).insert(operation.entry(sequence));
            }
            self.count += 1;
        }
        self.bytes = writes.as_bytes().len();
        let known = self.families.iter().find(|(id, _)| *id == family);
        let last = SequenceNumber(OWN_FIRST.0 + u64::from(self.count).saturating_sub(1));
        Ok(known.map(|(_, memtable)| OwnWrites { memtable: Arc::clone(memtable), last }))
    }

    fn memtable(&mut self, memory: &Memory, family: FamilyId) -> &Memtable {
        let index = match self.families.iter().position(|(id, _)| *id == family) {
            Some(index) => index,
            None => {
                self.families.push((family, Memtable::new(&memory.transaction_arenas)));
                self.families.len() - 1
            }
        };
        &self.families[index].1
    }
}

#[cfg(test)]
mod tests;
