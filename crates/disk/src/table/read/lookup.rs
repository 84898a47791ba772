//! Looking up one key in a table: by its maplet, or by filter, index and block.
//!
//! It does not decide what a reader may see: it shows what is there.

use crate::table::read::reader::Table;
use crate::{
    block::{Block, Glance, Located, glance},
    cache::{CacheFill, Cacheable},
    maplet::{EntryPlace, Maplet},
};
use siltdb_base::{
    checksum::xxh3,
    error::Result,
    id::SequenceNumber,
    key::{EntryKind, LookupKey},
    slice::Pinnable,
};

/// A point entry that was found, where it lies.
#[derive(Clone, Copy, Debug)]
pub struct FoundEntry<'a> {
    /// Its place in the order of the database.
    pub sequence: SequenceNumber,
    /// The operation that the entry stands for.
    pub kind: EntryKind,
    /// The payload, as the kind says.
    pub value: Pinnable<'a>,
}

impl<'a> FoundEntry<'a> {
    #[inline]
    pub(in crate::table) fn new(value: Pinnable<'a>, located: &Located) -> Self {
        let Located { sequence, kind, .. } = *located;
        Self { sequence, kind, value }
    }

    /// An entry of a block that is in memory.
    #[inline]
    fn of(block: &'a Block, located: &Located) -> Self {
        Self::new(block.pinnable_value_at(located), located)
    }
}

/// What looking at the place of a key came to. What the caller's closure was not called for is
/// given back, so that it can be called for the next place.
pub(in crate::table) enum LookupOutcome<R, L> {
    /// The entry sought: what the closure returned for it.
    Shown(R),
    /// A newer entry of the key than the reader sees, or perhaps not the newest that it sees.
    Newer(L),
    /// An entry of another key.
    Other(L),
}

