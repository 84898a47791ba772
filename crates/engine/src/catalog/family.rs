//! The families of a database: named trees that share one log.
//!
//! This module finds families. Creating, renaming and dropping them are edits (see `install`).

use crate::{
    blobs::BlobSet,
    catalog::{
        branches::{Branches, FamilyRole},
        chunked::ChunkedMap,
    },
    lock_state::lock_table::LockFlag,
};
use arc_swap::ArcSwap;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{FamilyId, SequenceNumber},
    limits::FAMILY_NAME_BYTES_MAX,
    sync::lock,
};
use siltdb_disk::branch_record::{BranchChange, BranchRecord};
use siltdb_tree::{memory::Holders, tree::Tree};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The family that every database has.
pub const DEFAULT_FAMILY: &str = "default";

/// Its id, the first that is given.
pub const DEFAULT_FAMILY_ID: FamilyId = FamilyId(0);

/// One named tree.
#[derive(Debug)]
pub struct FamilyData {
    /// The family's id, which never changes.
    pub id: FamilyId,
    /// What it is to the branches, which never changes.
    pub role: FamilyRole,
    name: Mutex<Arc<str>>,
    /// The ordered map.
    pub tree: Tree,
    /// Whether any key of the family is locked.
    pub lock_flag: Arc<LockFlag>,
    /// Whether the family is in no map: not created yet, or dropped.
    absent: AtomicBool,
    created: AtomicBool,
    /// Whether a drop that is no commit is under way.
    leaving: AtomicBool,
    /// Of a dropped family: the blob files that its readers may need.
    kept_blobs: OnceLock<BlobSet>,
}

impl FamilyData {
    /// A family called `name` that exists.
    #[must_use]
    pub fn new(id: FamilyId, name: &str, tree: Tree) -> Self {
        let (absent, created) = (AtomicBool::new(false), AtomicBool::new(true));
        let lock_flag = Arc::new(LockFlag::new(id));
        let (role, name) = (FamilyRole::Own, Mutex::new(name.into()));
        let (leaving, kept_blobs) = (AtomicBool::new(false), OnceLock::new());
        Self { id, role, name, tree, lock_flag, absent, created, leaving, kept_blobs }
    }

    /// The same family with another role.
    #[must_use]
    pub fn with_role(self, role: FamilyRole) -> Self {
        Self { role, ..self }
    }

    /// A prepared family, called `name` once a commit creates it.
    #[must_use]
    pub fn prepared(id: FamilyId, name: &str, tree: Tree) -> Self {
        let (absent, created) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { absent, created, ..Self::new(id, name, tree) }
    }

    /// Whether the family exists or existed; `false` for a prepared one.
    #[must_use]
    pub fn was_created(&self) -> bool {
        // Relaxed: it changes under `changing_io`; elsewhere it only selects an error message.
        self.created.load(Ordering::Relaxed)
    }

    /// The present name.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&lock(&self.name))
    }

    /// Whether the family was dropped. Readers that hold it keep reading their view.
    #[inline]
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.is_absent() && self.was_created()
    }

    /// Whether the family was dropped, or is being dropped by an edit that is no commit.
    #[inline]
    #[must_use]
    pub fn is_going(&self) -> bool {
        // Acquire pairs with the release in `set_leaving`: after the drop the family is absent.
        self.leaving.load(Ordering::Acquire) || self.is_dropped()
    }

    /// Says whether a drop that is no commit is under way.
    pub fn set_leaving(&self, leaving: DropState) {
        // Release: see `is_going`.
        self.leaving.store(leaving == DropState::Begun, Ordering::Release);
    }

    #[inline]
    fn is_absent(&self) -> bool {
        // Relaxed: a commit that races with the drop may still succeed; recovery passes over its
        // entries.
        self.absent.load(Ordering::Relaxed)
    }

    /// Keeps those of the blob files in `set` that the family refers to. To be called with
    /// `manifest_io` held, before the family leaves the map: from then on its references do not
    /// count.
    pub fn keep_blobs(&self, set: &BlobSet) {
        let view = self.tree.view();
        let mut files = BTreeSet::new();
        for (_, table) in view.version.tables() {
            files.extend(table.meta().blobs.files().iter().map(|reference| reference.file));
        }
        // What is in memory may refer to any file.
        let is_any = view.memory.oldest().is_some();
        self.kept_blobs.get_or_init(|| set.filtered(|file| is_any || files.contains(&file)));
    }

    /// The blob files that readers of a dropped family need, and that others may not.
    #[must_use]
    pub fn kept_blobs(&self) -> Option<&BlobSet> {
        self.kept_blobs.get()
    }

    /// Succeeds while the family exists.
    ///
    /// # Errors
    /// `NotFound`, if it was dropped, or is prepared and not created yet.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_absent() { Err(self.absence()) } else { Ok(()) }
    }

    #[cold]
    fn absence(&self) -> Error {
        let error = not_found(&self.name());
        if self.was_created() {
            return error;
        }
        error.with_hint("it is prepared: write a batch that creates it first")
    }

    /// Succeeds if the family accepts merge operands.
    ///
    /// # Errors
    /// `InvalidArgument`, if it has no merge operator.
    pub fn check_operator(&self) -> Result<()> {
        if self.tree.peek_options().merge_operator.is_some() {
            return Ok(());
        }
        Err(Error::invalid(format!("family {:?} has no merge operator", self.name())).with_hint(
            "set one when it is created or by its options; for the default family, at open",
        ))
    }
}

