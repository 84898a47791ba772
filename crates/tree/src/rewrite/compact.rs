//! Merges the tables of a plan into new ones.
//!
//! It chooses nothing and installs nothing. The work is split by key ranges into independent parts,
//! for as many threads as there are.

use crate::{
    compaction_filter::CompactionFilters,
    files::level::{Level, Order},
    files::open_files::OpenReference,
    files::version::Version,
    options::TreeOptions,
    planning::plan::{Borders, Plan, PlanKind},
    read::merge::{Merge, MergeSource},
    read::source::{SourceCursor, reference_cursor::ReferenceCursor, run_cursor::RunCursor},
    read::visible::resolve::BlobSource,
    retain::{
        entries::{CompactionIter, Rules},
        entry_filter::EntryFilter,
        range::retain_tombstones,
        stripes::{OlderEntries, Stripes},
    },
    rewrite::below_output::BelowOutput,
    rewrite::block_copy::{BlockCopies, BlockRun, CopyInput, is_untouched, untouched_blocks},
    rewrite::job::{JobContext, JobOutput, JobPart, NewTable, NewTables, Opening, parts_of},
    rewrite::job_cursor::JobCursor,
    rewrite::output::{
        Destination, Merged, MovedValues, OutputIter, OutputPlace, SharedSequence, write_tables,
    },
    rewrite::progress::{PartProgress, Progress},
    rewrite::write_rate::RateUse,
    strategy::CompactionStrategy,
};
use siltdb_base::{
    cursor::EntryCursor,
    error::Result,
    id::{FamilyId, SequenceNumber},
    invariant,
    slice::Slice,
    tombstone::{Fragments, RangeTombstone},
};
use siltdb_disk::table::ScanCursor;
use std::{collections::HashSet, fmt, sync::Arc};

/// Tables are joined if there are more than this many times the fewest possible, and more than the
/// parts of a job would leave. Two parts of a memtable of half a buffer, compressed, are a third of
/// a table each.
const SPLIT_MAX: u64 = 4;
/// Blocks of a table that are looked at to find borders, at most.
const SAMPLES_PER_TABLE: u64 = 64;

/// Where a compaction finds the code of its filter, and the separated values that it shows to it.
#[derive(Clone)]
pub struct FilterSources<'a> {
    /// The filters of the database.
    pub filters: &'a CompactionFilters,
    /// The blob files; without them a filter that needs values fails at separated ones.
    pub blobs: Option<Arc<dyn BlobSource>>,
}

impl fmt::Debug for FilterSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterSources").field("filters", self.filters).finish_non_exhaustive()
    }
}

/// A merge of the tables of a plan.
#[derive(Debug)]
pub struct Compaction {
    family: FamilyId,
    options: Arc<TreeOptions>,
    plan: Plan,
    stripes: Stripes,
    /// The inputs of each run as a level of its own; level 0 stays as it is in the plan.
    runs: Vec<Arc<Level>>,
    /// All range tombstones of the inputs, and those above that overlap them.
    tombstones: Arc<Fragments>,
    /// Those of the inputs that are written.
    kept: Fragments,
    below: BelowOutput,
    /// The sequence number of values at the bottom that every reader sees.
    shared: Option<SharedSequence>,
    /// The tables of the level under the output that overlap it.
    under: Vec<Arc<OpenReference>>,
    /// The inputs, and what these had replaced.
    merged: Merged,
    /// The filter, if it has anything to decide.
    filter: Option<EntryFilter>,
    /// Blocks that are copied as they are.
    untouched: Vec<BlockRun>,
    /// Where one part ends and the next begins, ascending.
    borders: Vec<Slice>,
    progress: Arc<Progress>,
}

