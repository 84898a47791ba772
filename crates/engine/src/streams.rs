//! Values that are written and read as streams, so that they need not be in memory as a whole.
//!
//! A stream that is written always becomes a blob, raw, whatever the threshold of the family is. It
//! is committed when the stream has ended. A blob is verified while it is read: the read that would
//! return its last bytes fails if they, or any before, are not what was written.

use crate::{
    blobs::blob_file::BlobFile, catalog::family::FamilyData, commit::commit_pointer,
    database::Database, options::Durability, read, read::many::Noted, separation::write_stream,
};
use siltdb_base::{
    checksum::crc32c_append,
    error::{ErrorKind, Result},
    key::BlobPointer,
    slice::Slice,
};
use siltdb_disk::{
    blob::{check_stored, checksum_at},
    compress::Codec,
};
use siltdb_tree::read::visible::resolve::Resolver;
use std::{
    io::{self, Read},
    sync::Arc,
};

/// Puts a value of `bytes` bytes that `value` gives, with its expiry, if it has one.
///
/// # Errors
/// As [`commit`](crate::commit::commit); `InvalidArgument`, if the stream ends before, or goes on;
/// `Io`, if reading it fails. Nothing was written then.
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

/// A value that is read as a stream.
#[derive(Debug)]
pub struct ValueStream {
    source: Source,
    done: u64,
}

#[derive(Debug)]
enum Source {
    /// It was not separated, is compressed, or has operands.
    Whole(Slice),
    /// It lies raw in a blob file.
    Blob { file: Arc<BlobFile>, pointer: BlobPointer, checksum: u32 },
}

impl ValueStream {
    /// Its length, in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.source {
            Source::Whole(value) => value.len() as u64,
            Source::Blob { pointer, .. } => pointer.length.into(),
        }
    }

    /// Whether the value has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Read for ValueStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.len() - self.done;
        let bytes = left.min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..bytes];
        if bytes == 0 {
            return Ok(0);
        }
        match &mut self.source {
            Source::Whole(value) => {
                let start = self.done as usize;
                buffer.copy_from_slice(&value[start..start + bytes]);
            }
            Source::Blob { file, pointer, checksum } => {
                file.read_part(pointer.offset + self.done, buffer).map_err(io::Error::other)?;
                *checksum = crc32c_append(*checksum, buffer);
                if left == bytes as u64 {
                    let checked = check_stored(pointer, *checksum);
                    let located = checked.map_err(|error| error.or_file(&file.path()));
                    located.map_err(io::Error::other)?;
                }
            }
        }
        self.done += bytes as u64;
        Ok(bytes)
    }
}

/// The value of `key` as a stream, if it has one.
///
/// # Errors
/// As [`read::get`]; those of reading the stream are errors of the system that have one of ours as
/// their source.
pub fn get_stream(
    database: &Database,
    family: &FamilyData,
    key: &[u8],
) -> Result<Option<ValueStream>> {
    let pinned = read::pin_with_blobs(database, family, None)?;
    let noted = Noted::default();
    // Without an operator, operands are an error.
    let resolver = || Resolver {
        now_ms: database.options.clock.wall_ms(),
        operator: None,
        blobs: Some(&noted),
        folds: None,
        clock: Some(&*database.options.clock),
        expiry_ms: None,
    };
    let found = pinned.view.get(key, pinned.snapshot, resolver, |value| value.pin());
    let pointer = noted.take();
    let raw = pointer.filter(|pointer| pointer.codec == Codec::Raw as u8);
    let source = match (found, raw) {
        (Ok(None), _) => return Ok(None),
        (Ok(Some(_)), Some(pointer)) => match database.blobs.hold(&pointer) {
            Ok(file) => {
                let checksum = checksum_at(file.uid(), pointer.offset);
                Some(Source::Blob { file, pointer, checksum })
            }
            // Removed since the view was pinned.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        },
        (Ok(Some(value)), None) if pointer.is_none() => Some(Source::Whole(value)),
        (Err(error), _) if error.kind() != ErrorKind::Unsupported => return Err(error),
        _ => None,
    };
    let source = match source {
        Some(source) => source,
        None => match read::get(database, family, key, None, |value| value.pin())? {
            Some(value) => Source::Whole(value),
            None => return Ok(None),
        },
    };
    Ok(Some(ValueStream { source, done: 0 }))
}
