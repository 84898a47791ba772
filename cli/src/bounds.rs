//! Which keys a verb reads: a prefix and a range, taken together.
//!
//! It compares bytes; it does not read entries.

use std::ops::Bound;

#[cfg(test)]
mod tests;

/// A range of keys, as the database takes it.
pub type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The keys that begin with `prefix` and are not below `from` and are below `to`; none if there can
/// be no such key.
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

/// The first key after all that begin with `prefix`; none if nothing comes after them.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
