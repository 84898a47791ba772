//! Writes a stream of retained entries into tables of about the target size.
//!
//! It neither chooses what is kept nor installs the tables.
//!
//! # Invariants of what is written
//! 1. All versions of a user key are in one table.
//! 2. The tables are in key order, and no two ranges overlap, range tombstones included. A
//!    tombstone that reaches over a border is cut there, and each table gets its part.
//! 3. A value has a [`SharedSequence`] instead of its own sequence number only if every reader sees
//!    it. Nor may an older entry or range tombstone of its key be left, here or deeper. So no
//!    reader sees a difference.

use crate::{
    files::open_files::{OpenFiles, OpenReference},
    options::TreeOptions,
    planning::borders::Borders,
    retain::{entries::CompactionIter, stripes::OlderEntries},
    rewrite::block_copy::BlockCopies,
    rewrite::job::{BlobMover, JobContext, MovedEntry, NewFile, NewTable, NewTables, Opening},
};
use siltdb_base::{
    cursor::EntryCursor,
    error::Result,
    fs::WriteFile,
    id::{FamilyId, FileNumber, SequenceNumber},
    invariant,
    key::{BlobPointer, Entry, EntryKind},
    limits::REPLACED_TABLES_MAX,
    seeded_fault,
    slice::Slice,
    tombstone::{Fragments, RangeTombstone},
};
use siltdb_disk::{
    edit::TableReference,
    table::{PartlyReplaced, ReplacedTable, TableOrigin, TableScan, TableWriter},
    table_meta::TableMeta,
};
use std::{collections::BTreeSet, sync::Arc};

/// How many times its own target size a table may overlap under it.
const UNDER_TARGETS_MAX: u64 = 10;

/// Where tables go.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The id of the family.
    pub family: FamilyId,
    /// The level of the tables.
    pub level: usize,
    /// The family's options.
    pub options: &'a TreeOptions,
    /// The tables of the level under it, in key order. No table shall overlap too many of them,
    /// because bringing it down would rewrite all of these at once.
    pub under: &'a [Arc<OpenReference>],
    /// From this key on so little is left that it all goes to the table before.
    pub last_half: Option<&'a Slice>,
    /// What the tables replace.
    pub merged: &'a Merged,
    /// They are replaced before this key alone; `None`: as a whole.
    pub merged_before: Option<&'a Slice>,
    /// When they are opened.
    pub opening: Opening,
    /// When their newest entry was flushed, in ms since 1970, if it is to be kept as the time of
    /// their creation. A FIFO tree tells their age by it.
    pub created_ms: Option<u64>,
}

/// Tables that the output of a job replaces. Only a salvage without a manifest asks for them: it
/// must not take a table for one that counts because its file is still there.
#[derive(Debug, Default)]
pub struct Merged {
    inputs: Vec<ReplacedTable>,
    /// What the inputs had replaced.
    earlier: Vec<ReplacedTable>,
    /// What they had replaced of tables that were merged further, or are to be.
    partly: Vec<PartlyReplaced>,
}

impl Merged {
    /// Adds an input.
    pub fn add(&mut self, reference: &TableReference, table: &TableScan) {
        if self.inputs.len() < REPLACED_TABLES_MAX {
            self.inputs.push(ReplacedTable { file: reference.file, uid: reference.meta.uid });
        }
        if let Some(origin) = table.origin() {
            // A step that was not the last of its merge replaced a part of the inputs.
            match &origin.inputs_before {
                Some(before) if !seeded_fault!("step_replaces_inputs_for_good") => {
                    let part = |&table| PartlyReplaced { table, before: before.clone() };
                    self.partly.extend(origin.inputs.iter().map(part));
                }
                _ => self.earlier.extend_from_slice(&origin.inputs),
            }
            self.earlier.extend_from_slice(&origin.earlier);
            self.partly.extend_from_slice(&origin.partly);
        }
    }

    /// Those of the earlier ones whose files are still there, because other tables lie in them.
    fn earlier_in_use(&self, files: &OpenFiles) -> Vec<ReplacedTable> {
        in_use(&self.earlier, |table| files.is_in_use(table.file))
    }

