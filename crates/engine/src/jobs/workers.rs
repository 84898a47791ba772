//! The threads of a database. Only this file starts threads.
//!
//! Their work is in `jobs`; here they find it, wait, and end.

use crate::{
    background::Background,
    backpressure::Backpressure,
    database::{Database, job_rooms::JobRooms},
    jobs,
    kit::signal::Signal,
    log::Log,
    memory::{Memory, Trimmer},
    options::FROZEN_MAX,
    write::log_sync,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    hint::lower_priority,
    seeded_fault,
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

/// How long an opening waits for the first call that needs a thread before it starts all, and
/// compactions that were due at open, unless something is flushed. So an opening for a few calls
/// starts few threads, shares no processor with a compaction, and its close waits for none to be
/// cancelled.
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

/// The running threads. A clone has the same.
#[derive(Clone, Debug, Default)]
pub struct Workers {
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Workers {
    /// Starts the thread that syncs the log. It starts the others when one of them may have work,
    /// and after [`OPENING_PEACE`] in any case. So an opening for a few calls starts one thread,
    /// not as many as a process that stays.
    ///
    /// The others are one that prepares the log, up to three that flush, and as many compaction
    /// threads as the options say. With a cold directory another one moves tables. With
    /// `workers = 0` there is no thread at all.
    ///
    /// # Errors
    /// The system's, if the thread cannot be started.
    pub fn start(database: &Arc<Database>) -> Result<Self> {
        let workers = Self::default();
        if database.options.workers == 0 {
            return Ok(workers);
        }
        let need = Arc::new(Signal::default());
        let (seen, seen_work) = (need.seen(), database.background.work.seen());
        let Database { log, background, .. } = &**database;
        for signal in [&background.work, &log.work, &log.sync_work] {
            signal.forward_to(&need);
        }
        let all = workers.clone();
        workers.spawn(database, "silt-sync", move |database| {
            let begin_ns = database.options.clock.monotonic_ns();
            need.wait(seen, OPENING_PEACE);
            drop(need);
            let waited_ns = database.options.clock.monotonic_ns().saturating_sub(begin_ns);
            let peace = OPENING_PEACE.saturating_sub(Duration::from_nanos(waited_ns));
            let start_others = || -> Result<()> {
                if is_ending(&database.background) || seeded_fault!("threads_are_never_started") {
                    return Ok(());
                }
                all.spawn(database, "silt-log", |database| {
                    keep_log(&database.log, &database.background, &database.backpressure);
                })?;
                let compactors = database.options.workers;
                for number in 0..flush_threads(compactors) {
                    all.spawn(database, &format!("silt-flush-{number}"), |database| {
                        work(&database.job_rooms(), &database.memory, jobs::flush::flush_next);
                    })?;
                }
                for number in 0..compactors {
                    all.spawn(database, &format!("silt-compact-{number}"), move |database| {
                        // There was work meanwhile, or else time for it.
                        database.background.work.wait(seen_work, peace);
                        work(&database.job_rooms(), &database.memory, jobs::compact::compact_next);
                    })?;
                }
                match database.catalog.files.store(Tier::Cold) {
                    None => Ok(()),
                    Some(_) => all.spawn(database, "silt-tier", |database| move_tables(database)),
                }
            };
            match start_others() {
                Ok(()) => sync_log(database),
                // Without them writers would wait for ever.
                Err(error) => database.installer().fail(error),
            }
        })?;
        Ok(workers)
    }

    /// Starts one more thread, which runs `run`. It returns once the threads are to end.
    ///
    /// # Errors
    /// The system's, if the thread cannot be started.
    pub fn spawn(
        &self,
        database: &Arc<Database>,
        name: &str,
        run: impl FnOnce(&Arc<Database>) + Send + 'static,
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

    fn take_thread(&self) -> Option<JoinHandle<()>> {
        lock(&self.threads).pop()
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
        // Not under the lock: the thread that starts others may be at it. It is one of them, so
        // none is left when all that are there have ended.
        while let Some(thread) = self.take_thread() {
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

fn keep_log(log: &Log, background: &Background, backpressure: &Backpressure) {
    while !is_ending(background) {
        let seen = log.work.seen();
        // The next writer that needs the missing space meets the same failure and returns it.
        let _ = jobs::log_keeper::keep_log(log, backpressure);
        log.work.wait(seen, PATIENCE);
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
