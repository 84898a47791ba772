//! A moment of the database that stays readable.
//!
//! It keeps old versions from being forgotten for as long as it lives; it copies nothing.

use crate::{
    family::Family,
    read::{Read, Source, sealed::Sealed},
};
use siltdb_base::error::{Error, Result};
use siltdb_engine::snapshots::LiveSnapshot;
use std::{fmt, sync::Arc};

/// The state of all families at one moment.
///
/// Reading from it directly reads the default family; [`Snapshot::family`] reads the others.
/// Cloning is cheap; the moment is let go with the last clone. It keeps the database open.
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
#[derive(Clone)]
pub struct Snapshot {
    source: Source,
    live: Arc<LiveSnapshot>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&self.source).finish()
    }
}

impl Snapshot {
    pub(crate) fn new(default: &Source, live: LiveSnapshot) -> Self {
        let source = Source { sequence: Some(live.sequence()), ..default.clone() };
        Self { source, live: Arc::new(live) }
    }

    /// A family at this moment. It stays readable when the family is dropped.
    ///
    /// # Errors
    /// `InvalidArgument`, if the family is of another open database.
    pub fn family(&self, family: &Family) -> Result<Self> {
        if family.source.instance != self.source.instance {
            return Err(Error::invalid("the family is of another open database than the snapshot"));
        }
        let source = Source { sequence: self.source.sequence, ..family.source.clone() };
        Ok(Self { source, live: Arc::clone(&self.live) })
    }

    /// The number of operations that happened before this moment, since the database was created.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.live.sequence().0
    }
}

impl Sealed for Snapshot {}

impl Read for Snapshot {
    fn source(&self) -> &Source {
        &self.source
    }
}