/// The state of a drop that is no commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropState {
    /// It is under way.
    Begun,
    /// It was carried out, or has failed.
    Over,
}

/// Families that a commit creates and drops.
#[derive(Clone, Debug, Default)]
pub struct FamilyChanges {
    /// Prepared families to create.
    pub created: Vec<Arc<FamilyData>>,
    /// Families to drop. They are dropped first, so that a new family may take the name of an old
    /// one.
    pub dropped: Vec<FamilyId>,
    /// Branches as they are from then on.
    pub branches: Vec<BranchRecord>,
}

impl FamilyChanges {
    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.dropped.is_empty() && self.branches.is_empty()
    }
}

/// The families by id and by name, replaced as a whole.
#[derive(Debug, Default)]
pub struct Families {
    map: ArcSwap<FamilyMap>,
    holders: Arc<Holders>,
}

/// An immutable map of all families.
#[derive(Clone, Debug, Default)]
pub struct FamilyMap {
    by_id: ChunkedMap<FamilyId, Arc<FamilyData>>,
    /// The database's own.
    by_name: ChunkedMap<Arc<str>, Arc<FamilyData>>,
    /// Those of branches, whose names repeat.
    of_branches: ChunkedMap<FamilyId, Arc<FamilyData>>,
    branches: Arc<Branches>,
}

impl FamilyMap {
    /// The family with this id.
    #[must_use]
    pub fn get(&self, id: FamilyId) -> Option<&Arc<FamilyData>> {
        self.by_id.get(&id)
    }

