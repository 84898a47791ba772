//! Options by name, as text: for command lines, configuration files and bindings.
//!
//! An option has the name of its method. Options that are code (merge operators, compaction
//! filters, file system, clock) have no name.

use crate::key_order::KeyOrder;
use crate::options::{
    CompactionStrategy, Compression, Create, Durability, FamilyOptions, LogIo, Options,
    PrefixExtractor, ReadIo, RecoveryMode, TableKind,
};
use siltdb_base::error::{Error, Result};
use siltdb_base::fs::{Fs, os::with_file_mode};
use siltdb_engine::options::{Access, is_file_mode};
use siltdb_tree::options::BYTEWISE;
use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

/// Prefix of the names of the default family's options.
const DEFAULT_FAMILY: &str = "default_family.";

/// An option that is set and read as text.
struct Named<T> {
    name: &'static str,
    /// The permitted values, for the message about a bad one.
    values: &'static str,
    /// Sets the option; `None` if the text is not a permitted value.
    set: fn(&mut T, &str) -> Option<()>,
    get: fn(&T) -> String,
}

const BYTES: &str = "a number of bytes, as 4096, 64KiB, 32MiB or 1GiB";
const NUMBER: &str = "a number";
const COMPRESSIONS: &str = "none, lz4, snappy, zstd or zstd:LEVEL";
const STRATEGIES: &str =
    "leveled, tiered, tiered:RUNS:PERCENT, fifo:BYTES or fifo:BYTES:AGE, as fifo:4GiB:3600s";

/// What stands for a list by level that is empty.
const UNIFORM: &str = "uniform";

/// Makes the table of options. A row has the name, the permitted values, the field, and the
/// functions that parse and format it.
macro_rules! options {
    ($($name:literal, $values:expr, $($field:ident).+, $read:expr, $show:expr;)*) => {
        &[$(Named {
            name: $name,
            values: $values,
            set: |options, text| assign(&mut options.$($field).+, $read(text)),
            get: |options| $show(&options.$($field).+),
        }),*]
    };
}

const OPTIONS: &[Named<Options>] = options! {
    "create", "if_missing, never or new", engine.create, word(CREATES), word_of(CREATES);
    "read_only", "true or false", engine.access, word(ACCESSES), word_of(ACCESSES);
    "lock_wait", "a time, as 200ms or 5s", engine.lock_wait, time, time_text;
    "lock_timeout", "a time, as 200ms or 5s", engine.lock_timeout, time, time_text;
    "file_mode", "permissions in octal digits, 0600 to 0666, as 0600 or 0640",
        engine.fs, file_mode, file_mode_text;
    "durability", "volatile, buffered, interval:MS or synced",
        engine.durability, durability, durability_text;
    "memory_budget", BYTES, engine.memory_budget, bytes, usize::to_string;
    "cache_bytes", "a number of bytes, as 64MiB, or auto",
        engine.cache_bytes, or_auto(bytes), auto_or;
    "memtable_bytes", BYTES, engine.memtable_bytes, bytes, usize::to_string;
    "log_io", "auto, map or write", engine.log_io, word(LOG_IOS), word_of(LOG_IOS);
    "read_io", "read or map", engine.read_io, word(READ_IOS), word_of(READ_IOS);
    "retain_log_bytes", BYTES, engine.retain_log_bytes, bytes, u64::to_string;
    "retain_log_for", "a time, as 200ms or 5s", engine.retain_log_for, time, time_text;
    "feed_bytes_max", BYTES, engine.feed_bytes_max, bytes, u64::to_string;
    "scrub_interval", "a time, as 200ms or 5s", engine.scrub_interval, time, time_text;
    "scrub_bytes_per_second", BYTES, engine.scrub_bytes_per_second, bytes, u64::to_string;
    "cold_directory", "a path, or none", engine.cold_directory, path, path_text;
    "tier_rate", BYTES, engine.tier_rate, bytes, u64::to_string;
    "background_rate", BYTES, engine.background_rate, bytes, u64::to_string;
    "workers", NUMBER, engine.workers, number, usize::to_string;
    "recovery", "strict or point_in_time", engine.recovery, word(RECOVERIES), word_of(RECOVERIES);
    "seed", "a number, or auto", engine.seed, or_auto(number), auto_or;
};

