//! What can be chosen about one tree, and how the lasting part of it is stored.
//!
//! It holds no state; an option that is changed holds for what is written from then on.
//!
//! The bytes, as they lie in the manifest; a field that is absent has its default:
//!
//! ```text
//! | tag varint | length varint | value | …      tags ascend strictly
//!
//! tag  value
//! 1    block bytes varint
//! 2    compression u8: 0 none, 1 LZ4
//! 3    filter bits per key varint
//! 4    name of the merge operator, UTF-8
//! 5    level size ratio varint
//! 6    level 0 runs trigger varint
//! 7    table bytes target varint
//! 8    base level bytes varint
//! 9    tombstone percent trigger varint
//! ```

use crate::merge_operator::{MergeOperator, not_given};
use siltdb_base::{
    codec::{Reader, put_bytes, put_varint},
    error::{Error, ErrorKind, Result},
};
use siltdb_disk::options::{Compression, TableOptions};
use std::{ops::RangeInclusive, sync::Arc};

/// Level size ratios that are permitted.
pub const LEVEL_SIZE_RATIO: RangeInclusive<u32> = 2..=100;

/// Level 0 triggers that are permitted, in runs.
pub const LEVEL0_RUNS_TRIGGER: RangeInclusive<u32> = 1..=1000;

/// Table sizes that may be aimed at, in bytes.
pub const TABLE_BYTES_TARGET: RangeInclusive<u64> = 1 << 10..=1 << 32;

/// Base level sizes that are permitted, in bytes.
pub const BASE_LEVEL_BYTES: RangeInclusive<u64> = 1 << 10..=1 << 48;

/// Tombstone triggers that are permitted, in percent; one above 100 never triggers.
pub const TOMBSTONE_PERCENT_TRIGGER: RangeInclusive<u32> = 1..=101;

/// What can be chosen about one tree.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// How tables are written.
    pub table: TableOptions,
    /// What merge operands mean; without one, merging is refused.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// How many times larger a level is than the one above it, in [`LEVEL_SIZE_RATIO`].
    pub level_size_ratio: u32,
    /// Runs in level 0 that call for a compaction, in [`LEVEL0_RUNS_TRIGGER`].
    pub level0_runs_trigger: u32,
    /// Size of a table at which the next is begun, in bytes, in [`TABLE_BYTES_TARGET`].
    pub table_bytes_target: u64,
    /// About what level 0 brings down at once: a level this large gets none above it. In bytes, in
    /// [`BASE_LEVEL_BYTES`]; [`TreeOptions::for_memtable`] derives it.
    pub base_level_bytes: u64,
    /// The part of a table's entries that are tombstones from which on it is compacted for their
    /// sake, in percent, in [`TOMBSTONE_PERCENT_TRIGGER`].
    pub tombstone_percent_trigger: u32,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            table: TableOptions::default(),
            merge_operator: None,
            level_size_ratio: 10,
            level0_runs_trigger: 8,
            table_bytes_target: 32 << 20,
            base_level_bytes: 256 << 20,
            tombstone_percent_trigger: 50,
        }
    }
}

impl TreeOptions {
    /// The default options for memtables of about `memtable_bytes`.
    #[must_use]
    pub fn for_memtable(memtable_bytes: u64) -> Self {
        let options = Self::default();
        let batch = memtable_bytes.saturating_mul(u64::from(options.level0_runs_trigger));
        let base_level_bytes = batch.clamp(*BASE_LEVEL_BYTES.start(), *BASE_LEVEL_BYTES.end());
        Self { base_level_bytes, ..options }
    }

    /// Checks that every option is in its range.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option.
    pub fn check(&self) -> Result<()> {
        self.table.check()?;
        in_range("level_size_ratio", self.level_size_ratio, &LEVEL_SIZE_RATIO)?;
        in_range("level0_runs_trigger", self.level0_runs_trigger, &LEVEL0_RUNS_TRIGGER)?;
        in_range("table_bytes_target", self.table_bytes_target, &TABLE_BYTES_TARGET)?;
        in_range("base_level_bytes", self.base_level_bytes, &BASE_LEVEL_BYTES)?;
        let percent = self.tombstone_percent_trigger;
        in_range("tombstone_percent_trigger", percent, &TOMBSTONE_PERCENT_TRIGGER)
    }

