//! Which tables others have replaced, as these say, for a salvage without a manifest.
//!
//! It reads no entries.

use siltdb_base::{id::TableUid, slice::Slice};
use siltdb_disk::{
    table::TableOrigin,
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use std::collections::{BTreeMap, BTreeSet};

/// Which of the tables found of a family have been replaced, as other tables say.
///
/// A table hides its inputs only within its own key range. The compaction may not have finished,
/// and then its other outputs are missing. An input of an input was certainly replaced, as far as
/// the step of the merge reached that wrote the one that was merged again.
#[derive(Default)]
pub(super) struct Replaced {
    /// For each input, the ranges of the tables that were merged from it.
    inputs: BTreeMap<TableUid, Vec<KeySpan>>,
    for_good: BTreeSet<TableUid>,
    /// The inputs of each table found, and the key before which alone it replaced them.
    inputs_of: BTreeMap<TableUid, (Vec<TableUid>, Option<Slice>)>,
    /// Tables of which everything before a key was certainly replaced.
    before: BTreeMap<TableUid, Vec<Slice>>,
}

impl Replaced {
    pub(super) fn add(&mut self, meta: &TableMeta, origin: &TableOrigin) {
        for input in &origin.inputs {
            self.inputs.entry(input.uid).or_default().push(meta.range.clone());
        }
        self.for_good.extend(origin.earlier.iter().map(|table| table.uid));
        for part in &origin.partly {
            self.before.entry(part.table.uid).or_default().push(part.before.clone());
        }
        let inputs = origin.inputs.iter().map(|input| input.uid).collect();
        self.inputs_of.insert(meta.uid, (inputs, origin.inputs_before.clone()));
    }

    /// Decides what counts.
    pub(super) fn decide(self) -> WhatCounts {
        let Self { inputs, mut for_good, inputs_of, mut before } = self;
        let merged: Vec<_> = inputs_of
            .into_iter()
            .filter(|(uid, _)| inputs.contains_key(uid) || for_good.contains(uid))
            .collect();
        for (_, (replaced, end)) in merged {
            match end {
                None => for_good.extend(replaced),
                Some(end) => {
                    for input in replaced {
                        before.entry(input).or_default().push(end.clone());
                    }
                }
            }
        }
        let mut hidden = inputs;
        for (uid, keys) in before {
            let (first, last) = (Slice::default(), keys.into_iter().max().unwrap_or_default());
            let range = KeySpan { first, last, end: RangeEnd::Exclusive };
            hidden.entry(uid).or_default().push(range);
        }
        WhatCounts { for_good, hidden }
    }
}

/// Which tables of a family count, and what of them.
pub(super) struct WhatCounts {
    /// Those that do not.
    for_good: BTreeSet<TableUid>,
    /// Key ranges in which others count instead.
    hidden: BTreeMap<TableUid, Vec<KeySpan>>,
}

impl WhatCounts {
    /// Where other tables count instead of this one; `None`: everywhere.
    pub(super) fn hidden_of(&self, table: TableUid) -> Option<Vec<KeySpan>> {
        let is_gone = self.for_good.contains(&table);
        (!is_gone).then(|| self.hidden.get(&table).cloned().unwrap_or_default())
    }
}
