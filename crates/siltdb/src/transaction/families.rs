//! Families that a transaction creates and drops, and batches that it applies.

use super::Transaction;
use crate::{batch::WriteBatch, family::Family};
use siltdb_base::error::Result;

impl Transaction {
    /// Adds all operations of a batch to the writes, and its changes of families, whatever family
    /// this handle is for.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Isolation, Read, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(&db.default_family(), "a", "1")?;
    /// let transaction = db.begin(Isolation::Serializable);
    /// transaction.apply(&batch)?;
    /// assert!(transaction.contains("a")? && !db.contains("a")?);
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`WriteBatch::append`]; `InvalidArgument`, if the transaction has ended or exceeds its
    /// memory. After an error nothing was added.
    pub fn apply(&self, batch: &WriteBatch) -> Result<()> {
        batch.check_database(self.place.place.open_id)?;
        self.write(|writes, _| writes.append(batch))
    }

    /// Creates a family of [`Db::prepare_family`](crate::Db::prepare_family) when the transaction
    /// commits. Until then only this transaction writes to it and reads what it wrote. The commit
    /// is durable on return, as one by [`WriteBatch::create_family`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{FamilyOptions, Isolation, Read};
    ///
    /// let users = db.prepare_family("users", FamilyOptions::new())?;
    /// let transaction = db.begin(Isolation::Serializable);
    /// transaction.create_family(&users)?;
    /// transaction.put("table:users", "id, name")?;
    /// transaction.family(&users)?.put("1", "alice")?;
    /// transaction.commit()?;
    /// assert!(users.contains("1")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`WriteBatch::create_family`]; `InvalidArgument`, if the transaction has ended. The
    /// commit fails with `AlreadyExists` if another has created a family of its name since.
    pub fn create_family(&self, family: &Family) -> Result<()> {
        self.write(|writes, _| writes.create_family(family))
    }

    /// Drops a family when the transaction commits, after its operations. Until then all read it,
    /// this transaction, too.
    ///
    /// # Errors
    /// As [`WriteBatch::drop_family`]; `InvalidArgument`, if the transaction has ended. The commit
    /// fails with `NotFound` if another has dropped it since.
    pub fn drop_family(&self, family: &Family) -> Result<()> {
        self.write(|writes, _| writes.drop_family(family))
    }
}
