//! What must hold of an edit before it becomes durable, because a later opening could not mend it.
//!
//! It judges no table and changes nothing; a change that does not fit is an error of `install`.

use crate::{
    catalog::{family::DEFAULT_FAMILY_ID, log_state::LogState, manifest::Manifest},
    database::installer::Installer,
};
use siltdb_base::{id::FileNumber, sync::lock};
use siltdb_disk::edit::{Change, Edit, TableReference};
use siltdb_tree::memory::Generation;

/// Checks an edit that is about to be appended to `manifest`, with what the manifest owes.
pub(super) fn assert_fits(
    installer: &Installer<'_>,
    manifest: &Manifest,
    edit: &Edit,
    flushed: Option<Generation>,
) {
    for change in &edit.changes {
        assert_numbers(&manifest.state, change);
        assert_order(installer, &manifest.state, change);
        assert_families(installer, change);
        match change {
            Change::AddTable { table, .. } => assert_table(installer, table),
            Change::BlobFile { file, .. } => {
                let is_named = manifest.state.blob_files.contains_key(file);
                assert!(!is_named, "blob file {file} would be named twice");
                assert_handed_out(installer, *file);
            }
            Change::BlobFileRemoved { file } => {
                let is_named = manifest.state.blob_files.contains_key(file);
                assert!(is_named, "blob file {file} would be removed twice");
            }
            _ => {}
        }
    }
    if let Some(generation) = flushed {
        let oldest = lock(&installer.log.frozen).front().map(|oldest| oldest.number);
        let is_oldest = oldest.is_none_or(|oldest| oldest == generation);
        assert!(is_oldest, "the memtables of {generation:?} would go before those of {oldest:?}");
    }
    assert_owed(installer, manifest);
}

/// A number that was noted as unused is never noted as used.
fn assert_numbers(state: &LogState, change: &Change) {
    match change {
        Change::NextFile(next) => {
            let before = state.next_file;
            assert!(*next >= before, "file numbers would go on at {next} after {before}");
        }
        Change::NextFamily(next) => {
            let before = state.next_family;
            assert!(*next >= before, "family ids would go on at {next} after {before}");
        }
        _ => {}
    }
}

/// What the log need not have any more is published, and no floor goes back.
fn assert_order(installer: &Installer<'_>, state: &LogState, change: &Change) {
    let published = installer.log.publisher.published();
    match change {
        Change::LogStart { segment } => {
            let first = state.first;
            assert!(*segment >= first, "the log would begin at {segment} after {first}");
        }
        Change::LastSequence(last) => {
            assert!(*last <= published, "tables would have all up to {last}, beyond {published}");
        }
        Change::RetentionFloor(Some(floor)) => {
            let before = state.retention_floor.unwrap_or_default();
            assert!(*floor >= before, "the retention floor would go from {before} to {floor}");
            assert!(
                *floor <= published,
                "the retention floor would be {floor}, beyond {published}"
            );
        }
        Change::Prepared { number, .. } => {
            assert!(*number <= published, "{number} would be prepared, beyond {published}");
        }
        Change::PreparedDecided { number } => {
            let is_known = state.prepared.contains_key(number);
            assert!(is_known, "{number} would be decided, which the manifest does not have");
        }
        _ => {}
    }
}

/// An id is that of one family, and the default family stays.
fn assert_families(installer: &Installer<'_>, change: &Change) {
    match change {
        Change::CreateFamily { id, .. } => {
            let next = installer.catalog.ids.next_family();
            assert!(*id < next, "family {id} would be created, and {next} is the next id");
        }
        Change::DropFamily { id } => {
            assert!(*id != DEFAULT_FAMILY_ID, "the default family would be dropped");
        }
        _ => {}
    }
}

/// Its number was handed out, and a claim keeps the purge from its file.
fn assert_table(installer: &Installer<'_>, table: &TableReference) {
    let file = table.file;
    assert_handed_out(installer, file);
    let is_claimed = installer.catalog.files.is_in_use(file);
    assert!(is_claimed, "a family would get table file {file}, which nothing keeps from the purge");
}

fn assert_handed_out(installer: &Installer<'_>, file: FileNumber) {
    let next = installer.catalog.ids.next_file();
    assert!(file < next, "an edit would name file {file}, and {next} is the next number");
}

/// Changes of families are durable in the log before they are in the manifest.
fn assert_owed(installer: &Installer<'_>, manifest: &Manifest) {
    for change in &manifest.owed.changes {
        if let Change::FamiliesLogged { position } = change {
            let synced = installer.log.wal.synced();
            assert!(*position <= synced, "families of {position} would be said beyond {synced}");
        }
    }
}
