//! A table that may be damaged: where its blocks lie, and what of it verifies.
//!
//! It mends nothing and decides nothing: it shows what verifies and names what does not.
//!
//! 1. The footer names the table; where it is damaged, the properties do, which are looked for.
//! 2. The index says where the data frames lie; in a B+tree table its lowest nodes do. If any of it
//!    is damaged, the frames are found one behind the other. Each says how long it is, and its
//!    checksum ties it to its table and place.
//! 3. Behind a damaged frame, every byte is tried as the beginning of the next one.
//!
//! Cost of a sound table: as that of reading it once. Memory: the index, and one block.

use crate::table::format::footer::{FOOTER_BYTES, Footer};
use crate::table::format::index::Index;
use crate::table::format::node::NodeView;
use crate::table::format::properties::Properties;
use crate::table::format::sealed::SealedBlock;
use crate::table::format::tombstones;
use crate::table::read::dictionary::TableDictionary;
use crate::table::read::source::{TableSource, with_scratch};
use crate::{
    compress::Codec,
    frame::{CHECKSUM_BYTES, FRAME_BYTES_MIN, Frame, FrameKind, FramePlace},
    table_meta::TableMeta,
};
use siltdb_base::{
    codec::{ByteReader, VARINT_BYTES_MAX},
    error::{Error, Result},
    fs::File,
    id::TableUid,
    key::{Entry, SortKey},
    limits::PROPERTIES_BYTES_MAX,
    seeded_fault,
    slice::Slice,
    sync::lock,
    tombstone::Fragments,
};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};

/// Bytes of a file that are looked through at once.
const WINDOW_BYTES: u64 = 64 << 10;

/// Most bytes of a frame in front of its payload.
const HEAD_BYTES_MAX: u64 = 2 + 2 * VARINT_BYTES_MAX as u64;

/// A part of a file that a table takes, or may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePlace {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length, in bytes.
    pub length: u64,
}

/// Entries of a table that cannot be read.
#[derive(Debug)]
pub struct LostEntries {
    /// No lost entry has a smaller key; `None` if that is not known.
    pub first: Option<Slice>,
    /// No lost entry has a larger key; `None` if that is not known.
    pub last: Option<Slice>,
    /// There are not more of them; `None` if that is not known.
    pub entries_max: Option<u64>,
    /// Where the damage lies, and what it is.
    pub error: Error,
}

/// What was found to be lost, by the readers of several tables.
pub type LostList = Arc<Mutex<Vec<LostEntries>>>;

/// A table that may be damaged.
#[derive(Debug)]
pub struct TableSalvage {
    source: TableSource,
    properties: Option<Properties>,
    /// What is known of it, from the properties or elsewhere.
    meta: Option<TableMeta>,
    tombstones: Fragments,
    pub(in crate::table) blocks: DataFrames,
}

/// Where the data frames lie.
#[derive(Debug)]
pub(in crate::table) enum DataFrames {
    Index(Box<Index>),
    /// Offset and length of each.
    Scanned(Vec<(u64, u64)>),
}

impl TableSalvage {
    /// Finds what is left of the table at `place` of `file`, which lies at `path`. It is the one
    /// that is `expected`, if anything is known of it.
    ///
    /// Whatever is found to be damaged is added to `lost`; blocks are verified when they are read.
    ///
    /// # Errors
    /// What keeps the whole of it from being read.
    pub fn open(
        file: Arc<dyn File>,
        path: &Path,
        place: TablePlace,
        expected: Option<&TableMeta>,
        lost: &LostList,
    ) -> Result<Self> {
        let length = place.length.min(file.len().saturating_sub(place.offset));
        let path = path.to_owned();
        let (offset, uid) = (place.offset, TableUid(0));
        let mut source = TableSource { file, path, offset, length, uid, dictionary: None };
        let footer = match length >= FOOTER_BYTES as u64 {
            true => source.read_footer(),
            false => Err(source.locate(Error::corruption("table cut short"), 0)),
        };
        let named = footer.as_ref().ok().map(|footer| footer.uid);
        let known = expected.map(|expected| expected.uid);
        if let (Some(named), Some(known)) = (named, known)
            && named != known
        {
            let error = Error::corruption("the table is another one").with_mismatch(known, named);
            return Err(source.locate(error, length));
        }
        source.uid = named.or(known).unwrap_or(source.uid);
        let by_footer = named.and_then(|_| source.read_properties(None).ok());
        let properties = by_footer.or_else(|| find_properties(&source));
        match (named.or(known), &properties, footer) {
            (None, Some(properties), _) => source.uid = properties.meta.uid,
            (None, None, Err(error)) => return Err(error),
            _ => {}
        }
        source.dictionary = match &properties {
            Some(properties) => TableDictionary::of(properties, None),
            None => find_dictionary(&source),
        };
        let meta = properties.as_ref().map(|properties| &properties.meta).or(expected);
        let meta = meta.cloned();
        let mut salvage = Self {
            source,
            properties,
            meta,
            tombstones: Fragments::default(),
            blocks: DataFrames::Scanned(Vec::new()),
        };
        salvage.find_blocks(place, lost);
        Ok(salvage)
    }

