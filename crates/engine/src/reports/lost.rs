//! The keys and families that a damage concerns.

use siltdb_base::{error::Error, slice::Slice};
use siltdb_disk::table::LostEntries;
use std::{collections::BTreeSet, fmt};

/// What is lost of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LostPart {
    /// The entries themselves.
    #[default]
    Entries,
    /// Their separated values alone: the table is whole, and a read of a key alone finds it.
    Values,
}

/// Entries that may be lost.
#[non_exhaustive]
#[derive(Debug)]
pub struct Lost {
    /// The name of the family; `None` if it may be any.
    pub family: Option<String>,
    /// The smallest key that may be lost; `None` if that is not known.
    pub first: Option<Vec<u8>>,
    /// The largest key that may be lost; `None` if that is not known.
    pub last: Option<Vec<u8>>,
    /// The largest possible number of lost entries, deleted and older ones included; `None` if that
    /// is not known.
    pub entries_max: Option<u64>,
    /// What of them is lost.
    pub part: LostPart,
    /// The damage and its place.
    pub error: Error,
}

impl Lost {
    /// A damage that may concern any key of any family.
    #[must_use]
    pub fn anything(error: Error) -> Self {
        let part = LostPart::Entries;
        Self { family: None, first: None, last: None, entries_max: None, part, error }
    }

    /// A damage in the family called `name`.
    #[must_use]
    pub fn of(name: &str, lost: LostEntries) -> Self {
        let LostEntries { first, last, entries_max, error } = lost;
        let bytes = |key: Slice| key.to_vec();
        let (first, last) = (first.map(bytes), last.map(bytes));
        let (family, part) = (Some(name.to_owned()), LostPart::Entries);
        Self { family, first, last, entries_max, part, error }
    }

    /// Separated values of the family called `name`.
    #[must_use]
    pub fn values_of(name: &str, lost: LostEntries) -> Self {
        Self { part: LostPart::Values, ..Self::of(name, lost) }
    }

    /// Whether a value of `key` in `family` may be lost.
    #[must_use]
    pub fn may_hold(&self, family: &str, key: &[u8]) -> bool {
        self.family.as_ref().is_none_or(|lost| lost == family)
            && self.first.as_ref().is_none_or(|first| &first[..] <= key)
            && self.last.as_ref().is_none_or(|last| key <= &last[..])
    }

    /// Removes repetitions: the same damage may be found more than once.
    #[must_use]
    pub fn distinct(lost: Vec<Self>) -> Vec<Self> {
        let mut seen = BTreeSet::new();
        let mut distinct = lost;
        distinct.retain(|lost| seen.insert(lost.to_string()));
        distinct
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.family {
            Some(family) => write!(f, "family {family}, ")?,
            None => write!(f, "any family, ")?,
        }
        let key = |key: &[u8]| key.escape_ascii().to_string();
        match (&self.first, &self.last) {
            (None, None) => write!(f, "any keys")?,
            (Some(first), None) => write!(f, "keys from \"{}\"", key(first))?,
            (None, Some(last)) => write!(f, "keys up to \"{}\"", key(last))?,
            (Some(first), Some(last)) => write!(f, "keys \"{}\"..=\"{}\"", key(first), key(last))?,
        }
        if let Some(entries) = self.entries_max {
            let things = match self.part {
                LostPart::Entries => "entries",
                LostPart::Values => "separated values",
            };
            write!(f, ", at most {entries} {things}")?;
        }
        write!(f, ": {}", self.error)
    }
}
