//! An open table: its index, or the root of it, and its range tombstones in memory, its filter once
//! a key is looked up, its blocks through the cache.
//!
//! It does not decide what a reader may see: it shows what is there.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::index::Index;
use crate::table::format::node::NodeView;
use crate::table::read::contents::{IndexHold, TableContents, TableIndex};
use crate::table::read::dictionary::TableDictionary;
use crate::table::read::filter_parts::FilterParts;
use crate::table::read::mapped::Mapped;
use crate::table::read::readahead::Readahead;
use crate::table::read::source::{TableLocation, TableSource, check_block, with_scratch};
use crate::table::read::table_filter::{TableFilter, hash_of_range};
use crate::table::read::tree::{NodeHold, TreeIndex, TreeNode};
use crate::{
    block::Block,
    cache::{Cache, CacheFill, Cacheable, Cached, Slots},
    frame::{Frame, FrameKind, FramePlace},
    maplet::{Maplet, MapletShape},
    table_meta::TableMeta,
};
use siltdb_base::{
    budget::Part,
    error::Result,
    fs::ReadIo,
    id::SequenceNumber,
    key::LookupKey,
    memory::region::{Buffer, Margins},
    sync::lock,
    tombstone::Fragments,
};
use std::sync::{Arc, Mutex, OnceLock};

/// An open table.
///
/// A lookup goes through filter, index and block. Once half of the blocks are in the cache, a
/// maplet is made of those that are looked into. It leads lookups to their entry at once. A B+tree
/// table has none: a maplet takes memory for each key, and knows blocks by numbers.
///
/// # Thread safety
/// Any number of threads may read; nothing changes but the cache, the maplet and the filter, which
/// one thread reads while others wait for it.
///
/// # Invariants
/// 1. The maplet, once made, has taken its bytes of what tables have.
/// 2. It leads to the first of the entries that the table has of a key, which is the newest.
#[derive(Debug)]
pub struct Table {
    pub(in crate::table) source: TableSource,
    pub(in crate::table) contents: TableContents,
    /// Of the blocks of a block table; those of a B+tree table belong to its nodes.
    pub(in crate::table) slots: Slots<Block>,
    /// Read when it is first asked for, unless it was before the table was opened.
    pub(in crate::table) filter: OnceLock<TableFilter>,
    /// The filter, if there was no memory for it when it was first asked; `None`, if it has none.
    filter_parts: OnceLock<Option<FilterParts>>,
    /// Held while the filter is being read.
    reading: Mutex<()>,
    /// `None`, if its blocks are read.
    mapped: Option<Mapped>,
    pub(in crate::table) maplet: OnceLock<Maplet>,
    /// Of its maplet; `None`, if it is to have none.
    pub(in crate::table) maplet_shape: Option<MapletShape>,
    pub(in crate::table) cache: Arc<Cache>,
    /// Bytes charged to [`Part::Tables`] when it was opened; those of the filter are its own.
    charged: usize,
}

/// A data block as readers come to it.
#[derive(Clone, Copy, Debug)]
pub(in crate::table) struct BlockSite<'a> {
    /// The slots it has a place in, and that place.
    pub slots: &'a Slots<Block>,
    pub slot: usize,
    /// Its number in the table.
    pub number: usize,
    pub info: BlockInfo<'a>,
}

impl Table {
    /// Opens a table.
    ///
    /// Footer, properties, index and range tombstones are read and verified, and compared with what
    /// is `expected`, if anything is. Of the index of a B+tree table that is the root. The filter
    /// is read and verified when a key is first looked up; nodes and data blocks are verified when
    /// they are read, as `read_io` says. The memory that stays is charged to [`Part::Tables`]; what
    /// is mapped is not.
    ///
    /// # Errors
    /// Corruption, if the table is damaged, or another one than expected; `Unsupported`, if a newer
    /// version wrote it; what reading fails with.
    pub fn open(
        location: TableLocation<'_>,
        expected: Option<&TableMeta>,
        read_io: ReadIo,
        cache: &Arc<Cache>,
    ) -> Result<Arc<Self>> {
        Self::open_holding(location, expected, read_io, IndexHold::Whole, cache)
    }

