//! One family's ordered map: what it is now, and the only two ways in which that changes.
//!
//! It starts no thread, and writes no log and no manifest. The engine fills memtables; jobs return
//! changes, and the engine installs them here once they are durable.

use crate::{
    files::open_files::{OpenFiles, OpenReference, TableId},
    files::version::Version,
    memory::{Generation, Holders, Memtables},
    options::TreeOptions,
    planning::garbage_watch::GarbageWatch,
    planning::pick_garbage::{Moment, is_worth_flush},
    planning::pick_leveled::WriteLoad,
    planning::pick_range::{Request, Step, plan_request},
    planning::pick_tier::{misplaced, pick_tier, wanted_tier},
    planning::plan::{Busy, Placed, Plan, PlanInput, PlanKind, Reason},
    planning::strategy::{is_quiet, pick, pick_small},
    read::commit_hook::CommitHook,
    read::empty_ranges::EmptyRanges,
    read::folds::Folds,
    read::view::View,
    retain::stripes::Stripes,
    rewrite::compact::Compaction,
    rewrite::flush::FlushInput,
};
use arc_swap::{ArcSwap, Guard};
use siltdb_base::{
    error::Result,
    id::{FamilyId, SequenceNumber},
    sync::lock,
};
use siltdb_disk::{
    edit::{Change, tier::Tier},
    table_meta::KeySpan,
};
use siltdb_memtable::{arena::ArenaPool, memtable::Memtable};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

/// One family's ordered map across memory and disk.
///
/// # Thread safety
/// Any thread may read, and ask for memtables. Versions are changed by one thread at a time: the
/// engine's install.
///
/// # Invariants
/// 1. The view is replaced under `change`, as a whole. `changes` counts up after each replacement
///    and before the lock is given back. A reader that finds the count unchanged after looking at
///    the published sequence number had, when that was published, the current view.
/// 2. Generations leave the memory oldest first, and none comes back: `flushed` is the newest that
///    has left.
///
/// Lock order: that of `garbage`, `busy`, `change`. The last two are not held during IO.
#[derive(Debug)]
pub struct Tree {
    id: FamilyId,
    files: Arc<OpenFiles>,
    options: ArcSwap<TreeOptions>,
    /// That of the options, at hand for each write.
    ttl_ms: AtomicU64,
    view: ArcSwap<View>,
    changes: AtomicU64,
    change: Mutex<Flushed>,
    busy: Mutex<Busy>,
    garbage: GarbageWatch,
    hook: CommitHook,
    empty_ranges: Arc<EmptyRanges>,
    holders: Arc<Holders>,
    folds: Arc<Folds>,
}

/// The newest generation that has left the memory.
#[derive(Debug)]
struct Flushed(Option<Generation>);

/// A version that is worked out but not in force yet.
#[derive(Debug)]
pub struct Prepared {
    base: Arc<Version>,
    version: Arc<Version>,
}

impl Prepared {
    /// The version it leads to.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }
}

impl Tree {
    /// An empty tree.
    #[must_use]
    pub fn new(id: FamilyId, options: TreeOptions, files: Arc<OpenFiles>) -> Self {
        let view = View { memory: Memtables::default(), version: Arc::new(Version::empty()) };
        let folds = Arc::new(Folds::new(Arc::clone(files.cache())));
        let mut hook = CommitHook::default();
        let empty_ranges = hook.add(EmptyRanges::new);
        Self {
            id,
            files,
            ttl_ms: AtomicU64::new(options.ttl_ms),
            options: ArcSwap::from_pointee(options),
            view: ArcSwap::from_pointee(view),
            changes: AtomicU64::new(0),
            change: Mutex::new(Flushed(None)),
            busy: Mutex::default(),
            garbage: GarbageWatch::default(),
            hook,
            empty_ranges,
            holders: Arc::default(),
            folds,
        }
    }

    /// Has the tree note in `holders` the generations of its memtables.
    #[must_use]
    pub fn with_holders(self, holders: Arc<Holders>) -> Self {
        Self { holders, ..self }
    }

    /// The same tree with these memtables and tables.
    #[must_use]
    pub fn with_view(self, memory: Memtables, version: Arc<Version>) -> Self {
        Self { view: ArcSwap::from_pointee(View { memory, version }), ..self }
    }

    /// The id of the family.
    #[must_use]
    pub fn id(&self) -> FamilyId {
        self.id
    }

    /// The files of the database.
    #[must_use]
    pub fn files(&self) -> &Arc<OpenFiles> {
        &self.files
    }

    /// The options as they are now.
    #[must_use]
    pub fn options(&self) -> Arc<TreeOptions> {
        self.options.load_full()
    }

