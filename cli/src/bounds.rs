//! The range of keys that a verb reads: the intersection of a prefix and two bounds, and its parts.
//!
//! It compares bytes, and reads no entries.

use siltdb::KEY_BYTES_MAX;
use std::ops::Bound;

#[cfg(test)]
mod tests;

/// A range of keys in the form that the database takes.
pub type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Returns the keys that begin with `prefix`, from `from` on and below `to`; `None` if that range
/// is empty.
pub fn key_range(
    prefix: Option<Vec<u8>>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
) -> Option<KeyRange> {
    let end = prefix.as_deref().and_then(prefix_end);
    let lower = prefix.into_iter().chain(from).max();
    let upper = end.into_iter().chain(to).min();
    if let (Some(lower), Some(upper)) = (&lower, &upper)
        && lower >= upper
    {
        return None;
    }
    let lower = lower.map_or(Bound::Unbounded, Bound::Included);
    let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
    Some((lower, upper))
}

/// Whether a range has no bound that leaves a key out.
pub fn is_whole((lower, upper): &KeyRange) -> bool {
    let begins_first = match lower {
        Bound::Unbounded => true,
        Bound::Included(key) => key.is_empty(),
        Bound::Excluded(_) => false,
    };
    begins_first && *upper == Bound::Unbounded
}

/// Returns the parts of `range` without the keys that begin with `prefix`, in order: at most two.
pub fn without_prefix(range: KeyRange, prefix: &[u8]) -> Vec<KeyRange> {
    let (lower, upper) = range;
    let before = earlier(&upper, Bound::Excluded(prefix.to_vec()));
    let mut parts = vec![(lower.clone(), before)];
    if let Some(end) = prefix_end(prefix) {
        parts.push((later(&lower, Bound::Included(end)), upper));
    }
    parts.retain(|part| !is_empty(part));
    parts
}

/// Returns the upper bound that leaves more keys out.
pub fn earlier(upper: &Bound<Vec<u8>>, other: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    let rank = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Excluded(key) => Some((key.clone(), 0)),
        Bound::Included(key) => Some((key.clone(), 1)),
        Bound::Unbounded => None,
    };
    match (rank(upper), rank(&other)) {
        (Some(rank), Some(other_rank)) if rank <= other_rank => upper.clone(),
        (Some(_), None) => upper.clone(),
        _ => other,
    }
}

/// Returns the lower bound that leaves more keys out.
pub fn later(lower: &Bound<Vec<u8>>, other: Bound<Vec<u8>>) -> Bound<Vec<u8>> {
    let rank = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Unbounded => None,
        Bound::Included(key) => Some((key.clone(), 0)),
        Bound::Excluded(key) => Some((key.clone(), 1)),
    };
    if rank(lower) >= rank(&other) { lower.clone() } else { other }
}

/// Returns whether no key can lie between the bounds.
pub fn is_empty((lower, upper): &KeyRange) -> bool {
    match (lower, upper) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
        (Bound::Included(lower) | Bound::Excluded(lower), Bound::Excluded(upper))
        | (Bound::Excluded(lower), Bound::Included(upper)) => lower >= upper,
    }
}

/// Returns whether no key is greater. A deletion without an end is stored as a range up to this
/// key, and the deletion of the key itself.
pub fn is_greatest(key: &[u8]) -> bool {
    key.len() == KEY_BYTES_MAX && key.iter().all(|byte| *byte == 0xff)
}

/// Returns the first key after all that begin with `prefix`; `None` if there is none.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
