//! The engine: a handle on an open database and its threads, for the public crate.
//!
//! Calls that only read are in the rooms of [`Engine::database`]. Calls that write get theirs from
//! [`Engine::writable`], because they are refused to a forked child.

mod branching;
mod ingests;
mod streaming;
mod tiering;
mod transactions;
mod upkeep;

use crate::{
    catalog::branches::FamilyRole,
    catalog::family::FamilyData,
    copies::{family_clone, ingest},
    database::{Database, job_rooms::Waiting, writable::Writable},
    families::{family_commit, family_options},
    install, jobs,
    jobs::replayed,
    jobs::request::{self, CompactControl},
    jobs::workers::Workers,
    open::close::close_log,
    open::destroy::remove_open,
    open::recovery,
    options::{Access, Durability, EngineOptions, Lifetime},
    read::{
        ReadRange, begin_snapshot,
        feed::{Feed, FeedItem},
    },
    snapshots::LiveSnapshot,
    write::{
        commit::{self, Payload},
        log_sync,
        time_notes::TimeNotes,
    },
};
use siltdb_base::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    fs::FileLock,
    id::{FamilyId, SequenceNumber},
    process::Process,
    sync::lock,
};
use siltdb_tree::{
    options::TreeOptions,
    read::range_size::{RangeSize, range_size},
};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// An open database; cheap to clone. Dropping the last clone closes it.
#[derive(Clone, Debug)]
pub struct Engine {
    open: Arc<Open>,
}

#[derive(Debug)]
struct Open {
    /// The process that opened it. A forked child shares its files and must not write to them.
    process: Process,
    database: Arc<Database>,
    workers: Workers,
    /// Held while the database is being closed.
    closing_io: Mutex<Closing>,
}

#[derive(Debug)]
struct Closing {
    /// The lock of the directory; `None` once the database is closed.
    directory: Option<Box<dyn FileLock>>,
    /// The failure of the close.
    failure: Option<Error>,
}

/// The lock of a state that a follower has read: none.
#[derive(Debug)]
struct NoLock;

impl FileLock for NoLock {}

impl Engine {
    /// Opens the database in `dir`; see `recovery` for the steps.
    ///
    /// # Errors
    /// `Locked`, `NotFound`, `AlreadyExists`, `Corruption`, `Unsupported`, `InvalidArgument`; the
    /// system's.
    pub fn open(dir: &Path, options: EngineOptions) -> Result<Self> {
        let process = Process::current();
        let options = match options.access {
            Access::ReadWrite => options,
            // A database that is only read has no background work.
            Access::ReadOnly => EngineOptions { workers: 0, ..options },
        };
        let waiting = match (options.access, options.workers) {
            (Access::ReadOnly, _) => Waiting::RunJob(|_| Ok(false)),
            (Access::ReadWrite, 0) => Waiting::RunJob(jobs::next::make_room),
            (Access::ReadWrite, _) => Waiting::ForWorkers,
        };
        let (database, directory_lock) = recovery::open(dir, options, waiting)?;
        if database.options.access != Access::ReadOnly {
            ingest::pass_ingested(Writable::inside(&database))?;
            replayed::settle_replayed(&database.job_rooms())?;
        }
        let database = Arc::new(database);
        if database.options.access != Access::ReadOnly {
            database.time.note_in(Box::new(TimeNotes::new(process, &database)));
        }
        let workers = Workers::start(&database)?;
        let closing = Closing { directory: Some(directory_lock), failure: None };
        let closing_io = Mutex::new(closing);
        Ok(Self { open: Arc::new(Open { process, database, workers, closing_io }) })
    }

    /// An engine on a state that a follower has read. It holds no lock and has no threads.
    #[must_use]
    pub fn of_state(database: Database) -> Self {
        let (process, database) = (Process::current(), Arc::new(database));
        let closing = Closing { directory: Some(Box::new(NoLock)), failure: None };
        let (workers, closing_io) = (Workers::default(), Mutex::new(closing));
        Self { open: Arc::new(Open { process, database, workers, closing_io }) }
    }

