//! Executes a planned commit on the engine, and describes it in a line of the run's log.
//!
//! It judges nothing.

use crate::{
    database::Database,
    ingests::ingest,
    model::{FamilyIndex, Operation},
    plan::{Form, Planned},
    violation::show,
};
use siltdb::{Family, WriteBatch, WriteOptions};
use std::time::{Duration, UNIX_EPOCH};

/// Makes a planned commit.
pub(crate) fn carry_out(database: &Database, planned: &Planned) -> siltdb::Result<()> {
    let family = |index: &FamilyIndex| -> &Family { database.family(*index) };
    if let (Form::Single, [(index, operation)]) = (planned.form, &planned.operations[..]) {
        match operation {
            Operation::Put { key, value, .. } => return family(index).put(key, value),
            Operation::Delete { key } => return family(index).delete(key),
            Operation::DeleteRange { start, end } => {
                return family(index).delete_range(&**start..&**end);
            }
            Operation::DeletePrefix { prefix } if prefix.is_empty() => {
                return family(index).clear();
            }
            Operation::DeletePrefix { prefix } => return family(index).delete_prefix(prefix),
            Operation::SingleDelete { .. } | Operation::Merge { .. } => {}
        }
    }
    if planned.form == Form::Ingest {
        return ingest(database, planned);
    }
    let mut batch = WriteBatch::new();
    for (index, operation) in &planned.operations {
        let family = family(index);
        match operation {
            Operation::Put { key, value, expiry_ms: None } => batch.put(family, key, value)?,
            Operation::Put { key, value, expiry_ms: Some(expiry_ms) } => {
                let expiry = UNIX_EPOCH + Duration::from_millis(*expiry_ms);
                batch.put_until(family, key, value, expiry)?;
            }
            Operation::Delete { key } => batch.delete(family, key)?,
            Operation::SingleDelete { key } => batch.single_delete(family, key)?,
            Operation::DeleteRange { start, end } => {
                batch.delete_range(family, &**start..&**end)?;
            }
            Operation::DeletePrefix { prefix } => batch.delete_prefix(family, prefix)?,
            Operation::Merge { key, operand } => batch.merge(family, key, operand)?,
        }
    }
    database.db.write_with(&batch, &WriteOptions::new().durability(planned.durability))
}

/// A planned commit in a line.
pub(crate) fn describe(number: u64, planned: &Planned) -> String {
    const SHOWN: usize = 12;
    let shown = planned.operations.iter().take(SHOWN).map(|(family, operation)| {
        let what = match operation {
            Operation::Put { key, value, expiry_ms: None } => {
                format!("put {} ({} bytes)", show(key), value.len())
            }
            Operation::Put { key, value, expiry_ms: Some(ms) } => {
                format!("put {} ({} bytes) until {ms}", show(key), value.len())
            }
            Operation::Delete { key } => format!("delete {}", show(key)),
            Operation::SingleDelete { key } => format!("single delete {}", show(key)),
            Operation::DeleteRange { start, end } => {
                format!("delete {}..{}", show(start), show(end))
            }
            Operation::DeletePrefix { prefix } => format!("delete prefix {}", show(prefix)),
            Operation::Merge { key, operand } => format!("merge {} {}", show(key), show(operand)),
        };
        format!("#{} {what}", family.0)
    });
    let shown: Vec<_> = shown.collect();
    let Planned { operations, durability, clock, form } = planned;
    let count = operations.len();
    format!(
        "commit {number} ({form:?}, {durability:?}, clock {clock:?}, {count}): {}",
        shown.join("; ")
    )
}