    /// What the table says of itself, if that can be read.
    #[must_use]
    pub fn properties(&self) -> Option<&Properties> {
        self.properties.as_ref()
    }

    /// The range tombstones that could be read.
    #[must_use]
    pub fn tombstones(&self) -> &Fragments {
        &self.tombstones
    }

    /// All keys of the table, as far as that is known.
    fn range(&self) -> (Option<Slice>, Option<Slice>) {
        let range = self.meta.as_ref().map(|meta| &meta.range);
        (range.map(|range| range.first.clone()), range.map(|range| range.last.clone()))
    }

    fn find_blocks(&mut self, place: TablePlace, lost: &LostList) {
        let tombstones = match &self.properties {
            Some(properties) => self.source.read_tombstones(properties),
            None => {
                let (blocks, end) = self.scan(self.source.length, place, lost);
                self.blocks = DataFrames::Scanned(blocks);
                self.find_tombstones(end)
            }
        };
        match tombstones {
            Ok(tombstones) => self.tombstones = tombstones,
            Err(error) => {
                let (first, last) = self.range();
                let entries_max = self.meta.as_ref().map(|meta| meta.range_tombstones);
                if entries_max != Some(0) {
                    lock(lost).push(LostEntries { first, last, entries_max, error });
                }
            }
        }
        if let Some(properties) = &self.properties {
            self.blocks = match self.read_index(properties) {
                Some(index) => DataFrames::Index(Box::new(index)),
                None => DataFrames::Scanned(self.scan(properties.data_bytes, place, lost).0),
            };
        }
    }

    /// The index, if all of it can be read.
    fn read_index(&self, properties: &Properties) -> Option<Index> {
        let mut index = Index::default();
        let mut offset = properties.index_offset();
        let kind = properties.index_frame_kind();
        for &bytes in properties.lowest_index_bytes() {
            let read = self.source.read_frame(kind, offset, bytes, |raw| match kind {
                FrameKind::Node => {
                    let node = NodeView::at(raw)?;
                    node.check_lowest()?;
                    index.read_node(&node, properties.data_bytes)
                }
                _ => index.read_frame(raw, properties.data_bytes),
            });
            read.ok()?;
            offset += bytes;
        }
        let is_whole = index.count() as u64 == properties.data_frames
            && index.data_bytes() == properties.data_bytes;
        is_whole.then_some(index)
    }

    /// Finds the data frames before `end` one behind the other, and verifies them; says where they
    /// end.
    fn scan(&self, end: u64, place: TablePlace, lost: &LostList) -> (Vec<(u64, u64)>, u64) {
        let (mut before, after_all) = self.range();
        let (mut blocks, mut gaps, mut entries) = (Vec::new(), Vec::new(), 0);
        let (mut offset, end) = (0, end.min(self.source.length));
        while offset < end {
            // Without properties the frames end where those of another kind begin.
            if self.properties.is_none() && self.other_frame(offset).is_some() {
                break;
            }
            let Some((at, bytes, sealed)) = self.next_frame(offset, end) else {
                gaps.push((offset, before.clone(), after_all.clone()));
                break;
            };
            let block = sealed.block();
            let (mut first, mut last) = (Vec::new(), Vec::new());
            block.copy_key(0, &mut first);
            block.copy_key(block.count() - 1, &mut last);
            if at > offset {
                gaps.push((offset, before, Some(Slice::from(first))));
            }
            before = Some(Slice::from(last));
            entries += block.count() as u64;
            blocks.push((at, bytes));
            offset = at + bytes;
        }
        if self.source.length < place.length && gaps.is_empty() {
            gaps.push((offset, before, after_all));
        }
        let all = self.meta.as_ref().map(|meta| meta.entries);
        for (offset, first, last) in gaps {
            let error = self.source.locate(Error::corruption("damaged blocks"), offset);
            let entries_max = all.map(|all| all.saturating_sub(entries));
            lock(lost).push(LostEntries { first, last, entries_max, error });
        }
        (blocks, offset)
    }

