//! Notes in the log by what time entries were seen expired, so that they stay expired after a kill
//! and after a process that only reads.
//!
//! A note is a void record ([`siltdb_disk::log::time_note`]). It is written before a reader has its
//! answer, at most once for each expiry that comes, and not synced: a power loss may take it.

use crate::{
    database::{Database, writable::Writable},
    kit::counters::Counters,
    write::commit::commit_note,
};
use siltdb_base::{
    clock::{StoredTime, TimeLog},
    process::Process,
    seeded_fault,
};
use siltdb_disk::log::time_note::encode_time_note;
use std::sync::{Arc, Weak};

/// Writes the notes of an open database.
#[derive(Debug)]
pub struct TimeNotes {
    /// A forked child shares the log, and must not write to it.
    process: Process,
    /// Weak, because the database has the clock that has this.
    database: Weak<Database>,
}

impl TimeNotes {
    /// Notes of `database`, by `process`.
    #[must_use]
    pub fn new(process: Process, database: &Arc<Database>) -> Self {
        Self { process, database: Arc::downgrade(database) }
    }
}

impl TimeLog for TimeNotes {
    /// # Seeded faults
    /// `expiry_not_noted`: no time is noted.
    fn note(&self, time: StoredTime) -> bool {
        if seeded_fault!("expiry_not_noted") || self.process.check().is_err() {
            return false;
        }
        let Some(database) = self.database.upgrade() else { return false };
        // A reader has its answer also where the log takes no record: on a full disk, after a
        // failed sync, and while the database is closed.
        let is_noted = commit_note(Writable::inside(&database), &encode_time_note(time)).is_ok();
        Counters::add(&database.counters.expiry_notes, u64::from(is_noted));
        is_noted
    }
}
