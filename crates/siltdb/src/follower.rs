//! Followers: reading a database that another process has open for writing.
//!
//! A follower shows states, each as a read-only [`Db`]; it has no thread of its own and catches up
//! when it is told to.

use crate::{
    db::Db,
    options::Options,
    subscription::{SubscribeOptions, Subscription},
};
use siltdb_base::{error::Result, id::SequenceNumber};
use siltdb_services::follow::follower::DatabaseFollower;
use std::{fmt, path::Path, sync::Arc, time::Duration};

/// A read-only opening beside a writer, which may be another process.
///
/// It takes no lock, writes no byte and creates no file, so the writer cannot notice it. Any number
/// of followers may follow one database, with or without a writer.
///
/// [`Follower::db`] is a state: a read-only [`Db`] that holds what the writer had committed up to
/// one sequence number, and that never changes. A state has whole batches only. Each
/// [`Follower::catch_up`] that finds something new makes a later state; handles of earlier ones
/// stay valid. A commit is in a state as soon as it is in the writer's log. That may be before it
/// is durable, and before it is acknowledged. Commits with
/// [`Durability::Volatile`](crate::Durability::Volatile) are not in the log: they show with the
/// flush that writes them to tables.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use siltdb::{Db, Read};
///
/// // In one process:
/// let writer = Db::open(dir.path())?;
/// writer.put("k", "v")?;
///
/// // In another:
/// let follower = Db::open_follower(dir.path())?;
/// let before = follower.db();
/// assert_eq!(before.get("k")?.as_deref(), Some(&b"v"[..]));
///
/// writer.put("k", "w")?;
/// follower.catch_up()?;
/// assert_eq!(follower.db().get("k")?.as_deref(), Some(&b"w"[..]));
/// assert_eq!(before.get("k")?.as_deref(), Some(&b"v"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Cost: the memtables of the writer a second time, a cache of its own, and an open file for each
/// table. Catching up costs a look at each file of the directory, the new part of the log, and, if
/// tables have changed, the manifest.
#[derive(Clone)]
pub struct Follower {
    pub(crate) follower: Arc<DatabaseFollower>,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.follower.state();
        f.debug_struct("Follower")
            .field("database", &state.database().dir)
            .field("sequence", &state.database().log.publisher.published().0)
            .finish()
    }
}

impl Db {
    /// Opens a follower of the database in the directory `path` with the default options. The
    /// database may be open in another process, or in this one.
    ///
    /// # Errors
    /// As [`Options::open_follower`].
    pub fn open_follower(path: impl AsRef<Path>) -> Result<Follower> {
        Options::new().open_follower(path)
    }
}

impl Options {
    /// Opens a follower of the database in the directory `path`, and catches up. The options that
    /// count are those of memory and reading, merge operators, file system and clock. A family
    /// whose merge operator is not given can be read, except for merged keys.
    ///
    /// # Errors
    /// `NotFound`, if there is no database; as [`Follower::catch_up`].
    pub fn open_follower(self, path: impl AsRef<Path>) -> Result<Follower> {
        let follower = DatabaseFollower::open(path.as_ref(), self.engine)?;
        Ok(Follower { follower: Arc::new(follower) })
    }
}

impl Follower {
    /// Applies what the writer's manifest and log hold now. Returns the sequence number of the last
    /// commit that [`Follower::db`] has then. It never decreases. Every logged commit that has
    /// returned before the call is part of it.
    ///
    /// # Errors
    /// `Corruption`, with file and offset: damage that was there in several readings. What the
    /// writer removes or reuses meanwhile is no damage. `Busy`, if the writer changes files faster
    /// than they can be read: call again. `Poisoned`, if the database has lost commits that were
    /// shown, because a sync of the writer failed, or because the database was replaced: open a
    /// new follower. `NotFound`, if the database was removed; `Unsupported`; the system's. After an
    /// error the state is the one before.
    pub fn catch_up(&self) -> Result<u64> {
        self.follower.catch_up().map(|last| last.0)
    }

    /// Catches up until the state has `sequence`, as
    /// [`Transaction::commit`](crate::Transaction::commit) and
    /// [`Snapshot::sequence`](crate::Snapshot::sequence) of the writer name it. Returns whether it
    /// has, after `timeout` at the latest. Between attempts it sleeps for a millisecond, or for as
    /// long as the last one took.
    ///
    /// # Errors
    /// As [`Follower::catch_up`], but for `Busy`.
    pub fn wait_for(&self, sequence: u64, timeout: Duration) -> Result<bool> {
        self.follower.wait_for(SequenceNumber(sequence), timeout)
    }

    /// The sequence number of the last commit that [`Follower::db`] has.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.follower.state().database().log.publisher.published().0
    }

    /// The state of the last catching up, as a database that can be read and never changes. Calls
    /// that write fail with `ReadOnly`.
    ///
    /// Its table files stay open as long as it lives. A process with fewer descriptors than tables
    /// closes some of them; if the writer has removed such a file, a read fails with `Busy`, and a
    /// later state can be read.
    #[must_use]
    pub fn db(&self) -> Db {
        Db::of_engine(self.follower.state()).expect("a follower checks that each state has it")
    }

    /// The commits of the writer, in their order, as [`Db::subscribe`] gives them to the writer
    /// itself. A commit may come before a state has it.
    ///
    /// A subscription of a follower keeps no log: what the writer has flushed and reused before it
    /// was read comes as [`Event::Unlogged`](crate::Event::Unlogged). By default it begins behind
    /// the state of the follower.
    ///
    /// # Errors
    /// `NotFound`, if the log does not reach back that far: it has what is not flushed.
    /// `InvalidArgument`, if the sequence number is beyond the next commit of the state; as
    /// [`Follower::catch_up`].
    pub fn subscribe(&self, options: &SubscribeOptions) -> Result<Subscription> {
        let next = self.follower.state().database().log.publisher.published().next();
        Ok(Subscription::to_log(self.follower.feed(options.first(next))?, options))
    }
}