    /// Looks for the range tombstones among the frames that begin at `offset`.
    fn find_tombstones(&self, mut offset: u64) -> Result<Fragments> {
        while let Some((kind, bytes)) = self.other_frame(offset) {
            match kind {
                FrameKind::RangeTombstones => {
                    return self.source.read_frame(kind, offset, bytes, tombstones::decode);
                }
                FrameKind::Data | FrameKind::Filter => offset += bytes,
                // They would stand before it.
                FrameKind::Dictionary | FrameKind::Index => return Ok(Fragments::default()),
                FrameKind::Node | FrameKind::Properties => return Ok(Fragments::default()),
            }
        }
        Err(self.source.locate(Error::corruption("damaged range deletes"), offset))
    }

    /// The first data frame at or behind `offset` that verifies.
    fn next_frame(&self, offset: u64, end: u64) -> Option<(u64, u64, SealedBlock)> {
        let open = |at| {
            let bytes = self.frame_bytes_at(at, end)?;
            Some((at, bytes, self.open_block(at, bytes).ok()?))
        };
        if let Some(found) = open(offset) {
            return Some(found);
        }
        let mut window = Vec::new();
        let mut start = offset + 1;
        while start + FRAME_BYTES_MIN <= end {
            let bytes = WINDOW_BYTES.min(end - start);
            if self.source.read(start, bytes, &mut window).is_ok() {
                for (index, head) in window.windows(2).enumerate() {
                    let at = start + index as u64;
                    if is_head(head)
                        && self.is_followed(at, end)
                        && let Some(found) = open(at)
                    {
                        return Some(found);
                    }
                }
            }
            // The last byte of a window may be the first of a frame.
            start += bytes.max(2) - 1;
        }
        None
    }

    /// Whether what looks like a frame ends where another one begins, or the data ends.
    fn is_followed(&self, at: u64, end: u64) -> bool {
        let Some(bytes) = self.frame_bytes_at(at, end) else { return false };
        let next = at + bytes;
        let mut head = [0; 2];
        next == end
            || next + 2 <= self.source.length
                && self.source.read_into(next, &mut head).is_ok()
                && (FrameKind::Data as u8..=FrameKind::Dictionary as u8).contains(&head[0])
                && Codec::from_u8(head[1]).is_ok()
    }

    /// Kind and length of the frame of another kind than data that begins at `offset`.
    fn other_frame(&self, offset: u64) -> Option<(FrameKind, u64)> {
        let others = [
            FrameKind::Filter,
            FrameKind::RangeTombstones,
            FrameKind::Dictionary,
            FrameKind::Index,
            FrameKind::Properties,
            FrameKind::Node,
        ];
        let bytes = self.frame_length(offset, self.source.length, &others)?;
        let mut frame = Vec::new();
        self.source.read(offset, bytes, &mut frame).ok()?;
        let place = FramePlace { table: self.source.uid, offset };
        let is_of = |kind: &FrameKind| Frame::open(&frame, *kind, place).is_ok();
        others.into_iter().find(is_of).map(|kind| (kind, bytes))
    }

    /// Length of the data frame that seems to begin at `offset`.
    fn frame_bytes_at(&self, offset: u64, end: u64) -> Option<u64> {
        self.frame_length(offset, end, &[FrameKind::Data])
    }

    fn frame_length(&self, offset: u64, end: u64, kinds: &[FrameKind]) -> Option<u64> {
        let left = end.checked_sub(offset)?;
        let mut head = [0; HEAD_BYTES_MAX as usize];
        let head = &mut head[..HEAD_BYTES_MAX.min(left) as usize];
        self.source.read_into(offset, head).ok()?;
        let mut reader = ByteReader::new(head);
        let (kind, codec) = (reader.u8().ok()?, reader.u8().ok()?);
        let (_, payload) = (reader.varint().ok()?, reader.varint().ok()?);
        let around = (head.len() - reader.rest().len() + CHECKSUM_BYTES) as u64;
        let bytes = payload.checked_add(around)?;
        let is_one = kinds.iter().any(|&known| known as u8 == kind);
        let is_one = is_one && Codec::from_u8(codec).is_ok();
        (is_one && bytes <= left).then_some(bytes)
    }

    fn open_block(&self, offset: u64, bytes: u64) -> Result<SealedBlock> {
        let mut frame = Vec::new();
        self.source.read(offset, bytes, &mut frame)?;
        let place = FramePlace { table: self.source.uid, offset };
        let dictionary = self.source.dictionary_for(Frame::codec_of(&frame))?;
        let dictionary = dictionary.as_deref();
        with_scratch(|scratch| SealedBlock::open(frame, place, dictionary, &mut scratch.raw))
            .map_err(|error| self.source.locate(error, offset))
    }

