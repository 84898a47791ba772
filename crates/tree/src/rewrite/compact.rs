//! Merges the tables of a plan into new ones.
//!
//! It chooses nothing and installs nothing. The work is split by key ranges into independent parts,
//! for as many threads as there are, and into [steps](crate::rewrite::steps) that are installed one
//! after the other.

use crate::{
    compaction_filter::CompactionFilters,
    files::level::{Level, Order},
    files::open_files::OpenReference,
    files::version::Version,
    options::TreeOptions,
    planning::borders::Borders,
    planning::plan::{Outline, Plan, PlanInput, PlanKind},
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
    rewrite::block_copy::{BlockCopies, BlockRun, is_untouched, runs_within, untouched_blocks},
    rewrite::job::{JobContext, JobOutput, JobPart, NewTable, NewTables, Opening, parts_of},
    rewrite::job_cursor::JobCursor,
    rewrite::output::{
        Destination, Merged, MovedValues, OutputIter, OutputPlace, SharedSequence, write_tables,
    },
    rewrite::progress::{PartProgress, Progress},
    rewrite::steps::{CutSize, Cuts, Installs, Left},
    rewrite::write_rate::RateUse,
    strategy::CompactionStrategy,
};
use siltdb_base::{
    cursor::EntryCursor,
    error::Result,
    id::{FamilyId, SequenceNumber},
    invariant,
    tombstone::{Fragments, RangeTombstone},
};
use siltdb_disk::{edit::Change, table::ScanCursor};
use std::{collections::HashSet, fmt, ops::Range, sync::Arc};

/// Tables are joined if there are more than this many times the fewest possible, and more than the
/// parts of a job would leave. Two parts of a memtable of half a buffer, compressed, are a third of
/// a table each.
const SPLIT_MAX: u64 = 4;

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
    plan: Outline,
    stripes: Stripes,
    /// When the newest entry of the inputs was flushed, if the strategy needs to know.
    created_ms: Option<u64>,
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
    /// Where one part or step ends and the next begins.
    cuts: Cuts,
    progress: Arc<Progress>,
}

