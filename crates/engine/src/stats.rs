//! Statistics of a database, collected on request.
//!
//! Nothing here runs on a hot path: each counter is kept where its events happen.

use crate::{catalog::family::FamilyData, database::Database, memory::MemoryStats};
use siltdb_base::{budget::Part, limits::LEVELS, sync::lock};
use siltdb_disk::edit::tier::Tier;
use siltdb_tree::{options::TreeOptions, read::view::View, strategy::CompactionStrategy};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// Statistics of a database at one moment.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The last published sequence number: the number of operations since the database was created,
    /// and of notes of expiry.
    pub sequence: u64,
    /// The number of families.
    pub families: u64,
    /// The number of those with the tiered compaction strategy.
    pub tiered_families: u64,
    /// The number of those with the FIFO compaction strategy.
    pub fifo_families: u64,
    /// The number of live snapshots.
    pub snapshots: u64,
    /// The retention floor: the sequence number from which on every version is kept.
    pub retention_floor: Option<u64>,
    /// The number of prepared transactions that wait for their decision.
    pub prepared_transactions: u64,
    /// The memory of these transactions and their locks, in bytes.
    pub prepared_bytes: u64,
    /// The number of entries in memtables, tombstones and old versions included.
    pub memtable_entries: u64,
    /// The memory that the contents of memtables take, in bytes.
    pub memtable_bytes: u64,
    /// The memory of the chunks that memtables hold, in bytes, with the free rest of their newest
    /// chunks.
    pub memtable_held_bytes: u64,
    /// The memory of flushed memtables that is kept for the next ones, in bytes.
    pub memtable_idle_bytes: u64,
    /// The memory of folds, the values that readers folded from merge operands, in bytes.
    pub fold_bytes: u64,
    /// The number of frozen generations that wait for their flush.
    pub frozen_generations: u64,
    /// The number of tables by level.
    pub tables: [u64; LEVELS],
    /// The size of tables by level, in bytes. A table that families share counts in each. While a
    /// merge goes on, what it has done of its inputs does not count.
    pub table_bytes: [u64; LEVELS],
    /// The number of tables in the cold tier, which count in their levels, too.
    pub cold_tables: u64,
    /// The size of tables in the cold tier, in bytes. A table that families share counts in each.
    pub cold_bytes: u64,
    /// The number of blob files.
    pub blob_files: u64,
    /// Their size, in bytes.
    pub blob_bytes: u64,
    /// The part of it that no table refers to, in bytes. What is in memory alone counts as garbage.
    pub blob_garbage_bytes: u64,
    /// The size of tables in the hot tier, and of the separated values that tables of either tier
    /// refer to, in bytes, likewise.
    pub hot_bytes: u64,
    /// The number of entries in tables, tombstones and old versions included.
    pub table_entries: u64,
    /// The memory of the block cache, in bytes.
    pub cache_bytes: u64,
    /// The limit of that memory, in bytes.
    pub cache_bytes_max: u64,
    /// The number of blocks found in the cache.
    pub cache_hits: u64,
    /// The number of blocks read from files.
    pub cache_misses: u64,
    /// The memory of indexes and filters of open tables, in bytes.
    pub index_bytes: u64,
    /// How often a walk within one prefix asked the filter of a table about it.
    pub prefix_filter_checks: u64,
    /// How often the filter said that the table has no key of the prefix, so that it was not read.
    pub prefix_filter_skips: u64,
    /// The memory of the whole database by part.
    pub memory: MemoryStats,
    /// How often a reader noted in the log, since the database was opened, that something had
    /// expired. Each note takes a sequence number.
    pub expiry_notes: u64,
    /// The number of syncs of the log.
    pub log_syncs: u64,
    /// The number of flushes since the database was opened.
    pub flushes: u64,
    /// The size of the tables that they wrote, in bytes.
    pub flushed_bytes: u64,
    /// The number of compactions since the database was opened, trivial moves included.
    pub compactions: u64,
    /// The number of edits that installed the output of merges: one for each of their steps.
    pub compaction_steps: u64,
    /// The size of the tables that compactions wrote, in bytes.
    pub compacted_bytes: u64,
    /// The number of tables removed unread since the database was opened, because range deletes,
    /// expiry and deletions left no visible entry in them, or because they left a FIFO family.
    pub dropped_tables: u64,
    /// The number of compactions since the database was opened that only freed space.
    pub space_compactions: u64,
    /// The number of values that compaction filters dropped since the database was opened.
    pub filter_drops: u64,
    /// The number of values that they changed.
    pub filter_changes: u64,
    /// The number of their decisions that failed, so that the value stayed: after a panic, or with
    /// a value longer than values may be.
    pub filter_failures: u64,
    /// The number of tables that moved to another tier since the database was opened.
    pub moved_tables: u64,
    /// The size of these tables, in bytes.
    pub moved_bytes: u64,
    /// The time that writers were delayed because of debt, in milliseconds.
    pub delayed_ms: u64,
    /// How often writers had to wait for a flush or compaction.
    pub stalls: u64,
    /// The time of these waits, in milliseconds.
    pub stalled_ms: u64,
    /// The number of pauses of the background work that are in force.
    pub background_pauses: u64,
    /// The number of complete scrubs since the database was opened.
    pub scrubs: u64,
    /// The time at which the last scrub began, in ms since 1970; 0: there was none.
    pub scrub_started_ms: u64,
    /// The time that it took, in milliseconds.
    pub scrub_ms: u64,
    /// The bytes that it read.
    pub scrub_bytes: u64,
    /// The number of damaged places that it found.
    pub scrub_damage: u64,
}

