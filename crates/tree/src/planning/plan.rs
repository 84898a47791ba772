//! What a compaction takes and where it puts it, and which compactions go together.
//!
//! It chooses nothing: the pickers do; and it reads no table.

use crate::{
    files::open_files::{OpenReference, TableId},
    files::stack,
    files::version::Version,
    planning::borders::Borders,
};
use siltdb_base::{
    cancel::CancelToken,
    id::{FamilyId, FileNumber, SequenceNumber},
    limits::LEVELS,
};
use siltdb_disk::{edit::Change, table_meta::KeySpan};
use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

/// What a plan does with its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanKind {
    /// The tables change their level and stay as they are: an edit is all it takes.
    TrivialMove,
    /// The tables are merged into new ones.
    Rewrite,
    /// The tables go, and nothing takes their place: an edit is all it takes.
    DeleteOnly,
}

/// Blob files whose values a plan moves.
pub type MovedBlobs = BTreeSet<FileNumber>;

/// Why a plan was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Level 0 has too many runs or too many bytes.
    Level0,
    /// Level 0 cannot go down now, and has grown so that reads suffer: it is merged in itself.
    WithinLevel0,
    /// A level has outgrown its target.
    Size,
    /// A level lies above the one that level 0 now goes to.
    Drain,
    /// A table holds mostly tombstones.
    Tombstones,
    /// Level 0 is not due, but much of it or below it is deleted or replaced.
    Stale,
    /// Many small tables lie beside each other.
    Small,
    /// Nothing, or much less than all, of a table can be seen any more.
    Garbage,
    /// A FIFO family is too large, or a table of it too old.
    Fifo,
    /// The user asked for it.
    Request,
    /// The table refers to blob files that are mostly garbage.
    Blobs,
    /// The table was copied to the other tier, and the copy takes its place.
    Tier,
}

/// Tables of one level that a plan takes.
#[derive(Clone, Debug)]
pub struct PlanInput {
    /// The level's number.
    pub level: usize,
    /// The tables, in the order of the level.
    pub tables: Vec<Arc<OpenReference>>,
}

impl PlanInput {
    /// Those of its tables that may have a key within `borders`.
    #[must_use]
    pub fn within(&self, borders: &Borders) -> Self {
        let tables = self.tables.iter().filter(|table| borders.overlap(table.range()));
        Self { level: self.level, tables: tables.cloned().collect() }
    }
}

/// What names a running plan, also once its inputs are given away: its first table, which no other
/// running plan takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanName(TableId);

/// A plan without its inputs, whose files it keeps from being removed.
#[derive(Clone, Debug)]
pub struct Outline {
    /// Where the result goes.
    pub output_level: usize,
    /// Holds every key of the inputs.
    pub range: KeySpan,
    /// The blob files whose values are moved to another one; mostly none.
    pub moved: Arc<MovedBlobs>,
    /// Cancels the plan while it runs.
    pub given_up: CancelToken,
    /// Bytes of all inputs.
    pub bytes: u64,
    /// No entry of an input is newer.
    pub sequence_max: SequenceNumber,
    /// How many runs of level 0 there are less once the plan is carried out.
    pub level0_runs_freed: usize,
}

/// What a compaction takes and where it puts it.
///
/// # Invariants
/// 1. There is an input, and no input is empty; their levels ascend and do not exceed the output's.
/// 2. No table that is left behind has an entry of a key of the plan between the first input's
///    level and the output level. If the output is below level 0, level 0 has no older entry of
///    such a key either.
/// 3. In the output level `range` overlaps inputs only (of a move: nothing overlaps a moved table).
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the plan does with its inputs.
    pub kind: PlanKind,
    /// Why the plan was chosen.
    pub reason: Reason,
    /// The tables that the plan takes, by level.
    pub inputs: Vec<PlanInput>,
    /// Where the result goes.
    pub output_level: usize,
    /// Holds every key of the inputs.
    pub range: KeySpan,
    /// The blob files whose values are moved to another one; mostly none.
    pub moved: Arc<MovedBlobs>,
    /// Cancels the plan while it runs; clones share it.
    pub given_up: CancelToken,
}

