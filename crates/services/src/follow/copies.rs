//! Backups and checkpoints of what a follower sees, beside a writer in another process and of a
//! database that may not be written.
//!
//! Nothing is written to the database, and no lock is taken there. The writer may remove a file
//! between the note of a state and its copy: open files are still read, and if the system has
//! closed one, the copy begins again with a newer state.

use super::follower::DatabaseFollower;
use crate::{
    backup::create::{Backup, BackupRequest, Marking, create_backup_of},
    checkpoint::{Checkpoint, CheckpointRequest, fill_checkpoint},
    staging::check_free,
};
use siltdb_base::{
    budget::{Charge, Part},
    error::{Error, ErrorKind, Result},
    fs::{Fs, mem::MemFs},
};
use siltdb_engine::{
    database::writable::Writable,
    kit::copying::{FileCopy, OnProgress},
    open::outside::check_outside_databases,
};
use std::{path::Path, sync::Arc};

/// How often a copy begins, at most. Each time a writer must have removed a file that the process
/// could not keep open.
const COPY_ATTEMPTS_MAX: usize = 8;

impl DatabaseFollower {
    /// Catches up, and adds a backup of that state to the directory `dir`. On return it is durable.
    ///
    /// # Errors
    /// As [`create_backup_of`] and [`DatabaseFollower::catch_up`]; `Busy`, if the writer removes
    /// files faster than they are copied.
    pub fn backup(
        &self,
        dir: &Path,
        request: BackupRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<Backup> {
        let request = BackupRequest { marking: Marking::Keeps, ..request };
        self.attempt(|| {
            let state = self.state();
            // About as much as the memtables take, until it is known.
            let budget = &state.database().memory.budget;
            let mut charge = Charge::new(budget, Part::Jobs, 0);
            let _copying = state.database().memory.charge_copy();
            let rooms = Writable::of_read_only(state.database()).job_rooms();
            create_backup_of(
                &rooms,
                &state.database().dir,
                dir,
                request,
                &mut *on_progress,
                &mut || {
                    // A backup names its files itself, so what is in memory is written there first.
                    let written: Arc<dyn Fs> = Arc::new(MemFs::new());
                    charge.resize(budget.used(Part::Memtables));
                    state.database().memory.cache.fit();
                    let contents = self.contents(None, &written)?;
                    charge.resize(bytes_in(&*written)?);
                    Ok(contents)
                },
            )
        })
    }

    /// Catches up, and makes a checkpoint of that state in `dir`, which must not exist or be empty.
    /// Durable on return.
    ///
    /// # Errors
    /// As [`fill_checkpoint`] and [`DatabaseFollower::catch_up`]; `Busy`, as for a backup.
    pub fn checkpoint(
        &self,
        dir: &Path,
        request: &CheckpointRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<Checkpoint> {
        self.attempt(|| {
            let state = self.state();
            let fs = &*state.database().options.fs;
            let clock = &*state.database().options.clock;
            let mut copying = FileCopy::new(clock, request.rate, &mut *on_progress)?;
            check_free(fs, dir)?;
            check_outside_databases(fs, dir)?;
            let mut note = |target: &Arc<dyn Fs>| self.contents(request.choice(), target);
            fill_checkpoint(
                &state.database().catalog,
                &state.database().options,
                dir,
                request,
                &mut copying,
                &mut note,
            )
        })
    }

    fn attempt<T>(&self, mut copy: impl FnMut() -> Result<T>) -> Result<T> {
        let mut attempts = 1;
        loop {
            match copy() {
                Err(error) if error.kind() != ErrorKind::Busy => return Err(error),
                Err(error) if attempts == COPY_ATTEMPTS_MAX => {
                    let message = "the writer removes files faster than they are copied";
                    return Err(Error::new(ErrorKind::Busy, message)
                        .with_hint("allow more open files, or try when less is written")
                        .with_source(error));
                }
                Err(_) => attempts += 1,
                done => return done,
            }
        }
    }
}

/// Bytes of the files in the working directory of `fs`.
fn bytes_in(fs: &dyn Fs) -> Result<usize> {
    let files = fs.list_lengths(Path::new(""))?;
    Ok(files.iter().map(|(_, length)| usize::try_from(*length).unwrap_or(usize::MAX)).sum())
}
