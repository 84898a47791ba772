//! Reads a whole table and checks that its parts agree.
//!
//! It looks at the file, not at the cache. It is run on every new table before it is installed, and
//! by a check of the database.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::block_stats::{BlockStats, Contents};
use crate::table::format::tombstones;
use crate::table::read::readahead::{Readahead, WINDOW_BYTES_OF_MANY};
use crate::table::read::source::{FilterFrame, check_stats};
use crate::table::scan::table_scan::TableScan;
use crate::{
    blob::BlobReferences,
    block::Block,
    compress::Codec,
    filter_keys::FilterKeys,
    garbage::{Garbage, GarbageBuilder, KeyPosition, SizedEntry},
    key_sketch::{KeySketch, SketchBuilder},
    table_meta::{KeySpan, RangeEnd},
};
use siltdb_base::{
    checksum::xxh3,
    error::{Error, Result},
    id::SequenceNumber,
    key::SortKey,
    slice::Slice,
};
use std::sync::Arc;

impl TableScan {
    /// Checks every frame of the file, the order of the entries, and index, filter and summary
    /// against them. Calls `on_block` with the number of each data block, what the index knows of
    /// it, and the block. An error of `on_block` ends the check.
    ///
    /// # Errors
    /// Corruption, naming file and offset; what reading fails with; the errors of `on_block`.
    pub fn verify(
        self: &Arc<Self>,
        on_block: &mut dyn FnMut(usize, &BlockInfo<'_>, &Block) -> Result<()>,
    ) -> Result<()> {
        self.verify_tree()?;
        let filter = self.source.read_filter(FilterFrame::of(&self.properties))?;
        // Read here, whether or not a block needs it.
        self.source.dictionary_for(Some(Codec::Zstd))?;
        let mut total = BlockStats::default();
        let mut first_key = None;
        let mut before: Option<(Vec<u8>, SequenceNumber)> = None;
        let (mut hashes, mut asked) = (Vec::new(), Vec::new());
        let (keys, mut sample) = (self.meta().filter_keys, SketchBuilder::default());
        let mut garbage = GarbageBuilder::default();
        let mut ahead = Readahead::new(WINDOW_BYTES_OF_MANY);
        let mut blocks = self.blocks()?;
        while let Some(info) = blocks.block() {
            let number = blocks.number();
            let block = ahead.block(&self.source, self.properties.data_bytes, number, &info)?;
            let locate = |error: Error| self.source.locate(error, info.offset);
            let wrong = |message: &'static str| locate(Error::corruption(message));
            let stats = BlockStats::of(&block).map_err(locate)?;
            check_stats(&stats, &info).map_err(locate)?;
            let first = SortKey::new(info.first_key, block.entry(0).sequence);
            if let Some((key, sequence)) = &before
                && SortKey::new(key, *sequence) >= first
            {
                return Err(wrong("blocks of a table out of order"));
            }
            first_key.get_or_insert_with(|| Slice::copy_from(info.first_key));
            before = Some((info.last_key.to_vec(), info.last_sequence));
            hash_keys(&block, &mut hashes, xxh3);
            for (index, &hash) in hashes.iter().enumerate() {
                sample.add(hash, || {
                    let entry = block.entry(index);
                    let key_bytes = block.prefix().len() + entry.suffix.len();
                    SizedEntry::of_block(&entry, key_bytes).occupied_bytes()
                });
            }
            if let Some(filter) = &filter {
                // Their lines of the filter are prefetched before the first is looked at.
                hashes.iter().for_each(|&hash| filter.prefetch(hash));
                if keys != FilterKeys::Whole {
                    hash_keys(&block, &mut asked, |key| hash_of(keys, key));
                    prefix_hashes(keys, &block, &mut asked);
                }
                let asked = if keys == FilterKeys::Whole { &hashes } else { &asked };
                if !asked.iter().all(|&hash| filter.may_contain(hash)) {
                    return Err(wrong("a key is missing from the filter of its table"));
                }
            }
            let position = match blocks.continues() {
                true => KeyPosition::Repeated,
                false => KeyPosition::First,
            };
            add_garbage(&block, &stats, position, &mut garbage)?;
            total.merge(&stats);
            on_block(number, &info, &block)?;
            blocks.advance()?;
        }
        let points = first_key.zip(before).map(|(first, (last, _))| KeySpan {
            first,
            last: Slice::from(last),
            end: RangeEnd::Inclusive,
        });
        let blobs = garbage.take_blobs();
        let (key_sketch, garbage) = (sample.finish(), garbage.finish());
        self.check_total(FoundContents { total, points, key_sketch, garbage, blobs })
    }

    /// Compares the summary with what was found.
    fn check_total(&self, found: FoundContents) -> Result<()> {
        let FoundContents { mut total, points, key_sketch, garbage, blobs } = found;
        let meta = self.meta();
        for tombstone in self.tombstones().tombstones() {
            total.sequence_min = total.sequence_min.min(tombstone.sequence);
            total.sequence_max = total.sequence_max.max(tombstone.sequence);
        }
        let range = tombstones::united_range(points, self.tombstones());
        let agrees = total.entries == meta.entries
            && total.point_tombstones == meta.point_tombstones
            && total.merge_operands == meta.merge_operands
            && total.sequence_min == meta.sequence_min
            && total.sequence_max == meta.sequence_max
            && total.expiry_min_ms == meta.expiry_min_ms
            && total.logical_bytes == meta.logical_bytes
            && self.tombstones().count() as u64 == meta.range_tombstones
            && range.as_ref() == Some(&meta.range)
            && meta.key_sketch.agrees(&key_sketch)
            && garbage == meta.garbage
            && blobs == meta.blobs;
        if agrees {
            Ok(())
        } else {
            let error = Error::corruption("the summary of a table is not what it holds")
                .with_mismatch(format_args!("{meta:?}"), format_args!("{total:?}"));
            Err(self.source.locate(error, 0))
        }
    }
}

/// What the blocks of a table hold, as its summary should say.
struct FoundContents {
    /// The stats of all blocks together.
    total: BlockStats,
    /// First and last key of the blocks; `None` without blocks.
    points: Option<KeySpan>,
    /// The sketch of their keys.
    key_sketch: KeySketch,
    /// What of them a rewrite would free.
    garbage: Garbage,
    /// What they refer to in blob files.
    blobs: BlobReferences,
}

/// Makes `hashes` those of the keys of all entries of `block`.
fn hash_keys(block: &Block, hashes: &mut Vec<u64>, hash: impl Fn(&[u8]) -> u64) {
    hashes.clear();
    each_key(block, |key| hashes.push(hash(key)));
}

/// Calls `seen` with the key of each entry of `block`.
fn each_key(block: &Block, mut seen: impl FnMut(&[u8])) {
    let prefix = block.prefix();
    let mut key = prefix.to_vec();
    for entry in 0..block.count() {
        key.truncate(prefix.len());
        key.extend_from_slice(block.entry(entry).suffix);
        seen(&key);
    }
}

/// The hash that a lookup of `key` asks a filter of `keys` for.
fn hash_of(keys: FilterKeys, key: &[u8]) -> u64 {
    xxh3(keys.instead_of(key).unwrap_or(key))
}

/// Adds the hashes of the prefixes that a filter of `keys` holds.
fn prefix_hashes(keys: FilterKeys, block: &Block, hashes: &mut Vec<u64>) {
    let Some(extractor) = keys.extractor() else { return };
    each_key(block, |key| hashes.extend(extractor.prefix(key).map(xxh3)));
}

/// Adds what becomes garbage of `block`; its first entry may be a further one of the key before.
fn add_garbage(
    block: &Block,
    stats: &BlockStats,
    first: KeyPosition,
    garbage: &mut GarbageBuilder,
) -> Result<()> {
    let last = block.entry(block.count() - 1);
    if stats.contents == Contents::PLAIN && first == KeyPosition::First {
        garbage.add_plain(last.sequence);
        return Ok(());
    }
    let prefix_bytes = block.prefix().len();
    let mut before: Option<&[u8]> = None;
    for index in 0..block.count() {
        let entry = block.entry(index);
        let position = match before {
            None => first,
            Some(suffix) if suffix == entry.suffix => KeyPosition::Repeated,
            Some(_) => KeyPosition::First,
        };
        let key_bytes = prefix_bytes + entry.suffix.len();
        garbage.add(position, SizedEntry::of_block(&entry, key_bytes))?;
        before = Some(entry.suffix);
    }
    Ok(())
}
