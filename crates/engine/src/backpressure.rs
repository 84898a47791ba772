//! Back-pressure: how much writers are delayed for the debt of flushes and compactions, and the
//! delay itself.
//!
//! This module starts no work, and knows neither why a job fails nor which job makes room.

pub mod curve;
pub mod pace;
pub mod pacer;
pub mod debts;

use crate::{
    backpressure::{
        curve::{DebtLimits, SHARE_SOFT, delay_ns_per_byte, guard_ns_per_byte},
        debts::{LevelDebt, LevelDebts, MergeCredit},
        pace::{Drain, Observation, SHARE_WANTED, STEP_NS_MIN, WritePace},
        pacer::{Delay, Pacer, Pressure, Price},
    },
    kit::{counters::Counters, open_id::OpenId, signal::Signal},
    log::{
        Log,
        sequencer::{GenerationLimits, Room},
    },
    options::FROZEN_MAX,
};
use siltdb_base::{clock::Clock, id::FamilyId, sync::lock};
use siltdb_tree::{
    files::version::Version,
    options::TreeOptions,
    planning::{pick_leveled::LAGGING_FACTOR, strategy::debt},
    rewrite::{
        compact::Compaction, processor_share::ProcessorShare, steps::Left, write_rate::WriteRate,
    },
};
use std::{
    sync::{Arc, Mutex, atomic::AtomicU64},
    time::Duration,
};

/// The debt of flushes at which writes are first delayed, and at which their delay is largest, in
/// halves of a memtable.
const UNWRITTEN_HALVES: (u64, u64) = (2, 5);

/// The largest share that unwritten memtables cause: only full memory stops writes.
const SHARE_DELAYED_MOST: f64 = 0.99;

/// The bounds of the number of runs in level 0, at least. Memory can still be flushed when writes
/// stop.
const LEVEL0_RUNS: DebtLimits = DebtLimits { free: 4, soft: 12, hard: 20 };

/// The same as multiples of the compaction trigger of level 0. A larger trigger raises them, so
/// that no writer waits for a compaction that is not due.
const LEVEL0_TRIGGERS: DebtLimits = DebtLimits { free: 1, soft: LAGGING_FACTOR, hard: 5 };

/// The bounds of the debt of compactions, in memtables.
const MERGE_MEMTABLES: DebtLimits = DebtLimits { free: 32, soft: 128, hard: 512 };

/// The share of the debt of levels up to which a limited rate of jobs holds. The pace steers beyond
/// it, so a rate that is too low for the writers gives way before it delays them.
const SHARE_RATED: f64 = 0.25;

/// What jobs keep of a processor while there is no debt. Less would let threads of the program that
/// never rest keep compactions from what writers will wait for.
const KEPT_LEAST: f64 = 0.25;

/// The share of the debt of memory from which on jobs yield no more: writers are delayed for it. Of
/// levels it is the share that the pace steers towards.
const MEMORY_SHARE_KEPT_WHOLE: f64 = 0.25;

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
    steering: Mutex<Steering>,
    pacer: Pacer,
    /// What jobs keep of a processor that other threads want.
    processor_share: ProcessorShare,
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

/// The pace and what it was last told.
#[derive(Debug, Default)]
struct Steering {
    pace: WritePace,
    /// When the pace made its last step, by the monotonic clock.
    at_ns: u64,
    /// What was written since, in bytes of memtables.
    written_bytes: u64,
    /// The size of the active generation at the last look, in bytes.
    active_bytes: u64,
}

impl Steering {
    /// Counts what was written since the last look. The end of a generation, at most a step of its
    /// growth, is not seen.
    fn note_active(&mut self, active_bytes: u64) {
        let is_same = active_bytes >= self.active_bytes;
        self.written_bytes += if is_same { active_bytes - self.active_bytes } else { active_bytes };
        self.active_bytes = active_bytes;
    }
}

/// Counts what a merge has done as no debt, until it is dropped. To be dropped after the edit that
/// removes the inputs.
#[derive(Debug)]
pub struct Credit<'a> {
    levels: &'a LevelDebts,
    family: FamilyId,
    merge: MergeCredit,
}

impl Credit<'_> {
    /// Says what is left of the inputs once the next edit of the merge is installed.
    pub fn expect_left(&self, left: Left) {
        self.merge.expect_left(left);
    }
}

impl Drop for Credit<'_> {
    fn drop(&mut self) {
        self.levels.end_merge(self.family, &self.merge);
    }
}

