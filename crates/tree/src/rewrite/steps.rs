//! Where a merge is cut into parts and steps, and what each step changes.
//!
//! A *step* installs what the parts of one stretch of keys have written, the first keys first. Its
//! edit takes the stretch away from the inputs: an input that ends there is removed, and an input
//! that goes on is referred to from the end of the stretch on. So debt falls while a merge goes on,
//! files of inputs go, and a merge that is cancelled keeps what its steps have done.
//!
//! It reads indexes alone, and installs nothing.
//!
//! # Invariants
//! 1. After each step an entry of an input is seen through its reference, or lies before the end of
//!    the step and was merged; never both. All versions of a key are on one side.
//! 2. Steps are installed in their order, because a reference has one key slice.
//!
//! # Seeded faults
//! - `step_loses_a_key`: an input that goes on does not show the first key after the step.
//! - `step_keeps_a_merged_key`: it shows the last key of the step, too.

use crate::{
    files::open_files::{OpenReference, TableId},
    files::stack,
    planning::borders::Borders,
    planning::plan::Plan,
    rewrite::block_copy::CopyInput,
};
use siltdb_base::{
    error::Result, id::FamilyId, key::successor, limits::KEY_BYTES_MAX, seeded_fault, slice::Slice,
};
use siltdb_disk::{
    edit::{Change, TableReference},
    table_meta::KeySpan,
};
use std::{iter, ops::Range, sync::Arc};

/// Blocks of a table that are looked at to find borders, at most.
const SAMPLES_PER_TABLE: u64 = 64;

/// Tables of the target size that a step writes at most, about, and the smallest merge that is cut
/// into steps. For less, the syncs of a step cost more than it gains.
const STEP_TABLES_MAX: u64 = 4;

/// A merge has at least this many steps, unless these would be smaller than a table. So what two
/// threads have written and not installed yet is about a tenth of what is merged.
const STEPS_MIN: u64 = 16;

/// A merge has at most this many steps: each costs a look at all tables of the tree.
const STEPS_MAX: u64 = 256;

/// How the output of a merge is cut.
#[derive(Clone, Copy, Debug)]
pub struct CutSize {
    /// Parts, at least: as many as threads can take.
    pub parts_min: usize,
    /// The target size of a table, in bytes.
    pub table_bytes: u64,
    /// Whether the merge is installed in steps.
    pub installs: Installs,
}

/// When the parts of a merge are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installs {
    /// Stretch by stretch.
    InSteps,
    /// The same in fewer steps. A rewrite of one level may leave much less than it takes, and each
    /// step ends with a table of its own.
    InLargeSteps,
    /// All at the end.
    AtOnce,
}

impl CutSize {
    /// Steps of a merge of `bytes`.
    fn steps(self, bytes: u64) -> u64 {
        let table = self.table_bytes.max(1);
        let largest = table.saturating_mul(STEP_TABLES_MAX);
        if self.installs == Installs::AtOnce || bytes <= largest {
            return 1;
        }
        let step = match self.installs {
            Installs::InSteps => (bytes / STEPS_MIN).clamp(table, largest),
            Installs::InLargeSteps | Installs::AtOnce => largest,
        };
        (bytes / step).clamp(1, STEPS_MAX)
    }
}

/// An input, and what is left of it where steps end.
#[derive(Debug)]
struct CutInput {
    level: usize,
    id: TableId,
    range: KeySpan,
    /// About how many bytes of it the merge takes.
    bytes: u64,
    /// How a manifest refers to it, if a step ends within its keys.
    reference: Option<Arc<TableReference>>,
    /// The ends of steps within its keys, ascending.
    ends: Vec<StepEnd>,
}

/// The end of a step within the keys of an input.
#[derive(Debug)]
struct StepEnd {
    /// The first key after the step.
    key: Slice,
    /// About how many bytes of the input lie from the key on.
    bytes_left: u64,
}

impl CutInput {
    fn new(level: usize, input: &OpenReference) -> Self {
        Self {
            level,
            id: input.id(),
            range: input.range().clone(),
            bytes: input.bytes(),
            reference: None,
            ends: Vec::new(),
        }
    }

