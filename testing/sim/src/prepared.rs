//! Which prepared transactions must wait for their decision after a crash.

use crate::violation::{Checked, Violation};
use siltdb::Db;
use std::collections::BTreeMap;

/// Whether a prepared transaction waits for its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It does: it was acknowledged, and no decision was begun.
    Always,
    /// It may: it was being prepared or rolled back.
    Maybe,
    /// If, and only if, the commit with this number is not there: that is its decision.
    Without(u64),
}

/// The prepared transactions by their ids; others do not wait.
pub type Waiting = BTreeMap<String, Waits>;

/// The ids of those that wait in a database.
#[must_use]
pub fn undecided(db: &Db) -> Vec<String> {
    let prepared = db.prepared();
    prepared.iter().map(|one| String::from_utf8_lossy(one.id()).into_owned()).collect()
}

/// All that wait in a database do.
#[must_use]
pub fn waiting_in(db: &Db) -> Waiting {
    undecided(db).into_iter().map(|id| (id, Waits::Always)).collect()
}

/// Compares those that wait in a database, which stands at `commit`, with `waiting`.
///
/// # Errors
/// If one waits that does not, or the other way round.
pub fn check_undecided(waiting: &Waiting, db: &Db, commit: u64) -> Checked<()> {
    let found = undecided(db);
    let is_wrong = |(id, waits): &(&String, &Waits)| match waits {
        Waits::Always => !found.contains(id),
        Waits::Maybe => false,
        Waits::Without(number) => found.contains(id) != (commit < *number),
    };
    let unknown = found.iter().find(|id| !waiting.contains_key(*id));
    match (waiting.iter().find(is_wrong), unknown) {
        (None, None) => Ok(()),
        (wrong, unknown) => Err(Violation::new(format!(
            "{found:?} wait for their decision at commit {commit}: not {wrong:?}, {unknown:?}"
        ))),
    }
}
