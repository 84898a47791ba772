//! The options of one run, drawn from its seed.
//!
//! They decide the conditions of a run, not its operations.

use crate::{
    draw::Draw, guests::GuestSettings, keys::KeyShape, operator::Operator, same_values::SameValues,
};
use siltdb::{
    CompactionStrategy, Compression, Durability, FamilyOptions, KeyOrder, Options, PrefixExtractor,
    ReadIo, TableKind,
};
use siltdb_base::{clock::ManualClock, fs::mem::MemFs};
use std::{sync::Arc, time::Duration};

/// The database's directory in its file system.
pub const DIRECTORY: &str = "/data/db";

/// Its cold directory.
pub const COLD: &str = "/data/cold";

/// Where table files are written before they are ingested.
pub const OUTSIDE: &str = "/data/outside";

/// What the name of such a file begins with.
pub const OUTSIDE_NAME: &str = "outside-";

/// The failures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Kills and power losses; commits that are not logged are allowed.
    Crashes,
    /// As `Crashes`, and calls of the file system that fail.
    Faults,
    /// As `Crashes`, and a disk that runs full.
    FullDisk,
    /// Clean closes only; commits that are not logged are allowed.
    Calm,
}

/// The part of the flushed log that is retained for the change feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retained {
    /// Nothing.
    Nothing,
    /// The newest files, up to this many bytes together.
    Bytes(u64),
    /// All of it.
    Everything,
}

/// The directories of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All tables are hot.
    OneDirectory,
    /// It has a cold directory.
    TwoTiers,
}

/// The use of the change feed in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedUse {
    /// None, so that log files are reused at once.
    Never,
    /// A subscription, which may pin this many bytes of flushed log.
    Upto(u64),
}

/// The conditions of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The failures of the run.
    pub weather: Weather,
    /// Operations to do.
    pub steps: u64,
    /// Crash states to take at most.
    pub crashes_max: usize,
    /// Different keys in a family.
    pub key_count: u64,
    /// The shape of keys.
    pub key_shape: KeyShape,
    /// Longest value, in bytes.
    pub value_bytes_max: usize,
    /// The merge operator of all families.
    pub operator: Operator,
    /// Of ten puts, this many expire.
    pub expiring: u64,
    /// After this many of a hundred operations everything is compared.
    pub compared: u64,
    /// The durability classes of commits, with equal probability.
    pub durabilities: Vec<Durability>,
    /// The part of the flushed log that is retained.
    pub retained: Retained,
    /// The use of the change feed.
    pub feed_use: FeedUse,
    /// The directories.
    pub layout: Layout,
    /// When values leave the guests.
    pub guests: GuestSettings,
    memtable_bytes: usize,
    read_io: ReadIo,
    memory_budget: usize,
    default_family: FamilySettings,
}

/// The options of one family.
#[derive(Clone, Copy, Debug)]
pub struct FamilySettings {
    table_kind: TableKind,
    block_bytes: usize,
    compression: Compression,
    dictionary_bytes: u32,
    filter_bits_per_key: u32,
    levels: LevelSettings,
    prefix_extractor: Option<PrefixExtractor>,
    whole_key_filter: bool,
    table_bytes: u64,
    base_level_bytes: u64,
    level_size_ratio: u32,
    level0_runs: u32,
    compaction: CompactionStrategy,
    tombstone_percent: u32,
    range_tombstone_percent: u32,
    garbage_percent: u32,
    cold_from_level: u32,
    value_threshold: u64,
    blob_file_bytes: u64,
    blob_garbage_percent: u32,
    is_filtered: bool,
    /// The name of the key order; `None` leaves a family the one that it has.
    pub key_order: Option<&'static str>,
}

/// What differs from level to level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LevelSettings {
    Uniform,
    /// Compression and filter bits of the first levels, and those of all others.
    Two(usize, [(Compression, u32); 2]),
}

/// What this build can write.
fn compressions() -> Vec<Compression> {
    let mut known = vec![Compression::None, Compression::Lz4, Compression::Snappy];
    if cfg!(feature = "zstd") {
        known.extend([Compression::Zstd(-3), Compression::ZSTD, Compression::Zstd(9)]);
    }
    known
}

impl FamilySettings {
    /// Draws the settings of a new family. Its keys lie in the order of their bytes, whatever its
    /// key order.
    pub fn new_family(draw: &mut Draw) -> Self {
        let orders = [None, None, None, Some("u64"), Some("(string,reverse(i32))"), Some("sim.x")];
        Self { key_order: draw.pick(&orders), ..Self::new(draw) }
    }

