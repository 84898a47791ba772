//! The branches of a database: their records, by id and by name, and which one is checked out.
//!
//! It knows families by id alone. Creating and dropping branches are edits (see `branch`).

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::{BranchId, FamilyId},
    limits::FAMILY_NAME_BYTES_MAX,
};
use siltdb_disk::{
    branch_record::{BranchChange, BranchFamily, BranchRecord},
    edit::Change,
};
use std::{collections::BTreeMap, sync::Arc};

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

/// The branches of a database.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    records: BTreeMap<BranchId, Arc<BranchRecord>>,
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
        let found = self.records.values().find(|record| record.name == name);
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
        self.records.values().find_map(|record| {
            let is_it = |part: &&BranchFamily| part.ids().any(|id| id == family);
            record.families.iter().find(is_it).map(|part| (record, part))
        })
    }

    /// Makes a change.
    ///
    /// # Errors
    /// `AlreadyExists`, if another branch has the name; `NotFound`.
    pub fn apply(&mut self, change: &BranchChange) -> Result<()> {
        match change {
            BranchChange::Recorded(record) => {
                check_name_free(self, &record.name, Some(record.id))?;
                self.records.insert(record.id, Arc::new(record.clone()));
            }
            BranchChange::Dropped(id) => {
                self.get(*id)?;
                self.records.remove(id);
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
        Ok(())
    }

    /// The changes that lead to these branches from none.
    pub fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let recorded = |record: &Arc<BranchRecord>| BranchChange::Recorded((**record).clone());
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
        let Change::Branch(BranchChange::Recorded(record)) = change else { continue };
        for family in &record.families {
            roles.insert(family.head, FamilyRole::Head);
            let bases = [Some(family.base), family.next_base].into_iter().flatten();
            roles.extend(bases.map(|base| (base, FamilyRole::Base)));
        }
    }
    roles
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
    let has_it = |record: &Arc<BranchRecord>| record.name == name && Some(record.id) != except;
    if name == MAIN || branches.iter().any(has_it) {
        return Err(Error::new(ErrorKind::AlreadyExists, format!("branch {name:?} exists")));
    }
    Ok(())
}
