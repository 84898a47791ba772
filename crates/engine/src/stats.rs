//! What a database holds and does, pulled together when somebody asks.
//!
//! Nothing here is on any hot path: counters lie where they are counted.

use crate::{catalog::family::FamilyData, database::Database};
use siltdb_base::{budget::Part, limits::LEVELS, sync::lock};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// A picture of a database.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The last published sequence number: operations since the database was created.
    pub sequence: u64,
    /// Families.
    pub families: u64,
    /// Live snapshots.
    pub snapshots: u64,
    /// Entries in memtables, tombstones and old versions included.
    pub memtable_entries: u64,
    /// Bytes that the contents of memtables take.
    pub memtable_bytes: u64,
    /// Bytes of memory held for them, with what is still free in their newest chunks.
    pub memtable_held_bytes: u64,
    /// Bytes of memory that flushed memtables left for the next.
    pub memtable_idle_bytes: u64,
    /// Bytes held by values that readers folded of merge operands.
    pub fold_bytes: u64,
    /// Frozen generations that wait for their flush.
    pub frozen_generations: u64,
    /// Tables by level.
    pub tables: [u64; LEVELS],
    /// Bytes of tables by level.
    pub table_bytes: [u64; LEVELS],
    /// Entries in tables, tombstones and old versions included.
    pub table_entries: u64,
    /// Bytes held by the block cache.
    pub cache_bytes: u64,
    /// Bytes that it may hold.
    pub cache_bytes_max: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks read from files.
    pub cache_misses: u64,
    /// Bytes held by indexes and filters of open tables.
    pub index_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Flushes since the database was opened.
    pub flushes: u64,
    /// Bytes of tables written by them.
    pub flushed_bytes: u64,
    /// Compactions since the database was opened, moves by reference included.
    pub compactions: u64,
    /// Bytes of tables written by them.
    pub compacted_bytes: u64,
    /// Tables removed unread since the database was opened, because range deletes, expiry and
    /// deletions left nothing of them to be seen.
    pub dropped_tables: u64,
    /// Compactions since the database was opened for the sake of space alone.
    pub space_compactions: u64,
    /// Milliseconds for which writers were slowed down.
    pub delayed_ms: u64,
    /// Times that writers had to wait for a flush or compaction.
    pub stalls: u64,
    /// Milliseconds they waited.
    pub stalled_ms: u64,
}

impl Database {
    /// What the database holds and does.
    #[must_use]
    pub fn stats(&self) -> Stats {
        // Relaxed: counters are a picture, not a proof.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (counters, waits) = (&self.counters, &self.backpressure.waits);
        let cache = self.memory.cache.stats();
        let mut stats = Stats {
            sequence: self.log.publisher.published().0,
            snapshots: self.snapshots.count() as u64,
            memtable_held_bytes: self.memory.budget.used(Part::Memtables) as u64,
            memtable_idle_bytes: self.memory.arenas.idle_bytes() as u64,
            fold_bytes: self.memory.budget.used(Part::Folds) as u64,
            frozen_generations: lock(&self.log.frozen).len() as u64,
            cache_bytes: self.memory.budget.used(Part::Blocks) as u64,
            cache_bytes_max: cache.capacity as u64,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            index_bytes: self.memory.budget.used(Part::Tables) as u64,
            log_syncs: self.log.wal.syncs(),
            flushes: count(&counters.flushes),
            flushed_bytes: count(&counters.flushed_bytes),
            compactions: count(&counters.compactions),
            compacted_bytes: count(&counters.compacted_bytes),
            dropped_tables: count(&counters.dropped_tables),
            space_compactions: count(&counters.space_compactions),
            delayed_ms: count(&waits.delayed_ns) / 1_000_000,
            stalls: count(&waits.stalls),
            stalled_ms: count(&waits.stalled_ns) / 1_000_000,
            ..Stats::default()
        };
        for family in self.catalog.families.load().iter() {
            stats.add_family(family);
        }
        stats
    }
}

/// Looks at one family: its entries and tables; what the database has as a whole stays 0.
#[must_use]
pub fn family_stats(family: &FamilyData) -> Stats {
    let mut stats = Stats::default();
    stats.add_family(family);
    let view = family.tree.view();
    let memtables = view.memory.tables().iter();
    stats.memtable_held_bytes = memtables.map(|memory| memory.memtable.bytes() as u64).sum();
    stats
}

impl Stats {
    fn add_family(&mut self, family: &FamilyData) {
        self.families += 1;
        let view = family.tree.view();
        for memory in view.memory.tables() {
            self.memtable_entries += memory.memtable.entries();
            self.memtable_bytes += memory.memtable.used_bytes() as u64;
        }
        for (level, table) in view.version.tables() {
            self.tables[level] += 1;
            self.table_bytes[level] += table.bytes();
            self.table_entries += table.meta().entries;
        }
    }

    /// Every number with its name, those of levels one by one, for tables and JSON.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, u64)> {
        let mut entries: Vec<(String, u64)> = [
            ("sequence", self.sequence),
            ("families", self.families),
            ("snapshots", self.snapshots),
            ("memtable_entries", self.memtable_entries),
            ("memtable_bytes", self.memtable_bytes),
            ("memtable_held_bytes", self.memtable_held_bytes),
            ("memtable_idle_bytes", self.memtable_idle_bytes),
            ("fold_bytes", self.fold_bytes),
            ("frozen_generations", self.frozen_generations),
            ("table_entries", self.table_entries),
            ("cache_bytes", self.cache_bytes),
            ("cache_bytes_max", self.cache_bytes_max),
            ("cache_hits", self.cache_hits),
            ("cache_misses", self.cache_misses),
            ("index_bytes", self.index_bytes),
            ("log_syncs", self.log_syncs),
            ("flushes", self.flushes),
            ("flushed_bytes", self.flushed_bytes),
            ("compactions", self.compactions),
            ("compacted_bytes", self.compacted_bytes),
            ("dropped_tables", self.dropped_tables),
            ("space_compactions", self.space_compactions),
            ("delayed_ms", self.delayed_ms),
            ("stalls", self.stalls),
            ("stalled_ms", self.stalled_ms),
        ]
        .map(|(name, number)| (name.to_owned(), number))
        .into();
        for level in 0..LEVELS {
            entries.push((format!("level{level}_tables"), self.tables[level]));
            entries.push((format!("level{level}_bytes"), self.table_bytes[level]));
        }
        entries
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries().iter().try_for_each(|(name, number)| writeln!(f, "{name:20} {number:>16}"))
    }
}
