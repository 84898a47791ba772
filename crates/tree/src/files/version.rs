//! The tables of a tree at one moment: seven levels, immutable, replaced as a whole.
//!
//! It neither writes edits nor decides what to compact; it applies changes that are already fixed.

use crate::{
    files::level::{Level, Order},
    files::open_files::{OpenFiles, OpenReference, TableId},
    files::table_sum::{TableSum, Totals},
};
use siltdb_base::{
    error::{Error, Result},
    id::{FamilyId, SequenceNumber},
    invariant,
    limits::LEVELS,
    seeded_fault,
    shared_list::SharedList,
};
use siltdb_disk::{
    edit::{Change, TableReference},
    table_meta::KeySpan,
};
use std::{
    array,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, LazyLock},
};

/// The tables of a tree by level: level 0 is a stack, all others are runs.
///
/// # Invariants
/// 1. No table (file and offset) is referenced twice.
/// 2. Of a key that is in several levels, the entries of the lower-numbered level are newer.
/// 3. `by_id` has the tables of all levels, by id.
#[derive(Debug)]
pub struct Version {
    levels: [Arc<Level>; LEVELS],
    /// The runs that have tables, newest first: most levels of most databases have none.
    runs: Vec<Arc<Level>>,
    by_id: SharedList<Located, ()>,
    /// Entries of all tables that came since the tree was opened, those of older versions included.
    entries_added: u64,
}

/// A table and its level.
#[derive(Clone, Debug)]
struct Located {
    id: TableId,
    level: u8,
    table: Arc<OpenReference>,
}

impl Version {
    /// A version without tables.
    #[must_use]
    pub fn empty() -> Self {
        let levels = array::from_fn(|number| Arc::new(Level::empty(order_of(number))));
        Self { levels, runs: Vec::new(), by_id: SharedList::new(Vec::new()), entries_added: 0 }
    }

