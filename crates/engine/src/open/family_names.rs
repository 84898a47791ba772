//! The names of the families of a database, without opening it.
//!
//! It reads `CURRENT` and the manifest, and no other file.

use crate::{
    catalog::manifest::{ManifestEnd, read_edits},
    open::{directory::no_database, foreign::check_not_foreign, manifest_watch::ManifestWatch},
};
use siltdb_base::{
    error::Result,
    fs::{File, Fs, Metadata},
    id::FamilyId,
};
use siltdb_disk::{branch_record::BranchChange, edit::Change};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The names of the database's own families in `dir`, sorted. It takes no lock and writes nothing.
///
/// # Errors
/// `NotFound` without a database; `Corruption` with file and offset; `Unsupported`; `Busy`, if
/// another process keeps changing the manifest; the system's.
pub fn family_names(fs: &dyn Fs, dir: &Path) -> Result<Vec<String>> {
    check_not_foreign(fs, dir)?;
    if !matches!(fs.metadata(dir)?, Some(Metadata::Directory)) {
        return Err(no_database(dir).with_hint("check the path"));
    }
    let mut watch = ManifestWatch::new(fs.open_dir(dir)?);
    let names = watch.refresh(&mut read_names)?;
    Ok(names.expect("the first reading of a manifest has a result"))
}

/// The family names in a manifest, sorted.
fn read_names(path: PathBuf, file: Arc<dyn File>) -> Result<(Vec<String>, ManifestEnd)> {
    let mut names: BTreeMap<FamilyId, String> = BTreeMap::new();
    let mut of_branches: BTreeSet<FamilyId> = BTreeSet::new();
    let end = read_edits(path, file, &mut |edit| {
        for change in edit.changes {
            match change {
                Change::CreateFamily { id, name, .. } | Change::RenameFamily { id, name } => {
                    names.insert(id, name);
                }
                Change::DropFamily { id } => {
                    names.remove(&id);
                }
                Change::Branch(BranchChange::Recorded(branch)) => {
                    of_branches.extend(branch.families.iter().flat_map(|family| family.ids()));
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    names.retain(|id, _| !of_branches.contains(id));
    let mut names: Vec<String> = names.into_values().collect();
    names.sort_unstable();
    Ok((names, end))
}