impl Compaction {
    /// Prepares to carry out `plan`, a merge, in at most `parallelism` parts.
    ///
    /// `version` is the tree's version when the plan was made, or a later one. `stripes` must have
    /// been taken after `options`, and after everything in the inputs was published. `sources` have
    /// the filter that the options name, or values pass unfiltered.
    ///
    /// # Errors
    /// What opening the inputs fails with.
    ///
    /// # Panics
    /// If the plan is no merge: see [`Plan::edit_changes`].
    pub fn new(
        family: FamilyId,
        options: Arc<TreeOptions>,
        plan: Plan,
        version: &Version,
        stripes: Stripes,
        sources: FilterSources<'_>,
        parallelism: usize,
    ) -> Result<Arc<Self>> {
        assert_eq!(plan.kind, PlanKind::Rewrite, "an edit needs no compaction");
        invariant!(are_there(&plan, version), "a compaction of a table that is gone: {plan:?}");
        let runs = plan.inputs.iter().filter(|input| input.level > 0);
        let runs =
            runs.map(|input| Level::new(Order::Disjoint, input.tables.clone()).map(Arc::new));
        let runs: Vec<_> = runs.collect::<Result<_>>()?;
        // Open while the work is prepared, not opened again by each step of it.
        let mut tombstones = Vec::new();
        let (mut inputs, mut merged) = (Vec::new(), Merged::default());
        for reference in plan.tables() {
            let table = reference.pass()?;
            merged.add(reference.reference(), &table);
            tombstones.extend(reference.seen_of(table.tombstones()).tombstones());
            inputs.push((reference, table));
        }
        let below = below_output_of(&plan, version);
        let own = Fragments::new(&tombstones);
        let kept = retain_tombstones(&own, &stripes, |fragment| below.may_contain_any_of(fragment));
        let kept = Fragments::new(&kept);
        tombstones.extend(tombstones_above(&plan, version));
        let tombstones = Arc::new(Fragments::new(&tombstones));
        let shared = shared_sequence(&plan, &stripes, &below);
        let is_tiered = matches!(options.compaction, CompactionStrategy::Tiered { .. });
        let under = match version.levels().get(plan.output_level + 1) {
            // Tables of level 0 go down all together, so a border there would gain nothing.
            // Nor in a tiered tree, where runs go down whole.
            Some(level) if plan.output_level > 0 && !is_tiered => {
                level.within(level.overlapping_run(&plan.range)).cloned().collect()
            }
            _ => Vec::new(),
        };
        let parts = parts_of(plan.bytes(), options.table_bytes_target, parallelism);
        let borders = borders(&inputs, &plan.range.first, parts)?;
        let is_sorted = borders.is_sorted_by(|a, b| a < b);
        assert!(is_sorted, "a key lies in two parts of a compaction: {borders:?}");
        let named = options.compaction_filter.as_ref().filter(|_| stripes.may_filter_any());
        let filter = named.and_then(|named| sources.filters.for_job(named, plan.output_level));
        let filter = filter.map(|filter| EntryFilter::new(filter, sources.blobs));
        let untouched = match &filter {
            Some(_) => Vec::new(),
            None => untouched_blocks(&inputs, &tombstones, &options.table_at(plan.output_level))?,
        };
        let progress = begun(&plan, &untouched);
        Ok(Arc::new(Self {
            family,
            options,
            progress,
            plan,
            stripes,
            runs,
            tombstones,
            kept,
            below,
            shared,
            under,
            merged,
            filter,
            untouched,
            borders,
        }))
    }

    /// The plan that is carried out.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How far it is, by the entries that are not copied in whole blocks.
    #[must_use]
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Whether values are shown to a filter.
    #[must_use]
    pub fn is_filtering(&self) -> bool {
        self.filter.is_some()
    }

    /// The parts of the work: each may run on any thread, at any time.
    #[must_use]
    pub fn subjobs(self: &Arc<Self>) -> Vec<Subjob> {
        let subjob = |borders| Subjob { compaction: self.clone(), borders };
        Borders::between(self.borders.clone()).map(subjob).collect()
    }

