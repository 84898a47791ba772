//! Walks the point entries of a table, block by block.
//!
//! Range tombstones are not among them: they stand beside it, in [`Table::tombstones`].

use crate::table::format::block_info::{BlockInfo, Blocks};
use crate::table::read::contents::TableIndex;
use crate::table::read::frame_part::fewer_blocks;
use crate::table::read::frame_position::FramePosition;
use crate::table::read::key_block::key_block;
use crate::table::read::reach::Reach;
use crate::table::read::readahead::{Readahead, WINDOW_BYTES};
use crate::table::read::reader::Table;
use crate::table::read::tree_position::{BlockWay, TreePosition};
use crate::{
    block::{Block, Located},
    cache::Cached,
    maplet::Maplet,
};
use siltdb_base::{
    checksum::xxh3,
    cursor::{Direction, EntryCursor, Fetch, Stretch, StretchContent},
    error::Result,
    id::SequenceNumber,
    key::{Entry, LookupKey},
    seeded_fault,
};
use std::{ops::ControlFlow, sync::Arc};

/// Blocks that a span covers at most. With eight, what is done once for a span hardly counts, and
/// little of it is in vain for a short range.
const SPAN_BLOCKS_MAX: usize = 8;

/// Blocks that a walk leads into before those it goes on to no longer displace others in the cache.
const WALK_BLOCKS: u32 = 8;

/// Seeks to keys that the maplet does not lead to, one after the other, before a cursor stops
/// asking it. A seek to a prefix, or in a table with few of the keys sought, asks in vain each
/// time.
const VAIN_LOOKS_MAX: u8 = 8;

/// A position among the point entries of a table. Holds the table and one block.
///
/// What it reads is kept in the cache as long as it jumps or takes short walks. A long walk is read
/// ahead in larger pieces, and only offered to the cache.
///
/// # Invariants
/// 1. `located` is an entry of `block`, at `entry_index`, and `key` its key.
/// 2. If there is a block, it is the one at `block_index`, and `key` begins with its prefix.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    block: Option<Arc<Cached<Block>>>,
    block_index: usize,
    entry_index: usize,
    located: Option<Located>,
    key: Vec<u8>,
    /// Where it stands in the tree of a B+tree table.
    position: TreePosition,
    /// The part of the index at hand, of a table whose index is in the file.
    frame: Option<Box<FramePosition>>,
    /// How the block was entered; `None` for a jump.
    direction: Option<Direction>,
    /// Blocks that were entered one after the other along this direction.
    walked: u32,
    /// For long walks.
    ahead: Readahead,
    /// Looks into the maplet that led nowhere since one led to a key.
    vain_looks: u8,
    fetch: Fetch,
    /// Blocks beyond it are not read; `None` is no limit.
    reach: Option<Arc<Reach>>,
}

impl Table {
    /// A cursor that stands nowhere yet.
    #[must_use]
    pub fn cursor(self: &Arc<Self>) -> TableCursor {
        self.cursor_fetching(Fetch::Values)
    }

    /// A cursor that stands nowhere yet. With [`Fetch::KeysOnly`] it does not read a block if the
    /// index tells its only key, and shows an empty value there.
    #[must_use]
    pub fn cursor_fetching(self: &Arc<Self>, fetch: Fetch) -> TableCursor {
        TableCursor {
            table: Arc::clone(self),
            block: None,
            block_index: 0,
            entry_index: 0,
            located: None,
            key: Vec::new(),
            position: TreePosition::default(),
            frame: None,
            direction: None,
            walked: 0,
            ahead: Readahead::new(WINDOW_BYTES),
            vain_looks: 0,
            fetch,
            reach: None,
        }
    }
}

/// An end of a block.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

impl TableCursor {
    /// The cursor, which does not read blocks beyond `reach`: it has no position there, as past
    /// either end of the table.
    #[must_use]
    pub fn within(self, reach: Option<Arc<Reach>>) -> Self {
        Self { reach, ..self }
    }

