//! The filter of a table: what of it is asked before all else, and without opening it.

use crate::table::read::source::{FilterFrame, TableLocation, TableSource};
use crate::{
    cache::Cache,
    filter::Filter,
    filter_keys::{FilterKeys, PrefixExtractor},
    table_meta::TableMeta,
};
use siltdb_base::{
    budget::{Charge, Part},
    checksum::xxh3,
    error::Result,
    key::LookupKey,
    seeded_fault,
};
use std::sync::Arc;

/// The filter of a table, if it has one, in memory.
///
/// A table whose filter lets no key pass need not be opened: its index is larger to read, to check
/// and to keep. A clone shares the memory, which is charged to [`Part::Tables`] once.
#[derive(Clone, Debug)]
pub struct TableFilter {
    filter: Option<Filter>,
    keys: FilterKeys,
    _charge: Arc<Charge>,
}

impl TableFilter {
    /// Reads the filter of a table: footer, properties and filter, and nothing else.
    ///
    /// # Errors
    /// Corruption, if any of them is damaged, or the table is not the one that is `expected`.
    /// `Unsupported`, if a newer version wrote it. Errors of reading.
    pub fn read(location: TableLocation<'_>, expected: &TableMeta, cache: &Cache) -> Result<Self> {
        let source = TableSource::new(location, Some(expected))?;
        let properties = source.read_properties(Some(expected))?;
        let filter = source.read_filter(FilterFrame::of(&properties))?;
        Ok(Self::new(filter, properties.meta.filter_keys, cache))
    }

    /// A filter that was read, which holds `keys`.
    pub(in crate::table) fn new(filter: Option<Filter>, keys: FilterKeys, cache: &Cache) -> Self {
        let bytes = filter.as_ref().map_or(0, Filter::bytes);
        let charge = Charge::new(cache.budget(), Part::Tables, bytes);
        cache.fit();
        Self { filter, keys, _charge: Arc::new(charge) }
    }

    /// Whether the table may hold a point entry of the key; `false` is certain.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, key: LookupKey<'_>) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash_in_filter(self.keys, key)))
    }

    /// Whether the table may hold a point entry from `lower` up to and without `upper`; `false` is
    /// certain. A filter without prefixes, or one whose prefixes differ within the range, does not
    /// know.
    #[must_use]
    pub fn may_contain_range(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        match (&self.filter, hash_of_range(self.keys, lower, upper)) {
            (Some(filter), Some(hash)) => filter.may_contain(hash),
            _ => true,
        }
    }

    /// Prefetches the memory that [`TableFilter::may_contain`] will look at.
    #[inline]
    pub fn prefetch(&self, key: LookupKey<'_>) {
        if let Some(filter) = &self.filter {
            filter.prefetch(hash_in_filter(self.keys, key));
        }
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.get().map_or(0, Filter::bytes)
    }

    /// The filter itself.
    pub(in crate::table) fn get(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }
}

/// The hash that a filter of `keys` holds if the table holds `key`.
#[inline]
pub(in crate::table) fn hash_in_filter(keys: FilterKeys, key: LookupKey<'_>) -> u64 {
    match keys {
        FilterKeys::Whole | FilterKeys::WholeAndPrefixes(_) => forgetful(key.hash()),
        FilterKeys::Prefixes(_) => hash_instead_of(keys, key),
    }
}

#[cold]
fn hash_instead_of(keys: FilterKeys, key: LookupKey<'_>) -> u64 {
    let instead = keys.instead_of(key.key());
    forgetful(instead.map_or(key.hash(), xxh3))
}

/// The hash that a filter of `keys` holds if the table holds a key from `lower` up to and without
/// `upper`; `None`, if it does not know.
pub(in crate::table) fn hash_of_range(
    keys: FilterKeys,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Option<u64> {
    let keys = match seeded_fault!("prefix_of_another_extractor") {
        true => FilterKeys::Prefixes(PrefixExtractor::Fixed(2)),
        false => keys,
    };
    keys.prefix_of_range(lower, upper).map(|prefix| forgetful(xxh3(prefix)))
}

/// With a seeded fault, another hash for one key in some hundred.
#[inline]
fn forgetful(hash: u64) -> u64 {
    if seeded_fault!("filter_forgets_a_key") && hash.is_multiple_of(101) { !hash } else { hash }
}
