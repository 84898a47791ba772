//! What background jobs need of a database: flushes, compactions, moves between the tiers, and the
//! copies that flush before they begin.
//!
//! It has nothing of commits: no locks, no memory to write to.

use crate::{
    background::Background, backpressure::Backpressure, blobs::Blobs, catalog::Catalog,
    database::installer::Installer, health::Health, kit::counters::Counters,
    lock_state::prepared_set::PreparedSet, log::Log, options::EngineOptions, snapshots::Snapshots,
};
use siltdb_base::{clock::ForwardClock, error::Result};
use std::sync::Arc;

/// Which thread runs the job that a writer must wait for.
#[derive(Clone, Copy, Debug)]
pub enum Waiting {
    /// A worker does; the writer waits for it.
    ForWorkers,
    /// The writer itself: this function runs one job, and returns whether there was one.
    RunJob(fn(&JobRooms<'_>) -> Result<bool>),
}

/// The rooms of a flush, a compaction, or a move of tables.
///
/// Above the engine it comes from a [`Writable`](crate::database::writable::Writable) alone.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct JobRooms<'a> {
    /// Families, files and manifest.
    pub catalog: &'a Catalog,
    /// The blob files, whose values move, or are synced before a table refers to them.
    pub blobs: &'a Arc<Blobs>,
    /// The log, and the frozen generations that wait for their flush.
    pub log: &'a Log,
    /// Whether the database may be written.
    pub health: &'a Health,
    /// The clock, of which an edit keeps the latest time.
    pub time: &'a Arc<ForwardClock>,
    /// The debts that jobs pay, and the writers that wait for them.
    pub backpressure: &'a Backpressure,
    /// What jobs share: which run, which failed, what is due.
    pub background: &'a Background,
    /// The options of this opening: how many threads take part, and at which rate.
    pub options: &'a EngineOptions,
    /// The live snapshots, for which a job keeps old entries.
    pub snapshots: &'a Arc<Snapshots>,
    /// The undecided transactions, which a flush carries over from the log that it retires.
    pub prepared: &'a PreparedSet,
    /// The counters of what jobs have done.
    pub counters: &'a Counters,
    /// Whether workers run the jobs: then they also free the memory of what was flushed.
    pub waiting: Waiting,
}

impl<'a> JobRooms<'a> {
    /// What installs the edit that a job ends with.
    #[must_use]
    pub fn installer(&self) -> Installer<'a> {
        let Self { catalog, blobs, log, health, time, backpressure, background, .. } = *self;
        Installer { catalog, blobs, log, health, time, backpressure, background }
    }
}
