//! The compaction filter of the simulation: it writes values anew without changing them, so that no
//! answer of the model depends on when a compaction runs.
//!
//! It drops nothing; `tests/filters.rs` does.

use siltdb::{CompactionFilter, FilterDecision, FilteredEntry};

/// Replaces some values by the same value, and keeps the others.
#[derive(Debug)]
pub struct SameValues;

impl CompactionFilter for SameValues {
    fn name(&self) -> &str {
        "same values"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        match entry.key.last() {
            Some(last) if last.is_multiple_of(2) => FilterDecision::Change(entry.value.to_vec()),
            _ => FilterDecision::Keep,
        }
    }
}
