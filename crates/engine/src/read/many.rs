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
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|a, b| keys[*a].as_ref().cmp(keys[*b].as_ref()));
        let mut values = vec![None; keys.len()];
        let noted = Noted::default();
        let mut deferred = Vec::new();
        for &index in &order {
            let key = keys[index].as_ref();
            values[index] = match self.defers() {
                true => self.look_with(key, || self.noting(&noted), |value| value.pin())?,
                false => self.get(key)?,
            };
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
