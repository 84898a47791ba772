//! Checkpoints of chosen families, by copies, at a limited rate.

use crate::{db::Db, follower::Follower};
use siltdb_base::error::Result;
use siltdb_engine::kit::copying::CopyProgress;
use siltdb_services::checkpoint::{Checkpoint, CheckpointRequest, Sharing, checkpoint};
use std::{ops::ControlFlow, path::Path};

/// How [`Db::checkpoint_with`] makes a checkpoint.
#[derive(Clone, Debug, Default)]
pub struct CheckpointOptions {
    request: CheckpointRequest,
}

impl CheckpointOptions {
    /// All families, by hard links where the file system can link, as fast as possible.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of the families that the checkpoint holds. The family `default` is always there,
    /// and empty unless it is named. Such a checkpoint takes no log: what is in memory is flushed
    /// first. Default: all families.
    #[must_use]
    pub fn families<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.request.families = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The branch whose families the checkpoint holds, all or those of
    /// [`CheckpointOptions::families`], as families of its own. The checkpoint has no branches.
    /// What is in memory is flushed first. Default: the database itself, with its branches unless
    /// families are named.
    #[must_use]
    pub fn branch(mut self, name: impl Into<String>) -> Self {
        self.request.branch = Some(name.into());
        self
    }

    /// Whether table files are copied also where they could be linked. Then damage to a file is
    /// that of one database. Default: no.
    #[must_use]
    pub fn copy(mut self, copies: bool) -> Self {
        self.request.sharing = if copies { Sharing::Copies } else { Sharing::Links };
        self
    }

    /// Bytes of table files copied a second, at most; from 1 on. Default: no limit.
    #[must_use]
    pub fn rate(mut self, bytes: u64) -> Self {
        self.request.rate = Some(bytes);
        self
    }
}

impl Db {
    /// Makes a second database with the contents of this one in the directory `dir`, which must be
    /// missing or empty. It has every commit that was acknowledged before the call, and is durable
    /// on return. Reads and writes go on meanwhile. Later writes to one database do not appear in
    /// the other.
    ///
    /// Cost: a hard link for each table file, or a copy where the file system cannot link, as to
    /// another disk. The part of the log that is not flushed is copied, and a few files are synced.
    /// A linked file takes its space once, as long as either database uses it. Damage to it affects
    /// both: a checkpoint on the same disk is no backup.
    ///
    /// Until it is complete, the directory is called `DIR.partial`. A checkpoint that fails removes
    /// it. A killed one leaves it behind, and the next checkpoint in `dir` replaces it.
    ///
    /// # Errors
    /// `AlreadyExists`, if `dir` is not free; `Locked`, while another checkpoint is made there;
    /// `NoSpace`, `ReadOnly`, `Poisoned`, `Closed`, `Io`. After an error this database is
    /// unchanged, and `dir` does not exist. Only if the last step fails, the sync of the
    /// directory's name, `dir` may exist.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let (path, copy) = (dir.path().join("data"), dir.path().join("copy"));
    /// use siltdb::{Db, Read};
    ///
    /// let db = Db::open(path)?;
    /// db.put(b"key", b"before")?;
    /// db.checkpoint(&copy)?;
    /// db.put(b"key", b"after")?;
    /// assert_eq!(Db::open(&copy)?.get(b"key")?.as_deref(), Some(&b"before"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Checkpoint> {
        self.checkpoint_with(dir, &CheckpointOptions::new(), &mut |_| ControlFlow::Continue(()))
    }

    /// Makes a checkpoint as [`Db::checkpoint`] does, of chosen families, or of copies, and tells
    /// of its progress. `on_progress` is called after each file, and while a file is copied; by
    /// `Break` it cancels the checkpoint.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let (path, copy) = (dir.path().join("data"), dir.path().join("copy"));
    /// use siltdb::{CheckpointOptions, Db, FamilyOptions};
    /// use std::ops::ControlFlow;
    ///
    /// let db = Db::open(path)?;
    /// db.create_family("users", FamilyOptions::new())?.put("ada", "1815")?;
    /// db.create_family("sessions", FamilyOptions::new())?;
    /// let options = CheckpointOptions::new().families(["users"]);
    /// db.checkpoint_with(&copy, &options, &mut |_| ControlFlow::Continue(()))?;
    /// assert_eq!(Db::list_families(&copy)?, ["default", "users"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::checkpoint`]; `NotFound`, if there is no such family or branch; `InvalidArgument`,
    /// for a rate of 0; `Cancelled`. `dir` does not exist then.
    pub fn checkpoint_with(
        &self,
        dir: impl AsRef<Path>,
        options: &CheckpointOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<Checkpoint> {
        let (dir, request) = (dir.as_ref(), &options.request);
        self.engine().at_work(|database| checkpoint(database, dir, request, on_progress))
    }
}

impl Follower {
    /// Catches up, and makes a second database with the contents of that state in the directory
    /// `dir`, which must be missing or empty, as [`Db::checkpoint`] does. What is in memory is
    /// written to tables there, and the checkpoint has no log. Nothing is written to the database.
    ///
    /// # Errors
    /// As [`Db::checkpoint`] and [`Follower::catch_up`]; `Busy`, as for [`Follower::backup`].
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<Checkpoint> {
        let options = CheckpointOptions::new();
        self.checkpoint_with(dir, &options, &mut |_| ControlFlow::Continue(()))
    }

    /// Makes a checkpoint as [`Follower::checkpoint`] does, of chosen families, or of copies, and
    /// tells of its progress. `on_progress` cancels by `Break`.
    ///
    /// # Errors
    /// As [`Db::checkpoint_with`] and [`Follower::checkpoint`].
    pub fn checkpoint_with(
        &self,
        dir: impl AsRef<Path>,
        options: &CheckpointOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<Checkpoint> {
        self.follower.checkpoint(dir.as_ref(), &options.request, on_progress)
    }
}
