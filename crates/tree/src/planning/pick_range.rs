//! Chooses the compactions that a user asked for: of a range of keys, or of everything.
//!
//! One step at a time, like the picker that works by itself; the caller asks until there is none.

use crate::{
    files::level::Order,
    files::open_files::OpenReference,
    files::table_sum::TableSum,
    files::version::Version,
    options::TreeOptions,
    planning::descent::{Descent, bring_down},
    planning::pick_leveled::{Targets, below_level0, limits, move_isolated},
    planning::pick_tiered::merge_all,
    planning::plan::{Busy, Plan, PlanInput, PlanKind, Reason},
    strategy::CompactionStrategy,
};
use siltdb_base::{
    cancel::CancelToken,
    id::{FileNumber, SequenceNumber},
    limits::LEVELS,
    slice::Slice,
};
use siltdb_disk::table_meta::KeySpan;
use std::sync::Arc;

/// Tables that one step rewrites at most: their files are open meanwhile.
const REWRITTEN_TABLES_MAX: usize = 256;

/// What one request has to do still.
#[derive(Clone, Debug)]
pub struct Request {
    /// The keys; `None` for all.
    pub range: Option<KeySpan>,
    /// The newest sequence number when the request came. Tables of newer entries alone are left
    /// where they are, so that the request ends however much is written meanwhile. Each step takes
    /// some of what was there one level down, and nothing brings it up again.
    pub newest: SequenceNumber,
    /// Tables that lie at the bottom already are rewritten too, if their file is older than this:
    /// the next file number when the request came. So each is rewritten once. 0: they stay.
    pub rewrite_before: FileNumber,
    /// Cancels the request: its running plan, and with it the rest.
    pub given_up: CancelToken,
    /// Up to this key all tables at the bottom have been rewritten, or stay as they are because to
    /// rewrite them would change nothing.
    passed: Option<Slice>,
}

impl Request {
    /// A request before its first step.
    #[must_use]
    pub fn new(range: Option<KeySpan>, newest: SequenceNumber, rewrite_before: FileNumber) -> Self {
        Self { range, newest, rewrite_before, given_up: CancelToken::new(), passed: None }
    }

    /// The same request, which is cancelled with `token` or by itself.
    #[must_use]
    pub fn cancelled_by(self, token: &CancelToken) -> Self {
        Self { given_up: token.child(), ..self }
    }

    /// The request once `plan` was carried out, or would change nothing. No table that was there
    /// when it came appears behind one that was rewritten, because what could still go down has.
    #[must_use]
    pub fn past(&self, plan: &Plan) -> Self {
        let passed = match &plan.inputs[..] {
            [input] if input.level == plan.output_level && input.level > 0 => {
                input.tables.iter().map(|table| table.range().end_key()).max()
            }
            _ => self.passed.clone(),
        };
        Self { passed, ..self.clone() }
    }
}

/// The next step of a request.
#[derive(Debug)]
pub enum Step {
    /// A plan to carry out.
    Plan(Plan),
    /// What is left to do conflicts with running plans: ask again when one has ended.
    Wait,
    /// Nothing is left to do.
    Done,
}

