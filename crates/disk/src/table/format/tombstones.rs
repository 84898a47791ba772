//! The range tombstones of a table, as fragments.
//!
//! ```text
//! | fragment, ... |
//!
//! fragment: | start: length varint, bytes | end: length varint, bytes | sequences varint |
//!           | newest sequence varint | difference to the next older varint, ... |
//! ```
//!
//! Fragments are disjoint and in key order, and so are, from newest to oldest, the sequence numbers
//! of each.

use crate::table_meta::{KeySpan, RangeEnd};
use siltdb_base::{
    codec::{ByteReader, put_bytes, put_varint},
    error::{Error, Result},
    id::SequenceNumber,
    limits::KEY_BYTES_MAX,
    slice::Slice,
    tombstone::{Fragment, Fragments},
};

/// Appends the encoding of `fragments` to `out`.
pub fn encode(fragments: &Fragments, out: &mut Vec<u8>) {
    let all = fragments.as_slice();
    assert!(
        all.windows(2).all(|pair| pair[0].end <= pair[1].start),
        "range tombstones out of order"
    );
    for (index, fragment) in fragments.as_slice().iter().enumerate() {
        put_bytes(out, &fragment.start);
        put_bytes(out, &fragment.end);
        let sequences = fragments.sequences(index);
        assert!(fragment.start < fragment.end, "a range tombstone over nothing");
        assert!(!sequences.is_empty(), "a range tombstone without a sequence number");
        put_varint(out, sequences.len() as u64);
        let mut newer = None;
        for sequence in sequences {
            put_varint(out, newer.map_or(sequence.0, |newer| newer - sequence.0));
            newer = Some(sequence.0);
        }
    }
}

/// Reads an encoding that fills `bytes`.
///
/// Memory: about 150 bytes and its keys for each fragment, and 16 bytes for each sequence number,
/// which takes a byte at least. Most of the former and half of the latter stay.
///
/// # Errors
/// Corruption, if it is none.
pub fn decode(bytes: &[u8]) -> Result<Fragments> {
    let mut reader = ByteReader::new(bytes);
    let mut fragments = Vec::new();
    while !reader.is_empty() {
        let (start, end) = (key(&mut reader)?, key(&mut reader)?);
        let sequences = sequences(&mut reader)?;
        fragments.push((Fragment { start, end }, sequences));
    }
    Fragments::from_ordered(fragments)
        .ok_or_else(|| Error::corruption("range tombstones out of order"))
}

/// The sequence numbers of one fragment, newest first.
fn sequences(reader: &mut ByteReader<'_>) -> Result<Vec<SequenceNumber>> {
    let count = reader.varint()?;
    if count == 0 || count > reader.rest().len() as u64 {
        return Err(Error::corruption("bad number of range tombstones"));
    }
    let mut sequences = Vec::with_capacity(count as usize);
    let mut newer: Option<u64> = None;
    for _ in 0..count {
        let number = reader.varint()?;
        let sequence = match newer {
            None => Some(number),
            Some(newer) => newer.checked_sub(number),
        };
        let sequence = sequence.filter(|&sequence| sequence <= SequenceNumber::MAX.0);
        let sequence =
            sequence.ok_or_else(|| Error::corruption("bad sequence of a range tombstone"))?;
        newer = Some(sequence);
        sequences.push(SequenceNumber(sequence));
    }
    Ok(sequences)
}

/// The keys that `fragments` cover; `None`, if there are none.
#[must_use]
pub fn range(fragments: &Fragments) -> Option<KeySpan> {
    let (first, last) = (fragments.as_slice().first()?, fragments.as_slice().last()?);
    Some(KeySpan { first: first.start.clone(), last: last.end.clone(), end: RangeEnd::Exclusive })
}

/// The keys of `points` and those that `fragments` cover; `None`, if there are none.
#[must_use]
pub fn united_range(points: Option<KeySpan>, fragments: &Fragments) -> Option<KeySpan> {
    match (points, range(fragments)) {
        (Some(points), Some(tombstones)) => Some(points.union(&tombstones)),
        (points, tombstones) => points.or(tombstones),
    }
}

fn key(reader: &mut ByteReader<'_>) -> Result<Slice> {
    let key = reader.bytes()?;
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::corruption("key too long").with_mismatch(KEY_BYTES_MAX, key.len()));
    }
    Ok(Slice::copy_from(key))
}

#[cfg(test)]
mod tests;