    /// Appends the encoding to `out`. Of the merge operator only the name is stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_field(out, Tag::BlockBytes, &varint(self.table.block_bytes as u64));
        put_field(out, Tag::Compression, &[self.table.compression.to_byte()]);
        put_field(out, Tag::FilterBits, &varint(u64::from(self.table.filter_bits_per_key)));
        if let Some(operator) = &self.merge_operator {
            put_field(out, Tag::MergeOperator, operator.name().as_bytes());
        }
        put_field(out, Tag::SizeRatio, &varint(u64::from(self.level_size_ratio)));
        put_field(out, Tag::RunsTrigger, &varint(u64::from(self.level0_runs_trigger)));
        put_field(out, Tag::TableBytes, &varint(self.table_bytes_target));
        put_field(out, Tag::BaseBytes, &varint(self.base_level_bytes));
        put_field(out, Tag::Tombstones, &varint(u64::from(self.tombstone_percent_trigger)));
    }

    /// Reads an encoding that fills all of `bytes`.
    ///
    /// `find_operator` gives the operator of a name: the code for it cannot be stored.
    ///
    /// # Errors
    /// Corruption, if the bytes are none; `Unsupported`, for a field this build does not know; and
    /// `InvalidArgument` if there is no operator of the name stored, or an option is out of range.
    pub fn decode(
        bytes: &[u8],
        find_operator: &dyn Fn(&str) -> Option<Arc<dyn MergeOperator>>,
    ) -> Result<Self> {
        let mut options = Self::default();
        let mut reader = Reader::new(bytes);
        let mut last = 0;
        while !reader.is_empty() {
            let tag = reader.varint()?;
            if tag <= last {
                return Err(Error::corruption("family options out of order"));
            }
            last = tag;
            options.set(Tag::from_number(tag)?, reader.bytes()?, find_operator)?;
        }
        options.check()?;
        Ok(options)
    }

    fn set(
        &mut self,
        tag: Tag,
        value: &[u8],
        find_operator: &dyn Fn(&str) -> Option<Arc<dyn MergeOperator>>,
    ) -> Result<()> {
        match tag {
            Tag::BlockBytes => {
                let bytes = usize::try_from(whole_varint(value)?);
                self.table.block_bytes = bytes.map_err(|_| Error::corruption("bad block size"))?;
            }
            Tag::Compression => {
                let byte = <[u8; 1]>::try_from(value).ok();
                let known = byte.and_then(|[byte]| Compression::from_byte(byte));
                self.table.compression = known
                    .ok_or_else(|| Error::new(ErrorKind::Unsupported, "unknown compression"))?;
            }
            Tag::FilterBits => self.table.filter_bits_per_key = whole_u32(value)?,
            Tag::MergeOperator => {
                let name = std::str::from_utf8(value)
                    .map_err(|_| Error::corruption("the name of a merge operator is not UTF-8"))?;
                let operator = find_operator(name).ok_or_else(|| not_given(name))?;
                self.merge_operator = Some(operator);
            }
            Tag::SizeRatio => self.level_size_ratio = whole_u32(value)?,
            Tag::RunsTrigger => self.level0_runs_trigger = whole_u32(value)?,
            Tag::TableBytes => self.table_bytes_target = whole_varint(value)?,
            Tag::BaseBytes => self.base_level_bytes = whole_varint(value)?,
            Tag::Tombstones => self.tombstone_percent_trigger = whole_u32(value)?,
        }
        Ok(())
    }
}

/// The fields. The numbers lie on disk.
#[derive(Clone, Copy)]
enum Tag {
    BlockBytes = 1,
    Compression = 2,
    FilterBits = 3,
    MergeOperator = 4,
    SizeRatio = 5,
    RunsTrigger = 6,
    TableBytes = 7,
    BaseBytes = 8,
    Tombstones = 9,
}

impl Tag {
    fn from_number(number: u64) -> Result<Self> {
        Ok(match number {
            1 => Self::BlockBytes,
            2 => Self::Compression,
            3 => Self::FilterBits,
            4 => Self::MergeOperator,
            5 => Self::SizeRatio,
            6 => Self::RunsTrigger,
            7 => Self::TableBytes,
            8 => Self::BaseBytes,
            9 => Self::Tombstones,
            _ => {
                return Err(Error::new(ErrorKind::Unsupported, "unknown family option")
                    .with_mismatch("1..=9", number));
            }
        })
    }
}

fn put_field(out: &mut Vec<u8>, tag: Tag, value: &[u8]) {
    put_varint(out, tag as u64);
    put_bytes(out, value);
}

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, value);
    bytes
}

fn whole_varint(value: &[u8]) -> Result<u64> {
    let mut reader = Reader::new(value);
    let number = reader.varint()?;
    if reader.is_empty() {
        Ok(number)
    } else {
        Err(Error::corruption("bytes after a family option"))
    }
}

fn whole_u32(value: &[u8]) -> Result<u32> {
    u32::try_from(whole_varint(value)?)
        .map_err(|_| Error::corruption("family option exceeds 32 bits"))
}

fn in_range<T: PartialOrd + std::fmt::Display>(
    name: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let permitted = format!("{}..={}", range.start(), range.end());
    Err(Error::invalid(format!("{name} out of range")).with_mismatch(permitted, value))
}

#[cfg(test)]
mod tests;