    /// The options as they are now, for a moment: no reference count is touched, so that readers on
    /// many threads do not contend for it.
    #[inline]
    #[must_use]
    pub fn peek_options(&self) -> Guard<Arc<TreeOptions>> {
        self.options.load()
    }

    /// The time from a write without an expiry to the expiry of its value, in ms; 0 for none.
    #[inline]
    #[must_use]
    pub fn ttl_ms(&self) -> u64 {
        // Relaxed: a write that races with a change of the options follows either.
        self.ttl_ms.load(Ordering::Relaxed)
    }

    /// Changes the options for whatever begins from now on.
    pub fn set_options(&self, options: TreeOptions) {
        // Relaxed: as in `ttl_ms`.
        self.ttl_ms.store(options.ttl_ms, Ordering::Relaxed);
        self.options.store(Arc::new(options));
    }

    /// The hook that is told of commits. Every writer runs it once its entries are in the
    /// memtables, and before they are published.
    #[inline]
    #[must_use]
    pub fn commit_hook(&self) -> &CommitHook {
        &self.hook
    }

    /// The empty ranges of the family, which its commit hook keeps up to date.
    #[inline]
    #[must_use]
    pub fn empty_ranges(&self) -> &Arc<EmptyRanges> {
        &self.empty_ranges
    }

    /// What readers have folded.
    #[inline]
    #[must_use]
    pub fn folds(&self) -> &Arc<Folds> {
        &self.folds
    }

    /// What the tree is now.
    ///
    /// Good for reading at a sequence number that is *registered* as a snapshot. A reader that
    /// reads at the published present without registering it must use [`Tree::pin`].
    #[inline]
    #[must_use]
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The view, and a sequence number it is good for without being registered. That number is what
    /// `published` gives, which must be an acquiring load of the published present.
    ///
    /// The view is taken first, so that no flush or compaction can have dropped a version that is
    /// visible at the sequence number. It must still be current after that, so that it has the
    /// memtable of everything published by then. If a memtable has come meanwhile, both are taken
    /// anew.
    #[inline]
    pub fn pin(
        &self,
        published: impl Fn() -> SequenceNumber,
    ) -> (Guard<Arc<View>>, SequenceNumber) {
        loop {
            // Acquire: pairs with the release in `replace`; the view is at least as new as the
            // count.
            let before = self.changes.load(Ordering::Acquire);
            let view = self.view.load();
            let present = published();
            // Acquire, by (1): a writer replaced the view and counted before it published, and its
            // publication was acquired by `published`.
            if self.changes.load(Ordering::Acquire) == before {
                return (view, present);
            }
        }
    }

    /// The memtable that entries of `generation` go to, made if there is none yet.
    ///
    /// Cost, if it is there and the newest: a load and a reference count.
    ///
    /// # Panics
    /// If the generation has been flushed already: its log is gone, so the entry would be lost.
    #[inline]
    pub fn memtable(&self, generation: Generation, arenas: &Arc<ArenaPool>) -> Arc<Memtable> {
        match self.view.load().memory.find(generation) {
            Some(memtable) => memtable.clone(),
            None => self.new_memtable(generation, arenas),
        }
    }

    /// Does something with the memtable that entries of `generation` go to; as [`Tree::memtable`],
    /// without a reference count that writers would contend for.
    ///
    /// # Panics
    /// Where [`Tree::memtable`] does.
    #[inline]
    pub fn with_memtable(
        &self,
        generation: Generation,
        arenas: &Arc<ArenaPool>,
        write: impl FnOnce(&Memtable),
    ) {
        match self.view.load().memory.find(generation) {
            Some(memtable) => write(memtable),
            None => write(&self.new_memtable(generation, arenas)),
        }
    }

    #[cold]
    fn new_memtable(&self, generation: Generation, arenas: &Arc<ArenaPool>) -> Arc<Memtable> {
        let flushed = lock(&self.change);
        let view = self.view.load_full();
        if let Some(memtable) = view.memory.find(generation) {
            return memtable.clone();
        }
        assert!(flushed.0.is_none_or(|flushed| flushed < generation), "the generation is gone");
        let memtable = Memtable::new(arenas);
        let memory = view.memory.with(generation, memtable.clone());
        // Before any entry can be in it: a flush of the generation has waited for its writers.
        self.holders.note(generation, self.id);
        self.replace(View { memory, version: view.version.clone() });
        memtable
    }

    /// Puts a view in force. The caller holds `change`.
    fn replace(&self, view: View) {
        self.view.store(Arc::new(view));
        // Release: pairs with the loads in `pin`, by (1).
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Works out the version that the family's changes among `changes` lead to, before they are
    /// made durable. Changes that cannot be applied must not get into the manifest.
    ///
    /// # Errors
    /// Corruption, as [`Version::apply`].
    pub fn prepare<'c>(&self, changes: impl IntoIterator<Item = &'c Change>) -> Result<Prepared> {
        let base = self.view.load().version.clone();
        let version = Arc::new(base.apply(&self.files, self.id, changes)?);
        Ok(Prepared { base, version })
    }

