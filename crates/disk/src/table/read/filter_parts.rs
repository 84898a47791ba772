//! A filter that stays in the file: its parts are read when they are asked for, and go through the
//! cache.
//!
//! It is for tables whose filter there is no memory for. The frame of a filter has one checksum, so
//! the whole filter is read and verified once. From then on the checksum of each part is in memory:
//! a thousandth of the filter.
//!
//! A part that has to be read costs a third of looking for the key in vain. So a filter that lately
//! let most keys pass is asked for one key in sixteen only, until that changes.
//!
//! # Thread safety
//! Any thread may ask. Two may read the same part.
//!
//! # Seeded fault
//! `filter_part_unverified`: a part is taken as it is read.

use crate::table::read::source::{FilterFrame, TableSource, with_scratch};
use crate::table::read::table_filter::hash_in_filter;
use crate::{
    cache::{Cache, CacheFill, Cacheable, Cached, Slots},
    filter::FilterShape,
    filter_keys::FilterKeys,
    frame::{CHECKSUM_BYTES, FrameKind},
};
use bytes::Bytes;
use siltdb_base::{
    budget::{Charge, Part},
    checksum::{bad_checksum, crc32c},
    error::Result,
    hint::CACHE_LINE_BYTES,
    key::LookupKey,
    memory::region::{Margins, piece_bytes},
    seeded_fault,
};
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

const LINE_BYTES: usize = FilterShape::LINE_BYTES;
/// Lines of a part, which has a page of memory.
const PART_LINES: usize = 4096 / LINE_BYTES;
const PART_BYTES: usize = PART_LINES * LINE_BYTES;

/// One key in this many is asked for in any case, and counts for [`FilterParts::denied`].
const SAMPLE: u64 = 16;
/// The weight of one of these keys, and of all of them.
const ONE_DENIED: u32 = 64;
const ALL_DENIED: u32 = 16 * ONE_DENIED;
/// A filter that denies fewer keys than a quarter is not asked for the others.
const DENIED_MIN: u32 = ALL_DENIED / 4;

/// The filter of a table, in its file.
#[derive(Debug)]
pub(in crate::table) struct FilterParts {
    shape: FilterShape,
    keys: FilterKeys,
    /// Where its lines begin in the table.
    offset: u64,
    checksums: Box<[u32]>,
    slots: Slots<FilterPart>,
    /// About how many of the keys that were asked for lately it denied, out of [`ALL_DENIED`].
    denied: AtomicU32,
    charge: Charge,
}

/// Some lines of a filter.
#[derive(Debug)]
struct FilterPart {
    lines: Bytes,
}

impl Cacheable for FilterPart {
    const FRONT_BYTES: usize = CACHE_LINE_BYTES;

    fn front(&self) -> *const u8 {
        self.lines.as_ptr()
    }

    fn layout(&self) -> u64 {
        0
    }
}

impl FilterParts {
    /// Reads the filter at `frame` once; `None`, if there is none. It holds `keys`.
    ///
    /// # Errors
    /// Corruption, if it is damaged; what reading it fails with.
    pub fn open(
        source: &TableSource,
        frame: FilterFrame,
        keys: FilterKeys,
        cache: &Arc<Cache>,
    ) -> Result<Option<Self>> {
        if frame.bytes == 0 {
            return Ok(None);
        }
        source.read_frame(FrameKind::Filter, frame.offset, frame.bytes, |raw| {
            let (shape, lines) = FilterShape::decode(raw)?;
            let checksums: Box<[u32]> = lines.chunks(PART_BYTES).map(crc32c).collect();
            let slots = Slots::new(cache, checksums.len());
            let bytes = size_of_val(&checksums[..]) + Slots::<FilterPart>::bytes(checksums.len());
            // The frame of a filter is never compressed, so the lines stand at its end.
            let end = frame.offset + frame.bytes - CHECKSUM_BYTES as u64;
            Ok(Some(Self {
                shape,
                keys,
                offset: end - lines.len() as u64,
                checksums,
                slots,
                denied: AtomicU32::new(ALL_DENIED),
                charge: Charge::new(cache.budget(), Part::Tables, bytes),
            }))
        })
    }

    /// Bytes of memory that it takes, but for what is in the cache.
    pub fn memory_bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Whether the table may hold a point entry of the key; `false` is certain. It does not say so
    /// of each key that it could deny.
    ///
    /// # Errors
    /// Corruption, if a part is not what it was; what reading it fails with.
    pub fn may_contain(
        &self,
        source: &TableSource,
        cache: &Cache,
        key: LookupKey<'_>,
    ) -> Result<bool> {
        self.may_hold(source, cache, hash_in_filter(self.keys, key))
    }

    /// What it holds of the keys of its table.
    pub fn keys(&self) -> FilterKeys {
        self.keys
    }

    /// As [`FilterParts::may_contain`], of what has this hash.
    pub fn may_hold(&self, source: &TableSource, cache: &Cache, hash: u64) -> Result<bool> {
        // Relaxed, here and below: a hint.
        let denied = self.denied.load(Ordering::Relaxed);
        let is_sample = hash.is_multiple_of(SAMPLE);
        if denied < DENIED_MIN && !is_sample {
            return Ok(true);
        }
        let line = self.shape.line_of(hash);
        let (part, line) = (line / PART_LINES, line % PART_LINES);
        let ask = |lines: &[u8]| {
            let (lines, _) = lines.as_chunks::<LINE_BYTES>();
            self.shape.is_in_line(&lines[line], hash)
        };
        let is_held = match self.slots.with(part, (), |part, ()| ask(&part.lines)) {
            Ok(is_held) => is_held,
            Err(()) => self.read(source, cache, part, ask)?,
        };
        if is_sample {
            let more = if is_held { 0 } else { ONE_DENIED };
            let changed = denied - denied / (ALL_DENIED / ONE_DENIED) + more;
            if changed != denied {
                self.denied.store(changed, Ordering::Relaxed);
            }
        }
        Ok(is_held)
    }

    /// Reads a part that the cache does not have, and calls `look` with its lines.
    #[cold]
    fn read<R>(
        &self,
        source: &TableSource,
        cache: &Cache,
        part: usize,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        let offset = self.offset + (part * PART_BYTES) as u64;
        let lines = (self.shape.lines() - part * PART_LINES).min(PART_LINES);
        with_scratch(|scratch| {
            source.read(offset, (lines * LINE_BYTES) as u64, &mut scratch.frame)?;
            let (expected, found) = (self.checksums[part], crc32c(&scratch.frame));
            if expected != found && !seeded_fault!("filter_part_unverified") {
                let message = "a part of a filter is not what it was";
                return Err(source.locate(bad_checksum(message, expected, found), offset));
            }
            if self.slots.admit(part) == CacheFill::Keep {
                let none = Margins { front: 0, back: 0 };
                let lines = cache.region().copy(&scratch.frame, none).freeze();
                let bytes = piece_bytes(lines.len());
                self.slots.insert(part, &Arc::new(Cached::new(FilterPart { lines }, bytes)));
            }
            Ok(look(&scratch.frame))
        })
    }
}