    /// Those that were replaced in part and whose files are still there.
    fn partly_in_use(&self, files: &OpenFiles) -> Vec<PartlyReplaced> {
        in_use(&self.partly, |part| files.is_in_use(part.table.file))
    }
}

/// Those of `tables` that `is_in_use`, each once, and not too many.
fn in_use<T: Clone + Ord>(tables: &[T], is_in_use: impl Fn(&T) -> bool) -> Vec<T> {
    let mut tables: Vec<T> = tables.iter().filter(|table| is_in_use(table)).cloned().collect();
    tables.sort_unstable();
    tables.dedup();
    // The newest files are those that are there for longest.
    let surplus = tables.len().saturating_sub(REPLACED_TABLES_MAX);
    tables.split_off(surplus)
}

impl Destination<'_> {
    fn origin(&self, context: &JobContext<'_>) -> TableOrigin {
        TableOrigin {
            inputs: self.merged.inputs.clone(),
            earlier: self.merged.earlier_in_use(context.files),
            inputs_before: self.merged_before.cloned(),
            partly: self.merged.partly_in_use(context.files),
            ..origin_of(self.family, self.options, context)
        }
    }
}

/// What a table that replaces none says of its family, for a salvage that reads it without a
/// manifest.
pub(crate) fn origin_of(
    family: FamilyId,
    options: &TreeOptions,
    context: &JobContext<'_>,
) -> TableOrigin {
    let name = (context.family_names)(family);
    let name = name.map_or_else(String::new, |name| name.as_ref().to_owned());
    let mut encoded = Vec::new();
    options.encode(&mut encoded);
    let log_start = context.log_start;
    TableOrigin { family, name, options: encoded, log_start, ..TableOrigin::default() }
}

/// Which file a table is written to.
#[derive(Debug)]
pub enum OutputPlace<'f> {
    /// A new file for each table.
    OwnFile,
    /// The end of this file, which others share; the caller adds it.
    Shared(&'f NewFile, &'f mut dyn WriteFile),
}

/// The one sequence number of values at the bottom that every reader sees. Their own numbers, which
/// no reader needs any more, would take three or four bytes of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSequence {
    /// Values up to this one get it.
    pub up_to: SequenceNumber,
    /// The sequence number to assign. It is not newer than that of any entry.
    pub sequence: SequenceNumber,
}

impl SharedSequence {
    /// `entry`, with this sequence number if it is to have it.
    #[inline]
    fn give_to(self, entry: Entry<'_>) -> Entry<'_> {
        let is_value =
            matches!(entry.kind, EntryKind::Put | EntryKind::PutExpiring | EntryKind::BlobPointer);
        if is_value && entry.sequence <= self.up_to {
            return Entry { sequence: self.sequence, ..entry };
        }
        entry
    }
}

/// The entries to be written, with one read ahead: whether it opens another table is known only
/// when it is seen.
pub struct OutputIter<'s, C, D> {
    retain: &'s mut CompactionIter<C, D>,
    /// Range tombstones to be written.
    tombstones: &'s Fragments,
    /// The first of their fragments that does not end before the lower border.
    first_fragment: usize,
    borders: Borders,
    ahead: Option<OwnedEntry>,
    /// Blocks that are copied between the entries.
    copies: BlockCopies,
    shared: Option<SharedSequence>,
    moving: Option<MovedValues<'s>>,
    /// The payload of the last entry whose value was moved.
    payload: Vec<u8>,
}

/// The separated values that a job moves to another blob file.
#[derive(Clone, Copy)]
pub struct MovedValues<'a> {
    /// The blob files that they lie in.
    pub files: &'a BTreeSet<FileNumber>,
    /// The family.
    pub family: FamilyId,
    /// Its options.
    pub options: &'a TreeOptions,
    /// Moves them.
    pub mover: &'a (dyn BlobMover + Sync),
}

