//! The change feed of a typed family.
//!
//! It decodes what [`Subscription`](crate::Subscription) yields.

use super::TypedFamily;
use crate::{
    expiry::Expiry,
    key::Key,
    operation::Action,
    subscription::{Commit, Event, KeyChange, SubscribeOptions, Subscription},
    value::Value,
};
use siltdb_base::error::Result;
use std::{fmt, iter::FusedIterator, marker::PhantomData, ops::RangeInclusive, time::Duration};

/// Returns the commits of a typed family in order; made by [`TypedFamily::subscribe`].
pub struct TypedSubscription<K, V> {
    subscription: Subscription,
    types: PhantomData<fn() -> (K, V)>,
}

/// An item of the feed of a typed family.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedEvent<K, V> {
    /// A commit that changed the family.
    Commit {
        /// First sequence number.
        first: u64,
        /// Last sequence number.
        last: u64,
        /// The operations on the family, in the order in which they apply.
        changes: Vec<TypedChange<K, V>>,
    },
    /// The log has no record of these sequence numbers; see [`Event::Unlogged`].
    Unlogged(RangeInclusive<u64>),
}

/// One operation on a typed family.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedChange<K, V> {
    /// Set a value.
    Put {
        /// The key.
        key: K,
        /// The value.
        value: V,
        /// When the value expires.
        expiry: Expiry,
    },
    /// Deleted a key.
    Delete {
        /// The key.
        key: K,
    },
    /// Wrote a merge operand.
    Merge {
        /// The key.
        key: K,
        /// The operand.
        operand: V,
    },
    /// Deleted every key whose encoding lies from `start` up to `end`, which is exclusive.
    /// [`covers`](Self::covers) tests a key. The bounds are bytes, because the end of a prefix is
    /// no key.
    DeleteRange {
        /// The first encoding.
        start: Vec<u8>,
        /// The encoding behind the last.
        end: Vec<u8>,
    },
}

impl<K: Key, V: Value> TypedChange<K, V> {
    /// Returns whether the operation has an effect on `key`.
    #[must_use]
    pub fn covers(&self, key: &K) -> bool {
        let wanted = key.to_key();
        match self {
            Self::Put { key, .. } | Self::Delete { key } | Self::Merge { key, .. } => {
                key.to_key() == wanted
            }
            Self::DeleteRange { start, end } => *start <= wanted && wanted < *end,
        }
    }

    fn decode(change: &KeyChange<'_>) -> Result<Self> {
        let bytes = change.operation.key;
        let key = || K::from_key(bytes);
        let put = |value: &[u8], expiry_ms: Option<u64>| {
            let expiry = Expiry::stored(expiry_ms);
            Ok(Self::Put { key: key()?, value: V::from_value(value)?, expiry })
        };
        match change.operation.action {
            Action::Put(value) => put(value, None),
            Action::PutUntil { value, expiry_ms } => put(value, Some(expiry_ms)),
            Action::Delete | Action::SingleDelete => Ok(Self::Delete { key: key()? }),
            Action::Merge(operand) => {
                Ok(Self::Merge { key: key()?, operand: V::from_value(operand)? })
            }
            Action::DeleteRange(end) => {
                Ok(Self::DeleteRange { start: bytes.to_vec(), end: end.to_vec() })
            }
        }
    }
}

impl<K, V> fmt::Debug for TypedSubscription<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedSubscription").field(&self.subscription).finish()
    }
}

impl<K: Key, V: Value> TypedFamily<K, V> {
    /// Subscribes to the commits of the family, from the start that `options` name. Their family
    /// and prefix do not count: the family is this one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// use siltdb::{Expiry, SubscribeOptions, TypedChange, TypedEvent};
    ///
    /// let stock = db.typed::<String, u32>("stock")?;
    /// let mut feed = stock.subscribe(&SubscribeOptions::new())?;
    /// stock.put("pen", &7)?;
    /// let Some(TypedEvent::Commit { changes, .. }) = feed.try_next()? else { panic!() };
    /// let put = TypedChange::Put { key: "pen".to_owned(), value: 7, expiry: Expiry::Never };
    /// assert_eq!(changes, [put]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::subscribe`](crate::Db::subscribe).
    pub fn subscribe(&self, options: &SubscribeOptions) -> Result<TypedSubscription<K, V>> {
        let options = options.clone().family(&self.source).prefix("");
        let subscription = self.source.subscribe(&options)?;
        Ok(TypedSubscription { subscription, types: PhantomData })
    }
}

impl<K: Key, V: Value> TypedSubscription<K, V> {
    /// Returns the next commit without waiting; `None` if there is none yet.
    ///
    /// # Errors
    /// `Corruption`, if a key or value does not decode: the next call continues behind the commit;
    /// as [`Subscription::try_next`].
    pub fn try_next(&mut self) -> Result<Option<TypedEvent<K, V>>> {
        self.next_within(Duration::ZERO)
    }

    /// Waits up to `timeout` for the next commit; `None` if none came.
    ///
    /// # Errors
    /// As [`try_next`](Self::try_next).
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<TypedEvent<K, V>>> {
        self.subscription.next_within(timeout)?.map(decode).transpose()
    }

    /// Returns the sequence number from which a new subscription continues after the items returned
    /// so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.subscription.position()
    }
}

/// Blocks until the next commit. It yields no more after an error of the log.
impl<K: Key, V: Value> Iterator for TypedSubscription<K, V> {
    type Item = Result<TypedEvent<K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.subscription.next().map(|event| event.and_then(decode))
    }
}

impl<K: Key, V: Value> FusedIterator for TypedSubscription<K, V> {}

fn decode<K: Key, V: Value>(event: Event) -> Result<TypedEvent<K, V>> {
    let commit: Commit = match event {
        Event::Unlogged(range) => return Ok(TypedEvent::Unlogged(range)),
        Event::Commit(commit) => commit,
    };
    let changes =
        commit.changes().map(|change| TypedChange::decode(&change)).collect::<Result<_>>()?;
    Ok(TypedEvent::Commit { first: commit.first, last: commit.last, changes })
}
