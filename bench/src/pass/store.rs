//! Seeded databases, kept to be copied: a row is seeded once for all its passes and repeats.
//!
//! What is kept has been brought to the state of the row and closed. It does not know engines.

use crate::{engine::Result, job::Phase};
use std::{
    fs::{self, File},
    path::Path,
};

/// The database within a store.
const DATABASE: &str = "database";
/// How its seed phases went; written last, so that a store without it holds nothing.
const PHASES: &str = "phases.json";

/// Copies the database of a store to `dir`, and says how its seed phases went. `make` fills the
/// store if it holds nothing.
///
/// # Errors
/// Those of `make`; the system's.
pub fn copy_to(
    dir: &Path,
    store: &Path,
    make: impl FnOnce(&Path) -> Result<Vec<Phase>>,
) -> Result<Vec<Phase>> {
    let (database, phases) = (store.join(DATABASE), store.join(PHASES));
    if !phases.exists() {
        if database.exists() {
            // Of an attempt that failed.
            fs::remove_dir_all(&database)?;
        }
        fs::create_dir_all(&database)?;
        let made = make(&database)?;
        fs::write(&phases, serde_json::to_vec(&made)?)?;
    }
    copy(&database, dir)?;
    Ok(serde_json::from_slice(&fs::read(&phases)?)?)
}

/// Copies a folder. The copy is synced: nothing of it is written while something is measured.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            File::open(&target)?.sync_data()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
