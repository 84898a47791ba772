//! Paths of buckets, and the keys that store them, as in docs/buckets.md.
//!
//! It converts only, and neither reads nor writes the database.

use crate::key_range::KeyRange;
use siltdb_base::error::{Error, Result};
use std::{fmt, ops::Bound};

/// Most names of a path. Each costs a lookup in every call.
pub const BUCKET_DEPTH_MAX: usize = 16;

/// Longest name of a bucket, in bytes.
pub const BUCKET_NAME_BYTES_MAX: usize = 255;

/// Prefix of the keys of a family in which its buckets are stored. A program that walks over the
/// whole family meets them, and leaves them out by this prefix.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{BUCKET_IDS_KEY, BUCKET_KEY_PREFIX, Read};
/// let family = db.default_family();
/// family.put("k", "v")?;
/// assert!(!family.contains(BUCKET_IDS_KEY)?);
/// family.bucket(["inbox"])?.create()?;
/// assert!(family.contains(BUCKET_IDS_KEY)?);
/// let mut keys = Vec::new();
/// for pair in family.iter()? {
///     keys.push(pair?.0);
/// }
/// keys.retain(|key| !key.starts_with(&BUCKET_KEY_PREFIX));
/// assert_eq!(keys, [b"k"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub const BUCKET_KEY_PREFIX: [u8; 3] = [0x00, 0xff, b'b'];

/// The key of the counter that gives buckets their ids. A family has it from its first bucket on,
/// also after all buckets are deleted. In a family without it, keys that begin with
/// [`BUCKET_KEY_PREFIX`] belong to no bucket.
pub const BUCKET_IDS_KEY: [u8; 12] = [0x00, 0xff, b'b', 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Id of the bucket that holds the others. It has no name and no data.
pub(super) const ROOT: u64 = 0;

/// The part of a bucket that a key stores. It follows the bucket's id in the key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// A bucket in it; its name follows.
    Child = 0,
    /// The next id.
    Sequence = 1,
    /// Data; the key of the bucket follows.
    Data = 2,
    /// Of the root: a deleted bucket that may hold buckets; its id follows.
    Trash = 3,
}

/// Whether a key that begins with [`BUCKET_KEY_PREFIX`] says where buckets are, or which ids were
/// given. Data and the counters of buckets do not.
pub(crate) fn is_link(key: &[u8]) -> bool {
    let id = key.get(BUCKET_KEY_PREFIX.len()..BUCKET_KEY_PREFIX.len() + 8);
    match key.get(BUCKET_KEY_PREFIX.len() + 8) {
        Some(part) if *part == Part::Data as u8 => false,
        Some(part) if *part == Part::Sequence as u8 => id == Some(&ROOT.to_be_bytes()),
        _ => true,
    }
}

/// Prefix of all keys of a bucket.
pub(super) fn bucket_prefix(id: u64) -> Vec<u8> {
    [&BUCKET_KEY_PREFIX[..], &id.to_be_bytes()].concat()
}

/// Encodes the key of a part of a bucket.
pub(super) fn key(id: u64, part: Part, rest: &[u8]) -> Vec<u8> {
    [&BUCKET_KEY_PREFIX[..], &id.to_be_bytes(), &[part as u8], rest].concat()
}

/// Converts a range of keys of a bucket to the family's keys.
pub(super) fn data_range(id: u64, range: &impl KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let data = |bytes: &[u8]| key(id, Part::Data, bytes);
    let start = match range.start() {
        Bound::Unbounded => Bound::Included(data(b"")),
        bound => bound.map(data),
    };
    let end = match range.end() {
        Bound::Unbounded => Bound::Excluded(key(id, Part::Trash, b"")),
        bound => bound.map(data),
    };
    (start, end)
}

/// The value under a bucket's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: u64,
    /// Upper bound of the number of buckets on a path down from it, itself included.
    pub(super) height: usize,
}

impl Entry {
    /// Height of a bucket without others in it.
    pub(super) const LEAF: usize = 1;

    pub(super) fn encode(self) -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&self.id.to_be_bytes());
        bytes[8] = u8::try_from(self.height).expect("checked against the greatest depth");
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = || Error::corruption("what stands under the name of a bucket is no bucket");
        let (id, height) = bytes.split_at_checked(8).ok_or_else(bad)?;
        let id = u64::from_be_bytes(id.try_into().expect("8 bytes were split off"));
        match height {
            &[height] if (1..=BUCKET_DEPTH_MAX).contains(&height.into()) && id != ROOT => {
                Ok(Self { id, height: height.into() })
            }
            _ => Err(bad()),
        }
    }
}

/// A checked path: the names from the root to a bucket.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Path {
    names: Vec<Vec<u8>>,
}

impl Path {
    pub(super) fn new(names: impl IntoIterator<Item: AsRef<[u8]>>) -> Result<Self> {
        let mut path = Self { names: Vec::new() };
        for name in names {
            let name = name.as_ref();
            if name.is_empty() || name.len() > BUCKET_NAME_BYTES_MAX {
                return Err(Error::invalid("the name of the bucket is empty or too long")
                    .with_mismatch(
                        format_args!("1 to {BUCKET_NAME_BYTES_MAX} bytes"),
                        name.len(),
                    ));
            }
            path.names.push(name.to_vec());
            check_depth(path.names.len())?;
        }
        Ok(path)
    }

    pub(super) fn names(&self) -> &[Vec<u8>] {
        &self.names
    }

    /// Splits off the last name.
    ///
    /// # Errors
    /// `InvalidArgument` for the root.
    pub(super) fn split_last(&self) -> Result<(&[Vec<u8>], &[u8])> {
        let (last, before) = self.names.split_last().ok_or_else(|| {
            Error::invalid("the root holds buckets only, and always exists")
                .with_hint("name a bucket")
        })?;
        Ok((before, last))
    }
}

/// Checks that a bucket may have this depth.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth <= BUCKET_DEPTH_MAX {
        return Ok(());
    }
    Err(Error::invalid("the path of the bucket is too deep")
        .with_mismatch(format_args!("at most {BUCKET_DEPTH_MAX} names"), depth))
}

/// Formats names for messages.
pub(super) struct Shown<'a>(pub(super) &'a [Vec<u8>]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            write!(f, "{slash}{}", name.escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Shown(&self.names))
    }
}

#[cfg(test)]
mod tests;
