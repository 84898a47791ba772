//! One family's ordered map: what it is now, and the only two ways in which that changes.
//!
//! It starts no thread, and writes no log and no manifest. The engine fills memtables; jobs return
//! changes, and the engine installs them here once they are durable.

mod held;
mod plans;

pub use held::{KeptNumbers, Pause};

use crate::{
    files::open_files::OpenFiles,
    files::version::Version,
    memory::{Generation, Holders, Memtables},
    options::TreeOptions,
    planning::garbage_watch::GarbageWatch,
    planning::plan::{Busy, Plan},
    read::commit_hook::CommitHook,
    read::empty_ranges::EmptyRanges,
    read::folds::Folds,
    read::view::View,
    retain::stripes::Stripes,
    rewrite::compact::{Compaction, FilterSources, Subjob},
    rewrite::flush::FlushInput,
};
use arc_swap::{ArcSwap, Guard};
use siltdb_base::{
    budget::{Charge, Part},
    error::Result,
    id::{FamilyId, SequenceNumber},
    invariant,
    sync::lock,
};
use siltdb_disk::edit::Change;
use siltdb_memtable::{arena::ArenaPool, memtable::Memtable};
use std::sync::{
    Arc, Mutex, OnceLock,
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
    /// [`TreeOptions::separated_from`], for writers to look at.
    separated_from: AtomicU64,
    /// That of the options, at hand for each write.
    ttl_ms: AtomicU64,
    view: ArcSwap<View>,
    changes: AtomicU64,
    change: Mutex<Flushed>,
    busy: Mutex<Busy>,
    garbage: GarbageWatch,
    holders: Arc<Holders>,
    readers: OnceLock<Box<OfReaders>>,
    _charge: Charge,
}

/// What a family takes beside its memtables, its tables and what its readers keep, in bytes: the
/// tree, its view, and about half as much for its name and locks. Its places in maps are charged
/// by the engine.
const FAMILY_BYTES: usize = 3 * (size_of::<Tree>() + size_of::<View>() + size_of::<Version>()) / 2;

/// What readers keep of a tree. It is made for the first of them, because most trees of a database
/// with many branches are never read.
#[derive(Debug)]
struct OfReaders {
    hook: CommitHook,
    empty_ranges: Arc<EmptyRanges>,
    folds: Arc<Folds>,
}

impl OfReaders {
    fn new(files: &OpenFiles) -> Self {
        let mut hook = CommitHook::default();
        let empty_ranges = hook.add(EmptyRanges::new);
        Self { hook, empty_ranges, folds: Arc::new(Folds::new(Arc::clone(files.cache()))) }
    }
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

impl Tree {
    /// An empty tree. Trees may share their options.
    #[must_use]
    pub fn new(id: FamilyId, options: impl Into<Arc<TreeOptions>>, files: Arc<OpenFiles>) -> Self {
        let (options, budget) = (options.into(), Arc::clone(files.cache().budget()));
        let view = View { memory: Memtables::default(), version: Version::none() };
        Self {
            id,
            files,
            separated_from: AtomicU64::new(options.separated_from()),
            ttl_ms: AtomicU64::new(options.ttl_ms),
            options: ArcSwap::new(options),
            view: ArcSwap::from_pointee(view),
            changes: AtomicU64::new(0),
            change: Mutex::new(Flushed(None)),
            busy: Mutex::default(),
            garbage: GarbageWatch::default(),
            holders: Arc::default(),
            readers: OnceLock::new(),
            _charge: Charge::new(&budget, Part::Families, FAMILY_BYTES),
        }
    }

    /// Has the tree note in `holders` the generations of its memtables.
    #[must_use]
    pub fn with_holders(self, holders: Arc<Holders>) -> Self {
        Self { holders, ..self }
    }

    /// Where the tree notes the generations of its memtables.
    #[must_use]
    pub fn holders(&self) -> &Arc<Holders> {
        &self.holders
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
        self.separated_from.store(options.separated_from(), Ordering::Relaxed);
        // Relaxed: as in `ttl_ms`.
        self.ttl_ms.store(options.ttl_ms, Ordering::Relaxed);
        self.options.store(Arc::new(options));
    }

    /// [`TreeOptions::separated_from`] of the options as they are now.
    #[inline]
    #[must_use]
    pub fn separated_from(&self) -> u64 {
        // Relaxed: a write beside a change of options follows either.
        self.separated_from.load(Ordering::Relaxed)
    }

    /// The hook that is told of commits; `None` while there was no reader. Every writer runs it
    /// once its entries are in the memtables, and before they are published.
    ///
    /// A reader that has the hook tell it makes it first, and sets its wish under the lock of the
    /// sequence numbers. So a writer that got its number later finds it.
    #[inline]
    #[must_use]
    pub fn commit_hook(&self) -> Option<&CommitHook> {
        self.readers.get().map(|readers| &readers.hook)
    }

    /// The same for an ingest, which tells it in any case: a reader that comes before the ingest is
    /// published must know of it, and has no number that is later.
    #[must_use]
    pub fn hook_of_ingests(&self) -> &CommitHook {
        &self.readers().hook
    }

    #[inline]
    fn readers(&self) -> &OfReaders {
        self.readers.get_or_init(|| Box::new(OfReaders::new(&self.files)))
    }

    /// The empty ranges of the family, which its commit hook keeps up to date.
    #[inline]
    #[must_use]
    pub fn empty_ranges(&self) -> &Arc<EmptyRanges> {
        &self.readers().empty_ranges
    }

    /// What readers have folded.
    #[inline]
    #[must_use]
    pub fn folds(&self) -> &Arc<Folds> {
        &self.readers().folds
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
        invariant!(
            prepared.version.check().is_ok(),
            "a version comes into force: {:?}",
            prepared.version.check()
        );
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
        let of_flushed = flushed.and_then(|generation| memory.find(generation));
        assert!(of_flushed.is_none(), "a memtable stays although its tables are installed");
        self.replace(View { memory, version: prepared.version });
        drop(last);
        if flushed.is_some()
            && let Some(readers) = self.readers.get()
        {
            readers.folds.clear();
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

    /// The merge that `plan` asks for, in at most `parallelism` parts, under the present options.
    /// `stripes` is called with these.
    ///
    /// # Errors
    /// As [`Compaction::new`], which also panics if the plan is a move.
    pub fn compaction(
        &self,
        plan: Plan,
        stripes: impl FnOnce(&TreeOptions) -> Stripes,
        sources: FilterSources<'_>,
        parallelism: usize,
    ) -> Result<(Arc<Compaction>, Vec<Subjob>)> {
        let (options, version) = (self.options(), self.view.load().version.clone());
        let stripes = stripes(&options);
        Compaction::new(self.id, options, plan, &version, stripes, sources, parallelism)
    }
}

#[cfg(test)]
mod tests;
