//! The families of a database by id and by name.
//!
//! This module finds families. Creating, renaming and dropping them are edits (see `install`).

use crate::catalog::{
    branches::{Branches, FamilyRole},
    chunked::ChunkedMap,
    family::{FamilyChanges, FamilyData, already_exists, not_found},
    lazy_family::LazyFamily,
    shared_options::SharedOptions,
    usage::Usage,
};
use arc_swap::ArcSwap;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, FileNumber, SequenceNumber},
    invariant, seeded_fault,
};
use siltdb_disk::branch_record::BranchChange;
use siltdb_tree::{
    files::version::Version, memory::Holders, planning::pick_leveled::is_worth_syncs,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

/// The families by id and by name, replaced as a whole.
#[derive(Debug, Default)]
pub struct Families {
    map: ArcSwap<FamilyMap>,
    holders: Arc<Holders>,
    options: SharedOptions,
    usage: Usage,
}

/// An immutable map of all families.
#[derive(Clone, Debug, Default)]
pub struct FamilyMap {
    by_id: ChunkedMap<FamilyId, Arc<LazyFamily>>,
    /// The database's own.
    by_name: ChunkedMap<Arc<str>, Arc<LazyFamily>>,
    /// Those of branches, whose names repeat.
    of_branches: ChunkedMap<FamilyId, Arc<LazyFamily>>,
    branches: Branches,
}

impl FamilyMap {
    /// The family with this id, which is made if it was not.
    #[must_use]
    pub fn get(&self, id: FamilyId) -> Option<&Arc<FamilyData>> {
        self.by_id.get(&id).map(|family| family.get())
    }

    /// The family with this id.
    #[must_use]
    pub fn lazy(&self, id: FamilyId) -> Option<&Arc<LazyFamily>> {
        self.by_id.get(&id)
    }

    /// The name of the family with this id.
    #[must_use]
    pub fn name(&self, id: FamilyId) -> Option<Arc<str>> {
        self.by_id.get(&id).map(|family| family.name())
    }

    /// Whether there is a family with this id.
    #[must_use]
    pub fn contains(&self, id: FamilyId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// All families: the database's own in the order of their names, then those of branches. A walk
    /// that makes them all costs a database with many branches time and memory.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<LazyFamily>> {
        self.by_name.values().chain(self.of_branches.values())
    }

    /// The families that are made, in the same order. In the others nothing runs and nothing is in
    /// memory.
    pub fn made(&self) -> impl Iterator<Item = &Arc<FamilyData>> {
        self.iter().filter_map(|family| family.if_made())
    }

    /// The database's own families in the order of their names.
    pub fn own(&self) -> impl Iterator<Item = &Arc<LazyFamily>> {
        self.by_name.values()
    }

    /// The tables of all families. Tables that a family shares as a whole with the one before it
    /// come once.
    pub fn versions(&self) -> impl Iterator<Item = Arc<Version>> {
        let mut last: Option<Arc<Version>> = None;
        self.iter().filter_map(move |family| {
            let version = family.version();
            let is_new = last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &version));
            is_new.then(|| last.insert(version).clone())
        })
    }

    /// No entry in a table is newer. Tables of an ingest may have a number that the log lacks.
    #[must_use]
    pub fn sequence_max(&self) -> SequenceNumber {
        let newest = |version: Arc<Version>| {
            let levels = version.levels().iter();
            levels.map(|level| level.sum().extremes.sequence_max).max()
        };
        self.versions().filter_map(newest).max().unwrap_or(SequenceNumber::ZERO)
    }

    /// What the tables refer to in each blob file, in bytes, as [`Usage::blob_bytes`] counts it.
    ///
    /// Cost: a look at each table with separated values.
    #[must_use]
    pub fn blob_bytes(&self) -> BTreeMap<FileNumber, u64> {
        let (mut bytes, mut seen) = (BTreeMap::new(), HashSet::new());
        for version in self.versions() {
            for (_, table) in version.below(|sum| sum.totals.with_blobs > 0) {
                if !table.meta().blobs.is_empty() && seen.insert(table.id()) {
                    for reference in table.meta().blobs.files() {
                        *bytes.entry(reference.file).or_insert(0) += reference.bytes;
                    }
                }
            }
        }
        bytes
    }

    /// The branches.
    #[must_use]
    pub fn branches(&self) -> &Branches {
        &self.branches
    }

    /// The same branches without families, to be filled with a copy of the families.
    #[must_use]
    pub fn branches_alone(&self) -> FamilyMapBuilder {
        FamilyMapBuilder::of(Self { branches: self.branches.clone(), ..Self::default() })
    }

    /// A copy with these branches, to be filled with their families.
    #[must_use]
    pub fn with_branches(&self, branches: Branches) -> FamilyMapBuilder {
        FamilyMapBuilder { map: Self { branches, ..self.clone() }, touched: Touched::All }
    }

    /// A copy to be changed. It shares with this map what does not change.
    #[must_use]
    pub fn to_builder(&self) -> FamilyMapBuilder {
        FamilyMapBuilder::of(self.clone())
    }

    /// The name of a family for reports: `name`, which is its own, and with that of its branch
    /// before it if it is of one.
    #[must_use]
    pub fn label(&self, id: FamilyId, name: &Arc<str>) -> Arc<str> {
        match self.branches.of_family(id) {
            Some((record, part)) if part.head == id => format!("{}/{name}", record.name).into(),
            Some((record, _)) => format!("{}/{name} (base)", record.name).into(),
            None => Arc::clone(name),
        }
    }

    /// Checks that each family of a branch is there and is of no other, and that no family is of a
    /// branch that is not there.
    ///
    /// Cost: a look at each family of a branch.
    ///
    /// # Errors
    /// `Corruption`.
    pub fn check_branches(&self) -> Result<()> {
        let mut members = self.branches.members().chain(self.of_branches.values().map(|it| it.id));
        members.try_for_each(|family| self.check_member(family))
    }

    /// Checks that a family is of a branch both by the branches and by its role, or by neither.
    fn check_member(&self, id: FamilyId) -> Result<()> {
        let by_role = self.of_branches.get(&id).map(|family| family.role);
        let by_record = self.branches.membership(id).map(|membership| membership.role);
        if by_role == by_record {
            return Ok(());
        }
        let message = match by_role {
            None => "a family of a branch is not there",
            Some(_) => "a family of a branch is not what the branches say",
        };
        Err(Error::corruption(message).with_mismatch(format_args!("{by_record:?}"), id))
    }

    /// The number of families.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is no family, as before recovery.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

