//! Kept seeded databases: rows that need the same one, of the same engine, share it.
//!
//! A database is kept until the last row that needs it. The worker fills it; the runner kills the
//! worker then, if the row says so.

use crate::{
    engine::{Failure, Result},
    job::State,
    pass::store,
    suite::Chosen,
};
use std::{collections::HashMap, path::PathBuf};
use tempfile::TempDir;

/// Space for a kept database, as a factor of its bytes.
const KEPT_FACTOR: u64 = 2;

/// All parameters that determine a seeded database, as JSON.
type Key = String;

/// The databases of a run.
#[derive(Debug)]
pub struct Stores {
    dir: PathBuf,
    /// The rows that need one, by index.
    uses: HashMap<Key, Use>,
    kept: HashMap<(String, Key), TempDir>,
    /// The databases that cannot be made, and the reasons.
    refused: HashMap<(String, Key), Failure>,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    first: usize,
    last: usize,
    bytes: u64,
}

impl Stores {
    /// For rows that will run in this order, below a directory.
    #[must_use]
    pub fn new(rows: &[Chosen], dir: PathBuf) -> Self {
        let mut uses: HashMap<Key, Use> = HashMap::new();
        for (index, row) in rows.iter().enumerate().filter(|(_, row)| is_kept(row)) {
            let bytes = row.config.bytes_max * KEPT_FACTOR * row.engines.len() as u64;
            let one = uses.entry(key(row)).or_insert(Use { first: index, last: index, bytes });
            one.last = index;
            one.bytes = one.bytes.max(bytes);
        }
        Self { dir, uses, kept: HashMap::new(), refused: HashMap::new() }
    }

    /// Bytes that are kept while a row runs.
    #[must_use]
    pub fn bytes_at(&self, index: usize) -> u64 {
        let is_there = |one: &&Use| (one.first..=one.last).contains(&index);
        self.uses.values().filter(is_there).map(|one| one.bytes).sum()
    }

    /// The directory of an engine's kept database for a row, or `None` if such rows seed their own.
    ///
    /// # Errors
    /// The reason why it cannot be made, if known; errors of the system.
    pub fn of(&mut self, engine: &str, row: &Chosen) -> Result<Option<PathBuf>> {
        if !is_kept(row) {
            return Ok(None);
        }
        let key = (engine.to_owned(), key(row));
        if let Some(failure) = self.refused.get(&key) {
            return Err(failure.clone());
        }
        if let Some(kept) = self.kept.get(&key) {
            return Ok(Some(kept.path().to_owned()));
        }
        let made = tempfile::Builder::new().prefix("silt-bench-").tempdir_in(&self.dir)?;
        let path = made.path().to_owned();
        self.kept.insert(key, made);
        Ok(Some(path))
    }

    /// Notes that the database of an engine for a row cannot be made.
    pub fn refuse(&mut self, engine: &str, row: &Chosen, failure: Failure) {
        let key = (engine.to_owned(), key(row));
        self.kept.remove(&key);
        self.refused.insert(key, failure);
    }

    /// Notes that a row of an engine took too long. If its database was not even filled, a
    /// repetition would take as long, so it counts as refused. A filled one says nothing about
    /// later rows.
    pub fn cut_off(&mut self, engine: &str, row: &Chosen, failure: &Failure) {
        let key = (engine.to_owned(), key(row));
        if self.kept.get(&key).is_some_and(|kept| !store::is_filled(kept.path())) {
            self.refuse(engine, row, failure.clone());
        }
    }

    /// Notes that a row is done, and removes the databases that no later row needs.
    pub fn done(&mut self, index: usize) {
        let uses = &self.uses;
        self.kept.retain(|(_, key), _| uses.get(key).is_some_and(|one| one.last > index));
    }
}

/// Whether a row's seeded database is kept and copied. A row that measures the state right after
/// its seed must seed each time.
fn is_kept(row: &Chosen) -> bool {
    row.work.state != State::AsIs && !row.work.seed.is_empty()
}

fn key(row: &Chosen) -> Key {
    let work = &row.work;
    let data = (work.keys, work.key_style, work.key_bytes);
    let values = (work.value_style, work.value_bytes, work.compressible_percent);
    let made = (data, values, work.threads, &work.seed, work.state, &row.config);
    serde_json::to_string(&made).expect("workloads are plain data")
}

#[cfg(test)]
mod tests;