    /// As [`Table::open`], for a block table whose index there is no memory for. Index and filter
    /// stay in the file: frames of the one, of about 16 KiB, and parts of the other, of 4 KiB, go
    /// through the cache as blocks do.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub fn open_by_frames(
        location: TableLocation<'_>,
        expected: Option<&TableMeta>,
        read_io: ReadIo,
        cache: &Arc<Cache>,
    ) -> Result<Arc<Self>> {
        Self::open_holding(location, expected, read_io, IndexHold::Frames, cache)
    }

    fn open_holding(
        location: TableLocation<'_>,
        expected: Option<&TableMeta>,
        read_io: ReadIo,
        hold: IndexHold,
        cache: &Arc<Cache>,
    ) -> Result<Arc<Self>> {
        let mut source = TableSource::new(location, expected)?;
        let properties = source.read_properties(expected)?;
        source.dictionary = TableDictionary::of(&properties, Some(cache));
        let mapping = match read_io {
            ReadIo::Map if properties.data_frames > 0 => source.map(),
            _ => None,
        };
        let contents = TableContents::read(&source, properties, mapping.as_ref(), hold, cache)?;
        let blocks = contents.blocks;
        let mapping = mapping.filter(|_| match &contents.index {
            TableIndex::Tree(TreeIndex::Mapped(_)) => false,
            TableIndex::Whole(_) | TableIndex::Frames(_) => true,
            TableIndex::Tree(TreeIndex::Cached(_)) => true,
        });
        let mapped = mapping.map(|bytes| Mapped::new(bytes, source.uid, blocks));
        let (slots, maplet_shape) = match &contents.index {
            TableIndex::Whole(index) => {
                (blocks, MapletShape::new(blocks, index.entries(), index.entries_max()))
            }
            TableIndex::Frames(_) | TableIndex::Tree(_) => (0, None),
        };
        let charged = size_of::<Self>()
            + mapped.as_ref().map_or(0, Mapped::memory_bytes)
            + contents.index.memory_bytes()
            + contents.tombstones.memory_bytes()
            + Slots::<Block>::bytes(slots);
        cache.budget().charge(Part::Tables, charged);
        cache.fit();
        let (slots, cache) = (Slots::new(cache, slots), Arc::clone(cache));
        let (filter, reading, maplet) = (OnceLock::new(), Mutex::default(), OnceLock::new());
        let filter_parts = OnceLock::new();
        Ok(Arc::new(Self {
            source,
            contents,
            slots,
            filter,
            filter_parts,
            reading,
            mapped,
            maplet,
            maplet_shape,
            cache,
            charged,
        }))
    }

    /// The filter, read from the file when it is first asked for.
    ///
    /// # Errors
    /// Corruption, if it is damaged; what reading it fails with. The next call tries again.
    #[inline]
    pub fn filter(&self) -> Result<&TableFilter> {
        match self.filter.get() {
            Some(filter) => Ok(filter),
            None => self.read_filter(),
        }
    }

    #[cold]
    fn read_filter(&self) -> Result<&TableFilter> {
        let _reading = lock(&self.reading);
        if let Some(filter) = self.filter.get() {
            return Ok(filter);
        }
        let filter = self.source.read_filter(self.contents.filter_frame)?;
        let keys = self.contents.meta.filter_keys;
        Ok(self.filter.get_or_init(|| TableFilter::new(filter, keys, &self.cache)))
    }

    /// Whether the table may hold a point entry of the key, as its filter tells; `false` is
    /// certain.
    ///
    /// # Errors
    /// As [`Table::filter`].
    #[inline]
    pub(in crate::table) fn may_contain(&self, key: LookupKey<'_>) -> Result<bool> {
        match self.filter.get() {
            Some(filter) => Ok(filter.may_contain(key)),
            None => self.ask_filter(key),
        }
    }

    #[inline(never)]
    fn ask_filter(&self, key: LookupKey<'_>) -> Result<bool> {
        match self.filter_parts()? {
            None => Ok(self.read_filter()?.may_contain(key)),
            Some(None) => Ok(true),
            Some(Some(parts)) => parts.may_contain(&self.source, &self.cache, key),
        }
    }

    /// Whether the table may hold a point entry from `lower` up to and without `upper`, as
    /// [`TableFilter::may_contain_range`] tells; `false` is certain.
    ///
    /// # Errors
    /// As [`Table::filter`].
    pub fn may_contain_range(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<bool> {
        let parts = match self.filter.get() {
            Some(_) => None,
            None => self.filter_parts()?,
        };
        let Some(parts) = parts else {
            return Ok(self.filter()?.may_contain_range(lower, upper));
        };
        let asked = parts.as_ref().and_then(|parts| {
            let hash = hash_of_range(parts.keys(), lower, upper)?;
            Some(parts.may_hold(&self.source, &self.cache, hash))
        });
        asked.unwrap_or(Ok(true))
    }

    /// The filter in the file; `None` as long as there is memory to hold all of it.
    fn filter_parts(&self) -> Result<Option<&Option<FilterParts>>> {
        if let Some(parts) = self.filter_parts.get() {
            return Ok(Some(parts));
        }
        let is_lean = matches!(self.contents.index, TableIndex::Frames(_));
        if !is_lean && self.cache.has_room_for_tables() {
            return Ok(None);
        }
        let _reading = lock(&self.reading);
        if let Some(parts) = self.filter_parts.get() {
            return Ok(Some(parts));
        }
        let (frame, keys) = (self.contents.filter_frame, self.contents.meta.filter_keys);
        let parts = FilterParts::open(&self.source, frame, keys, &self.cache)?;
        Ok(Some(self.filter_parts.get_or_init(|| parts)))
    }

    /// Has the table share a filter that was read before the table was opened, unless it has read
    /// its own since.
    pub fn share_filter(&self, filter: &TableFilter) {
        self.filter.get_or_init(|| filter.clone());
    }

    /// The filter, if it was read.
    #[inline]
    pub(in crate::table) fn filter_if_read(&self) -> Option<&TableFilter> {
        self.filter.get()
    }

    /// The range tombstones.
    #[inline]
    #[must_use]
    pub fn tombstones(&self) -> &Arc<Fragments> {
        &self.contents.tombstones
    }

    /// What is known of the table without opening it.
    #[inline]
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.contents.meta
    }

    /// Bytes of memory it takes beside its cached blocks.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let parts = self.filter_parts.get().and_then(Option::as_ref);
        self.charged
            + self.filter_if_read().map_or(0, TableFilter::bytes)
            + parts.map_or(0, FilterParts::memory_bytes)
    }

    /// The number of data blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.contents.blocks
    }

    /// The data block of this number of a block table, whose index is `index`.
    pub(in crate::table) fn site<'a>(&'a self, index: &'a Index, number: usize) -> BlockSite<'a> {
        BlockSite { slots: &self.slots, slot: number, number, info: index.info(number) }
    }

    /// Goes down the tree of a B+tree table to the block that `choose` leads to.
    pub(in crate::table) fn descend(
        &self,
        tree: &TreeIndex,
        choose: impl Fn(&NodeView<'_>) -> usize,
    ) -> Result<Option<(NodeHold, usize)>> {
        tree.descend(&self.source, &self.cache, choose)
    }

    /// Prefetches the memory of the data block at `index`, if it is in the cache.
    pub(in crate::table) fn prefetch_block(&self, index: usize) {
        self.slots.prefetch(index, Block::WALK_FRONT_BYTES);
    }

    /// Prefetches the memory of the data block that a seek to (`key`, `sequence`) leads to, if it
    /// is in the cache.
    pub(in crate::table) fn prefetch_seek(&self, key: &[u8], sequence: SequenceNumber) {
        if let TableIndex::Whole(index) = &self.contents.index
            && let Some(index) = index.find(key, sequence)
        {
            self.slots.prefetch(index, Block::FRONT_BYTES);
        }
    }

    /// Whether a reader has looked for a block of it lately: since the hand of the cache last came
    /// by. A table that was only opened ahead was not read.
    #[must_use]
    pub fn is_read(&self) -> bool {
        match &self.contents.index {
            TableIndex::Whole(_) => self.slots.are_used(),
            TableIndex::Tree(TreeIndex::Cached(tree)) => tree.is_used(),
            TableIndex::Frames(_) | TableIndex::Tree(TreeIndex::Mapped(_)) => false,
        }
    }

    /// Puts a copy of the data block at `index` into the cache, if there is room to spare. Does
    /// nothing if the block can be read in place in a mapping. For callers that have read the block
    /// for another reason.
    ///
    /// # Panics
    /// Perhaps, if there is none of this index.
    pub fn keep(&self, index: usize, block: &Block) {
        match &self.contents.index {
            TableIndex::Whole(whole) => self.keep_at(&self.site(whole, index), block),
            TableIndex::Frames(_) | TableIndex::Tree(TreeIndex::Mapped(_)) => {}
            TableIndex::Tree(TreeIndex::Cached(tree)) => {
                let choose = |node: &NodeView<'_>| node.position_of(index as u64);
                // A node that cannot be read is found by the next reader.
                if let Ok(Some((node, at))) = tree.descend(&self.source, &self.cache, choose)
                    && let Some(site) = node.site(at)
                {
                    self.keep_at(&site, block);
                }
            }
        }
    }

    fn keep_at(&self, site: &BlockSite<'_>, block: &Block) {
        let is_seen_mapped = self.mapped.as_ref().is_some_and(|mapped| mapped.is_raw(&site.info));
        if !is_seen_mapped && self.cache.has_room(block.bytes()) {
            let region = self.cache.region();
            let block = block.copy_into(|bytes, margins| region.copy(bytes, margins));
            let bytes = block.bytes();
            site.slots.insert_spare(site.slot, &Arc::new(Cached::new(block, bytes)));
        }
    }

    /// Reads the data block at `site` from the file and caches it.
    #[cold]
    pub(in crate::table) fn load(&self, site: &BlockSite<'_>) -> Result<Arc<Cached<Block>>> {
        let region = self.cache.region();
        let copy = |raw: &[u8], margins| region.copy(raw, margins);
        let held = self.read_block(site.number, &site.info, copy)?;
        site.slots.insert(site.slot, &held);
        Ok(held)
    }

    /// Reads the data block at `site`, which the cache did not have, for a cursor that stays
    /// there. Caches it if the cache admits it.
    #[cold]
    pub(in crate::table) fn load_if_admitted(
        &self,
        site: &BlockSite<'_>,
    ) -> Result<Arc<Cached<Block>>> {
        match site.slots.admit(site.slot) {
            CacheFill::Keep => self.load(site),
            CacheFill::Pass => self.read_beside(site.number, &site.info),
        }
    }

    /// Reads the data block of this number, which `info` describes, past the cache.
    #[cold]
    pub(in crate::table) fn read_beside(
        &self,
        number: usize,
        info: &BlockInfo<'_>,
    ) -> Result<Arc<Cached<Block>>> {
        let region = self.cache.region();
        self.read_block(number, info, |raw, margins| region.copy_beside(raw, margins))
    }

    /// Reads the data block of this number into memory that `copy` chooses.
    fn read_block(
        &self,
        number: usize,
        info: &BlockInfo<'_>,
        copy: impl FnOnce(&[u8], Margins) -> Buffer,
    ) -> Result<Arc<Cached<Block>>> {
        match &self.mapped {
            Some(mapped) => self.hold_mapped(mapped, number, info, copy),
            None => self.source.read_frame(FrameKind::Data, info.offset, info.bytes, |raw| {
                hold(Block::parse_into(raw, copy)?, info)
            }),
        }
    }

    /// Calls `look` with the bytes of the data block of this number, verified, and with
    /// [`Block::BYTES_BEHIND`] after them.
    pub(in crate::table) fn with_raw<R>(
        &self,
        number: usize,
        info: &BlockInfo<'_>,
        look: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        with_scratch(|scratch| match &self.mapped {
            Some(mapped) => mapped.with_raw(number, info, &self.source, &mut scratch.raw, look),
            None => {
                self.source.read(info.offset, info.bytes, &mut scratch.frame)?;
                let place = FramePlace { table: self.source.uid, offset: info.offset };
                let frame = Frame::open(&scratch.frame, FrameKind::Data, place)?;
                let dictionary = self.source.dictionary_for(Some(frame.codec))?;
                let (dictionary, padding_bytes) = (dictionary.as_deref(), Block::BYTES_BEHIND);
                frame.decode_padded(dictionary, padding_bytes, &mut scratch.raw).and_then(look)
            }
        })
        .map_err(|error| self.source.locate(error, info.offset))
    }

    /// The data block at `site`, verified, for a long walk that reads `ahead`; it stays in the
    /// cache if walks came by before.
    pub(in crate::table) fn pass_by(
        &self,
        site: &BlockSite<'_>,
        ahead: &mut Readahead,
    ) -> Result<Arc<Cached<Block>>> {
        let (info, number, data_bytes) = (&site.info, site.number, self.contents.data_bytes);
        if !site.slots.offer(site.slot) {
            return self.walk_past(number, info, ahead);
        }
        let copy = |raw: &[u8], margins| self.cache.region().copy(raw, margins);
        let held = match &self.mapped {
            Some(mapped) => self.hold_mapped(mapped, number, info, copy),
            None => {
                ahead.charge_to(self.cache.budget(), 0);
                let frame = ahead.frame(&self.source, data_bytes, number, info)?;
                self.hold_read(info, frame, copy)
            }
        }?;
        site.slots.insert_spare(site.slot, &held);
        Ok(held)
    }

    /// The same without the cache.
    pub(in crate::table) fn walk_past(
        &self,
        number: usize,
        info: &BlockInfo<'_>,
        ahead: &mut Readahead,
    ) -> Result<Arc<Cached<Block>>> {
        if self.mapped.is_some() {
            return self.read_beside(number, info);
        }
        let block = ahead.block(&self.source, self.contents.data_bytes, number, info)?;
        ahead.charge_to(self.cache.budget(), block.bytes());
        Ok(hold_verified(block))
    }

    /// The data block that `info` describes, from its `frame`, which was read.
    fn hold_read(
        &self,
        info: &BlockInfo<'_>,
        frame: &[u8],
        copy: impl FnOnce(&[u8], Margins) -> Buffer,
    ) -> Result<Arc<Cached<Block>>> {
        let place = FramePlace { table: self.source.uid, offset: info.offset };
        with_scratch(|scratch| {
            Frame::open(frame, FrameKind::Data, place)
                .and_then(|frame| {
                    let dictionary = self.source.dictionary_for(Some(frame.codec))?;
                    frame.decode(dictionary.as_deref(), &mut scratch.raw)
                })
                .and_then(|raw| hold(Block::parse_into(raw, copy)?, info))
                .map_err(|error| self.source.locate(error, info.offset))
        })
    }

    /// The data block of this number, which is mapped.
    fn hold_mapped(
        &self,
        mapped: &Mapped,
        number: usize,
        info: &BlockInfo<'_>,
        copy: impl FnOnce(&[u8], Margins) -> Buffer,
    ) -> Result<Arc<Cached<Block>>> {
        let opened =
            with_scratch(|scratch| mapped.open(number, info, &self.source, &mut scratch.raw, copy));
        let held = opened.and_then(|block| match mapped.is_verified(number) {
            true => Ok(hold_verified(block)),
            false => hold(block, info).inspect(|_| mapped.note_verified(number, info)),
        });
        held.map_err(|error| self.source.locate(error, info.offset))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let (Some(_), Some(shape)) = (self.maplet.get(), self.maplet_shape) {
            self.cache.release_guide(shape.bytes());
        }
        self.cache.budget().release(Part::Tables, self.charged);
    }
}

/// Compares a block with its index.
fn hold(block: Block, info: &BlockInfo<'_>) -> Result<Arc<Cached<Block>>> {
    check_block(&block, info)?;
    Ok(hold_verified(block))
}

pub(in crate::table) fn hold_verified(block: Block) -> Arc<Cached<Block>> {
    let bytes = block.bytes();
    Arc::new(Cached::new(block, bytes))
}

impl TreeNode {
    /// The data block at `at`, if this is a node of level 0.
    pub(in crate::table) fn site(&self, at: usize) -> Option<BlockSite<'_>> {
        let (slots, view) = (self.blocks()?, self.view());
        let number = view.first_block_of(at) as usize;
        Some(BlockSite { slots, slot: at, number, info: view.info(at) })
    }
}
