//! Reads everything on disk and verifies it, changing nothing.
//!
//! It does not mend; see the report for what is wrong.

use crate::{
    database::{Database, Waiting},
    options::{Create, EngineOptions},
    recovery,
};
use siltdb_base::error::{Error, Result};
use std::path::Path;

/// How far a check has come.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    /// Bytes verified.
    pub bytes_done: u64,
    /// Bytes to verify.
    pub bytes_total: u64,
}

/// What a check found.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Tables verified.
    pub tables: u64,
    /// Their blocks.
    pub blocks: u64,
    /// Entries in them, tombstones and old versions included.
    pub entries: u64,
    /// Records of the log that were replayed when the database was opened.
    pub log_records: u64,
    /// Bytes of tables verified.
    pub bytes: u64,
    /// Everything that is wrong; empty if nothing is.
    pub errors: Vec<Error>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Verifies every table of every family: each block, order, filter and count.
///
/// # Errors
/// None of its own: damage is in the report.
pub fn check(
    database: &Database,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    let mut report = CheckReport { log_records: database.log_records, ..CheckReport::default() };
    let families = database.families.load();
    let views: Vec<_> = families.iter().map(|family| family.tree.view()).collect();
    let tables: Vec<_> = views.iter().flat_map(|view| view.version.tables()).collect();
    let mut progress = CheckProgress {
        bytes_done: 0,
        bytes_total: tables.iter().map(|(_, table)| table.bytes()).sum(),
    };
    for view in &views {
        report.errors.extend(view.version.check().err());
    }
    for (_, table) in tables {
        let verified = table.table().and_then(|open| {
            open.verify(&mut |bytes| {
                progress.bytes_done += bytes;
                on_progress(progress);
            })?;
            Ok(open.block_count())
        });
        match verified {
            Ok(blocks) => {
                report.tables += 1;
                report.blocks += blocks as u64;
                report.entries += table.summary().entries;
                report.bytes += table.bytes();
            }
            Err(error) => report.errors.push(error.or_file(&database.files.path(table.id().file))),
        }
    }
    Ok(report)
}

/// Verifies a database that nobody has open: its manifest and log by replaying them, then as
/// [`check`]. Nothing is written but the lock.
///
/// # Errors
/// `NotFound`, `Locked`; the system's. Damage is in the report.
pub fn check_closed(dir: &Path, on_progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport> {
    let options = EngineOptions { create: Create::Never, workers: 0, ..EngineOptions::default() };
    match recovery::inspect(dir, options, Waiting::RunJob(|_| Ok(false))) {
        Ok((database, _lock)) => check(&database, on_progress),
        Err(error) if error.kind() == siltdb_base::error::ErrorKind::Corruption => {
            Ok(CheckReport { errors: vec![error], ..CheckReport::default() })
        }
        Err(error) => Err(error),
    }
}
