//! The engine: a handle on an open database and its threads, for the public crate.
//!
//! Calls that only read are in the rooms of [`Engine::database`]. Calls that write get theirs from
//! [`Engine::writable`], because they are refused to a forked child.

pub mod pause;

use crate::{
    copies::ingest,
    database::{Database, job_rooms::Waiting, writable::Writable},
    jobs,
    jobs::replayed,
    jobs::workers::Workers,
    open::close::close_log,
    open::destroy::remove_open,
    open::recovery,
    options::{Access, EngineOptions, Lifetime},
    write::time_notes::TimeNotes,
};
use siltdb_base::{
    error::{Error, Result},
    fs::FileLock,
    process::Process,
    sync::lock,
};
use std::{
    path::Path,
    sync::{Arc, Mutex},
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
        let run = move |database: &Arc<Database>| run(Writable::inside(database));
        self.open.workers.spawn(&self.open.database, name, run)
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
                self.wait_for_commits();
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

    /// Waits for the commits that have a place. They write to files that are about to be unlocked.
    fn wait_for_commits(&self) {
        let drawn = lock(&self.database.log.sequencer).tickets_drawn();
        self.database.log.publisher.wait_for_all(drawn);
    }

    /// Ends the jobs of a temporary database, which accepts no calls any more, and removes it.
    fn remove(&self, closing: &mut Closing) -> Result<()> {
        self.workers.end(&self.database);
        self.database.background.in_flight.end();
        self.wait_for_commits();
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
