//! The threads of a database: the only file that starts any.
//!
//! What they do is in `jobs`; here they only look for it, wait, and end.

use crate::{database::Database, jobs, log_sync};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    hint::lower_priority,
    sync::lock,
};
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{Builder, JoinHandle},
    time::Duration,
};

/// How long a worker waits for a signal before it looks by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long what was left to compact when the database was opened is left alone, unless something
/// is flushed: who opens it for a few reads shares neither the processors with a compaction nor
/// waits for one to be given up.
const OPENING_PEACE: Duration = Duration::from_millis(100);

/// How long a worker waits after a job has failed.
const BACK_OFF: Duration = Duration::from_millis(200);

/// How long the log is left alone between two syncs for time's sake at least.
const SYNC_PAUSE_MIN: Duration = Duration::from_millis(1);

/// How many steps of nice those who flush stand back behind those who write and read: on a busy
/// machine a call waits for a processor less long, and writers are slowed down by what is left
/// undone (see `throttle`) before they would have to stop.
const FLUSH_PRIORITY_STEPS: u8 = 5;

/// The same of those who compact, who stand back behind flushes as well: writers wait for these
/// first (tuning note 0033).
const COMPACT_PRIORITY_STEPS: u8 = 10;

/// The running threads.
#[derive(Debug, Default)]
pub struct Workers {
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// Starts one thread that keeps the log ahead, one that syncs it, one that flushes, and as many
    /// compactors as the options ask for; none at all if they ask for none.
    ///
    /// # Errors
    /// The system's, if it gives no thread.
    pub fn start(database: &Arc<Database>) -> Result<Self> {
        let workers = Self::default();
        let compactors = database.options.workers;
        if compactors == 0 {
            return Ok(workers);
        }
        let started = workers.spawn(database, "silt-log", keep_log);
        let started = started.and_then(|()| workers.spawn(database, "silt-sync", sync_log));
        let started = started.and_then(|()| {
            workers.spawn(database, "silt-flush", |database| {
                work(database, FLUSH_PRIORITY_STEPS, jobs::flush::flush_next);
            })
        });
        let started = started.and_then(|()| {
            (0..compactors).try_for_each(|number| {
                let seen = database.background.work.seen();
                workers.spawn(database, &format!("silt-compact-{number}"), move |database| {
                    database.background.work.wait(seen, OPENING_PEACE);
                    work(database, COMPACT_PRIORITY_STEPS, jobs::compact::compact_next);
                })
            })
        });
        match started {
            Ok(()) => Ok(workers),
            Err(error) => {
                workers.end(database);
                Err(Error::new(ErrorKind::Io, "cannot start a thread").with_source(error))
            }
        }
    }

    fn spawn(
        &self,
        database: &Arc<Database>,
        name: &str,
        run: impl FnOnce(&Database) + Send + 'static,
    ) -> io::Result<()> {
        let database = Arc::clone(database);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            // A panic may have left a job half done in memory, never on disk: poison, and let the
            // user reopen.
            if catch_unwind(AssertUnwindSafe(|| run(&database))).is_err() {
                let cause = Error::new(ErrorKind::Poisoned, "a worker panicked; this is a bug");
                database.fail(cause);
            }
        })?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Gives up the threads, in a forked child, which has none of them: they cannot be joined, and
    /// the system must not be asked to let them go.
    pub fn abandon(&self) {
        if let Ok(mut threads) = self.threads.try_lock() {
            std::mem::forget(std::mem::take(&mut *threads));
        }
    }

    /// Ends the threads after the jobs they are at, and waits for them.
    pub fn end(&self, database: &Database) {
        // Release pairs with the acquire in `is_ending`.
        database.background.ending.store(true, Ordering::Release);
        database.background.work.raise();
        database.log.work.raise();
        database.log.sync_work.raise();
        for thread in lock(&self.threads).drain(..) {
            // A panic was dealt with in the thread itself.
            let _ = thread.join();
        }
        jobs::flush::free_flushed(database);
    }
}

fn is_ending(database: &Database) -> bool {
    // Acquire pairs with the release in `end`.
    database.background.ending.load(Ordering::Acquire)
}

fn work(database: &Database, priority_steps: u8, next: fn(&Database) -> Result<bool>) {
    lower_priority(priority_steps);
    while !is_ending(database) {
        let seen = database.background.work.seen();
        jobs::flush::free_flushed(database);
        match next(database) {
            Ok(true) => {}
            Ok(false) => database.background.work.wait(seen, PATIENCE),
            // It was cancelled.
            Err(_) if is_ending(database) => {}
            // The job has noted its failure where waiting writers see it.
            Err(_) => database.options.clock.sleep(BACK_OFF),
        }
    }
}

fn keep_log(database: &Database) {
    while !is_ending(database) {
        let seen = database.log.work.seen();
        // A failure is met again, and told, by the next writer that needs what is missing.
        let _ = jobs::log_keeper::keep_log(database);
        database.log.work.wait(seen, PATIENCE);
    }
}

/// Not the keeper's work as well: windows that come late because of a sync hold up every writer.
fn sync_log(database: &Database) {
    while !is_ending(database) {
        let seen = database.log.sync_work.seen();
        // A failure poisons the database, which tells the next writer.
        let _ = log_sync::sync_if_due(database);
        let due_in = log_sync::sync_due_in(database);
        database.log.sync_work.wait(seen, due_in.clamp(SYNC_PAUSE_MIN, PATIENCE));
    }
}

#[cfg(test)]
mod tests;
