//! Where the bytes of a table lie, and what of them is read as a whole: everything but its blocks.
//!
//! It keeps nothing but working memory: what it reads is its caller's.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::block_stats::BlockStats;
use crate::table::format::footer::{FOOTER_BYTES, Footer};
use crate::table::format::properties::Properties;
use crate::table::format::sealed::SealedBlock;
use crate::table::format::tombstones;
use crate::table::read::dictionary::{LentDictionary, TableDictionary};
use crate::{
    block::Block,
    compress::Codec,
    filter::Filter,
    frame::{Frame, FrameKind, FramePlace},
    table_meta::TableMeta,
    zstd::Dictionary,
};
use bytes::Bytes;
use siltdb_base::{
    codec::resize,
    error::{Error, Result},
    fs::File,
    id::TableUid,
    tombstone::Fragments,
};
use std::{
    cell::Cell,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Working memory that a thread keeps between reads, in bytes.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Where a table lies: a part of a file.
#[derive(Debug)]
pub struct TableLocation<'a> {
    file: Arc<dyn File>,
    path: &'a Path,
    offset: u64,
    length: u64,
}

impl<'a> TableLocation<'a> {
    /// The `length` bytes at `offset` of `file`, which lies at `path`.
    #[must_use]
    pub fn new(file: Arc<dyn File>, path: &'a Path, offset: u64, length: u64) -> Self {
        Self { file, path, offset, length }
    }
}

/// Where the bytes of a table lie.
#[derive(Clone, Debug)]
pub struct TableSource {
    pub file: Arc<dyn File>,
    pub path: PathBuf,
    pub offset: u64,
    pub length: u64,
    pub uid: TableUid,
    /// The dictionary of its blocks, if it has one.
    pub dictionary: Option<Arc<TableDictionary>>,
}

/// Where the filter of a table lies in it.
#[derive(Clone, Copy, Debug)]
pub struct FilterFrame {
    pub offset: u64,
    /// 0: there is none.
    pub bytes: u64,
}

impl FilterFrame {
    pub fn of(properties: &Properties) -> Self {
        Self { offset: properties.filter_offset(), bytes: properties.filter_bytes }
    }
}

/// Working memory of a read.
#[derive(Default)]
pub struct Scratch {
    pub frame: Vec<u8>,
    pub raw: Vec<u8>,
}

/// Lends the working memory of this thread.
pub fn with_scratch<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    thread_local! {
        static SCRATCH: Cell<Scratch> = Cell::default();
    }
    let mut scratch = SCRATCH.take();
    let result = work(&mut scratch);
    if scratch.frame.capacity() + scratch.raw.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(scratch);
    }
    result
}

impl TableSource {
    /// The table that is expected, or whichever the footer names.
    pub fn new(location: TableLocation<'_>, expected: Option<&TableMeta>) -> Result<Self> {
        let TableLocation { file, path, offset, length } = location;
        let end = offset.checked_add(length);
        if length < FOOTER_BYTES as u64 || end.is_none_or(|end| end > file.len()) {
            return Err(Error::corruption("table does not fit its file")
                .with_file(path)
                .with_offset(offset)
                .with_mismatch(format_args!("{length} bytes"), file.len().saturating_sub(offset)));
        }
        let uid = TableUid(0);
        let path = path.to_owned();
        let mut source = Self { file, path, offset, length, uid, dictionary: None };
        source.uid = match expected {
            Some(expected) => expected.uid,
            None => source.read_footer()?.uid,
        };
        Ok(source)
    }

    /// Says in an error where in which file it happened.
    #[cold]
    pub fn locate(&self, error: Error, offset: u64) -> Error {
        error.or_file(&self.path).or_offset(self.offset + offset)
    }

    /// Reads bytes over the contents of `buffer`. The caller has checked that they are in the
    /// table.
    pub fn read(&self, offset: u64, bytes: u64, buffer: &mut Vec<u8>) -> Result<()> {
        let bytes = self.memory_bytes(&(offset..offset + bytes))?;
        resize(buffer, bytes).map_err(|error| self.locate(error, offset))?;
        self.read_into(offset, buffer)
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset + buffer.len() as u64;
        assert!(end <= self.length, "a read to {end} in a table of {} bytes", self.length);
        self.file
            .read_exact_at(buffer, self.offset + offset)
            .map_err(|error| self.locate(error, offset))
    }

    /// Bytes of memory that it takes to read a part of the table.
    pub fn memory_bytes(&self, part: &Range<u64>) -> Result<usize> {
        usize::try_from(part.end - part.start)
            .map_err(|_| self.locate(Error::corruption("frame exceeds memory"), part.start))
    }

    /// The bytes of the table where the system maps them, if it does. Where it does not, reading
    /// will tell if anything is wrong with the file.
    pub fn map(&self) -> Option<Bytes> {
        self.file.map(self.offset, self.length).ok()
    }

