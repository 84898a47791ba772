//! Reads a whole table and checks that its parts agree.
//!
//! It looks at the file, not at the cache. It is run on every new table before it is installed, and
//! by those who look for damage.

use super::{ahead::Ahead, facts::Facts, reader::Table};
use crate::block::Block;
use siltdb_base::{
    checksum::xxh3,
    error::{Error, Result},
    id::SequenceNumber,
    key::compare,
};
use std::cmp::Ordering;

impl Table {
    /// Checks every frame of the file, the order of the entries, and index, filter and summary
    /// against them; calls `on_block` with the index of each data block, and the block.
    ///
    /// # Errors
    /// Corruption, naming file and offset; what reading fails with.
    pub fn verify(&self, on_block: &mut dyn FnMut(usize, &Block)) -> Result<()> {
        let read_again = self.source.read_contents(self.source.read_properties(None)?)?;
        let filter = self.source.read_filter(read_again.filter_frame)?;
        if read_again.summary != self.contents.summary
            || read_again.tombstones != self.contents.tombstones
            || self.filter_if_read().is_some_and(|own| filter.as_ref() != own.get())
        {
            let error = Error::corruption("a table changed after it was opened");
            return Err(self.source.locate(error, 0));
        }
        let mut total = Facts::default();
        let mut before: Option<(Vec<u8>, SequenceNumber)> = None;
        let mut hashes = Vec::new();
        let mut ahead = Ahead::default();
        for index in 0..self.block_count() {
            let info = self.block_info(index);
            let sealed = self.open_sealed(index, ahead.frame(self, index)?.to_vec())?;
            let wrong =
                |message: &'static str| self.source.locate(Error::corruption(message), info.offset);
            let first = (info.first_key, sealed.block().entry(0).sequence);
            if let Some((key, sequence)) = &before
                && compare((key, *sequence), first) != Ordering::Less
            {
                return Err(wrong("blocks of a table out of order"));
            }
            before = Some((info.last_key.to_vec(), info.last_sequence));
            if let Some(filter) = &filter {
                // Their lines of the filter are asked for before the first is looked at.
                hash_keys(sealed.block(), &mut hashes);
                hashes.iter().for_each(|&hash| filter.prefetch(hash));
                if !hashes.iter().all(|&hash| filter.may_contain(hash)) {
                    return Err(wrong("a key is missing from the filter of its table"));
                }
            }
            total.merge(sealed.facts());
            on_block(index, sealed.block());
        }
        self.check_total(total)
    }

    /// Compares the summary with what was found.
    fn check_total(&self, mut total: Facts) -> Result<()> {
        let summary = self.summary();
        for tombstone in self.tombstones().tombstones() {
            total.sequence_min = total.sequence_min.min(tombstone.sequence);
            total.sequence_max = total.sequence_max.max(tombstone.sequence);
        }
        let agrees = total.entries == summary.entries
            && total.point_tombstones == summary.point_tombstones
            && total.merge_operands == summary.merge_operands
            && total.sequence_min == summary.sequence_min
            && total.sequence_max == summary.sequence_max
            && total.expiry_min_ms == summary.expiry_min_ms
            && total.logical_bytes == summary.logical_bytes;
        if agrees {
            Ok(())
        } else {
            let error = Error::corruption("the summary of a table is not what it holds")
                .with_mismatch(format_args!("{summary:?}"), format_args!("{total:?}"));
            Err(self.source.locate(error, 0))
        }
    }
}

/// Makes `hashes` those of the keys of all entries of `block`.
fn hash_keys(block: &Block, hashes: &mut Vec<u64>) {
    hashes.clear();
    let prefix = block.prefix();
    let mut key = prefix.to_vec();
    for entry in 0..block.count() {
        key.truncate(prefix.len());
        key.extend_from_slice(block.entry(entry).suffix);
        hashes.push(xxh3(&key));
    }
}