const FAMILY_OPTIONS: &[Named<FamilyOptions>] = options! {
    "compression", COMPRESSIONS, tree.table.compression, compression, Compression::to_string;
    "table_kind", "block or btree", tree.table.kind, word(TABLE_KINDS), word_of(TABLE_KINDS);
    "block_bytes", BYTES, tree.table.block_bytes, bytes, usize::to_string;
    "filter_bits_per_key", NUMBER, tree.table.filter_bits_per_key, number, u32::to_string;
    "prefix_extractor", "fixed:BYTES, separator:BYTE, separator:BYTE:COUNT or none",
        tree.table.prefix_extractor, extractor, extractor_text;
    "whole_key_filter", "true or false",
        tree.table.whole_key_filter, number, bool::to_string;
    "table_bytes", BYTES, tree.table_bytes_target, bytes, u64::to_string;
    "base_level_bytes", BYTES, tree.base_level_bytes, bytes, u64::to_string;
    "level_size_ratio", NUMBER, tree.level_size_ratio, number, u32::to_string;
    "level0_runs", NUMBER, tree.level0_runs_trigger, number, u32::to_string;
    "compaction", STRATEGIES, tree.compaction, strategy, strategy_text;
    "tombstone_percent", NUMBER, tree.tombstone_percent_trigger, number, u32::to_string;
    "range_tombstone_percent", NUMBER,
        tree.range_tombstone_percent_trigger, number, u32::to_string;
    "garbage_percent", NUMBER, tree.garbage_percent_trigger, number, u32::to_string;
    "cold_from_level", NUMBER, tree.cold_from_level, number, u32::to_string;
    "value_threshold", BYTES, tree.value_threshold, bytes, u64::to_string;
    "blob_file_bytes", BYTES, tree.blob_file_bytes, bytes, u64::to_string;
    "blob_garbage_percent", NUMBER, tree.blob_garbage_percent_trigger, number, u32::to_string;
    "ttl", "a time, as 200ms, 5s, 30m or 7d; 0s for none", tree.ttl_ms, ttl, ttl_text;
    "key_order", "bytewise or the name of an order, as u64",
        tree.key_order, key_order, key_order_text;
    "compression_per_level", "uniform, or compressions as none,lz4,zstd:9",
        tree.compression_per_level, list(compression), list_text;
    "dictionary_bytes", BYTES, tree.table.dictionary_bytes, bytes, u32::to_string;
    "filter_bits_per_level", "uniform, or numbers as 14,12,6",
        tree.filter_bits_per_level, list(number), list_text;
};

const CREATES: &[(&str, Create)] =
    &[("if_missing", Create::IfMissing), ("never", Create::Never), ("new", Create::New)];
const ACCESSES: &[(&str, Access)] = &[("true", Access::ReadOnly), ("false", Access::ReadWrite)];
const LOG_IOS: &[(&str, LogIo)] =
    &[("auto", LogIo::Auto), ("map", LogIo::Map), ("write", LogIo::Write)];
const READ_IOS: &[(&str, ReadIo)] = &[("read", ReadIo::Read), ("map", ReadIo::Map)];
const RECOVERIES: &[(&str, RecoveryMode)] =
    &[("strict", RecoveryMode::Strict), ("point_in_time", RecoveryMode::PointInTime)];
const TABLE_KINDS: &[(&str, TableKind)] =
    &[("block", TableKind::Block), ("btree", TableKind::BTree)];

