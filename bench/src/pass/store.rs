//! Seeded databases, kept and copied: a row is seeded once for all its passes and repeats.
//!
//! A kept database is in the state of the row and closed, or as a killed process left it. This file
//! knows no engines.

use crate::{engine::Result, job::Phase};
use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// The database within a store.
const DATABASE: &str = "database";
/// The results of the seed phases. This file is written last, so that a store without it counts as
/// empty.
const PHASES: &str = "phases.json";

/// Whether a store holds a database.
#[must_use]
pub fn is_filled(store: &Path) -> bool {
    store.join(PHASES).exists()
}

/// Fills a store with the database that `make` creates in a directory. Returns the results of its
/// seed phases.
///
/// # Errors
/// Errors of `make`; errors of the system.
pub fn fill<T>(store: &Path, make: impl FnOnce(&Path) -> Result<(T, Vec<Phase>)>) -> Result<T> {
    let database = store.join(DATABASE);
    if database.exists() {
        // Removes the remains of a failed attempt.
        fs::remove_dir_all(&database)?;
    }
    fs::create_dir_all(&database)?;
    let (made, phases) = make(&database)?;
    fs::write(store.join(PHASES), serde_json::to_vec(&phases)?)?;
    Ok(made)
}

/// Copies the database of a store to `dir`, and returns the results of its seed phases. `make`
/// fills the store if it is empty.
///
/// # Errors
/// Errors of `make`; errors of the system.
pub fn copy_to(
    dir: &Path,
    store: &Path,
    make: impl FnOnce(&Path) -> Result<Vec<Phase>>,
) -> Result<Vec<Phase>> {
    if !is_filled(store) {
        fill(store, |database| Ok(((), make(database)?)))?;
    }
    copy(&store.join(DATABASE), dir)?;
    Ok(serde_json::from_slice(&fs::read(store.join(PHASES))?)?)
}

/// Replaces the contents of `dir` by a fresh copy of the database of a store.
///
/// # Errors
/// Errors of the system.
pub fn copy_anew(dir: &Path, store: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    copy(&store.join(DATABASE), dir)
}

/// Copies a directory and syncs the copy, so that no write-back remains for a measured phase.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            copy_file(&entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Copies a file without its holes, because killed engines leave gigabytes of preallocated space.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let (source, target) = (File::open(from)?, File::create(to)?);
    let metadata = source.metadata()?;
    target.set_permissions(metadata.permissions())?;
    target.set_len(metadata.len())?;
    let mut end = 0;
    while end < metadata.len() {
        let start = match seek(&source, SeekFrom::Data(end)) {
            Ok(start) => start,
            // Only a hole remains.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        end = seek(&source, SeekFrom::Hole(start))?;
        seek(&source, SeekFrom::Start(start))?;
        seek(&target, SeekFrom::Start(start))?;
        io::copy(&mut (&source).take(end - start), &mut &target)?;
    }
    Ok(target.sync_data()?)
}

#[cfg(test)]
mod tests;