impl Backpressure {
    /// Back-pressure without debt, for memtables of this size. Writers sleep by `clock`, if given.
    #[must_use]
    pub fn new(open_id: OpenId, memtable_bytes: u64, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            room: Signal::default(),
            waits: Waits::default(),
            rate: None,
            memtable_bytes,
            levels: LevelDebts::default(),
            steering: Mutex::default(),
            pacer: Pacer::new(open_id),
            processor_share: ProcessorShare::default(),
            clock,
        }
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
        let above = unwritten.saturating_sub(soft) as f64;
        (above / (hard - soft) as f64).min(SHARE_DELAYED_MOST)
    }

    /// The present share of the debt of memory, from 0 (no delay) to 1 (stop).
    #[must_use]
    pub fn unwritten_share(&self, log: &Log) -> f64 {
        self.memory_share(log.active_bytes(), log)
    }

    /// The largest share of a debt of levels, of all families, as last noted: from 0 (no
    /// compaction is due) to 1 (writers stop).
    #[must_use]
    pub fn level_share(&self) -> f64 {
        self.levels.worst()
    }

    /// Whether a debt of levels is beyond its soft limit, as last noted.
    #[must_use]
    pub fn is_beyond_soft(&self) -> bool {
        self.level_share() > SHARE_SOFT
    }

    /// The two debts of a family's levels, with these tables and options.
    #[must_use]
    pub fn level_debt_of(&self, version: &Version, options: &TreeOptions) -> LevelDebt {
        let trigger = u64::from(options.level0_runs_trigger);
        let (runs, bytes) = debt(version, options);
        let runs_limit = |least: u64, triggers: u64| least.max(trigger * triggers);
        LevelDebt {
            runs,
            runs_limits: DebtLimits {
                free: runs_limit(LEVEL0_RUNS.free, LEVEL0_TRIGGERS.free),
                soft: runs_limit(LEVEL0_RUNS.soft, LEVEL0_TRIGGERS.soft),
                hard: runs_limit(LEVEL0_RUNS.hard, LEVEL0_TRIGGERS.hard),
            },
            bytes,
            bytes_limits: DebtLimits {
                free: self.memtable_bytes * MERGE_MEMTABLES.free,
                soft: self.memtable_bytes * MERGE_MEMTABLES.soft,
                hard: self.memtable_bytes * MERGE_MEMTABLES.hard,
            },
        }
    }

    /// Notes the debt of a family's levels. To be called after its tables have changed.
    pub fn note_levels(&self, family: FamilyId, version: &Version, options: &TreeOptions) {
        self.levels.note(family, Some(self.level_debt_of(version, options)));
    }

    /// Notes that a family was dropped.
    pub fn forget_levels(&self, family: FamilyId) {
        self.levels.note(family, None);
    }

    /// Counts what a merge of `family` does as done from now on, and not only at its end.
    #[must_use]
    pub fn credit(&self, family: FamilyId, compaction: &Compaction) -> Credit<'_> {
        let plan = compaction.plan();
        let inputs = Left { bytes: plan.bytes, level0_runs: plan.level0_runs_freed as u64 };
        let merge = MergeCredit::new(Arc::clone(compaction.progress()), inputs);
        self.levels.begin_merge(family, merge.clone());
        Credit { levels: &self.levels, family, merge }
    }

    /// Computes the pressure anew, from the debt of memory and the noted debts of levels.
    pub fn update(&self, log: &Log) {
        self.update_at(log.active_bytes(), log);
    }

    /// The same with `active_bytes` in the active generation. Called whenever these have grown by a
    /// step.
    pub fn update_at(&self, active_bytes: u64, log: &Log) {
        let drain = if self.levels.refresh() { Drain::Running } else { Drain::Resting };
        let level_share = self.level_share();
        if let Some(rate) = &self.rate {
            rate.note_debt(if level_share > SHARE_RATED { level_share } else { 0.0 });
        }
        let memory_share = self.memory_share(active_bytes, log);
        let pressure = match (delay_ns_per_byte(memory_share), guard_ns_per_byte(level_share)) {
            (Some(memory), Some(guard)) => {
                let at_once = Price { ns_per_byte: memory.max(guard), burst_bytes: 0 };
                Pressure::Pay(at_once.max(self.steer(active_bytes, level_share, drain)))
            }
            _ => Pressure::Stop,
        };
        self.pacer.set_pressure(pressure);
        let of_memory = memory_share / MEMORY_SHARE_KEPT_WHOLE;
        let urgency = (level_share / SHARE_WANTED).max(of_memory).min(1.0);
        self.processor_share.set(KEPT_LEAST + (1.0 - KEPT_LEAST) * urgency);
    }

    /// The price of the pace, after a step of it if that is due.
    fn steer(&self, active_bytes: u64, share: f64, drain: Drain) -> Price {
        let Some(clock) = &self.clock else { return Price::default() };
        let now_ns = clock.monotonic_ns();
        let mut steering = lock(&self.steering);
        steering.note_active(active_bytes);
        let elapsed_ns = now_ns.saturating_sub(steering.at_ns);
        if elapsed_ns >= STEP_NS_MIN {
            let bytes_per_share = self.memtable_bytes * (LEVEL0_RUNS.hard - LEVEL0_RUNS.free);
            let observation = Observation {
                share,
                bytes_per_share: bytes_per_share as f64,
                written_bytes: std::mem::take(&mut steering.written_bytes),
                elapsed: Duration::from_nanos(elapsed_ns),
                drain,
            };
            steering.pace = steering.pace.step(&observation);
            steering.at_ns = now_ns;
        }
        let rate = steering.pace.rate();
        rate.map_or(Price::default(), |rate| Price::of_rate(rate, self.memtable_bytes))
    }

    /// What jobs keep of a processor that other threads want: the more, the larger the debt.
    #[must_use]
    pub fn processor_share(&self) -> &ProcessorShare {
        &self.processor_share
    }

    /// Delays a writer of `bytes`, as they count in memtables, for its part of the debt.
    #[inline]
    pub fn pay(&self, bytes: u64, log: &Log) {
        let now_ns = || self.clock.as_ref().map_or(0, |clock| clock.monotonic_ns());
        if let Some(delay) = self.pacer.advance(bytes, now_ns) {
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
            next = self.pacer.go_on(&delay, clock.monotonic_ns());
        }
    }
}

#[cfg(test)]
mod tests;
