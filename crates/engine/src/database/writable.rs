//! The proof that a call may write: the process is the one that opened the database.
//!
//! A forked child shares the files, and must not write to them. So what writes asks for a proof,
//! and code outside this crate gets one only from [`Engine::writable`], which checks the process.
//!
//! [`Engine::writable`]: crate::engine::Engine::writable

use crate::{
    catalog::family::FamilyData,
    database::{Database, installer::Installer, job_rooms::JobRooms},
    options::Access,
};
use siltdb_base::error::Result;

/// A database that this process may write to.
#[derive(Clone, Copy, Debug)]
pub struct Writable<'a> {
    database: &'a Database,
}

impl<'a> Writable<'a> {
    /// The proof, for code that only runs in the process that opened the database: its own threads,
    /// its opening, and calls that have a proof already.
    pub(crate) fn inside(database: &'a Database) -> Self {
        Self { database }
    }

    /// The proof for a database that is only read, as a state that a follower has made: no file
    /// of it is written, and copies need the rooms that jobs have.
    ///
    /// # Panics
    /// If the database was opened to be written.
    #[must_use]
    pub fn of_read_only(database: &'a Database) -> Self {
        assert!(database.options.access == Access::ReadOnly, "it needs the check of its process");
        Self { database }
    }

    /// The database.
    #[inline]
    #[must_use]
    pub fn database(self) -> &'a Database {
        self.database
    }

    /// Checks that `family` may be written.
    ///
    /// # Errors
    /// `NotFound`, if it was dropped; `ReadOnly`, `Poisoned`, `Closed`.
    pub fn check(self, family: &FamilyData) -> Result<()> {
        self.database.health.check()?;
        family.check()
    }

    /// What an install needs.
    #[must_use]
    pub fn installer(self) -> Installer<'a> {
        self.database.installer()
    }

    /// What a job needs.
    #[must_use]
    pub fn job_rooms(self) -> JobRooms<'a> {
        self.database.job_rooms()
    }
}
