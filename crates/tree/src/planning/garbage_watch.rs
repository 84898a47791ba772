//! Remembers what of a tree takes space and cannot be seen, so that looking for it costs nothing
//! while nothing changes.
//!
//! The pickers decide, and it removes nothing.

use crate::{
    files::covered::Covered,
    files::open_files::TableId,
    files::version::Version,
    options::TreeOptions,
    planning::pick_fifo::pick_leaving,
    planning::pick_garbage::{Moment, next_expiry_ms, pick_drop, pick_rewrite},
    planning::pick_leveled::WriteLoad,
    planning::pick_superseded::{SupersededLook, Unneeded, pick_superseded},
    planning::plan::{Busy, Plan},
    strategy::CompactionStrategy,
};
use siltdb_base::{id::SequenceNumber, sync::lock};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, Weak},
};

/// Indexes that one [`GarbageWatch::scan`] reads at most: other work waits for it.
const INDEXES_MAX: usize = 16;

/// Time after which what tables supersede is added up again if entries have expired, in ms: there
/// may be some in each table at any time.
const LOOK_AGAIN_MS: u64 = 60_000;

/// What is known of the garbage of a tree.
///
/// # Thread safety
/// Any thread may call it. `version` gives the version that is in force when it is called.
/// `known_io` is locked before the plans that run, and held during IO.
#[derive(Debug, Default)]
pub struct GarbageWatch {
    known_io: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    covered: Covered,
    quiet: Option<Box<Quiet>>,
    superseded: Option<FewSuperseded>,
}

/// What was looked at when newer tables superseded too little. That stays so while it is the same,
/// until enough entries have come in new tables or expired, or range tombstones cover more.
#[derive(Debug)]
struct FewSuperseded {
    sight: Sight,
    unneeded: Unneeded,
    entries_added: u64,
    /// The tables with range tombstones.
    covering: HashSet<TableId>,
    at_ms: u64,
}

/// What was looked at when nothing was found. Nothing will be found while it is the same.
#[derive(Debug)]
struct Quiet {
    version: Weak<Version>,
    sight: Sight,
    until_ms: u64,
    looked_at: LookedAt,
}

/// What else than tables and time decides whether something is garbage.
#[derive(Debug, PartialEq)]
struct Sight {
    snapshots: Vec<SequenceNumber>,
    floor: Option<SequenceNumber>,
    rules: Rules,
}

impl Sight {
    fn of(moment: &Moment, options: &TreeOptions) -> Self {
        let (snapshots, floor) = (moment.stripes.snapshots().to_vec(), moment.stripes.floor());
        Self { snapshots, floor, rules: rules(options) }
    }

    fn is_of(&self, moment: &Moment, options: &TreeOptions) -> bool {
        self.snapshots == moment.stripes.snapshots()
            && self.floor == moment.stripes.floor()
            && self.rules == rules(options)
    }
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LookedAt {
    /// What each table tells of itself.
    EachTable,
    /// Also what tables supersede of each other, as is done while there are no writes.
    All,
}

impl LookedAt {
    fn during(load: WriteLoad) -> Self {
        if load == WriteLoad::Idle { Self::All } else { Self::EachTable }
    }
}

/// The options that decide what is rewritten.
type Rules = (CompactionStrategy, u32);

fn rules(options: &TreeOptions) -> Rules {
    (options.compaction, options.garbage_percent_trigger)
}

impl Quiet {
    fn is_of(&self, version: &Arc<Version>, options: &TreeOptions) -> bool {
        let is_same = std::ptr::eq(self.version.as_ptr(), Arc::as_ptr(version));
        is_same && self.sight.rules == rules(options)
    }
}

impl Known {
    /// As [`pick_superseded`], but for looks that cannot find more than the last one did.
    fn pick_superseded(
        &mut self,
        version: &Version,
        options: &TreeOptions,
        busy: &Busy,
        moment: &Moment,
    ) -> Option<Plan> {
        let is_few = self.superseded.as_ref().is_some_and(|few| {
            let entries = version.entries_added().saturating_sub(few.entries_added);
            let may_have_expired = moment.now_ms.saturating_sub(few.at_ms) >= LOOK_AGAIN_MS
                && version.below(|sum| sum.extremes.expiry_max_ms > few.at_ms).next().is_some();
            // One may cover any part of what the tables have.
            let covers_more = version
                .with_range_tombstones()
                .any(|(_, table)| !few.covering.contains(&table.id()));
            few.sight.is_of(moment, options)
                && !may_have_expired
                && !covers_more
                && !few.unneeded.may_be_fair_part(version, options, entries)
        });
        if is_few {
            return None;
        }
        let found = pick_superseded(version, &self.covered, options, busy, moment);
        self.superseded = match found {
            SupersededLook::Little(unneeded) => Some(FewSuperseded {
                sight: Sight::of(moment, options),
                unneeded,
                entries_added: version.entries_added(),
                covering: version.with_range_tombstones().map(|(_, table)| table.id()).collect(),
                at_ms: moment.now_ms,
            }),
            SupersededLook::Plan(_) | SupersededLook::Held => None,
        };
        found.plan()
    }
}

impl GarbageWatch {
    /// The removal of the tables that leave a FIFO tree, or that no reader can see anything of any
    /// more, noted in `busy` if there are any.
    ///
    /// Cost: nothing, if since the last call that found nothing neither the tables, the snapshots,
    /// the retention floor nor the options have changed and nothing has expired. Else a look at
    /// each table that may be garbage, and three reads for each that is new and has range
    /// tombstones.
    pub fn begin_drop(
        &self,
        version: impl Fn() -> Arc<Version>,
        busy: &Mutex<Busy>,
        moment: &Moment,
        options: &TreeOptions,
    ) -> Option<Plan> {
        if let CompactionStrategy::Fifo { .. } = options.compaction {
            let mut busy = lock(busy);
            let leaving = pick_leaving(&version(), options, &busy, moment);
            if let Some(plan) = leaving.filter(|_| !busy.is_paused()) {
                busy.begin(&plan);
                return Some(plan);
            }
        }
        let pick = |version: &Arc<Version>, known: &mut Known, busy: &Busy| {
            pick_drop(version, &known.covered, busy, moment)
        };
        self.begin(version, busy, moment, options, LookedAt::EachTable, pick)
    }

