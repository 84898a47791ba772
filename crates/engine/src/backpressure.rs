//! Back-pressure: how much writers are slowed down for what flushes and compactions have yet to
//! do, and the sleep itself.
//!
//! It starts no work, and knows neither why a job fails nor who makes room.

pub mod curve;
pub mod pacer;
pub mod debts;

use crate::{
    backpressure::{
        curve::{Debt, pressure},
        debts::LevelDebts,
        pacer::{Delay, Pacer},
    },
    catalog::family::FamilyData,
    counters::Counters,
    log::{
        Log,
        sequencer::{GenerationLimits, Room},
    },
    open_id::OpenId,
    options::FROZEN_MAX,
    signal::Signal,
};
use siltdb_base::{clock::Clock, id::FamilyId, sync::lock};
use siltdb_tree::planning::pick_leveled::{LAGGING_FACTOR, debt_bytes};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
};

/// What flushes have yet to write may amount to this many halves of a memtable before writes are
/// slowed down, and before they are as slow as they get.
const UNWRITTEN_HALVES: (u64, u64) = (2, 5);

/// The most that unwritten memtables weigh: only full memory stops writes.
const SHARE_DELAYED_MOST: f64 = 0.99;

/// Level 0 may have this many runs before writes are slowed down, and before they stop, at least.
/// What is in memory then may still be flushed.
const LEVEL0_RUNS: (u64, u64) = (12, 20);

/// The same, as multiples of the runs from which on it is compacted: where that is later, so are
/// these. No writer waits for a compaction that is not due.
const LEVEL0_TRIGGERS: (u64, u64) = (LAGGING_FACTOR, 5);

/// What compactions have yet to write may amount to this many memtables before writes are slowed
/// down, and before they stop.
const MERGE_MEMTABLES: (u64, u64) = (128, 512);

/// How much writers are slowed down.
#[derive(Debug)]
pub struct Backpressure {
    /// A job ended: there may be room.
    pub room: Signal,
    /// What writers have waited.
    pub waits: Waits,
    memtable_bytes: u64,
    levels: LevelDebts,
    pacer: Pacer,
    /// By which writers sleep; none, if they do the work themselves.
    clock: Option<Arc<dyn Clock>>,
}

/// What writers have waited since the database was opened.
#[derive(Debug, Default)]
pub struct Waits {
    /// Nanoseconds that writers slept for the debt.
    pub delayed_ns: AtomicU64,
    /// Nanoseconds that writers waited for room.
    pub stalled_ns: AtomicU64,
    /// Times that writers waited for room.
    pub stalls: AtomicU64,
}

impl Backpressure {
    /// No debt, for memtables of this size. Writers sleep by `clock`, if there is one.
    #[must_use]
    pub fn new(open_id: OpenId, memtable_bytes: u64, clock: Option<Arc<dyn Clock>>) -> Self {
        let (room, waits, levels) = (Signal::default(), Waits::default(), LevelDebts::default());
        Self { room, waits, memtable_bytes, levels, pacer: Pacer::new(open_id), clock }
    }

    /// The bounds that the sequencer keeps.
    #[inline]
    #[must_use]
    pub fn generation_limits(&self) -> GenerationLimits {
        // A hint; a rotation too many is bounded by the next look.
        let room = if self.pacer.is_stopped() { Room::Full } else { Room::Free };
        GenerationLimits { memtable_bytes: self.memtable_bytes, room }
    }

    /// How much writes are to be slowed down for memory: by what flushes have yet to write,
    /// `active_bytes` of it in the generation that is being written. A frozen one counts a little
    /// until its tables are synced and installed. What is held in memory stops writes, written or
    /// not.
    fn memory_share(&self, active_bytes: u64, log: &Log) -> f64 {
        let memtable = self.memtable_bytes;
        // However large a commit is, what no flush can make less must not stop the next.
        let active_bytes = active_bytes.min(memtable);
        let (mut held, mut unwritten) = (active_bytes, active_bytes);
        for frozen in &*lock(&log.frozen) {
            held += frozen.bytes.max(memtable / 4);
            unwritten += frozen.progress.rest_of(frozen.bytes).max(memtable / 16);
        }
        if held >= memtable * (FROZEN_MAX as u64 + 1) {
            return 1.0;
        }
        let (soft, hard) = (memtable * UNWRITTEN_HALVES.0 / 2, memtable * UNWRITTEN_HALVES.1 / 2);
        Debt { bytes: unwritten, soft, hard }.share().min(SHARE_DELAYED_MOST)
    }

    /// How much writes are slowed down for memory now, from 0, not at all, to 1, stopped.
    #[must_use]
    pub fn unwritten_share(&self, log: &Log) -> f64 {
        self.memory_share(log.active_bytes(), log)
    }

    /// The share of the worst debt that the levels of a family have run up, as last noted.
    #[must_use]
    pub fn level_share(&self) -> f64 {
        self.levels.worst()
    }

    /// The share of the worse debt that the levels of a family have run up.
    #[must_use]
    pub fn level_share_of(&self, family: &FamilyData) -> f64 {
        let view = family.tree.view();
        let options = family.tree.peek_options();
        let trigger = u64::from(options.level0_runs_trigger);
        let level0 = Debt {
            bytes: view.version.levels()[0].runs() as u64,
            soft: LEVEL0_RUNS.0.max(trigger * LEVEL0_TRIGGERS.0),
            hard: LEVEL0_RUNS.1.max(trigger * LEVEL0_TRIGGERS.1),
        };
        let bytes = debt_bytes(&view.version, &options);
        let (soft, hard) =
            (self.memtable_bytes * MERGE_MEMTABLES.0, self.memtable_bytes * MERGE_MEMTABLES.1);
        level0.share().max(Debt { bytes, soft, hard }.share())
    }

    /// Notes the debt of a family's levels; to be called after its tables have changed.
    pub fn note_levels(&self, family: &FamilyData) {
        self.levels.note(family.id, self.level_share_of(family));
    }

    /// Notes that a family was dropped.
    pub fn forget_levels(&self, family: FamilyId) {
        self.levels.note(family, 0.0);
    }

    /// Looks again at the debt of memory and at the worst of those of the levels that are noted.
    pub fn update(&self, log: &Log) {
        self.update_at(log.active_bytes(), log);
    }

    /// The same while the generation that is being written holds `active_bytes`; called whenever
    /// that has grown by a step.
    pub fn update_at(&self, active_bytes: u64, log: &Log) {
        let share = self.memory_share(active_bytes, log).max(self.level_share());
        self.pacer.set_pressure(pressure(share));
    }

    /// Set while jobs shall yield to writers.
    #[must_use]
    pub fn should_yield(&self) -> &AtomicBool {
        self.pacer.should_yield()
    }

    /// Lets a writer of `bytes` wait for its share of the debt.
    #[inline]
    pub fn pay(&self, bytes: u64, log: &Log) {
        if let Some(delay) = self.pacer.advance(bytes) {
            self.sleep(delay, log);
        }
    }

    #[cold]
    fn sleep(&self, first: Delay, log: &Log) {
        let Some(clock) = &self.clock else { return };
        let mut next = Some(first);
        while let Some(delay) = next {
            let ns = u64::try_from(delay.time.as_nanos()).unwrap_or(u64::MAX);
            Counters::add(&self.waits.delayed_ns, ns);
            clock.sleep(delay.time);
            // Flushes have gone on meanwhile, and the writer has the time to look how far.
            self.update(log);
            next = self.pacer.go_on(&delay);
        }
    }
}

#[cfg(test)]
mod tests;
