//! Ingests: planned as commits of sorted operations, and carried out past the log.

use crate::{database::Database, model::Operation, plan::Planned};

/// Ingests what `planned` has for one family.
pub(crate) fn ingest(database: &Database, planned: &Planned) -> siltdb::Result<()> {
    let Some((family, _)) = planned.operations.first() else { return Ok(()) };
    let mut ingestion = database.families[family].ingest()?;
    for (_, operation) in &planned.operations {
        match operation {
            Operation::Put { key, value, .. } => ingestion.put(key, value)?,
            Operation::Delete { key } => ingestion.delete(key)?,
            other => unreachable!("an ingest has no {other:?}"),
        }
    }
    ingestion.finish().map(|_| ())
}
