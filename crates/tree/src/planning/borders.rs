//! Stretches of keys between two borders.

use siltdb_base::slice::Slice;
use siltdb_disk::table_meta::KeySpan;

/// Keys from `lower` on and before `upper`; a missing border is none.
#[derive(Clone, Debug, Default)]
pub struct Borders {
    /// The first key.
    pub lower: Option<Slice>,
    /// The first key after them.
    pub upper: Option<Slice>,
}

impl Borders {
    /// Whether a key of `range` may lie within them.
    #[must_use]
    pub fn overlap(&self, range: &KeySpan) -> bool {
        let is_before = self.lower.as_ref().is_some_and(|lower| range.is_before(lower));
        let is_behind = self.upper.as_ref().is_some_and(|upper| range.first >= *upper);
        !is_before && !is_behind
    }

    /// The stretches that ascending `keys` cut all keys into.
    pub fn between(keys: Vec<Slice>) -> impl Iterator<Item = Self> {
        let mut lower = None;
        keys.into_iter().map(Some).chain([None]).map(move |upper| {
            let borders = Self { lower: lower.take(), upper: upper.clone() };
            lower = upper;
            borders
        })
    }
}
