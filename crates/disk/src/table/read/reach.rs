//! How far a cursor may go: the keys beyond which it reads no block.
//!
//! It hides no entry: of a block that is partly within, a cursor shows all.

use siltdb_base::slice::Slice;

/// A range of user keys; a missing bound is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The first key within.
    pub lower: Option<Slice>,
    /// The first key after it.
    pub upper: Option<Slice>,
}

impl Reach {
    /// Whether none of the keys from `first` to `last` is within.
    #[must_use]
    pub fn excludes(&self, first: &[u8], last: &[u8]) -> bool {
        self.lower.as_ref().is_some_and(|lower| last < lower.as_bytes())
            || self.upper.as_ref().is_some_and(|upper| first >= upper.as_bytes())
    }

    /// The keys that are within both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let lower = self.lower.as_ref().max(other.lower.as_ref()).cloned();
        let upper = match (&self.upper, &other.upper) {
            (Some(upper), Some(other)) => Some(upper.min(other).clone()),
            (upper, other) => upper.as_ref().or(other.as_ref()).cloned(),
        };
        Self { lower, upper }
    }
}
