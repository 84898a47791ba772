//! What is locked, for whom and how: owners, modes, keys and ranges, and requests for them.

use crate::lock_state::lock_table::range_set::Span;
use siltdb_base::{
    id::FamilyId,
    slice::Slice,
    sync::atomic::{AtomicBool, Ordering},
};
use siltdb_tree::read::visible::bounds::Bounds;
use std::{fmt, ops::Bound, sync::Arc};

/// The maximum size of a key in an error message, in bytes.
const SHOWN_BYTES_MAX: usize = 64;

/// Whether locks of several owners may cover the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Other shared locks may cover it too; no owner may write it.
    Shared,
    /// No other lock may cover it.
    Exclusive,
}

impl LockMode {
    /// Whether two locks of these modes on one key exclude each other.
    #[must_use]
    pub fn conflicts(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

/// The number of an owner of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockOwner(pub u64);

/// Whether a family has locks. Every write checks it, so it has a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct LockFlag {
    family: FamilyId,
    is_set: AtomicBool,
}

impl LockFlag {
    /// The flag of a family without locks.
    #[must_use]
    pub fn new(family: FamilyId) -> Self {
        Self { family, is_set: AtomicBool::new(false) }
    }

    /// The family of the flag.
    #[must_use]
    pub fn family(&self) -> FamilyId {
        self.family
    }

    /// Whether writers must check the lock table.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Relaxed: the lock that orders sequence numbers orders it too (`locks`).
        self.is_set.load(Ordering::Relaxed)
    }

    /// Makes writers check the lock table. To be called with a lock of the family in the table.
    pub fn set(&self) {
        // Relaxed: as in `is_set`.
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// Lets writers pass. To be called without a lock of the family in the table.
    pub(super) fn clear(&self) {
        // Relaxed: a locker sets the flag after its lock is in the table, so this cannot clear the
        // flag of a new lock.
        self.is_set.store(false, Ordering::Relaxed);
    }
}

/// The keys that a lock covers.
#[derive(Clone, Debug)]
pub enum LockTarget {
    /// One key.
    Key(Slice),
    /// All keys within bounds, whether they exist or not.
    Range(Bounds),
}

impl LockTarget {
    /// Whether it covers no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Key(_) => false,
            Self::Range(Bounds { lower, upper }) => {
                let lower = lower.as_deref().unwrap_or_default();
                upper.as_deref().is_some_and(|upper| lower >= upper)
            }
        }
    }

    /// Its keys as an ordered map takes them; `None` if it covers none.
    #[must_use]
    pub fn span(&self) -> Option<Span<'_>> {
        if self.is_empty() {
            return None;
        }
        Some(match self {
            Self::Key(key) => (Bound::Included(key), Bound::Included(key)),
            Self::Range(Bounds { lower, upper }) => (
                lower.as_deref().map_or(Bound::Unbounded, Bound::Included),
                upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
            ),
        })
    }
}

impl fmt::Display for LockTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: &Option<Slice>| bound.as_ref().map_or("..".into(), |key| shown(key));
        match self {
            Self::Key(key) => write!(f, "the key {}", shown(key)),
            Self::Range(bounds) => {
                write!(f, "the keys from {} to {}", bound(&bounds.lower), bound(&bounds.upper))
            }
        }
    }
}

/// The start of a key, as errors show it.
pub(crate) fn shown(key: &[u8]) -> String {
    let start = &key[..key.len().min(SHOWN_BYTES_MAX)];
    let dots = if start.len() < key.len() { "..." } else { "" };
    format!("\"{}\"{dots}", start.escape_ascii())
}

/// A request for one lock.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// The flag of the family.
    pub flag: Arc<LockFlag>,
    /// The keys that it covers.
    pub target: LockTarget,
    /// Whether shared locks of others may cover the same keys.
    pub mode: LockMode,
}

impl fmt::Display for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of family {}", self.target, self.flag.family)
    }
}
