//! Which range tombstones a flush or a compaction keeps: rules 11 and 12 of [`crate::retain`].
//!
//! It does not cut them at the borders of output tables.

use crate::retain::stripes::{OlderEntries, Stripe, Stripes};
use siltdb_base::{
    id::SequenceNumber,
    tombstone::{Fragment, Fragments, RangeTombstone},
};

/// The range tombstones that go on, ordered by start; neighbouring pieces are joined again.
///
/// `below` says whether something deeper than the output can have a key in a fragment. It is asked
/// in key order, and only where the answer matters.
#[must_use]
pub fn retain_tombstones(
    fragments: &Fragments,
    stripes: &Stripes,
    mut below: impl FnMut(&Fragment) -> OlderEntries,
) -> Vec<RangeTombstone> {
    let mut kept: Vec<RangeTombstone> = Vec::new();
    // Indices in `kept` of the tombstones of the fragment before: those that can be extended.
    let mut open: Vec<usize> = Vec::new();
    for (place, fragment) in fragments.as_slice().iter().enumerate() {
        let mut open_here = Vec::new();
        let mut next = fragments.newest_visible(place, SequenceNumber::MAX);
        while let Some(sequence) = next {
            let stripe = stripes.find(sequence);
            // The others of the stripe are passed over without a look: there may be many.
            let older = match stripe {
                Some(stripe) => stripes.end_before(stripe),
                None => sequence.0.checked_sub(1).map(SequenceNumber),
            };
            next = older.and_then(|older| fragments.newest_visible(place, older));
            let is_last = stripe.is_some_and(Stripe::is_oldest);
            if is_last && below(fragment) == OlderEntries::None {
                continue;
            }
            let extended = open.iter().copied().find(|&index| {
                kept[index].sequence == sequence && kept[index].end == fragment.start
            });
            let index = extended.unwrap_or(kept.len());
            match extended {
                Some(index) => kept[index].end = fragment.end.clone(),
                None => kept.push(RangeTombstone {
                    start: fragment.start.clone(),
                    end: fragment.end.clone(),
                    sequence,
                }),
            }
            open_here.push(index);
        }
        open = open_here;
    }
    kept
}
