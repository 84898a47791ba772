//! A replay of a manifest: all edits folded into what each family is at their end, so that each
//! level is built and checked once.
//!
//! The families are not made, and those that begin with the same tables share their version. So an
//! opening costs little for each of many branches.

use crate::{
    catalog::{
        branches::Branches,
        family_map::FamilyMapBuilder,
        lazy_family::{LazyFamily, StoredFamily},
        usage,
    },
    install::{
        kinds::{Phase, check_known, family_of, phase},
        tables::{FirstVersions, no_such_family},
        target::Target,
    },
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FamilyId,
};
use siltdb_disk::edit::{Change, Edit, TableReference};
use siltdb_tree::files::open_files::TableId;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

/// A replay of a manifest.
#[derive(Debug)]
pub struct ManifestReplay<'a> {
    target: Target<'a>,
    /// Those that are left.
    families: BTreeMap<FamilyId, FoldedFamily>,
    /// The last reference to each table. Families that share a table share its reference, so that
    /// many clones and branches take little more memory than one.
    references: HashMap<TableId, Arc<TableReference>>,
    branches: Branches,
}

/// A family at the end of the edits so far.
#[derive(Debug)]
struct FoldedFamily {
    name: String,
    options: Vec<u8>,
    /// The changes of its tables, in the order of the edits.
    tables: Vec<Change>,
}

impl<'a> ManifestReplay<'a> {
    /// A replay without edits.
    #[must_use]
    pub fn new(target: Target<'a>) -> Self {
        let (families, references) = (BTreeMap::new(), HashMap::new());
        Self { target, families, references, branches: Branches::default() }
    }

    /// Adds an edit that is durable already.
    ///
    /// # Errors
    /// `Corruption`, if the edit does not fit.
    pub fn note(&mut self, edit: Edit) -> Result<()> {
        // Creations come first, then tables, then the rest. A family's creation usually stands
        // before its tables, so these need not wait.
        let (mut tables, mut others) = (Vec::new(), Vec::new());
        for change in edit.changes {
            match phase(&change) {
                Phase::Create => self.create(change)?,
                Phase::Tables if tables.is_empty() && self.is_known(&change) => {
                    self.note_change(change)?;
                }
                Phase::Tables => tables.push(change),
                Phase::Change => others.push(change),
            }
        }
        tables.into_iter().chain(others).try_for_each(|change| self.note_change(change))
    }

    fn create(&mut self, change: Change) -> Result<()> {
        let Change::CreateFamily { id, name, options } = change else { return Ok(()) };
        let folded = FoldedFamily { name, options, tables: Vec::new() };
        match self.families.insert(id, folded) {
            Some(_) => Err(Error::corruption("an edit creates a family that exists")),
            None => Ok(()),
        }
    }

    fn is_known(&self, change: &Change) -> bool {
        family_of(change).is_some_and(|family| self.families.contains_key(&family))
    }

    fn note_change(&mut self, mut change: Change) -> Result<()> {
        if let Change::Branch(change) = &change {
            let changed = self.branches.apply(change).map(drop);
            return changed.map_err(|error| {
                Error::corruption("an edit does not match the branches").with_source(error)
            });
        }
        let Some(id) = family_of(&change) else { return check_known(&change) };
        self.share_reference(&mut change);
        let folded = self.families.get_mut(&id).ok_or_else(|| no_such_family(id))?;
        match change {
            Change::RenameFamily { name, .. } => folded.name = name,
            Change::FamilyOptions { options, .. } => folded.options = options,
            Change::DropFamily { .. } => {
                self.families.remove(&id);
            }
            change => folded.tables.push(change),
        }
        Ok(())
    }

    fn share_reference(&mut self, change: &mut Change) {
        match change {
            Change::AddTable { table, .. } => {
                let id = usage::id_of(table);
                let known = self.references.entry(id).or_insert_with(|| Arc::clone(table));
                if known == table {
                    *table = Arc::clone(known);
                } else {
                    *known = Arc::clone(table);
                }
            }
            Change::RemoveTable { file, offset, .. } => {
                self.references.remove(&TableId { file: *file, offset: *offset });
            }
            _ => {}
        }
    }

    /// Puts families and tables in force.
    ///
    /// # Errors
    /// `Corruption`, if the result does not fit; `InvalidArgument`, if a family needs a merge
    /// operator that was not given.
    pub fn finish(self) -> Result<()> {
        let Self { target, families, references, branches } = self;
        drop(references);
        let mut map = target.families.load().with_branches(branches);
        let (mut names, mut versions) = (HashSet::new(), FirstVersions::new());
        let usage = target.families.usage();
        for (id, folded) in families {
            let options = target.share_options(&folded.options)?;
            let version = versions.next(target.files, id, folded.tables)?;
            version.references().for_each(|(_, table)| usage.add(table));
            let name = shared_name(&mut names, folded.name);
            add(&mut map, id, target.stored(name, options, version))?;
        }
        target.families.store(map.finish()?, &[], &[]);
        target.families.assert_counted();
        Ok(())
    }
}

/// The name, in memory once for all families that have it: those of branches have the names of
/// others.
fn shared_name(names: &mut HashSet<Arc<str>>, name: String) -> Arc<str> {
    if let Some(known) = names.get(&*name) {
        return Arc::clone(known);
    }
    let name: Arc<str> = name.into();
    names.insert(Arc::clone(&name));
    name
}

fn add(map: &mut FamilyMapBuilder, id: FamilyId, stored: StoredFamily) -> Result<()> {
    let membership = map.map().branches().membership(id);
    let role = membership.map(|membership| membership.role).unwrap_or_default();
    map.add_lazy(LazyFamily::stored(id, role, stored)).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::corruption("two families have the same name"),
        _ => error,
    })
}

#[cfg(test)]
mod tests;