    /// The version without tables, which all empty trees share.
    #[must_use]
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Version>> = LazyLock::new(|| Arc::new(Version::empty()));
        Arc::clone(&NONE)
    }

    /// This version with the table changes of `family` among `changes` made, in their order; other
    /// changes are passed over. Those of many edits may be made at once.
    ///
    /// Cost: a look at each change, and about the logarithm of the number of tables for each. A
    /// table that is added and removed again is not looked at. What does not change is shared.
    ///
    /// # Errors
    /// Corruption, if a table is removed that is not there, is added twice, or does not fit among
    /// the others; the manifest is untrusted.
    pub fn apply<'c>(
        &self,
        files: &Arc<OpenFiles>,
        family: FamilyId,
        changes: impl IntoIterator<Item = &'c Change>,
    ) -> Result<Self> {
        let Difference { added, removed } = Difference::of(family, changes)?;
        let mut edits: [LevelEdit; LEVELS] = array::from_fn(|_| LevelEdit::default());
        let mut left = HashMap::new();
        for (level, id) in &removed {
            let located = self.located(*id).filter(|located| located.level == *level);
            let located = located.ok_or_else(|| not_there(*id))?;
            let number = usize::from(*level);
            edits[number].removed.push(self.levels[number].index_of(&located.table));
            left.insert(*id, Arc::clone(&located.table));
        }
        let mut came = HashSet::new();
        let mut entries_added = self.entries_added;
        for ((level, id), reference) in added {
            let before = left.get(&id);
            let is_there = self.located(id).is_some() && before.is_none();
            if is_there || !came.insert(id) {
                return Err(twice(usize::from(level), reference));
            }
            let reference = Arc::clone(reference);
            // A merge that has taken keys away from a table leaves its other keys where they were.
            let table = match before {
                Some(before) => before.seen_as(reference)?,
                None => files.reference(reference)?,
            };
            if before.is_none() {
                entries_added = entries_added.saturating_add(table.entries());
            }
            edits[usize::from(level)].added.push(table);
        }
        let by_id = self.located_after(&edits);
        let mut levels = self.levels.clone();
        for ((number, level), mut edit) in levels.iter_mut().enumerate().zip(edits) {
            if !edit.removed.is_empty() || !edit.added.is_empty() {
                edit.removed.sort_unstable();
                *level = Arc::new(self.levels[number].edited(&edit.removed, edit.added)?);
            }
        }
        let occupied = levels[1..].iter().filter(|level| !level.is_empty());
        let runs = occupied.cloned().collect();
        let next = Self { levels, runs, by_id, entries_added };
        let (before, after) = (self.count() + came.len(), next.count() + left.len());
        assert_eq!(before, after, "an edit loses a table, or has one twice");
        assert_eq!(next.by_id.len(), next.count(), "a table cannot be found by its id");
        invariant!(next.check().is_ok(), "an edit leaves {:?}", next.check());
        Ok(next)
    }

    /// The list of tables by id after an edit.
    fn located_after(&self, edits: &[LevelEdit; LEVELS]) -> SharedList<Located, ()> {
        let place = |id: TableId| self.by_id.partition_point(|located| located.id < id);
        let gone = edits.iter().zip(&self.levels);
        let gone = gone.flat_map(|(edit, level)| {
            edit.removed.iter().map(move |&index| place(level.table(index).id()))
        });
        let mut removed: Vec<usize> = gone.collect();
        removed.sort_unstable();
        // A level's number is below `LEVELS`.
        let new = (0..LEVELS as u8).zip(edits);
        let new = new.flat_map(|(level, edit)| {
            let located = move |table: &Arc<OpenReference>| {
                let (id, table) = (table.id(), Arc::clone(table));
                (place(id), Located { id, level, table })
            };
            edit.added.iter().map(located)
        });
        let mut inserted: Vec<_> = new.collect();
        inserted.sort_by_key(|(_, located)| located.id);
        self.by_id.edited(&removed, &inserted)
    }

    fn located(&self, id: TableId) -> Option<&Located> {
        let place = self.by_id.partition_point(|located| located.id < id);
        self.by_id.get(place).filter(|located| located.id == id)
    }

    /// The table with this id, and the number of its level.
    #[must_use]
    pub fn find(&self, id: TableId) -> Option<(usize, &Arc<OpenReference>)> {
        self.located(id).map(|located| (usize::from(located.level), &located.table))
    }

    /// The number of tables.
    #[must_use]
    pub fn count(&self) -> usize {
        self.levels.iter().map(|level| level.count()).sum()
    }

    /// Entries of all tables that came since the tree was opened, those of older versions included.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    fn check_unique(&self) -> Result<()> {
        let mut seen = HashSet::new();
        match self.tables().find(|(_, table)| !seen.insert(table.id())) {
            None => Ok(()),
            Some((level, table)) => Err(twice(level, table.reference())),
        }
    }

    /// Looks whether every table is found by its id, and whether sums are those of the tables.
    fn check_sums(&self) -> Result<()> {
        let is_found = |number: usize, table: &Arc<OpenReference>| {
            self.find(table.id())
                .is_some_and(|(level, found)| level == number && Arc::ptr_eq(found, table))
        };
        let are_found = self.tables().all(|(number, table)| is_found(number, table));
        let are_summed = self.levels.iter().all(|level| level.is_consistent());
        if are_found && are_summed && self.by_id.is_consistent() {
            return Ok(());
        }
        Err(Error::corruption("the sums of the tables are not those of the tables"))
    }

    /// Looks whether the invariants hold that can be seen without opening a table.
    ///
    /// # Errors
    /// Corruption, naming what is wrong.
    pub fn check(&self) -> Result<()> {
        self.check_unique()?;
        self.check_sums()?;
        self.levels.iter().try_for_each(|level| level.check())
    }

    /// The levels, from 0.
    #[inline]
    #[must_use]
    pub fn levels(&self) -> &[Arc<Level>; LEVELS] {
        &self.levels
    }

    /// The tables of level 0.
    #[inline]
    #[must_use]
    pub fn stack(&self) -> &Level {
        &self.levels[0]
    }

    /// The levels from 1 on that have tables, in their order.
    #[inline]
    #[must_use]
    pub fn runs(&self) -> &[Arc<Level>] {
        &self.runs
    }

    /// All tables with their levels' numbers.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<OpenReference>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(number, level)| level.tables().map(move |table| (number, table)))
    }

    /// What a manifest written now says of this version.
    pub fn references(&self) -> impl Iterator<Item = (u8, &Arc<TableReference>)> {
        // A level's number is below `LEVELS`.
        self.tables().map(|(level, table)| (level as u8, table.reference()))
    }

    /// What a manifest says of a clone of this version that sees it as of `moment`, which a live
    /// snapshot must hold. A table without an entry of that moment or before is left out; one that
    /// has newer entries, too, is seen up to that moment.
    pub fn references_at(
        &self,
        moment: SequenceNumber,
    ) -> impl Iterator<Item = (u8, Arc<TableReference>)> {
        let seen = self.tables().filter(move |(_, table)| table.sequence_min() <= moment);
        // A level's number is below `LEVELS`.
        seen.map(move |(level, table)| (level as u8, seen_up_to(table, moment)))
    }

    /// Bytes of each level's tables in their files.
    #[must_use]
    pub fn bytes(&self) -> [u64; LEVELS] {
        array::from_fn(|number| self.levels[number].bytes())
    }

    /// Whether there is no table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(|level| level.is_empty())
    }

    /// The smallest range that holds every table; `None` without tables.
    #[must_use]
    pub fn range(&self) -> Option<KeySpan> {
        let ranges = self.levels.iter().filter_map(|level| level.sum().range.clone());
        ranges.reduce(|a, b| a.union(&b))
    }

    /// What can be counted of all tables.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.levels.iter().fold(Totals::default(), |all, level| all.with(level.sum().totals))
    }

    /// What an entry weighs at most, as far as tables tell, in bytes.
    #[must_use]
    pub fn entry_weight_max(&self) -> u64 {
        let levels = self.levels.iter().map(|level| level.sum().extremes.entry_weight_max);
        levels.max().unwrap_or(0)
    }

    /// The tables below nodes of which `may_hold` is true for every sum, with their levels'
    /// numbers, in the order of [`Version::tables`].
    pub fn below(
        &self,
        may_hold: impl Fn(&TableSum) -> bool + Copy,
    ) -> impl Iterator<Item = (usize, &Arc<OpenReference>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(move |(number, level)| {
            level.below(may_hold).map(move |(_, table)| (number, table))
        })
    }

    /// The tables with range tombstones, with their levels' numbers.
    pub fn with_range_tombstones(&self) -> impl Iterator<Item = (usize, &Arc<OpenReference>)> {
        let tables = self.below(|sum| sum.totals.with_range_tombstones > 0);
        tables.filter(|(_, table)| table.has_range_tombstones())
    }
}

