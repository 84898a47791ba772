//! What can be chosen about one tree, and how the lasting part of it is stored.
//!
//! It holds no state; an option that is changed holds for what is written from then on.
//!
//! The bytes, as they lie in the manifest, are [fields](siltdb_disk::fields); one that is absent
//! has its default:
//!
//! ```text
//! tag  value
//! 1    block bytes varint
//! 2    compression u8: 0 none, 1 LZ4, 2 Zstandard, 3 Snappy
//! 3    filter bits per key varint
//! 4    name of the merge operator, UTF-8
//! 5    level size ratio varint
//! 6    level 0 runs trigger varint
//! 7    table bytes target varint
//! 8    base level bytes varint
//! 9    tombstone percent trigger varint
//! 10   key order, a name; `bytewise` without one
//! 11   prefix extractor; absent: none
//! 12   value threshold varint; absent: no value is separated
//! 13   table kind varint: 2 B+tree; absent: block
//! 14   compaction strategy u8: 1 tiered, 2 FIFO; absent: leveled
//! 15   name of the compaction filter, UTF-8; absent: none
//! 16   dictionary bytes varint
//! 17   cold from level varint; absent: all tables are hot
//! 19   TTL in ms varint; absent without one
//! 20   1 u8: filters without whole keys; absent: with them
//! 21   blob files: | bytes of a file varint | garbage percent trigger varint |
//! 22   tiered: runs varint; FIFO: bytes varint
//! 23   tiered: space percent varint; FIFO: age in ms varint, 0 for none
//! 24   level of the compression i8; absent: 3 for Zstandard
//! 25   compression of level 0, 1, ...: | compression u8 | its level i8 |, ...
//! 26   range tombstone percent varint, garbage percent varint
//! 27   filter bits per key of level 0, 1, ...: u8, ...
//! ```

mod stored;

use crate::{
    compaction_filter::NamedFilter,
    merge_operator::{MergeOperator, not_given},
    options::stored::{filter_name, has_whole_keys, strategy_of, with_level},
    order_name::{KEY_ORDER_BYTES_MAX, present_name},
    strategy::{CompactionStrategy, in_range},
};
use siltdb_base::{
    codec::{ByteReader, put_varint},
    error::{Error, ErrorKind, Result},
    limits::{LEVELS, VALUE_BYTES_MAX},
    seeded_fault,
};
use siltdb_disk::{
    fields::{FieldList, FieldsWriter, StoredField, UnknownFields, read_fields},
    filter_keys::PrefixExtractor,
    options::{Compression, DICTIONARY_BYTES, TableKind, TableOptions},
};
use std::{ops::RangeInclusive, sync::Arc, time::Duration};

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

/// Range tombstone triggers that are permitted, in percent; one above 100 never triggers.
pub const RANGE_TOMBSTONE_PERCENT_TRIGGER: RangeInclusive<u32> = 1..=101;

/// Garbage triggers that are permitted, in percent; one above 100 never triggers. A rewrite that
/// frees less than a twentieth would write twenty bytes for each that it frees.
pub const GARBAGE_PERCENT_TRIGGER: RangeInclusive<u32> = 5..=101;

/// Levels from which on tables may be cold: 0 is all of them, and one past the last is none.
pub const COLD_FROM_LEVEL: RangeInclusive<u32> = 0..=LEVELS as u32;

/// Levels that a list by level may name.
const LISTED: RangeInclusive<usize> = 0..=LEVELS;
/// Value thresholds that are permitted, in bytes, besides 0, which separates nothing. A pointer
/// takes about 20 bytes.
pub const VALUE_THRESHOLD: RangeInclusive<u64> = 32..=VALUE_BYTES_MAX as u64;

/// Sizes of a blob file at which the next is begun, in bytes.
pub const BLOB_FILE_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 40;

/// Garbage triggers of blob files that are permitted, in percent; one above 100 never triggers.
pub const BLOB_GARBAGE_PERCENT_TRIGGER: RangeInclusive<u32> = 1..=101;

/// The default of [`TreeOptions::garbage_percent_trigger`].
const GARBAGE_PERCENT: u32 = 18;

const FIELDS: FieldList = FieldList { of: "family options", reserved: &[(18, "encryption")] };