    /// Puts together what all parts have written, and makes the names of the files durable.
    ///
    /// # Errors
    /// What syncing the directory fails with; the new files are removed.
    ///
    /// # Panics
    /// If a part is missing.
    pub fn finish(&self, outputs: Vec<NewTables>, context: &JobContext<'_>) -> Result<JobOutput> {
        assert_eq!(outputs.len(), self.borders.len() + 1, "a part of a compaction is missing");
        let mut tables = NewTables::default();
        for output in outputs {
            tables.append(output);
        }
        self.assert_within(tables.tables());
        tables.finish(self.plan.removals(self.family), context)
    }

    /// What was written lies in the level and among the keys that no other plan writes to.
    fn assert_within(&self, tables: &[NewTable]) {
        let Plan { range, output_level, .. } = &self.plan;
        for NewTable { level, reference, .. } in tables {
            let written = &reference.meta.range;
            assert_eq!(level, output_level, "a compaction writes to another level");
            assert!(
                written.first >= range.first && range.union(written) == *range,
                "a compaction of {range:?} writes {written:?}"
            );
        }
    }

    /// Everything at once, on this thread.
    ///
    /// # Errors
    /// As [`JobPart::run`] and [`Compaction::finish`].
    pub fn run(self: &Arc<Self>, context: &JobContext<'_>) -> Result<JobOutput> {
        let subjobs = self.subjobs();
        let outputs = subjobs.iter().map(|subjob| subjob.run(context)).collect::<Result<_>>()?;
        self.finish(outputs, context)
    }

    /// The separated values that the plan moves, if it does.
    fn moving<'a>(&'a self, context: &JobContext<'a>) -> Option<MovedValues<'a>> {
        let files = &*self.plan.moved;
        let mover = context.mover.filter(|_| !files.is_empty())?;
        Some(MovedValues { files, family: self.family, options: &self.options, mover })
    }

    /// The number of cursors that are merged.
    fn input_count(&self) -> usize {
        let level0 = self.plan.inputs.iter().filter(|input| input.level == 0);
        level0.map(|input| input.tables.len()).sum::<usize>() + self.runs.len()
    }

    /// When the newest entry of the inputs was flushed, if the strategy needs to know.
    fn created_ms(&self) -> Option<u64> {
        let is_fifo = matches!(self.options.compaction, CompactionStrategy::Fifo { .. });
        is_fifo.then(|| self.plan.tables().map(|table| table.meta().created_ms).max()).flatten()
    }

    /// All entries of the inputs in order.
    fn merge(&self) -> Result<Merge<SourceCursor<ScanCursor>>> {
        let mut sources = Vec::new();
        for input in self.plan.inputs.iter().filter(|input| input.level == 0) {
            for table in &input.tables {
                let cursor = ReferenceCursor::new(table.clone())?;
                let cursor = SourceCursor::Table(cursor);
                sources.push(MergeSource { cursor, sequence_max: table.sequence_max() });
            }
        }
        for run in &self.runs {
            let tables = 0..run.count();
            let sequence_max = run.newest_within(tables.clone());
            let cursor = RunCursor::new(run.clone(), tables);
            sources.push(MergeSource { cursor: SourceCursor::Run(cursor), sequence_max });
        }
        Ok(Merge::new(sources))
    }
}

/// The progress of a compaction that has done nothing. Blocks that are copied are no work.
fn begun(plan: &Plan, untouched: &[BlockRun]) -> Arc<Progress> {
    let progress = Arc::new(Progress::default());
    let copied = untouched.iter().map(BlockRun::entries).sum();
    progress.begin(entries_of(plan).saturating_sub(copied).max(1));
    progress
}

/// About how many entries the plan takes: a reference to a part of a table has that part of them.
fn entries_of(plan: &Plan) -> u64 {
    let seen = |table: &Arc<OpenReference>| {
        let (bytes, all) = (u128::from(table.bytes()), u128::from(table.meta().file_bytes.max(1)));
        (u128::from(table.meta().entries) * bytes.min(all) / all) as u64
    };
    plan.tables().map(seen).sum()
}

