//! Options by name, as text: for command lines, configuration files and bindings.
//!
//! A name is that of the builder's method. Options that are code (merge operators, file system,
//! clock) have none.

use crate::options::{
    Compression, Create, Durability, FamilyOptions, LogIo, Options, ReadIo, RecoveryMode,
};
use siltdb_base::error::{Error, Result};
use siltdb_engine::options::Access;
use std::time::Duration;

/// What precedes the name of an option of the default family.
const DEFAULT_FAMILY: &str = "default_family.";

/// An option and its text.
struct Named<T> {
    name: &'static str,
    /// The values that it takes.
    values: &'static str,
    /// Sets it; `None` if the text is no such value.
    set: fn(&mut T, &str) -> Option<()>,
    get: fn(&T) -> String,
}

const BYTES: &str = "a number of bytes, as 4096, 64KiB, 32MiB or 1GiB";
const NUMBER: &str = "a number";

const OPTIONS: &[Named<Options>] = &[
    Named {
        name: "create",
        values: "if_missing, never or new",
        set: |options, text| assign(&mut options.engine.create, by_word(CREATES, text)),
        get: |options| word_of(CREATES, &options.engine.create),
    },
    Named {
        name: "read_only",
        values: "true or false",
        set: |options, text| assign(&mut options.engine.access, by_word(ACCESSES, text)),
        get: |options| word_of(ACCESSES, &options.engine.access),
    },
    Named {
        name: "lock_wait",
        values: "a time, as 200ms or 5s",
        set: |options, text| assign(&mut options.engine.lock_wait, time(text)),
        get: |options| format!("{}ms", options.engine.lock_wait.as_millis()),
    },
    Named {
        name: "durability",
        values: "volatile, buffered, interval:MS or synced",
        set: |options, text| assign(&mut options.engine.durability, durability(text)),
        get: |options| durability_text(options.engine.durability),
    },
    Named {
        name: "memory_budget",
        values: BYTES,
        set: |options, text| assign(&mut options.engine.memory_budget, bytes(text)),
        get: |options| options.engine.memory_budget.to_string(),
    },
    Named {
        name: "cache_bytes",
        values: "a number of bytes, as 64MiB, or auto",
        set: |options, text| assign(&mut options.engine.cache_bytes, or_auto(text, bytes)),
        get: |options| auto_or(options.engine.cache_bytes),
    },
    Named {
        name: "memtable_bytes",
        values: BYTES,
        set: |options, text| assign(&mut options.engine.memtable_bytes, bytes(text)),
        get: |options| options.engine.memtable_bytes.to_string(),
    },
    Named {
        name: "log_io",
        values: "auto, map or write",
        set: |options, text| assign(&mut options.engine.log_io, by_word(LOG_IOS, text)),
        get: |options| word_of(LOG_IOS, &options.engine.log_io),
    },
    Named {
        name: "retain_log_bytes",
        values: BYTES,
        set: |options, text| {
            assign(&mut options.engine.retain_log_bytes, bytes(text).map(|bytes| bytes as u64))
        },
        get: |options| options.engine.retain_log_bytes.to_string(),
    },
    Named {
        name: "retain_log_for",
        values: "a time, as 200ms or 5s",
        set: |options, text| assign(&mut options.engine.retain_log_for, time(text)),
        get: |options| format!("{}ms", options.engine.retain_log_for.as_millis()),
    },
    Named {
        name: "feed_bytes_max",
        values: BYTES,
        set: |options, text| {
            assign(&mut options.engine.feed_bytes_max, bytes(text).map(|bytes| bytes as u64))
        },
        get: |options| options.engine.feed_bytes_max.to_string(),
    },
    Named {
        name: "read_io",
        values: "read or map",
        set: |options, text| assign(&mut options.engine.read_io, by_word(READ_IOS, text)),
        get: |options| word_of(READ_IOS, &options.engine.read_io),
    },
    Named {
        name: "workers",
        values: NUMBER,
        set: |options, text| assign(&mut options.engine.workers, text.parse().ok()),
        get: |options| options.engine.workers.to_string(),
    },
    Named {
        name: "recovery",
        values: "strict or point_in_time",
        set: |options, text| assign(&mut options.engine.recovery, by_word(RECOVERIES, text)),
        get: |options| word_of(RECOVERIES, &options.engine.recovery),
    },
    Named {
        name: "seed",
        values: "a number, or auto",
        set: |options, text| {
            assign(&mut options.engine.seed, or_auto(text, |text| text.parse().ok()))
        },
        get: |options| auto_or(options.engine.seed),
    },
];