/// The name of the order of keys without an encoding: that of their bytes.
pub const BYTEWISE: &str = "bytewise";

/// Bytes of a table for each byte of its dictionary, at least, unless that is of the smallest size.
const TABLE_PER_DICTIONARY: u64 = 100;

/// The default size of a blob file, in bytes: what an opening verifies of them after a crash is
/// about twice as much.
const BLOB_FILE_BYTES_DEFAULT: u64 = 256 << 20;

/// The default garbage trigger of blob files: their space is at most about twice what is live.
const BLOB_GARBAGE_PERCENT_DEFAULT: u32 = 50;

/// What can be chosen about one tree.
#[derive(Clone, Debug)]
pub struct TreeOptions {
    /// How tables are written.
    pub table: TableOptions,
    /// How blocks of the tables of level 0, 1 and so on are compressed; the last one holds for all
    /// deeper levels as well. None: as `table` says, in all levels. At most [`LEVELS`].
    pub compression_per_level: Vec<Compression>,
    /// The same for the filter bits per key.
    pub filter_bits_per_level: Vec<u32>,
    /// What merge operands mean; without one, merging is refused.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// What compactions ask about values.
    pub compaction_filter: Option<NamedFilter>,
    /// How many times larger a level is than the one above it, in [`LEVEL_SIZE_RATIO`].
    pub level_size_ratio: u32,
    /// Runs in level 0 that call for a compaction, in [`LEVEL0_RUNS_TRIGGER`].
    pub level0_runs_trigger: u32,
    /// Size of a table at which the next is begun, in bytes, in [`TABLE_BYTES_TARGET`].
    pub table_bytes_target: u64,
    /// About what level 0 brings down at once: a level this large gets none above it. In bytes, in
    /// [`BASE_LEVEL_BYTES`].
    pub base_level_bytes: u64,
    /// The part of a table's entries that are tombstones from which on it is compacted for their
    /// sake, in percent, in [`TOMBSTONE_PERCENT_TRIGGER`].
    pub tombstone_percent_trigger: u32,
    /// The same for range tombstones alone, in percent, in [`RANGE_TOMBSTONE_PERCENT_TRIGGER`].
    pub range_tombstone_percent_trigger: u32,
    /// The part of a table that is expired, superseded or covered from which on it is rewritten, in
    /// percent, in [`GARBAGE_PERCENT_TRIGGER`]. Expired bytes are known within 4 %, so by default
    /// less than 22 % of a table is garbage in the end: 1.28 times what is live. A byte that is
    /// freed then costs at most five that are written.
    pub garbage_percent_trigger: u32,
    /// How tables are merged.
    pub compaction: CompactionStrategy,
    /// Tables from this level on belong to the cold tier, in [`COLD_FROM_LEVEL`].
    pub cold_from_level: u32,
    /// Values of this length or more go to blob files, in bytes, in [`VALUE_THRESHOLD`]; 0: none.
    pub value_threshold: u64,
    /// Size of a blob file at which the next is begun, in bytes, in [`BLOB_FILE_BYTES`].
    pub blob_file_bytes: u64,
    /// The part of a blob file that is garbage from which on its other values are moved to another
    /// file, in percent, in [`BLOB_GARBAGE_PERCENT_TRIGGER`].
    pub blob_garbage_percent_trigger: u32,
    /// The name of the encoding that orders keys; `None` for their bytes. The tree does not use it:
    /// it compares encoded keys.
    pub key_order: Option<Arc<str>>,
    /// Time from a write without an expiry to the expiry of its value, in ms; 0 for no expiry.
    pub ttl_ms: u64,
    /// What later versions chose.
    pub unknown: UnknownFields,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            table: TableOptions::default(),
            compression_per_level: Vec::new(),
            filter_bits_per_level: Vec::new(),
            merge_operator: None,
            compaction_filter: None,
            level_size_ratio: 10,
            level0_runs_trigger: 8,
            table_bytes_target: 32 << 20,
            base_level_bytes: 256 << 20,
            tombstone_percent_trigger: 50,
            range_tombstone_percent_trigger: *RANGE_TOMBSTONE_PERCENT_TRIGGER.end(),
            garbage_percent_trigger: GARBAGE_PERCENT,
            compaction: CompactionStrategy::Leveled,
            cold_from_level: *COLD_FROM_LEVEL.end(),
            value_threshold: 0,
            blob_file_bytes: BLOB_FILE_BYTES_DEFAULT,
            blob_garbage_percent_trigger: BLOB_GARBAGE_PERCENT_DEFAULT,
            key_order: None,
            ttl_ms: 0,
            unknown: UnknownFields::default(),
        }
    }
}