impl Compaction {
    /// Prepares to carry out `plan`, a merge, for `parallelism` threads. Returns the parts of the
    /// work, too: each may run on any thread, at any time. A part keeps its inputs, and the files
    /// of these, until it is dropped; nothing else of the merge does.
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
    ) -> Result<(Arc<Self>, Vec<Subjob>)> {
        assert_eq!(plan.kind, PlanKind::Rewrite, "an edit needs no compaction");
        invariant!(are_there(&plan, version), "a compaction of a table that is gone: {plan:?}");
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
        let cuts = Cuts::new(&plan, &inputs, cut_size(&plan, &options, parallelism))?;
        let named = options.compaction_filter.as_ref().filter(|_| stripes.may_filter_any());
        let filter = named.and_then(|named| sources.filters.for_job(named, plan.output_level));
        let filter = filter.map(|filter| EntryFilter::new(filter, sources.blobs));
        let untouched = match &filter {
            Some(_) => Vec::new(),
            None => untouched_blocks(&inputs, &tombstones, &options.table_at(plan.output_level))?,
        };
        drop(inputs);
        let is_fifo = matches!(options.compaction, CompactionStrategy::Fifo { .. });
        let created = || plan.tables().map(|table| table.meta().created_ms).max();
        let compaction = Arc::new(Self {
            family,
            progress: begun(&plan, &untouched),
            plan: plan.outline(),
            created_ms: is_fifo.then(created).flatten(),
            under: under_output(&plan, version, &options),
            options,
            stripes,
            tombstones,
            kept,
            below,
            shared,
            merged,
            filter,
            cuts,
        });
        let parts = compaction.parts(&plan.inputs, &untouched);
        Ok((compaction, parts))
    }

    /// The parts of the work over `inputs`, of which blocks are `untouched`.
    fn parts(self: &Arc<Self>, inputs: &[PlanInput], untouched: &[BlockRun]) -> Vec<Subjob> {
        let subjob = |(part, borders): (usize, Borders)| Subjob {
            inputs: inputs.iter().map(|input| input.within(&borders)).collect(),
            untouched: runs_within(untouched, &borders).to_vec(),
            compaction: Arc::clone(self),
            part,
            borders,
        };
        self.cuts.borders().enumerate().map(subjob).collect()
    }

    /// The plan that is carried out.
    #[must_use]
    pub fn plan(&self) -> &Outline {
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

    /// The numbers of the parts of each step, in the order in which steps are installed.
    pub fn steps(&self) -> impl Iterator<Item = Range<usize>> {
        let (parts, per_step) = (self.cuts.parts(), self.cuts.parts_per_step());
        (0..parts).step_by(per_step).map(move |first| first..(first + per_step).min(parts))
    }

    /// What of the inputs is left once `step` is installed.
    #[must_use]
    pub fn left_after(&self, step: &Range<usize>) -> Left {
        self.cuts.left_after(&self.cuts.keys_of(step))
    }

    /// Puts together what the parts of `step` have written, and makes the names of the files
    /// durable. The changes also take the keys of the step away from the inputs. They hold once
    /// those of all steps before are installed.
    ///
    /// # Errors
    /// What syncing the directory fails with; the new files are removed.
    ///
    /// # Panics
    /// If a part is missing.
    pub fn finish_step(
        &self,
        step: &Range<usize>,
        outputs: Vec<NewTables>,
        context: &JobContext<'_>,
    ) -> Result<JobOutput> {
        assert_eq!(outputs.len(), step.len(), "a part of a compaction is missing");
        let mut tables = NewTables::default();
        for output in outputs {
            tables.append(output);
        }
        self.assert_within(tables.tables());
        let changes = self.cuts.changes(self.family, &self.cuts.keys_of(step));
        assert_taken(&changes, tables.tables());
        tables.finish(changes, context)
    }

    /// What was written lies in the level and among the keys that no other plan writes to.
    fn assert_within(&self, tables: &[NewTable]) {
        let Outline { range, output_level, .. } = &self.plan;
        for NewTable { level, reference, .. } in tables {
            let written = &reference.meta.range;
            assert_eq!(level, output_level, "a compaction writes to another level");
            assert!(
                written.first >= range.first && range.union(written) == *range,
                "a compaction of {range:?} writes {written:?}"
            );
        }
    }

    /// The separated values that the plan moves, if it does.
    fn moving<'a>(&'a self, context: &JobContext<'a>) -> Option<MovedValues<'a>> {
        let files = &*self.plan.moved;
        let mover = context.mover.filter(|_| !files.is_empty())?;
        Some(MovedValues { files, family: self.family, options: &self.options, mover })
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
    plan.tables().map(|table| table.entries()).sum()
}

/// Whether `version` has all tables that `plan` takes.
fn are_there(plan: &Plan, version: &Version) -> bool {
    let mut inputs = plan.tables();
    inputs.all(|input| version.find(input.id()).is_some())
}

/// How a plan is cut. What stays in level 0 comes there at once: before the last step it would make
/// no fewer runs, but more tables of one age.
fn cut_size(plan: &Plan, options: &TreeOptions, parallelism: usize) -> CutSize {
    let table_bytes = options.table_bytes_target;
    let parts_min = parts_of(plan.bytes(), table_bytes, parallelism);
    let installs = match &plan.inputs[..] {
        _ if plan.output_level == 0 => Installs::AtOnce,
        [_] => Installs::InLargeSteps,
        _ => Installs::InSteps,
    };
    CutSize { parts_min, table_bytes, installs }
}

/// No key that `written` tables hold is seen through the references that stay of the inputs, as
/// `changes` say.
fn assert_taken(changes: &[Change], written: &[NewTable]) {
    for change in changes {
        let Change::AddTable { table, .. } = change else { continue };
        let slice = table.key_slice.as_ref();
        let overlaps =
            |new: &&NewTable| slice.is_none_or(|rest| rest.overlaps(&new.reference.meta.range));
        let twice = written.iter().find(overlaps);
        assert!(twice.is_none(), "a step leaves {slice:?} of an input beside {twice:?}");
    }
}

/// One part of a compaction: its keys between two borders.
#[derive(Debug)]
pub struct Subjob {
    compaction: Arc<Compaction>,
    /// Its number.
    part: usize,
    borders: Borders,
    /// The inputs that have keys of it.
    inputs: Vec<PlanInput>,
    /// Blocks that are copied as they are, of this part or across its borders.
    untouched: Vec<BlockRun>,
}

impl Subjob {
    fn tables(&self) -> impl Iterator<Item = &Arc<OpenReference>> {
        self.inputs.iter().flat_map(|input| &input.tables)
    }

    /// The number of cursors that are merged.
    fn input_count(&self) -> usize {
        let cursors = |input: &PlanInput| match input.level {
            0 => input.tables.len(),
            _ => usize::from(!input.tables.is_empty()),
        };
        self.inputs.iter().map(cursors).sum()
    }

    /// The entries of the inputs in order, with all within the borders.
    fn merge(&self) -> Result<Merge<SourceCursor<ScanCursor>>> {
        let mut sources = Vec::new();
        for PlanInput { level, tables } in &self.inputs {
            if *level == 0 {
                for table in tables {
                    let cursor = SourceCursor::Table(ReferenceCursor::new(table.clone())?);
                    sources.push(MergeSource { cursor, sequence_max: table.sequence_max() });
                }
            } else if let Some(sequence_max) = tables.iter().map(|it| it.sequence_max()).max() {
                let run = Arc::new(Level::new(Order::Disjoint, tables.clone())?);
                let cursor = SourceCursor::Run(RunCursor::new(run, 0..tables.len()));
                sources.push(MergeSource { cursor, sequence_max });
            }
        }
        Ok(Merge::new(sources))
    }
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
        let _charge = context.charge_inputs(self.input_count());
        let mut merge = self.merge()?;
        match &self.borders.lower {
            Some(lower) => merge.seek(lower, SequenceNumber::MAX)?,
            None => merge.seek_to_first()?,
        }
        let upper = &self.borders.upper;
        let rules = Rules {
            stripes: compaction.stripes.clone(),
            tombstones: compaction.tombstones.clone(),
            now_ms: compaction.stripes.expiry_time_ms(context.clock.settled_ms()),
            operator: compaction.options.merge_operator.clone(),
            filter: compaction.filter.clone().map(|filter| filter.up_to(upper.clone())),
        };
        let mut below = compaction.below.clone();
        let copies = BlockCopies::new(&self.untouched, &self.borders)?;
        let merge = JobCursor::new(merge, context).up_to(upper.clone()).around(&copies)?;
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
            last_half: compaction.cuts.last_half(self.part),
            merged: &compaction.merged,
            merged_before: compaction.cuts.step_end(self.part),
            opening: Opening::like(self.tables()),
            created_ms: compaction.created_ms,
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

/// The tables of the level under the output that overlap it.
fn under_output(plan: &Plan, version: &Version, options: &TreeOptions) -> Vec<Arc<OpenReference>> {
    let is_tiered = matches!(options.compaction, CompactionStrategy::Tiered { .. });
    match version.levels().get(plan.output_level + 1) {
        // Tables of level 0 go down all together, so a border there would gain nothing. Nor in a
        // tiered tree, where runs go down whole.
        Some(level) if plan.output_level > 0 && !is_tiered => {
            level.within(level.overlapping_run(&plan.range)).cloned().collect()
        }
        _ => Vec::new(),
    }
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

#[cfg(test)]
mod tests;
