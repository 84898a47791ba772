//! Removing old backups, and the files that no backup needs any more.
//!
//! 1. The lists of all backups that stay are read: without them it is not known what they need.
//! 2. The lists of the others are removed, oldest first, and the directory is synced.
//! 3. Files that no list names are removed.

use crate::backup::directory::BackupDirectory;
use siltdb_base::{
    error::{Error, Result},
    fs::LockKind,
    seeded_fault,
};
use siltdb_disk::backup_list::{BackupFileName, ObjectName};
use siltdb_engine::options::EngineOptions;
use std::{collections::BTreeSet, path::Path};

/// The result of a prune.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// The numbers of the backups that are gone, ascending.
    pub backups: Vec<u64>,
    /// Files that no backup needed any more.
    pub files: u64,
    /// The bytes of these files.
    pub bytes: u64,
}

/// Removes all but the newest `keep` backups in `dir`, and files that no backup needs.
///
/// # Errors
/// `InvalidArgument`, if `keep` is 0; `Corruption` or `Unsupported`, if the list of a backup that
/// stays cannot be read: nothing is removed then; as [`BackupDirectory::open`]; the system's.
pub fn prune_backups(dir: &Path, keep: u64, options: &EngineOptions) -> Result<PruneReport> {
    if keep == 0 {
        return Err(Error::invalid("the newest backup is never removed")
            .with_mismatch("at least 1 to keep", keep));
    }
    let directory = BackupDirectory::open(dir, options, LockKind::Exclusive)?;
    let mut old = directory.numbers()?;
    let stay = old.split_off(old.len().saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX)));
    let mut needed: BTreeSet<ObjectName> = BTreeSet::new();
    let first = stay.first().copied().unwrap_or(0);
    for number in stay {
        needed.extend(directory.list(number)?.all_objects().map(|object| object.name));
    }
    let fs = directory.fs();
    let mut pruned = PruneReport::default();
    for number in old {
        fs.remove(&BackupFileName::List(number).to_path())?;
        pruned.backups.push(number);
    }
    if !seeded_fault!("files_pruned_before_their_lists") {
        fs.sync_dir(Path::new(""))?;
    }
    directory.remove_partial()?;
    for number in directory.made()? {
        if number < first {
            fs.remove(&BackupFileName::Made(number).to_path())?;
        }
    }
    for (name, bytes) in directory.objects()? {
        if !needed.contains(&name) {
            fs.remove(&BackupFileName::Object(name).to_path())?;
            pruned.files += 1;
            pruned.bytes += bytes;
        }
    }
    fs.sync_dir(Path::new(""))?;
    Ok(pruned)
}
