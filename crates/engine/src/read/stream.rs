//! Values that are read as streams, so that they need not be in memory as a whole.
//!
//! A blob is verified while it is read: the read that would return its last bytes fails if they, or
//! any before, are not what was written. A value that was not separated, is compressed, or has
//! operands is in memory as a whole.

use super::{PinnedReader, many::Noted};
use crate::blobs::{PinnedBlobs, blob_file::BlobFile};
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

/// A value that is read as a stream. A clone reads on from the same place, by itself.
#[derive(Clone, Debug)]
pub struct ValueStream {
    source: Source,
    done: u64,
}

#[derive(Clone, Debug)]
enum Source {
    /// In memory.
    Whole(Slice),
    /// It lies raw in a blob file, which stays while it is held.
    Blob { file: Arc<BlobFile>, pointer: BlobPointer, checksum: u32 },
}

impl ValueStream {
    /// The separated value at `pointer`, which a view refers to that was pinned with `blobs`.
    ///
    /// # Errors
    /// Corruption, with file and offset; the system's.
    pub fn open(blobs: &PinnedBlobs, pointer: &BlobPointer) -> Result<Self> {
        if pointer.codec != Codec::Raw as u8 {
            return Ok(Self::whole(blobs.read(pointer)?));
        }
        let file = blobs.hold(pointer)?;
        let checksum = checksum_at(file.uid(), pointer.offset);
        Ok(Self { source: Source::Blob { file, pointer: *pointer, checksum }, done: 0 })
    }

    fn whole(value: Slice) -> Self {
        Self { source: Source::Whole(value), done: 0 }
    }

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

impl PinnedReader {
    /// The same reader, whose cursors do not read separated values of `bytes` bytes and more: they
    /// say where these lie.
    #[must_use]
    pub fn streaming_from(mut self, bytes: Option<u64>) -> Self {
        self.reader.streamed_from = bytes;
        self
    }

    /// Where separated values are read, if there are any.
    #[must_use]
    pub fn blobs(&self) -> Option<&PinnedBlobs> {
        self.blobs.as_ref()
    }

    /// The value of `key` as a stream, if it has one.
    ///
    /// # Errors
    /// As [`PinnedReader::get`]; those of reading the stream are errors of the system that have one
    /// of ours as their source.
    pub fn stream(&self, key: &[u8]) -> Result<Option<ValueStream>> {
        let noted = Noted::default();
        // Without an operator, operands are an error.
        let resolver = || Resolver {
            operator: None,
            folds: None,
            blobs: Some(&noted),
            ..self.reader.resolver()
        };
        match self.look_with(key, resolver, |value| value.pin()) {
            Ok(None) => Ok(None),
            Ok(Some(value)) => match (noted.take(), &self.blobs) {
                (Some(pointer), Some(blobs)) => ValueStream::open(blobs, &pointer).map(Some),
                _ => Ok(Some(ValueStream::whole(value))),
            },
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Ok(self.get(key)?.map(ValueStream::whole))
            }
            Err(error) => Err(error),
        }
    }
}
