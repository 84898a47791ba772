//! Detects a manifest that has lost edits. A manifest cut at the end of an edit is sound by itself,
//! but existing log segments and tables may be from a later state.
//!
//! This module reads headers and properties only; its callers find the files. An edit lost after
//! the last such file cannot be told from one that a crash kept from becoming durable.

use crate::catalog::{log_state::LogState, manifest::RECOVER_HINT};
use siltdb_base::{
    error::{Error, Result},
    fs::Fs,
    seeded_fault,
};
use siltdb_disk::{
    log::{record::LogPosition, segment::SegmentHeader},
    table::{TableWitness, table_witness},
};
use std::path::Path;

/// Checks that the log, which begins with the segment `header` at `path`, continues where the
/// tables of the manifest end. This holds because an edit that retires a segment also records the
/// last sequence number of its tables.
///
/// # Errors
/// Corruption, if there is a gap between them.
pub fn check_log_begin(header: &SegmentHeader, path: &Path, state: &LogState) -> Result<()> {
    let previous = header.previous;
    // If an earlier segment is needed and missing, the log has a gap of its own.
    let is_begin = previous == LogPosition::ZERO || previous.segment < state.first;
    let next = state.last_sequence.next();
    if !is_begin || header.first_sequence <= next {
        return Ok(());
    }
    Err(Error::corruption("the manifest lacks edits that precede the log")
        .with_file(path)
        .with_offset(0)
        .with_mismatch(format_args!("first sequence number at most {next}"), header.first_sequence)
        .with_hint(RECOVER_HINT))
}

/// Checks that a table file at `path` of `fs`, which the manifest does not name, was not written
/// under a later state. A table records with which segment the log began when it was written.
///
/// # Errors
/// Corruption, if a later manifest existed. An incomplete file proves nothing and is accepted.
pub fn check_unnamed_table(fs: &dyn Fs, path: &Path, state: &LogState) -> Result<()> {
    let Ok(file) = fs.open(path) else { return Ok(()) };
    let shown = fs.full_path(path);
    let Some(TableWitness { origin, .. }) = table_witness(file, &shown) else { return Ok(()) };
    if seeded_fault!("lost_edits_not_noticed") || origin.log_start <= state.first {
        return Ok(());
    }
    Err(Error::corruption("the manifest lacks edits that precede a table")
        .with_file(&shown)
        .with_mismatch(format_args!("log start at most {}", state.first), origin.log_start)
        .with_hint(RECOVER_HINT))
}

#[cfg(test)]
mod tests;