    /// As [`GarbageWatch::begin_drop`], or else the rewrite of tables that are garbage for a fair
    /// part. While writers of `load` are idle, also the compaction of tables that supersede a fair
    /// part of others.
    pub fn begin_rewrite(
        &self,
        version: impl Fn() -> Arc<Version>,
        busy: &Mutex<Busy>,
        moment: &Moment,
        load: WriteLoad,
        options: &TreeOptions,
    ) -> Option<Plan> {
        let looked_at = LookedAt::during(load);
        let pick = |version: &Arc<Version>, known: &mut Known, busy: &Busy| {
            // All pickers see one version, so that "nothing found" holds for that version.
            let plan = pick_drop(version, &known.covered, busy, moment)
                .or_else(|| pick_rewrite(version, &known.covered, options, busy, moment))
                .or_else(|| match looked_at {
                    LookedAt::EachTable => None,
                    LookedAt::All => known.pick_superseded(version, options, busy, moment),
                });
            // What a running plan takes, or an index not read yet tells, is looked at again.
            if plan.is_none() && busy.is_empty() && !known.covered.has_unread() {
                known.quiet = Some(Box::new(Quiet {
                    version: Arc::downgrade(version),
                    sight: Sight::of(moment, options),
                    until_ms: next_expiry_ms(version, options, moment.now_ms).unwrap_or(u64::MAX),
                    looked_at,
                }));
            }
            plan
        };
        self.begin(version, busy, moment, options, looked_at, pick)
    }

    fn begin(
        &self,
        version: impl Fn() -> Arc<Version>,
        busy: &Mutex<Busy>,
        moment: &Moment,
        options: &TreeOptions,
        looked_at: LookedAt,
        pick: impl FnOnce(&Arc<Version>, &mut Known, &Busy) -> Option<Plan>,
    ) -> Option<Plan> {
        let mut known = lock(&self.known_io);
        let before = version();
        let is_quiet = known.quiet.as_ref().is_some_and(|quiet| {
            quiet.is_of(&before, options)
                && quiet.sight.is_of(moment, options)
                && moment.now_ms < quiet.until_ms
                && looked_at <= quiet.looked_at
        });
        if is_quiet {
            return None;
        }
        known.covered.follow(&before);
        let mut busy = lock(busy);
        if busy.is_paused() {
            return None;
        }
        // Under `busy`, so that all tables that no plan takes are there. What was found out of a
        // table holds in every version that has it.
        let plan = pick(&version(), &mut known, &busy)?;
        busy.begin(&plan);
        Some(plan)
    }

    /// Reads some indexes of tables that range tombstones cover in part, to find out how much of
    /// them is covered. Says whether there were any, so that there may be more to do.
    pub fn scan(&self, version: impl Fn() -> Arc<Version>) -> bool {
        // Another thread may have found out meanwhile what this one was to.
        let is_scanned = self.known_io.try_lock().is_err();
        let mut known = lock(&self.known_io);
        let version = version();
        let read = (0..INDEXES_MAX).take_while(|_| known.covered.read_index(&version)).count();
        if read > 0 {
            // More of them is known to be covered.
            known.superseded = None;
        }
        is_scanned || read > 0
    }

    /// Until when nothing of `version` becomes garbage by time alone, in ms since 1970, if it was
    /// found to have none while there were no writes. A snapshot that goes may make some.
    #[must_use]
    pub fn quiet_until_ms(&self, version: &Arc<Version>, options: &TreeOptions) -> Option<u64> {
        let known = lock(&self.known_io);
        let quiet = known.quiet.as_ref().filter(|quiet| quiet.is_of(version, options));
        let quiet = quiet.filter(|quiet| quiet.looked_at == LookedAt::All);
        quiet.map(|quiet| quiet.until_ms)
    }
}

#[cfg(test)]
mod tests;
