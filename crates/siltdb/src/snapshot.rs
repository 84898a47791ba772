//! A moment of the database that stays readable.
//!
//! It keeps old versions from being forgotten for as long as it lives; it copies nothing.

use crate::{
    family::Family,
    read::{Read, Source},
};
use siltdb_engine::snapshots::LiveSnapshot;
use std::sync::Arc;

/// The state of all families at one moment.
///
/// Reading from it directly reads the default family; [`Snapshot::family`] reads the others.
/// Cloning is cheap; the moment is let go with the last clone.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::Read;
///
/// db.put(b"k", b"before")?;
/// let snapshot = db.snapshot();
/// db.put(b"k", b"after")?;
/// assert_eq!(snapshot.get(b"k")?.as_deref(), Some(&b"before"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    source: Source,
    live: Arc<LiveSnapshot>,
}

impl Snapshot {
    pub(crate) fn new(default: &Source, live: LiveSnapshot) -> Self {
        let source = Source { sequence: Some(live.sequence()), ..default.clone() };
        Self { source, live: Arc::new(live) }
    }

    /// A family at this moment.
    #[must_use]
    pub fn family(&self, family: &Family) -> Self {
        let source = Source { sequence: self.source.sequence, ..family.source.clone() };
        Self { source, live: Arc::clone(&self.live) }
    }

    /// The number of operations that happened before this moment, since the database was created.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.live.sequence().0
    }
}

impl Read for Snapshot {
    fn source(&self) -> &Source {
        &self.source
    }
}