/// A copy of a map with changes, which is not in force.
#[derive(Debug)]
pub struct FamilyMapBuilder {
    map: FamilyMap,
    touched: Touched,
}

/// Families that were added or removed, or that a changed branch has or had.
#[derive(Debug, PartialEq, Eq)]
enum Touched {
    These(BTreeSet<FamilyId>),
    All,
}

impl Touched {
    fn extend(&mut self, families: impl IntoIterator<Item = FamilyId>) {
        match self {
            Self::These(touched) => touched.extend(families),
            Self::All => {}
        }
    }
}

impl FamilyMapBuilder {
    fn of(map: FamilyMap) -> Self {
        Self { map, touched: Touched::These(BTreeSet::new()) }
    }

    /// The map as changed so far.
    #[must_use]
    pub fn map(&self) -> &FamilyMap {
        &self.map
    }

    /// The changed map, once it is checked that families and branches match: what the changes
    /// touched, because the rest matched before. [`FamilyMap::check_branches`] checks all.
    ///
    /// # Seeded faults
    /// `branches_not_checked`: a merge that names a base that is gone becomes durable.
    ///
    /// # Errors
    /// `Corruption`, if they do not match.
    pub fn finish(self) -> Result<FamilyMap> {
        if !seeded_fault!("branches_not_checked") {
            match &self.touched {
                Touched::These(touched) => {
                    touched.iter().try_for_each(|family| self.map.check_member(*family))?;
                }
                Touched::All => self.map.check_branches()?,
            }
            let whole = || self.map.check_branches();
            invariant!(whole().is_ok(), "the touched families match: {:?}", whole());
        }
        Ok(self.map)
    }

    /// Adds a family that is made.
    ///
    /// # Errors
    /// As [`FamilyMapBuilder::add_lazy`].
    pub fn add(&mut self, family: Arc<FamilyData>) -> Result<()> {
        self.add_lazy(LazyFamily::made(family))
    }

    /// Adds a family.
    ///
    /// # Errors
    /// `AlreadyExists`, if a family has the id or the name.
    pub fn add_lazy(&mut self, family: LazyFamily) -> Result<()> {
        let (name, is_own) = (family.name(), family.role == FamilyRole::Own);
        let map = &mut self.map;
        let is_taken = is_own && map.by_name.contains_key(&name);
        if is_taken || map.by_id.contains_key(&family.id) {
            return Err(already_exists(&name));
        }
        self.touched.extend([family.id]);
        let family = Arc::new(family);
        map.by_id.insert(family.id, Arc::clone(&family));
        match is_own {
            true => map.by_name.insert(name, family),
            false => map.of_branches.insert(family.id, family),
        };
        Ok(())
    }

    /// Removes a family.
    ///
    /// # Errors
    /// `NotFound`, if no family has the id.
    pub fn remove(&mut self, id: FamilyId) -> Result<Arc<FamilyData>> {
        let family = self.map.by_id.remove(&id).ok_or_else(|| not_found(&id.to_string()))?;
        self.touched.extend([id]);
        if self.map.of_branches.remove(&id).is_none() {
            let name = self.name_of(&family);
            self.map.by_name.remove(&name);
        }
        Ok(Arc::clone(family.get()))
    }

    /// Renames a family in this map. [`FamilyData::name`] changes when the map is put in force.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists` if another family has the name.
    pub fn rename(&mut self, id: FamilyId, name: &str) -> Result<Arc<FamilyData>> {
        let is_own = |family: &&Arc<LazyFamily>| family.role == FamilyRole::Own;
        let family = self.map.by_id.get(&id).filter(is_own).cloned();
        let family = family.ok_or_else(|| not_found(&id.to_string()))?;
        if self.map.by_name.contains_key(name) {
            return Err(already_exists(name));
        }
        let before = self.name_of(&family);
        self.map.by_name.remove(&before);
        self.map.by_name.insert(name.into(), Arc::clone(&family));
        Ok(Arc::clone(family.get()))
    }

