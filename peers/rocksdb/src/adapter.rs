//! RocksDB through its C API; its column families are families.
//!
//! Options follow its tuning guide: compactions divided among background threads, dynamic level
//! sizes, pipelined writes. Index and filter blocks lie outside the block cache, as they do by
//! default. The log is written to the kernel with each commit; a synced commit waits for
//! `fdatasync`.

use crate::walk;
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamily, CompactOptions, DB,
    DBCompressionType, DBRawIterator, IngestExternalFileOptions, Options, ReadOptions,
    SstFileWriter, WaitForCompactOptions, WriteBatch, WriteOptions, properties,
};
use siltdb_bench::engine::{
    Arm, Batch, Class, Codec, Config, Direction, Durability, Engine, Facts, Failure, Result,
    Session, TableKind, Values, Write,
};
use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

/// Memtables of a family that may be full before writers wait for a flush.
const MEMTABLES_MAX: i32 = 4;
/// The shortest value that the variant with blob files separates, in bytes: as at siltdb.
const SEPARATED_FROM: u64 = 1 << 10;
/// Least number of background threads, so that a compaction does not hold up a flush.
const JOBS_MIN: i32 = 2;
/// Tables are handed to the device in pieces of this size, so that no sync writes a whole table.
const TABLE_SYNC_BYTES: u64 = 1 << 20;
/// The build of the linked library.
const BUILD: &str =
    if cfg!(feature = "source") { "built from source" } else { "portable prebuilt build" };

/// Bytes of the cache: what write buffers leave of the memory, if that is bounded.
pub fn cache_bytes(config: &Config) -> usize {
    let buffers = config.write_buffer_bytes * MEMTABLES_MAX as u64;
    let of_memory = |memory: u64| memory.saturating_sub(buffers);
    config.memory_bytes.map_or(config.cache_bytes, of_memory) as usize
}

/// An open database and the names of its column families.
pub struct Rocksdb {
    db: DB,
    families: Vec<String>,
    durability: Durability,
    /// The options of files for bulk loads: those of the first family.
    outside: Options,
    /// The number of such files so far.
    files: AtomicU64,
}

/// A thread's access to a [`Rocksdb`].
pub struct RocksdbSession<'a> {
    engine: &'a Rocksdb,
    db: &'a DB,
    families: Vec<&'a ColumnFamily>,
    family: &'a ColumnFamily,
    reading: ReadOptions,
    writing: WriteOptions,
    /// The iterator of seeks and scans; it sees the state at its creation.
    cursor: Option<DBRawIterator<'a>>,
    /// Bytes of the last batch, as an estimate for the next one.
    batch_bytes: usize,
}

/// Family 0 is the default one.
fn family_name(index: u32) -> String {
    match index {
        0 => "default".to_owned(),
        index => format!("family-{index}"),
    }
}

fn jobs() -> i32 {
    let cores = thread::available_parallelism().map_or(JOBS_MIN, |cores| cores.get() as i32);
    cores.max(JOBS_MIN)
}

fn family_options(config: &Config, cache: &Cache) -> Options {
    let mut options = Options::default();
    options.set_compression_type(match config.codec {
        Codec::None => DBCompressionType::None,
        Codec::Lz4 => DBCompressionType::Lz4,
    });
    if config.values == Values::Separated {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(SEPARATED_FROM);
        options.set_enable_blob_gc(true);
        if config.codec == Codec::Lz4 {
            options.set_blob_compression_type(DBCompressionType::Lz4);
        }
    }
    if let Some(runs) = config.level0_runs {
        options.set_level_zero_file_num_compaction_trigger(runs as i32);
    }
    if config.arm == Arm::Equal {
        options.set_write_buffer_size(config.write_buffer_bytes as usize);
        options.set_max_write_buffer_number(MEMTABLES_MAX);
        options.set_level_compaction_dynamic_level_bytes(true);
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(cache);
        // Where memory is bounded, what lies outside of the cache would not be.
        let is_bounded = config.memory_bytes.is_some();
        table.set_cache_index_and_filter_blocks(is_bounded);
        table.set_pin_l0_filter_and_index_blocks_in_cache(is_bounded);
        table.set_bloom_filter(f64::from(config.bloom_bits_per_key), false);
        options.set_block_based_table_factory(&table);
    }
    options
}

/// Adds the options of the whole database to those of the first family.
pub fn database_options(config: &Config, cache: &Cache) -> Options {
    let mut options = family_options(config, cache);
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    if config.arm == Arm::Equal {
        options.increase_parallelism(jobs());
        options.set_max_background_jobs(jobs());
        options.set_max_subcompactions(jobs() as u32);
        options.set_enable_pipelined_write(true);
        options.set_bytes_per_sync(TABLE_SYNC_BYTES);
    }
    options
}

impl Rocksdb {
    /// A manual compaction returns no error, so the count of background errors is checked.
    fn is_sound(&self) -> Result<()> {
        match self.db.property_int_value(properties::BACKGROUND_ERRORS)? {
            None | Some(0) => Ok(()),
            Some(count) => Err(Failure::error(format!("background work failed. errors={count}"))),
        }
    }

