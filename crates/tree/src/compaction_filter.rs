//! What a compaction does with values beside merging them: the user's rule for dropping and
//! changing them.
//!
//! It neither finds the values that may be shown to a filter, nor writes what a filter decides.

use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    limits::VALUE_BYTES_MAX,
    seeded_fault,
    sync::lock,
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A value that a filter decides about.
#[derive(Clone, Copy, Debug)]
pub struct FilteredEntry<'a> {
    /// The key as it is stored: in a family with a key order, its encoding.
    pub key: &'a [u8],
    /// The newest value of the key. A separated value was read from its blob file. Empty, if the
    /// filter needs no values.
    pub value: &'a [u8],
    /// The time at which the value expires, in ms since 1970, if it does.
    pub expiry_ms: Option<u64>,
    /// The sequence number of the put. At the bottom of the tree values that all readers see share
    /// an older one.
    pub sequence: SequenceNumber,
    /// The level that the compaction writes to.
    pub level: usize,
}

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// It stays as it is.
    Keep,
    /// The key has no value any more.
    Drop,
    /// The key gets this value; an expiry stays as it is.
    Change(Vec<u8>),
}

/// Decides which values of a family compactions drop or change.
///
/// A filter sees the newest value of a key, as far as the compaction knows it. It sees no deletion,
/// no merge operand, no older version, and nothing that a live snapshot or the retention floor can
/// see. Flushes do not ask it. The page *Compaction filters* of the documentation has the rules.
///
/// The decision should depend on the entry alone, or on a condition that once true stays true, such
/// as an age. A value is shown again by each compaction that reads it, until it is dropped.
///
/// A filter must not call the database, because `close` waits for the job that calls it. It should
/// not panic: after a panic the value stays, and the failure is counted in the statistics.
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// The name, stored with the family; another filter needs another name.
    fn name(&self) -> &str;

    /// What becomes of `entry`. A value longer than values may be counts as a failure.
    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision;

    /// Whether decisions depend on values. Default: true.
    ///
    /// If they do, each compaction reads the separated values that it asks about. If not, all
    /// values that are shown are empty, and no blob file is read.
    fn needs_values(&self) -> bool {
        true
    }
}

/// The error for a filter that a family needs and the options lack.
fn filter_not_given(name: &str) -> Error {
    Error::invalid(format!("the family needs the compaction filter {name:?}"))
        .with_hint("open the database with this filter")
}

/// The error for a filter that options of a family bring and the opening did not register.
fn filter_not_registered(name: &str) -> Error {
    Error::invalid(format!("the compaction filter {name:?} was not registered at the opening"))
        .with_hint(
            "a family stores the name alone: give the filter to `Options::compaction_filter` at \
             this opening and each later one",
        )
}

/// The filter of a family: its name, and the code if this process has it.
#[derive(Clone)]
pub struct NamedFilter {
    name: Arc<str>,
    code: Option<Arc<dyn CompactionFilter>>,
}

impl NamedFilter {
    /// The filter that is stored under `name`.
    #[must_use]
    pub fn stored(name: &str) -> Self {
        Self { name: name.into(), code: None }
    }

    /// A filter that is given.
    #[must_use]
    pub fn given(filter: Arc<dyn CompactionFilter>) -> Self {
        Self { name: filter.name().into(), code: Some(filter) }
    }

    /// The same with a substitute for code that was not given, for a database that is only written
    /// out. The substitute keeps everything.
    #[must_use]
    pub fn or_absent(self) -> Self {
        let absent = || -> Arc<dyn CompactionFilter> { Arc::new(AbsentFilter(self.name.clone())) };
        Self { code: Some(self.code.clone().unwrap_or_else(absent)), ..self }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Stands for a filter that was not given.
#[derive(Debug)]
struct AbsentFilter(Arc<str>);

impl CompactionFilter for AbsentFilter {
    fn name(&self) -> &str {
        &self.0
    }

    fn decide(&self, _: &FilteredEntry<'_>) -> FilterDecision {
        FilterDecision::Keep
    }
}

/// The name alone, which is what is stored.
impl fmt::Debug for NamedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.name, f)
    }
}

/// What the filters of a database have done since it was opened.
#[derive(Debug, Default)]
struct Counters {
    dropped: AtomicU64,
    changed: AtomicU64,
    failed: AtomicU64,
}

/// What the filters of a database have done since it was opened. A compaction that was cancelled
/// counts as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// The number of values dropped.
    pub dropped: u64,
    /// The number of values changed.
    pub changed: u64,
    /// The number of decisions that failed, so that the value stayed.
    pub failed: u64,
}

