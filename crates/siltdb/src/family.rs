//! A family: a named ordered map inside a database.
//!
//! A handle is cheap to clone and stays valid when the family is renamed.

use crate::read::{Read, Source};
use siltdb_base::{error::Result, id::FamilyId, key::EntryKind};
use siltdb_engine::{
    commit::Payload,
    stats::{Stats, family_stats},
};

/// A handle on a family.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{FamilyOptions, Read};
///
/// let users = db.create_family("users", FamilyOptions::new())?;
/// users.put(b"alice", b"1")?;
/// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(db.get(b"alice")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Family {
    pub(crate) source: Source,
}

impl Family {
    pub(crate) fn id(&self) -> FamilyId {
        self.source.family.id
    }

    /// What it is called now.
    #[must_use]
    pub fn name(&self) -> String {
        self.source.family.name().to_string()
    }

    /// Sets the value of a key. Durable as the database was opened for.
    ///
    /// A buffered put makes no system call; it costs a copy into the log and an insert into memory.
    ///
    /// # Errors
    /// `InvalidArgument`, if key or value are too long; `NotFound`, if the family was dropped;
    /// `NoSpace`, `Poisoned`, `Closed`; the system's. Nothing was then written, except that after
    /// `Poisoned` it may be visible, and found or not when the database is reopened.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.apply(EntryKind::Put, key.as_ref(), value.as_ref())
    }

    /// Deletes a key, whether it exists or not. Durable as the database was opened for.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.apply(EntryKind::Delete, key.as_ref(), b"")
    }

    /// Deletes every key from `start` up to, but not including, `end`, at the cost of one write.
    ///
    /// # Errors
    /// As [`Family::put`].
    pub fn delete_range(&self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        let (start, end) = (start.as_ref(), end.as_ref());
        if start >= end {
            return Ok(());
        }
        self.apply(EntryKind::RangeDelete, start, end)
    }

    /// What the family holds, counted now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        family_stats(&self.source.family)
    }

    #[inline]
    fn apply(&self, kind: EntryKind, key: &[u8], value: &[u8]) -> Result<()> {
        let operation = Payload::one(&self.source.family, kind, key, value);
        self.source.engine.commit(&operation, None)
    }

    /// Merges all tables of the family into the deepest level and forgets what nobody can see.
    /// Writes what is in memory first; the other families stay as they are. What is written to the
    /// family meanwhile need not get there.
    ///
    /// # Errors
    /// `NotFound`, if it was dropped; `NoSpace`, `Poisoned`, `Closed`; `Corruption`, if a table is
    /// damaged; the system's.
    pub fn compact(&self) -> Result<()> {
        self.source.engine.compact(&self.source.family)
    }
}

impl Read for Family {
    fn source(&self) -> &Source {
        &self.source
    }
}
