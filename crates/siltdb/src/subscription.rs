//! The change feed: every commit, once, in the order of the commits.
//!
//! A subscription reads the log behind the writers and costs them nothing. It has no thread of its
//! own: the program pulls from it on any thread. So the program decides how to react to slow
//! processing or a panic.

use crate::{
    db::Db,
    family::Family,
    operation::{Action, Operation, Operations},
};
use siltdb_base::{
    error::{Error, Result},
    id::{FamilyId, SequenceNumber},
};
use siltdb_disk::{
    batch::{BatchOperations, operations},
    edit::Change as Edit,
};
use siltdb_engine::{
    engine::Engine,
    read::{
        ReadRange,
        feed::{Feed, FeedCommit, FeedItem},
    },
};
use siltdb_services::follow::log_feed::LogFeed;
use std::{
    fmt,
    iter::FusedIterator,
    ops::{Bound, RangeInclusive},
    sync::Arc,
    time::Duration,
};

/// Longest single wait of the iterator, which then waits again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Options of a subscription: which changes, and from where on. Default: all changes after the
/// call.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    start: Start,
    filter: Filter,
}

#[derive(Clone, Copy, Debug, Default)]
enum Start {
    /// Behind the newest commit.
    #[default]
    Now,
    /// At the oldest commit in the log.
    Oldest,
    At(u64),
}

#[derive(Clone, Debug, Default)]
struct Filter {
    family: Option<FamilyId>,
    prefix: Vec<u8>,
    /// The first key after those with the prefix; `None` if there is none.
    prefix_end: Option<Vec<u8>>,
}

impl SubscribeOptions {
    /// Selects all families and keys, from the next commit on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects changes of this family only.
    #[must_use]
    pub fn family(mut self, family: &Family) -> Self {
        self.filter.family = Some(family.id());
        self
    }

    /// Selects changes of keys with this prefix, and deletions of ranges that may have such keys.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.filter.prefix = prefix.as_ref().to_vec();
        self.filter.prefix_end = match ReadRange::prefix(&self.filter.prefix).end {
            Bound::Excluded(end) => Some(end.to_vec()),
            Bound::Included(_) | Bound::Unbounded => None,
        };
        self
    }

    /// Starts at this sequence number: [`Subscription::position`] of an earlier subscription, or
    /// one more than the last number that was processed. If it is in the middle of a commit, the
    /// whole commit is returned. 0 counts as 1, the first number.
    #[must_use]
    pub fn from(mut self, sequence: u64) -> Self {
        self.start = Start::At(sequence);
        self
    }

    /// Starts at the oldest commit that the log still has.
    #[must_use]
    pub fn from_oldest(mut self) -> Self {
        self.start = Start::Oldest;
        self
    }
}

/// An item of the change feed.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Event {
    /// A commit with operations or families that the subscription selects.
    Commit(Commit),
    /// The log has no record of these sequence numbers; the database has their effects. They are
    /// commits with [`Durability::Volatile`](crate::Durability::Volatile), ingests, or commits that
    /// reached tables before a power loss took them from the log. Returned to every subscription,
    /// whatever it selects.
    Unlogged(RangeInclusive<u64>),
}

/// A commit: one [`WriteBatch`](crate::WriteBatch), transaction or single write.
#[derive(Clone)]
pub struct Commit {
    /// First sequence number.
    pub first: u64,
    /// Last sequence number.
    pub last: u64,
    families: Vec<FamilyChange>,
    stored: FeedCommit,
    filter: Arc<Filter>,
}

impl fmt::Debug for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commit")
            .field("first", &self.first)
            .field("last", &self.last)
            .field("families", &self.families)
            .field("changes", &self.changes().collect::<Vec<_>>())
            .finish()
    }
}

/// One operation of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyChange<'a> {
    /// Sequence number of the operation.
    pub sequence: u64,
    /// The family, the key and the effect.
    pub operation: Operation<'a>,
}

/// A family that a batch created or dropped.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// A family was created.
    Created {
        /// Id of the family.
        id: FamilyId,
        /// Name of the family.
        name: String,
    },
    /// A family was dropped with all its data.
    Dropped {
        /// Id of the family.
        id: FamilyId,
    },
}

impl FamilyChange {
    fn id(&self) -> FamilyId {
        match self {
            Self::Created { id, .. } | Self::Dropped { id } => *id,
        }
    }
}

