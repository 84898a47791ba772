//! What a tree does next: plans of compactions, moves and drops, and their ends.
//!
//! It picks by pure functions, and notes what runs. It carries nothing out.

use super::Tree;
use super::held::{KeptNumbers, Pause};
use crate::{
    files::open_files::{OpenReference, TableId},
    files::version::Version,
    planning::pick_blobs::pick_blobs,
    planning::pick_garbage::{Moment, is_worth_flush},
    planning::pick_leveled::WriteLoad,
    planning::pick_range::{Request, Step, plan_request},
    planning::pick_tier::{misplaced, pick_tier, wanted_tier},
    planning::plan::{MovedBlobs, Placed, Plan, PlanInput, PlanKind, PlanName, Reason},
    planning::strategy::{is_quiet, pick, pick_small},
};
use siltdb_base::{error::Result, id::SequenceNumber, sync::lock};
use siltdb_disk::{edit::tier::Tier, table_meta::KeySpan};
use std::sync::Arc;

impl Tree {
    /// The next compaction that is due, noted as running: [`Tree::end_plan`] must follow.
    ///
    /// `oldest_snapshot` is the oldest sequence number that may still be read at.
    pub fn begin_plan(&self, oldest_snapshot: SequenceNumber, writers: WriteLoad) -> Option<Plan> {
        let mut busy = lock(&self.busy);
        if busy.is_paused() {
            return None;
        }
        let version = self.view.load().version.clone();
        let plan = pick(&version, &self.options.load(), &busy, oldest_snapshot, writers)?;
        busy.begin(&plan);
        Some(plan)
    }

    /// A compaction that joins small tables, if they are many and it takes at most `bytes_max` or
    /// moves them; noted as running: [`Tree::end_plan`] must follow.
    pub fn begin_small_plan(&self, bytes_max: u64) -> Option<Plan> {
        let mut busy = lock(&self.busy);
        if busy.is_paused() {
            return None;
        }
        let version = self.view.load().version.clone();
        let plan = pick_small(&version, &self.options.load(), &busy, WriteLoad::Light)?;
        if plan.kind == PlanKind::Rewrite && plan.bytes() > bytes_max {
            return None;
        }
        busy.begin(&plan);
        Some(plan)
    }

    /// Whether no compaction is due or running, whatever writers do, until tables or options change
    /// or [`Tree::version_without_garbage`] gives another than `version`.
    #[must_use]
    pub fn is_quiet(&self, version: &Arc<Version>) -> bool {
        let busy = lock(&self.busy);
        let view = self.view.load();
        busy.is_empty()
            && !busy.is_paused()
            && Arc::ptr_eq(&view.version, version)
            && is_quiet(version, &self.options.load())
    }

    /// The removal of the tables that leave a FIFO tree, or that no reader can see anything of any
    /// more, noted as running if there are any. [`Tree::end_plan`] must follow. Costs as
    /// [`GarbageWatch::begin_drop`](crate::planning::garbage_watch::GarbageWatch::begin_drop).
    pub fn begin_drop(&self, moment: &Moment) -> Option<Plan> {
        self.garbage.begin_drop(|| self.version(), &self.busy, moment, &self.options.load())
    }

    /// As [`Tree::begin_drop`], or else the rewrite of tables that are garbage for a fair part.
    /// While writers are idle, also the compaction of tables that supersede a fair part of others.
    pub fn begin_rewrite(&self, moment: &Moment, writers: WriteLoad) -> Option<Plan> {
        let options = self.options.load();
        self.garbage.begin_rewrite(|| self.version(), &self.busy, moment, writers, &options)
    }

    /// The rewrite of a table that refers to any of these blob files, which moves their values;
    /// noted as running: [`Tree::end_plan`] must follow.
    pub fn begin_moving(&self, files: &Arc<MovedBlobs>) -> Option<Plan> {
        let mut busy = lock(&self.busy);
        if busy.is_paused() {
            return None;
        }
        let plan = pick_blobs(&self.version(), &busy, files)?;
        busy.begin(&plan);
        Some(plan)
    }

    /// The rewrite of one table in its level, into a file of its own, noted as running:
    /// [`Tree::end_plan`] must follow. `None`, if it is not there any more, or a running plan takes
    /// it.
    pub fn begin_copy(&self, table: TableId) -> Option<Plan> {
        let mut busy = lock(&self.busy);
        if busy.is_paused() {
            return None;
        }
        let version = self.version();
        let (level, found) = version.find(table)?;
        let input = PlanInput { level, tables: vec![Arc::clone(found)] };
        let plan = Plan::new(PlanKind::Rewrite, Reason::Garbage, vec![input], level);
        if busy.conflicts(&plan) {
            return None;
        }
        busy.begin(&plan);
        Some(plan)
    }

    /// Finds out more about what can be removed or rewritten; says whether there was any to find
    /// out. Costs as [`GarbageWatch::scan`](crate::planning::garbage_watch::GarbageWatch::scan).
    pub fn scan_garbage(&self) -> bool {
        self.garbage.scan(|| self.version())
    }

    /// The tables now, if none of them was found to be garbage: none is until something expires or
    /// a snapshot goes.
    #[must_use]
    pub fn version_without_garbage(&self) -> Option<Arc<Version>> {
        let version = self.version();
        self.garbage.quiet_until_ms(&version, &self.options.load()).map(|_| version)
    }

