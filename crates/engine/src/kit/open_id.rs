//! Ids that distinguish the open databases of a process.
//!
//! They are not on disk.

use std::sync::atomic::{AtomicU64, Ordering};

/// The id of an open database. No two databases that this process opens have the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenId(u64);

impl OpenId {
    /// An id that was not used before.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: a number carries no other data with it.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
