//! Looking up one key in the bytes of a block that is not going to be kept.
//!
//! It derives nothing from them that would help the next lookup: what lies before the entry is
//! walked over, unless the heads of the entries lie on disk.

use super::{
    Header,
    form::{HEAD_BYTES, Located, PADDING_BYTES, short_head},
};
use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    key::{SortKey, head, try_lower_bound_within},
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
    if let Some(place) = header.arrays_place() {
        let (raw, arrays) = (&raw[..header.padded_end()], &raw[place]);
        return search(&header, raw, arrays, suffix, visible);
    }
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

/// The same by the `arrays` of the block, which lie on disk.
fn search(
    header: &Header,
    raw: &[u8],
    arrays: &[u8],
    suffix: &[u8],
    visible: SequenceNumber,
) -> Result<Glance> {
    let count = header.count as usize;
    let (heads, offsets) = arrays.split_at(count * HEAD_BYTES);
    let heads = heads.as_chunks::<HEAD_BYTES>().0;
    let sought = short_head(suffix);
    let low = heads.partition_point(|head| u32::from_le_bytes(*head) < sought);
    let end = low + heads[low..].partition_point(|head| *head == sought.to_le_bytes());
    let width = header.form.offset_width();
    let entry_at = |index: usize| {
        let at = width.read(&offsets[index * width.bytes()..]);
        header.form.check(raw, at)
    };
    // Most heads stand once, and versions are few.
    if low + 1 == end {
        let entry = entry_at(low)?;
        let is_key = raw[entry.suffix_start..entry.value_start] == *suffix;
        return match is_key && entry.sequence <= visible {
            true => entry.check_kind(raw).map(|()| Glance::Found(entry)),
            false if is_key => Ok(Glance::Newer),
            false => Ok(Glance::Absent),
        };
    }
    // Among those that have the head.
    let found = try_lower_bound_within(low..end, |index| {
        let entry = entry_at(index)?;
        let found = &raw[entry.suffix_start..entry.value_start];
        Ok(SortKey::new(found, entry.sequence) < SortKey::new(suffix, visible))
    })?;
    if found < end {
        let entry = entry_at(found)?;
        if raw[entry.suffix_start..entry.value_start] == *suffix {
            entry.check_kind(raw)?;
            return Ok(Glance::Found(entry));
        }
    }
    let before = found.checked_sub(1).filter(|&before| heads[before] == sought.to_le_bytes());
    match before.map(entry_at).transpose()? {
        Some(entry) if raw[entry.suffix_start..entry.value_start] == *suffix => Ok(Glance::Newer),
        _ => Ok(Glance::Absent),
    }
}
