//! Ids in blocks: a counter in the database says which ids are reserved, memory says which were
//! handed out.
//!
//! Callers decide how a block is reserved.

use siltdb_base::{error::Result, id::FamilyId, sync::lock};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex},
};

/// The maximum number of counters kept in memory. A counter that is removed loses the rest of its
/// block.
pub const COUNTERS_MAX: usize = 4096;

/// Ids that are reserved and not handed out. Held during IO, while a block is reserved, so that ids
/// ascend.
type BlockIo = Mutex<Range<u64>>;

/// The counters of a family, by key.
type Counters = HashMap<Box<[u8]>, Arc<BlockIo>>;

/// The blocks of all counters of a database.
#[derive(Debug, Default)]
pub struct IdBlocks {
    families: Mutex<HashMap<FamilyId, Counters>>,
}

impl IdBlocks {
    /// The next id of the counter `key` of `family`. If the block is used up, `reserve` reserves
    /// the next one. That block begins at or after the id passed to `reserve`.
    ///
    /// # Errors
    /// The errors of `reserve`.
    pub fn next(
        &self,
        family: FamilyId,
        key: &[u8],
        reserve: impl FnOnce(u64) -> Result<Range<u64>>,
    ) -> Result<u64> {
        let block = self.block(family, key);
        let mut block = lock(&block);
        if block.is_empty() {
            let (least, next) = (block.end, reserve(block.end)?);
            assert!(next.start >= least, "the ids {next:?} would be given after {least}");
            assert!(!next.is_empty(), "an id would be given of an empty block, {next:?}");
            *block = next;
        }
        let id = block.start;
        block.start += 1;
        Ok(id)
    }

    fn block(&self, family: FamilyId, key: &[u8]) -> Arc<BlockIo> {
        let mut families = lock(&self.families);
        if let Some(block) = families.get(&family).and_then(|counters| counters.get(key)) {
            return Arc::clone(block);
        }
        if families.values().map(Counters::len).sum::<usize>() >= COUNTERS_MAX {
            // Counters in use stay: two blocks of one counter at a time would not ascend.
            for counters in families.values_mut() {
                counters.retain(|_, block| Arc::strong_count(block) > 1);
            }
            families.retain(|_, counters| !counters.is_empty());
        }
        let block = Arc::new(Mutex::new(0..0));
        families.entry(family).or_default().insert(key.into(), Arc::clone(&block));
        block
    }
}

#[cfg(test)]
mod tests;