/// The reference of a clone that sees nothing newer than `moment`. Most tables have nothing newer,
/// and are then seen whole, which costs readers nothing.
fn seen_up_to(table: &OpenReference, moment: SequenceNumber) -> Arc<TableReference> {
    let mut reference = Arc::clone(table.reference());
    if table.sequence_max() > moment && !seeded_fault!("clone_sees_later_writes_of_source") {
        Arc::make_mut(&mut reference).visible_to = Some(moment);
    }
    let is_hidden = reference.visible_to.is_some_and(|visible_to| visible_to <= moment);
    assert!(is_hidden || table.sequence_max() <= moment, "a clone sees what is newer: {table:?}");
    reference
}

/// What an edit changes in a level.
#[derive(Default)]
struct LevelEdit {
    /// The indexes of the tables that leave.
    removed: Vec<usize>,
    added: Vec<Arc<OpenReference>>,
}

/// What changes come to, when those that undo each other are left out.
#[derive(Default)]
struct Difference<'c> {
    /// By level and place.
    added: BTreeMap<(u8, TableId), &'c Arc<TableReference>>,
    /// Tables that were there before.
    removed: BTreeSet<(u8, TableId)>,
}

impl<'c> Difference<'c> {
    fn of(family: FamilyId, changes: impl IntoIterator<Item = &'c Change>) -> Result<Self> {
        let mut difference = Self::default();
        for change in changes {
            match change {
                Change::AddTable { family: of, level, table } if *of == family => {
                    let id = TableId { file: table.file, offset: table.offset };
                    if difference.added.insert((checked(*level)?, id), table).is_some() {
                        return Err(twice(usize::from(*level), table));
                    }
                }
                Change::RemoveTable { family: of, level, file, offset } if *of == family => {
                    let id = TableId { file: *file, offset: *offset };
                    let key = (checked(*level)?, id);
                    let is_new = difference.added.remove(&key).is_some();
                    if !is_new && !difference.removed.insert(key) {
                        return Err(not_there(id));
                    }
                }
                _ => {}
            }
        }
        Ok(difference)
    }
}

fn checked(level: u8) -> Result<u8> {
    if usize::from(level) < LEVELS {
        return Ok(level);
    }
    Err(Error::corruption("no such level").with_mismatch("0..=6", level))
}

fn order_of(number: usize) -> Order {
    if number == 0 { Order::Overlapping } else { Order::Disjoint }
}

#[cold]
fn twice(level: usize, table: &TableReference) -> Error {
    let (file, offset) = (table.file, table.offset);
    Error::corruption(format!(
        "a table is added twice. level={level}, file={file}, offset={offset}"
    ))
}

#[cold]
fn not_there(id: TableId) -> Error {
    Error::corruption("a table that is not there is removed")
        .with_mismatch("a table of the level", format!("{id:?}"))
}

#[cfg(test)]
mod tests;