    /// Puts a prepared version in force, and in the same step takes the memtable of `flushed` out,
    /// if the tree has one of that generation.
    ///
    /// # Panics
    /// If another version came into force since it was prepared, or an older generation is still in
    /// memory.
    pub fn install(&self, prepared: Prepared, flushed: Option<Generation>) {
        let mut last = lock(&self.change);
        let view = self.view.load_full();
        assert!(Arc::ptr_eq(&view.version, &prepared.base), "versions are installed in order");
        let memory = match flushed {
            None => view.memory.clone(),
            Some(generation) => {
                let oldest = view.memory.oldest();
                assert!(
                    oldest.is_none_or(|oldest| oldest >= generation),
                    "generations are installed oldest first"
                );
                last.0 = last.0.max(Some(generation));
                view.memory.without(generation)
            }
        };
        self.replace(View { memory, version: prepared.version });
        drop(last);
        if flushed.is_some() {
            self.folds.clear();
        }
    }

    /// [`Tree::prepare`] and [`Tree::install`] at once, for changes that are durable already, such
    /// as those that recovery reads.
    ///
    /// # Errors
    /// Corruption, as [`Version::apply`]; the tree stays as it is.
    pub fn apply(&self, changes: &[Change], flushed: Option<Generation>) -> Result<()> {
        let prepared = self.prepare(changes)?;
        self.install(prepared, flushed);
        Ok(())
    }

    /// The tree's part in the flush of `generation`; `None` if it has no memtable of it.
    ///
    /// No writer may be at work on the generation any more.
    #[must_use]
    pub fn flush_input(&self, generation: Generation) -> Option<FlushInput> {
        let view = self.view.load_full();
        let memtable = view.memory.find(generation)?.clone();
        let (family, options) = (self.id, self.options());
        Some(FlushInput { family, options, generation, memtable, view })
    }

    /// The merge that `plan` asks for, in at most `parallelism` parts.
    ///
    /// `stripes` must have been taken after everything in the inputs was published.
    ///
    /// # Errors
    /// What opening the inputs fails with.
    ///
    /// # Panics
    /// If the plan is a move.
    pub fn compaction(
        &self,
        plan: Plan,
        stripes: Stripes,
        parallelism: usize,
    ) -> Result<Arc<Compaction>> {
        let version = self.view.load().version.clone();
        Compaction::new(self.id, self.options(), plan, &version, stripes, parallelism)
    }

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
    /// [`GarbageWatch::begin_drop`].
    pub fn begin_drop(&self, moment: &Moment) -> Option<Plan> {
        self.garbage.begin_drop(|| self.version(), &self.busy, moment, &self.options.load())
    }

    /// As [`Tree::begin_drop`], or else the rewrite of tables that are garbage for a fair part.
    pub fn begin_rewrite(&self, moment: &Moment) -> Option<Plan> {
        self.garbage.begin_rewrite(|| self.version(), &self.busy, moment, &self.options.load())
    }

    /// Finds out more about what can be removed or rewritten; says whether there was any to find
    /// out. Costs as [`GarbageWatch::scan`].
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
        misplaced(&version, &options, newest).map(|(_, table)| table.bytes()).sum()
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
        let (level, found) = version.tables().find(|(_, found)| found.id() == table)?;
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
    /// many plans have begun so far.
    pub fn cancel_plans(&self) -> u64 {
        lock(&self.busy).cancel_all()
    }

    /// How many plans have begun so far, if none is running and none is kept from beginning.
    #[must_use]
    pub fn idle_after(&self) -> Option<u64> {
        let busy = lock(&self.busy);
        (busy.is_empty() && !busy.is_paused()).then(|| busy.begun())
    }

    /// How many plans have begun so far.
    #[must_use]
    pub fn plans_begun(&self) -> u64 {
        lock(&self.busy).begun()
    }

    /// Whether one of the first `count` plans that began is still running.
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
    pub fn end_plan(&self, plan: &Plan) {
        lock(&self.busy).end(plan);
    }
}

/// While it lives no compaction of the tree begins by itself.
#[derive(Debug)]
pub struct Pause<'a> {
    busy: &'a Mutex<Busy>,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        lock(self.busy).resume();
    }
}

/// While it lives no table of the tree gets another file number by a move.
#[derive(Debug)]
pub struct KeptNumbers<'a> {
    busy: &'a Mutex<Busy>,
}

impl Drop for KeptNumbers<'_> {
    fn drop(&mut self) {
        lock(self.busy).release_numbers();
    }
}

#[cfg(test)]
mod tests;