/// The filters that a database was given, by name.
///
/// # Thread safety
/// Any thread may call any method.
#[derive(Debug, Default)]
pub struct CompactionFilters {
    are_given: AtomicBool,
    given: Mutex<Vec<Arc<dyn CompactionFilter>>>,
    counters: Arc<Counters>,
}

impl CompactionFilters {
    /// The filters given at open.
    #[must_use]
    pub fn new(given: Vec<Arc<dyn CompactionFilter>>) -> Self {
        let are_given = AtomicBool::new(!given.is_empty());
        Self { are_given, given: Mutex::new(given), counters: Arc::default() }
    }

    /// Whether any family may have a filter.
    #[inline]
    #[must_use]
    pub fn are_given(&self) -> bool {
        // Acquire: a reader that finds options with a filter finds this set.
        self.are_given.load(Ordering::Acquire)
    }

    /// Learns the code of `named`, or checks that there is one of its name.
    ///
    /// # Errors
    /// `InvalidArgument`, if there is none.
    pub fn learn(&self, named: Option<&NamedFilter>) -> Result<()> {
        let Some(named) = named else { return Ok(()) };
        let mut given = lock(&self.given);
        if given.iter().any(|filter| filter.name() == named.name()) {
            return Ok(());
        }
        let code = named.code.clone().ok_or_else(|| filter_not_given(named.name()))?;
        given.push(code);
        // Release: pairs with `are_given`; options that name the filter are put in force later.
        self.are_given.store(true, Ordering::Release);
        Ok(())
    }

    /// Checks that the filter of options that a family is to get was given at open. A family with
    /// one that came with its options alone would work until the next opening, which would refuse
    /// it.
    ///
    /// # Seeded faults
    /// `unregistered_filter_accepted`: the next opening notices.
    ///
    /// # Errors
    /// `InvalidArgument`, if there is none of its name.
    pub fn check_given(&self, named: Option<&NamedFilter>) -> Result<()> {
        let Some(named) = named else { return Ok(()) };
        if lock(&self.given).iter().any(|filter| filter.name() == named.name()) {
            return Ok(());
        }
        match named.code {
            Some(_) if seeded_fault!("unregistered_filter_accepted") => self.learn(Some(named)),
            Some(_) => Err(filter_not_registered(named.name())),
            None => Err(filter_not_given(named.name())),
        }
    }

    /// The filter `named`, for a job that writes to `level`; `None`, if its code was not given.
    #[must_use]
    pub fn for_job(&self, named: &NamedFilter, level: usize) -> Option<JobFilter> {
        let given = lock(&self.given);
        let filter = given.iter().find(|filter| filter.name() == named.name())?;
        Some(JobFilter { filter: filter.clone(), level, counters: self.counters.clone() })
    }

    /// What the filters have done.
    #[must_use]
    pub fn counts(&self) -> FilterCounts {
        // Relaxed: the counters need not be exact at one moment.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { dropped, changed, failed } = &*self.counters;
        FilterCounts { dropped: count(dropped), changed: count(changed), failed: count(failed) }
    }
}

/// A filter at work in a job.
#[derive(Clone, Debug)]
pub struct JobFilter {
    filter: Arc<dyn CompactionFilter>,
    level: usize,
    counters: Arc<Counters>,
}

impl JobFilter {
    /// Whether the filter looks at values; a filter that panics here is shown them.
    #[must_use]
    pub fn needs_values(&self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.filter.needs_values())).unwrap_or(true)
    }

    /// What becomes of `entry`, at the level of the job.
    #[must_use]
    pub fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        let shown = FilteredEntry { level: self.level, ..*entry };
        let decide = AssertUnwindSafe(|| self.filter.decide(&shown));
        match catch_unwind(decide) {
            Ok(FilterDecision::Keep) => FilterDecision::Keep,
            Ok(FilterDecision::Drop) => {
                count(&self.counters.dropped);
                FilterDecision::Drop
            }
            Ok(FilterDecision::Change(value)) if value.len() <= VALUE_BYTES_MAX => {
                count(&self.counters.changed);
                FilterDecision::Change(value)
            }
            Ok(FilterDecision::Change(_)) | Err(_) => self.fail(),
        }
    }

    /// Counts a decision that cannot be made, so that the value stays.
    #[must_use]
    pub fn fail(&self) -> FilterDecision {
        count(&self.counters.failed);
        FilterDecision::Keep
    }
}

fn count(counter: &AtomicU64) {
    // Relaxed: a number that nothing depends on.
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
