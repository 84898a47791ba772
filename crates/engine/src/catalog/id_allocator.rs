//! The ids of files, families and tables of a database, each handed out once.
//!
//! The manifest records which of them are in use.

use crate::kit::random::Random;
use siltdb_base::{
    error::{Error, Result},
    id::{DatabaseId, FamilyId, FileNumber, TableUid},
    limits::{FAMILY_IDS_MAX, FILES_BETWEEN_EDITS_MAX},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::edit::NEXT_FILE_MAX;
use std::sync::{
    Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

/// Hands out ids, each once.
#[derive(Debug)]
pub struct IdAllocator {
    next_file: AtomicU64,
    next_family: AtomicU32,
    random: Mutex<Random>,
}

impl IdAllocator {
    /// An allocator that starts at these ids.
    #[must_use]
    pub fn new(next_file: FileNumber, next_family: FamilyId, random: Random) -> Self {
        Self {
            next_file: AtomicU64::new(next_file.0),
            next_family: AtomicU32::new(next_family.0),
            // File numbers go on, so that a seed used twice gives no uid twice.
            random: Mutex::new(random.salted(next_file.0)),
        }
    }

    /// A file number that was never used.
    #[must_use]
    pub fn file(&self) -> FileNumber {
        if seeded_fault!("reuse_file_number") && self.next_file().0 % 8 == 7 {
            return FileNumber(self.next_file().0 - 1);
        }
        // Relaxed, here and below: a number carries no other data with it.
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// Checks that enough file numbers are left until the next edit.
    ///
    /// # Errors
    /// Corruption, if not. Regular use never exhausts them, but a damaged manifest may claim any
    /// number.
    pub fn check_files_left(&self) -> Result<()> {
        if self.next_file().0 < NEXT_FILE_MAX.0 - FILES_BETWEEN_EDITS_MAX {
            return Ok(());
        }
        Err(Error::corruption("file numbers are used up")
            .with_hint("the manifest claims numbers that were never handed out"))
    }

    /// The next file number: neither it nor a later one was handed out.
    #[must_use]
    pub fn next_file(&self) -> FileNumber {
        FileNumber(self.next_file.load(Ordering::Relaxed))
    }

    /// An id of a family or a branch that was never used.
    ///
    /// # Errors
    /// `InvalidArgument`, if ids are used up. The manifest that names a greater one as the next
    /// would be refused by the next opening.
    pub fn family(&self) -> Result<FamilyId> {
        let next = |id: u32| (id < FAMILY_IDS_MAX).then_some(id + 1);
        let given = self.next_family.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        given.map(FamilyId).map_err(|_| {
            Error::invalid("ids of families are used up")
                .with_hint("export the database, and import it into a new one")
        })
    }

    /// The next family id: neither it nor a later one was handed out.
    #[must_use]
    pub fn next_family(&self) -> FamilyId {
        FamilyId(self.next_family.load(Ordering::Relaxed))
    }

    /// A random uid for a table.
    #[must_use]
    pub fn table_uid(&self) -> TableUid {
        TableUid(lock(&self.random).next_u64())
    }

    /// A random identity for a database.
    #[must_use]
    pub fn database_id(&self) -> DatabaseId {
        let mut random = lock(&self.random);
        DatabaseId(u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()))
    }

    /// A random number.
    #[must_use]
    pub fn random(&self) -> u32 {
        lock(&self.random).next_u64() as u32
    }
}

#[cfg(test)]
mod tests;
