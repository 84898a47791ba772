//! Writes the memtables of one generation into tables of level 0.
//!
//! It decides neither when nor what is flushed, and takes nothing out of memory.

use crate::{
    memory::Generation,
    options::TreeOptions,
    planning::borders::Borders,
    read::view::View,
    retain::{
        entries::{CompactionIter, Rules},
        range::retain_tombstones,
        stripes::{OlderEntries, Stripes},
    },
    rewrite::below_output::BelowOutput,
    rewrite::block_copy::BlockCopies,
    rewrite::job::{JobContext, JobOutput, JobPart, NewFile, NewTables, Opening, parts_of},
    rewrite::job_cursor::JobCursor,
    rewrite::output::{Destination, Merged, OutputIter, OutputPlace, SharedSequence, write_tables},
    rewrite::progress::{PartProgress, Progress},
};
use siltdb_base::{
    cursor::EntryCursor,
    error::Result,
    id::{FamilyId, SequenceNumber},
    invariant,
    slice::Slice,
    tombstone::Fragments,
};
use siltdb_disk::table_meta::{KeySpan, RangeEnd};
use siltdb_memtable::memtable::Memtable;
use std::{collections::HashSet, sync::Arc};

/// Largest memtable that shares a file with others of its generation, in bytes. A thousand families
/// must not make a thousand files of each flush.
pub const SHARED_MEMTABLE_BYTES_MAX: usize = 1 << 20;

/// An end of a memtable that overlaps others gets a table of its own if it is at most this part.
const END_PART: usize = 4;

/// The memtable of one family.
#[derive(Clone, Debug)]
pub struct FlushInput {
    /// The id of the family.
    pub family: FamilyId,
    /// The options of the family.
    pub options: Arc<TreeOptions>,
    /// The generation that is flushed.
    pub generation: Generation,
    /// The family's memtable of it, complete: no writer is at work on it any more.
    pub memtable: Arc<Memtable>,
    /// The tree when the flush began: what is older than the memtable is in it.
    pub view: Arc<View>,
}

/// Tables that are looked at to tell whether readers read them.
const LOOKED_AT_MAX: usize = 64;

impl FlushInput {
    fn is_small(&self) -> bool {
        self.memtable.bytes() <= SHARED_MEMTABLE_BYTES_MAX
    }

    /// What is deeper than the memtable: all tables. If an older generation is still in memory,
    /// what it will add is unknown.
    fn below(&self) -> BelowOutput {
        let oldest = self.view.memory.oldest();
        if oldest.is_some_and(|oldest| oldest < self.generation) {
            return BelowOutput::anything();
        }
        let [level0, runs @ ..] = self.view.version.levels();
        BelowOutput::new(level0.tables().to_vec(), runs)
    }

    /// As readers look at the newest tables so far. These are the tables of level 0, or if there
    /// are none, those of the first level that has some. Of many, some that lie evenly.
    fn opening(&self) -> Opening {
        let mut levels = self.view.version.levels().iter().filter(|level| !level.is_empty());
        let Some(level) = levels.next() else { return Opening::like([].into_iter()) };
        let step = level.count().div_ceil(LOOKED_AT_MAX);
        Opening::like((0..level.count()).step_by(step).map(|index| level.table(index)))
    }

    /// Keys that cut the memtable into about equal parts, at most `parallelism`. They also cut off
    /// an end that overlaps older tables or younger memtables. Only that end is to be merged with
    /// them then, and the rest can go down as it is.
    ///
    /// Cost: a search for each leaf of the memtable, and a look at each table.
    fn borders(&self, parallelism: usize) -> Vec<Slice> {
        let bytes = self.memtable.bytes() as u64;
        let target = self.options.table_bytes_target;
        let parts = parts_of(bytes, target, parallelism);
        if parts_of(bytes, target, usize::MAX) < 2 {
            return Vec::new();
        }
        let leaves = leaf_keys(&self.memtable);
        let end_leaves = leaves.len() / END_PART;
        let from = self.leaves_overlapping_older(&leaves);
        let lower = (1..=end_leaves).contains(&from).then(|| leaves[from].clone());
        let position = |key: &Slice| leaves.partition_point(|leaf| leaf <= key);
        let upper_positions = leaves.len() - end_leaves..leaves.len();
        let upper = self.begin_of_younger().filter(|key| upper_positions.contains(&position(key)));
        let from = if lower.is_some() { from } else { 0 };
        let to = upper.as_ref().map_or(leaves.len(), position);
        let between = (1..parts).map(|part| from + (to - from) * part / parts);
        let between = between.filter_map(|index| leaves.get(index).cloned());
        let mut keys: Vec<_> = lower.into_iter().chain(between).chain(upper).collect();
        keys.dedup();
        // A first part without keys would be no part.
        keys.retain(|key| leaves.first().is_some_and(|first| first < key));
        keys
    }