    /// Notes the ends of steps. The bytes of the input are spread over its keys as `samples` say.
    fn note_ends<'e>(
        &mut self,
        input: &OpenReference,
        samples: &[Sample],
        ends: impl Iterator<Item = &'e Slice>,
    ) {
        let all = samples.last().map_or(0, |(_, bytes)| *bytes);
        for key in ends.filter(|key| self.range.from_key(key).is_some_and(|it| it != self.range)) {
            let passed = samples.partition_point(|(sample, _)| sample < key);
            let before = passed.checked_sub(1).map_or(0, |index| samples[index].1);
            let left = u128::from(self.bytes) * u128::from(all - before) / u128::from(all.max(1));
            // Something is left, and not more than there was.
            let bytes_left = if all == 0 { self.bytes } else { (left as u64).max(1) };
            self.ends.push(StepEnd { key: key.clone(), bytes_left });
        }
        let is_falling = self.ends.is_sorted_by(|a, b| a.bytes_left >= b.bytes_left);
        assert!(is_falling, "a later step leaves more of an input: {:?}", self.ends);
        self.reference = (!self.ends.is_empty()).then(|| input.reference().clone());
    }

    /// The end of a step at `key`, if it lies within the keys of the input.
    fn end_at(&self, key: &Slice) -> Option<&StepEnd> {
        let index = self.ends.binary_search_by(|end| end.key.cmp(key)).ok()?;
        Some(&self.ends[index])
    }

    /// What is left of it behind a step that ends before `key`, as a manifest says it; `None` if
    /// nothing is.
    fn rest(&self, key: &Slice) -> Option<Arc<TableReference>> {
        let (end, reference) = (self.end_at(key)?, self.reference.clone()?);
        let first = match &end.key {
            key if seeded_fault!("step_loses_a_key") => behind_next(key),
            // A step ends behind a key of an input.
            key if seeded_fault!("step_keeps_a_merged_key") => key.slice(0..key.len() - 1),
            key => key.clone(),
        };
        let key_slice = Some(self.range.from_key(&first)?);
        let slice_bytes = Some(end.bytes_left);
        let reference = TableReference::clone(&reference);
        Some(Arc::new(TableReference { key_slice, slice_bytes, ..reference }))
    }
}

/// A key behind the first one after a step that ends before `key`, where keys count up.
fn behind_next(key: &Slice) -> Slice {
    let mut behind = key.to_vec();
    if let [.., digit, end] = &mut behind[..] {
        (*digit, *end) = (digit.saturating_add(1), u8::MAX);
    }
    behind.into()
}

/// The last key of a block, and the bytes of all blocks of its table up to it.
type Sample = (Slice, u64);

/// What of the inputs of a merge is not installed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// About their bytes.
    pub bytes: u64,
    /// The runs of level 0 that they make.
    pub level0_runs: u64,
}

/// Keys, each with the bytes since the key before.
fn stretches(samples: &[Sample]) -> impl Iterator<Item = Sample> + '_ {
    let before = iter::once(0).chain(samples.iter().map(|(_, bytes)| *bytes));
    samples.iter().zip(before).map(|((key, bytes), before)| (key.clone(), bytes - before))
}

/// The last keys of some blocks of an input, ascending, each with the bytes of all blocks up to it.
fn samples(input: &CopyInput<'_>) -> Result<Vec<Sample>> {
    let (reference, table) = input;
    let step = table.block_count().div_ceil(SAMPLES_PER_TABLE).max(1);
    let (mut samples, mut bytes) = (Vec::new(), 0);
    let mut blocks = table.blocks()?;
    while let Some(info) = blocks.block() {
        if reference.range().contains(info.last_key) {
            bytes += info.bytes;
            if (blocks.number() as u64 + 1).is_multiple_of(step) {
                samples.push((Slice::copy_from(info.last_key), bytes));
            }
        }
        blocks.advance()?;
    }
    Ok(samples)
}

/// The parts and steps of a merge.
#[derive(Debug)]
pub struct Cuts {
    inputs: Vec<CutInput>,
    /// Where one part ends and the next begins, ascending.
    borders: Vec<Slice>,
    /// Of each part, the key from which on less than half a table is left of it.
    last_halves: Vec<Option<Slice>>,
    parts_per_step: usize,
}

