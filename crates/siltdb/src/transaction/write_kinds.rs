//! Less common writes of a transaction: with an expiry at a fixed time, and single deletes.

use super::Transaction;
use siltdb_base::error::Result;
use std::time::SystemTime;

impl Transaction {
    /// Sets the value of a key, which expires at `expiry`; see
    /// [`WriteBatch::put_until`](crate::WriteBatch::put_until).
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: SystemTime,
    ) -> Result<()> {
        self.write(|writes, family| writes.put_until(family, key, value, expiry))
    }

    /// Deletes a key that was put exactly once; see
    /// [`WriteBatch::single_delete`](crate::WriteBatch::single_delete), which says when it may be
    /// used.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(|writes, family| writes.single_delete(family, key))
    }
}