impl Database {
    /// Statistics of the database. Cost: a look at each family and each table.
    #[must_use]
    pub fn stats(&self) -> Stats {
        // Relaxed: the counters need not be exact at one moment.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (counters, waits) = (&self.counters, &self.backpressure.waits);
        let cache = self.memory.cache.stats();
        let prefixes = self.catalog.files.prefixes.counts();
        let filtered = self.catalog.filters.counts();
        let mut stats = Stats {
            sequence: self.log.publisher.published().0,
            snapshots: self.snapshots.count() as u64,
            retention_floor: self.snapshots.floor().map(|floor| floor.0),
            prepared_transactions: self.prepared.count() as u64,
            prepared_bytes: self.prepared.bytes() as u64,
            memtable_held_bytes: self.memory.budget.used(Part::Memtables) as u64,
            memtable_idle_bytes: self.memory.arenas.idle_bytes() as u64,
            fold_bytes: self.memory.budget.used(Part::Folds) as u64,
            frozen_generations: lock(&self.log.frozen).len() as u64,
            cache_bytes: self.memory.budget.used(Part::Blocks) as u64,
            cache_bytes_max: cache.capacity as u64,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            index_bytes: self.memory.budget.used(Part::Tables) as u64,
            prefix_filter_checks: prefixes.asked,
            prefix_filter_skips: prefixes.skipped,
            memory: self.memory.stats(),
            log_syncs: self.log.wal.syncs(),
            flushes: count(&counters.flushes),
            flushed_bytes: count(&counters.flushed_bytes),
            compactions: count(&counters.compactions),
            compaction_steps: count(&counters.compaction_steps),
            compacted_bytes: count(&counters.compacted_bytes),
            dropped_tables: count(&counters.dropped_tables),
            space_compactions: count(&counters.space_compactions),
            filter_drops: filtered.dropped,
            filter_changes: filtered.changed,
            filter_failures: filtered.failed,
            moved_tables: count(&counters.moved_tables),
            moved_bytes: count(&counters.moved_bytes),
            expiry_notes: count(&counters.expiry_notes),
            delayed_ms: count(&waits.delayed_ns) / 1_000_000,
            stalls: count(&waits.stalls),
            stalled_ms: count(&waits.stalled_ns) / 1_000_000,
            background_pauses: lock(&self.background.jobs).pauses as u64,
            scrubs: self.scrubs.complete(),
            ..Stats::default()
        };
        if let Some(last) = self.scrubs.last() {
            stats.scrub_started_ms = last.started_ms;
            stats.scrub_ms = last.duration.as_millis() as u64;
            stats.scrub_bytes = last.bytes;
            stats.scrub_damage = last.found.errors.len() as u64;
        }
        self.add_blobs(&mut stats);
        let families = self.catalog.families.load();
        families.iter().for_each(|family| stats.add_family(&family.options(), &family.view()));
        stats
    }
}

impl Database {
    fn add_blobs(&self, stats: &mut Stats) {
        let set = self.blobs.set();
        if set.is_empty() {
            return;
        }
        let referenced = self.catalog.families.usage().blob_bytes();
        for file in set.iter() {
            let bytes = file.bytes();
            let live = referenced.get(&file.number()).copied().unwrap_or(0);
            stats.blob_files += 1;
            stats.blob_bytes += bytes;
            stats.blob_garbage_bytes += bytes.saturating_sub(live);
        }
    }
}

/// Statistics of one family: its entries and tables. Values of the whole database stay 0.
#[must_use]
pub fn family_stats(family: &FamilyData) -> Stats {
    let mut stats = Stats::default();
    let view = family.tree.view();
    stats.add_family(&family.tree.options(), &view);
    let memtables = view.memory.tables().iter();
    stats.memtable_held_bytes = memtables.map(|memory| memory.memtable.bytes() as u64).sum();
    stats
}