impl Cuts {
    /// Cuts the merge of `plan`, whose tables are `inputs`, into parts of about equal size.
    ///
    /// Cost: reads the index of each input, if there is more than one part.
    ///
    /// # Errors
    /// Corruption, if an index is damaged; what reading fails with.
    pub fn new(plan: &Plan, inputs: &[CopyInput<'_>], size: CutSize) -> Result<Self> {
        let steps = size.steps(plan.bytes());
        // At most `STEPS_MAX`.
        let parts = size.parts_min.max(steps as usize);
        let mut cuts = Self {
            inputs: Vec::new(),
            borders: Vec::new(),
            last_halves: vec![None],
            parts_per_step: usize::MAX,
        };
        let mut sampled = Vec::new();
        if parts > 1 {
            sampled = inputs.iter().map(samples).collect::<Result<_>>()?;
            cuts.find_borders(&sampled, parts, size.table_bytes / 2);
        }
        if size.installs != Installs::AtOnce {
            cuts.parts_per_step = cuts.parts().div_ceil(steps as usize).max(1);
        }
        let is_sorted = cuts.borders.is_sorted_by(|a, b| a < b);
        assert!(is_sorted, "a key lies in two parts of a merge: {:?}", cuts.borders);
        let levels = plan.inputs.iter().flat_map(|input| input.tables.iter().map(|_| input.level));
        for (number, (level, (reference, _))) in levels.zip(inputs).enumerate() {
            let mut input = CutInput::new(level, reference);
            let samples = sampled.get(number).map_or(&[][..], |samples| samples);
            input.note_ends(reference, samples, cuts.step_ends());
            cuts.inputs.push(input);
        }
        Ok(cuts)
    }

    /// Finds keys that cut inputs with these samples into about `parts` equal parts. Each is the
    /// first key after a block, so that no block lies in two parts for it.
    fn find_borders(&mut self, sampled: &[Vec<Sample>], parts: usize, half_table: u64) {
        let mut samples: Vec<_> = sampled.iter().flat_map(|samples| stretches(samples)).collect();
        samples.sort();
        let total: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
        let part_bytes = total / parts as u64 + 1;
        let end = samples.last().map(|(key, _)| key.clone()).unwrap_or_default();
        // The indexes of the samples that are borders.
        let mut places: Vec<usize> = Vec::new();
        let mut reached = 0;
        for (place, (key, bytes)) in samples.iter().enumerate() {
            reached += bytes;
            // Of equal keys the last has all bytes up to it.
            let is_last = samples.get(place + 1).is_none_or(|(next, _)| next > key);
            // A range tombstone may be cut at the border, which must be a key: one behind the
            // longest key is none.
            let may_cut = is_last && *key < end && key.len() < KEY_BYTES_MAX;
            if reached >= part_bytes * (places.len() as u64 + 1) && may_cut {
                self.borders.push(successor(key).into());
                places.push(place);
            }
        }
        let begins = iter::once(0).chain(places.iter().map(|place| place + 1));
        let ends = places.iter().map(|place| place + 1).chain([samples.len()]);
        let last_half = |part: Range<usize>| {
            let mut left = 0;
            let fits = |(_, bytes): &&Sample| {
                left += bytes;
                left <= half_table
            };
            let last = samples[part].iter().rev().take_while(fits).last();
            last.map(|(key, _)| key.clone())
        };
        self.last_halves = begins.zip(ends).map(|(begin, end)| begin..end).map(last_half).collect();
    }

    /// The number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.borders.len() + 1
    }

    /// The number of parts whose outputs are installed together; fewer in the last step.
    #[must_use]
    pub fn parts_per_step(&self) -> usize {
        self.parts_per_step.min(self.parts())
    }

    /// The keys of each part.
    pub fn borders(&self) -> impl Iterator<Item = Borders> {
        Borders::between(self.borders.clone())
    }

    /// The key of a part from which on so little is left that no further table is begun.
    #[must_use]
    pub fn last_half(&self, part: usize) -> Option<&Slice> {
        self.last_halves[part].as_ref()
    }

    /// Where the step of a part ends; `None` for the last step.
    #[must_use]
    pub fn step_end(&self, part: usize) -> Option<&Slice> {
        let per_step = self.parts_per_step();
        // The step ends with the border behind its last part.
        self.borders.get((part / per_step + 1) * per_step - 1)
    }

    /// Where steps end that others follow, ascending.
    fn step_ends(&self) -> impl Iterator<Item = &Slice> {
        let per_step = self.parts_per_step();
        self.borders.iter().skip(per_step - 1).step_by(per_step)
    }

    /// The keys of neighbouring parts.
    #[must_use]
    pub fn keys_of(&self, parts: &Range<usize>) -> Borders {
        let border = |index: usize| self.borders.get(index).cloned();
        Borders {
            lower: parts.start.checked_sub(1).and_then(border),
            upper: parts.end.checked_sub(1).and_then(border),
        }
    }

    /// How the references to the inputs change when everything within `step` was merged, and
    /// everything before it.
    #[must_use]
    pub fn changes(&self, family: FamilyId, step: &Borders) -> Vec<Change> {
        let mut changes = Vec::new();
        for input in &self.inputs {
            // Gone before, or not begun.
            if !step.overlap(&input.range) {
                continue;
            }
            // A level's number is below `LEVELS`.
            let (id, level) = (input.id, input.level as u8);
            changes.push(Change::RemoveTable { family, level, file: id.file, offset: id.offset });
            let rest = step.upper.as_ref().and_then(|upper| input.rest(upper));
            changes.extend(rest.map(|table| Change::AddTable { family, level, table }));
        }
        changes
    }

    /// What is left of the inputs when everything within `step` was merged, and everything before
    /// it.
    #[must_use]
    pub fn left_after(&self, step: &Borders) -> Left {
        let Some(end) = &step.upper else { return Left::default() };
        let (mut bytes, mut level0) = (0_u64, Vec::new());
        for input in &self.inputs {
            let Some(range) = input.range.from_key(end) else { continue };
            // What does not begin behind the step ends behind it.
            let left = input.end_at(end).map_or(input.bytes, |end| end.bytes_left);
            bytes = bytes.saturating_add(left);
            if input.level == 0 {
                level0.push(range);
            }
        }
        Left { bytes, level0_runs: stack::runs(&level0) as u64 }
    }
}

#[cfg(test)]
mod tests;