    fn family(&self, name: &str) -> Result<&ColumnFamily> {
        let family = self.db.cf_handle(name);
        family.ok_or_else(|| Failure::error(format!("no such column family. name={name}")))
    }
}

impl Engine for Rocksdb {
    type Session<'a> = RocksdbSession<'a>;

    const ID: &'static str = "rocksdb";

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => (Class::Process, "each commit is written to the log's file"),
            Durability::Synced => (Class::Power, "WriteOptions::sync: the log is synced"),
        };
        let knobs = match config.arm {
            Arm::Defaults => "its own defaults".to_owned(),
            Arm::Equal => format!(
                "memtable {} MiB x {MEMTABLES_MAX}, LRU cache {} MiB, index and filter blocks \
                 {place} it, full filter {} bits a key, {jobs} background jobs, {jobs} \
                 subcompactions, dynamic levels, pipelined writes",
                config.write_buffer_bytes >> 20,
                cache_bytes(config) >> 20,
                config.bloom_bits_per_key,
                place = if config.memory_bytes.is_some() { "inside" } else { "outside" },
                jobs = jobs(),
            ),
        };
        let options = format!("{BUILD}; {knobs}, {:?}; {why}", config.codec);
        Facts { version: "10.4.2 (crate rocksdb 0.24.0)".to_owned(), class, options }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        if config.table == TableKind::Btree {
            return Err(Failure::unsupported("no B+tree tables"));
        }
        let cache = Cache::new_lru_cache(cache_bytes(config));
        let families: Vec<String> = (0..config.families).map(family_name).collect();
        let described = families.iter().map(|name| (name, family_options(config, &cache)));
        let options = database_options(config, &cache);
        let db = DB::open_cf_with_opts(&options, dir.join("data"), described)?;
        let (outside, files) = (family_options(config, &cache), AtomicU64::new(0));
        Ok(Self { db, families, durability: config.durability, outside, files })
    }

    fn session(&self) -> Result<RocksdbSession<'_>> {
        let families = self.families.iter().map(|name| self.family(name));
        let families = families.collect::<Result<Vec<_>>>()?;
        let mut writing = WriteOptions::default();
        writing.set_sync(self.durability == Durability::Synced);
        Ok(RocksdbSession {
            engine: self,
            db: &self.db,
            family: families[0],
            families,
            reading: ReadOptions::default(),
            writing,
            cursor: None,
            batch_bytes: 0,
        })
    }

    fn flush(&self) -> Result<()> {
        for name in &self.families {
            self.db.flush_cf(self.family(name)?)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options)?;
        let since = Instant::now();
        self.is_sound().map(|()| since)
    }

    fn compact(&mut self) -> Result<()> {
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        for name in &self.families {
            let family = self.family(name)?;
            self.db.compact_range_cf_opt(family, None::<&[u8]>, None::<&[u8]>, &options);
        }
        self.settle().map(drop)
    }

    fn close(self) -> Result<()> {
        Ok(self.db.flush_wal(true)?)
    }
}

impl<'a> RocksdbSession<'a> {
    fn cursor(&mut self) -> &mut DBRawIterator<'a> {
        let (db, family) = (self.db, self.family);
        self.cursor.get_or_insert_with(|| db.raw_iterator_cf_opt(family, ReadOptions::default()))
    }
}

impl Session for RocksdbSession<'_> {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put_cf_opt(self.family, key, value, &self.writing)?)
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete_cf_opt(self.family, key, &self.writing)?)
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let mut writes = WriteBatch::with_capacity_bytes(self.batch_bytes);
        batch.for_each(|write| {
            match write {
                Write::Put { key, value } => writes.put_cf(self.family, key, value),
                Write::Delete { key } => writes.delete_cf(self.family, key),
            }
            Ok(())
        })?;
        self.batch_bytes = writes.size_in_bytes();
        Ok(self.db.write_opt(writes, &self.writing)?)
    }

    #[inline]
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.db.get_pinned_cf_opt(self.family, key, &self.reading)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    #[inline]
    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        walk::seek(self.cursor(), key, seen)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        walk::scan(self.cursor(), (from, direction), limit, seen)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(self.db.delete_range_cf_opt(self.family, from, to, &self.writing)?)
    }

    fn ingest(&mut self, batch: &mut Batch) -> Result<()> {
        // Relaxed: only the number counts.
        let number = self.engine.files.fetch_add(1, Ordering::Relaxed);
        let path = self.db.path().with_file_name(format!("outside-{number}.sst"));
        let mut file = SstFileWriter::create(&self.engine.outside);
        file.open(&path)?;
        batch.for_each(|write| match write {
            Write::Put { key, value } => Ok(file.put(key, value)?),
            Write::Delete { key } => Ok(file.delete(key)?),
        })?;
        file.finish()?;
        let mut options = IngestExternalFileOptions::default();
        // Linked, not copied.
        options.set_move_files(true);
        Ok(self.db.ingest_external_file_cf_opts(self.family, &options, vec![path])?)
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let family = self.families.get(index as usize);
        self.family = family.ok_or_else(|| Failure::error("a family that was not opened"))?;
        self.cursor = None;
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.cursor = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