impl Plan {
    /// A plan over `inputs`; those without tables are left out.
    ///
    /// # Panics
    /// If no table is left, or an input lies below the output.
    #[must_use]
    pub fn new(
        kind: PlanKind,
        reason: Reason,
        mut inputs: Vec<PlanInput>,
        output_level: usize,
    ) -> Self {
        inputs.retain(|input| !input.tables.is_empty());
        assert!(output_level < LEVELS && inputs.iter().all(|input| input.level <= output_level));
        let ranges = inputs.iter().flat_map(|input| &input.tables).map(|table| table.range());
        let range = ranges.cloned().reduce(|a, b| a.union(&b)).expect("a plan has tables");
        let mut ids = HashSet::new();
        let mut tables = inputs.iter().flat_map(|input| &input.tables);
        assert!(tables.all(|table| ids.insert(table.id())), "a plan takes a table twice");
        let (moved, given_up) = (Arc::default(), CancelToken::new());
        Self { kind, reason, inputs, output_level, range, moved, given_up }
    }

    /// All tables the plan takes.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<OpenReference>> {
        self.inputs.iter().flat_map(|input| &input.tables)
    }

    /// Bytes of all tables it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.bytes()).sum()
    }

    /// How many runs of level 0 there are less once the plan is carried out.
    fn level0_runs_freed(&self) -> usize {
        let taken = self.inputs.iter().filter(|input| input.level == 0);
        let ranges = taken.flat_map(|input| input.tables.iter().map(|table| table.range()));
        stack::runs(ranges).saturating_sub(usize::from(self.output_level == 0))
    }

    /// What names it while it runs.
    ///
    /// # Panics
    /// If it has no table.
    #[must_use]
    pub fn name(&self) -> PlanName {
        PlanName(self.tables().next().expect("a plan has tables").id())
    }

    /// The plan without its inputs.
    #[must_use]
    pub fn outline(&self) -> Outline {
        Outline {
            output_level: self.output_level,
            range: self.range.clone(),
            moved: Arc::clone(&self.moved),
            given_up: self.given_up.clone(),
            bytes: self.bytes(),
            sequence_max: self.tables().map(|table| table.sequence_max()).max().unwrap_or_default(),
            level0_runs_freed: self.level0_runs_freed(),
        }
    }

    /// The removal of every table the plan takes.
    pub fn removals(&self, family: FamilyId) -> impl Iterator<Item = Change> {
        self.inputs.iter().flat_map(move |input| {
            input.tables.iter().map(move |table| Change::RemoveTable {
                family,
                // A level's number is below `LEVELS`.
                level: input.level as u8,
                file: table.id().file,
                offset: table.id().offset,
            })
        })
    }

    /// What carrying out a move or a removal amounts to.
    ///
    /// # Panics
    /// If the plan is a merge.
    #[must_use]
    pub fn edit_changes(&self, family: FamilyId) -> Vec<Change> {
        assert_ne!(self.kind, PlanKind::Rewrite, "a merge needs a compaction");
        let moved = self.tables().filter(|_| self.kind == PlanKind::TrivialMove);
        let additions = moved.map(|table| Change::AddTable {
            family,
            level: self.output_level as u8,
            table: table.reference().clone(),
        });
        self.removals(family).chain(additions).collect()
    }
}

/// The plans of one tree that are being carried out.
#[derive(Debug, Default)]
pub struct Busy {
    /// How many plans and pauses have begun so far.
    begun: u64,
    claims: Vec<Claim>,
    tables: HashSet<TableId>,
    /// How many full requests have paused automatic plans.
    pauses: usize,
    /// How many requests need tables to keep their file numbers.
    numbered: usize,
}

#[derive(Debug)]
struct Claim {
    /// How many plans and pauses began before.
    number: u64,
    tables: Vec<(usize, TableId)>,
    output_level: usize,
    range: KeySpan,
    given_up: CancelToken,
    reason: Reason,
}