    /// How many leaves begin before the end of an older table that overlaps the memtable.
    fn leaves_overlapping_older(&self, leaves: &[Slice]) -> usize {
        let [first, .., last] = leaves else { return leaves.len() };
        let (first, last) = (first.clone(), last.clone());
        let leaves_range = KeySpan { first, last, end: RangeEnd::Inclusive };
        let levels = self.view.version.levels().iter();
        let overlapping = levels.flat_map(|level| level.overlapped(&leaves_range));
        let overlapping = overlapping.map(|table| table.range());
        let counts = overlapping.map(|range| leaves.partition_point(|leaf| !range.is_before(leaf)));
        counts.max().unwrap_or(0)
    }

    /// The sequence number for values within the borders, if every reader sees them. Nothing
    /// `below` may have a key from the first of them to the last. It is one of this generation, so
    /// that a table of it is told from older and younger ones as before.
    fn shared_sequence(
        &self,
        borders: &Borders,
        stripes: &Stripes,
        below: &BelowOutput,
    ) -> Option<SharedSequence> {
        let (sequence, _) = self.memtable.sequence_range()?;
        let may_share = self.memtable.range_tombstones() == 0
            && below.may_overlap(&self.range_within(borders)?) == OlderEntries::None;
        may_share.then(|| SharedSequence { up_to: stripes.oldest_end(), sequence })
    }

    /// A range that holds the point entries within the borders; `None` if there are none at all.
    fn range_within(&self, borders: &Borders) -> Option<KeySpan> {
        let mut cursor = self.memtable.cursor();
        cursor.seek_to_first().ok()?;
        let first = Slice::copy_from(cursor.entry()?.key);
        cursor.seek_to_last().ok()?;
        let last = Slice::copy_from(cursor.entry()?.key);
        let (last, end) = match &borders.upper {
            Some(upper) => (upper.clone(), RangeEnd::Exclusive),
            None => (last, RangeEnd::Inclusive),
        };
        Some(KeySpan { first: borders.lower.clone().unwrap_or(first), last, end })
    }

    /// The first key that younger memtables have so far.
    fn begin_of_younger(&self) -> Option<Slice> {
        let memory = self.view.memory.tables();
        let younger = memory.iter().filter(|table| table.generation > self.generation);
        let firsts = younger.filter_map(|table| {
            let mut cursor = table.memtable.cursor();
            cursor.seek_to_first().ok()?;
            cursor.entry().map(|entry| Slice::copy_from(entry.key))
        });
        firsts.min()
    }
}

/// The memtables of one generation on their way into tables of level 0.
#[derive(Debug)]
pub struct Flush {
    inputs: Vec<FlushInput>,
    stripes: Stripes,
    progress: Arc<Progress>,
    scopes: Vec<Scope>,
}

/// What one part of a flush writes.
#[derive(Clone, Debug)]
enum Scope {
    /// Of the memtable of this index, the keys within the borders.
    Keys(usize, Borders),
    /// All memtables that share a file.
    Small,
}

impl Flush {
    /// Prepares to write what a reader can still see of `inputs`, memtables of one generation. Each
    /// is cut into at most `parallelism` parts, and ends that overlap others into parts of their
    /// own. A family without entries left gets no table.
    ///
    /// `stripes` must have been taken after everything in the memtables was published. `progress`
    /// is told how much of them was read and verified.
    #[must_use]
    pub fn new(
        inputs: Vec<FlushInput>,
        stripes: Stripes,
        progress: Arc<Progress>,
        parallelism: usize,
    ) -> Arc<Self> {
        let mut generations =
            inputs.windows(2).map(|pair| (pair[0].generation, pair[1].generation));
        assert!(generations.all(|(a, b)| a == b), "a flush takes one generation");
        invariant!(is_once(&inputs), "a flush takes a memtable twice");
        progress.begin(inputs.iter().map(|input| input.memtable.entries()).sum());
        let mut scopes = Vec::new();
        for (index, input) in inputs.iter().enumerate().filter(|(_, input)| !input.is_small()) {
            let borders = Borders::between(input.borders(parallelism));
            scopes.extend(borders.map(|borders| Scope::Keys(index, borders)));
        }
        if inputs.iter().any(FlushInput::is_small) {
            scopes.push(Scope::Small);
        }
        Arc::new(Self { inputs, stripes, progress, scopes })
    }

    /// The parts of the work: each may run on any thread, at any time.
    #[must_use]
    pub fn parts(self: &Arc<Self>) -> Vec<FlushPart> {
        let part = |scope: &Scope| FlushPart { flush: self.clone(), scope: scope.clone() };
        self.scopes.iter().map(part).collect()
    }

