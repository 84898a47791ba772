//! Steps of RocksDB's iterators, with and without transactions.

use rocksdb::{DBAccess, DBRawIteratorWithThreadMode};
use siltdb_bench::engine::{Direction, Result};

type Cursor<'a, D> = DBRawIteratorWithThreadMode<'a, D>;

/// Shows the first entry at or after `key`. Returns whether there is one.
#[inline]
pub fn seek<D: DBAccess>(
    cursor: &mut Cursor<'_, D>,
    key: &[u8],
    seen: impl FnOnce(&[u8], &[u8]),
) -> Result<bool> {
    cursor.seek(key);
    let Some((key, value)) = cursor.item() else {
        cursor.status()?;
        return Ok(false);
    };
    seen(key, value);
    Ok(true)
}

/// Shows at most `limit` entries from a key or an end on. Returns their number.
pub fn scan<D: DBAccess>(
    cursor: &mut Cursor<'_, D>,
    (from, direction): (Option<&[u8]>, Direction),
    limit: u64,
    mut seen: impl FnMut(&[u8], &[u8]),
) -> Result<u64> {
    match (from, direction) {
        (None, Direction::Forward) => cursor.seek_to_first(),
        (None, Direction::Reverse) => cursor.seek_to_last(),
        (Some(key), Direction::Forward) => cursor.seek(key),
        (Some(key), Direction::Reverse) => cursor.seek_for_prev(key),
    }
    let mut count = 0;
    while count < limit {
        let Some((key, value)) = cursor.item() else { break };
        seen(key, value);
        count += 1;
        match direction {
            Direction::Forward => cursor.next(),
            Direction::Reverse => cursor.prev(),
        }
    }
    // An iterator ends at an error as it does at the end.
    cursor.status()?;
    Ok(count)
}