    /// Draws the settings of a family, without a key order.
    pub fn new(draw: &mut Draw) -> Self {
        Self {
            table_kind: draw.pick(&[TableKind::Block, TableKind::BTree]),
            block_bytes: draw.pick(&[1 << 10, 1 << 10, 4 << 10, 16 << 10]),
            compression: draw.pick(&compressions()),
            dictionary_bytes: draw.pick(&[0, 0, 1 << 10, 4 << 10]),
            levels: match draw.below(3) {
                0 => {
                    let kind = |draw: &mut Draw| (draw.pick(&compressions()), draw.pick(&[0, 12]));
                    let kinds = [kind(draw), kind(draw)];
                    LevelSettings::Two(draw.pick(&[1, 3, 6]), kinds)
                }
                _ => LevelSettings::Uniform,
            },
            filter_bits_per_key: draw.pick(&[0, 10]),
            prefix_extractor: draw.pick(&[
                None,
                None,
                Some(PrefixExtractor::Fixed(1)),
                Some(PrefixExtractor::Fixed(17)),
                Some(PrefixExtractor::Separator { separator: b'/', count: 3 }),
                Some(PrefixExtractor::Separator { separator: 0, count: 1 }),
            ]),
            whole_key_filter: draw.chance(1, 2),
            // Small enough for several tables in each of several levels.
            table_bytes: draw.pick(&[1 << 10, 4 << 10, 16 << 10, 32 << 20]),
            base_level_bytes: draw.pick(&[4 << 10, 32 << 10, 256 << 20]),
            level_size_ratio: draw.pick(&[2, 4, 10]),
            level0_runs: draw.pick(&[1, 2, 4]),
            // A guest is a FIFO family, see `guests`.
            compaction: match draw.below(2) {
                0 => CompactionStrategy::Leveled,
                _ => CompactionStrategy::Tiered {
                    runs_max: draw.pick(&[2, 3, 5]),
                    space_percent_max: draw.pick(&[10, 100, 1000]),
                },
            },
            tombstone_percent: draw.pick(&[50, 50, 10, 101]),
            range_tombstone_percent: draw.pick(&[101, 101, 10]),
            garbage_percent: draw.pick(&[18, 18, 5, 101]),
            cold_from_level: draw.pick(&[7, 7, 6, 2, 1, 0]),
            // Most values are short; many reach the smallest threshold.
            value_threshold: draw.pick(&[0, 0, 32, 32, 100]),
            blob_file_bytes: draw.pick(&[4 << 10, 16 << 10, 256 << 20]),
            blob_garbage_percent: draw.pick(&[1, 20, 50]),
            is_filtered: draw.chance(1, 4),
            key_order: None,
        }
    }

    /// The options of a family with these settings and the merge operator `operator`.
    ///
    /// # Panics
    /// If the key order has no such name.
    #[must_use]
    pub fn options(self, operator: Operator) -> FamilyOptions {
        self.options_without_merges().merge_operator(Arc::new(operator))
    }

    /// The same options without a merge operator.
    ///
    /// # Panics
    /// As [`FamilySettings::options`].
    #[must_use]
    pub fn options_without_merges(self) -> FamilyOptions {
        let order = self.key_order.map_or_else(KeyOrder::bytewise, |name| {
            KeyOrder::named(name).expect("it is drawn from names")
        });
        let (mut compressions, mut filters) = (Vec::new(), Vec::new());
        if let LevelSettings::Two(count, [upper, lower]) = self.levels {
            compressions = [vec![upper.0; count], vec![lower.0]].concat();
            filters = [vec![upper.1; count], vec![lower.1]].concat();
        }
        let options = match self.is_filtered {
            true => FamilyOptions::new().compaction_filter(Arc::new(SameValues)),
            false => FamilyOptions::new(),
        };
        options
            .key_order(order)
            .table_kind(self.table_kind)
            .block_bytes(self.block_bytes)
            .compression(self.compression)
            .compression_per_level(&compressions)
            .dictionary_bytes(self.dictionary_bytes)
            .filter_bits_per_level(&filters)
            .filter_bits_per_key(self.filter_bits_per_key)
            .prefix_extractor(self.prefix_extractor)
            .whole_key_filter(self.whole_key_filter)
            .table_bytes(self.table_bytes)
            .base_level_bytes(self.base_level_bytes)
            .level_size_ratio(self.level_size_ratio)
            .level0_runs(self.level0_runs)
            .compaction(self.compaction)
            .tombstone_percent(self.tombstone_percent)
            .range_tombstone_percent(self.range_tombstone_percent)
            .garbage_percent(self.garbage_percent)
            .cold_from_level(self.cold_from_level)
            .value_threshold(self.value_threshold)
            .blob_file_bytes(self.blob_file_bytes)
            .blob_garbage_percent(self.blob_garbage_percent)
    }
}

