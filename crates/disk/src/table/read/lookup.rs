//! Looking up one key in a table: by its maplet, or by filter, index and block.
//!
//! It does not decide what a reader may see: it shows what is there.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::format::node::NodeView;
use crate::table::read::contents::TableIndex;
use crate::table::read::frame_index::FrameIndex;
use crate::table::read::frame_part::{fewer_blocks, with_part};
use crate::table::read::reader::{BlockSite, Table};
use crate::table::read::tree::{CachedTree, MappedTree, TreeIndex};
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

impl<R, L> LookupOutcome<R, L> {
    fn shown(self) -> Option<R> {
        match self {
            Self::Shown(shown) => Some(shown),
            Self::Newer(_) | Self::Other(_) => None,
        }
    }
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
        let TableIndex::Whole(whole) = &self.contents.index else {
            return Ok(LookupOutcome::Other(look));
        };
        self.prefetch_place(place);
        let EntryPlace { block: index, entry } = place;
        let look_into = |block: &Block, look: L| match block.get_at(entry, key) {
            None => LookupOutcome::Other(look),
            Some(located) if located.sequence > visible => LookupOutcome::Newer(look),
            Some(located) => LookupOutcome::Shown(look(FoundEntry::of(block, &located))),
        };
        self.slots.with(index, look, look_into).or_else(|look| match self.slots.admit(index) {
            CacheFill::Keep => Ok(look_into(&*self.load(&self.site(whole, index))?, look)),
            // Unlike the entry of a place, what a glance finds may belong to a key that goes on
            // from the block before. A newer entry lies there.
            CacheFill::Pass if goes_on_with(whole, index, key) => Ok(LookupOutcome::Newer(look)),
            CacheFill::Pass => self.glance_at(&self.site(whole, index), key, visible, look),
        })
    }

    /// Looks for `key` in the block at `site`, which the cache does not admit: its bytes are lent
    /// for this one lookup.
    #[cold]
    fn glance_at<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        site: &BlockSite<'_>,
        key: &[u8],
        visible: SequenceNumber,
        look: L,
    ) -> Result<LookupOutcome<R, L>> {
        self.glance_past(site.number, &site.info, key, visible, look)
    }

    /// The same of the block of this number, which `info` describes.
    fn glance_past<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        number: usize,
        info: &BlockInfo<'_>,
        key: &[u8],
        visible: SequenceNumber,
        look: L,
    ) -> Result<LookupOutcome<R, L>> {
        self.with_raw(number, info, |raw| {
            Ok(match glance(raw, info.entries, key, visible)? {
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
        if !self.may_contain(key)? {
            return Ok(None);
        }
        let whole = match &self.contents.index {
            TableIndex::Whole(index) => index,
            TableIndex::Frames(index) => {
                return self.search_frames(index, key.key(), visible, look);
            }
            TableIndex::Tree(TreeIndex::Mapped(tree)) => {
                return self.search_mapped(tree, key.key(), visible, look);
            }
            TableIndex::Tree(TreeIndex::Cached(tree)) => {
                return self.search_cached(tree, key.key(), visible, look);
            }
        };
        let key = key.key();
        let Some(index) = whole.find(key, visible) else { return Ok(None) };
        let look_into = |block: &Block, look: L| {
            self.add_to_maplet(index, block);
            let located = block.get(key, visible)?;
            Some(look(FoundEntry::of(block, &located)))
        };
        self.slots.prefetch(index, Block::FRONT_BYTES);
        self.slots.with(index, look, look_into).or_else(|look| match self.slots.admit(index) {
            CacheFill::Keep => Ok(look_into(&*self.load(&self.site(whole, index))?, look)),
            CacheFill::Pass => {
                Ok(self.glance_at(&self.site(whole, index), key, visible, look)?.shown())
            }
        })
    }

    /// The same for a table whose index is in the file.
    #[inline(never)]
    fn search_frames<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        index: &FrameIndex,
        key: &[u8],
        visible: SequenceNumber,
        look: L,
    ) -> Result<Option<R>> {
        with_part(|part| {
            let Some(number) = part.find(self, index, key, visible)? else { return Ok(None) };
            if let Some(site) = part.site(index, number) {
                return self.search_block(&site, key, visible, look);
            }
            let (blocks, at) = part.held(index, number).ok_or_else(fewer_blocks)?;
            Ok(self.glance_past(number, &blocks.info(at), key, visible, look)?.shown())
        })
    }

    /// Looks for `key` in the block at `site`, where it is if it is anywhere.
    #[inline]
    fn search_block<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        site: &BlockSite<'_>,
        key: &[u8],
        visible: SequenceNumber,
        look: L,
    ) -> Result<Option<R>> {
        let BlockSite { slots, slot, .. } = *site;
        let look_into = |block: &Block, look: L| {
            let located = block.get(key, visible)?;
            Some(look(FoundEntry::of(block, &located)))
        };
        slots.with(slot, look, look_into).or_else(|look| match slots.admit(slot) {
            CacheFill::Keep => Ok(look_into(&*self.load(site)?, look)),
            CacheFill::Pass => Ok(self.glance_at(site, key, visible, look)?.shown()),
        })
    }

    /// The same for a B+tree table whose nodes and leaves are searched where they are mapped.
    fn search_mapped<R>(
        &self,
        tree: &MappedTree,
        key: &[u8],
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        let choose = |node: &NodeView<'_>| node.lower_bound(key, visible);
        let Some((_, node, at)) = tree.descend(&self.source, choose)? else { return Ok(None) };
        let info = node.info(at);
        let place = tree.leaf(&self.source, node.first_block_of(at), &info)?;
        let raw = &tree.bytes()[place];
        let found = glance(raw, info.entries, key, visible)
            .map_err(|error| self.source.locate(error, info.offset))?;
        let Glance::Found(located) = found else { return Ok(None) };
        let value = Pinnable::within(tree.bytes(), located.value(raw));
        Ok(Some(look(FoundEntry::new(value, &located))))
    }

    /// The same for a B+tree table whose nodes and leaves go through the cache.
    fn search_cached<R, L: FnOnce(FoundEntry<'_>) -> R>(
        &self,
        tree: &CachedTree,
        key: &[u8],
        visible: SequenceNumber,
        look: L,
    ) -> Result<Option<R>> {
        let choose = |node: &NodeView<'_>| node.lower_bound(key, visible);
        let found = tree.descend(&self.source, &self.cache, choose)?;
        let Some((node, at)) = found else { return Ok(None) };
        let Some(slots) = node.blocks() else { return Ok(None) };
        slots.prefetch(at, Block::FRONT_BYTES);
        match node.site(at) {
            Some(site) => self.search_block(&site, key, visible, look),
            None => Ok(None),
        }
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
        self.may_contain(key).unwrap_or(true)
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
        let elsewhere = match &self.contents.index {
            TableIndex::Whole(whole) => usize::from(whole.continues(index)),
            TableIndex::Frames(_) | TableIndex::Tree(_) => return,
        };
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

/// Whether the block at `index` begins with `key`, and the one before ends with it.
fn goes_on_with(whole: &Index, index: usize, key: &[u8]) -> bool {
    whole.continues(index) && whole.info(index).first_key == key
}
