//! Reads of many keys from one view: in the order of the keys, then of the places of their
//! separated values.
//!
//! 1. Keys are looked up in their order. So each block is read once, also with a small cache, and
//!    the reads of a table go forward.
//! 2. A separated value is not read then: its pointer is noted.
//! 3. The noted values are read by file and offset. While one is read, the system is told of the
//!    next ones, up to [`AHEAD_BYTES`], and reads them at the same time.
//!
//! A family with a merge operator leaves out 2 and 3, because operands need the value below them.

use super::PinnedReader;
use siltdb_base::{error::Result, key::BlobPointer, slice::Slice, sync::lock};
use siltdb_tree::read::visible::resolve::{BlobSource, Resolver};
use std::sync::Mutex;

/// Separated values that the system reads ahead of the one that is awaited, in bytes. Enough for a
/// device to be busy, and little beside the page cache.
const AHEAD_BYTES: u64 = 4 << 20;

/// Notes a pointer instead of reading the value there.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pointer: Mutex<Option<BlobPointer>>,
}

impl Noted {
    /// Takes the pointer that was met.
    pub(crate) fn take(&self) -> Option<BlobPointer> {
        lock(&self.pointer).take()
    }
}

impl BlobSource for Noted {
    fn read(&self, pointer: &BlobPointer) -> Result<Slice> {
        *lock(&self.pointer) = Some(*pointer);
        Ok(Slice::copy_from(b""))
    }
}

/// A separated value that is still to be read.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    pointer: BlobPointer,
    /// The index of its key.
    index: usize,
}

impl PinnedReader {
    /// The values of `keys`, in their order, which may be any.
    ///
    /// # Errors
    /// As [`PinnedReader::get`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        let mut values = vec![None; keys.len()];
        if !self.defers() {
            for Placed { index, .. } in sorted(keys) {
                values[index] = self.get(keys[index].as_ref())?;
            }
            return Ok(values);
        }
        let (noted, mut deferred) = (Noted::default(), Vec::new());
        for Placed { index, .. } in sorted(keys) {
            let resolver = || self.noting(&noted);
            values[index] = self.look_with(keys[index].as_ref(), resolver, |value| value.pin())?;
            if let Some(pointer) = noted.take() {
                deferred.push(Deferred { pointer, index });
            }
        }
        if let Some(blobs) = self.reader.blobs.as_deref() {
            read_deferred(blobs, &mut deferred, &mut values)?;
        }
        Ok(values)
    }

    /// The length of the value of a key, in bytes. A separated value is not read.
    ///
    /// # Errors
    /// As [`PinnedReader::get`].
    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        if !self.defers() {
            return self.look(key, |value| value.bytes().len() as u64);
        }
        let noted = Noted::default();
        let resolver = || self.noting(&noted);
        let found = self.look_with(key, resolver, |value| value.bytes().len() as u64)?;
        Ok(found.map(|length| noted.take().map_or(length, |pointer| pointer.length.into())))
    }

    /// Whether values may be read later than their pointers.
    fn defers(&self) -> bool {
        self.reader.blobs.is_some() && self.reader.operator.is_none()
    }

    fn noting<'r>(&'r self, noted: &'r Noted) -> Resolver<'r> {
        Resolver { blobs: Some(noted), ..self.reader.resolver() }
    }
}

/// A key by its index, with the bytes that mostly decide its place in the order.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// The first 8 bytes behind what all keys have in common, as a big-endian number.
    head: u64,
    index: usize,
}

/// The indices of `keys` in the order of the keys.
fn sorted<K: AsRef<[u8]>>(keys: &[K]) -> Vec<Placed> {
    let Some(first) = keys.first().map(AsRef::as_ref) else { return Vec::new() };
    let common = keys.iter().fold(first.len(), |common, key| {
        let same = first[..common].iter().zip(key.as_ref()).take_while(|(a, b)| a == b);
        same.count()
    });
    let mut order: Vec<_> = keys
        .iter()
        .enumerate()
        .map(|(index, key)| {
            let rest = &key.as_ref()[common..];
            let mut head = [0; 8];
            let bytes = rest.len().min(head.len());
            head[..bytes].copy_from_slice(&rest[..bytes]);
            Placed { head: u64::from_be_bytes(head), index }
        })
        .collect();
    let rest = |placed: &Placed| &keys[placed.index].as_ref()[common..];
    order.sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| rest(a).cmp(rest(b))));
    order
}

fn read_deferred(
    blobs: &dyn BlobSource,
    deferred: &mut [Deferred],
    values: &mut [Option<Slice>],
) -> Result<()> {
    deferred.sort_unstable_by_key(|value| (value.pointer.file, value.pointer.offset));
    let (mut told, mut ahead_bytes) = (0, 0);
    for (position, Deferred { pointer, index }) in deferred.iter().enumerate() {
        while told < deferred.len() && (ahead_bytes < AHEAD_BYTES || told <= position) {
            let next = &deferred[told].pointer;
            // The first is read at once.
            if told > 0 {
                blobs.will_read(next);
            }
            ahead_bytes += u64::from(next.stored_bytes);
            told += 1;
        }
        ahead_bytes -= u64::from(pointer.stored_bytes);
        values[*index] = Some(blobs.read(pointer)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
