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
};
use siltdb_disk::edit::{Change, Edit};
use siltdb_tree::{files::version::Version, tree::Prepared};
use std::{collections::BTreeMap, sync::Arc};

/// The next version of each family whose tables `edit` changes, sorted by id.
///
/// # Errors
/// `Corruption`, if a family is not among `families`, or a change does not fit.
pub(super) fn prepare_trees(
    families: &FamilyMap,
    edit: &Edit,
) -> Result<Vec<(Arc<FamilyData>, Prepared)>> {
    let mut by_family: BTreeMap<FamilyId, Vec<&Change>> = BTreeMap::new();
    for change in &edit.changes {
        if let Some(id) = table_family(change) {
            by_family.entry(id).or_default().push(change);
        }
    }
    let mut trees: Vec<(Arc<FamilyData>, Prepared)> = Vec::new();
    // Of the last tree that was empty before: clones and branches that follow each other begin with
    // the same tables, and share their version.
    let mut first: Option<(&[&Change], Arc<Version>)> = None;
    for (id, changes) in &by_family {
        let family = families.get(*id).ok_or_else(|| no_such_family(*id))?;
        let same = first.as_ref().filter(|(others, _)| add_same_tables(others, changes));
        let shared = same.and_then(|(_, version)| family.tree.prepare_first(version));
        let prepared = match shared {
            Some(prepared) => prepared,
            None => family.tree.prepare(changes.iter().copied())?,
        };
        if prepared.is_first() {
            first = Some((changes, Arc::clone(prepared.version())));
        }
        trees.push((Arc::clone(family), prepared));
    }
    Ok(trees)
}

/// Whether changes of two families add the same tables to the same levels, and nothing else.
fn add_same_tables(of_one: &[&Change], of_other: &[&Change]) -> bool {
    let is_same = |(one, other): (&&Change, &&Change)| match (one, other) {
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