impl Commit {
    /// Returns the operations that the subscription selects, in the order in which they apply.
    #[must_use]
    pub fn changes(&self) -> KeyChanges<'_> {
        let operations = Operations::new(self.stored());
        let sequence = self.last + 1 - u64::from(self.stored.count);
        KeyChanges { operations, sequence, filter: &self.filter }
    }

    /// Returns the families that the commit created or dropped, ahead of its operations.
    /// [`Db::create_family`], [`Db::drop_family`] and [`Db::rename_family`] do not appear in the
    /// feed.
    #[must_use]
    pub fn families(&self) -> &[FamilyChange] {
        &self.families
    }

    fn stored(&self) -> BatchOperations<'_> {
        operations(&self.stored.operations, self.stored.count)
    }

    /// Decodes the whole commit once, because bytes from disk are untrusted.
    fn check(&self) -> Result<()> {
        self.stored().try_for_each(|stored| stored.and_then(Operation::try_from).map(|_| ()))
    }
}

/// Iterates over the operations of a commit; see [`Commit::changes`].
#[derive(Clone, Debug)]
pub struct KeyChanges<'a> {
    operations: Operations<'a>,
    sequence: u64,
    filter: &'a Filter,
}

impl<'a> Iterator for KeyChanges<'a> {
    type Item = KeyChange<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let operation = self.operations.next()?;
            let sequence = self.sequence;
            self.sequence += 1;
            if self.filter.wants(&operation) {
                return Some(KeyChange { sequence, operation });
            }
        }
    }
}

impl Filter {
    fn wants(&self, operation: &Operation<'_>) -> bool {
        let is_family = self.family.is_none_or(|family| family == operation.family);
        is_family
            && match operation.action {
                Action::DeleteRange(end) => {
                    let is_before = |end: &Vec<u8>| operation.key < &end[..];
                    end > &self.prefix[..] && self.prefix_end.as_ref().is_none_or(is_before)
                }
                _ => operation.key.starts_with(&self.prefix),
            }
    }

    fn wants_all(&self) -> bool {
        self.family.is_none() && self.prefix.is_empty()
    }
}

/// Returns the commits of a database in order.
///
/// The program pulls: by [`Subscription::try_next`], [`Subscription::next_within`], or the
/// iterator, which blocks without end. A subscription buffers at most one commit. Commits that it
/// has not read stay in the log, up to [`Options::feed_bytes_max`](crate::Options::feed_bytes_max).
/// Beyond that bound the log files are reused, and the next call fails.
///
/// A subscription keeps the database open. After it is dropped, the next flush frees its log files.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use siltdb::{Action, Db, Event, SubscribeOptions};
///
/// let db = Db::open(dir.path())?;
/// let mut users = db.subscribe(&SubscribeOptions::new().prefix("user/"))?;
/// db.put("user/1", "Ada")?;
/// db.put("order/1", "book")?;
/// let Some(Event::Commit(commit)) = users.try_next()? else { panic!("nothing was committed") };
/// let change = commit.changes().next().expect("a commit that is wanted has a change");
/// assert_eq!(change.operation.key, b"user/1");
/// assert_eq!(change.operation.action, Action::Put(b"Ada"));
/// assert!(users.try_next()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Subscription {
    source: Source,
    filter: Arc<Filter>,
    /// The iterator has returned an error and yields no more.
    is_over: bool,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Subscription");
        if let Source::Database { engine, .. } = &self.source {
            fields.field("database", &engine.database().dir);
        }
        fields.field("position", &self.source.position().0).finish()
    }
}

/// Where a subscription reads commits.
enum Source {
    /// The log of an open database, which is kept open.
    Database { engine: Engine, feed: Box<Feed> },
    /// A log that another process writes.
    Log(Box<LogFeed>),
}

impl Source {
    fn next(&mut self, timeout: Duration) -> Result<Option<FeedItem>> {
        match self {
            Self::Database { engine, feed } => feed.next(engine.database(), timeout),
            Self::Log(feed) => feed.next(timeout),
        }
    }

    fn position(&self) -> SequenceNumber {
        match self {
            Self::Database { feed, .. } => feed.position(),
            Self::Log(feed) => feed.position(),
        }
    }
}

impl SubscribeOptions {
    /// The first sequence number, where `next` comes behind the newest commit; `None`: the oldest
    /// that the log has.
    pub(crate) fn first(&self, next: SequenceNumber) -> Option<SequenceNumber> {
        match self.start {
            Start::Now => Some(next),
            Start::Oldest => None,
            Start::At(sequence) => Some(SequenceNumber(sequence)),
        }
    }
}