    /// The database, for a call that reads.
    #[inline]
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.open.database
    }

    /// The database, for a call that writes or locks.
    ///
    /// # Errors
    /// `Forked`, in a forked child.
    #[inline]
    pub fn writable(&self) -> Result<Writable<'_>> {
        self.open.process.check()?;
        Ok(Writable::inside(&self.open.database))
    }

    /// Runs `work`, which may change files, on this thread. What works on a database from outside
    /// enters here.
    ///
    /// # Errors
    /// `Forked`, in a forked child; `ReadOnly`, `Poisoned`, `Closed`; the errors of `work`.
    pub fn at_work<T>(&self, work: impl FnOnce(Writable<'_>) -> Result<T>) -> Result<T> {
        let writable = self.writable()?;
        self.database().health.check()?;
        writable.installer().at_work(|| work(writable))
    }

    /// Runs `run` on another thread of the database. A panic there poisons the database. `run`
    /// returns soon after `background.ending` is set, because a close waits for it.
    ///
    /// # Errors
    /// `Io`, if the system cannot start a thread.
    pub fn start_thread(&self, name: &str, run: fn(Writable<'_>)) -> Result<()> {
        let run = move |database: &Database| run(Writable::inside(database));
        self.open.workers.spawn(&self.open.database, name, run)
    }

    /// Checks that `family` may be written.
    ///
    /// # Errors
    /// `NotFound`, if it was dropped; `Poisoned`, `Closed`.
    pub fn check_writable(&self, family: &FamilyData) -> Result<()> {
        self.writable()?;
        self.database().health.check()?;
        family.check()
    }

    /// Commits `payload` with `durability`, or with that of the options.
    ///
    /// # Errors
    /// As [`commit::commit`].
    #[inline]
    pub fn commit(&self, payload: &Payload<'_>, durability: Option<Durability>) -> Result<()> {
        let durability = durability.unwrap_or(self.database().options.durability);
        commit::commit(self.writable()?, payload, durability)
    }

    /// The newest published sequence number, up to which readers see.
    #[must_use]
    pub fn published(&self) -> SequenceNumber {
        self.database().log.publisher.published()
    }

    /// A feed of the commits from `first` on.
    ///
    /// # Errors
    /// As [`Feed::new`].
    pub fn feed(&self, first: Option<SequenceNumber>) -> Result<Feed> {
        Feed::new(self.database(), first)
    }

    /// The next commit of a feed of this database.
    ///
    /// # Errors
    /// As [`Feed::next`].
    pub fn feed_next(&self, feed: &mut Feed, timeout: Duration) -> Result<Option<FeedItem>> {
        feed.next(self.database(), timeout)
    }

    /// Registers a snapshot of the present state.
    #[must_use]
    pub fn snapshot(&self) -> LiveSnapshot {
        begin_snapshot(&self.database().read_rooms())
    }

    /// The family with this id.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn family_by_id(&self, id: FamilyId) -> Result<Arc<FamilyData>> {
        let is_open_to_callers = |family: &Arc<FamilyData>| family.role != FamilyRole::Base;
        self.database().catalog.families.get(id).filter(is_open_to_callers).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no family with this id").with_mismatch("a family", id)
        })
    }

    /// The names of the database's own families, sorted.
    #[must_use]
    pub fn family_names(&self) -> Vec<String> {
        self.database()
            .catalog
            .families
            .load()
            .own()
            .map(|family| family.name().to_string())
            .collect()
    }

    /// Changes the options of a family. Durable on return.
    ///
    /// # Errors
    /// As [`family_options::change_options`].
    pub fn change_options(&self, family: &FamilyData, options: TreeOptions) -> Result<()> {
        self.at_work(|database| {
            family_options::change_options(&database.installer(), family, options)
        })
    }

    /// The approximate size of a range of a family.
    ///
    /// # Errors
    /// `Closed`; `NotFound`, if the family was dropped; failures of opening a table.
    pub fn range_size(&self, family: &FamilyData, range: ReadRange) -> Result<RangeSize> {
        self.database().health.check_open()?;
        family.check()?;
        range_size(&family.tree.view(), &range.bounds())
    }

    /// Creates a family.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidArgument`; as [`install::install`].
    pub fn create_family(&self, name: &str, options: TreeOptions) -> Result<Arc<FamilyData>> {
        self.at_work(|database| install::create_family(&database.installer(), name, options))
    }

    /// Creates a family that holds what `source` holds now, or at a snapshot of this database.
    ///
    /// # Errors
    /// As [`family_clone::clone_family`].
    pub fn clone_family(
        &self,
        source: &FamilyData,
        name: &str,
        at: Option<&LiveSnapshot>,
    ) -> Result<Arc<FamilyData>> {
        self.at_work(|database| match at {
            Some(at) => family_clone::clone_family(&database.job_rooms(), source, name, at),
            None => {
                family_clone::clone_family(&database.job_rooms(), source, name, &self.snapshot())
            }
        })
    }

    /// Prepares a family that a commit can create.
    ///
    /// # Errors
    /// As [`family_commit::prepare_family`].
    pub fn prepare_family(&self, name: &str, options: TreeOptions) -> Result<Arc<FamilyData>> {
        self.at_work(|database| {
            family_commit::prepare_family(&database.database().catalog, name, options)
        })
    }

    /// Drops a family.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument`, for the default family; as [`install::install`].
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.at_work(|database| family_commit::drop_family(&database.installer(), name))
    }

    /// Renames a family.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `InvalidArgument`; as [`install::install`].
    pub fn rename_family(&self, name: &str, to: &str) -> Result<()> {
        self.at_work(|database| install::rename_family(&database.installer(), name, to))
    }

    /// Makes everything acknowledged so far durable.
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn sync_wal(&self) -> Result<()> {
        log_sync::sync_wal(&self.writable()?.installer())
    }

    /// Flushes all memtables to tables.
    ///
    /// # Errors
    /// The failure of a flush.
    pub fn flush(&self) -> Result<()> {
        self.at_work(|database| jobs::flush::flush_all(&database.job_rooms()))
    }

    /// Flushes the memtables of a family. Those of other families are flushed too, because they are
    /// frozen together. If the family has nothing in memory, nothing is written.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; the failure of a flush.
    pub fn flush_family(&self, family: &FamilyData) -> Result<()> {
        self.check_writable(family)?;
        if family.tree.view().memory.tables().is_empty() {
            return Ok(());
        }
        self.flush()
    }

    /// Merges the tables of a range of a family into one level.
    ///
    /// # Errors
    /// As [`Engine::compact_with`].
    pub fn compact_range(
        &self,
        family: &FamilyData,
        range: ReadRange,
        control: &mut CompactControl<'_>,
    ) -> Result<()> {
        control.token().check()?;
        self.flush_family(family)?;
        self.at_work(|database| {
            request::compact_range(&database.job_rooms(), family, &range.bounds(), control)
        })
    }

    /// Merges all tables of a family into one level.
    ///
    /// # Errors
    /// As [`Engine::compact_with`].
    pub fn compact(&self, family: &FamilyData) -> Result<()> {
        self.compact_with(family, &mut CompactControl::new(&CancelToken::new(), &mut |_| {}))
    }

    /// Merges all tables of a family into one level.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; `Cancelled`; the failure of a merge.
    pub fn compact_with(
        &self,
        family: &FamilyData,
        control: &mut CompactControl<'_>,
    ) -> Result<()> {
        // A forked child must not wait for locks that were held when it was forked.
        control.begin(&self.writable()?.database().background);
        control.token().check()?;
        let pause = family.tree.cancel_redundant()?;
        self.flush()?;
        self.at_work(|database| {
            request::compact_family(&database.job_rooms(), family, pause, control)
        })
    }

    /// Merges the tables of each family into one level.
    ///
    /// # Errors
    /// As [`Engine::compact_all_with`].
    pub fn compact_all(&self) -> Result<()> {
        self.compact_all_with(&mut CompactControl::new(&CancelToken::new(), &mut |_| {}))
    }

    /// Merges the tables of each family into one level.
    ///
    /// # Errors
    /// `Cancelled`; the failure of a merge.
    pub fn compact_all_with(&self, control: &mut CompactControl<'_>) -> Result<()> {
        // As in `compact`.
        let database = self.writable()?.database();
        control.begin(&database.background);
        let families = database.catalog.families.load();
        control.token().check()?;
        let first = families.iter().next();
        let mut cleared = first.map(|first| first.tree.cancel_redundant()).transpose()?;
        self.flush()?;
        self.at_work(|database| request::move_all(&database.installer(), &families))?;
        let rests = |family: &&Arc<FamilyData>| family.role == FamilyRole::Base;
        families.iter().filter(|family| !rests(family)).try_for_each(|family| {
            let pause = cleared.take().map_or_else(|| family.tree.cancel_redundant(), Ok)?;
            let compact = |database: Writable<'_>| {
                request::compact_family(&database.job_rooms(), family, pause, control)
            };
            self.at_work(compact).or_else(|error| match family.is_dropped() {
                true => Ok(()),
                false => Err(error),
            })
        })
    }

    /// Waits until no job is due, or runs the due ones.
    ///
    /// # Errors
    /// The failure of a job.
    pub fn settle(&self) -> Result<()> {
        self.at_work(|database| request::settle(&database.job_rooms()))
    }

    /// Runs one job on this thread, if one is due. Returns whether it ran one.
    ///
    /// # Errors
    /// The failure of the job.
    pub fn run_job(&self) -> Result<bool> {
        self.at_work(|database| jobs::next::run_one(&database.job_rooms()))
    }

    /// Closes the database for all clones. A second close returns the same result.
    ///
    /// # Errors
    /// The first failure of the log, also an earlier one; the failure of flushing commits that are
    /// in no log.
    pub fn close(&self) -> Result<()> {
        self.open.process.check()?;
        self.open.close()
    }
}