    /// All families: the database's own in the order of their names, then those of branches.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<FamilyData>> {
        self.by_name.values().chain(self.of_branches.values())
    }

    /// The database's own families in the order of their names.
    pub fn own(&self) -> impl Iterator<Item = &Arc<FamilyData>> {
        self.by_name.values()
    }

    /// No entry in a table is newer. Tables of an ingest may have a number that the log lacks.
    #[must_use]
    pub fn sequence_max(&self) -> SequenceNumber {
        let newest = |family: &Arc<FamilyData>| {
            let view = family.tree.view();
            view.version.tables().map(|(_, table)| table.sequence_max()).max()
        };
        self.iter().filter_map(newest).max().unwrap_or(SequenceNumber::ZERO)
    }

    /// The branches.
    #[must_use]
    pub fn branches(&self) -> &Branches {
        &self.branches
    }

    /// The same branches without families, for a copy of the families.
    #[must_use]
    pub fn branches_alone(&self) -> Self {
        Self { branches: Arc::clone(&self.branches), ..Self::default() }
    }

    /// The name of a family for reports. That of a branch has the branch's name before it.
    #[must_use]
    pub fn label(&self, family: &FamilyData) -> Arc<str> {
        let name = family.name();
        match self.branches.of_family(family.id) {
            Some((record, part)) if part.head == family.id => {
                format!("{}/{name}", record.name).into()
            }
            Some((record, _)) => format!("{}/{name} (base)", record.name).into(),
            None => name,
        }
    }

    /// Adds a family.
    ///
    /// # Errors
    /// `AlreadyExists`, if a family has the id or the name.
    pub fn add(&mut self, family: Arc<FamilyData>) -> Result<()> {
        let (name, is_own) = (family.name(), family.role == FamilyRole::Own);
        let is_taken = is_own && self.by_name.contains_key(&name);
        if is_taken || self.by_id.contains_key(&family.id) {
            return Err(already_exists(&name));
        }
        self.by_id.insert(family.id, Arc::clone(&family));
        match is_own {
            true => self.by_name.insert(name, family),
            false => self.of_branches.insert(family.id, family),
        };
        Ok(())
    }

    /// Removes a family.
    ///
    /// # Errors
    /// `NotFound`, if no family has the id.
    pub fn remove(&mut self, id: FamilyId) -> Result<Arc<FamilyData>> {
        let family = self.by_id.remove(&id).ok_or_else(|| not_found(&id.to_string()))?;
        if self.of_branches.remove(&id).is_none() {
            let name = self.name_of(&family);
            self.by_name.remove(&name);
        }
        Ok(family)
    }

    /// Renames a family in this map. [`FamilyData::name`] changes when the map is put in force.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists` if another family has the name.
    pub fn rename(&mut self, id: FamilyId, name: &str) -> Result<Arc<FamilyData>> {
        let is_own = |family: &&Arc<FamilyData>| family.role == FamilyRole::Own;
        let family = self.get(id).filter(is_own).cloned();
        let family = family.ok_or_else(|| not_found(&id.to_string()))?;
        if self.by_name.contains_key(name) {
            return Err(already_exists(name));
        }
        let before = self.name_of(&family);
        self.by_name.remove(&before);
        self.by_name.insert(name.into(), Arc::clone(&family));
        Ok(family)
    }

    /// Changes the branches. [`FamilyMap::check_branches`] is due after the last change.
    ///
    /// # Errors
    /// As [`Branches::apply`].
    pub fn change_branches(&mut self, change: &BranchChange) -> Result<()> {
        Arc::make_mut(&mut self.branches).apply(change)
    }

    /// Checks that each family of a branch is there and is of no other, and that no family is of a
    /// branch that is not there.
    ///
    /// # Errors
    /// `Corruption`.
    pub fn check_branches(&self) -> Result<()> {
        let mut families = 0;
        for part in self.branches.iter().flat_map(|record| &record.families) {
            for id in part.ids() {
                let role = if id == part.head { FamilyRole::Head } else { FamilyRole::Base };
                if self.of_branches.get(&id).is_none_or(|family| family.role != role) {
                    return Err(Error::corruption("a family of a branch is not there")
                        .with_mismatch("a family", id));
                }
                families += 1;
            }
        }
        if families != self.of_branches.len() {
            return Err(Error::corruption("the families of branches do not match the branches")
                .with_mismatch(self.of_branches.len(), families));
        }
        Ok(())
    }

    /// Drops families, then creates families, then changes branches. Returns the dropped families.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists`, by id or by name; `Corruption`, if families and branches do not
    /// match. After an error the map must not be used.
    pub fn change(&mut self, changes: &FamilyChanges) -> Result<Vec<Arc<FamilyData>>> {
        let dropped = changes.dropped.iter().map(|id| self.remove(*id)).collect::<Result<_>>()?;
        changes.created.iter().try_for_each(|family| self.add(Arc::clone(family)))?;
        for record in &changes.branches {
            self.change_branches(&BranchChange::Recorded(record.clone()))?;
        }
        if !changes.branches.is_empty() {
            self.check_branches()?;
        }
        Ok(dropped)
    }

    /// The name of a family in this map.
    fn name_of(&self, family: &Arc<FamilyData>) -> Arc<str> {
        let name = family.name();
        let is_it = |found: &Arc<FamilyData>| found.id == family.id;
        if self.by_name.get(&name).is_some_and(is_it) {
            return name;
        }
        // This map renames the family and is not in force.
        self.by_name.iter().find(|(_, found)| is_it(found)).map_or(name, |(name, _)| name.clone())
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
        self.map.load().by_name.get(name).cloned().ok_or_else(|| not_found(name))
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
        for (family, name) in renamed {
            *lock(&family.name) = Arc::clone(name);
        }
        for family in dropped {
            assert!(!family.is_absent(), "family {} would be dropped twice", family.id);
            // Relaxed: this is a hint; every call that matters refuses a dropped family itself.
            family.absent.store(true, Ordering::Relaxed);
        }
        self.map.store(Arc::new(map));
    }

    /// Puts a map in force that [`FamilyMap::change`] has changed. To be called by one thread at a
    /// time.
    pub fn store_changed(
        &self,
        map: FamilyMap,
        changes: &FamilyChanges,
        dropped: &[Arc<FamilyData>],
    ) {
        self.store(map, &[], dropped);
        // The map comes first: a family must be found by its flush before it can be written.
        for family in &changes.created {
            assert!(!family.was_created(), "family {} would be created twice", family.id);
            family.created.store(true, Ordering::Relaxed);
            family.absent.store(false, Ordering::Relaxed);
        }
    }
}

/// Checks that a family may have the name `name`.
///
/// # Errors
/// `InvalidArgument`, if the name is empty, too long or has control characters.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > FAMILY_NAME_BYTES_MAX {
        return Err(Error::invalid("bad length of a family name, in bytes")
            .with_mismatch(format!("1..={FAMILY_NAME_BYTES_MAX}"), name.len()));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid("a family name has control characters"));
    }
    Ok(())
}

fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no family {name:?}"))
}

fn already_exists(name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("family {name:?} exists"))
}