    /// The dictionary of the table, if a frame of data with `codec` may need it.
    #[inline]
    pub fn dictionary_for(&self, codec: Option<Codec>) -> Result<Option<LentDictionary<'_>>> {
        match (&self.dictionary, codec) {
            (Some(dictionary), Some(Codec::Zstd)) => {
                let read = |place: Range<u64>| {
                    let bytes = place.end - place.start;
                    self.read_frame(FrameKind::Dictionary, place.start, bytes, Dictionary::read)
                };
                dictionary.lend(self.uid, read).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads the frame of `kind` and calls `work` with its raw bytes.
    pub fn read_frame<R>(
        &self,
        kind: FrameKind,
        offset: u64,
        bytes: u64,
        work: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        let most = kind.frame_bytes_max();
        if bytes > most {
            let error = Error::corruption("frame too long for its kind");
            let error = error.with_mismatch(format_args!("at most {most} bytes"), bytes);
            return Err(self.locate(error, offset));
        }
        with_scratch(|scratch| {
            self.read(offset, bytes, &mut scratch.frame)?;
            let place = FramePlace { table: self.uid, offset };
            let opened = Frame::open(&scratch.frame, kind, place);
            let frame = opened.map_err(|error| self.locate(error, offset))?;
            let dictionary = match kind {
                FrameKind::Data => self.dictionary_for(Some(frame.codec))?,
                _ => None,
            };
            frame
                .decode(dictionary.as_deref(), &mut scratch.raw)
                .and_then(work)
                .map_err(|error| self.locate(error, offset))
        })
    }

    /// Reads the filter of the table, if it has one.
    pub fn read_filter(&self, frame: FilterFrame) -> Result<Option<Filter>> {
        match frame.bytes {
            0 => Ok(None),
            bytes => {
                self.read_frame(FrameKind::Filter, frame.offset, bytes, Filter::decode).map(Some)
            }
        }
    }

    /// Reads the range tombstones of the table.
    pub fn read_tombstones(&self, properties: &Properties) -> Result<Fragments> {
        let offset = properties.tombstone_offset();
        match properties.tombstone_bytes {
            0 => Ok(Fragments::default()),
            bytes => self.read_frame(FrameKind::RangeTombstones, offset, bytes, tombstones::decode),
        }
    }

    /// Reads a data block past the cache, verifies it, and returns it ready to be copied.
    pub fn read_sealed(&self, info: &BlockInfo<'_>) -> Result<SealedBlock> {
        let frame_bytes = self.memory_bytes(&(info.offset..info.offset + info.bytes))?;
        // Room for what has to be behind a block that stays where it is.
        let mut frame = Vec::with_capacity(frame_bytes + Block::BYTES_BEHIND);
        self.read(info.offset, info.bytes, &mut frame)?;
        self.open_sealed(info, frame)
    }

    /// Verifies the frame of a data block.
    fn open_sealed(&self, info: &BlockInfo<'_>, frame: Vec<u8>) -> Result<SealedBlock> {
        let place = FramePlace { table: self.uid, offset: info.offset };
        let dictionary = self.dictionary_for(Frame::codec_of(&frame))?;
        let sealed = with_scratch(|scratch| {
            SealedBlock::open(frame, place, dictionary.as_deref(), &mut scratch.raw)
        });
        let checked = sealed.and_then(|sealed| {
            check_stats(sealed.stats(), info)?;
            check_block(sealed.block(), info).map(|()| sealed)
        });
        checked.map_err(|error| self.locate(error, info.offset))
    }

    /// Reads what the footer leads to, and compares it with what is `expected`, if anything is.
    pub fn read_properties(&self, expected: Option<&TableMeta>) -> Result<Properties> {
        let footer_offset = self.length - FOOTER_BYTES as u64;
        let footer = self.read_footer()?;
        let wrong = |message: &'static str| self.locate(Error::corruption(message), footer_offset);
        if footer.uid != self.uid {
            return Err(wrong("the table is another one").with_mismatch(self.uid, footer.uid));
        }
        let Some(properties_offset) = footer_offset.checked_sub(footer.properties_bytes) else {
            return Err(wrong("properties longer than their table"));
        };
        let properties = self.read_frame(
            FrameKind::Properties,
            properties_offset,
            footer.properties_bytes,
            |raw| Properties::decode(raw, self.length, footer.properties_bytes),
        )?;
        let found = &properties.meta;
        if found.uid != self.uid {
            return Err(wrong("the table is another one").with_mismatch(self.uid, found.uid));
        }
        match expected.filter(|&expected| expected != found) {
            None => Ok(properties),
            Some(expected) => Err(wrong("the table is not the one that was installed")
                .with_mismatch(format_args!("{expected:?}"), format_args!("{found:?}"))),
        }
    }

    pub fn read_footer(&self) -> Result<Footer> {
        let offset = self.length - FOOTER_BYTES as u64;
        let mut bytes = [0; FOOTER_BYTES];
        self.file
            .read_exact_at(&mut bytes, self.offset + offset)
            .and_then(|()| Footer::decode(&bytes))
            .and_then(|footer| match footer.table_bytes == self.length {
                true => Ok(footer),
                false => Err(Error::corruption("wrong length of a table")
                    .with_mismatch(self.length, footer.table_bytes)),
            })
            .map_err(|error| self.locate(error, offset))
    }
}

/// Checks that a block holds what the index says.
pub fn check_stats(stats: &BlockStats, info: &BlockInfo<'_>) -> Result<()> {
    let agrees = stats.entries == info.entries
        && stats.sequence_max == info.sequence_max
        && stats.expiry_min_ms == info.expiry_min_ms
        && stats.contents == info.contents;
    if agrees { Ok(()) } else { Err(Error::corruption("a block is not what its index says")) }
}

/// Checks that a block begins and ends where the index says.
pub fn check_block(block: &Block, info: &BlockInfo<'_>) -> Result<()> {
    let last = block.count() - 1;
    let is = |index: usize, key: &[u8]| {
        key.strip_prefix(block.prefix()) == Some(block.entry(index).suffix)
    };
    let agrees = block.count() as u64 == info.entries
        && is(0, info.first_key)
        && is(last, info.last_key)
        && block.entry(last).sequence == info.last_sequence;
    if agrees { Ok(()) } else { Err(Error::corruption("a block is not what its index says")) }
}
