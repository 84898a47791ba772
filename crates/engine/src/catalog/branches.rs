//! The branches of a database: their records, by id and by name, and which one is checked out.
//!
//! It knows families by id alone. Creating and dropping branches are edits (see `branch`).

use crate::catalog::chunked::ChunkedMap;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{BranchId, FamilyId},
    limits::FAMILY_NAME_BYTES_MAX,
};
use siltdb_disk::{
    branch_record::{BranchChange, BranchFamily, BranchRecord},
    edit::Change,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The name of the database's own families among the branches.
pub const MAIN: &str = "main";

/// What a family is to the branches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FamilyRole {
    /// One of the database's own, which is found by its name.
    #[default]
    Own,
    /// The one that is read and written on a branch.
    Head,
    /// What a branch and its parent last had in common. It is never written, nor compacted, so that
    /// it takes references alone.
    Base,
}

/// The branch of a family, and what the family is to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The branch.
    pub branch: BranchId,
    /// The part of the family, which is not [`FamilyRole::Own`].
    pub role: FamilyRole,
}

/// The branches of a database. A copy with one change shares nearly all with the original.
///
/// # Invariants
/// 1. `by_name` has each record by its name.
/// 2. `members` has each family that a record names, with the record's id. So no family is of two
///    branches.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    records: ChunkedMap<BranchId, Arc<BranchRecord>>,
    by_name: ChunkedMap<Arc<str>, BranchId>,
    members: ChunkedMap<FamilyId, Membership>,
    checked_out: BranchId,
}

impl Branches {
    /// The branch with this id.
    ///
    /// # Errors
    /// `NotFound`, also for `main`, which has no record.
    pub fn get(&self, id: BranchId) -> Result<&Arc<BranchRecord>> {
        self.records.get(&id).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "the branch was dropped").with_mismatch("a branch", id)
        })
    }

    /// The branch called `name`; `None` for `main`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn named(&self, name: &str) -> Result<Option<&Arc<BranchRecord>>> {
        if name == MAIN {
            return Ok(None);
        }
        let found = self.by_name.get(name).and_then(|id| self.records.get(id));
        found.map(Some).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("no branch {name:?}"))
                .with_hint("`Db::branches` lists them")
        })
    }

    /// All branches but `main`, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<BranchRecord>> {
        self.records.values()
    }

    /// The branch that is checked out.
    #[must_use]
    pub fn checked_out(&self) -> BranchId {
        self.checked_out
    }

    /// The name of a branch; `None` if it was dropped.
    #[must_use]
    pub fn name(&self, id: BranchId) -> Option<&str> {
        match id {
            BranchId::MAIN => Some(MAIN),
            id => self.records.get(&id).map(|record| &*record.name),
        }
    }

    /// The branch that a family is of, and the family's part there.
    #[must_use]
    pub fn of_family(&self, family: FamilyId) -> Option<(&Arc<BranchRecord>, &BranchFamily)> {
        let record = self.records.get(&self.membership(family)?.branch)?;
        let is_it = |part: &&BranchFamily| part.ids().any(|id| id == family);
        record.families.iter().find(is_it).map(|part| (record, part))
    }

    /// The branch that a family is of, and its part there; `None` for the database's own.
    #[must_use]
    pub fn membership(&self, family: FamilyId) -> Option<Membership> {
        self.members.get(&family).copied()
    }

    /// The families of all branches, ascending.
    pub fn members(&self) -> impl Iterator<Item = FamilyId> {
        self.members.iter().map(|(id, _)| *id)
    }

    /// Makes a change. Returns the families that the branch had before it or has after it.
    ///
    /// # Errors
    /// `AlreadyExists`, if another branch has the name; `Corruption`, if a family would be of two
    /// branches, or twice of one; `NotFound`. Nothing has changed then.
    pub fn apply(&mut self, change: &BranchChange) -> Result<Vec<FamilyId>> {
        let mut touched = Vec::new();
        match change {
            BranchChange::Recorded(record) => {
                check_name_free(self, &record.name, Some(record.id))?;
                self.check_members(record)?;
                touched.extend(self.take(record.id));
                self.put(Arc::clone(record));
                touched.extend(members_of(record).map(|(id, _)| id));
            }
            BranchChange::Dropped(id) => {
                self.get(*id)?;
                touched.extend(self.take(*id));
                if self.checked_out == *id {
                    self.checked_out = BranchId::MAIN;
                }
            }
            BranchChange::CheckedOut(id) => {
                if *id != BranchId::MAIN {
                    self.get(*id)?;
                }
                self.checked_out = *id;
            }
        }
        Ok(touched)
    }

    /// Takes a record out, if there is one. Returns its families.
    fn take(&mut self, id: BranchId) -> Vec<FamilyId> {
        let Some(record) = self.records.remove(&id) else { return Vec::new() };
        self.by_name.remove(&*record.name);
        let families: Vec<_> = members_of(&record).map(|(family, _)| family).collect();
        for family in &families {
            let _ = self.members.remove(family);
        }
        families
    }

    /// Adds a record whose id, name and families no other has.
    fn put(&mut self, record: Arc<BranchRecord>) {
        let branch = record.id;
        for (family, role) in members_of(&record) {
            self.members.insert(family, Membership { branch, role });
        }
        self.by_name.insert(record.name.as_str().into(), branch);
        self.records.insert(branch, record);
    }

    /// Checks that a record names each family once, and none of another branch.
    fn check_members(&self, record: &BranchRecord) -> Result<()> {
        let mut named = BTreeSet::new();
        let is_of_other = |family| self.membership(family).is_some_and(|it| it.branch != record.id);
        match members_of(record).find(|(id, _)| is_of_other(*id) || !named.insert(*id)) {
            None => Ok(()),
            Some((family, _)) => Err(Error::corruption("a family is twice in the branches")
                .with_mismatch("one place", family)),
        }
    }

    /// The changes that lead to these branches from none.
    pub fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let recorded = |record: &Arc<BranchRecord>| BranchChange::Recorded(Arc::clone(record));
        let checked_out = (self.checked_out != BranchId::MAIN)
            .then_some(BranchChange::CheckedOut(self.checked_out));
        self.records.values().map(recorded).chain(checked_out).map(Change::Branch)
    }
}