    /// The block at `index`, and what is lost if it cannot be read.
    fn read(&self, index: usize) -> std::result::Result<SealedBlock, LostEntries> {
        let (offset, bytes) = match &self.blocks {
            DataFrames::Index(blocks) => (blocks.info(index).offset, blocks.info(index).bytes),
            DataFrames::Scanned(blocks) => blocks[index],
        };
        self.open_block(offset, bytes).map_err(|error| self.lost(index, error))
    }

    fn lost(&self, index: usize, error: Error) -> LostEntries {
        match &self.blocks {
            DataFrames::Index(blocks) => {
                let info = blocks.info(index);
                LostEntries {
                    first: Some(Slice::copy_from(info.first_key)),
                    last: Some(Slice::copy_from(info.last_key)),
                    entries_max: Some(info.entries),
                    error,
                }
            }
            DataFrames::Scanned(_) => {
                let (first, last) = self.range();
                LostEntries { first, last, entries_max: None, error }
            }
        }
    }
}

impl DataFrames {
    fn count(&self) -> usize {
        match self {
            Self::Index(index) => index.count(),
            Self::Scanned(blocks) => blocks.len(),
        }
    }
}

/// Whether a data frame may begin so.
fn is_head(head: &[u8]) -> bool {
    head[0] == FrameKind::Data as u8 && Codec::from_u8(head[1]).is_ok()
}

/// Looks for the dictionary of a table whose properties cannot be read. It lies behind the data, so
/// the search goes backwards.
fn find_dictionary(source: &TableSource) -> Option<Arc<TableDictionary>> {
    let head = [FrameKind::Dictionary as u8, Codec::Raw as u8];
    let most = FrameKind::Dictionary.frame_bytes_max();
    let (mut end, mut window, mut frame) = (source.length, Vec::new(), Vec::new());
    while end > FRAME_BYTES_MIN {
        let start = end.saturating_sub(WINDOW_BYTES);
        source.read(start, end - start, &mut window).ok()?;
        for at in (0..window.len()).rev().filter(|&at| window[at..].starts_with(&head)) {
            let offset = start + at as u64;
            let left = source.length - offset;
            // Its lengths first: other bytes often begin as it does.
            source.read(offset, left.min(HEAD_BYTES_MAX), &mut frame).ok()?;
            let bytes = raw_frame_bytes(&frame).filter(|&bytes| bytes <= left.min(most));
            let Some(bytes) = bytes else { continue };
            source.read(offset, bytes, &mut frame).ok()?;
            let place = FramePlace { table: source.uid, offset };
            if Frame::open(&frame, FrameKind::Dictionary, place).is_ok() {
                return TableDictionary::at(offset, bytes, None);
            }
        }
        // The first byte of a window may be the last but one of a head.
        end = if start == 0 { 0 } else { start + 1 };
    }
    None
}

/// The length of a frame that is not compressed, of which `head` is the front; `None`, if its two
/// lengths differ.
fn raw_frame_bytes(head: &[u8]) -> Option<u64> {
    let mut reader = ByteReader::new(head);
    reader.take(2).ok()?;
    let (raw, payload) = (reader.varint().ok()?, reader.varint().ok()?);
    let around = (head.len() - reader.rest().len() + CHECKSUM_BYTES) as u64;
    if raw == payload { payload.checked_add(around) } else { None }
}

/// Looks for the properties in front of a footer that cannot be read. They are a frame that ends
/// there, and whose checksum is right for the table that it names itself.
fn find_properties(source: &TableSource) -> Option<Properties> {
    let end = source.length.checked_sub(FOOTER_BYTES as u64)?;
    let start = end.saturating_sub(PROPERTIES_BYTES_MAX as u64);
    let mut bytes = Vec::new();
    source.read(start, end - start, &mut bytes).ok()?;
    let head = [FrameKind::Properties as u8, 0];
    (0..bytes.len()).rev().filter(|&at| bytes[at..].starts_with(&head)).find_map(|at| {
        let frame = &bytes[at..];
        let opened = Frame::open_verified(frame, FrameKind::Properties).ok()?;
        let length = frame.len() as u64;
        let found = Properties::decode(opened.payload, source.length, length).ok()?;
        let place = FramePlace { table: found.meta.uid, offset: start + at as u64 };
        Frame::open(frame, FrameKind::Properties, place).ok().map(|_| found)
    })
}