    /// Changes the branches.
    ///
    /// # Errors
    /// As [`Branches::apply`].
    pub fn change_branches(&mut self, change: &BranchChange) -> Result<()> {
        self.touched.extend(self.map.branches.apply(change)?);
        Ok(())
    }

    /// Drops families, then creates families, then changes branches. Returns the dropped families.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists`, by id or by name; as [`Branches::apply`]. After an error the
    /// builder must not be used.
    pub fn change(&mut self, changes: &FamilyChanges) -> Result<Vec<Arc<FamilyData>>> {
        let dropped = changes.dropped.iter().map(|id| self.remove(*id)).collect::<Result<_>>()?;
        changes.created.iter().try_for_each(|family| self.add(Arc::clone(family)))?;
        for record in &changes.branches {
            self.change_branches(&BranchChange::Recorded(Arc::clone(record)))?;
        }
        Ok(dropped)
    }

    /// The name of a family in this map.
    fn name_of(&self, family: &LazyFamily) -> Arc<str> {
        let name = family.name();
        let is_it = |found: &Arc<LazyFamily>| found.id == family.id;
        if self.map.by_name.get(&name).is_some_and(is_it) {
            return name;
        }
        // This map renames the family and is not in force.
        let found = self.map.by_name.iter().find(|(_, found)| is_it(found));
        found.map_or(name, |(name, _)| name.clone())
    }
}

impl Families {
    /// The map in force.
    #[must_use]
    pub fn load(&self) -> Arc<FamilyMap> {
        self.map.load_full()
    }

    /// Which families have a memtable.
    #[must_use]
    pub fn holders(&self) -> &Arc<Holders> {
        &self.holders
    }

    /// The options that families have in common.
    #[must_use]
    pub fn options(&self) -> &SharedOptions {
        &self.options
    }

    /// What the tables of all families come to.
    #[must_use]
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Checks in debug builds that the counts of references to blob files are those of the tables.
    /// To be called by the thread that changes the tables.
    pub fn assert_counted(&self) {
        let counted = self.usage.blob_bytes();
        invariant!(
            counted.is_empty() || counted == self.load().blob_bytes(),
            "{counted:?} counted, {:?} in the tables",
            self.load().blob_bytes()
        );
    }

    /// Whether so many bytes are worth the syncs of new files to the family whose tables are
    /// smallest: what is worth them there is worth them in files that all families share.
    ///
    /// Cost: a look at each family, unless the bytes are few for all that there were.
    #[must_use]
    pub fn is_worth_syncs(&self, bytes: u64) -> bool {
        let of = |family: &Arc<LazyFamily>| family.options().base_level_bytes;
        self.usage.may_be_worth_syncs(bytes)
            && self.load().iter().map(of).min().is_some_and(|least| is_worth_syncs(bytes, least))
    }

    /// The family with this id.
    #[must_use]
    pub fn get(&self, id: FamilyId) -> Option<Arc<FamilyData>> {
        self.map.load().get(id).cloned()
    }

    /// The family called `name`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn named(&self, name: &str) -> Result<Arc<FamilyData>> {
        let map = self.map.load();
        let family = map.by_name.get(name).ok_or_else(|| not_found(name))?;
        Ok(Arc::clone(family.get()))
    }

    /// The family with this id, unless it is the base of a branch, which callers do not see.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn of_id(&self, id: FamilyId) -> Result<Arc<FamilyData>> {
        self.get(id).filter(|family| family.role != FamilyRole::Base).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "no family with this id").with_mismatch("a family", id)
        })
    }

    /// The names of the database's own families, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.map.load().own().map(|family| family.name().to_string()).collect()
    }

    /// Puts a map in force in which families are renamed or removed. To be called by one thread at
    /// a time.
    pub fn store(
        &self,
        map: FamilyMap,
        renamed: &[(Arc<FamilyData>, Arc<str>)],
        dropped: &[Arc<FamilyData>],
    ) {
        renamed.iter().for_each(|(family, name)| family.set_name(name));
        dropped.iter().for_each(|family| family.set_dropped());
        self.map.store(Arc::new(map));
        for family in dropped {
            let view = family.tree.view();
            view.version.tables().for_each(|(_, table)| self.usage.remove(table.id()));
        }
    }

    /// Puts a map in force that [`FamilyMapBuilder::change`] has changed. To be called by one
    /// thread at a time.
    pub fn store_changed(
        &self,
        map: FamilyMap,
        changes: &FamilyChanges,
        dropped: &[Arc<FamilyData>],
    ) {
        self.store(map, &[], dropped);
        // The map comes first: a family must be found by its flush before it can be written.
        changes.created.iter().for_each(|family| family.set_created());
        let created = changes.created.iter();
        created.for_each(|family| self.usage.note_options(&family.tree.peek_options()));
    }
}

#[cfg(test)]
mod tests;
