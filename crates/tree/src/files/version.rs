//! The tables of a tree at one moment: seven levels, immutable, replaced as a whole.
//!
//! It neither writes edits nor decides what to compact; it applies changes that are already fixed.

use crate::{
    files::level::{Level, Order},
    files::open_files::{OpenFiles, OpenReference, TableId},
};
use siltdb_base::{
    error::{Error, Result},
    id::{FamilyId, SequenceNumber},
    invariant,
    limits::LEVELS,
    seeded_fault,
};
use siltdb_disk::{
    edit::{Change, TableReference},
    table_meta::KeySpan,
};
use std::{
    array,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, LazyLock},
};

/// The tables of a tree by level: level 0 is a stack, all others are runs.
///
/// # Invariants
/// 1. No table (file and offset) is referenced twice.
/// 2. Of a key that is in several levels, the entries of the lower-numbered level are newer.
#[derive(Debug)]
pub struct Version {
    levels: [Arc<Level>; LEVELS],
    /// The runs that have tables, newest first: most levels of most databases have none.
    runs: Vec<Arc<Level>>,
}

impl Version {
    /// A version without tables.
    #[must_use]
    pub fn empty() -> Self {
        Self::of(array::from_fn(|number| Arc::new(Level::empty(order_of(number)))))
    }

    /// The version without tables, which all empty trees share.
    #[must_use]
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Version>> = LazyLock::new(|| Arc::new(Version::empty()));
        Arc::clone(&NONE)
    }

    fn of(levels: [Arc<Level>; LEVELS]) -> Self {
        let occupied = |level: &&Arc<Level>| level.order() == Order::Disjoint && !level.is_empty();
        let runs = levels.iter().filter(occupied).cloned().collect();
        Self { levels, runs }
    }

    /// This version with the table changes of `family` among `changes` made, in their order; other
    /// changes are passed over. Those of many edits may be made at once.
    ///
    /// Cost: a look at each change and at each table, and sorting the tables of the levels that
    /// change. A table that is added and removed again is not looked at.
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
        let Difference { added, mut removed } = Difference::of(family, changes)?;
        let (came, left) = (added.len(), removed.len());
        let mut ids = HashSet::new();
        if let Some(((level, _), table)) = added.iter().find(|((_, id), _)| !ids.insert(*id)) {
            return Err(twice(usize::from(*level), table));
        }
        let is_changed = |number: u8| {
            added.keys().any(|(level, _)| *level == number)
                || removed.iter().any(|(level, _)| *level == number)
        };
        let changed: [bool; LEVELS] = array::from_fn(|number| is_changed(number as u8));
        let mut all = self.levels.clone();
        for (number, level) in self.levels.iter().enumerate() {
            let mut tables = Vec::new();
            for table in level.tables() {
                // A level's number is below `LEVELS`.
                if removed.remove(&(number as u8, table.id())) {
                    continue;
                }
                if ids.contains(&table.id()) {
                    return Err(twice(number, table.reference()));
                }
                if changed[number] {
                    tables.push(Arc::clone(table));
                }
            }
            if changed[number] {
                let new = added.range((number as u8, TableId::MIN)..=(number as u8, TableId::MAX));
                for (_, table) in new {
                    tables.push(files.reference(Arc::clone(table))?);
                }
                all[number] = Arc::new(Level::new(order_of(number), tables)?);
            }
        }
        match removed.first() {
            None => {
                let next = Self::of(all);
                let (before, after) = (self.tables().count(), next.tables().count());
                assert_eq!(before + came, after + left, "an edit loses a table, or has one twice");
                invariant!(next.check().is_ok(), "an edit leaves {:?}", next.check());
                Ok(next)
            }
            Some((_, id)) => Err(not_there(*id)),
        }
    }

    fn check_unique(&self) -> Result<()> {
        let mut seen = HashSet::new();
        match self.tables().find(|(_, table)| !seen.insert(table.id())) {
            None => Ok(()),
            Some((level, table)) => Err(twice(level, table.reference())),
        }
    }

    /// Looks whether the invariants hold that can be seen without opening a table.
    ///
    /// # Errors
    /// Corruption, naming what is wrong.
    pub fn check(&self) -> Result<()> {
        self.check_unique()?;
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
        levels.flat_map(|(number, level)| level.tables().iter().map(move |table| (number, table)))
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
        self.tables().map(|(_, table)| table.range().clone()).reduce(|a, b| a.union(&b))
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
