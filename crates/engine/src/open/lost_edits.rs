//! Whether a manifest has lost edits: one that is cut at the end of an edit is whole by itself, but
//! log segments and tables that are there were written when it said more.
//!
//! It reads headers and properties only, and judges; finding the files is for callers. What was
//! lost behind the last of these witnesses cannot be told from an edit that a crash kept from being
//! made durable.

use crate::catalog::manifest::{LogState, RECOVER_HINT};
use siltdb_base::{
    error::{Error, Result},
    fs::Fs,
};
use siltdb_disk::{
    log::{record::LogPosition, segment::SegmentHeader},
    table::table_origin,
};
use std::path::Path;

/// Checks that the log, which begins with the segment `header` at `path`, goes on where the tables
/// of the manifest end: an edit that retires a segment also says up to which sequence number its
/// tables reach.
///
/// # Errors
/// Corruption, if there is a gap between them.
pub fn check_log_begin(header: &SegmentHeader, path: &Path, state: &LogState) -> Result<()> {
    let previous = header.previous;
    // Behind a segment that is needed and not there, the log has a gap of its own.
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

/// Checks that a table file at `path` of `fs`, of which the manifest does not tell, was written
/// under no later state: it says with which segment the log began then.
///
/// # Errors
/// Corruption, if the manifest said more. A file that is not whole says nothing.
pub fn check_unnamed_table(fs: &dyn Fs, path: &Path, state: &LogState) -> Result<()> {
    let Ok(file) = fs.open(path) else { return Ok(()) };
    let shown = fs.full_path(path);
    let Some(origin) = table_origin(file, &shown) else { return Ok(()) };
    if cfg!(seeded_fault = "lost_edits_not_noticed") || origin.log_start <= state.first {
        return Ok(());
    }
    Err(Error::corruption("the manifest lacks edits that precede a table")
        .with_file(&shown)
        .with_mismatch(format_args!("log start at most {}", state.first), origin.log_start)
        .with_hint(RECOVER_HINT))
}

#[cfg(test)]
mod tests;
