//! Values that are written as streams, so that they need not be in memory as a whole.
//!
//! A stream always becomes a blob, raw, whatever the threshold of the family is. It is committed
//! when the stream has ended. It does not read values: `read::stream` does.

use crate::{
    catalog::family::FamilyData,
    database::Database,
    options::Durability,
    write::{commit::commit_pointer, separation::write_stream},
};
use siltdb_base::error::Result;
use std::io::Read;

/// Puts a value of `bytes` bytes that `value` gives, with its expiry, if it has one.
///
/// # Errors
/// As [`commit`](crate::write::commit::commit); `InvalidArgument`, if the stream ends before, or
/// goes on; `Io`, if reading it fails. Nothing was written then.
pub fn put_stream(
    database: &Database,
    family: &FamilyData,
    (key, bytes, expiry_ms): (&[u8], u64, Option<u64>),
    value: &mut dyn Read,
    durability: Durability,
) -> Result<()> {
    database.health.check()?;
    family.check()?;
    let (pointer, separated) = write_stream(database, family, (key, bytes, expiry_ms), value)?;
    commit_pointer(database, family, (key, &pointer), &separated, durability)
}