/// Whether `version` has all tables that `plan` takes.
fn are_there(plan: &Plan, version: &Version) -> bool {
    let mut inputs = plan.tables();
    inputs.all(|input| version.find(input.id()).is_some())
}

/// One part of a compaction: its keys between two borders.
#[derive(Debug)]
pub struct Subjob {
    compaction: Arc<Compaction>,
    borders: Borders,
}

impl JobPart for Subjob {
    /// Merges the inputs between the borders.
    fn run(&self, context: &JobContext<'_>) -> Result<NewTables> {
        let compaction = &*self.compaction;
        let progress = PartProgress::new(&compaction.progress);
        let context = &JobContext {
            progress: Some(&progress),
            given_up: Some(&compaction.plan.given_up),
            rate: context.rate.map(|(rate, _)| (rate, RateUse::Waits)),
            ..*context
        };
        let _charge = context.charge_inputs(compaction.input_count());
        let mut merge = compaction.merge()?;
        match &self.borders.lower {
            Some(lower) => merge.seek(lower, SequenceNumber::MAX)?,
            None => merge.seek_to_first()?,
        }
        let rules = Rules {
            stripes: compaction.stripes.clone(),
            tombstones: compaction.tombstones.clone(),
            now_ms: compaction.stripes.expiry_time_ms(context.clock.settled_ms()),
            operator: compaction.options.merge_operator.clone(),
            filter: compaction.filter.clone(),
        };
        let mut below = compaction.below.clone();
        let copies = BlockCopies::new(&compaction.untouched, &self.borders)?;
        let merge = JobCursor::new(merge, context).around(&copies)?;
        let mut retain = CompactionIter::new(merge, rules, |key: &[u8]| below.may_contain(key));
        let stream = OutputIter::new(
            &mut retain,
            &compaction.kept,
            self.borders.clone(),
            copies,
            compaction.shared,
            compaction.moving(context),
        )?;
        let destination = Destination {
            family: compaction.family,
            level: compaction.plan.output_level,
            options: &compaction.options,
            under: &compaction.under,
            merged: &compaction.merged,
            opening: Opening::like(compaction.plan.tables()),
            created_ms: compaction.created_ms(),
        };
        let mut tables = NewTables::default();
        write_tables(stream, &destination, &mut OutputPlace::OwnFile, &mut tables, context)?;
        tables.sync()?;
        progress.finish();
        Ok(tables)
    }
}

/// Whether carrying out `plan`, in at most `parallelism` parts, would write the same entries again,
/// into hardly fewer tables. That is so if it takes tables of one level that stay there, are
/// written as the options want them and of the kind that is chosen, and all of their blocks are
/// untouched. So a request brings a changed compression to tables that lie at the bottom already.
/// With a compaction filter every plan may change something.
///
/// A table whose index cannot be read counts as one that changes: what is wrong with it is for the
/// job to say.
#[must_use]
pub fn would_change_nothing(plan: &Plan, options: &TreeOptions, parallelism: usize) -> bool {
    let [input] = &plan.inputs[..] else { return false };
    if options.compaction_filter.is_some() {
        return false;
    }
    let wanted = options.table_at(plan.output_level);
    let tables_min = plan.bytes().div_ceil(options.table_bytes_target.max(1)).max(1);
    // Each part of the job would end with a table that need not be full.
    let parts = parts_of(plan.bytes(), options.table_bytes_target, parallelism) as u64;
    let tables_max = (tables_min * SPLIT_MAX).max(tables_min + parts);
    input.level == plan.output_level
        && input.level > 0
        && input.tables.len() as u64 <= tables_max
        && input.tables.iter().all(|table| {
            table.meta().kind == options.table.kind && is_untouched(table, &wanted).unwrap_or(false)
        })
}