impl Stats {
    fn add_family(&mut self, options: &TreeOptions, view: &View) {
        self.families += 1;
        match options.compaction {
            CompactionStrategy::Tiered { .. } => self.tiered_families += 1,
            CompactionStrategy::Fifo { .. } => self.fifo_families += 1,
            _ => {}
        }
        for memory in view.memory.tables() {
            self.memtable_entries += memory.memtable.entries();
            self.memtable_bytes += memory.memtable.used_bytes() as u64;
        }
        for (level, table) in view.version.tables() {
            self.tables[level] += 1;
            self.table_bytes[level] += table.bytes();
            self.table_entries += table.entries();
            // Blob files lie in the hot tier.
            let values = table.meta().blobs.files().iter().map(|reference| reference.bytes);
            self.hot_bytes += values.sum::<u64>();
            match table.reference().tier {
                Tier::Hot => self.hot_bytes += table.file_bytes(),
                Tier::Cold => {
                    self.cold_tables += 1;
                    self.cold_bytes += table.file_bytes();
                }
            }
        }
    }

    /// Every number with its name, levels one by one, for tables and JSON. A retention floor is
    /// left out where there is none.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, u64)> {
        let mut entries: Vec<(String, u64)> = [
            ("sequence", self.sequence),
            ("families", self.families),
            ("tiered_families", self.tiered_families),
            ("fifo_families", self.fifo_families),
            ("snapshots", self.snapshots),
            ("prepared_transactions", self.prepared_transactions),
            ("prepared_bytes", self.prepared_bytes),
            ("memtable_entries", self.memtable_entries),
            ("memtable_bytes", self.memtable_bytes),
            ("memtable_held_bytes", self.memtable_held_bytes),
            ("memtable_idle_bytes", self.memtable_idle_bytes),
            ("fold_bytes", self.fold_bytes),
            ("frozen_generations", self.frozen_generations),
            ("table_entries", self.table_entries),
            ("hot_bytes", self.hot_bytes),
            ("cold_tables", self.cold_tables),
            ("cold_bytes", self.cold_bytes),
            ("blob_files", self.blob_files),
            ("blob_bytes", self.blob_bytes),
            ("blob_garbage_bytes", self.blob_garbage_bytes),
            ("cache_bytes", self.cache_bytes),
            ("cache_bytes_max", self.cache_bytes_max),
            ("cache_hits", self.cache_hits),
            ("cache_misses", self.cache_misses),
            ("index_bytes", self.index_bytes),
            ("prefix_filter_checks", self.prefix_filter_checks),
            ("prefix_filter_skips", self.prefix_filter_skips),
            ("memory_budget", self.memory.budget),
            ("memory_bytes", self.memory.total()),
            ("expiry_notes", self.expiry_notes),
            ("log_syncs", self.log_syncs),
            ("flushes", self.flushes),
            ("flushed_bytes", self.flushed_bytes),
            ("compactions", self.compactions),
            ("compaction_steps", self.compaction_steps),
            ("compacted_bytes", self.compacted_bytes),
            ("dropped_tables", self.dropped_tables),
            ("space_compactions", self.space_compactions),
            ("filter_drops", self.filter_drops),
            ("filter_changes", self.filter_changes),
            ("filter_failures", self.filter_failures),
            ("moved_tables", self.moved_tables),
            ("moved_bytes", self.moved_bytes),
            ("delayed_ms", self.delayed_ms),
            ("stalls", self.stalls),
            ("stalled_ms", self.stalled_ms),
            ("background_pauses", self.background_pauses),
            ("scrubs", self.scrubs),
            ("scrub_started_ms", self.scrub_started_ms),
            ("scrub_ms", self.scrub_ms),
            ("scrub_bytes", self.scrub_bytes),
            ("scrub_damage", self.scrub_damage),
        ]
        .map(|(name, number)| (name.to_owned(), number))
        .into();
        let memory = self.memory.parts();
        entries.extend(memory.map(|(part, bytes)| (format!("memory_{part}"), bytes)));
        entries.extend(self.retention_floor.map(|floor| ("retention_floor".to_owned(), floor)));
        for level in 0..LEVELS {
            entries.push((format!("level{level}_tables"), self.tables[level]));
            entries.push((format!("level{level}_bytes"), self.table_bytes[level]));
        }
        entries
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries().iter().try_for_each(|(name, number)| writeln!(f, "{name:24} {number:>16}"))
    }
}
