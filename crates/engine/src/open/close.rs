//! Ends the log of a database that is closing.

use crate::{
    database::installer::Installer, health::Health, install::install, log::Log,
    write::log_sync::sync_for_close,
};
use siltdb_base::{
    error::{ErrorKind, Result},
    sync::lock,
};
use siltdb_disk::log::{
    fill::fill_record,
    record::{LogPosition, RecordHeader, RecordKind, Synced, record_bytes},
};

/// Ends the log of a database that is closing: all commits are published and synced, then the end
/// is marked. The manifest records the end, if there is space for that. So the next open notices a
/// log file that is missing or cut short. Space that the log does not need is freed.
///
/// # Errors
/// `Poisoned`, if a sync fails; as [`install`].
pub fn close_log(installer: &Installer<'_>) -> Result<()> {
    sync_for_close(installer)?;
    // This comes first, because the mark needs space.
    installer.log.wal.give_back_unused();
    installer.blobs.seal_current();
    let active = lock(&installer.log.sequencer).active();
    let end = mark_end(installer.log, installer.health)?;
    let is_due = {
        let manifest = lock(&installer.catalog.manifest_io);
        let is_late = manifest.is_written() && manifest.state.time != installer.time.stored();
        is_late || installer.log.wal.synced() > manifest.state.synced.position
    };
    let active = active.filter(|segment| segment.id == end.segment);
    if active.is_some() {
        installer.log.wal.expect_shorter();
    }
    let noted = if active.is_some() || is_due { note_end(installer)? } else { Noted::Nothing };
    if let (Some(segment), Noted::End) = (active, noted) {
        // Everything is durable; if this fails, the next use of the file frees the space.
        let synced = installer.log.wal.synced();
        assert!(synced <= end, "the log would be cut at {end}, and it is synced up to {synced}");
        let _ = segment.file.shorten(end.offset);
    }
    lock(&installer.catalog.manifest_io).give_back_unused();
    Ok(())
}

/// What the manifest notes of the end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    /// Where it ends, and that its file ends there.
    End,
    /// Nothing new.
    Nothing,
}

/// Records the end of the log and the time in the manifest, if there is space for that.
fn note_end(installer: &Installer<'_>) -> Result<Noted> {
    match install(installer, Vec::new(), None) {
        // Everything is durable. The file keeps its length, which the manifest may know. If the log
        // is cut short later, the next open takes that for a kill.
        Err(error) if error.kind() == ErrorKind::NoSpace => Ok(Noted::Nothing),
        result => result.map(|()| Noted::End),
    }
}

/// Writes an end record, if the log has a segment with room for it. Returns the end of the log. The
/// record says nothing that the manifest does not, and is not synced.
fn mark_end(log: &Log, health: &Health) -> Result<LogPosition> {
    let (last, end) = lock(&log.sequencer).last();
    let published = log.publisher.published();
    assert!(published == last, "the log would end after {last}, and {published} is published");
    let mark = end.offset + record_bytes(RecordKind::End, 0, 0);
    let active = lock(&log.sequencer).active();
    let Some(segment) = active.filter(|segment| mark <= segment.file.capacity()) else {
        return Ok(end);
    };
    let synced = Synced::new(end, end.segment);
    let header =
        RecordHeader { first_sequence: last.next(), count: 0, kind: RecordKind::End, synced };
    match segment.file.prepare(mark) {
        // The next open reads the log as after a kill.
        Err(error) if error.kind() == ErrorKind::NoSpace => return Ok(end),
        prepared => prepared
            .and_then(|()| fill_record(&*segment.file, end, &header, &[]))
            .map_err(|error| health.poison(error))?,
    }
    Ok(LogPosition { offset: mark, ..end })
}
