//! One sorted run of tables that may be damaged, read from front to back.
//!
//! At most one of its tables is open at a time.

use super::find::FoundTable;
use siltdb_base::{
    cursor::ForwardCursor,
    error::Result,
    id::SequenceNumber,
    key::{Entry, SortKey},
    slice::Slice,
    sync::lock,
    tombstone::RangeTombstone,
};
use siltdb_disk::{
    edit::TableReference,
    table::{LostEntries, LostList, SalvageCursor, TablePlace, TableSalvage},
    table_meta::KeySpan,
};
use std::{sync::Arc, vec};

/// The entries of tables that do not overlap, as far as they verify and are visible through their
/// references. Unreadable parts are added to a list.
#[derive(Debug)]
pub struct SalvageRun {
    tables: Vec<FoundTable>,
    rest: vec::IntoIter<FoundTable>,
    open: Option<(SalvageCursor, FoundTable)>,
    lost: LostList,
    /// The last position: only later entries are returned.
    before: Option<(Vec<u8>, SequenceNumber)>,
}

/// Sorts tables into few runs by their key ranges, with a greedy choice.
#[must_use]
pub fn sorted_runs(tables: &[FoundTable], lost: &LostList) -> Vec<SalvageRun> {
    let mut tables = tables.to_vec();
    let range = |table: &FoundTable| table.reference.meta.range.clone();
    tables.sort_by(|a, b| range(a).first.cmp(&range(b).first));
    let mut runs: Vec<Vec<FoundTable>> = Vec::new();
    for table in tables {
        let first = range(&table).first;
        let fits = |run: &&mut Vec<FoundTable>| {
            run.last().is_some_and(|last| range(last).last.as_bytes() < first.as_bytes())
        };
        match runs.iter_mut().find(fits) {
            Some(run) => run.push(table),
            None => runs.push(vec![table]),
        }
    }
    let run = |tables| SalvageRun::new(tables, Arc::clone(lost));
    runs.into_iter().map(run).collect()
}

/// Opens the readable part of a table.
///
/// # Errors
/// The loss, if nothing of the table can be read.
pub fn open_table(
    table: &FoundTable,
    lost: &LostList,
) -> std::result::Result<TableSalvage, LostEntries> {
    let TableReference { offset, length, meta, .. } = &*table.reference;
    let place = TablePlace { offset: *offset, length: *length };
    let opened = table
        .fs
        .open(&table.path)
        .and_then(|file| TableSalvage::open(file, &table.path, place, Some(meta), lost));
    opened.map_err(|error| LostEntries {
        first: Some(meta.range.first.clone()),
        last: Some(meta.range.last.clone()),
        entries_max: Some(meta.entries + meta.range_tombstones),
        error: error.or_file(&table.path).or_offset(*offset),
    })
}

/// The range tombstones of a table that are visible through its reference, outside its hidden
/// ranges.
#[must_use]
pub fn seen_tombstones(table: &TableSalvage, found: &FoundTable) -> Vec<RangeTombstone> {
    let FoundTable { reference, hidden, .. } = found;
    let visible_to = reference.visible_to.unwrap_or(SequenceNumber::MAX);
    let mut seen = Vec::new();
    for tombstone in table.tombstones().tombstones() {
        let stored = reference.global_sequence.unwrap_or(tombstone.sequence);
        let sequence = SequenceNumber(stored.0 + found.raised_by);
        let RangeTombstone { mut start, mut end, .. } = tombstone;
        if let Some(slice) = &reference.key_slice {
            start = start.max(slice.first.clone());
            end = end.min(slice.end_key());
        }
        if stored > visible_to || start >= end {
            continue;
        }
        let mut parts = vec![(start, end)];
        for range in hidden {
            parts = parts.into_iter().flat_map(|(start, end)| without(start, end, range)).collect();
        }
        let part = |(start, end)| RangeTombstone { start, end, sequence };
        seen.extend(parts.into_iter().map(part));
    }
    seen
}

/// The parts of `start..end` outside `range`.
fn without(start: Slice, end: Slice, range: &KeySpan) -> Vec<(Slice, Slice)> {
    let before = (start.clone(), end.clone().min(range.first.clone()));
    let behind = (start.max(range.end_key()), end);
    [before, behind].into_iter().filter(|(start, end)| start < end).collect()
}

impl SalvageRun {
    fn new(tables: Vec<FoundTable>, lost: LostList) -> Self {
        let rest = Vec::new().into_iter();
        Self { tables, rest, open: None, lost, before: None }
    }

    /// Opens the next table that has an entry, unless a table with an entry is open.
    fn enter(&mut self) {
        while self.open.as_ref().is_none_or(|(cursor, _)| cursor.entry().is_none()) {
            self.open = None;
            let Some(table) = self.rest.next() else { return };
            match open_table(&table, &self.lost) {
                Ok(salvage) => {
                    let lost = Arc::clone(&self.lost);
                    let mut cursor = SalvageCursor::new(Arc::new(salvage), lost);
                    cursor.seek_to_first();
                    self.open = Some((cursor, table));
                }
                Err(lost) => lock(&self.lost).push(lost),
            }
        }
    }

    /// Moves to the next entry that is visible and follows the one before.
    fn settle(&mut self) {
        loop {
            self.enter();
            let Some((cursor, table)) = &mut self.open else { return };
            let Some(entry) = cursor.entry() else { continue };
            let follows = self.before.as_ref().is_none_or(|(key, sequence)| {
                SortKey::new(key, *sequence) < SortKey::new(entry.key, entry.sequence)
            });
            if follows && is_seen(&entry, table) {
                return;
            }
            cursor.next();
        }
    }
}

fn is_seen(entry: &Entry<'_>, FoundTable { reference, hidden, .. }: &FoundTable) -> bool {
    !hidden.iter().any(|range| range.contains(entry.key))
        && reference.visible_to.is_none_or(|visible_to| entry.sequence <= visible_to)
        && reference.key_slice.as_ref().is_none_or(|slice| slice.contains(entry.key))
}

impl ForwardCursor for SalvageRun {
    fn entry(&self) -> Option<Entry<'_>> {
        let (cursor, table) = self.open.as_ref()?;
        let entry = cursor.entry()?;
        let stored = table.reference.global_sequence.unwrap_or(entry.sequence);
        let sequence = SequenceNumber(stored.0 + table.raised_by);
        Some(Entry { sequence, ..entry })
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.rest = self.tables.clone().into_iter();
        (self.open, self.before) = (None, None);
        self.settle();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let Some((cursor, _)) = &mut self.open else { return Ok(()) };
        if let Some(entry) = cursor.entry() {
            let before = self.before.get_or_insert_default();
            before.0.clear();
            before.0.extend_from_slice(entry.key);
            before.1 = entry.sequence;
        }
        cursor.next();
        self.settle();
        Ok(())
    }
}