impl MovedValues<'_> {
    /// What takes the place of a pointer; `None` if its value stays.
    fn moved(&self, entry: &Entry<'_>) -> Result<Option<MovedEntry>> {
        if entry.kind != EntryKind::BlobPointer {
            return Ok(None);
        }
        let pointer = BlobPointer::decode(entry.value)?;
        if !self.files.contains(&pointer.file) {
            return Ok(None);
        }
        self.mover.copy(self.options, self.family, entry.key, &pointer).map(Some)
    }
}

/// An entry that no cursor holds.
#[derive(Clone, Debug)]
struct OwnedEntry {
    key: Slice,
    sequence: SequenceNumber,
    kind: EntryKind,
    value: Vec<u8>,
}

impl OwnedEntry {
    fn copy_from(entry: &Entry<'_>) -> Self {
        Self {
            key: Slice::copy_from(entry.key),
            sequence: entry.sequence,
            kind: entry.kind,
            value: entry.value.to_vec(),
        }
    }

    fn entry(&self) -> Entry<'_> {
        let Self { key, sequence, kind, value } = self;
        Entry { key, sequence: *sequence, kind: *kind, value }
    }
}

impl<'s, C: EntryCursor, D: FnMut(&[u8]) -> OlderEntries> OutputIter<'s, C, D> {
    /// The entries of `retain` up to the upper border, and the parts of `tombstones` within the
    /// borders. The cursor of `retain` stands at the lower border. The blocks of `copies` go
    /// between the entries: `retain` yields none of theirs. If there is a `shared` sequence number,
    /// nothing deeper has any of the keys. Values that are `moving` get new pointers.
    ///
    /// # Errors
    /// What reading the first entry fails with.
    pub fn new(
        retain: &'s mut CompactionIter<C, D>,
        tombstones: &'s Fragments,
        borders: Borders,
        copies: BlockCopies,
        shared: Option<SharedSequence>,
        moving: Option<MovedValues<'s>>,
    ) -> Result<Self> {
        let mut stream = Self {
            retain,
            tombstones,
            first_fragment: 0,
            borders,
            ahead: None,
            copies,
            shared,
            moving,
            payload: Vec::new(),
        };
        stream.drop_passed_tombstones();
        stream.read_ahead()?;
        Ok(stream)
    }

    fn read_ahead(&mut self) -> Result<()> {
        self.ahead = self.next()?.map(|entry| OwnedEntry::copy_from(&entry));
        Ok(())
    }

    /// Where the next table begins, if what is ahead is left to it.
    fn next_key(&self) -> Option<Slice> {
        let entry = self.ahead.as_ref().map(|entry| entry.key.clone());
        let block = self.copies.next_key().map(Slice::copy_from);
        match (entry, block) {
            (Some(entry), Some(block)) => Some(entry.min(block)),
            (entry, block) => entry.or(block),
        }
    }

    /// Whether a block is to be copied before the entry that is ahead.
    fn is_block_next(&self) -> bool {
        self.copies.next_key().is_some_and(|block| {
            self.ahead.as_ref().is_none_or(|entry| block < entry.key.as_bytes())
        })
    }