impl Claim {
    /// The tables of `level` that the plan takes.
    fn tables_in<'v>(
        &self,
        version: &'v Version,
        level: usize,
    ) -> impl Iterator<Item = &'v Arc<OpenReference>> {
        let tables = self.tables.iter().filter(move |(of, _)| *of == level);
        tables.filter_map(move |(_, id)| match version.find(*id) {
            Some((found, table)) if found == level => Some(table),
            _ => None,
        })
    }
}

/// Tables of a level that running plans take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenTables {
    /// All of them.
    pub all: usize,
    /// Those that leave the level.
    pub leaving: usize,
}

/// The place of a table that is being ingested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The level that takes it.
    pub level: usize,
    /// How many plans and pauses began before.
    number: u64,
}

impl Busy {
    /// Whether `plan` takes a table of a running plan, or writes to the same keys of the same
    /// level.
    #[must_use]
    pub fn conflicts(&self, plan: &Plan) -> bool {
        plan.tables().any(|table| self.holds(table.id()))
            || self.claims.iter().any(|claim| {
                plan.kind != PlanKind::DeleteOnly
                    && claim.output_level == plan.output_level
                    // New tables of level 0 may overlap each other.
                    && plan.output_level > 0
                    && claim.range.overlaps(&plan.range)
            })
    }

    /// Whether a running plan takes the table.
    #[must_use]
    pub fn holds(&self, table: TableId) -> bool {
        self.tables.contains(&table)
    }

    /// Bytes of the tables of `level` that running plans take away from it.
    #[must_use]
    pub fn leaving_bytes(&self, version: &Version, level: usize) -> u64 {
        let claims = self.claims.iter().filter(|claim| claim.output_level > level);
        claims
            .map(|claim| claim.tables_in(version, level).map(|table| table.bytes()).sum::<u64>())
            .sum()
    }

    /// The number of tables of `level` that running plans take, and of those that they take away
    /// from it.
    #[must_use]
    pub fn taken(&self, version: &Version, level: usize) -> TakenTables {
        let mut taken = TakenTables::default();
        for claim in &self.claims {
            let tables = claim.tables_in(version, level).count();
            taken.all += tables;
            taken.leaving += if claim.output_level > level { tables } else { 0 };
        }
        taken
    }

    /// Notes that `plan` begins.
    ///
    /// # Panics
    /// If it conflicts with a running plan.
    pub fn begin(&mut self, plan: &Plan) {
        assert!(!self.conflicts(plan), "a plan conflicts with a running one");
        let levels = plan.inputs.iter();
        let tables: Vec<_> = levels
            .flat_map(|input| input.tables.iter().map(|table| (input.level, table.id())))
            .collect();
        self.tables.extend(tables.iter().map(|(_, table)| *table));
        self.claims.push(Claim {
            number: self.begun,
            tables,
            output_level: plan.output_level,
            range: plan.range.clone(),
            given_up: plan.given_up.clone(),
            reason: plan.reason,
        });
        self.begun += 1;
        let claimed = self.claims.iter().map(|claim| claim.tables.len()).sum::<usize>();
        assert_eq!(claimed, self.tables.len(), "two running plans take one table");
    }

    /// The lowest level that can take a new table of `range`, which is newer than all others. No
    /// table of `version` there or above overlaps it, and no running plan writes such a table
    /// there. Level 0 if there is none. Plans keep out of `range` in that level until
    /// [`Busy::release`].
    pub fn place(&mut self, version: &Version, range: &KeySpan) -> Placed {
        let is_free = |level: &usize| version.levels()[*level].overlapped(range).next().is_none();
        let is_claimed = |level: usize| {
            let mut claims = self.claims.iter();
            claims.any(|claim| claim.output_level == level && claim.range.overlaps(range))
        };
        let free = (0..LEVELS).take_while(is_free);
        let level = free.filter(|&level| level > 0 && !is_claimed(level)).last().unwrap_or(0);
        assert!(level == 0 || is_free(&level), "no table overlaps what comes into level {level}");
        let placed = Placed { level, number: self.begun };
        assert!(
            self.claims.last().is_none_or(|claim| claim.number < placed.number),
            "the number of a claim is given once"
        );
        self.claims.push(Claim {
            number: self.begun,
            tables: Vec::new(),
            output_level: level,
            range: range.clone(),
            given_up: CancelToken::new(),
            reason: Reason::Request,
        });
        self.begun += 1;
        placed
    }

