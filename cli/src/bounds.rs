//! The range of keys that a verb reads: the intersection of a prefix and two bounds.
//!
//! It compares bytes, and reads no entries.

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

/// Returns the first key after all that begin with `prefix`; `None` if there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
