//! How much the tables of families hold, by the codec that they are compressed with.
//!
//! The manifest does not name the codec of a table: its properties do, so this reads them.

use siltdb_tree::{files::version::Version, rewrite::table_form::TableForm};
use std::{collections::BTreeMap, sync::Arc};

/// The live tables of one codec.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionStats {
    /// The name of the codec: `none`, `lz4`, `snappy` or `zstd`; `unreadable`, for tables whose
    /// properties cannot be read.
    pub codec: &'static str,
    /// The number of tables. One that families share counts in each.
    pub tables: u64,
    /// The size of their keys and values before compression, in bytes.
    pub raw_bytes: u64,
    /// The size of the tables in their files, in bytes, with index and filter.
    pub stored_bytes: u64,
    /// The number of these tables that have a dictionary.
    pub dictionaries: u64,
}

/// The live tables of families with these versions, by codec. Cost: opens each table and reads its
/// properties.
#[must_use]
pub fn compression_stats(
    versions: impl IntoIterator<Item = Arc<Version>>,
) -> Vec<CompressionStats> {
    let mut found = BTreeMap::new();
    versions.into_iter().for_each(|version| add_tables(&version, &mut found));
    found.into_values().collect()
}

fn add_tables(version: &Version, found: &mut BTreeMap<&'static str, CompressionStats>) {
    for (_, table) in version.tables() {
        let form = table.pass().ok().map(|table| TableForm::of(&table));
        let codec = form.map_or("unreadable", |form| form.compression.codec_name());
        let (tables, raw_bytes, stored_bytes, dictionaries) = (0, 0, 0, 0);
        let none = CompressionStats { codec, tables, raw_bytes, stored_bytes, dictionaries };
        let stats = found.entry(codec).or_insert(none);
        stats.tables += 1;
        stats.raw_bytes += table.meta().logical_bytes;
        stats.stored_bytes += table.file_bytes();
        stats.dictionaries += u64::from(form.is_some_and(|form| form.has_dictionary));
    }
}