/// The parts of `file` that tables take, in order, as the footers say. Where one is damaged, the
/// next one before it is looked for, and what lies between is a part of its own.
#[must_use]
pub fn find_tables(file: &dyn File) -> Vec<TablePlace> {
    let mut places = Vec::new();
    let mut end = file.len();
    while end > 0 {
        let start = match table_ending_at(file, end) {
            Some(start) => start,
            None => footer_before(file, end),
        };
        places.push(TablePlace { offset: start, length: end - start });
        end = start;
    }
    places.reverse();
    places
}

/// Where the table begins whose footer ends at `end`.
pub(super) fn table_ending_at(file: &dyn File, end: u64) -> Option<u64> {
    let mut bytes = [0; FOOTER_BYTES];
    file.read_exact_at(&mut bytes, end.checked_sub(FOOTER_BYTES as u64)?).ok()?;
    let footer = Footer::decode(&bytes).ok()?;
    let least = footer.properties_bytes.checked_add(FOOTER_BYTES as u64)?;
    (least <= footer.table_bytes).then_some(())?;
    end.checked_sub(footer.table_bytes)
}

/// Where the last footer before `end` ends that makes sense; 0 if there is none.
fn footer_before(file: &dyn File, end: u64) -> u64 {
    let mut to = end;
    let mut bytes = Vec::new();
    while to > FOOTER_BYTES as u64 {
        let from = to.saturating_sub(WINDOW_BYTES);
        bytes.resize((to - from) as usize, 0);
        if file.read_exact_at(&mut bytes, from).is_ok() {
            let ends = (FOOTER_BYTES..bytes.len()).rev();
            let found = ends.map(|at| (at, &bytes[at - FOOTER_BYTES..at])).find(|(at, footer)| {
                footer.ends_with(&crate::table::format::footer::MAGIC)
                    && table_ending_at(file, from + *at as u64).is_some()
            });
            if let Some((at, _)) = found {
                return from + at as u64;
            }
        }
        if from == 0 {
            break;
        }
        to = from + FOOTER_BYTES as u64;
    }
    0
}

/// Walks over the entries of a table that verify, from the first to the last and not back. What
/// cannot be read is added to a list, and walked over: no step fails.
#[derive(Debug)]
pub struct SalvageCursor {
    table: Arc<TableSalvage>,
    lost: LostList,
    /// The block under the cursor, and the entry in it.
    block: Option<SealedBlock>,
    entry: usize,
    key: Vec<u8>,
    /// The block after it.
    next_block: usize,
}

impl SalvageCursor {
    /// A cursor over `table` that stands nowhere.
    #[must_use]
    pub fn new(table: Arc<TableSalvage>, lost: LostList) -> Self {
        Self { table, lost, block: None, entry: 0, key: Vec::new(), next_block: 0 }
    }

    /// The entry under the cursor; `None` before [`Self::seek_to_first`] and past the end.
    #[must_use]
    pub fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.block.as_ref()?.block().entry(self.entry);
        let (sequence, kind, value) = (entry.sequence, entry.kind, entry.value);
        Some(Entry { key: &self.key, sequence, kind, value })
    }

    /// Goes to the first entry.
    pub fn seek_to_first(&mut self) {
        self.block = None;
        self.next_block = 0;
        self.enter_block();
    }

    /// Goes to the next entry; does nothing if the cursor stands nowhere.
    pub fn next(&mut self) {
        let Some(sealed) = &self.block else { return };
        if self.entry + 1 < sealed.block().count() {
            self.entry += 1;
            sealed.block().copy_key(self.entry, &mut self.key);
        } else {
            self.enter_block();
        }
    }

    /// Goes to the first entry of the next block that verifies and follows the one before.
    fn enter_block(&mut self) {
        let last = self.block.take().map(|sealed| {
            let last = sealed.block().entry(sealed.block().count() - 1).sequence;
            (self.key.clone(), last)
        });
        while self.next_block < self.table.blocks.count() {
            let index = self.next_block;
            self.next_block += 1;
            match self.table.read(index) {
                Ok(sealed) => {
                    sealed.block().copy_key(0, &mut self.key);
                    let first = SortKey::new(&self.key, sealed.block().entry(0).sequence);
                    let follows = last
                        .as_ref()
                        .is_none_or(|(key, sequence)| SortKey::new(key, *sequence) < first);
                    if follows {
                        self.block = Some(sealed);
                        self.entry = 0;
                        return;
                    }
                    let error = Error::corruption("blocks of a table out of order");
                    let error = self.table.source.locate(error, 0);
                    lock(&self.lost).push(self.table.lost(index, error));
                }
                // The suite must notice a salvage that says nothing of what it leaves out.
                Err(_) if seeded_fault!("conceal_loss") => {}
                Err(lost) => lock(&self.lost).push(lost),
            }
        }
    }
}