const FAMILY_OPTIONS: &[Named<FamilyOptions>] = &[
    Named {
        name: "compression",
        values: "none or lz4",
        set: |options, text| {
            assign(&mut options.tree.table.compression, by_word(COMPRESSIONS, text))
        },
        get: |options| word_of(COMPRESSIONS, &options.tree.table.compression),
    },
    Named {
        name: "block_bytes",
        values: BYTES,
        set: |options, text| assign(&mut options.tree.table.block_bytes, bytes(text)),
        get: |options| options.tree.table.block_bytes.to_string(),
    },
    Named {
        name: "filter_bits_per_key",
        values: NUMBER,
        set: |options, text| assign(&mut options.tree.table.filter_bits_per_key, text.parse().ok()),
        get: |options| options.tree.table.filter_bits_per_key.to_string(),
    },
    Named {
        name: "table_bytes",
        values: BYTES,
        set: |options, text| {
            assign(&mut options.tree.table_bytes_target, bytes(text).map(|bytes| bytes as u64))
        },
        get: |options| options.tree.table_bytes_target.to_string(),
    },
    Named {
        name: "base_level_bytes",
        values: BYTES,
        set: |options, text| {
            assign(&mut options.tree.base_level_bytes, bytes(text).map(|bytes| bytes as u64))
        },
        get: |options| options.tree.base_level_bytes.to_string(),
    },
    Named {
        name: "level_size_ratio",
        values: NUMBER,
        set: |options, text| assign(&mut options.tree.level_size_ratio, text.parse().ok()),
        get: |options| options.tree.level_size_ratio.to_string(),
    },
    Named {
        name: "level0_runs",
        values: NUMBER,
        set: |options, text| assign(&mut options.tree.level0_runs_trigger, text.parse().ok()),
        get: |options| options.tree.level0_runs_trigger.to_string(),
    },
];

const CREATES: &[(&str, Create)] =
    &[("if_missing", Create::IfMissing), ("never", Create::Never), ("new", Create::New)];
const ACCESSES: &[(&str, Access)] = &[("true", Access::ReadOnly), ("false", Access::ReadWrite)];
const LOG_IOS: &[(&str, LogIo)] =
    &[("auto", LogIo::Auto), ("map", LogIo::Map), ("write", LogIo::Write)];
const READ_IOS: &[(&str, ReadIo)] = &[("read", ReadIo::Read), ("map", ReadIo::Map)];
const RECOVERIES: &[(&str, RecoveryMode)] =
    &[("strict", RecoveryMode::Strict), ("point_in_time", RecoveryMode::PointInTime)];
const COMPRESSIONS: &[(&str, Compression)] =
    &[("none", Compression::None), ("lz4", Compression::Lz4)];

impl Options {
    /// Sets an option by its name and a text, as a command line or a configuration file has them.
    /// Names are those of the methods; an option of the default family is called
    /// `default_family.NAME`. A failure changes nothing.
    ///
    /// Bytes are a number, with or without `KiB`, `MiB` or `GiB`; times have `ms` or `s`; variants
    /// are written in small letters (`point_in_time`, `interval:100`). Options that
    /// [depend on each other](Options::memory_budget) are checked when the database is opened.
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
    /// `InvalidArgument`: for an unknown name it lists the names, for a bad value it says what is
    /// permitted.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name.strip_prefix(DEFAULT_FAMILY) {
            Some(name) => self.default_family_options(|family| family.set(name, value)),
            None => set(self, OPTIONS, name, value).map_err(with_family_names),
        }
    }

    /// The value of an option as a text that [`Options::set`] takes.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name; it lists the names.
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

    /// Every option that has a name, and its value; those of the default family last.
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
    /// Sets an option by its name and a text, as [`Options::set`] does. A failure changes nothing.
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
    /// `InvalidArgument`: for an unknown name it lists the names, for a bad value it says what is
    /// permitted.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let mut changed = self.clone();
        set(&mut changed, FAMILY_OPTIONS, name, value)?;
        changed.tree.check()?;
        *self = changed;
        Ok(())
    }

    /// The value of an option as a text that [`FamilyOptions::set`] takes.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name; it lists the names.
    pub fn get(&self, name: &str) -> Result<String> {
        find(FAMILY_OPTIONS, name).map(|named| (named.get)(self))
    }

    /// Every option that has a name, and its value.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        entries(self, FAMILY_OPTIONS).collect()
    }

    /// The name of the merge operator; `None` without one.
    #[must_use]
    pub fn merge_operator_name(&self) -> Option<&str> {
        self.tree.merge_operator.as_ref().map(|operator| operator.name())
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

/// Says how options of the default family are called, where names are listed.
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

/// Puts `value`, if there is one, in `place`.
fn assign<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn by_word<T: Copy>(words: &[(&str, T)], text: &str) -> Option<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

fn word_of<T: PartialEq>(words: &[(&str, T)], value: &T) -> String {
    let word = words.iter().find(|(_, known)| known == value);
    word.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

fn bytes(text: &str) -> Option<usize> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
    let (digits, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))?;
    digits.trim_end().parse::<usize>().ok()?.checked_mul(1 << shift)
}

fn time(text: &str) -> Option<Duration> {
    let (digits, unit_ms) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s')?, 1000),
    };
    Some(Duration::from_millis(digits.trim_end().parse::<u64>().ok()?.checked_mul(unit_ms)?))
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

fn durability_text(durability: Durability) -> String {
    match durability {
        Durability::Volatile => "volatile".to_owned(),
        Durability::Synced => "synced".to_owned(),
        Durability::Interval(interval) => format!("interval:{}", interval.as_millis().max(1)),
        // Every class has a name; a test goes through them.
        _ => "buffered".to_owned(),
    }
}

fn or_auto<T>(text: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text == "auto" { Some(None) } else { parse(text).map(Some) }
}

fn auto_or<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "auto".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests;
