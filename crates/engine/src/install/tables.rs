//! The versions that an edit leads to.
//!
//! It puts nothing in force.

use crate::{
    catalog::{family::FamilyData, family_map::FamilyMap},
    install::kinds::table_family,
};
use siltdb_base::{
    error::{Error, Result},
    id::FamilyId,
    invariant,
};
use siltdb_disk::edit::{Change, Edit};
use siltdb_tree::{
    files::{open_files::OpenFiles, version::Version},
    tree::Prepared,
};
use std::{borrow::Borrow, collections::BTreeMap, sync::Arc};

/// The changes of tables of an edit by family, in their order.
pub(super) type TableChanges<'e> = BTreeMap<FamilyId, Vec<&'e Change>>;

/// The changes of tables of `edit`.
pub(super) fn table_changes(edit: &Edit) -> TableChanges<'_> {
    let mut by_family = TableChanges::new();
    for change in &edit.changes {
        if let Some(id) = table_family(change) {
            by_family.entry(id).or_default().push(change);
        }
    }
    by_family
}

/// The next version of each family of which `changes` has any, sorted by id.
///
/// # Errors
/// `Corruption`, if a family is not among `families`, or a change does not fit.
pub(super) fn prepare_trees(
    families: &FamilyMap,
    changes: &TableChanges<'_>,
) -> Result<Vec<(Arc<FamilyData>, Prepared)>> {
    let prepare = |(id, changes): (&FamilyId, &Vec<&Change>)| {
        let family = families.get(*id).ok_or_else(|| no_such_family(*id))?;
        Ok((Arc::clone(family), family.tree.prepare(changes.iter().copied())?))
    };
    changes.iter().map(prepare).collect()
}

/// The versions of new families. Clones and branches that follow each other begin with the same
/// tables, and share their version.
#[derive(Debug)]
pub(super) struct FirstVersions<C> {
    last: Option<(Vec<C>, Arc<Version>)>,
}

impl<C: Borrow<Change>> FirstVersions<C> {
    /// No family yet.
    pub(super) fn new() -> Self {
        Self { last: None }
    }

    /// The version of a family with these changes of tables, from none on.
    ///
    /// # Errors
    /// As [`Version::apply`].
    pub(super) fn next(
        &mut self,
        files: &Arc<OpenFiles>,
        family: FamilyId,
        changes: Vec<C>,
    ) -> Result<Arc<Version>> {
        if changes.is_empty() {
            return Ok(Version::none());
        }
        let same = self.last.as_ref().filter(|(others, _)| add_same_tables(others, &changes));
        if let Some((_, version)) = same {
            return Ok(Arc::clone(version));
        }
        let version = Version::none().apply(files, family, changes.iter().map(C::borrow))?;
        invariant!(version.check().is_ok(), "a family begins with {:?}", version.check());
        let version = Arc::new(version);
        self.last = Some((changes, Arc::clone(&version)));
        Ok(version)
    }
}

/// Whether changes of two families add the same tables to the same levels, and nothing else.
fn add_same_tables<C: Borrow<Change>>(of_one: &[C], of_other: &[C]) -> bool {
    let is_same = |(one, other): (&C, &C)| match (one.borrow(), other.borrow()) {
        (
            Change::AddTable { level, table, .. },
            Change::AddTable { level: other_level, table: other, .. },
        ) => level == other_level && table == other,
        _ => false,
    };
    of_one.len() == of_other.len() && of_one.iter().zip(of_other).all(is_same)
}

/// A change names a family that is not there.
#[cold]
pub(super) fn no_such_family(id: FamilyId) -> Error {
    Error::corruption("an edit changes a family that does not exist").with_mismatch("a family", id)
}
