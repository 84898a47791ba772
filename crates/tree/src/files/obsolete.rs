//! Files that no version refers to any more, until their last user lets them go.
//!
//! A file that is still used is looked at again when its last user lets it go, and not before. So
//! what a purge costs does not grow with the files that readers, clones and branches hold.
//!
//! # Invariants
//! 1. A noted file is in `fresh`, or it was in use when it was last looked at and is in `used`.
//! 2. The last user of a file calls [`ObsoleteFiles::note_released`] after the file counts as
//!    unused. Both lists are behind one lock, which is held while a file is looked at. So
//!    a file that is found in use comes to `used` before it leaves it for `fresh`.
//!
//! # Seeded fault
//! `released_file_stays`: a file whose last reader lets it go is not looked at again.

use siltdb_base::{id::FileNumber, seeded_fault, sync::lock};
use std::{
    collections::{BTreeSet, HashSet},
    sync::Mutex,
};

/// The files of one database that are to be removed.
///
/// # Thread safety
/// Any thread may call it. Its lock comes after all others, but for that of the files in use.
#[derive(Debug, Default)]
pub struct ObsoleteFiles {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// To be looked at, in the order in which they are removed.
    fresh: BTreeSet<FileNumber>,
    /// Found in use.
    used: HashSet<FileNumber>,
}

impl ObsoleteFiles {
    /// Notes that no version refers to `files` any more.
    pub fn note(&self, files: impl IntoIterator<Item = FileNumber>) {
        lock(&self.noted).fresh.extend(files);
    }

    /// Notes that the last user has let `file` go; it may be one that was never noted.
    pub fn note_released(&self, file: FileNumber) {
        let mut noted = lock(&self.noted);
        if noted.used.remove(&file) && !seeded_fault!("released_file_stays") {
            noted.fresh.insert(file);
        }
    }

    /// Takes out the noted files that are not used, in ascending order.
    ///
    /// Cost: a look at each file that was noted or released since the last call.
    #[must_use]
    pub fn take_unused(&self, is_used: impl Fn(FileNumber) -> bool) -> Vec<FileNumber> {
        let mut noted = lock(&self.noted);
        let fresh = std::mem::take(&mut noted.fresh);
        let (used, unused): (Vec<_>, Vec<_>) = fresh.into_iter().partition(|&file| is_used(file));
        noted.used.extend(used);
        unused
    }
}

#[cfg(test)]
mod tests;
