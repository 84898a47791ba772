//! What every job needs of the database, and how each job ends.

use crate::{
    background::{JobOf, JobState},
    blobs::with_value,
    database::Database,
    install::install,
    write::separation::relocate,
};
use siltdb_base::{
    error::{ErrorKind, Result},
    id::{FamilyId, FileNumber, TableUid},
    key::{BlobPointer, EntryKind},
    sync::lock,
};
use siltdb_disk::edit::Change;
use siltdb_tree::{
    memory::Generation,
    options::TreeOptions,
    read::visible::resolve::BlobSource,
    rewrite::{
        job::{BlobMover, JobContext, MovedEntry},
        write_rate::RateUse,
    },
};

/// Calls `work` with what a job needs of the database.
pub fn with_context<T>(
    database: &Database,
    job: impl FnOnce(&JobContext<'_>) -> Result<T>,
) -> Result<T> {
    let file_numbers = || -> FileNumber { database.catalog.ids.file() };
    let uids = || -> TableUid { database.catalog.ids.table_uid() };
    let log_start = lock(&database.catalog.manifest_io).state.first;
    let family_names = |id| database.catalog.families.get(id).map(|family| family.name());
    job(&JobContext {
        files: &database.catalog.files,
        file_numbers: &file_numbers,
        uids: &uids,
        family_names: &family_names,
        log_start,
        clock: &*database.options.clock,
        cancelled: &database.background.ending,
        given_up: None,
        should_yield: database.backpressure.should_yield(),
        mover: Some(&Mover { database }),
        progress: None,
        rate: database.backpressure.rate.as_ref().map(|rate| (rate, RateUse::Counts)),
    })
}

/// Copies separated values to the current blob file, or into the tables of frozen families.
struct Mover<'a> {
    database: &'a Database,
}

impl BlobMover for Mover<'_> {
    fn copy(
        &self,
        options: &TreeOptions,
        family: FamilyId,
        key: &[u8],
        pointer: &BlobPointer,
    ) -> Result<MovedEntry> {
        // Values move in compactions alone.
        if let Some(rate) = &self.database.backpressure.rate {
            rate.pass(pointer.stored_bytes.into(), RateUse::Waits);
        }
        if options.is_frozen() {
            let value = self.database.blobs.read(pointer)?;
            let (kind, payload) = with_value(pointer, &value);
            return Ok(MovedEntry { kind, payload });
        }
        let stored = self.database.blobs.read_stored(pointer)?;
        let moved = relocate(self.database, options, (family, key), (pointer, &stored))?;
        let mut payload = Vec::new();
        moved.encode(&mut payload);
        Ok(MovedEntry { kind: EntryKind::BlobPointer, payload })
    }
}

/// Notes how a job ended, and wakes threads that wait for room or for files.
pub fn ended<T>(
    database: &Database,
    job: JobOf,
    result: Result<T>,
    end: impl FnOnce(&mut JobState),
) -> Result<T> {
    {
        let mut jobs = lock(&database.background.jobs);
        end(&mut jobs);
        match &result {
            Ok(_) => {
                jobs.failures.remove(&job);
            }
            Err(error) => {
                let before = jobs.failures.insert(job, error.duplicate());
                // Logged once: the job is tried again and again.
                if before.is_none() && error.kind() != ErrorKind::Closed {
                    log::error!("a job for {job:?} failed: {error}");
                }
            }
        }
    }
    database.backpressure.update(&database.log);
    purge(database);
    database.backpressure.room.raise();
    result
}

/// Installs the output of a job. If the edit is not durable, the new tables are purged. If that is
/// unknown, they stay for the next open, which knows.
pub fn install_output(
    database: &Database,
    changes: Vec<Change>,
    flushed: Option<Generation>,
) -> Result<()> {
    let new = new_files(&changes);
    let result = install(database, changes, flushed);
    if result.is_err() && database.health.check_log().is_ok() {
        database.catalog.forget(new);
    }
    result
}

/// Has the tables purged that a job has written, and that are not installed.
pub fn discard_output(database: &Database, changes: &[Change]) {
    database.catalog.forget(new_files(changes));
}

fn new_files(changes: &[Change]) -> Vec<FileNumber> {
    let file = |change: &Change| match change {
        Change::AddTable { table, .. } => Some(table.file),
        _ => None,
    };
    changes.iter().filter_map(file).collect()
}

/// Removes noted files that no reader uses any more.
pub fn purge(database: &Database) {
    for number in database.catalog.take_unused() {
        // A file that cannot be removed now is tried again with the next job, or at the next open.
        let removed = database.catalog.files.remove(number);
        if removed.is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            database.catalog.forget([number]);
        }
    }
    if database.blobs.is_used() {
        database.blobs.purge();
    }
}
