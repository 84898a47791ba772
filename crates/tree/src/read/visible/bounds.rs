//! The keys an iterator may show.
//!
//! It does not position anything.

use siltdb_base::slice::Slice;
use siltdb_disk::table::Reach;
use std::sync::Arc;

/// A range of user keys; a missing bound is no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The first key of the range.
    pub lower: Option<Slice>,
    /// The first key after the range.
    pub upper: Option<Slice>,
}

impl Bounds {
    /// All keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> Self {
        // The first key after the prefix: its last byte that can grow, grown, and nothing after it.
        let upper = prefix.iter().rposition(|&byte| byte < u8::MAX).map(|last| {
            let mut upper = prefix[..=last].to_vec();
            upper[last] += 1;
            Slice::from(upper)
        });
        Self { lower: Some(Slice::copy_from(prefix)), upper }
    }

    /// The bounds as a cursor over a table takes them; `None` if there are none.
    #[must_use]
    pub fn reach(&self) -> Option<Arc<Reach>> {
        let Self { lower, upper } = self.clone();
        (lower.is_some() || upper.is_some()).then(|| Arc::new(Reach { lower, upper }))
    }

    /// Whether `key` lies before the range.
    #[inline]
    #[must_use]
    pub fn is_before(&self, key: &[u8]) -> bool {
        self.lower.as_ref().is_some_and(|lower| key < lower.as_bytes())
    }

    /// Whether `key` lies after the range.
    #[inline]
    #[must_use]
    pub fn is_after(&self, key: &[u8]) -> bool {
        self.upper.as_ref().is_some_and(|upper| key >= upper.as_bytes())
    }
}
