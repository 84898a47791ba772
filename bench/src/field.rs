//! The engines that take part in a row: the requested ones, or all. In large runs siltdb, RocksDB
//! and the best others of an earlier run.
//!
//! A known engine without a worker takes part, too: its rows give the reason why it did not run.

use crate::{
    report::ranking::{OURS, groups, is_ours},
    result::Results,
    runner::child::WorkerBinary,
    suite::{Chosen, known_or_nearest},
    worker::is_trial,
};
use std::{collections::BTreeSet, str::FromStr};

/// The engines with adapters or workers in this benchmark, in the order of reports.
pub const KNOWN: [&str; 25] = [
    "siltdb",
    "siltdb-btree",
    "siltdb-btree-map",
    "siltdb-map",
    "siltdb-locks",
    "siltdb-blobs",
    "siltdb-mimalloc",
    "siltdb-jemalloc",
    "rocksdb",
    "rocksdb-blobs",
    OPTIMISTIC,
    PESSIMISTIC,
    "tidesdb",
    "sled",
    "redb",
    "fjall",
    "lmdb",
    "mdbx",
    "sqlite",
    "thunder",
    "bbolt",
    "pebble",
    "badger",
    "wildcat",
    IN_MEMORY,
];
/// The map that rows about memory compare with. Other rows leave it out, because it has no files.
const IN_MEMORY: &str = "btreemap";
/// RocksDB with optimistic transactions.
const OPTIMISTIC: &str = "rocksdb-optimistic";
/// RocksDB with pessimistic transactions.
const PESSIMISTIC: &str = "rocksdb-pessimistic";
/// Engines that take part only where they are named.
const SPECIAL: [&str; 3] = [IN_MEMORY, OPTIMISTIC, PESSIMISTIC];
/// The peer that takes part in every row.
pub const YARDSTICK: &str = "rocksdb";
/// The number of other engines in a row of a large run.
const OTHERS: usize = 2;
/// The reason why an engine without a worker did not run, unless another one is known.
const NOT_BUILT: &str = "its worker is not built: cargo bench-all does";

/// An engine that cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// The id of the engine.
    pub engine: String,
    /// The reason.
    pub reason: String,
}

/// All engines of a run.
#[derive(Debug, Default)]
pub struct Field {
    engines: Vec<String>,
    absent: Vec<Absent>,
    /// Whether no engine was named.
    is_open: bool,
    earlier: Option<Results>,
}

impl FromStr for Absent {
    type Err = String;

    /// From `ENGINE=REASON`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (engine, reason) = text.split_once('=').ok_or("ENGINE=REASON is expected")?;
        known_or_nearest("engine", engine, &KNOWN)?;
        Ok(Self { engine: engine.to_owned(), reason: reason.to_owned() })
    }
}

impl Field {
    /// The `wanted` engines, or all that have workers and all that are `absent`.
    ///
    /// # Errors
    /// If one of them is unknown, with the nearest known name.
    pub fn new(
        workers: &[WorkerBinary],
        wanted: &[String],
        absent: &[Absent],
    ) -> Result<Self, String> {
        let all = workers.iter().flat_map(|worker| &worker.engines);
        let driven: Vec<&str> = all.map(|info| info.engine.as_str()).collect();
        let mut known = KNOWN.to_vec();
        known.extend(driven.iter().filter(|engine| !is_trial(engine) && !KNOWN.contains(engine)));
        for engine in wanted {
            // Trial engines are available when they are named.
            if !driven.contains(&engine.as_str()) {
                known_or_nearest("engine", engine, &known)?;
            }
        }
        let is_here = |engine: &str| driven.contains(&engine);
        let is_absent = |engine: &str| absent.iter().any(|one| one.engine == engine);
        let engines: Vec<String> = match wanted {
            [] => {
                let here = |engine: &&&str| is_here(engine) || is_absent(engine);
                known.iter().filter(here).map(|engine| (*engine).to_owned()).collect()
            }
            wanted => wanted.to_vec(),
        };
        let missing = engines.iter().filter(|engine| !is_here(engine)).map(|engine| {
            let told = absent.iter().find(|one| one.engine == *engine);
            told.cloned()
                .unwrap_or_else(|| Absent { engine: engine.clone(), reason: NOT_BUILT.to_owned() })
        });
        let absent = missing.collect();
        Ok(Self { engines, absent, is_open: wanted.is_empty(), earlier: None })
    }

    /// The same, but with fewer engines in each row for which an earlier run has a figure of
    /// siltdb: siltdb, RocksDB and the best others of its durability class.
    #[must_use]
    pub fn best_of(self, earlier: Results) -> Self {
        Self { earlier: Some(earlier), ..self }
    }

    /// All engines, in the order of the report.
    #[must_use]
    pub fn engines(&self) -> &[String] {
        &self.engines
    }

    /// The engines that cannot run here.
    #[must_use]
    pub fn absent(&self) -> &[Absent] {
        &self.absent
    }

    /// Engines that rows compare and that are not built, if none were named. No row has them.
    #[must_use]
    pub fn left_out(&self, rows: &[Chosen]) -> BTreeSet<String> {
        let named = rows.iter().filter(|_| self.is_open).flat_map(|row| &row.compared);
        named.filter(|engine| !self.engines.contains(engine)).cloned().collect()
    }

    /// The engines of a row, in the order of the report.
    ///
    /// A variant of siltdb, the map in memory, and RocksDB with transactions take part only if the
    /// command line or the row names them.
    #[must_use]
    pub fn of(&self, row: &Chosen) -> Vec<String> {
        let best = self.earlier.as_ref().and_then(|earlier| best_others(earlier, row));
        let elsewhere = |engine: &String| {
            let is_variant = is_ours(engine) && engine != OURS;
            let is_special = is_variant || SPECIAL.contains(&engine.as_str());
            let is_compared = match &row.compared[..] {
                [] => !is_special,
                compared => compared.contains(engine),
            };
            self.is_open && !is_compared
        };
        let takes_part = |engine: &&String| match &best {
            _ if elsewhere(engine) => false,
            None => true,
            Some(best) => is_ours(engine) || *engine == YARDSTICK || best.contains(engine),
        };
        self.engines.iter().filter(takes_part).cloned().collect()
    }
}

/// The fastest of the engines that are comparable with siltdb.
fn best_others(earlier: &Results, row: &Chosen) -> Option<Vec<String>> {
    let groups = groups(earlier);
    let group = groups.iter().find(|group| (group.suite, group.row) == (&row.suite, &row.row))?;
    let contests = group.contests();
    let contest = contests.iter().find(|contest| contest.standing().is_some())?;
    let ranked = contest.ranked.iter().map(|(row, _)| row.engine.clone());
    let others = ranked.filter(|engine| !is_ours(engine) && engine != YARDSTICK);
    Some(others.take(OTHERS).collect())
}

#[cfg(test)]
mod tests;
