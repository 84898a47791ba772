//! Whether tables deeper than an output can hold a key: if not, tombstones for it may go.
//!
//! It answers from the ranges of the tables alone, and asks no filter.

use crate::{files::level::Level, files::open_files::OpenReference, retain::stripes::OlderEntries};
use siltdb_base::tombstone::Fragment;
use siltdb_disk::table_meta::{KeySpan, RangeEnd};
use std::sync::Arc;

/// The tables deeper than the output of a flush or compaction.
#[derive(Clone, Debug, Default)]
pub struct BelowOutput {
    /// Older tables that may overlap each other.
    stack: Vec<Arc<OpenReference>>,
    /// Runs, each with the index of the first table that was not passed yet.
    runs: Vec<(Arc<Level>, usize)>,
    /// Something deeper is not among the tables.
    unknown: Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unknown {
    #[default]
    Nothing,
    Something,
}

impl BelowOutput {
    /// These tables of level 0 and these runs, and nothing else.
    #[must_use]
    pub fn new(stack: Vec<Arc<OpenReference>>, runs: &[Arc<Level>]) -> Self {
        let runs = runs.iter().filter(|run| !run.is_empty());
        let runs = runs.map(|run| (run.clone(), 0)).collect();
        Self { stack, runs, unknown: Unknown::Nothing }
    }

    /// Something that may hold any key.
    #[must_use]
    pub fn anything() -> Self {
        Self { unknown: Unknown::Something, ..Self::default() }
    }

    /// Whether any of them can hold `key`. The keys asked for must not descend.
    #[inline]
    pub fn may_contain(&mut self, key: &[u8]) -> OlderEntries {
        if self.unknown == Unknown::Something
            || self.stack.iter().any(|table| table.range().contains(key))
        {
            return OlderEntries::Possible;
        }
        for (run, passed) in &mut self.runs {
            while run.get(*passed).is_some_and(|table| table.range().is_before(key)) {
                *passed += 1;
            }
            if run.get(*passed).is_some_and(|table| !table.range().is_after(key)) {
                return OlderEntries::Possible;
            }
        }
        OlderEntries::None
    }

    /// Whether any of them can hold a key of `fragment`.
    #[must_use]
    pub fn may_contain_any_of(&self, fragment: &Fragment) -> OlderEntries {
        self.may_overlap(&KeySpan {
            first: fragment.start.clone(),
            last: fragment.end.clone(),
            end: RangeEnd::Exclusive,
        })
    }

    /// Whether any of them can hold a key of `range`.
    #[must_use]
    pub fn may_overlap(&self, range: &KeySpan) -> OlderEntries {
        let found = self.unknown == Unknown::Something
            || self.stack.iter().any(|table| table.range().overlaps(range))
            || self.runs.iter().any(|(run, _)| !run.overlapping_run(range).is_empty());
        if found { OlderEntries::Possible } else { OlderEntries::None }
    }
}

#[cfg(test)]
mod tests;
