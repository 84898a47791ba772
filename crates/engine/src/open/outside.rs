//! Where a directory may be made: in none of a database.
//!
//! It looks at names only. What a path resolves to by links is not known.

use siltdb_base::{
    error::{Error, Result},
    fs::{Fs, Metadata},
};
use siltdb_disk::{edit::tier::COLD_FILE, file_name::FileName};
use std::path::{Component, Path, PathBuf};

/// Refuses a directory that is one of a database, its cold directory among them, or lies in one.
///
/// # Errors
/// `InvalidArgument`; the system's.
pub fn check_outside_databases(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let kind = |path: &Path| match path.as_os_str().is_empty() {
        true => Ok(Some(Metadata::Directory)),
        false => fs.metadata(path),
    };
    let is_missing = |path: &Path| Ok(kind(path)?.is_none());
    for ancestor in &ancestors(dir, &is_missing)? {
        // Nothing lies in a directory that is not there.
        if kind(ancestor)? != Some(Metadata::Directory) {
            break;
        }
        let has = |name: &Path| -> Result<bool> {
            Ok(matches!(kind(&ancestor.join(name))?, Some(Metadata::File { .. })))
        };
        let message = match has(&FileName::Lock.to_path())? {
            true if has(&FileName::Current.to_path())? => "the directory belongs to a database",
            true if has(Path::new(COLD_FILE))? => {
                "the directory is the cold directory of a database"
            }
            _ => continue,
        };
        return Err(Error::invalid(message)
            .with_file(ancestor)
            .with_hint("give a directory outside of it"));
    }
    Ok(())
}

/// The directories that `dir` lies in, from the top, and `dir` itself. A directory that the path
/// leaves by `..` is not among them. One that is missing would be made where the path says, so `..`
/// leads back from it.
fn ancestors(dir: &Path, is_missing: &dyn Fn(&Path) -> Result<bool>) -> Result<Vec<PathBuf>> {
    let mut path = PathBuf::new();
    let mut ancestors = vec![path.clone()];
    for component in dir.components() {
        if component == Component::ParentDir && is_missing(&path)? {
            path.pop();
            ancestors.pop();
            continue;
        }
        path.push(component);
        match component {
            Component::Prefix(_) | Component::RootDir => ancestors.clear(),
            Component::ParentDir => {
                // The directory that is left. Its parent gets another path.
                ancestors.pop();
                ancestors.pop();
            }
            Component::CurDir | Component::Normal(_) => {}
        }
        ancestors.push(path.clone());
    }
    Ok(ancestors)
}

#[cfg(test)]
mod tests;