    /// What the index knows of the block at `index`; the block is not read.
    fn describe(&mut self, index: usize) -> Result<BlockInfo<'_>> {
        match &self.table.contents.index {
            TableIndex::Whole(whole) => Ok(whole.info(index)),
            TableIndex::Frames(frames) => {
                let frame = self.frame.get_or_insert_default();
                frame.go_to_block(&self.table, frames, index)?;
                let (part, at) = frame.held(frames, index).ok_or_else(fewer_blocks)?;
                Ok(part.info(at))
            }
            TableIndex::Tree(tree) => {
                let (node, at) = self.position.with_block(&self.table, tree, index)?;
                Ok(node.info(at))
            }
        }
    }

    /// Whether no entry of the block at `index` is within reach.
    #[inline]
    fn is_beyond_reach(&mut self, index: usize) -> Result<bool> {
        // Taken, because a look at the index may move the cursor's place there.
        let Some(reach) = self.reach.take() else { return Ok(false) };
        let info = self.describe(index);
        let excludes = info.map(|info| reach.excludes(info.first_key, info.last_key));
        self.reach = Some(reach);
        Ok(excludes? && !seeded_fault!("bound_read_through"))
    }

    /// Leaves the entries; the block stays, for the case that the next seek leads to it.
    fn leave(&mut self) {
        self.located = None;
    }

    /// Makes the block at `index` the cursor's; it stands on no entry.
    fn enter(&mut self, index: usize) -> Result<()> {
        self.located = None;
        if self.block.is_some() && self.block_index == index {
            // A look at another block may have led the place in the index away from this one.
            return self.describe(index).map(drop);
        }
        self.note_course(index);
        self.block = None;
        let (table, is_long_walk) = (&*self.table, self.walked >= WALK_BLOCKS);
        let block = match &table.contents.index {
            TableIndex::Whole(whole) => {
                let known = || match self.fetch {
                    Fetch::Values => None,
                    Fetch::KeysOnly => key_block(&whole.info(index)),
                };
                match table.slots.get(index).or_else(known) {
                    Some(block) => block,
                    None if is_long_walk => {
                        table.pass_by(&table.site(whole, index), &mut self.ahead)?
                    }
                    None => table.load_if_admitted(&table.site(whole, index))?,
                }
            }
            TableIndex::Frames(frames) => {
                let frame = self.frame.get_or_insert_default();
                frame.go_to_block(table, frames, index)?;
                let (part, at) = frame.held(frames, index).ok_or_else(fewer_blocks)?;
                let info = part.info(at);
                let known = || match self.fetch {
                    Fetch::Values => None,
                    Fetch::KeysOnly => key_block(&info),
                };
                let site = frame.site(frames, index);
                match site.and_then(|site| site.slots.get(site.slot)).or_else(known) {
                    Some(block) => block,
                    None => match site {
                        Some(site) if is_long_walk => table.pass_by(&site, &mut self.ahead)?,
                        Some(site) => table.load_if_admitted(&site)?,
                        None if is_long_walk => table.walk_past(index, &info, &mut self.ahead)?,
                        None => table.read_beside(index, &info)?,
                    },
                }
            }
            TableIndex::Tree(tree) => {
                let way = BlockWay { fetch: self.fetch, is_long_walk };
                self.position.block(table, tree, index, way, &mut self.ahead)?
            }
        };
        self.key.clear();
        self.key.extend_from_slice(block.prefix());
        self.block = Some(block);
        self.block_index = index;
        Ok(())
    }

    /// Notes how the walk goes on if the block at `index` is entered, which is not the cursor's.
    #[inline]
    fn note_course(&mut self, index: usize) {
        let direction = match self.block {
            Some(_) if self.block_index + 1 == index => Some(Direction::Forward),
            Some(_) if index + 1 == self.block_index => Some(Direction::Backward),
            _ => None,
        };
        let goes_on = direction.is_some() && (self.walked == 0 || direction == self.direction);
        self.walked = if goes_on { self.walked.saturating_add(1) } else { 0 };
        self.direction = direction;
    }

    /// The maplet, if there is one and it is to be asked.
    #[inline]
    fn guiding_maplet(&self) -> Option<&Maplet> {
        self.table.maplet.get().filter(|_| self.vain_looks < VAIN_LOOKS_MAX)
    }

    /// Stands on the newest entry of `key`, if the maplet leads to it, it lies in memory, and it is
    /// not newer than `sequence`. By (2) of the table nothing at or after (`key`, `sequence`) lies
    /// before it.
    #[inline]
    fn seek_by_maplet(&mut self, key: &[u8], sequence: SequenceNumber) -> bool {
        let Some(maplet) = self.guiding_maplet() else { return false };
        for place in maplet.search(xxh3(key)) {
            self.table.prefetch_place(place);
            let block = self.table.slots.hold(place.block);
            let Some(block) = block else { return false };
            let Some(located) = block.get_at(place.entry, key) else { continue };
            if located.sequence > sequence {
                return false;
            }
            if self.block.is_none() || self.block_index != place.block {
                self.note_course(place.block);
                self.block_index = place.block;
                self.block = Some(block);
            }
            self.key.clear();
            self.key.extend_from_slice(key);
            (self.entry_index, self.located) = (place.entry, Some(located));
            self.vain_looks = 0;
            return true;
        }
        self.vain_looks += 1;
        false
    }

    fn enter_at(&mut self, index: usize, end: End) -> Result<()> {
        if self.is_beyond_reach(index)? {
            self.leave();
            return Ok(());
        }
        self.enter(index)?;
        self.stand_at(match end {
            End::First => 0,
            End::Last => self.block.as_ref().map_or(0, |block| block.count() - 1),
        });
        Ok(())
    }

    /// The block that holds the first entry at or after (`key`, `sequence`), if there is such an
    /// entry. The cursor stands nowhere then.
    #[inline]
    fn find(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<Option<usize>> {
        self.leave();
        match &self.table.contents.index {
            TableIndex::Whole(whole) => Ok(whole.find(key, sequence)),
            TableIndex::Frames(frames) => {
                let frame = self.frame.get_or_insert_default();
                frame.find(&self.table, frames, key, sequence)
            }
            TableIndex::Tree(tree) => self.position.find(&self.table, tree, key, sequence),
        }
    }

    /// What the index knows of the block that the cursor stands in.
    #[inline]
    fn info(&self) -> Option<(BlockInfo<'_>, StretchContent)> {
        let number = self.block_index;
        let (info, is_plain) = match &self.table.contents.index {
            TableIndex::Whole(whole) => (whole.info(number), whole.is_plain(number)),
            TableIndex::Frames(frames) => {
                let (part, at) = self.frame.as_deref()?.held(frames, number)?;
                (part.info(at), part.is_plain(at))
            }
            TableIndex::Tree(tree) => {
                let (node, at) = self.position.held(tree, number)?;
                (node.info(at), node.is_plain(at))
            }
        };
        Some((info, if is_plain { StretchContent::Plain } else { StretchContent::Any }))
    }

    /// The plain blocks beside that block along `direction`, and what is known of the last.
    fn plain_beside(&self, direction: Direction) -> Option<(Blocks, BlockInfo<'_>)> {
        let (number, limit) = (self.block_index, SPAN_BLOCKS_MAX - 1);
        match &self.table.contents.index {
            TableIndex::Whole(whole) => {
                let blocks = whole.plain_beside(number, direction, limit);
                Some((blocks, whole.info(blocks.last)))
            }
            TableIndex::Frames(frames) => {
                let (part, at) = self.frame.as_deref()?.held(frames, number)?;
                let blocks = part.plain_beside(at, direction, limit);
                Some((blocks, part.info(blocks.last)))
            }
            TableIndex::Tree(tree) => {
                let (node, at) = self.position.held(tree, number)?;
                let blocks = node.plain_beside(at, direction, limit);
                Some((blocks, node.info(blocks.last)))
            }
        }
    }

    /// Goes over at most `steps` entries of the block, and says what `seen` said last.
    // Never inlined: alone, the loop keeps more of what it needs in registers.
    #[inline(never)]
    fn walk_block(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> (usize, ControlFlow<()>) {
        let mut flow = ControlFlow::Continue(());
        // Taken, by (1): if `seen` panics, the cursor stands nowhere.
        let (Some(located), Some(block)) = (self.located.take(), &self.block) else {
            return (0, flow);
        };
        let ahead = match direction {
            Direction::Forward => block.count() - 1 - self.entry_index,
            Direction::Backward => self.entry_index,
        };
        let steps = steps.min(ahead);
        let (entries, prefix_bytes) = (block.entries(), block.prefix().len());
        // Only where an entry begins is carried from one entry to the next. So what `seen` does not
        // look at need not be worked out.
        let mut offset = None;
        let mut next = located.end();
        let mut made = 0;
        while made < steps && flow.is_continue() {
            made += 1;
            if direction == Direction::Backward {
                next = entries.offset(self.entry_index - made);
            }
            offset = Some(next);
            let at = entries.at(next);
            next = at.end();
            entries.prefetch_behind(next);
            set_suffix(&mut self.key, prefix_bytes, entries.suffix_at(&at));
            let (sequence, kind, value) = (at.sequence, at.kind, entries.value_at(&at));
            flow = seen(Entry { key: &self.key, sequence, kind, value });
        }
        self.located = Some(offset.map_or(located, |offset| entries.at(offset)));
        match direction {
            Direction::Forward => self.entry_index += made,
            Direction::Backward => self.entry_index -= made,
        }
        (made, flow)
    }

    /// Stands on the entry at `index` of the block; nowhere, if the block has none there.
    #[inline]
    fn stand_at(&mut self, index: usize) {
        let Some(block) = self.block.as_ref().filter(|block| index < block.count()) else {
            self.located = None;
            return;
        };
        let located = block.locate(index);
        set_suffix(&mut self.key, block.prefix().len(), block.suffix_at(&located));
        self.entry_index = index;
        self.located = Some(located);
    }
}

/// Makes `suffix` what follows the first `prefix_bytes` of `key`.
///
/// Most are between 8 and 16 bytes long, and most follow one of the same length. Two moves suffice
/// then, where a copy of any length would be a call.
#[inline]
pub(in crate::table) fn set_suffix(key: &mut Vec<u8>, prefix_bytes: usize, suffix: &[u8]) {
    if let Some(place) = key.get_mut(prefix_bytes..)
        && place.len() == suffix.len()
        && suffix.len() <= 16
        && let (Some(first), Some(last)) = (suffix.first_chunk::<8>(), suffix.last_chunk::<8>())
    {
        if let Some(place) = place.first_chunk_mut::<8>() {
            *place = *first;
        }
        if let Some(place) = place.last_chunk_mut::<8>() {
            *place = *last;
        }
        return;
    }
    key.truncate(prefix_bytes);
    key.extend_from_slice(suffix);
}

impl EntryCursor for TableCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let (located, block) = (self.located.as_ref()?, self.block.as_ref()?);
        Some(Entry {
            key: &self.key,
            sequence: located.sequence,
            kind: located.kind,
            value: block.value_at(located),
        })
    }

    fn seek_to_first(&mut self) -> Result<()> {
        match self.table.block_count() {
            0 => {
                self.leave();
                Ok(())
            }
            _ => self.enter_at(0, End::First),
        }
    }

    fn seek_to_last(&mut self) -> Result<()> {
        match self.table.block_count().checked_sub(1) {
            None => {
                self.leave();
                Ok(())
            }
            Some(last) => self.enter_at(last, End::Last),
        }
    }

    fn seek(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        if self.seek_by_maplet(key, sequence) {
            return Ok(());
        }
        let Some(index) = self.find(key, sequence)? else { return Ok(()) };
        if self.is_beyond_reach(index)? {
            return Ok(());
        }
        self.enter(index)?;
        let entry = self.block.as_ref().map_or(0, |block| block.lower_bound(key, sequence));
        if let Some(block) = self.block.as_ref().filter(|block| entry < block.count()) {
            block.prefetch_entry(entry);
        }
        // The last entry of the block is at or after the key, so this is an entry of the block.
        self.stand_at(entry);
        // So that the next lookup of the key is led there.
        if let Some(block) = self.block.as_ref().filter(|_| self.key == key) {
            self.table.add_to_maplet(index, block);
        }
        Ok(())
    }

    fn prefetch(&self, key: &[u8], sequence: SequenceNumber) {
        match self.guiding_maplet() {
            Some(maplet) => maplet.prefetch(xxh3(key)),
            None => self.table.prefetch_seek(key, sequence),
        }
    }

    fn prefetch_filter(&self, key: LookupKey<'_>) {
        self.table.prefetch(key);
    }

    fn may_hold(&self, key: LookupKey<'_>) -> bool {
        self.table.may_hold(key)
    }

    fn seek_before(&mut self, key: &[u8], sequence: SequenceNumber) -> Result<()> {
        let Some(index) = self.find(key, sequence)? else {
            return self.seek_to_last();
        };
        let first_key = self.describe(index)?.first_key;
        let has_earlier = first_key < key || first_key == key && sequence < SequenceNumber::MAX;
        let entry = match has_earlier || seeded_fault!("bound_read_through") {
            true => {
                self.enter(index)?;
                self.block.as_ref().map_or(0, |block| block.lower_bound(key, sequence))
            }
            false => 0,
        };
        match (entry.checked_sub(1), index.checked_sub(1)) {
            (Some(entry), _) => self.stand_at(entry),
            (None, Some(before)) => self.enter_at(before, End::Last)?,
            (None, None) => self.leave(),
        }
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.located.is_none() {
            return Ok(());
        }
        self.stand_at(self.entry_index + 1);
        if self.located.is_none() && self.block_index + 1 < self.table.block_count() {
            self.enter_at(self.block_index + 1, End::First)?;
            self.table.prefetch_block(self.block_index + 1);
        }
        Ok(())
    }

    #[inline]
    fn walk(
        &mut self,
        direction: Direction,
        steps: usize,
        seen: &mut impl FnMut(Entry<'_>) -> ControlFlow<()>,
    ) -> Result<usize> {
        let mut made = 0;
        loop {
            let (walked, flow) = self.walk_block(direction, steps - made, seen);
            made += walked;
            if flow.is_break() || made == steps {
                return Ok(made);
            }
            match direction {
                Direction::Forward => self.next()?,
                Direction::Backward => self.prev()?,
            }
            let Some(entry) = self.entry() else { return Ok(made) };
            made += 1;
            if seen(entry).is_break() {
                return Ok(made);
            }
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.located.is_none() {
            return Ok(());
        }
        match (self.entry_index.checked_sub(1), self.block_index.checked_sub(1)) {
            (Some(entry), _) => self.stand_at(entry),
            (None, Some(before)) => self.enter_at(before, End::Last)?,
            (None, None) => self.leave(),
        }
        Ok(())
    }

    fn stretch(&self) -> Option<Stretch<'_>> {
        let (_, block) = (self.located.as_ref()?, self.block.as_ref()?);
        let (info, content) = self.info()?;
        Some(Stretch {
            first_key: info.first_key,
            last_key: info.last_key,
            before: self.entry_index,
            after: block.count() - 1 - self.entry_index,
            sequence_max: info.sequence_max,
            content,
        })
    }

    #[inline]
    fn stretch_along(&self, direction: Direction) -> Option<Stretch<'_>> {
        let span = self.stretch()?;
        if span.content != StretchContent::Plain {
            return Some(span);
        }
        let Some((more, end)) = self.plain_beside(direction).filter(|(more, _)| more.entries > 0)
        else {
            return Some(span);
        };
        let sequence_max = span.sequence_max.max(more.sequence_max);
        Some(match direction {
            Direction::Forward => Stretch {
                last_key: end.last_key,
                after: span.after + more.entries,
                sequence_max,
                ..span
            },
            Direction::Backward => Stretch {
                first_key: end.first_key,
                before: span.before + more.entries,
                sequence_max,
                ..span
            },
        })
    }
}
