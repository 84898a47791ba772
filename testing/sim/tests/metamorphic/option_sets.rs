//! The option sets. None of them may change what operations show.
//!
//! A new option is one row: its name and a value that is not the default. Options of the database
//! and of families go by name.

use siltdb::{FamilyOptions, Options};

/// Options of all sets: one thread, so that no wait for a lock ends, and a feed that never lags.
const COMMON: &str = "workers=0 lock_timeout=0ms feed_bytes_max=1GiB tier_rate=1024GiB seed=1";

/// Little memory and small tables, so that a few thousand operations reach every level.
const SMALL: &str = "memtable_bytes=16KiB memory_budget=1MiB block_bytes=1KiB table_bytes=4KiB \
    base_level_bytes=16KiB level_size_ratio=4 level0_runs=2";

/// Options that differ from those of the other sets.
#[derive(Clone, Copy, Debug)]
pub struct OptionSet {
    /// What it is about.
    pub name: &'static str,
    /// Names and values; later ones win.
    words: &'static str,
    /// Whether the data stays in memory between requests.
    pub size: Size,
}

/// The sizes from which the words of a set start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The defaults: flushes and compactions only on request.
    Default,
    /// [`SMALL`].
    Small,
}

const fn small(name: &'static str, words: &'static str) -> OptionSet {
    OptionSet { name, words, size: Size::Small }
}

/// All sets. The others are compared with the first.
pub const SETS: &[OptionSet] = &[
    OptionSet { name: "defaults", words: "", size: Size::Default },
    small("small", ""),
    small("blocks of 64 KiB", "block_bytes=64KiB"),
    small("blocks of 1 MiB, compressed", "block_bytes=1MiB compression=lz4"),
    small("uncompressed", "compression=none"),
    small("snappy", "compression=snappy"),
    small("codecs by level", "compression_per_level=none,snappy,lz4,none"),
    small("codecs by level, tiered", "compaction=tiered compression_per_level=none,snappy,lz4"),
    #[cfg(feature = "zstd")]
    small("zstd", "compression=zstd:19 compression_per_level=lz4,zstd:-5,zstd:9"),
    #[cfg(feature = "zstd")]
    small(
        "zstd with a dictionary",
        "compression=zstd dictionary_bytes=1KiB table_bytes=256KiB base_level_bytes=64KiB",
    ),
    small("filter bits by level", "filter_bits_per_level=14,0,6"),
    small("no filter", "filter_bits_per_key=0"),
    small("a wide filter", "filter_bits_per_key=20"),
    small("prefixes in the filters", "prefix_extractor=fixed:1"),
    small("prefixes alone", "prefix_extractor=fixed:4 whole_key_filter=false"),
    small("prefixes up to a separator", "prefix_extractor=separator:: whole_key_filter=false"),
    small(
        "B+trees with prefixes alone",
        "table_kind=btree prefix_extractor=fixed:2 whole_key_filter=false",
    ),
    small("the smallest memtables", "memtable_bytes=4KiB memory_budget=512KiB"),
    small("large memtables", "memtable_bytes=1MiB memory_budget=8MiB"),
    small("the smallest tables", "table_bytes=1KiB"),
    small("large tables", "table_bytes=32MiB"),
    small("the smallest base level, ratio 2", "base_level_bytes=1KiB level_size_ratio=2"),
    small("ratio 100", "level_size_ratio=100"),
    small("one run in level 0", "level0_runs=1"),
    small("many runs in level 0", "level0_runs=100"),
    small("written log", "log_io=write"),
    small("mapped log", "log_io=map"),
    small("mapped reads", "read_io=map"),
    small("mapped reads, uncompressed", "read_io=map compression=none"),
    small("the smallest budget", "memtable_bytes=16KiB memory_budget=32KiB"),
    small("no cache", "cache_bytes=0"),
    small("synced commits", "durability=synced"),
    small("commits synced at an interval", "durability=interval:5"),
    small("the log retained", "retain_log_bytes=1GiB"),
    small("all tables cold", "cold_directory=/cold cold_from_level=0"),
    small("deep tables cold", "cold_directory=/cold cold_from_level=2"),
    small("B+tree tables", "table_kind=btree"),
    small("B+tree tables, mapped", "table_kind=btree compression=none read_io=map"),
    small("values in blobs", "value_threshold=100"),
    small("large values in small blobs", "value_threshold=1000 blob_file_bytes=64KiB"),
    small("three workers", "workers=3"),
    small("tiered", "compaction=tiered"),
    small("tiered, two runs", "compaction=tiered:2:10 range_tombstone_percent=10"),
    small(
        "tiered, five runs, little cleared away",
        "compaction=tiered:5:10000 garbage_percent=101",
    ),
    small("much cleared away", "garbage_percent=5 tombstone_percent=1"),
    small("a background rate", "background_rate=1MiB"),
    small("a key order of a program", "key_order=test.order"),
    small(
        "few levels, nothing cached",
        "cache_bytes=0 level0_runs=1 base_level_bytes=1KiB filter_bits_per_key=0 compression=none",
    ),
];

impl OptionSet {
    /// All names and values, in the order in which they are set.
    pub fn words(self) -> String {
        let size = if self.size == Size::Small { SMALL } else { "" };
        [COMMON, size, self.words].join(" ")
    }

    /// The options of the database, without those of a family, and those of each family.
    ///
    /// # Panics
    /// If an option has no such name or value.
    pub fn options(self) -> (Options, FamilyOptions) {
        let (mut database, mut family) = (Options::new(), FamilyOptions::new());
        for word in self.words().split_whitespace() {
            let (name, value) = word.split_once('=').expect("each word is NAME=VALUE");
            let set = match family.get(name) {
                Ok(_) => family.set(name, value),
                Err(_) => database.set(name, value),
            };
            set.unwrap_or_else(|error| panic!("{:?}: {word}: {error}", self.name));
        }
        (database, family)
    }
}