impl Options {
    /// Sets an option by its name from a text, for a command line or a configuration file. Names
    /// are those of the methods. An option of the default family is called `default_family.NAME`.
    /// After an error the options are unchanged.
    ///
    /// Bytes are a number, with or without `KiB`, `MiB` or `GiB`. Times have `ms` or `s`. Variants
    /// are in lower case (`point_in_time`, `interval:100`). The opening checks options that [depend
    /// on each other](Options::memory_budget).
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::Options;
    ///
    /// let mut options = Options::new();
    /// options.set("memory_budget", "256MiB")?;
    /// options.set("default_family.block_bytes", "16KiB")?;
    /// assert_eq!(options.get("memory_budget")?, "268435456");
    /// let error = options.set("memory", "1GiB").unwrap_err();
    /// assert!(error.hint().is_some_and(|hint| hint.contains("memory_budget")));
    /// let db = options.open(dir.path().join("data"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`. For an unknown name the message lists the names; for a bad value, the
    /// permitted ones.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name.strip_prefix(DEFAULT_FAMILY) {
            Some(name) => self.default_family_options(|family| family.set(name, value)),
            None => set(self, OPTIONS, name, value).map_err(with_family_names),
        }
    }

    /// Returns the value of an option as a text that [`Options::set`] accepts.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name; the message lists the names.
    pub fn get(&self, name: &str) -> Result<String> {
        let family = FamilyOptions { tree: self.engine.tree.clone() };
        match name.strip_prefix(DEFAULT_FAMILY) {
            Some(name) => family.get(name),
            None => {
                let named = find(OPTIONS, name).map_err(with_family_names)?;
                Ok((named.get)(self))
            }
        }
    }

    /// Returns the names and values of all options that have a name. Those of the default family
    /// come last.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, String)> {
        let family = FamilyOptions { tree: self.engine.tree.clone() }.entries().into_iter();
        let family = family.map(|(name, value)| (format!("{DEFAULT_FAMILY}{name}"), value));
        entries(self, OPTIONS).map(|(name, value)| (name.to_owned(), value)).chain(family).collect()
    }

    /// Changes the options of the default family, if `change` succeeds.
    fn default_family_options(
        &mut self,
        change: impl FnOnce(&mut FamilyOptions) -> Result<()>,
    ) -> Result<()> {
        let mut family = FamilyOptions { tree: self.engine.tree.clone() };
        change(&mut family)?;
        self.engine.tree = family.tree;
        Ok(())
    }
}

impl FamilyOptions {
    /// Sets an option by its name from a text, as [`Options::set`] does. After an error the options
    /// are unchanged.
    ///
    /// ```
    /// use siltdb::{ErrorKind, FamilyOptions};
    ///
    /// let mut options = FamilyOptions::new();
    /// options.set("compression", "none")?;
    /// options.set("table_bytes", "64MiB")?;
    /// assert_eq!(options.get("table_bytes")?, (64 << 20).to_string());
    /// let refused = options.set("level_size_ratio", "1").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    /// assert_eq!(options.get("level_size_ratio")?, "10");
    /// # Ok::<(), siltdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`. For an unknown name the message lists the names; for a bad value, the
    /// permitted ones.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let mut changed = self.clone();
        set(&mut changed, FAMILY_OPTIONS, name, value)?;
        changed.tree.check()?;
        *self = changed;
        Ok(())
    }

    /// Returns the value of an option as a text that [`FamilyOptions::set`] accepts.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name; the message lists the names.
    pub fn get(&self, name: &str) -> Result<String> {
        find(FAMILY_OPTIONS, name).map(|named| (named.get)(self))
    }

    /// Returns the names and values of all options that have a name.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        entries(self, FAMILY_OPTIONS).collect()
    }

    /// Returns the name of the merge operator; `None` without one.
    #[must_use]
    pub fn merge_operator_name(&self) -> Option<&str> {
        self.tree.merge_operator.as_ref().map(|operator| operator.name())
    }

    /// Returns the name of the compaction filter; `None` without one.
    #[must_use]
    pub fn compaction_filter_name(&self) -> Option<&str> {
        self.tree.compaction_filter.as_ref().map(|filter| filter.name())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Options");
        for (name, value) in self.entries() {
            fields.field(&name, &format_args!("{value}"));
        }
        fields.finish_non_exhaustive()
    }
}

