//! The one place that decides which entries a job takes over as they are. These are whole blocks,
//! copied without being read entry by entry, and stretches that pass unexamined.
//!
//! It does not look for such stretches, and does not say where copying is worth it.
//!
//! # What must hold
//! By rule 3 of [`crate::retain`], the newest value of a key is kept whatever the snapshots are and
//! whatever lies deeper. So a stretch is *untouched* if each of its entries is the only one of its
//! key and a plain value. Every reader must also read it as it lies in its table:
//!
//! 1. *Only `Put`.* Tombstones, expiring values, operands and pointers to separated values may be
//!    dropped, folded or rewritten (rules 4 to 8).
//! 2. *One entry a key.* Of several in one stripe all but the newest are dropped (rule 3).
//! 3. *No other entry of the inputs within its keys*, its own neighbours included. A block may end
//!    with a key that the next one goes on with.
//! 4. *No range tombstone over its keys*, of the inputs or above them: what it covers is dropped
//!    (rule 2). Which is the newer is not asked.
//! 5. *The table is seen whole*, with its own sequence numbers. A reference that cuts it to a slice
//!    or to a point in time hides entries, and one that renumbers it changes them.
//! 6. Of whole blocks: *the block is as the output's own blocks are*: of the codec and the level
//!    that the options name for the output's level, and of no dictionary. Each table has a
//!    dictionary of its own, so a block of one with a dictionary can be read nowhere else. A table
//!    that is to have a dictionary has no use for blocks without.
//!
//! Nothing else forbids it. The size of a block stays what it was when it was written, whatever the
//! options say now. A value that could have the sequence number shared at the
//! bottom keeps its own, which says the same. A merge operator is not asked about values.
//!
//! A compaction filter may drop or change any plain value: a job with one copies nothing, and does
//! not ask here. Another feature that may do so adds its condition here.

use siltdb_base::{
    cursor::{EntryCursor, StretchContent},
    tombstone::Fragments,
};

/// Neighbouring entries of one input, and what is known of them without reading them.
#[derive(Clone, Copy, Debug)]
pub struct CopyCandidate<'a> {
    /// The first key.
    pub first_key: &'a [u8],
    /// The last key.
    pub last_key: &'a [u8],
    /// What the entries are.
    pub content: StretchContent,
    /// What else the inputs have about its keys.
    pub neighbours: Neighbours<'a>,
    /// How its table is seen.
    pub sight: TableSight,
    /// How its block is written.
    pub form: BlockForm,
}

/// The keys of the inputs that are next to a stretch; `None` where there are no more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neighbours<'a> {
    /// The last key of what begins before the stretch.
    pub before: Option<&'a [u8]>,
    /// The first key of what begins after it.
    pub after: Option<&'a [u8]>,
}

/// How much of a table is seen through its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableSight {
    /// All of it, with its own sequence numbers.
    Whole,
    /// A part of it, or under another sequence number.
    Narrow,
}

/// How a block is written, as the output sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockForm {
    /// As blocks of the output are.
    Same,
    /// With another codec, level or dictionary.
    Other,
}

/// Whether the entries of `stretch` can be taken over as they are; `tombstones` are all range
/// tombstones that the job applies.
#[inline]
#[must_use]
pub fn may_copy(stretch: &CopyCandidate<'_>, tombstones: &Fragments) -> bool {
    let &CopyCandidate { first_key, last_key, content, neighbours, sight, form } = stretch;
    // By (1) and (2), as far as the stretch goes.
    content == StretchContent::Plain
        // By (3) and, at its ends, (2).
        && neighbours.before.is_none_or(|before| before < first_key)
        && neighbours.after.is_none_or(|after| last_key < after)
        // By (4), no tombstone hides it.
        && is_clear(first_key, last_key, tombstones)
        // By (5), it is seen whole.
        && sight == TableSight::Whole
        // By (6), a reader of the output can read it.
        && form == BlockForm::Same
}

/// What is known of the entries after the cursor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainAhead {
    /// This many are plain, as is the cursor's.
    Steps(usize),
    /// Nothing will be known for this many.
    NotFor(usize),
    /// Nothing is known.
    Unknown,
}

/// How many entries after the cursor's pass unexamined, if the cursor's is the first of its key.
pub fn plain_ahead(cursor: &impl EntryCursor, tombstones: &Fragments) -> PlainAhead {
    let (Some(span), Some(entry)) = (cursor.stretch(), cursor.entry()) else {
        return PlainAhead::Unknown;
    };
    let stretch = CopyCandidate {
        first_key: entry.key,
        last_key: span.last_key,
        content: span.content,
        // No other source has a key in a span. A reference has no span with an entry that it hides,
        // and one that renumbers entries does so entry by entry as they pass.
        neighbours: Neighbours::default(),
        sight: TableSight::Whole,
        // They are encoded again.
        form: BlockForm::Same,
    };
    if may_copy(&stretch, tombstones) {
        PlainAhead::Steps(span.after)
    } else {
        PlainAhead::NotFor(span.after)
    }
}

#[inline]
fn is_clear(first_key: &[u8], last_key: &[u8], tombstones: &Fragments) -> bool {
    let place = tombstones.index_ending_after(first_key);
    let fragment = tombstones.as_slice().get(place);
    fragment.is_none_or(|fragment| fragment.start.as_bytes() > last_key)
}

#[cfg(test)]
mod tests;
