//! Values that are written as streams, so that they need not be in memory as a whole.
//!
//! A stream always becomes a blob, raw, whatever the threshold of the family is. It is committed
//! when the stream has ended. It does not read values: `read::stream` does.

use crate::{
    catalog::family::FamilyData,
    database::writable::Writable,
    options::Durability,
    write::{commit::commit_stored, separation::write_stream},
};
use siltdb_base::{error::Result, key::EntryKind};
use siltdb_disk::{batch::BatchOperation, log::record::LogPosition};
use std::io::Read;

/// Puts a value of `bytes` bytes that `value` gives, with its expiry, if it has one.
///
/// # Errors
/// As [`commit`](crate::write::commit::commit); `InvalidArgument`, if the stream ends before, or
/// goes on; `Io`, if reading it fails. Nothing was written then.
pub fn put_stream(
    writable: Writable<'_>,
    family: &FamilyData,
    key: &[u8],
    bytes: u64,
    expiry_ms: Option<u64>,
    value: &mut dyn Read,
    durability: Durability,
) -> Result<()> {
    let database = writable.database();
    database.health.check()?;
    family.check()?;
    let (pointer, separated) =
        write_stream(&database.installer(), family, key, bytes, expiry_ms, value)?;
    let mut payload = Vec::new();
    pointer.encode(&mut payload);
    let kind = EntryKind::BlobPointer;
    let operation = BatchOperation { kind, family: family.id, key, payload: &payload };
    let note = |at: LogPosition| separated.note(at.segment);
    commit_stored(database, family, &operation, durability, note)
}