impl fmt::Debug for FamilyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("FamilyOptions");
        for (name, value) in self.entries() {
            fields.field(name, &format_args!("{value}"));
        }
        let (operator, filter) = (self.merge_operator_name(), self.compaction_filter_name());
        fields.field("merge_operator", &operator).field("compaction_filter", &filter).finish()
    }
}

fn entries<T>(of: &T, all: &'static [Named<T>]) -> impl Iterator<Item = (&'static str, String)> {
    all.iter().map(|named| (named.name, (named.get)(of)))
}

fn find<T>(all: &'static [Named<T>], name: &str) -> Result<&'static Named<T>> {
    all.iter().find(|named| named.name == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|named| named.name).collect();
        Error::invalid(format!("unknown option {name:?}"))
            .with_hint(format!("options are {}", names.join(", ")))
    })
}

/// Adds the prefixed names of the default family's options to a message that lists names.
fn with_family_names(error: Error) -> Error {
    match error.hint() {
        Some(names) => {
            let hint = format!("{names}, and {DEFAULT_FAMILY}NAME for those of the default family");
            error.with_hint(hint)
        }
        None => error,
    }
}

fn set<T>(of: &mut T, all: &'static [Named<T>], name: &str, value: &str) -> Result<()> {
    let named = find(all, name)?;
    (named.set)(of, value.trim()).ok_or_else(|| {
        Error::invalid(format!("bad value of the option {name}"))
            .with_mismatch(named.values, format_args!("{value:?}"))
    })
}

/// Stores `value` in `place`, if there is one.
fn assign<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn word<T: Copy>(words: &[(&str, T)]) -> impl Fn(&str) -> Option<T> {
    move |text| words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

fn word_of<T: PartialEq>(words: &[(&str, T)]) -> impl Fn(&T) -> String {
    move |value| {
        let word = words.iter().find(|(_, known)| known == value);
        word.map_or_else(String::new, |(word, _)| (*word).to_owned())
    }
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn compression(text: &str) -> Option<Compression> {
    Some(match text {
        "none" => Compression::None,
        "lz4" => Compression::Lz4,
        "snappy" => Compression::Snappy,
        "zstd" => Compression::ZSTD,
        _ => Compression::Zstd(text.strip_prefix("zstd:")?.parse().ok()?),
    })
}

/// A list by level.
fn list<T>(read: impl Fn(&str) -> Option<T>) -> impl Fn(&str) -> Option<Vec<T>> {
    move |text| match text {
        UNIFORM => Some(Vec::new()),
        _ => text.split(',').map(|one| read(one.trim())).collect(),
    }
}

fn list_text<T: ToString>(list: &[T]) -> String {
    match list {
        [] => UNIFORM.to_owned(),
        list => list.iter().map(T::to_string).collect::<Vec<_>>().join(","),
    }
}

fn bytes<T: TryFrom<u64>>(text: &str) -> Option<T> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
    let (digits, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))?;
    T::try_from(digits.trim_end().parse::<u64>().ok()?.checked_mul(1 << shift)?).ok()
}

fn file_mode(text: &str) -> Option<Arc<dyn Fs>> {
    let mode = u32::from_str_radix(text, 8).ok()?;
    is_file_mode(mode).then(|| with_file_mode(mode))
}

fn file_mode_text(fs: &Arc<dyn Fs>) -> String {
    format!("{:04o}", fs.file_mode())
}

fn time(text: &str) -> Option<Duration> {
    let (digits, unit_ms) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    Some(Duration::from_millis(digits.trim_end().parse::<u64>().ok()?.checked_mul(unit_ms)?))
}

