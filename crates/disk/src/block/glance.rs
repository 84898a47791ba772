//! Looking up one key in the bytes of a block that is not going to be kept.
//!
//! It derives nothing from them that would help the next lookup: what lies before the entry is
//! walked over.

use super::{
    Header,
    form::{Located, PADDING_BYTES},
};
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    key::head,
};
use std::cmp::Ordering;

/// What the bytes of a block say about a key.
#[derive(Clone, Copy, Debug)]
pub enum Glance {
    /// The newest entry that may be seen.
    Found(Located),
    /// Only entries that are newer than may be seen.
    Newer,
    /// The block has no such entry.
    Absent,
}

/// Looks for the newest entry of `key` that is not newer than `visible` in `raw`. These are the
/// bytes of a block of `entries`, and after them [`Block::BYTES_BEHIND`] of something else.
///
/// Finds what [`Block::get`] finds. Checks the entries up to the one that is found, and no further.
///
/// [`Block::BYTES_BEHIND`]: super::Block::BYTES_BEHIND
/// [`Block::get`]: super::Block::get
///
/// # Errors
/// Corruption, if this is no such block as far as it was looked at.
pub fn glance(raw: &[u8], entries: u64, key: &[u8], visible: SequenceNumber) -> Result<Glance> {
    let Some(block_bytes) = raw.len().checked_sub(PADDING_BYTES) else {
        return Err(Error::corruption("a block does not end within its table"));
    };
    let header = Header::parse(&raw[..block_bytes])?;
    if u64::from(header.count) != entries {
        return Err(Error::corruption("a block is not what its index says"));
    }
    let entries_start = (header.prefix_start + header.prefix_bytes) as usize;
    let Some(suffix) = key.strip_prefix(&raw[header.prefix_start as usize..entries_start]) else {
        return Ok(Glance::Absent);
    };
    let sought = head(suffix);
    let mut at = entries_start;
    let mut absent = Glance::Absent;
    for _ in 0..header.count {
        let entry = header.form.check(raw, at)?;
        at = entry.value_end;
        let found = &raw[entry.suffix_start..entry.value_start];
        match head(found).cmp(&sought).then_with(|| found.cmp(suffix)) {
            Ordering::Less => {}
            Ordering::Greater => break,
            Ordering::Equal if entry.sequence > visible => absent = Glance::Newer,
            Ordering::Equal => {
                entry.check_kind(raw)?;
                return Ok(Glance::Found(entry));
            }
        }
    }
    Ok(absent)
}
