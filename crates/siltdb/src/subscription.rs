//! The change feed: what was committed, in the order of the commits, each commit once.
//!
//! A subscription reads the log behind the writers and costs them nothing. It has no thread of its
//! own: the program pulls from it, on whichever thread it likes, and so decides what happens if it
//! is slow or panics.

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
    feed::{Feed, FeedCommit, FeedItem},
    read::ReadRange,
};
use std::{
    fmt,
    iter::FusedIterator,
    ops::{Bound, RangeInclusive},
    sync::Arc,
    time::Duration,
};

/// How long the iterator waits at a time.
const PATIENCE: Duration = Duration::from_secs(1);

/// Which changes are wanted, and from where on. Default: all that come after the call.
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
    /// At the oldest commit that the log has.
    Oldest,
    At(u64),
}

#[derive(Clone, Debug, Default)]
struct Filter {
    family: Option<FamilyId>,
    prefix: Vec<u8>,
    /// The first key behind those with the prefix, if there is one.
    prefix_end: Option<Vec<u8>>,
}

impl SubscribeOptions {
    /// All families and keys, from the next commit on.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Only changes of this family.
    #[must_use]
    pub fn family(mut self, family: &Family) -> Self {
        self.filter.family = Some(family.id());
        self
    }

    /// Only changes of keys with this prefix, and deletions of ranges that may hold such keys.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.filter.prefix = prefix.as_ref().to_vec();
        self.filter.prefix_end = match ReadRange::prefix(&self.filter.prefix).end {
            Bound::Excluded(end) => Some(end.to_vec()),
            Bound::Included(_) | Bound::Unbounded => None,
        };
        self
    }

    /// From this sequence number on: [`Subscription::position`] of an earlier subscription, or one
    /// more than the last number that was worked off. A commit that it lies in the middle of is
    /// told as a whole. 0 counts as 1, the first there is.
    #[must_use]
    pub fn from(mut self, sequence: u64) -> Self {
        self.start = Start::At(sequence);
        self
    }

    /// From the oldest commit on that the log still has.
    #[must_use]
    pub fn from_oldest(mut self) -> Self {
        self.start = Start::Oldest;
        self
    }
}

/// What a subscription tells.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub enum Event {
    /// A commit.
    Commit(Commit),
    /// The log does not say what these sequence numbers did: commits with
    /// [`Durability::Volatile`](crate::Durability::Volatile), or such as a loss of power took from
    /// the log when they were in tables already. Told whatever the subscription wants; the state of
    /// the database has them.
    Unlogged(RangeInclusive<u64>),
}

/// A commit: what one [`WriteBatch`](crate::WriteBatch), transaction or single write did.
#[derive(Clone)]
pub struct Commit {
    /// Its first sequence number.
    pub first: u64,
    /// Its last sequence number.
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
    /// Its sequence number.
    pub sequence: u64,
    /// Family, key, and what it does.
    pub operation: Operation<'a>,
}

/// A family that a batch created or dropped.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FamilyChange {
    /// A family was created.
    Created {
        /// Its number.
        id: FamilyId,
        /// Its name.
        name: String,
    },
    /// A family was dropped, with all it held.
    Dropped {
        /// Its number.
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
    /// The operations that the subscription wants, in the order in which they were applied.
    #[must_use]
    pub fn changes(&self) -> KeyChanges<'_> {
        let operations = Operations::new(self.stored());
        let sequence = self.last + 1 - u64::from(self.stored.count);
        KeyChanges { operations, sequence, filter: &self.filter }
    }

    /// The families that the commit created or dropped, before its operations.
    /// [`Db::create_family`], [`Db::drop_family`] and [`Db::rename_family`] are no commits.
    #[must_use]
    pub fn families(&self) -> &[FamilyChange] {
        &self.families
    }

    fn stored(&self) -> BatchOperations<'_> {
        operations(&self.stored.operations, self.stored.count)
    }

    /// Reads all of it, as bytes from disk may be anything.
    fn check(&self) -> Result<()> {
        self.stored().try_for_each(|stored| stored.and_then(Operation::try_from).map(|_| ()))
    }
}

/// The operations of a commit; see [`Commit::changes`].
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

/// The commits of a database, one after the other.
///
/// It is pulled: [`Subscription::try_next`], [`Subscription::next_within`], or the iterator, which
/// waits for ever. It buffers one commit at most. What it has not read yet stays in the log, up to
/// [`Options::feed_bytes_max`](crate::Options::feed_bytes_max); if that is exceeded, the log goes
/// on without it and its next call fails.
///
/// It keeps the database open. Dropping it gives the log files back with the next flush.
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
#[derive(Debug)]
pub struct Subscription {
    db: Db,
    feed: Feed,
    filter: Arc<Filter>,
    /// The iterator has failed.
    is_over: bool,
}

impl Db {
    /// Subscribes to what is committed: of a family, of keys with a prefix, or everything; from now
    /// on, or from a sequence number on that the log still has. See [`Subscription`].
    ///
    /// The log has what is not flushed yet, and of what is flushed what
    /// [`Options::retain_log_bytes`](crate::Options::retain_log_bytes) and
    /// [`Options::retain_log_for`](crate::Options::retain_log_for) keep. Commits are told once they
    /// are visible to readers. As durable as they are, so are the sequence numbers: a loss of power
    /// that takes the newest commits gives their numbers to others.
    ///
    /// # Errors
    /// `NotFound`, if the log does not reach back that far: the error names the oldest sequence
    /// number that it has. `InvalidArgument`, if no commit has the number yet, but for the next
    /// one. `Closed`.
    pub fn subscribe(&self, options: &SubscribeOptions) -> Result<Subscription> {
        let first = match options.start {
            Start::Now => Some(self.engine().published().next()),
            Start::Oldest => None,
            Start::At(sequence) => Some(SequenceNumber(sequence)),
        };
        let filter = Arc::new(options.filter.clone());
        let feed = self.engine().feed(first)?;
        Ok(Subscription { db: self.clone(), feed, filter, is_over: false })
    }
}

impl Subscription {
    /// The next commit, if there is one.
    ///
    /// # Errors
    /// `NotFound`, if the subscription was too slow: the error names what was lost, and a new
    /// subscription goes on behind it. `Corruption`, with file and offset; `Closed`; the system's.
    pub fn try_next(&mut self) -> Result<Option<Event>> {
        self.next_within(Duration::ZERO)
    }

    /// The next commit; `None` if there is none for `timeout`.
    ///
    /// # Errors
    /// As [`Subscription::try_next`].
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Event>> {
        while let Some(item) = self.db.engine().feed_next(&mut self.feed, timeout)? {
            if let Some(event) = self.event(item)? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// The sequence number to subscribe from in order to go on behind what was told so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.feed.position().0
    }

    /// What is told of an item, if it is wanted.
    fn event(&self, item: FeedItem) -> Result<Option<Event>> {
        let (first, last) = (item.first.0, item.last.0);
        let Some(mut stored) = item.commit else { return Ok(Some(Event::Unlogged(first..=last))) };
        let mut families = Vec::new();
        for change in std::mem::take(&mut stored.families) {
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

/// Waits for the next commit, and ends only with an error.
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