    /// Puts together what all parts have written, in their order, and makes the names of the files
    /// durable.
    ///
    /// # Errors
    /// What syncing the directory fails with; the new files are removed.
    ///
    /// # Panics
    /// If a part is missing.
    pub fn finish(&self, outputs: Vec<NewTables>, context: &JobContext<'_>) -> Result<JobOutput> {
        assert_eq!(outputs.len(), self.scopes.len(), "a part of a flush is missing");
        let mut tables = NewTables::default();
        for output in outputs {
            tables.append(output);
        }
        tables.finish([], context)
    }

    /// Everything at once, on this thread.
    ///
    /// # Errors
    /// As [`JobPart::run`] and [`Flush::finish`]. No file is left then.
    pub fn run(self: &Arc<Self>, context: &JobContext<'_>) -> Result<JobOutput> {
        let parts = self.parts();
        let outputs = parts.iter().map(|part| part.run(context)).collect::<Result<_>>()?;
        self.finish(outputs, context)
    }

    /// Writes small memtables into one file.
    fn write_small(&self, tables: &mut NewTables, context: &JobContext<'_>) -> Result<()> {
        let (file, mut writer) = NewFile::create(context)?;
        let small = |index: &usize| self.inputs[*index].is_small();
        for index in (0..self.inputs.len()).filter(small) {
            let mut place = OutputPlace::Shared(&file, &mut *writer);
            self.write(index, &Borders::default(), &mut place, tables, context)?;
        }
        // Without a table, the file goes as it came.
        if tables.tables().is_empty() { Ok(()) } else { tables.add_file(file, writer, context) }
    }

    /// Writes what the memtable of this index holds within the borders.
    fn write(
        &self,
        index: usize,
        borders: &Borders,
        place: &mut OutputPlace<'_>,
        tables: &mut NewTables,
        context: &JobContext<'_>,
    ) -> Result<()> {
        let input = &self.inputs[index];
        let tombstones = input.memtable.tombstones();
        let mut below = input.below();
        let kept = retain_tombstones(&tombstones, &self.stripes, |fragment| {
            below.may_contain_any_of(fragment)
        });
        let kept = Fragments::new(&kept);
        let shared = input.shared_sequence(borders, &self.stripes, &below);
        let mut cursor = input.memtable.cursor();
        match &borders.lower {
            Some(lower) => cursor.seek(lower, SequenceNumber::MAX)?,
            None => cursor.seek_to_first()?,
        }
        let rules = Rules {
            stripes: self.stripes.clone(),
            tombstones,
            now_ms: self.stripes.expiry_time_ms(context.clock.settled_ms()),
            operator: input.options.merge_operator.clone(),
            filter: None,
        };
        let cursor = JobCursor::new(cursor, context);
        let mut retain = CompactionIter::new(cursor, rules, |key: &[u8]| below.may_contain(key));
        let stream = OutputIter::new(
            &mut retain,
            &kept,
            borders.clone(),
            BlockCopies::default(),
            shared,
            None,
        )?;
        let destination = Destination {
            family: input.family,
            level: 0,
            options: &input.options,
            under: &[],
            last_half: None,
            merged_before: None,
            merged: &Merged::default(),
            opening: input.opening(),
            created_ms: None,
        };
        write_tables(stream, &destination, place, tables, context)
    }
}

/// One part of a flush.
#[derive(Debug)]
pub struct FlushPart {
    flush: Arc<Flush>,
    scope: Scope,
}

impl JobPart for FlushPart {
    fn run(&self, context: &JobContext<'_>) -> Result<NewTables> {
        let progress = PartProgress::new(&self.flush.progress);
        let context = &JobContext { progress: Some(&progress), ..*context };
        let mut tables = NewTables::default();
        match &self.scope {
            Scope::Keys(index, borders) => {
                let place = &mut OutputPlace::OwnFile;
                self.flush.write(*index, borders, place, &mut tables, context)?;
            }
            Scope::Small => self.flush.write_small(&mut tables, context)?,
        }
        tables.sync()?;
        progress.finish();
        Ok(tables)
    }
}

/// Whether each family is there once.
fn is_once(inputs: &[FlushInput]) -> bool {
    let mut families = HashSet::new();
    inputs.iter().all(|input| families.insert(input.family))
}

/// The first key of each leaf of a memtable.
fn leaf_keys(memtable: &Arc<Memtable>) -> Vec<Slice> {
    let mut cursor = memtable.cursor();
    let (mut firsts, mut after) = (Vec::new(), Vec::new());
    let mut found = cursor.seek_to_first();
    while let (Ok(()), Some(entry), Some(span)) = (found, cursor.entry(), cursor.stretch()) {
        firsts.push(Slice::copy_from(entry.key));
        after.clear();
        after.extend_from_slice(span.last_key);
        after.push(0);
        found = cursor.seek(&after, SequenceNumber::MAX);
    }
    firsts
}

#[cfg(test)]
mod tests;
