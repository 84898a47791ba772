//! Reads of a transaction that its commit does not validate.

use super::Transaction;
use crate::{
    read::Read,
    source::{Pinned, ReadSource},
};
use siltdb_base::{error::Result, slice::Pinnable};
use std::fmt;

/// Reads like its [`Transaction`], but the commit does not validate what it read. Made by
/// [`Transaction::snapshot_reads`].
#[derive(Clone)]
pub struct SnapshotReads {
    transaction: Transaction,
}

impl fmt::Debug for SnapshotReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SnapshotReads").field(&self.transaction).finish()
    }
}

impl Transaction {
    /// Returns a handle that reads the same state, own writes included, but does not add to what
    /// the commit validates. So a commit of another transaction that changes what was read is no
    /// conflict. FoundationDB calls them snapshot reads.
    ///
    /// Take it for reads whose exact result does not matter to the writes: a hint, a place to begin
    /// a search, a statistic. What the writes depend on is read by the transaction itself, or
    /// locked. Below [`RepeatableRead`](crate::Isolation::RepeatableRead) and at
    /// [`Snapshot`](crate::Isolation::Snapshot) no read is validated, and the handle reads as the
    /// transaction does.
    ///
    /// Costs as the reads of the transaction, without the memory for what was read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Isolation, Read};
    ///
    /// db.put("job:1", "sweep")?;
    /// db.put("job:2", "wash")?;
    /// let transaction = db.begin(Isolation::Serializable);
    /// // Which job is the second, about? A new one before it does not matter.
    /// let jobs = transaction.snapshot_reads();
    /// let (second, _) = jobs.prefix("job:")?.nth(1).expect("there are two")?;
    /// // That it is still there does.
    /// assert!(transaction.take(&second)?.is_some());
    /// db.put("job:0", "cook")?;
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn snapshot_reads(&self) -> SnapshotReads {
        SnapshotReads { transaction: self.clone() }
    }
}

impl ReadSource for SnapshotReads {
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        self.transaction.sight()?.without_reads().look(key, look)
    }

    fn pin(&self) -> Result<Pinned> {
        self.transaction.sight()?.without_reads().pin()
    }
}

impl Read for SnapshotReads {}
