//! Ingests: planned as commits of sorted operations, and carried out past the log. Those of one
//! family are a stream, those of several are table files that one edit installs. Expiries are given
//! with the entries, and in table files also by the TTL of the writer.

use crate::{
    database::Database,
    model::{FamilyIndex, Operation},
    plan::Planned,
    settings::{OUTSIDE, OUTSIDE_NAME},
};
use siltdb::{ErrorKind, Expiry, Family, FamilyOptions, Options, WriteOptions};
use siltdb_base::{clock::ManualClock, fs::Fs};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// The TTL of the writers of table files.
const TTL: Duration = Duration::from_millis(1000);

/// The options of a put with this expiry.
fn expiring(expiry_ms: Option<&u64>) -> WriteOptions {
    let at = |ms: &u64| Expiry::At(UNIX_EPOCH + Duration::from_millis(*ms));
    WriteOptions::new().expiry(expiry_ms.map_or(Expiry::Never, at))
}

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
    // It is set for each entry, so that the bytes depend on the seed alone.
    let clock = Arc::new(ManualClock::at(Duration::ZERO));
    let writer_clock = Arc::clone(&clock) as Arc<_>;
    let options = Options::new().fs(Arc::new(database.fs.clone())).clock(writer_clock);
    let mut files: Vec<(Family, PathBuf)> = Vec::new();
    for (number, (family, operations)) in parts.iter().enumerate() {
        let path = Path::new(OUTSIDE).join(format!("{OUTSIDE_NAME}{number}.table"));
        // Left by an earlier ingest, or by a crash in one.
        match database.fs.remove(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let order = database.family(*family).key_order();
        let with_ttl = FamilyOptions::new().key_order(order).ttl(TTL);
        let mut table = options.table_file(&path, &with_ttl)?;
        for operation in operations {
            match operation {
                Operation::Put { key, value, expiry_ms: Some(ms) } if ms % 2 == 0 => {
                    clock.set(Duration::from_millis(ms - TTL.as_millis() as u64));
                    table.put(key, value)?;
                }
                Operation::Put { key, value, expiry_ms } => {
                    table.put_with(key, value, &expiring(expiry_ms.as_ref()))?;
                }
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
            // It gets the expiry that the family gives.
            Operation::Put { key, value, expiry_ms: None } => ingestion.put(key, value)?,
            Operation::Put { key, value, expiry_ms } => {
                ingestion.put_with(key, value, &expiring(expiry_ms.as_ref()))?;
            }
            Operation::Delete { key } => ingestion.delete(key)?,
            other => unreachable!("an ingest has no {other:?}"),
        }
    }
    ingestion.finish().map(|_| ())
}
