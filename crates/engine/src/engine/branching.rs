//! Branches of an open database.

use super::Engine;
use crate::{catalog::family::FamilyData, copies::branch, snapshots::LiveSnapshot};
use siltdb_base::{error::Result, id::BranchId};
use siltdb_disk::branch_record::BranchRecord;
use std::sync::Arc;

impl Engine {
    /// Creates the branch `name` of `parent` with `sources`, families of the parent, as they are
    /// now or at a snapshot of this database.
    ///
    /// # Errors
    /// As [`branch::create_branch`].
    pub fn create_branch(
        &self,
        name: &str,
        parent: BranchId,
        sources: &[Arc<FamilyData>],
        at: Option<&LiveSnapshot>,
    ) -> Result<Arc<BranchRecord>> {
        self.at_work(|database| match at {
            Some(at) => branch::create_branch(&database.job_rooms(), name, parent, sources, at),
            None => branch::create_branch(
                &database.job_rooms(),
                name,
                parent,
                sources,
                &self.snapshot(),
            ),
        })
    }

    /// Drops a branch.
    ///
    /// # Errors
    /// As [`branch::drop_branch`].
    pub fn drop_branch(&self, name: &str) -> Result<()> {
        self.at_work(|database| branch::drop_branch(&database.installer(), name))
    }

    /// Renames a branch.
    ///
    /// # Errors
    /// As [`branch::rename_branch`].
    pub fn rename_branch(&self, name: &str, to: &str) -> Result<()> {
        self.at_work(|database| branch::rename_branch(&database.installer(), name, to))
    }

    /// Checks out a branch.
    ///
    /// # Errors
    /// As [`branch::check_out`].
    pub fn check_out(&self, name: &str) -> Result<()> {
        self.at_work(|database| branch::check_out(&database.installer(), name))
    }
}
