//! TidesDB 10 through its Rust binding; its column families are families.
//!
//! All its tables are B+trees, so both forms of tables use them. Without sync a commit is
//! acknowledged once it is in a ring in the memory of the process, which a separate thread writes
//! out. So a commit need not survive a killed process. The binding copies each key and value that
//! it shows.

use crate::reader::{Reader, retried};
use siltdb_bench::{
    engine::{
        Arm, Batch, Class, Codec, Config, Direction, Durability, Engine, Facts, Failure, Result,
        Session, Write,
    },
    measure::wait_until_quiet,
};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tidesdb::{
    ColumnFamily, ColumnFamilyConfig, CompressionAlgorithm, IsolationLevel, LogLevel, SyncMode,
    TIDESDB_LINKED_VERSION, TidesDB, Transaction,
};

/// Each bit for a key multiplies a Bloom filter's rate of false positives by this, at best.
const FALSE_POSITIVES_PER_BIT: f64 = 0.6185;
/// Most passes of compaction in a row, because there are no more levels.
const PASSES_MAX: u32 = 8;
/// It plans compactions again each second.
const PLANNED_AFTER: Duration = Duration::from_secs(2);

/// An open database and the names of its column families.
pub struct Tidesdb {
    db: TidesDB,
    families: Vec<String>,
}

/// A thread's access to a [`Tidesdb`].
pub struct TidesdbSession<'a> {
    families: Vec<ColumnFamily<'a>>,
    /// The family in use.
    family: usize,
    reader: Reader<'a>,
    /// Begun again after each commit.
    writer: Transaction<'a>,
}

fn family_options(config: &Config) -> ColumnFamilyConfig {
    let options = ColumnFamilyConfig::new().compression_algorithm(compression(config.codec));
    let options = match config.level0_runs {
        Some(runs) => options.l1_file_count_trigger(runs as i32),
        None => options,
    };
    match (config.arm, config.bloom_bits_per_key) {
        (Arm::Defaults, _) => options,
        (Arm::Equal, 0) => options.enable_bloom_filter(false),
        (Arm::Equal, bits) => {
            options.enable_bloom_filter(true).bloom_fpr(FALSE_POSITIVES_PER_BIT.powf(bits.into()))
        }
    }
}

fn compression(codec: Codec) -> CompressionAlgorithm {
    match codec {
        Codec::None => CompressionAlgorithm::None,
        Codec::Lz4 => CompressionAlgorithm::Lz4,
    }
}

fn options(dir: &Path, config: &Config) -> tidesdb::Config {
    let sync = match config.durability {
        Durability::Buffered => SyncMode::None,
        Durability::Synced => SyncMode::Full,
    };
    // Its log goes to standard error, errors only.
    let options =
        tidesdb::Config::new(dir.join("data")).memtable_sync_mode(sync).log_level(LogLevel::Error);
    match config.arm {
        Arm::Defaults => options,
        Arm::Equal => options
            .memtable_write_buffer_size(config.write_buffer_bytes as usize)
            .block_cache_size(config.cache_bytes as usize),
    }
}

impl Tidesdb {
    fn families(&self) -> tidesdb::Result<Vec<ColumnFamily<'_>>> {
        self.families.iter().map(|name| self.db.get_column_family(name)).collect()
    }

    /// Returns once no flush and no compaction is queued, runs or is due, with the time from which
    /// that holds. TidesDB plans when a flush ends and each second. A compaction that is due that
    /// long and has not begun will not begin.
    fn wait_until_idle(&self) -> Result<Instant> {
        let families = self.families()?;
        let mut idle_since = None;
        let quiet_since = wait_until_quiet(|| {
            if !self.is_quiet(&families)? {
                idle_since = None;
                return Ok(false);
            }
            let idle_since = *idle_since.get_or_insert_with(Instant::now);
            Ok(idle_since.elapsed() > PLANNED_AFTER || !is_due(&families)?)
        })?;
        Ok(idle_since.unwrap_or(quiet_since))
    }

    fn is_quiet(&self, families: &[ColumnFamily<'_>]) -> Result<bool> {
        let stats = self.db.get_db_stats()?;
        let is_flushing = stats.is_flushing || stats.immutable_memtable_count > 0;
        let is_compacting =
            stats.compaction_pending_count > 0 || families.iter().any(ColumnFamily::is_compacting);
        Ok(!is_flushing && !is_compacting)
    }
}

