//! Gathers what the filter of a table holds: hashes of keys, of their prefixes, or of both.
//!
//! It does not write the frame of the filter.

use crate::{filter::FilterBuilder, filter_keys::FilterKeys, options::TableOptions};
use siltdb_base::checksum::xxh3;

/// The filter of a table that is being written.
#[derive(Debug, Default)]
pub struct FilterWriter {
    builder: FilterBuilder,
    /// What the filter holds; `None`, if there is none.
    keys: Option<FilterKeys>,
    /// The prefix that was added last.
    prefix: Option<Vec<u8>>,
}

impl FilterWriter {
    /// The filter that these options want.
    #[must_use]
    pub fn new(options: &TableOptions) -> Self {
        let keys = (options.filter_bits_per_key > 0).then(|| options.filter_keys());
        Self { builder: FilterBuilder::default(), keys, prefix: None }
    }

    /// Adds a key and its `hash`. Keys ascend.
    #[inline]
    pub fn add(&mut self, key: &[u8], hash: u64) {
        match self.keys {
            Some(FilterKeys::Whole) => self.builder.add(hash),
            Some(keys) => self.add_with_prefix(keys, key, hash),
            None => {}
        }
    }

    /// Keys of one prefix are neighbours, so that each prefix is added once.
    fn add_with_prefix(&mut self, keys: FilterKeys, key: &[u8], hash: u64) {
        let prefix = keys.extractor().and_then(|extractor| extractor.prefix(key));
        if let Some(prefix) = prefix
            && self.prefix.as_deref() != Some(prefix)
        {
            self.builder.add(xxh3(prefix));
            let last = self.prefix.get_or_insert_default();
            last.clear();
            last.extend_from_slice(prefix);
        }
        if keys.instead_of(key).is_none() {
            self.builder.add(hash);
        }
    }

    /// The hashes that were added so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.builder.count()
    }

    /// Appends to `out` the encoding of the filter, with `bits_per_key` bits for each hash.
    pub fn encode(&self, bits_per_key: u32, out: &mut Vec<u8>) {
        self.builder.encode(bits_per_key, out);
    }
}
