//! When values expire, as readers learn it and as writers give it.
//!
//! It reads no clock.

use crate::source::{ReadPlace, whole_ms};
use siltdb_base::seeded_fault;
use siltdb_engine::read::ExpiringValue;
use std::time::{Duration, SystemTime};

/// When a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expiry {
    /// At this time, by the clock of the database, in whole milliseconds.
    At(SystemTime),
    /// It does not expire.
    Never,
}

impl Expiry {
    /// The expiry that is stored as `expiry_ms`. A time that the system cannot express never comes.
    pub(crate) fn stored(expiry_ms: Option<u64>) -> Self {
        let time = |ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        expiry_ms.and_then(time).map_or(Self::Never, Self::At)
    }

    /// The expiry at `ms` milliseconds since 1970. A time that the system cannot express never
    /// comes.
    #[must_use]
    pub fn at_ms(ms: u64) -> Self {
        Self::stored(Some(ms))
    }

    /// Returns the time; `None` if the value does not expire.
    #[must_use]
    pub fn time(self) -> Option<SystemTime> {
        match self {
            Self::At(time) => Some(time),
            Self::Never => None,
        }
    }

    /// Returns the time in milliseconds since 1970; `None` if the value does not expire.
    #[must_use]
    pub fn ms(self) -> Option<u64> {
        let since = self.time()?.duration_since(SystemTime::UNIX_EPOCH);
        Some(whole_ms(since.unwrap_or_default()))
    }
}

/// What a write says of the expiry of its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ExpiryRule {
    /// Nothing: the value that replaces another in an update keeps its expiry. Any other gets the
    /// TTL of its family.
    #[default]
    Unsaid,
    /// The value expires after this time.
    For(Duration),
    /// This is its expiry, in ms since 1970; `None` for none.
    Is(Option<u64>),
}

impl ExpiryRule {
    /// The expiry of a value that is put now, in ms since 1970; `None` for none.
    #[inline]
    pub(crate) fn expiry_ms(self, place: &ReadPlace) -> Option<u64> {
        match self {
            Self::Unsaid => place.ttl_expiry_ms(),
            Self::For(time) => Some(place.expiry_ms(time)),
            Self::Is(expiry_ms) => expiry_ms,
        }
    }

    /// The same of a value that takes the place of `old`.
    ///
    /// # Seeded faults
    /// `counter_forgets_expiry`: the new value is one that was put without an expiry.
    pub(crate) fn replacing(self, old: Option<&ExpiringValue>, place: &ReadPlace) -> Option<u64> {
        match (self, old) {
            (Self::Unsaid, Some(_)) if seeded_fault!("counter_forgets_expiry") => None,
            (Self::Unsaid, Some(old)) => old.expiry_ms,
            _ => self.expiry_ms(place),
        }
    }
}