/// What lies deeper than the output of `plan`: the levels below it, and if it stays in level 0, the
/// older tables there.
fn below_output_of(plan: &Plan, version: &Version) -> BelowOutput {
    let runs = &version.levels()[plan.output_level + 1..];
    if plan.output_level > 0 {
        return BelowOutput::new(Vec::new(), runs);
    }
    let inputs: HashSet<_> = plan.tables().map(|table| table.id()).collect();
    let level0 = version.levels()[0].tables();
    let others = level0.filter(|table| !inputs.contains(&table.id()));
    BelowOutput::new(others.cloned().collect(), runs)
}

/// The range tombstones above `plan` that reach into its range. What they cover need not be
/// written. They stay where they are as long as the inputs are there, and after that as long as
/// they hide anything.
fn tombstones_above(plan: &Plan, version: &Version) -> Vec<RangeTombstone> {
    let inputs: HashSet<_> = plan.tables().map(|table| table.id()).collect();
    let top = plan.inputs[0].level;
    let above = version.with_range_tombstones().filter(|(level, _)| *level < top.max(1));
    let above = above
        .map(|(_, table)| table)
        .filter(|table| table.range().overlaps(&plan.range) && !inputs.contains(&table.id()));
    let mut found = Vec::new();
    for reference in above {
        // A damaged table covers nothing here; the job that merges it says what is wrong.
        let Ok(table) = reference.pass() else { continue };
        let seen = reference.seen_of(table.tombstones());
        let reaches_in = |tombstone: &RangeTombstone| {
            !plan.range.is_before(&tombstone.start) && tombstone.end > plan.range.first
        };
        found.extend(seen.tombstones().filter(reaches_in));
    }
    found
}

/// The sequence number for values that every reader sees, if nothing lies deeper than `plan`.
///
/// Not in level 0, whose tables are told apart by their sequence numbers. The oldest of several
/// inputs may be older than a table between them.
fn shared_sequence(plan: &Plan, stripes: &Stripes, below: &BelowOutput) -> Option<SharedSequence> {
    if plan.output_level == 0 || below.may_overlap(&plan.range) == OlderEntries::Possible {
        return None;
    }
    let sequence = plan.tables().map(|table| table.sequence_min()).min()?;
    Some(SharedSequence { up_to: stripes.oldest_end(), sequence })
}

/// Keys after `first` that cut `inputs` into about `parts` equal parts.
fn borders(inputs: &[CopyInput<'_>], first: &Slice, parts: usize) -> Result<Vec<Slice>> {
    if parts < 2 {
        return Ok(Vec::new());
    }
    // Pairs of a key and the bytes that lie before it since the key sampled before.
    let mut samples: Vec<(Slice, u64)> = Vec::new();
    for (reference, table) in inputs {
        let step = table.block_count().div_ceil(SAMPLES_PER_TABLE).max(1);
        let mut bytes = 0;
        let mut blocks = table.blocks()?;
        while let Some(info) = blocks.block() {
            bytes += info.bytes;
            let is_sampled = (blocks.number() as u64 + 1).is_multiple_of(step);
            if is_sampled && reference.range().contains(info.last_key) {
                samples.push((Slice::copy_from(info.last_key), std::mem::take(&mut bytes)));
            }
            blocks.advance()?;
        }
    }
    samples.sort();
    let total: u64 = samples.iter().map(|(_, bytes)| bytes).sum();
    let part_bytes = total / parts as u64 + 1;
    let mut borders: Vec<Slice> = Vec::new();
    let mut bytes = 0;
    for (key, before) in samples {
        bytes += before;
        let is_new = borders.last().is_none_or(|last| *last < key);
        if bytes >= part_bytes * (borders.len() as u64 + 1) && is_new && key > *first {
            borders.push(key);
        }
    }
    Ok(borders)
}

#[cfg(test)]
mod tests;
