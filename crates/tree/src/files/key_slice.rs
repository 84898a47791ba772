//! What a key slice leaves of a table: its range and its range tombstones.
//!
//! It reads no table.

use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    slice::Slice,
    tombstone::{Fragments, RangeTombstone},
};
use siltdb_disk::{
    edit::TableReference,
    table_meta::{KeySpan, RangeEnd},
};

/// The part of a tombstone within a key slice; `None` if there is none.
fn cut_to_slice(tombstone: RangeTombstone, slice: &KeySpan) -> Option<RangeTombstone> {
    let end = tombstone.end.min(slice.end_key());
    let start = tombstone.start.max(slice.first.clone());
    (start < end).then_some(RangeTombstone { start, end, ..tombstone })
}

/// What a reference that narrows its table shows of `whole`, the range tombstones of the table.
pub(super) fn seen_tombstones(reference: &TableReference, whole: &Fragments) -> Fragments {
    let visible_to = reference.visible_to.unwrap_or(SequenceNumber::MAX);
    let seen = whole.tombstones().filter_map(|tombstone| {
        let sequence = reference.global_sequence.unwrap_or(tombstone.sequence);
        let narrow = RangeTombstone { sequence, ..tombstone };
        (sequence <= visible_to).then_some(narrow)
    });
    let cut: Vec<_> = match &reference.key_slice {
        None => seen.collect(),
        Some(slice) => seen.filter_map(|tombstone| cut_to_slice(tombstone, slice)).collect(),
    };
    Fragments::new(&cut)
}

/// The range of a table, cut to the key slice of its reference.
///
/// # Errors
/// Corruption, if nothing is left.
pub(super) fn visible_range(reference: &TableReference) -> Result<KeySpan> {
    let whole = &reference.meta.range;
    let Some(slice) = &reference.key_slice else { return Ok(whole.clone()) };
    let first = Slice::clone(std::cmp::max(&whole.first, &slice.first));
    // Of equal last keys the exclusive one reaches less far.
    let reach = |range: &KeySpan| (range.last.clone(), range.end == RangeEnd::Inclusive);
    let shorter = if reach(whole) <= reach(slice) { whole } else { slice };
    let range = KeySpan { first, last: shorter.last.clone(), end: shorter.end };
    if range.is_before(&range.first) {
        return Err(Error::corruption("the key slice of a table is outside it")
            .with_mismatch(format!("{whole:?}"), format!("{slice:?}")));
    }
    Ok(range)
}
