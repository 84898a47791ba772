//! Syncs of the log, and their record in the manifest.
//!
//! A missing log file leaves no trace in the log, and neither does a cut in the last one. So the
//! first sync that reaches into a segment is noted in the manifest. This happens before any commit
//! of the segment is acknowledged as synced. So is the first sync that reaches into a window of its
//! file, with the length of the file, which that sync has made durable. An opening that does not
//! find the segment, or finds its file shorter, then knows what is missing (law A11).

use crate::{
    blobs::Blobs,
    database::{installer::Installer, job_rooms::JobRooms, job_rooms::Waiting},
    health::Health,
    install::install_synced_segment,
    log::Log,
    options::EngineOptions,
};
use siltdb_base::{
    error::{ErrorKind, Result},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::log::record::LogPosition;
use std::time::Duration;

/// Returns once everything before `end`, which must be published, is durable.
///
/// # Errors
/// `Poisoned`, if this sync or an earlier one fails.
#[cold]
pub fn sync_to(installer: &Installer<'_>, end: LogPosition) -> Result<()> {
    sync_unnoted(installer, end)?;
    note_segment(installer, end)
}

/// Makes everything acknowledged so far durable.
///
/// # Errors
/// `Poisoned`, if the sync fails.
pub fn sync_wal(installer: &Installer<'_>) -> Result<()> {
    sync_to(installer, published_end(installer.log, installer.health)?)
}

/// The same for a close, which records the end of the log in the manifest itself.
///
/// # Errors
/// `Poisoned`, if the sync fails.
pub fn sync_for_close(installer: &Installer<'_>) -> Result<()> {
    sync_unnoted(installer, published_end(installer.log, installer.health)?)
}

/// The end of the log, once everything before it is published.
fn published_end(log: &Log, health: &Health) -> Result<LogPosition> {
    let (last, end) = lock(&log.sequencer).last();
    log.publisher.wait(last);
    health.check_log()?;
    Ok(end)
}

/// As [`sync_to`], without a note in the manifest.
///
/// # Errors
/// `Poisoned`, if this sync or an earlier one fails.
pub fn sync_unnoted(installer: &Installer<'_>, end: LogPosition) -> Result<()> {
    // With the fault they are synced by the next flush.
    if !seeded_fault!("blob_synced_after_the_log") {
        sync_blobs(installer.blobs, installer.health)?;
    }
    let synced = installer.log.wal.sync_to(end, installer.health)?;
    assert!(synced >= end, "commits up to {end} would count as synced, and {synced} is");
    lock(&installer.log.sequencer).synced(synced);
    Ok(())
}

/// Makes all separated values of published commits durable. A sync of the log comes after it, so
/// that no record before the synced position points to a value that a power failure takes. So does
/// an edit with tables that point to them.
///
/// # Errors
/// `Poisoned`, if this sync fails.
pub(crate) fn sync_blobs(blobs: &Blobs, health: &Health) -> Result<()> {
    if !blobs.is_used() {
        return Ok(());
    }
    blobs.sync().map_err(|error| health.poison(error))
}

/// Notes in the manifest, once for each window, that a segment has durable records. If there is no
/// space, or the edit fails without harm, a later sync tries again. The records are durable in any
/// case.
fn note_segment(installer: &Installer<'_>, end: LogPosition) -> Result<()> {
    if seeded_fault!("synced_segment_not_noted") || installer.log.wal.is_noted(end) {
        return Ok(());
    }
    match install_synced_segment(installer, end) {
        Err(error) if error.kind() == ErrorKind::Poisoned => Err(error),
        Err(error) => {
            log::warn!("the manifest does not note a synced log segment yet: {error}");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// Ensures that everything acknowledged now is synced within `interval`.
///
/// # Errors
/// `Poisoned`, if a due sync fails.
pub fn sync_within(rooms: &JobRooms<'_>, interval: Duration) -> Result<()> {
    let is_sooner = rooms.log.sync_timer.ask(interval);
    match rooms.waiting {
        Waiting::ForWorkers if is_sooner => rooms.log.sync_work.raise(),
        Waiting::ForWorkers => {}
        Waiting::RunJob(_) => sync_if_due(&rooms.installer(), rooms.options)?,
    }
    Ok(())
}

/// The time until the log must be synced; zero if a sync is due.
#[must_use]
pub fn sync_due_in(log: &Log, options: &EngineOptions) -> Duration {
    log.sync_timer.due_in(options.clock.monotonic_ns())
}

/// Syncs the log if a sync is due.
///
/// # Errors
/// `Poisoned`, if the sync fails.
pub fn sync_if_due(installer: &Installer<'_>, options: &EngineOptions) -> Result<()> {
    if !sync_due_in(installer.log, options).is_zero() {
        return Ok(());
    }
    installer.log.sync_timer.begin(options.clock.monotonic_ns());
    sync_wal(installer)
}

#[cfg(test)]
mod tests;
