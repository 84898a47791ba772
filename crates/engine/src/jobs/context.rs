//! What every job needs of the database, and how each job ends.

use crate::{
    background::{JobOf, JobState},
    blobs::with_value,
    catalog::Catalog,
    database::installer::Installer,
    database::job_rooms::JobRooms,
    install::install,
    write::separation::relocate,
};
use siltdb_base::{
    error::{ErrorKind, Result},
    id::{FamilyId, FileNumber, SequenceNumber, TableUid},
    key::{BlobPointer, EntryKind},
    sync::lock,
};
use siltdb_disk::edit::{Change, TableReference};
use siltdb_tree::{
    memory::Generation,
    options::TreeOptions,
    read::visible::resolve::BlobSource,
    rewrite::{
        job::{BlobMover, JobContext, MovedEntry},
        write_rate::RateUse,
    },
};
use std::collections::HashSet;

/// Calls `work` with what a job needs of the database.
pub fn with_context<T>(
    rooms: &JobRooms<'_>,
    job: impl FnOnce(&JobContext<'_>) -> Result<T>,
) -> Result<T> {
    let file_numbers = || -> FileNumber { rooms.catalog.ids.file() };
    let uids = || -> TableUid { rooms.catalog.ids.table_uid() };
    let log_start = lock(&rooms.catalog.manifest_io).state.first;
    let family_names = |id| rooms.catalog.families.get(id).map(|family| family.name());
    job(&JobContext {
        files: &rooms.catalog.files,
        file_numbers: &file_numbers,
        uids: &uids,
        family_names: &family_names,
        log_start,
        clock: &*rooms.options.clock,
        cancelled: &rooms.background.ending,
        given_up: None,
        processor_share: rooms.backpressure.processor_share(),
        mover: Some(&Mover { installer: &rooms.installer() }),
        progress: None,
        rate: rooms.backpressure.rate.as_ref().map(|rate| (rate, RateUse::Counts)),
    })
}

/// Copies separated values to the current blob file, or into the tables of frozen families.
struct Mover<'a> {
    installer: &'a Installer<'a>,
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
        if let Some(rate) = &self.installer.backpressure.rate {
            rate.pass(pointer.stored_bytes.into(), RateUse::Waits);
        }
        if options.is_frozen() {
            let value = self.installer.blobs.read(pointer)?;
            let (kind, payload) = with_value(pointer, &value);
            return Ok(MovedEntry { kind, payload });
        }
        let stored = self.installer.blobs.read_stored(pointer)?;
        let moved = relocate(self.installer, options, family, key, pointer, &stored)?;
        let mut payload = Vec::new();
        moved.encode(&mut payload);
        Ok(MovedEntry { kind: EntryKind::BlobPointer, payload })
    }
}

/// Notes how a job ended, and wakes threads that wait for room or for files.
pub fn ended<T>(
    installer: &Installer<'_>,
    job: JobOf,
    result: Result<T>,
    end: impl FnOnce(&mut JobState),
) -> Result<T> {
    {
        let mut jobs = lock(&installer.background.jobs);
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
    installer.backpressure.update(installer.log);
    purge(installer);
    installer.backpressure.room.raise();
    result
}

/// Installs the output of a job. If the edit is not durable, the new tables are purged. If that is
/// unknown, they stay for the next open, which knows.
pub fn install_output(
    installer: &Installer<'_>,
    changes: Vec<Change>,
    flushed: Option<Generation>,
) -> Result<()> {
    let new = new_files(&changes);
    let result = install(installer, changes, flushed);
    if result.is_err() && installer.health.check_log().is_ok() {
        installer.catalog.files.forget(new);
    }
    result
}

/// Has the tables purged that a job has written, and that are not installed.
pub(crate) fn discard_output(catalog: &Catalog, changes: &[Change]) {
    catalog.files.forget(new_files(changes));
}

fn new_files(changes: &[Change]) -> Vec<FileNumber> {
    new_tables(changes).map(|table| table.file).collect()
}

/// The tables that `changes` add and do not also remove: what is left of an input of a merge, and a
/// table that moves, were there before.
fn new_tables(changes: &[Change]) -> impl Iterator<Item = &TableReference> {
    let place = |change: &Change| match change {
        Change::RemoveTable { file, offset, .. } => Some((*file, *offset)),
        _ => None,
    };
    let removed: HashSet<_> = changes.iter().filter_map(place).collect();
    changes.iter().filter_map(move |change| match change {
        Change::AddTable { table, .. } if !removed.contains(&(table.file, table.offset)) => {
            Some(&**table)
        }
        _ => None,
    })
}

/// No entry of the tables that a job has written is newer. `changes` are its edit.
#[must_use]
pub fn newest_in(changes: &[Change]) -> SequenceNumber {
    new_tables(changes).map(|table| table.meta.sequence_max).max().unwrap_or_default()
}

/// Removes noted files that no reader uses any more.
pub fn purge(installer: &Installer<'_>) {
    let Installer { catalog, blobs, .. } = *installer;
    for number in catalog.files.take_unused() {
        let is_in_use = catalog.files.is_in_use(number);
        assert!(!is_in_use, "the table file {number} would be removed, and it is in use");
        // A file that cannot be removed now is tried again with the next job, or at the next open.
        let removed = catalog.files.remove(number);
        if removed.is_err_and(|error| error.kind() != ErrorKind::NotFound) {
            catalog.files.forget([number]);
        }
    }
    if blobs.is_used() {
        blobs.purge();
    }
}