/// What families are to the branches that `changes` record; others are the database's own.
#[must_use]
pub fn roles(changes: &[Change]) -> BTreeMap<FamilyId, FamilyRole> {
    let mut roles = BTreeMap::new();
    for change in changes {
        if let Change::Branch(BranchChange::Recorded(record)) = change {
            roles.extend(members_of(record));
        }
    }
    roles
}

/// The families of a branch and their parts there.
fn members_of(record: &BranchRecord) -> impl Iterator<Item = (FamilyId, FamilyRole)> {
    record.families.iter().flat_map(|part| {
        let role = |id| if id == part.head { FamilyRole::Head } else { FamilyRole::Base };
        part.ids().map(move |id| (id, role(id)))
    })
}

/// Checks that a branch may have the name `name`.
///
/// # Errors
/// `InvalidArgument`, if the name is empty, too long or has control characters.
pub fn check_branch_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > FAMILY_NAME_BYTES_MAX {
        return Err(Error::invalid("bad length of a branch name, in bytes")
            .with_mismatch(format!("1..={FAMILY_NAME_BYTES_MAX}"), name.len()));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid("a branch name has control characters"));
    }
    Ok(())
}

/// Checks that no branch but `except` has the name `name`.
///
/// # Errors
/// `AlreadyExists`.
pub fn check_name_free(branches: &Branches, name: &str, except: Option<BranchId>) -> Result<()> {
    let has_it = branches.by_name.get(name).is_some_and(|id| Some(*id) != except);
    if name == MAIN || has_it {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("branch {name:?} exists")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