/// Whether a family has enough tables on its first level for a compaction.
fn is_due(families: &[ColumnFamily<'_>]) -> Result<bool> {
    for family in families {
        let stats = family.get_stats()?;
        let tables = stats.level_num_sstables.first().copied().unwrap_or(0);
        if tables >= stats.config.l1_file_count_trigger {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Engine for Tidesdb {
    type Session<'a> = TidesdbSession<'a>;

    const ID: &'static str = "tidesdb";

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => {
                (Class::Memory, "SyncMode::None: a commit is in a user-space ring")
            }
            Durability::Synced => (Class::Power, "SyncMode::Full: each commit is synced"),
        };
        let options = format!(
            "{}, {:?}; its default of 2 threads each to flush and compact; tables are B+trees; \
             {why}",
            config.knobs(),
            config.codec
        );
        let version = format!("{TIDESDB_LINKED_VERSION} (crate tidesdb 1.0)");
        Facts { version, class, options }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        if !compression(config.codec).is_available() {
            return Err(Failure::unsupported("built without LZ4"));
        }
        let db = TidesDB::open(options(dir, config))?;
        let families: Vec<String> = (0..config.families).map(|i| format!("family-{i}")).collect();
        let there = db.list_column_families()?;
        for name in families.iter().filter(|name| !there.contains(name)) {
            db.create_column_family(name, family_options(config))?;
        }
        Ok(Self { db, families })
    }

    fn session(&self) -> Result<TidesdbSession<'_>> {
        Ok(TidesdbSession {
            families: self.families()?,
            family: 0,
            reader: Reader::new(&self.db)?,
            writer: self.db.begin_transaction()?,
        })
    }

    fn flush(&self) -> Result<()> {
        Ok(retried(|| self.db.flush_memtable())?)
    }

    fn settle(&self) -> Result<Instant> {
        self.flush()?;
        self.wait_until_idle()
    }

    /// A pass merges what the planner chooses next. Passes go on until a read looks into one table
    /// of each family, or until a pass has changed nothing.
    fn compact(&mut self) -> Result<()> {
        self.settle()?;
        for family in self.families()? {
            for _ in 0..PASSES_MAX {
                let before = family.get_stats()?.compaction_count;
                retried(|| family.compact())?;
                let after = family.get_stats()?;
                if after.read_amp <= 1.0 || after.compaction_count == before {
                    break;
                }
            }
        }
        self.wait_until_idle().map(drop)
    }

    fn close(self) -> Result<()> {
        // Closing writes out the rest, but returns no error; this call does.
        Ok(self.db.sync_wal()?)
    }
}

impl<'a> TidesdbSession<'a> {
    fn commit(
        &mut self,
        change: impl FnOnce(&Transaction<'a>, &ColumnFamily<'a>) -> Result<()>,
    ) -> Result<()> {
        change(&self.writer, &self.families[self.family])?;
        retried(|| self.writer.commit())?;
        Ok(self.writer.reset(IsolationLevel::ReadCommitted)?)
    }
}

impl Session for TidesdbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.commit(|writer, family| Ok(writer.put(family, key, value)?))
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.commit(|writer, family| Ok(writer.delete(family, key)?))
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        self.commit(|writer, family| {
            batch.for_each(|write| match write {
                Write::Put { key, value } => Ok(writer.put(family, key, value)?),
                Write::Delete { key } => Ok(writer.delete(family, key)?),
            })
        })
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.reader.get(&self.families[self.family], key)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let cursor = self.reader.cursor(&self.families[self.family])?;
        retried(|| cursor.seek(key))?;
        if !cursor.is_valid() {
            return Ok(false);
        }
        let (key, value) = retried(|| cursor.key_value())?;
        seen(&key, &value);
        Ok(true)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let cursor = self.reader.cursor(&self.families[self.family])?;
        retried(|| match (from, direction) {
            (None, Direction::Forward) => cursor.seek_to_first(),
            (None, Direction::Reverse) => cursor.seek_to_last(),
            (Some(key), Direction::Forward) => cursor.seek(key),
            (Some(key), Direction::Reverse) => cursor.seek_for_prev(key),
        })?;
        let mut count = 0;
        while count < limit && cursor.is_valid() {
            let (key, value) = retried(|| cursor.key_value())?;
            seen(&key, &value);
            count += 1;
            retried(|| match direction {
                Direction::Forward => cursor.next(),
                Direction::Reverse => cursor.prev(),
            })?;
        }
        Ok(count)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.commit(|writer, family| Ok(writer.delete_range(family, from, Some(to))?))
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let family = index as usize;
        if family >= self.families.len() {
            return Err(Failure::error("a family that was not opened"));
        }
        self.family = family;
        self.reader.forget_cursor();
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        self.reader.forget_cursor();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