fn ttl(text: &str) -> Option<u64> {
    let units = [("m", 60), ("h", 3600), ("d", 86_400)];
    let Some((digits, unit_s)) =
        units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
    else {
        return u64::try_from(time(text)?.as_millis()).ok();
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(unit_s * 1000)
}

fn ttl_text(ttl_ms: &u64) -> String {
    format!("{ttl_ms}ms")
}

fn key_order(text: &str) -> Option<Option<Arc<str>>> {
    KeyOrder::named(text).ok().map(KeyOrder::into_stored)
}

fn key_order_text(name: &Option<Arc<str>>) -> String {
    name.as_deref().unwrap_or(BYTEWISE).to_owned()
}

fn durability(text: &str) -> Option<Durability> {
    Some(match text {
        "volatile" => Durability::Volatile,
        "buffered" => Durability::Buffered,
        "synced" => Durability::Synced,
        _ => match text.strip_prefix("interval:")?.parse().ok()? {
            0 => return None,
            ms => Durability::Interval(Duration::from_millis(ms)),
        },
    })
}

fn extractor(text: &str) -> Option<Option<PrefixExtractor>> {
    match text {
        "none" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

fn extractor_text(extractor: &Option<PrefixExtractor>) -> String {
    extractor.map_or_else(|| "none".to_owned(), |extractor| extractor.to_string())
}

fn strategy(text: &str) -> Option<CompactionStrategy> {
    let mut parts = text.split(':');
    let strategy = match (parts.next()?, parts.next(), parts.next()) {
        ("leveled", None, None) => CompactionStrategy::Leveled,
        ("tiered", None, None) => CompactionStrategy::tiered(),
        ("tiered", Some(runs), Some(percent)) => CompactionStrategy::Tiered {
            runs_max: number(runs)?,
            space_percent_max: number(percent)?,
        },
        ("fifo", Some(size), None) => {
            CompactionStrategy::Fifo { bytes_max: bytes(size)?, age_max: None }
        }
        ("fifo", Some(size), Some(age)) => {
            CompactionStrategy::Fifo { bytes_max: bytes(size)?, age_max: Some(time(age)?) }
        }
        _ => return None,
    };
    parts.next().is_none().then_some(strategy)
}

fn strategy_text(strategy: &CompactionStrategy) -> String {
    let word = strategy.as_str();
    match strategy {
        CompactionStrategy::Tiered { runs_max, space_percent_max } => {
            format!("{word}:{runs_max}:{space_percent_max}")
        }
        CompactionStrategy::Fifo { bytes_max, age_max: None } => format!("{word}:{bytes_max}"),
        CompactionStrategy::Fifo { bytes_max, age_max: Some(age) } => {
            format!("{word}:{bytes_max}:{}", time_text(age))
        }
        // `Leveled`; a test converts every strategy.
        _ => word.to_owned(),
    }
}

fn path(text: &str) -> Option<Option<PathBuf>> {
    match text {
        "" => None,
        "none" => Some(None),
        path => Some(Some(path.into())),
    }
}

fn path_text(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "none".to_owned(), |path| path.to_string_lossy().into_owned())
}

fn time_text(time: &Duration) -> String {
    format!("{}ms", time.as_millis())
}

fn durability_text(durability: &Durability) -> String {
    match durability {
        Durability::Volatile => "volatile".to_owned(),
        Durability::Synced => "synced".to_owned(),
        Durability::Interval(interval) => format!("interval:{}", interval.as_millis().max(1)),
        // `Buffered`; a test converts every class.
        _ => "buffered".to_owned(),
    }
}

fn or_auto<T>(read: impl Fn(&str) -> Option<T>) -> impl Fn(&str) -> Option<Option<T>> {
    move |text| if text == "auto" { Some(None) } else { read(text).map(Some) }
}

fn auto_or<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "auto".to_owned(), T::to_string)
}

#[cfg(test)]
mod tests;