    fn next(&mut self) -> Result<Option<Entry<'_>>> {
        let upper = self.borders.upper.as_ref();
        let entry = self.retain.next()?;
        let entry = entry.filter(|entry| upper.is_none_or(|upper| entry.key < upper.as_bytes()));
        let entry = match (entry, self.shared) {
            (Some(entry), Some(shared)) => Some(shared.give_to(entry)),
            (entry, _) => entry,
        };
        let (Some(entry), Some(moving)) = (entry, self.moving) else { return Ok(entry) };
        let Some(moved) = moving.moved(&entry)? else { return Ok(Some(entry)) };
        self.payload = moved.payload;
        Ok(Some(Entry { kind: moved.kind, value: &self.payload, ..entry }))
    }

    /// The parts of the tombstones from the lower border up to `border`.
    fn tombstones_before(&self, border: Option<&Slice>) -> Vec<RangeTombstone> {
        let lower = self.borders.lower.as_ref();
        let mut parts = Vec::new();
        let fragments = self.tombstones.as_slice().iter().enumerate().skip(self.first_fragment);
        for (index, fragment) in fragments {
            if border.is_some_and(|border| fragment.start >= *border) {
                break;
            }
            let is_continued = lower.is_some_and(|lower| fragment.start < *lower);
            if is_continued && seeded_fault!("lose_range_tombstone_at_border") {
                continue;
            }
            let start = lower.map_or(&fragment.start, |lower| lower.max(&fragment.start));
            let end = border.map_or(&fragment.end, |border| border.min(&fragment.end));
            let part =
                |sequence| RangeTombstone { start: start.clone(), end: end.clone(), sequence };
            parts.extend(self.tombstones.sequences(index).into_iter().map(part));
        }
        parts
    }

    /// Begins anew at `border`; without one, everything is written.
    fn go_on_from(&mut self, border: Option<Slice>) {
        match border {
            None => self.first_fragment = self.tombstones.as_slice().len(),
            Some(border) => {
                let lower = self.borders.lower.as_ref();
                assert!(lower.is_none_or(|lower| *lower < border), "a table without keys");
                self.borders.lower = Some(border);
                self.drop_passed_tombstones();
            }
        }
    }

    fn drop_passed_tombstones(&mut self) {
        if let Some(lower) = &self.borders.lower {
            self.first_fragment = self.tombstones.index_ending_after(lower);
        }
    }

    fn is_finished(&self) -> bool {
        self.next_key().is_none() && self.tombstones_before(self.borders.upper.as_ref()).is_empty()
    }
}

/// Writes everything of `stream` and adds it to `tables`.
///
/// A file that was begun is removed on an error; a shared file is the caller's.
///
/// # Errors
/// What reading the entries fails with, or [`NewTables::add_file`]; `Closed`, if the job was
/// cancelled.
pub fn write_tables<C: EntryCursor, D: FnMut(&[u8]) -> OlderEntries>(
    mut stream: OutputIter<'_, C, D>,
    destination: &Destination<'_>,
    place: &mut OutputPlace<'_>,
    tables: &mut NewTables,
    context: &JobContext<'_>,
) -> Result<()> {
    while !stream.is_finished() {
        context.go_on()?;
        match place {
            OutputPlace::Shared(file, writer) => {
                let table = write_table(&mut stream, destination, file, &mut **writer, context)?;
                tables.add_table(table);
            }
            OutputPlace::OwnFile => {
                let (file, mut writer) = NewFile::create(context)?;
                let table = write_table(&mut stream, destination, &file, &mut *writer, context)?;
                tables.add_table(table);
                tables.add_file(file, writer, context)?;
            }
        }
    }
    Ok(())
}

/// Writes the next table of the stream.
fn write_table<C: EntryCursor, D: FnMut(&[u8]) -> OlderEntries>(
    stream: &mut OutputIter<'_, C, D>,
    destination: &Destination<'_>,
    file: &NewFile,
    writer: &mut dyn WriteFile,
    context: &JobContext<'_>,
) -> Result<NewTable> {
    let (offset, lower) = (writer.len(), stream.borders.lower.clone());
    let uid = (context.uids)();
    let options = destination.options;
    let table = TableWriter::new(writer, &options.table_at(destination.level), uid);
    let created_ms = destination.created_ms.unwrap_or_else(|| context.clock.wall_ms());
    let table = table.with_created_ms(created_ms).with_charge(context.files.cache());
    let mut table = table.with_origin(destination.origin(context), options.table.compression);
    fill_table(stream, &mut table, destination, context)?;
    // What is ahead begins the next table: this one ends before it.
    let border = stream.next_key();
    let end = border.as_ref().or(stream.borders.upper.as_ref());
    for tombstone in stream.tombstones_before(end) {
        table.add_tombstone(&tombstone);
    }
    let meta: TableMeta = table.finish()?;
    assert!(
        end.is_none_or(|end| meta.range.is_before(end)),
        "a table ends behind its part of the job: {meta:?}"
    );
    stream.go_on_from(border);
    assert_eq!(writer.len(), offset + meta.file_bytes, "a table that ends elsewhere in its file");
    invariant!(
        lower.is_none_or(|lower| lower <= meta.range.first),
        "a table begins before its part of the job: {meta:?}"
    );
    let reference = TableReference::whole(file.number(), offset, meta);
    let &Destination { family, level, opening, .. } = destination;
    Ok(NewTable { family, level, reference, opening })
}

