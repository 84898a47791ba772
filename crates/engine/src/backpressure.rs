//! Back-pressure: how much writers are delayed for the debt of flushes and compactions, and the
//! delay itself.
//!
//! This module starts no work, and knows neither why a job fails nor which job makes room.

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
    kit::{counters::Counters, open_id::OpenId, signal::Signal},
    log::{
        Log,
        sequencer::{GenerationLimits, Room},
    },
    options::FROZEN_MAX,
};
use siltdb_base::{clock::Clock, id::FamilyId, sync::lock};
use siltdb_tree::{
    planning::{pick_leveled::LAGGING_FACTOR, strategy::debt},
    rewrite::write_rate::WriteRate,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
};

/// The debt of flushes at which writes are first delayed, and at which their delay is largest, in
/// halves of a memtable.
const UNWRITTEN_HALVES: (u64, u64) = (2, 5);

/// The largest share that unwritten memtables cause: only full memory stops writes.
const SHARE_DELAYED_MOST: f64 = 0.99;

/// The number of runs in level 0 at which writes are first delayed, and at which they stop, at
/// least. Memory can still be flushed when writes stop.
const LEVEL0_RUNS: (u64, u64) = (12, 20);

/// The same as multiples of the compaction trigger of level 0. A larger trigger raises both limits,
/// so that no writer waits for a compaction that is not due.
const LEVEL0_TRIGGERS: (u64, u64) = (LAGGING_FACTOR, 5);

/// The debt of compactions at which writes are first delayed, and at which they stop, in memtables.
const MERGE_MEMTABLES: (u64, u64) = (128, 512);

/// The back-pressure on the writers of a database.
#[derive(Debug)]
pub struct Backpressure {
    /// Wakes waiting writers: a job ended, so there may be room.
    pub room: Signal,
    /// The waits of writers so far.
    pub waits: Waits,
    /// The rate of flushes and compactions, if it is limited.
    pub rate: Option<Arc<WriteRate>>,
    memtable_bytes: u64,
    levels: LevelDebts,
    pacer: Pacer,
    /// The clock by which writers sleep; `None` if writers run the jobs themselves.
    clock: Option<Arc<dyn Clock>>,
}

/// Waits of writers since the database was opened.
#[derive(Debug, Default)]
pub struct Waits {
    /// The time that writers slept because of debt, in nanoseconds.
    pub delayed_ns: AtomicU64,
    /// The time that writers waited for room, in nanoseconds.
    pub stalled_ns: AtomicU64,
    /// How often writers waited for room.
    pub stalls: AtomicU64,
}

impl Backpressure {
    /// Back-pressure without debt, for memtables of this size. Writers sleep by `clock`, if given.
    #[must_use]
    pub fn new(open_id: OpenId, memtable_bytes: u64, clock: Option<Arc<dyn Clock>>) -> Self {
        let (room, waits, levels) = (Signal::default(), Waits::default(), LevelDebts::default());
        Self { room, waits, rate: None, memtable_bytes, levels, pacer: Pacer::new(open_id), clock }
    }

    /// The same with a limit of what flushes and compactions write, which yields to debt.
    #[must_use]
    pub fn with_rate(self, rate: Option<WriteRate>) -> Self {
        Self { rate: rate.map(Arc::new), ..self }
    }

    /// The limits for the sequencer.
    #[inline]
    #[must_use]
    pub fn generation_limits(&self) -> GenerationLimits {
        // This is a hint. If it causes one rotation too many, the next check bounds that.
        let room = if self.pacer.is_stopped() { Room::Full } else { Room::Free };
        GenerationLimits { memtable_bytes: self.memtable_bytes, room }
    }

    /// The share of the debt of memory. Unwritten bytes delay writes; `active_bytes` of them are in
    /// the active generation. A frozen generation counts a little until its tables are synced and
    /// installed. Bytes held in memory stop writes, whether written or not.
    fn memory_share(&self, active_bytes: u64, log: &Log) -> f64 {
        let memtable = self.memtable_bytes;
        // No flush can reduce the active generation, so a huge commit in it must not stop the next
        // commit.
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

    /// The present share of the debt of memory, from 0 (no delay) to 1 (stop).
    #[must_use]
    pub fn unwritten_share(&self, log: &Log) -> f64 {
        self.memory_share(log.active_bytes(), log)
    }

    /// The largest share of a debt of levels, of all families, as last noted.
    #[must_use]
    pub fn level_share(&self) -> f64 {
        self.levels.worst()
    }

    /// The larger share of the two debts of a family's levels.
    #[must_use]
    pub fn level_share_of(&self, family: &FamilyData) -> f64 {
        let view = family.tree.view();
        let options = family.tree.peek_options();
        let trigger = u64::from(options.level0_runs_trigger);
        let (level0_runs, bytes) = debt(&view.version, &options);
        let level0 = Debt {
            bytes: level0_runs,
            soft: LEVEL0_RUNS.0.max(trigger * LEVEL0_TRIGGERS.0),
            hard: LEVEL0_RUNS.1.max(trigger * LEVEL0_TRIGGERS.1),
        };
        let (soft, hard) =
            (self.memtable_bytes * MERGE_MEMTABLES.0, self.memtable_bytes * MERGE_MEMTABLES.1);
        level0.share().max(Debt { bytes, soft, hard }.share())
    }

    /// Notes the debt of a family's levels. To be called after its tables have changed.
    pub fn note_levels(&self, family: &FamilyData) {
        self.levels.note(family.id, self.level_share_of(family));
    }

    /// Notes that a family was dropped.
    pub fn forget_levels(&self, family: FamilyId) {
        self.levels.note(family, 0.0);
    }

    /// Computes the pressure anew, from the debt of memory and the noted debts of levels.
    pub fn update(&self, log: &Log) {
        self.update_at(log.active_bytes(), log);
    }

    /// The same with `active_bytes` in the active generation. Called whenever these have grown by a
    /// step.
    pub fn update_at(&self, active_bytes: u64, log: &Log) {
        let level_share = self.level_share();
        if let Some(rate) = &self.rate {
            rate.note_debt(level_share);
        }
        let share = self.memory_share(active_bytes, log).max(level_share);
        self.pacer.set_pressure(pressure(share));
    }

    /// Whether jobs should yield to writers.
    #[must_use]
    pub fn should_yield(&self) -> &AtomicBool {
        self.pacer.should_yield()
    }

    /// Delays a writer of `bytes` for its part of the debt.
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
            // Flushes have continued meanwhile, and this writer has the time to read how far.
            self.update(log);
            next = self.pacer.go_on(&delay);
        }
    }
}

#[cfg(test)]
mod tests;