impl Table {
    /// Calls `look` with the newest point entry of `key` that is not newer than `visible`, if
    /// there is one.
    ///
    /// Asks maplet and filter first; reads at most one block, but for one in some hundred lookups.
    ///
    /// # Errors
    /// Corruption, if the block is damaged; what reading fails with. Nothing is cached then.
    #[inline]
    pub fn get<R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut look = look;
        if let Some(maplet) = self.maplet.get() {
            let mut places = maplet.search(key.hash());
            let mut is_newer = false;
            for place in places.by_ref() {
                match self.look_at(place, key.key(), visible, look)? {
                    LookupOutcome::Shown(shown) => return Ok(Some(shown)),
                    LookupOutcome::Newer(unused) => {
                        look = unused;
                        is_newer = true;
                        break;
                    }
                    LookupOutcome::Other(unused) => look = unused,
                }
            }
            if !is_newer && places.is_certain() {
                return Ok(None);
            }
        }
        self.search(key, visible, look)
    }

    /// Looks at a place where `key` may lie, and calls `look` with the entry if it is the one.
    #[inline]
    pub(in crate::table) fn look_at<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        place: EntryPlace,
        key: &[u8],
        visible: SequenceNumber,
        look: L,
    ) -> Result<LookupOutcome<R, L>> {
        self.prefetch_place(place);
        let EntryPlace { block: index, entry } = place;
        let look_into = |block: &Block, look: L| match block.get_at(entry, key) {
            None => LookupOutcome::Other(look),
            Some(located) if located.sequence > visible => LookupOutcome::Newer(look),
            Some(located) => LookupOutcome::Shown(look(FoundEntry::of(block, &located))),
        };
        self.slots.with(index, look, look_into).or_else(|look| match self.slots.admit(index) {
            CacheFill::Keep => Ok(look_into(&*self.load(index)?, look)),
            // Unlike the entry of a place, what a glance finds may belong to a key that goes on
            // from the block before. A newer entry lies there.
            CacheFill::Pass if self.goes_on_with(index, key) => Ok(LookupOutcome::Newer(look)),
            CacheFill::Pass => self.glance_at(index, key, visible, look),
        })
    }

    /// Whether the block at `index` begins with `key`, and the one before ends with it.
    fn goes_on_with(&self, index: usize, key: &[u8]) -> bool {
        self.contents.index.continues(index) && self.block_info(index).first_key == key
    }

    /// Looks for `key` in the block at `index`, which the cache does not admit: its bytes are lent
    /// for this one lookup.
    #[cold]
    fn glance_at<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        index: usize,
        key: &[u8],
        visible: SequenceNumber,
        look: L,
    ) -> Result<LookupOutcome<R, L>> {
        let entries = self.block_info(index).entries;
        self.with_raw(index, |raw| {
            Ok(match glance(raw, entries, key, visible)? {
                Glance::Absent => LookupOutcome::Other(look),
                Glance::Newer => LookupOutcome::Newer(look),
                Glance::Found(located) => {
                    let value = Pinnable::from(located.value(raw));
                    LookupOutcome::Shown(look(FoundEntry::new(value, &located)))
                }
            })
        })
    }

    /// Prefetches the memory of an entry, as far as its block is in the cache.
    #[inline]
    pub(in crate::table) fn prefetch_place(&self, place: EntryPlace) {
        self.slots.prefetch_part(place.block, |front, layout| {
            Block::prefetch_guess(front, layout, place.entry);
        });
    }

    /// [`Table::get`] without the maplet, which learns of the block that is looked into.
    #[inline]
    fn search<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: L,
    ) -> Result<Option<R>> {
        if !self.filter()?.may_contain(key) {
            return Ok(None);
        }
        let key = key.key();
        let Some(index) = self.contents.index.find(key, visible) else { return Ok(None) };
        let look_into = |block: &Block, look: L| {
            self.add_to_maplet(index, block);
            let located = block.get(key, visible)?;
            Some(look(FoundEntry::of(block, &located)))
        };
        self.slots.prefetch(index, Block::FRONT_BYTES);
        self.slots.with(index, look, look_into).or_else(|look| match self.slots.admit(index) {
            CacheFill::Keep => Ok(look_into(&*self.load(index)?, look)),
            CacheFill::Pass => Ok(match self.glance_at(index, key, visible, look)? {
                LookupOutcome::Shown(shown) => Some(shown),
                LookupOutcome::Newer(_) | LookupOutcome::Other(_) => None,
            }),
        })
    }

    /// Whether the table may hold an entry of the key, as far as maplet and filter tell; `false` is
    /// certain. A filter that cannot be read tells nothing.
    #[inline]
    #[must_use]
    pub fn may_hold(&self, key: LookupKey<'_>) -> bool {
        if let Some(maplet) = self.maplet.get() {
            let mut places = maplet.search(key.hash());
            if places.next().is_some() {
                return true;
            }
            if places.is_certain() {
                return false;
            }
        }
        self.filter().map_or(true, |filter| filter.may_contain(key))
    }

    /// Has the maplet lead to the keys of the block at `index`, if there is one, or if it is time
    /// to make one.
    #[inline]
    pub(in crate::table) fn add_to_maplet(&self, index: usize, block: &Block) {
        let maplet = match self.maplet.get() {
            None if self.slots.are_half_full() => self.new_maplet(),
            maplet => maplet,
        };
        if let Some(maplet) = maplet
            && !maplet.has_block(index)
        {
            self.add_block(maplet, index, block);
        }
    }

    /// Makes the maplet; does without, if the cache has no room to spare.
    #[cold]
    fn new_maplet(&self) -> Option<&Maplet> {
        let shape = self.maplet_shape?;
        if !self.cache.reserve_guide(shape.bytes()) {
            return None;
        }
        let mut is_made = false;
        let maplet = self.maplet.get_or_init(|| {
            is_made = true;
            Maplet::new(shape)
        });
        if !is_made {
            // Another thread was faster; by (1) its bytes are taken.
            self.cache.release_guide(shape.bytes());
        }
        Some(maplet)
    }

    #[cold]
    fn add_block(&self, maplet: &Maplet, index: usize, block: &Block) {
        // By (2): the first entry of a key that the block before ends with lies there.
        let elsewhere = usize::from(self.contents.index.continues(index));
        maplet.add_block(index, || {
            let mut key = Vec::new();
            block.firsts().skip(elsewhere).map(move |entry| {
                block.copy_key(entry, &mut key);
                (xxh3(&key), entry)
            })
        });
    }

    /// Prefetches the memory that [`Table::get`] and [`Table::may_hold`] will look at first.
    #[inline]
    pub fn prefetch(&self, key: LookupKey<'_>) {
        if let Some(maplet) = self.maplet.get() {
            maplet.prefetch(key.hash());
            if maplet.knows_all() {
                return;
            }
        }
        if let Some(filter) = self.filter_if_read() {
            filter.prefetch(key);
        }
    }
}
