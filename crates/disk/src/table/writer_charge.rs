//! What a writer of a table takes of the memory budget.
//!
//! It takes no memory: it counts what the writer does.

use crate::cache::Cache;
use siltdb_base::{
    budget::{Charge, Part},
    memory::allocator::give_back_freed,
};
use std::sync::Arc;

/// The charge changes by multiples of this.
const STEP_BYTES: usize = 64 << 10;

/// The cache gives way at once if the charge grows by this and more, in bytes: by the trainer of a
/// dictionary, or by a long value. What every writer takes is less.
const LARGE_STEP_BYTES: usize = 1 << 20;

/// A charge that follows the memory of a writer.
///
/// When it is dropped, after what the writer had, the allocator gives freed memory back if the
/// writer took much of it.
pub(in crate::table) struct WriterCharge {
    charge: Charge,
    cache: Arc<Cache>,
    gives_back: bool,
}

impl WriterCharge {
    /// Nothing yet, of the budget of `cache`.
    pub(in crate::table) fn new(cache: &Arc<Cache>) -> Self {
        let charge = Charge::new(cache.budget(), Part::Jobs, 0);
        Self { charge, cache: Arc::clone(cache), gives_back: false }
    }

    /// The limit of the budget, in bytes.
    pub(in crate::table) fn limit(&self) -> usize {
        self.cache.budget().limit()
    }

    /// Charges `bytes`, in steps of 64 KiB.
    pub(in crate::table) fn follow(&mut self, bytes: usize) {
        let (before, charged) = (self.charge.bytes(), bytes.next_multiple_of(STEP_BYTES));
        if charged != before {
            self.charge.resize(charged);
        }
        if charged >= before + LARGE_STEP_BYTES {
            self.cache.fit();
            self.gives_back = true;
        }
    }
}

impl Drop for WriterCharge {
    fn drop(&mut self) {
        if self.gives_back {
            give_back_freed();
        }
    }
}
