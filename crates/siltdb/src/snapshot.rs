//! Snapshots: states of the database that stay readable.
//!
//! A snapshot copies nothing. Compactions keep the versions that it can see.

use crate::{
    family::Family,
    read::Read,
    source::{Pinned, ReadPlace, ReadSource},
};
use siltdb_base::{
    error::{Error, Result},
    slice::Pinnable,
};
use siltdb_engine::snapshots::LiveSnapshot;
use std::{fmt, sync::Arc};

/// The state of all families at one sequence number, and at the time when it was taken: nothing
/// expires in it.
///
/// Its reads go to the default family; [`Snapshot::family`] gives the others. Cloning is cheap, and
/// the last drop releases the state. A snapshot keeps the database open.
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
    place: ReadPlace,
    live: Arc<LiveSnapshot>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.describe(f, "Snapshot").finish()
    }
}

impl Snapshot {
    pub(crate) fn new(default: &ReadPlace, live: LiveSnapshot) -> Self {
        let place = ReadPlace { point: Some(live.point()), ..default.clone() };
        Self { place, live: Arc::new(live) }
    }

    pub(crate) fn live(&self) -> &LiveSnapshot {
        &self.live
    }

    /// Returns the state of `family` in this snapshot. It stays readable when the family is
    /// dropped.
    ///
    /// # Errors
    /// `InvalidArgument`, if the family is of another open database.
    pub fn family(&self, family: &Family) -> Result<Self> {
        if family.place.open_id != self.place.open_id {
            return Err(Error::invalid("the family is of another open database than the snapshot"));
        }
        let place = ReadPlace { point: self.place.point.clone(), ..family.place.clone() };
        Ok(Self { place, live: Arc::clone(&self.live) })
    }

    /// Returns the snapshot's sequence number: the number of operations before it since the
    /// database was created, and of [notes of expiry](crate::Stats::expiry_notes).
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.live.sequence().0
    }
}

impl ReadSource for Snapshot {
    #[inline]
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        self.place.look(key, look)
    }

    fn pin(&self) -> Result<Pinned> {
        self.place.pin()
    }
}

impl Read for Snapshot {}