impl Settings {
    /// Draws the settings of a run.
    pub fn new(draw: &mut Draw) -> Self {
        let weather = match draw.below(20) {
            0..10 => Weather::Crashes,
            10..16 => Weather::Faults,
            16..18 => Weather::FullDisk,
            _ => Weather::Calm,
        };
        let steps = match draw.below(4) {
            0 => draw.within(20..=100),
            1 | 2 => draw.within(100..=500),
            _ => draw.within(500..=1500),
        };
        let durabilities = durabilities(draw, weather);
        let may_lose = weather == Weather::Crashes && durabilities.contains(&Durability::Volatile);
        let memtable_bytes = draw.pick(&[4 << 10, 8 << 10, 16 << 10, 64 << 10]);
        Self {
            weather,
            steps,
            crashes_max: (steps / draw.pick(&[6, 12, 25])) as usize,
            key_count: draw.pick(&[8, 60, 200, 500]),
            key_shape: draw.pick(&[KeyShape::Prefixed, KeyShape::Binary, KeyShape::Mixed]),
            value_bytes_max: draw.pick(&[200, 8 << 10, 3 * memtable_bytes]),
            operator: draw.pick(&[Operator::Append, Operator::Add]),
            // A lost commit and an expired one cannot always be told apart.
            expiring: if may_lose { 0 } else { draw.pick(&[0, 0, 2, 5]) },
            compared: draw.pick(&[0, 2, 10, 100]),
            durabilities,
            retained: match draw.below(8) {
                0..5 => Retained::Nothing,
                5 => Retained::Bytes(draw.pick(&[10_000, 100_000])),
                _ => Retained::Everything,
            },
            feed_use: match draw.below(4) {
                0 | 1 => FeedUse::Never,
                2 => FeedUse::Upto(draw.pick(&[1000, 20_000])),
                _ => FeedUse::Upto(1 << 30),
            },
            layout: draw.pick(&[Layout::OneDirectory, Layout::TwoTiers]),
            guests: GuestSettings::new(draw),
            memtable_bytes,
            memory_budget: draw.pick(&[2 * memtable_bytes, 512 << 10, 8 << 20]),
            read_io: draw.pick(&[ReadIo::Read, ReadIo::Read, ReadIo::Map]),
            default_family: FamilySettings::new(draw),
        }
    }

    /// The options to open the database with. `seed` is the seed of the engine's own random
    /// choices.
    #[must_use]
    pub fn options(&self, fs: &MemFs, clock: &Arc<ManualClock>, seed: u64) -> Options {
        Options::new()
            .fs(Arc::new(fs.clone()))
            .clock(Arc::clone(clock) as Arc<_>)
            .seed(seed)
            .workers(0)
            // A run has one thread, so a wait for a lock could not end.
            .lock_timeout(Duration::ZERO)
            .retain_log_bytes(match self.retained {
                Retained::Nothing => 0,
                Retained::Bytes(bytes) => bytes,
                Retained::Everything => 1 << 40,
            })
            .feed_bytes_max(match self.feed_use {
                FeedUse::Never => 0,
                FeedUse::Upto(bytes) => bytes,
            })
            .memtable_bytes(self.memtable_bytes)
            .memory_budget(self.memory_budget)
            .read_io(self.read_io)
            // A move at this rate takes no time.
            .tier_rate(1 << 60)
            .compaction_filter(Arc::new(SameValues))
            .default_family(self.default_family.options(self.operator))
    }
}

fn durabilities(draw: &mut Draw, weather: Weather) -> Vec<Durability> {
    let interval = Durability::Interval(Duration::from_millis(draw.within(1..=500)));
    let mut choices = match draw.below(4) {
        0 => vec![Durability::Synced],
        1 => vec![Durability::Buffered],
        2 => vec![Durability::Buffered, Durability::Buffered, Durability::Synced],
        _ => vec![Durability::Buffered, interval, Durability::Synced],
    };
    if matches!(weather, Weather::Crashes | Weather::Calm) && draw.chance(1, 2) {
        choices.push(Durability::Volatile);
    }
    choices
}
