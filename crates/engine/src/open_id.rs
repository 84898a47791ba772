//! Telling the open databases of a process apart.
//!
//! Nothing of it is on disk.

use std::sync::atomic::{AtomicU64, Ordering};

/// An open database, other than any that the process has opened or will open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenId(u64);

impl OpenId {
    /// One that there was not before.
    #[must_use]
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: a number carries no other data with it.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
