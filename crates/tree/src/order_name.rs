//! Names of key orders that have changed: old databases, archives and table files have old ones.
//!
//! It does not know what orders mean.

use siltdb_base::seeded_fault;
use std::borrow::Cow;

#[cfg(test)]
mod tests;

/// Longest name of a key order, in bytes: as much as a family's own name.
pub const KEY_ORDER_BYTES_MAX: usize = 255;

/// Old names of orders, and the present ones.
const RENAMED: [(&str, &str); 1] = [("caseless", "caseless-ascii")];

/// Returns `name` with the present names of orders in place of old ones, in tuples, too. A name
/// that would be too long stays as it is, wherever it is met. So two names mean the same order
/// exactly if they are equal after this.
///
/// # Seeded faults
/// `old_order_name_not_known`: old names stay.
#[must_use]
pub fn present_name(name: &str) -> Cow<'_, str> {
    if seeded_fault!("old_order_name_not_known") {
        return Cow::Borrowed(name);
    }
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut present = String::new();
    let mut rest = name;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let renamed = RENAMED.iter().find(|(old, _)| *old == word);
        present.push_str(renamed.map_or(word, |(_, new)| new));
        let mark = after.chars().next().map_or(0, char::len_utf8);
        present.push_str(&after[..mark]);
        rest = &after[mark..];
    }
    match present == name || present.len() > KEY_ORDER_BYTES_MAX {
        true => Cow::Borrowed(name),
        false => Cow::Owned(present),
    }
}