/// Moves entries and blocks from the stream to the table until the table is to end; what begins the
/// next one is then ahead.
fn fill_table<C: EntryCursor, D: FnMut(&[u8]) -> OlderEntries>(
    stream: &mut OutputIter<'_, C, D>,
    table: &mut TableWriter<'_>,
    destination: &Destination<'_>,
    context: &JobContext<'_>,
) -> Result<()> {
    let Some(first) = stream.next_key() else { return Ok(()) };
    let mut size = TableSize::new(destination, &first);
    loop {
        while stream.is_block_next() {
            context.go_on()?;
            let is_full = stream.copies.next_key().is_some_and(|key| size.is_full(table, key));
            if is_full && !table.is_empty() {
                return Ok(());
            }
            if let Some(block) = stream.copies.read_next()? {
                table.add_sealed(&block)?;
            }
        }
        let is_full = stream.ahead.as_ref().is_none_or(|entry| size.is_full(table, &entry.key));
        if is_full && !table.is_empty() {
            return Ok(());
        }
        match add_entries(stream, table, &mut size)? {
            // A block comes between, or nothing comes any more.
            Stop::Readahead if stream.is_block_next() => {}
            Stop::Readahead | Stop::Full => return Ok(()),
        }
    }
}

/// Why no further entry was added to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Something else is ahead of the next entry, or there is none.
    Readahead,
    /// The table is full.
    Full,
}

/// Moves the entry ahead and those after it to the table, up to the next block to be copied.
fn add_entries<C: EntryCursor, D: FnMut(&[u8]) -> OlderEntries>(
    stream: &mut OutputIter<'_, C, D>,
    table: &mut TableWriter<'_>,
    size: &mut TableSize<'_>,
) -> Result<Stop> {
    let Some(first) = stream.ahead.take() else { return Ok(Stop::Readahead) };
    table.add(first.entry())?;
    // No entry of the stream lies among the keys of a block, so one key tells whether it is passed.
    let block = stream.copies.next_key().map(Slice::copy_from);
    while let Some(entry) = stream.next()? {
        if !table.ends_with(entry.key) {
            let is_full = size.is_full(table, entry.key);
            if is_full || block.as_ref().is_some_and(|block| block.as_bytes() < entry.key) {
                stream.ahead = Some(OwnedEntry::copy_from(&entry));
                return Ok(if is_full { Stop::Full } else { Stop::Readahead });
            }
        }
        table.add(entry)?;
    }
    Ok(Stop::Readahead)
}

/// When a table has enough: by its own bytes, and by those of the tables under it.
struct TableSize<'a> {
    bytes_target: u64,
    /// Tables under it that it does not reach behind yet.
    under: &'a [Arc<OpenReference>],
    under_bytes: u64,
    /// As in [`Destination`].
    last_half: Option<&'a Slice>,
}

impl<'a> TableSize<'a> {
    fn new(destination: &Destination<'a>, first_key: &[u8]) -> Self {
        let passed = destination.under.partition_point(|table| table.range().is_before(first_key));
        Self {
            bytes_target: destination.options.table_bytes_target,
            under: &destination.under[passed..],
            under_bytes: 0,
            last_half: destination.last_half,
        }
    }

    fn is_full(&mut self, table: &TableWriter<'_>, next_key: &[u8]) -> bool {
        while let [passed, rest @ ..] = self.under
            && passed.range().is_before(next_key)
        {
            self.under_bytes += passed.bytes();
            self.under = rest;
        }
        if self.under_bytes > self.bytes_target.saturating_mul(UNDER_TARGETS_MAX) {
            return true;
        }
        let bytes = table.estimated_bytes();
        bytes >= self.bytes_target
            && (self.last_half.is_none_or(|last| next_key < last.as_bytes())
                || bytes - self.bytes_target >= self.bytes_target)
    }
}

#[cfg(test)]
mod tests;