/// The next step of compacting what `request` asks for. The topmost level that has some of it goes
/// to the next one that has, until all lies in one level. What came later than the request does not
/// count. A full request merges all runs of a tiered tree at once. Tables of a FIFO tree stay as
/// they are, because a merge would mix their ages.
///
/// Cost: about the logarithm of the number of tables, and a look at those of the step, at those of
/// level 0, and at those that running plans hold.
#[must_use]
pub fn plan_request(
    version: &Version,
    request: &Request,
    options: &TreeOptions,
    busy: &Busy,
) -> Step {
    if matches!(options.compaction, CompactionStrategy::Fifo { .. }) {
        return Step::Done;
    }
    let Some(range) = request.range.clone().or_else(|| version.range()) else { return Step::Done };
    let was_there = |table: &OpenReference| table.sequence_min() <= request.newest;
    let is_touched = |level: &usize| {
        let level = &version.levels()[*level];
        let has_some = |sum: &TableSum| {
            sum.extremes.sequence_min <= request.newest
                && sum.range.as_ref().is_some_and(|all| all.overlaps(&range))
        };
        match level.order() {
            Order::Disjoint => {
                let mut near = level.below(has_some).map(|(_, table)| table);
                near.any(|table| was_there(table) && table.range().overlaps(&range))
            }
            Order::Overlapping => {
                level.overlapping(&range).into_iter().any(|index| was_there(level.table(index)))
            }
        }
    };
    let mut levels = (0..LEVELS).filter(is_touched);
    let Some(top) = levels.next() else { return Step::Done };
    let is_one = levels.next().is_none();
    if is_one && top > 0 {
        return plan_rewrite(version, top, &range, request, options, busy);
    }
    let is_tiered = matches!(options.compaction, CompactionStrategy::Tiered { .. });
    if is_tiered && !is_one && request.range.is_none() {
        let plan = merge_all(version, top, request.newest);
        return if busy.conflicts(&plan) { Step::Wait } else { Step::Plan(plan) };
    }
    if top == 0 {
        let to = below_level0(version, &Targets::new(&version.bytes(), options));
        let is_wanted = |table: &OpenReference| was_there(table) && table.range().overlaps(&range);
        // All at once: a level of many small tables would take an edit for each.
        let plan = move_isolated(version, to, Reason::Request, options, busy, is_wanted);
        if let Some(plan) = plan {
            return Step::Plan(plan);
        }
    }
    let level = &version.levels()[top];
    // A running plan may hold some: others can go meanwhile. One table at a time from a run, so
    // that the steps stay small; a stack takes along what overlaps by itself.
    let begin = |index: usize| {
        let seed = Some(level.table(index)).filter(|seed| was_there(seed))?;
        let to = next_below(version, top, seed.range(), options);
        let levels = Descent { from: top, to };
        bring_down(version, levels, vec![seed.clone()], Reason::Request, limits(options), busy)
    };
    let plan = match level.order() {
        Order::Disjoint => level.overlapping_run(&range).rev().find_map(begin),
        Order::Overlapping => level.overlapping(&range).into_iter().rev().find_map(begin),
    };
    plan.map_or(Step::Wait, Step::Plan)
}

/// The level that tables over `range` go to from `level`: the first that has any of its keys, and
/// the last level if none has.
fn next_below(version: &Version, level: usize, range: &KeySpan, options: &TreeOptions) -> usize {
    if level == 0 {
        return below_level0(version, &Targets::new(&version.bytes(), options));
    }
    let overlaps = |below: &usize| !version.levels()[*below].overlapping_run(range).is_empty();
    (level + 1..LEVELS).find(overlaps).unwrap_or(LEVELS - 1)
}

fn plan_rewrite(
    version: &Version,
    number: usize,
    range: &KeySpan,
    request: &Request,
    options: &TreeOptions,
    busy: &Busy,
) -> Step {
    let level = &version.levels()[number];
    let rest = match &request.passed {
        Some(passed) => range.from_key(passed),
        None => Some(range.clone()),
    };
    let Some(rest) = rest else { return Step::Done };
    let run = level.within(level.overlapping_run(&rest));
    let is_old = |table: &&Arc<OpenReference>| table.id().file < request.rewrite_before;
    // Neighbours together, so that what has shrunk is joined into tables of full size.
    let mut bytes = 0;
    let tables: Vec<_> = run
        .skip_while(|table| !is_old(table))
        .take(REWRITTEN_TABLES_MAX)
        .take_while(is_old)
        .take_while(|table| {
            let fits = bytes == 0 || bytes + table.bytes() <= limits(options).widen_bytes_max;
            bytes += table.bytes();
            fits
        })
        .cloned()
        .collect();
    if tables.is_empty() {
        return Step::Done;
    }
    let inputs = vec![PlanInput { level: number, tables }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::Request, inputs, number);
    if busy.conflicts(&plan) { Step::Wait } else { Step::Plan(plan) }
}

#[cfg(test)]
mod tests;