    /// Ends a [`Busy::place`].
    pub fn release(&mut self, placed: Placed) {
        let before = self.claims.len();
        self.claims.retain(|claim| claim.number != placed.number);
        assert_eq!(self.claims.len() + 1, before, "a place is given back once");
    }

    /// How many plans and pauses have begun so far.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether a plan runs that began when [`Busy::begun`] was less than `count`.
    #[must_use]
    pub fn runs_any_of(&self, count: u64) -> bool {
        self.claims.iter().any(|claim| claim.number < count)
    }

    /// Whether a running plan writes to `level`: what lies there is not all of its run.
    #[must_use]
    pub fn writes_to(&self, level: usize) -> bool {
        self.claims.iter().any(|claim| claim.output_level == level)
    }

    /// Notes that a plan was installed or cancelled.
    ///
    /// # Panics
    /// If it is not running.
    pub fn end(&mut self, PlanName(first): PlanName) {
        let claim = self
            .claims
            .iter()
            .position(|claim| claim.tables.first().is_some_and(|(_, table)| *table == first));
        let claim = self.claims.swap_remove(claim.expect("only a running plan ends"));
        for (_, table) in &claim.tables {
            assert!(self.tables.remove(table), "no other plan has taken {table:?}");
        }
    }

    /// Cancels running automatic plans that a full request would repeat. Such a plan takes most of
    /// its bytes from tables that overlap others left to be merged. These are `memory`, and tables
    /// in `version` that no plan takes and that lie no deeper than its output.
    pub fn cancel_redundant(&self, version: &Version, memory: &[KeySpan]) {
        for claim in self.claims.iter().filter(|claim| claim.reason != Reason::Request) {
            let levels = &version.levels()[..=claim.output_level];
            let left: Vec<&KeySpan> = levels
                .iter()
                .flat_map(|level| level.tables())
                .filter(|table| !self.holds(table.id()))
                .map(|table| table.range())
                .chain(memory)
                .collect();
            let (mut bytes, mut outdone) = (0, 0);
            for (number, level) in levels.iter().enumerate() {
                let is_taken =
                    |table: &&Arc<OpenReference>| claim.tables.contains(&(number, table.id()));
                for table in level.tables().filter(is_taken) {
                    bytes += table.bytes();
                    if left.iter().any(|range| range.overlaps(table.range())) {
                        outdone += table.bytes();
                    }
                }
            }
            if outdone > bytes / 2 {
                claim.given_up.cancel();
            }
        }
    }

    /// Cancels all running plans, also those of requests. Returns how many plans and pauses have
    /// begun so far.
    pub fn cancel_all(&self) -> u64 {
        self.claims.iter().for_each(|claim| claim.given_up.cancel());
        self.begun
    }

    /// Lets no plan begin but those of the caller, until [`Busy::resume`].
    pub fn pause(&mut self) {
        self.pauses += 1;
        self.begun += 1;
    }

    /// Ends one [`Busy::pause`].
    pub fn resume(&mut self) {
        assert!(self.pauses > 0, "plans are resumed that were not paused");
        self.pauses -= 1;
    }

    /// Whether automatic plans are paused by a full request.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.pauses > 0
    }

    /// Lets no table get another file number by a move to another tier, until
    /// [`Busy::release_numbers`]. A request tells by the number what it has rewritten.
    pub fn keep_numbers(&mut self) {
        self.numbered += 1;
    }

    /// Ends one [`Busy::keep_numbers`].
    pub fn release_numbers(&mut self) {
        assert!(self.numbered > 0, "file numbers are released that were not kept");
        self.numbered -= 1;
    }

    /// Whether tables keep their file numbers.
    #[must_use]
    pub fn keeps_numbers(&self) -> bool {
        self.numbered > 0
    }

    /// Whether no plan is running.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}
