//! Options of a family about its levels: their sizes, what calls for a compaction, and where the
//! tables lie.
//!
//! As the others, these are builders only.

use super::family::FamilyOptions;
use siltdb_tree::strategy::CompactionStrategy;

impl FamilyOptions {
    /// Size of a level that needs no other between itself and level 0, in bytes, at least 1 KiB. It
    /// should be about the size of one compaction out of level 0. Default: 256 MiB.
    #[must_use]
    pub fn base_level_bytes(mut self, bytes: u64) -> Self {
        self.tree.base_level_bytes = bytes;
        self
    }

    /// Size ratio of a level to the one above it: 2 to 100. Smaller ratios mean more levels, less
    /// rewriting in each, and slower reads. Default: 10.
    #[must_use]
    pub fn level_size_ratio(mut self, ratio: u32) -> Self {
        self.tree.level_size_ratio = ratio;
        self
    }

    /// Sorted runs in level 0 that trigger its compaction: 1 to 1000. Default: 8.
    ///
    /// Above three times as many runs, at least 12, compaction debt delays writers. At five times
    /// as many, at least 20, writers stop. The memtables that exist at that moment may still be
    /// flushed.
    #[must_use]
    pub fn level0_runs(mut self, runs: u32) -> Self {
        self.tree.level0_runs_trigger = runs;
        self
    }

    /// How tables are merged, and whether old data leaves by itself. Default:
    /// [`CompactionStrategy::Leveled`].
    ///
    /// [`Family::set_options`](crate::Family::set_options) changes the strategy at any time,
    /// without a rewrite: the tables stay where they are, and the new strategy goes on from there.
    /// From then on old data of a FIFO family leaves, the oldest first, whatever its level.
    ///
    /// Data that leaves a FIFO family is gone for reads at the present. A snapshot that can see a
    /// table keeps it, and so does the retention floor: while there is one, nothing leaves. The
    /// change feed tells nothing of it. [`Db::compact`](crate::Db::compact) merges nothing there.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{CompactionStrategy, Db, FamilyOptions};
    /// use std::time::Duration;
    ///
    /// let db = Db::open(dir.path().join("data"))?;
    /// let events = FamilyOptions::new().compaction(CompactionStrategy::tiered());
    /// db.create_family("events", events)?;
    /// let day = Some(Duration::from_secs(24 * 60 * 60));
    /// let pages = CompactionStrategy::Fifo { bytes_max: 4 << 30, age_max: day };
    /// db.create_family("pages", FamilyOptions::new().compaction(pages))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn compaction(mut self, strategy: CompactionStrategy) -> Self {
        self.tree.compaction = strategy;
        self
    }

    /// The part of a table's entries that are tombstones, range tombstones included, from which on
    /// it is compacted for their sake, in percent: 1 to 100, or 101 for never. Default: 50.
    #[must_use]
    pub fn tombstone_percent(mut self, percent: u32) -> Self {
        self.tree.tombstone_percent_trigger = percent;
        self
    }

    /// The same for range tombstones alone, in percent: 1 to 100, or 101 for never. Default: 101,
    /// so that only [`FamilyOptions::tombstone_percent`] counts them.
    #[must_use]
    pub fn range_tombstone_percent(mut self, percent: u32) -> Self {
        self.tree.range_tombstone_percent_trigger = percent;
        self
    }

    /// The part of a table that is expired, superseded or covered by range tombstones from which on
    /// it is rewritten without that, in percent: 5 to 100, or 101 for never. Default: 18.
    ///
    /// A lower value frees space sooner and writes more: a byte that is freed costs up to
    /// 100 / `percent` bytes that are written. Tables that nothing sees any more are removed
    /// without a rewrite in any case.
    ///
    /// While there are no writes, what newer tables replace of older ones counts as well, from five
    /// sixths of this part of the family on. 101 turns this off, too.
    #[must_use]
    pub fn garbage_percent(mut self, percent: u32) -> Self {
        self.tree.garbage_percent_trigger = percent;
        self
    }

    /// The level from which on tables belong to the cold tier: 0 (all) to 7 (none). Default: 7.
    ///
    /// The background moves them, at [`Options::tier_rate`](crate::Options::tier_rate), if the
    /// database has an [`Options::cold_directory`](crate::Options::cold_directory). Flushes and
    /// compactions write hot tables, which then move. A lower level means less hot space, and
    /// slower reads of what lies there.
    /// [`Family::freeze`](crate::Family::freeze) sets 0, [`Family::thaw`](crate::Family::thaw) 7.
    #[must_use]
    pub fn cold_from_level(mut self, level: u32) -> Self {
        self.tree.cold_from_level = level;
        self
    }
}
