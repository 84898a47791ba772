//! Ingests: planned as commits of sorted operations, and carried out past the log. Those of one
//! family are a stream, those of several are table files that one edit installs.

use crate::{
    database::Database,
    model::{FamilyIndex, Operation},
    plan::Planned,
    settings::{OUTSIDE, OUTSIDE_NAME},
};
use siltdb::{ErrorKind, Family, FamilyOptions, Options};
use siltdb_base::{clock::ManualClock, fs::Fs};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Ingests what `planned` has.
pub(crate) fn ingest(database: &Database, planned: &Planned) -> siltdb::Result<()> {
    let mut parts: BTreeMap<FamilyIndex, Vec<&Operation>> = BTreeMap::new();
    for (family, operation) in &planned.operations {
        parts.entry(*family).or_default().push(operation);
    }
    if let [(family, operations)] = &parts.iter().collect::<Vec<_>>()[..] {
        return stream(database.family(**family), operations);
    }
    database.fs.create_dir_all(Path::new(OUTSIDE))?;
    // A clock that stands still, so that the bytes depend on the seed alone.
    let clock = Arc::new(ManualClock::new(0));
    let options = Options::new().fs(Arc::new(database.fs.clone())).clock(clock);
    let mut files: Vec<(Family, PathBuf)> = Vec::new();
    for (number, (family, operations)) in parts.iter().enumerate() {
        let path = Path::new(OUTSIDE).join(format!("{OUTSIDE_NAME}{number}.table"));
        // Left by an earlier ingest, or by a crash in one.
        match database.fs.remove(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let order = database.family(*family).key_order();
        let mut table = options.table_file(&path, &FamilyOptions::new().key_order(order))?;
        for operation in operations {
            match operation {
                Operation::Put { key, value, .. } => table.put(key, value)?,
                Operation::Delete { key } => table.delete(key)?,
                other => unreachable!("an ingest has no {other:?}"),
            }
        }
        table.finish()?;
        files.push((database.family(*family).clone(), path));
    }
    database.db.ingest(&files).map(|_| ())
}

fn stream(family: &Family, operations: &[&Operation]) -> siltdb::Result<()> {
    let mut ingestion = family.ingest()?;
    for operation in operations {
        match operation {
            Operation::Put { key, value, .. } => ingestion.put(key, value)?,
            Operation::Delete { key } => ingestion.delete(key)?,
            other => unreachable!("an ingest has no {other:?}"),
        }
    }
    ingestion.finish().map(|_| ())
}
