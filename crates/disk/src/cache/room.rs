//! How much the cache may hold now: what the other parts of the budget leave.
//!
//! It evicts nothing by itself; it says by how much, and gives memory of the region back.

use super::{Cache, TableMemory};
use siltdb_base::{budget::Part, seeded_fault, sync::lock};
use std::sync::atomic::Ordering;

/// The region exceeds the capacity by one part in this many, for gaps between its pieces.
const REGION_SLACK: usize = 8;

/// What values cost beside the region, their counts and places, is about one part in this many.
const OVERHEAD_SHARE: usize = 32;

/// At least one part in this many of the capacity stays for values, whatever the others of the
/// budget take.
const LEAST_SHARE: usize = 16;

/// Tables are held open as long as they take less than one part in this many of the capacity.
const TABLES_SHARE: usize = 2;

/// At least one part in this many of the capacity stays for values, whatever tables take.
const VALUES_SHARE: usize = 4;

/// How many bytes it may hold now.
pub(super) struct Limits {
    /// Of values.
    pub(super) values: usize,
    /// Of the region that they lie in.
    pub(super) region: usize,
}

impl Cache {
    /// Whether tables may still be held open: what they take is less than their share, half of what
    /// values and tables have together.
    #[must_use]
    pub fn has_room_for_tables(&self) -> bool {
        let capacity = self.capacity.load(Ordering::Relaxed);
        let of_values = match self.tables {
            TableMemory::Beside => capacity.saturating_add(capacity / REGION_SLACK),
            TableMemory::Within => capacity / TABLES_SHARE,
        };
        let left = self.budget.beside_memtables();
        let most = left.saturating_sub(of_values).max(left / LEAST_SHARE);
        self.budget.used(Part::Tables) < most
    }

    /// The memory that its values may lie in now: what the budget leaves, less what readers hold of
    /// values that are not in the cache.
    fn memory_max(&self) -> usize {
        let pinned = self.pinned_bytes();
        let least = self.capacity.load(Ordering::Relaxed) / LEAST_SHARE;
        self.budget.left_to_blocks().saturating_sub(pinned).max(least)
    }

    /// Bytes of blocks that readers hold and the cache does not, about.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        if seeded_fault!("pins_not_charged") {
            return 0;
        }
        self.region.held_bytes().saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// The bytes it may hold now.
    pub(super) fn capacity(&self) -> usize {
        self.limits().values
    }

    pub(super) fn limits(&self) -> Limits {
        let capacity = self.capacity.load(Ordering::Relaxed);
        let memory = self.memory_max();
        let shared = match self.tables {
            TableMemory::Beside => capacity,
            TableMemory::Within => {
                let beside = self.budget.used(Part::Tables) + self.budget.used(Part::Folds);
                capacity.saturating_sub(beside).max(capacity / VALUES_SHARE)
            }
        };
        let region = memory - memory / OVERHEAD_SHARE;
        Limits {
            values: shared.min(memory - memory / (REGION_SLACK + 1)),
            region: region.min(capacity.saturating_add(capacity / REGION_SLACK)),
        }
    }

    /// Evicts what is too much since the capacity became less: because it was changed, or because
    /// others of the budget took of it.
    pub fn fit(&self) {
        let (used, limits) = (self.used.load(Ordering::Relaxed), self.limits());
        if used > limits.values {
            self.evict(used - limits.values);
        }
        if self.region.set_limit(limits.region) {
            self.shrink();
        }
    }

    /// Closes the chunks of the region that are too many, and evicts what lies in them.
    #[cold]
    pub(super) fn shrink(&self) {
        let closed = self.region.close_surplus();
        if closed.is_empty() {
            return;
        }
        let arrays = lock(&self.hand).arrays();
        for array in arrays {
            let swept = array.sweep_out(&closed);
            self.evictions.fetch_add(swept.evicted, Ordering::Relaxed);
            if swept.freed > 0 {
                self.release(swept.freed);
            }
        }
    }
}