impl TreeOptions {
    /// Checks that every option is in its range, and that the strategy permits a merge operator if
    /// there is one.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the option.
    pub fn check(&self) -> Result<()> {
        self.table.check()?;
        in_range("compression_per_level: levels", self.compression_per_level.len(), &LISTED)?;
        in_range("filter_bits_per_level: levels", self.filter_bits_per_level.len(), &LISTED)?;
        (0..LEVELS).try_for_each(|level| self.table_at(level).check())?;
        in_range("level_size_ratio", self.level_size_ratio, &LEVEL_SIZE_RATIO)?;
        in_range("level0_runs_trigger", self.level0_runs_trigger, &LEVEL0_RUNS_TRIGGER)?;
        in_range("table_bytes_target", self.table_bytes_target, &TABLE_BYTES_TARGET)?;
        in_range("base_level_bytes", self.base_level_bytes, &BASE_LEVEL_BYTES)?;
        let percent = self.tombstone_percent_trigger;
        in_range("tombstone_percent_trigger", percent, &TOMBSTONE_PERCENT_TRIGGER)?;
        let percent = self.range_tombstone_percent_trigger;
        let range = RANGE_TOMBSTONE_PERCENT_TRIGGER;
        in_range("range_tombstone_percent_trigger", percent, &range)?;
        let percent = self.garbage_percent_trigger;
        in_range("garbage_percent_trigger", percent, &GARBAGE_PERCENT_TRIGGER)?;
        self.check_strategy()?;
        in_range("cold_from_level", self.cold_from_level, &COLD_FROM_LEVEL)?;
        if self.value_threshold != 0 {
            in_range("value_threshold", self.value_threshold, &VALUE_THRESHOLD)?;
        }
        in_range("blob_file_bytes", self.blob_file_bytes, &BLOB_FILE_BYTES)?;
        let percent = self.blob_garbage_percent_trigger;
        in_range("blob_garbage_percent_trigger", percent, &BLOB_GARBAGE_PERCENT_TRIGGER)?;
        if let Some(name) = &self.key_order {
            check_key_order(name)?;
        }
        if self.ttl_ms > 0 && self.merge_operator.is_some() {
            return Err(Error::invalid("a family with a merge operator has no TTL")
                .with_hint("operands do not expire, so its values would outlive their time"));
        }
        Ok(())
    }

