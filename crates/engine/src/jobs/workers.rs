//! The threads of a database. Only this file starts threads.
//!
//! Their work is in `jobs`; here they find it, wait, and end.

use crate::{
    background::Background,
    database::{Database, job_rooms::JobRooms},
    jobs,
    memory::{Memory, Trimmer},
    options::FROZEN_MAX,
    write::log_sync,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    hint::lower_priority,
    sync::lock,
};
use siltdb_disk::edit::tier::Tier;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{Builder, JoinHandle},
    time::Duration,
};

/// How long a worker waits for a signal before it looks for work by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long compactions that were due at open wait, unless something is flushed. So an opening for
/// a few reads shares no processor with a compaction, and its close waits for none to be cancelled.
const OPENING_PEACE: Duration = Duration::from_millis(100);

/// How long the thread that moves tables waits after a move that failed, as on a full disk.
const TIER_BACK_OFF: Duration = Duration::from_secs(10);

/// How long a worker waits after a failed job.
const BACK_OFF: Duration = Duration::from_millis(200);

/// The shortest pause between two timed syncs of the log.
const SYNC_PAUSE_MIN: Duration = Duration::from_millis(1);

/// The nice level of the threads that scrub and that move tables: no writer and no reader waits for
/// them. Flushes and compactions run as the program does, and yield by themselves while there is
/// little debt (`tree::rewrite::processor_share`).
const IDLE_PRIORITY_STEPS: u8 = 10;

/// The running threads.
#[derive(Debug, Default)]
pub struct Workers {
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// Starts one thread that prepares the log, one that syncs it, up to three that flush, and as
    /// many compaction threads as the options say. With a cold directory another one moves tables.
    /// With `workers = 0` it starts none.
    ///
    /// # Errors
    /// The system's, if a thread cannot be started.
    pub fn start(database: &Arc<Database>) -> Result<Self> {
        let workers = Self::default();
        let compactors = database.options.workers;
        if compactors == 0 {
            return Ok(workers);
        }
        let started = workers.spawn(database, "silt-log", keep_log);
        let started = started.and_then(|()| workers.spawn(database, "silt-sync", sync_log));
        let started = started.and_then(|()| {
            (0..flush_threads(compactors)).try_for_each(|number| {
                workers.spawn(database, &format!("silt-flush-{number}"), |database| {
                    work(&database.job_rooms(), &database.memory, jobs::flush::flush_next);
                })
            })
        });
        let started = started.and_then(|()| {
            (0..compactors).try_for_each(|number| {
                let seen = database.background.work.seen();
                workers.spawn(database, &format!("silt-compact-{number}"), move |database| {
                    database.background.work.wait(seen, OPENING_PEACE);
                    work(&database.job_rooms(), &database.memory, jobs::compact::compact_next);
                })
            })
        });
        let started = started.and_then(|()| match database.catalog.files.store(Tier::Cold) {
            None => Ok(()),
            Some(_) => workers.spawn(database, "silt-tier", move_tables),
        });
        match started {
            Ok(()) => Ok(workers),
            Err(error) => {
                workers.end(database);
                Err(error)
            }
        }
    }

    /// Starts one more thread, which runs `run`. It returns once the threads are to end.
    ///
    /// # Errors
    /// The system's, if the thread cannot be started.
    pub fn spawn(
        &self,
        database: &Arc<Database>,
        name: &str,
        run: impl FnOnce(&Database) + Send + 'static,
    ) -> Result<()> {
        let database = Arc::clone(database);
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            // A panic may have left a job half done in memory, never on disk. So the database is
            // poisoned, and a reopen recovers it.
            if catch_unwind(AssertUnwindSafe(|| run(&database))).is_err() {
                let cause = Error::new(ErrorKind::Poisoned, "a worker panicked; this is a bug");
                database.installer().fail(cause);
            }
        });
        let thread = thread.map_err(|error| {
            Error::new(ErrorKind::Io, "cannot start a thread").with_source(error)
        })?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Forgets the threads, in a forked child, which has none of them. They cannot be joined, and
    /// the system must not be asked to detach them.
    pub fn abandon(&self) {
        if let Ok(mut threads) = self.threads.try_lock() {
            std::mem::forget(std::mem::take(&mut *threads));
        }
    }

    /// Ends the threads after their present jobs, and waits for them.
    pub fn end(&self, database: &Database) {
        // Release pairs with the acquire in `is_ending`.
        database.background.ending.store(true, Ordering::Release);
        if let Some(rate) = &database.backpressure.rate {
            rate.end();
        }
        database.background.work.raise();
        database.log.work.raise();
        database.log.sync_work.raise();
        database.scrubs.work.raise();
        database.background.tier_work.raise();
        for thread in lock(&self.threads).drain(..) {
            // The thread itself has handled its panic.
            let _ = thread.join();
        }
        jobs::flush::free_flushed(&database.background);
    }
}

/// The number of threads that flush, beside so many that compact. One is there for flushes alone
/// however busy compactions are. More are worth it where there are processors for several flushes
/// of several parts each, and never more than generations that may wait.
fn flush_threads(compactors: usize) -> usize {
    (compactors / 2).clamp(1, FROZEN_MAX)
}

fn is_ending(background: &Background) -> bool {
    // Acquire pairs with the release in `end`.
    background.ending.load(Ordering::Acquire)
}

fn work(rooms: &JobRooms<'_>, memory: &Memory, next: fn(&JobRooms<'_>) -> Result<bool>) {
    let (background, clock) = (rooms.background, &*rooms.options.clock);
    let mut trimmer = Trimmer::default();
    while !is_ending(background) {
        let seen = background.work.seen();
        jobs::flush::free_flushed(background);
        match next(rooms) {
            Ok(true) => trimmer.after_job(memory, clock),
            Ok(false) => {
                trimmer.while_idle(memory, clock);
                background.work.wait(seen, PATIENCE);
            }
            // The job was cancelled.
            Err(_) if is_ending(background) => {}
            // The job has noted its failure where waiting writers see it.
            Err(_) => rooms.options.clock.sleep(BACK_OFF),
        }
    }
}

/// Moves tables between the tiers. What makes a move due is looked for once a second.
fn move_tables(database: &Database) {
    lower_priority(IDLE_PRIORITY_STEPS);
    while !is_ending(&database.background) {
        let seen = database.background.tier_work.seen();
        match jobs::tiers::move_next(&database.job_rooms()) {
            Ok(true) => {}
            Ok(false) => database.background.tier_work.wait(seen, PATIENCE),
            // The failure is noted. Trying again at once would fill the disk again and again.
            Err(_) => database.background.tier_work.wait(seen, TIER_BACK_OFF),
        }
    }
}

fn keep_log(database: &Database) {
    while !is_ending(&database.background) {
        let seen = database.log.work.seen();
        // The next writer that needs the missing space meets the same failure and returns it.
        let _ = jobs::log_keeper::keep_log(&database.log, &database.backpressure);
        database.log.work.wait(seen, PATIENCE);
    }
}

/// The thread that prepares the log does not do this: a window delayed by a sync would stop every
/// writer.
fn sync_log(database: &Database) {
    while !is_ending(&database.background) {
        let seen = database.log.sync_work.seen();
        // A failure poisons the database, and the next write returns it.
        let _ = log_sync::sync_if_due(&database.installer(), &database.options);
        let due_in = log_sync::sync_due_in(&database.log, &database.options);
        database.log.sync_work.wait(seen, due_in.clamp(SYNC_PAUSE_MIN, PATIENCE));
    }
}

#[cfg(test)]
mod tests;
