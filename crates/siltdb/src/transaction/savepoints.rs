//! Savepoints of a transaction: named marks in its writes.

use super::{Savepoint, State, Transaction};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    seeded_fault,
};

impl State {
    fn find_savepoint(&self, name: &str) -> Result<usize> {
        let is_named = |savepoint: &Savepoint| savepoint.name == name;
        self.savepoints.iter().rposition(is_named).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("no savepoint is called {name:?}"))
        })
    }
}

impl Transaction {
    /// Marks the present writes with a name, for [`rollback_to`](Self::rollback_to). A second
    /// savepoint of the same name hides the first until it is released.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Isolation, Read};
    ///
    /// let transaction = db.begin(Isolation::Snapshot);
    /// transaction.put("a", "1")?;
    /// transaction.savepoint("before b")?;
    /// transaction.put("b", "2")?;
    /// transaction.rollback_to("before b")?;
    /// transaction.commit()?;
    /// assert!(db.contains("a")? && !db.contains("b")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if the transaction has ended.
    pub fn savepoint(&self, name: &str) -> Result<()> {
        let mut state = self.shared.active()?;
        let mark = state.writes.mark();
        state.savepoints.push(Savepoint { name: name.to_owned(), mark });
        Ok(())
    }

    /// Discards the writes since the newest savepoint of this name. That savepoint stays; later
    /// ones are released. Reads stay recorded, and locks are kept.
    ///
    /// # Errors
    /// `NotFound`, if there is no such savepoint; `InvalidArgument`, if the transaction has ended.
    pub fn rollback_to(&self, name: &str) -> Result<()> {
        let mut state = self.shared.active()?;
        let index = state.find_savepoint(name)?;
        let mark = state.savepoints[index].mark;
        state.savepoints.truncate(index + 1);
        state.writes.truncate(mark);
        // Cursors still walk the previous memtables, so these stay unchanged.
        state.indexed.clear();
        if seeded_fault!("savepoint_forgets_reads") {
            state.reads = Default::default();
        }
        Ok(())
    }

    /// Releases the newest savepoint of this name and those after it. The writes stay.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`].
    pub fn release(&self, name: &str) -> Result<()> {
        let mut state = self.shared.active()?;
        let index = state.find_savepoint(name)?;
        state.savepoints.truncate(index);
        Ok(())
    }
}