    /// Whether all tables belong to the cold tier, and with them the values that they refer to.
    #[inline]
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.cold_from_level == *COLD_FROM_LEVEL.start()
    }

    /// The shortest value that is separated, in bytes; more than any value has if none is. A frozen
    /// family separates none: blob files lie in the hot tier.
    #[inline]
    #[must_use]
    pub fn separated_from(&self) -> u64 {
        if self.is_frozen() {
            return u64::MAX;
        }
        self.value_threshold.checked_sub(1).map_or(u64::MAX, |below| below + 1)
    }

    /// Checks that this build can write the tables of every level, and separated values.
    ///
    /// # Errors
    /// `Unsupported`, naming the cargo feature that is missing.
    pub fn check_writable(&self) -> Result<()> {
        // Separated values are of no level.
        self.table.compression.check_writable()?;
        self.compression_per_level.iter().try_for_each(|level| level.check_writable())
    }

    /// These options, or if this build cannot write their tables, with the default compression. For
    /// copies whose codec is no promise.
    #[must_use]
    pub fn or_writable(self) -> Self {
        match self.check_writable() {
            Ok(()) => self,
            Err(_) => Self {
                table: TableOptions { compression: Compression::default(), ..self.table },
                compression_per_level: Vec::new(),
                ..self
            },
        }
    }

    /// How tables of `level` are written.
    #[must_use]
    pub fn table_at(&self, level: usize) -> TableOptions {
        // The suite must notice an engine that writes all levels as the first: this is that one.
        let level = if seeded_fault!("levels_written_as_the_first") { 0 } else { level };
        // So the blocks that wait for the dictionary are about a table at most.
        let dictionary_bytes_max = self.table_bytes_target / TABLE_PER_DICTIONARY;
        let dictionary_bytes_max = dictionary_bytes_max.max((*DICTIONARY_BYTES.start()).into());
        let dictionary_bytes = u64::from(self.table.dictionary_bytes).min(dictionary_bytes_max);
        TableOptions {
            dictionary_bytes: dictionary_bytes as u32,
            compression: at_level(&self.compression_per_level, level)
                .unwrap_or(self.table.compression),
            filter_bits_per_key: at_level(&self.filter_bits_per_level, level)
                .unwrap_or(self.table.filter_bits_per_key),
            ..self.table
        }
    }

    /// A number for each level. Tables of two levels are written alike if both have the same, and
    /// only then may a table move from one to the other as it is.
    #[must_use]
    pub fn level_kinds(&self) -> [u8; LEVELS] {
        let mut kinds = [0; LEVELS];
        if self.compression_per_level.is_empty() && self.filter_bits_per_level.is_empty() {
            return kinds;
        }
        for (level, kind) in kinds.iter_mut().enumerate() {
            let own = self.table_at(level);
            let alike = (0..level).find(|&before| self.table_at(before) == own);
            *kind = alike.unwrap_or(level) as u8;
        }
        kinds
    }

    /// The compression that stored options name, if they can be read that far.
    #[must_use]
    pub fn stored_compression(encoded: &[u8]) -> Option<Compression> {
        let (mut number, mut level) = (None, None);
        let read = read_fields(&FIELDS, encoded, |tag, value| {
            match tag {
                2 => number = Some(value.u8()?),
                24 => level = Some(value.u8()?),
                _ => {
                    value.take_all();
                }
            }
            Ok(StoredField::Known)
        });
        read.ok()?;
        with_level(number?, level).ok()
    }

    fn check_strategy(&self) -> Result<()> {
        self.compaction.check()?;
        match (self.compaction, &self.merge_operator) {
            (CompactionStrategy::Fifo { .. }, Some(operator)) => {
                Err(Error::invalid("the FIFO strategy permits no merge operator")
                    .with_mismatch("no operator", operator.name())
                    .with_hint("a value that leaves would change the result of later operands"))
            }
            _ => Ok(()),
        }
    }

    /// Appends the encoding to `out`. Of merge operator and compaction filter only the names are
    /// stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldsWriter::new(out, &self.unknown);
        fields.put_number(1, self.table.block_bytes as u64);
        let [compression, _] = self.table.compression.to_bytes();
        fields.put(2, |value| value.push(compression));
        fields.put_number(3, u64::from(self.table.filter_bits_per_key));
        if let Some(operator) = &self.merge_operator {
            fields.put(4, |value| value.extend_from_slice(operator.name().as_bytes()));
        }
        fields.put_number(5, u64::from(self.level_size_ratio));
        fields.put_number(6, u64::from(self.level0_runs_trigger));
        fields.put_number(7, self.table_bytes_target);
        fields.put_number(8, self.base_level_bytes);
        fields.put_number(9, u64::from(self.tombstone_percent_trigger));
        let order = self.key_order.as_deref().unwrap_or(BYTEWISE);
        fields.put(10, |value| value.extend_from_slice(order.as_bytes()));
        // What follows is absent by default, so that versions without it can open a database that
        // does not use it.
        if let Some(extractor) = &self.table.prefix_extractor {
            fields.put(11, |value| extractor.encode(value));
        }
        fields.put_count(12, self.value_threshold);
        if self.table.kind != TableKind::Block {
            fields.put_number(13, self.table.kind.to_number());
        }
        self.encode_later(&mut fields);
        fields.finish();
    }

    /// Appends the fields from 14 on, each of which is absent by default.
    fn encode_later(&self, fields: &mut FieldsWriter<'_>) {
        let parameters = self.strategy_parameters();
        if let Some((kind, _)) = parameters {
            fields.put(14, |value| value.push(kind));
        }
        if let Some(filter) = &self.compaction_filter {
            fields.put(15, |value| value.extend_from_slice(filter.name().as_bytes()));
        }
        fields.put_count(16, self.table.dictionary_bytes.into());
        if self.cold_from_level != *COLD_FROM_LEVEL.end() {
            fields.put_number(17, u64::from(self.cold_from_level));
        }
        fields.put_count(19, self.ttl_ms);
        if !self.table.whole_key_filter {
            fields.put(20, |value| value.push(1));
        }
        let blobs = (self.blob_file_bytes, self.blob_garbage_percent_trigger);
        if blobs != (BLOB_FILE_BYTES_DEFAULT, BLOB_GARBAGE_PERCENT_DEFAULT) {
            fields.put(21, |value| {
                put_varint(value, blobs.0);
                put_varint(value, u64::from(blobs.1));
            });
        }
        if let Some((_, [first, second])) = parameters {
            fields.put_number(22, first);
            fields.put_number(23, second);
        }
        let [compression, level] = self.table.compression.to_bytes();
        if with_level(compression, None).ok() != Some(self.table.compression) {
            fields.put(24, |value| value.push(level));
        }
        if !self.compression_per_level.is_empty() {
            fields.put(25, |value| {
                let levels = self.compression_per_level.iter();
                value.extend(levels.flat_map(|compression| compression.to_bytes()));
            });
        }
        let triggers = (self.range_tombstone_percent_trigger, self.garbage_percent_trigger);
        if triggers != (*RANGE_TOMBSTONE_PERCENT_TRIGGER.end(), GARBAGE_PERCENT) {
            fields.put(26, |value| {
                put_varint(value, u64::from(triggers.0));
                put_varint(value, u64::from(triggers.1));
            });
        }
        if !self.filter_bits_per_level.is_empty() {
            fields.put(27, |value| {
                // The check of options keeps them far below 256.
                value.extend(self.filter_bits_per_level.iter().map(|&bits| bits as u8));
            });
        }
    }

    /// The number of the strategy and its two parameters; `None` for the default strategy.
    fn strategy_parameters(&self) -> Option<(u8, [u64; 2])> {
        match self.compaction {
            CompactionStrategy::Leveled => None,
            CompactionStrategy::Tiered { runs_max, space_percent_max } => {
                Some((1, [u64::from(runs_max), u64::from(space_percent_max)]))
            }
            CompactionStrategy::Fifo { bytes_max, age_max } => {
                // In range, so below 2^48 ms.
                Some((2, [bytes_max, age_max.map_or(0, |age| age.as_millis() as u64)]))
            }
        }
    }

    /// Reads a parameter of the strategy, of which the number has a lower tag.
    fn decode_parameter(&mut self, tag: u64, value: &mut ByteReader<'_>) -> Result<()> {
        match (&mut self.compaction, tag) {
            (CompactionStrategy::Tiered { runs_max, .. }, 22) => *runs_max = value.varint_u32()?,
            (CompactionStrategy::Tiered { space_percent_max, .. }, _) => {
                *space_percent_max = value.varint_u32()?;
            }
            (CompactionStrategy::Fifo { bytes_max, .. }, 22) => *bytes_max = value.varint()?,
            (CompactionStrategy::Fifo { age_max, .. }, _) => {
                let ms = value.varint()?;
                *age_max = (ms > 0).then(|| Duration::from_millis(ms));
            }
            (CompactionStrategy::Leveled, _) => {
                return Err(Error::corruption("a parameter of no compaction strategy"));
            }
        }
        Ok(())
    }

    /// Reads an encoding that fills all of `bytes`.
    ///
    /// `find_operator` gives the operator of a name: the code for it cannot be stored.
    ///
    /// # Errors
    /// Corruption, if the bytes are none. `Unsupported`, for a critical field that is not known.
    /// `InvalidArgument`, if there is no operator of the name stored, or an option is out of range.
    pub fn decode(
        bytes: &[u8],
        find_operator: &dyn Fn(&str) -> Option<Arc<dyn MergeOperator>>,
    ) -> Result<Self> {
        let mut options = Self::default();
        let unknown = read_fields(&FIELDS, bytes, |tag, value| {
            options.decode_field(tag, value, find_operator)
        })?;
        options.unknown = unknown;
        options.check()?;
        Ok(options)
    }

    fn decode_field(
        &mut self,
        tag: u64,
        value: &mut ByteReader<'_>,
        find_operator: &dyn Fn(&str) -> Option<Arc<dyn MergeOperator>>,
    ) -> Result<StoredField> {
        match tag {
            1 => {
                let bytes = usize::try_from(value.varint()?);
                self.table.block_bytes = bytes.map_err(|_| Error::corruption("bad block size"))?;
            }
            2 => self.table.compression = with_level(value.u8()?, None)?,
            3 => self.table.filter_bits_per_key = value.varint_u32()?,
            4 => {
                let name = std::str::from_utf8(value.take_all())
                    .map_err(|_| Error::corruption("the name of a merge operator is not UTF-8"))?;
                self.merge_operator = Some(find_operator(name).ok_or_else(|| not_given(name))?);
            }
            5 => self.level_size_ratio = value.varint_u32()?,
            6 => self.level0_runs_trigger = value.varint_u32()?,
            7 => self.table_bytes_target = value.varint()?,
            8 => self.base_level_bytes = value.varint()?,
            9 => self.tombstone_percent_trigger = value.varint_u32()?,
            10 => {
                let name = std::str::from_utf8(value.take_all())
                    .map_err(|_| Error::corruption("the name of a key order is not UTF-8"))?;
                self.key_order = (name != BYTEWISE).then(|| present_name(name).into());
            }
            11 => self.table.prefix_extractor = Some(PrefixExtractor::decode(value)?),
            12 => self.value_threshold = value.varint()?,
            13 => {
                self.table.kind = TableKind::from_number(value.varint()?)
                    .ok_or_else(|| Error::new(ErrorKind::Unsupported, "unknown table kind"))?;
            }
            _ => return self.decode_later(tag, value),
        }
        Ok(StoredField::Known)
    }

    /// Reads a field from 14 on.
    fn decode_later(&mut self, tag: u64, value: &mut ByteReader<'_>) -> Result<StoredField> {
        match tag {
            14 => self.compaction = strategy_of(value.u8()?)?,
            15 => self.compaction_filter = Some(NamedFilter::stored(filter_name(value)?)),
            16 => self.table.dictionary_bytes = value.varint_u32()?,
            17 => self.cold_from_level = value.varint_u32()?,
            19 => self.ttl_ms = value.varint()?,
            20 => self.table.whole_key_filter = has_whole_keys(value)?,
            21 => {
                self.blob_file_bytes = value.varint()?;
                self.blob_garbage_percent_trigger = value.varint_u32()?;
            }
            22 | 23 => self.decode_parameter(tag, value)?,
            24 => {
                let [number, _] = self.table.compression.to_bytes();
                self.table.compression = with_level(number, Some(value.u8()?))?;
            }
            25 => {
                while !value.is_empty() {
                    let stored = [value.u8()?, value.u8()?];
                    self.compression_per_level.push(Compression::from_bytes(stored)?);
                }
            }
            26 => {
                self.range_tombstone_percent_trigger = value.varint_u32()?;
                self.garbage_percent_trigger = value.varint_u32()?;
            }
            27 => {
                let levels = value.take_all().iter();
                self.filter_bits_per_level = levels.map(|&bits| bits.into()).collect();
            }
            _ => return Ok(StoredField::Unknown),
        }
        Ok(StoredField::Known)
    }
}

/// What a list by level says of one; `None`, if it is empty.
fn at_level<T: Copy>(list: &[T], level: usize) -> Option<T> {
    list.get(level).or(list.last()).copied()
}

fn check_key_order(name: &str) -> Result<()> {
    let is_name = (1..=KEY_ORDER_BYTES_MAX).contains(&name.len());
    if is_name && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    let permitted = format!("1 to {KEY_ORDER_BYTES_MAX} printable ASCII characters, no space");
    Err(Error::invalid("bad name of a key order")
        .with_mismatch(permitted, name.escape_default().to_string()))
}

#[cfg(test)]
mod tests;