    /// Whether a flush of what is in memory is worth it for the tables that go then.
    #[must_use]
    pub fn is_worth_flush(&self, moment: &Moment) -> bool {
        let view = self.view.load();
        is_worth_flush(&view.memory, &view.version, &self.options.load(), moment)
    }

    fn version(&self) -> Arc<Version> {
        self.view.load().version.clone()
    }

    /// The next step of a request; a plan is noted as running: [`Tree::end_plan`] must follow.
    pub fn begin_request(&self, request: &Request) -> Step {
        let mut busy = lock(&self.busy);
        let version = self.view.load().version.clone();
        match plan_request(&version, request, &self.options.load(), &busy) {
            Step::Plan(plan) => {
                let plan = Plan { given_up: request.given_up.clone(), ..plan };
                busy.begin(&plan);
                Step::Plan(plan)
            }
            step => step,
        }
    }

    /// Makes room for a request for everything. Running plans that it would repeat are cancelled,
    /// and none begins by itself until what is returned is dropped.
    ///
    /// Writers may need a compaction meanwhile, so that should be soon.
    ///
    /// # Errors
    /// What walking to the first and last keys in memory fails with.
    pub fn cancel_redundant(&self) -> Result<Pause<'_>> {
        let mut busy = lock(&self.busy);
        let view = self.view.load();
        busy.cancel_redundant(&view.version, &view.memory.ranges()?);
        busy.pause();
        Ok(Pause { busy: &self.busy })
    }

    /// The next table to move to another tier, and where to, among those with an entry of `newest`
    /// or before that `stays` does not hold back. None while a request runs.
    pub fn next_move(
        &self,
        newest: SequenceNumber,
        stays: &dyn Fn(TableId) -> bool,
    ) -> Option<(Arc<OpenReference>, Tier)> {
        let busy = lock(&self.busy);
        if busy.keeps_numbers() {
            return None;
        }
        let stays = |table: TableId| busy.holds(table) || stays(table);
        pick_tier(&self.version(), &self.options.load(), newest, &stays)
    }

    /// The bytes of the tables with an entry of `newest` or before that are to move to another
    /// tier.
    #[must_use]
    pub fn bytes_to_move(&self, newest: SequenceNumber) -> u64 {
        let (version, options) = (self.version(), self.options.load());
        misplaced(&version, &options, newest).map(|(_, table)| table.file_bytes()).sum()
    }

    /// The replacement of `table` by its copy in the tier `to`, noted as running:
    /// [`Tree::end_plan`] must follow. `None`, if the table is not there any more, belongs
    /// elsewhere, or a running plan or request needs it.
    pub fn begin_move(&self, table: TableId, to: Tier) -> Option<Plan> {
        let mut busy = lock(&self.busy);
        if busy.keeps_numbers() || busy.holds(table) {
            return None;
        }
        let version = self.version();
        let (level, found) = version.find(table)?;
        if wanted_tier(&self.options.load(), level) != to || found.reference().tier == to {
            return None;
        }
        let input = PlanInput { level, tables: vec![Arc::clone(found)] };
        let plan = Plan::new(PlanKind::TrivialMove, Reason::Tier, vec![input], level);
        if busy.conflicts(&plan) {
            return None;
        }
        busy.begin(&plan);
        Some(plan)
    }

    /// Lets no table get another file number by a move to another tier, until the result is
    /// dropped.
    pub fn keep_numbers(&self) -> KeptNumbers<'_> {
        lock(&self.busy).keep_numbers();
        KeptNumbers { busy: &self.busy }
    }

    /// Cancels all running plans, also those of requests: they end at their next block. Returns how
    /// many plans and pauses have begun so far.
    pub fn cancel_plans(&self) -> u64 {
        lock(&self.busy).cancel_all()
    }

    /// How many plans and pauses have begun so far, if none is running. If it is the same later,
    /// nothing kept a plan from beginning in between.
    #[must_use]
    pub fn idle_after(&self) -> Option<u64> {
        let busy = lock(&self.busy);
        (busy.is_empty() && !busy.is_paused()).then(|| busy.begun())
    }

    /// How many plans and pauses have begun so far.
    #[must_use]
    pub fn plans_begun(&self) -> u64 {
        lock(&self.busy).begun()
    }

    /// Whether a plan runs that began when [`Tree::plans_begun`] was less than `count`.
    #[must_use]
    pub fn runs_any_of(&self, count: u64) -> bool {
        lock(&self.busy).runs_any_of(count)
    }

    /// The lowest level that can take a new table of `range`, which is newer than all others. No
    /// compaction writes there until [`Tree::release`].
    pub fn place(&self, range: &KeySpan) -> Placed {
        let mut busy = lock(&self.busy);
        let version = self.view.load().version.clone();
        busy.place(&version, range)
    }

    /// Notes that an ingested table was installed or given up.
    pub fn release(&self, placed: Placed) {
        lock(&self.busy).release(placed);
    }

    /// Notes that a plan was installed or cancelled.
    ///
    /// # Panics
    /// If it is not running.
    pub fn end_plan(&self, plan: PlanName) {
        lock(&self.busy).end(plan);
    }
}
