//! History: a retention floor that survives reopening, and the states from it on.
//!
//! Reads at such a state are those of a [`Snapshot`].

use crate::{db::Db, snapshot::Snapshot};
use siltdb_base::{error::Result, id::SequenceNumber};
use siltdb_engine::{
    copies::retention::{FloorChange, set_floor},
    read::begin_snapshot_at,
};

/// A retention floor to set: the sequence number from which on every version of every key is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionFloor {
    /// The sequence number of the last commit.
    Now,
    /// This sequence number: at least the present floor, and at most that of the last commit.
    Sequence(u64),
    /// No floor: versions that no snapshot sees are dropped again.
    None,
}

impl Db {
    /// Sets the retention floor, and returns it. It holds for all families and survives a close, a
    /// kill and a power loss; so does every commit up to it. Checkpoints, backups and followers
    /// have it, too.
    ///
    /// From the floor on nothing is dropped, so the database grows with each write. Dropping a
    /// family drops its history as well. A higher floor, or none, lets compactions free the space
    /// between; [`Db::compact`] frees it at once. Without a floor nothing costs more.
    ///
    /// Cost: a sync of the log, or a flush if there are
    /// [`Volatile`](crate::Durability::Volatile) commits, and an edit of the manifest.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Read, RetentionFloor};
    ///
    /// db.set_retention_floor(RetentionFloor::Now)?;
    /// db.put("price", "10")?;
    /// let monday = db.snapshot().sequence();
    /// db.put("price", "12")?;
    /// db.compact()?;
    ///
    /// assert_eq!(db.snapshot_at(monday)?.get("price")?.as_deref(), Some(&b"10"[..]));
    /// db.set_retention_floor(RetentionFloor::None)?;
    /// assert!(db.snapshot_at(monday).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound`, if the number is below the present floor, or, without a floor, below that of the
    /// last commit; the error names the smallest one. `InvalidArgument`, if it is above that of the
    /// last commit; as [`Db::flush`]. The floor is the one before, unless the error is `Poisoned`.
    pub fn set_retention_floor(&self, floor: RetentionFloor) -> Result<Option<u64>> {
        let change = match floor {
            RetentionFloor::Now => FloorChange::Present,
            RetentionFloor::Sequence(sequence) => FloorChange::At(SequenceNumber(sequence)),
            RetentionFloor::None => FloorChange::Off,
        };
        let set = self.engine().at_work(|database| set_floor(&database.job_rooms(), change))?;
        Ok(set.map(|floor| floor.0))
    }

    /// Returns the retention floor, if there is one.
    #[must_use]
    pub fn retention_floor(&self) -> Option<u64> {
        self.engine().database().snapshots.floor().map(|floor| floor.0)
    }

    /// Returns the state of all families after the operation with the number `sequence`, which must
    /// not be below the retention floor. It can only be read, like any snapshot.
    ///
    /// Numbers that end a commit come from [`Snapshot::sequence`],
    /// [`CommitInfo`](crate::CommitInfo) and [`Commit`](crate::Commit). A number within a batch is
    /// exact as well: the state has the operations of the batch up to that number.
    ///
    /// - A family that was created later is there and empty. A clone shows what its source held. A
    ///   family that was dropped since is gone with its history. Families have their present names.
    /// - A value whose time has passed is absent at every number.
    /// - Merge operands are folded as of that number, with the present merge operator.
    ///
    /// # Errors
    /// `NotFound`, if the number is below the floor, or, without a floor, below that of the last
    /// commit; the error names the smallest one. `InvalidArgument`, if it is above that of the last
    /// commit.
    pub fn snapshot_at(&self, sequence: u64) -> Result<Snapshot> {
        let live =
            begin_snapshot_at(&self.engine().database().read_rooms(), SequenceNumber(sequence))?;
        Ok(Snapshot::new(&self.default.place, live))
    }
}