impl Open {
    /// 1. Later calls are refused.
    /// 2. Memory is flushed, if some of it is in no log or would take long to replay.
    /// 3. Running jobs end, on workers and on threads of callers.
    /// 4. Commits that have a place are waited for; the log is synced and marked as closed.
    /// 5. The directory is unlocked. This process changes no file of it any more, and takes no file
    ///    of a later process for its own.
    fn close(&self) -> Result<()> {
        // Held during the close, so that a concurrent close returns after it.
        let mut closing = lock(&self.closing_io);
        if closing.directory.is_none() {
            return closing.failure.as_ref().map_or(Ok(()), |failure| Err(failure.duplicate()));
        }
        self.database.health.close();
        if self.database.options.access == Access::ReadOnly {
            self.database.background.in_flight.end();
            self.database.catalog.files.close();
            closing.directory = None;
            return Ok(());
        }
        if self.database.options.lifetime == Lifetime::Temporary {
            return self.remove(&mut closing);
        }
        let flushed =
            self.database.at_work(|database| jobs::flush::flush_for_close(&database.job_rooms()));
        self.workers.end(&self.database);
        self.database.background.in_flight.end();
        self.database.catalog.files.close();
        let result = match self.database.health.failure() {
            Some(failure) => {
                // Every commit with a place completes, also if it fails.
                let (last, _) = lock(&self.database.log.sequencer).last();
                self.database.log.publisher.wait(last);
                Err(failure)
            }
            None => {
                let closed = close_log(&self.database.installer());
                flushed.and(closed)
            }
        };
        closing.directory = None;
        closing.failure = result.as_ref().err().map(Error::duplicate);
        result
    }

    /// Ends the jobs of a temporary database, which accepts no calls any more, and removes it.
    fn remove(&self, closing: &mut Closing) -> Result<()> {
        self.workers.end(&self.database);
        self.database.background.in_flight.end();
        let (last, _) = lock(&self.database.log.sequencer).last();
        self.database.log.publisher.wait(last);
        self.database.catalog.files.close();
        let Some(directory_lock) = closing.directory.take() else { return Ok(()) };
        let result = remove_open(&self.database, directory_lock);
        closing.failure = result.as_ref().err().map(Error::duplicate);
        result
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // Dropping the rest closes descriptors and writes nothing.
            return self.workers.abandon();
        }
        if lock(&self.closing_io).directory.is_none() {
            return;
        }
        // No caller can receive the error. Acknowledged commits are as durable as promised.
        if let Err(error) = self.close() {
            log::error!("closing {} failed: {error}", self.database.dir.display());
        }
    }
}

#[cfg(test)]
mod tests;
