//! The keys and values of all cases.

use siltdb::{Db, Read, Result};
use std::ops::Range;

/// Keys of a database that is read.
pub const KEYS: u64 = 20_000;

/// The value of each key.
pub const VALUE: [u8; 100] = [7; 100];

/// A key of 16 bytes. Neighbouring indices lie far apart.
pub fn key(index: u64) -> [u8; 16] {
    let spread = u128::from(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (spread << 64 | u128::from(index)).to_be_bytes()
}

/// Puts the keys of these indices.
pub fn fill(db: &Db, indices: Range<u64>) -> Result<()> {
    indices.into_iter().try_for_each(|index| db.put(key(index), VALUE))
}

/// All keys in tables below level 0, whose blocks were read once.
pub fn compacted(db: &Db) -> Result<()> {
    fill(db, 0..KEYS)?;
    db.flush()?;
    db.compact()?;
    db.iter()?.try_for_each(|pair| pair.map(drop))
}
