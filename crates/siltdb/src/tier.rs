//! Freezing and thawing families: moves of their tables between the hot and the cold tier; and
//! copies of a database that share the cold one.

use crate::{backup::CopyOptions, family::Family, options::Options, source::ReadPlace};
use siltdb_base::error::Result;
use siltdb_engine::{
    jobs::tiers::{freeze, thaw},
    kit::copying::CopyProgress,
    open::destroy::outside,
};
use siltdb_services::adopt::{AdoptionReport, ColdAdoption, adopt};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

impl Options {
    /// Gives its cold tables to a database whose cold directory belongs to another directory: it
    /// was made by copying files, or moved to another file system. An opening for writing refuses
    /// such a database, because what it removes would be missing in the other one.
    ///
    /// [`ColdAdoption::Copies`] copies the tables to the directory of the database, which has no
    /// cold directory from then on. [`ColdAdoption::TakesOver`] makes it the owner of the cold
    /// directory: for one that was moved. A database without a cold directory, or with its own, is
    /// left as it is. Durable on return, and closed. `on_progress` cancels by `Break`; what was
    /// copied stays, and another call goes on.
    ///
    /// # Errors
    /// As [`Options::open`]; `Locked`, while the owner has its database open; `NoSpace`;
    /// `Corruption`, if a table is damaged or missing; `Cancelled`.
    pub fn adopt(
        self,
        path: impl AsRef<Path>,
        adoption: ColdAdoption,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<AdoptionReport> {
        adopt(path.as_ref(), self.engine, adoption, on_progress)
    }

    /// Returns the directory outside of `path` from which [`Options::destroy`] would remove files
    /// of the database in `path`: its cold directory, if it is there and belongs to it.
    ///
    /// # Errors
    /// As [`Options::destroy`]. Nothing is removed.
    pub fn outside(&self, path: impl AsRef<Path>) -> Result<Option<PathBuf>> {
        outside(path.as_ref(), &self.engine)
    }
}

impl Family {
    /// Moves all tables of the family to the cold tier, and keeps them there until
    /// [`Family::thaw`]: it sets [`cold_from_level`](crate::FamilyOptions::cold_from_level) to 0.
    /// The family can be read and written as before; what is written to it later is moved by the
    /// background. Durable on return.
    ///
    /// It flushes first, if the family has something in memory. Each table is copied, read back and
    /// verified, and then replaced by one edit. Readers and writers go on meanwhile. A table that
    /// is shared with a clone stays hot for the clone. Tables of writes during the call need not be
    /// included.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{FamilyOptions, Options, Read};
    ///
    /// let db = Options::new().cold_directory("../cold").open(dir.path().join("data"))?;
    /// let archive = db.create_family("archive", FamilyOptions::new())?;
    /// archive.put("1815", "Ada")?;
    /// archive.freeze()?;
    /// assert_eq!((archive.stats().cold_tables, archive.stats().hot_bytes), (1, 0));
    /// assert_eq!(archive.get("1815")?.as_deref(), Some(&b"Ada"[..]));
    /// archive.thaw()?;
    /// assert_eq!(archive.stats().cold_tables, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`, if the database has no cold directory; as [`Family::thaw`].
    pub fn freeze(&self) -> Result<()> {
        self.freeze_with(&CopyOptions::new(), &mut |_| ControlFlow::Continue(()))
    }

    /// Freezes as [`Family::freeze`], at a limited rate, and tells of its progress. `on_progress`
    /// cancels it by `Break`.
    ///
    /// # Errors
    /// As [`Family::freeze`]; `InvalidArgument`, for a rate of 0; `Cancelled`.
    pub fn freeze_with(
        &self,
        options: &CopyOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let ReadPlace { engine, family, .. } = &self.place;
        engine.at_work(|database| freeze(&database.job_rooms(), family, options.rate, on_progress))
    }

    /// Moves all tables of the family to the directory of the database, and keeps them there: it
    /// sets [`cold_from_level`](crate::FamilyOptions::cold_from_level) to 7. Durable on return.
    ///
    /// # Errors
    /// `NotFound`, if the family was dropped; `NoSpace`, if the disk is full; `Corruption`, if a
    /// table is damaged or its file is missing; `Poisoned`, `Closed`; what a flush fails with.
    /// Tables that have moved stay moved, and the background goes on with the others.
    pub fn thaw(&self) -> Result<()> {
        self.thaw_with(&CopyOptions::new(), &mut |_| ControlFlow::Continue(()))
    }

    /// Thaws as [`Family::thaw`], at a limited rate, and tells of its progress. `on_progress`
    /// cancels it by `Break`.
    ///
    /// # Errors
    /// As [`Family::thaw`]; `InvalidArgument`, for a rate of 0; `Cancelled`.
    pub fn thaw_with(
        &self,
        options: &CopyOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let ReadPlace { engine, family, .. } = &self.place;
        engine.at_work(|database| thaw(&database.job_rooms(), family, options.rate, on_progress))
    }
}