impl Db {
    /// Subscribes to commits: of a family, of keys with a prefix, or all. The feed starts now or at
    /// a sequence number that the log still has. See [`Subscription`].
    ///
    /// The log has the commits that are not flushed. It keeps flushed ones as
    /// [`Options::retain_log_bytes`](crate::Options::retain_log_bytes) and
    /// [`Options::retain_log_for`](crate::Options::retain_log_for) demand. The feed returns a
    /// commit once readers see it. Sequence numbers are as durable as their commits: after a power
    /// loss that takes the newest commits, new commits get the same numbers.
    ///
    /// # Errors
    /// `NotFound`, if the log no longer has the start; the error names the oldest sequence number
    /// that it has. `InvalidArgument`, if the start is beyond the next commit. `Closed`.
    pub fn subscribe(&self, options: &SubscribeOptions) -> Result<Subscription> {
        Subscription::to_engine(self.engine(), options)
    }
}

impl Family {
    /// Subscribes to commits of the family, as [`Db::subscribe`] with
    /// [`SubscribeOptions::family`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Event, SubscribeOptions};
    ///
    /// let mut feed = db.default_family().subscribe(&SubscribeOptions::new())?;
    /// db.put("k", "v")?;
    /// assert!(matches!(feed.try_next()?, Some(Event::Commit(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::subscribe`].
    pub fn subscribe(&self, options: &SubscribeOptions) -> Result<Subscription> {
        Subscription::to_engine(&self.place.engine, &options.clone().family(self))
    }
}

impl Subscription {
    fn to_engine(engine: &Engine, options: &SubscribeOptions) -> Result<Self> {
        let filter = Arc::new(options.filter.clone());
        let database = engine.database();
        let next = database.log.publisher.published().next();
        let feed = Feed::new(database, options.first(next))?;
        let source = Source::Database { engine: engine.clone(), feed: Box::new(feed) };
        Ok(Self { source, filter, is_over: false })
    }

    /// A subscription to a log that another process writes.
    pub(crate) fn to_log(feed: LogFeed, options: &SubscribeOptions) -> Self {
        let filter = Arc::new(options.filter.clone());
        Self { source: Source::Log(Box::new(feed)), filter, is_over: false }
    }

    /// Returns the next commit without waiting; `None` if there is none yet.
    ///
    /// # Errors
    /// `NotFound`, if the subscription was too slow. The error names the lost numbers, and a new
    /// subscription can continue behind them. `Corruption`, with file and offset; `Closed`; `Io`.
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        self.next_within(Duration::ZERO)
    }

    /// Waits up to `timeout` for the next commit; `None` if none came.
    ///
    /// # Errors
    /// As [`Subscription::try_next`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Event>> {
        while let Some(item) = self.source.next(timeout)? {
            if let Some(event) = self.event(item)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Returns the sequence number from which a new subscription continues after the items returned
    /// so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.source.position().0
    }

    /// Converts an item of the log to an event; `None` if the subscription does not select it.
    fn event(&self, item: FeedItem) -> Result<Option<Event>> {
        let (first, last) = (item.first.0, item.last.0);
        let Some(mut stored) = item.commit else { return Ok(Some(Event::Unlogged(first..=last))) };
        let mut families = Vec::new();
        let mut changes = std::mem::take(&mut stored.families);
        // The families that the merge of a branch drops were its bases, which are not shown.
        if changes.iter().any(|change| matches!(change, Edit::Branch(_))) {
            changes.clear();
        }
        for change in changes {
            families.push(match change {
                Edit::CreateFamily { id, name, .. } => FamilyChange::Created { id, name },
                Edit::DropFamily { id } => FamilyChange::Dropped { id },
                _ => return Err(Error::corruption("a batch changes more than families")),
            });
        }
        if let Some(family) = self.filter.family {
            families.retain(|change| change.id() == family);
        }
        let commit = Commit { first, last, families, stored, filter: Arc::clone(&self.filter) };
        commit.check()?;
        let is_wanted = self.filter.wants_all()
            || !commit.families.is_empty()
            || commit.changes().next().is_some();
        Ok(is_wanted.then_some(Event::Commit(commit)))
    }
}

/// Blocks until the next commit. It yields no more after an error.
impl Iterator for Subscription {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.next_within(PATIENCE) {
                Ok(None) => {}
                Ok(Some(event)) => return Some(Ok(event)),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl FusedIterator for Subscription {}
