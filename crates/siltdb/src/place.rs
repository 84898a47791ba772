//! The directory of a database: removal, temporary databases, and families listed without opening.

use crate::{
    db::Db,
    options::{Create, Options},
};
use siltdb_base::error::{Error, ErrorKind, Result};
use siltdb_engine::{
    kit::random::Random,
    open::{destroy::destroy, family_names::family_names},
    options::Lifetime,
    reports::kept::KeptFiles,
};
use std::{env, path::Path, process};

/// Names that are tried for a temporary directory; a collision of random names is rare already.
const ATTEMPTS_MAX: usize = 16;

impl Db {
    /// Removes the database in the directory `path` with all its files, durably on return and
    /// beyond recovery. The directory is removed if no other file lies in it.
    ///
    /// Only files with names of the engine are removed, and only if `CURRENT` is valid: the
    /// directory of another store stays as it is. After a crash in the middle, the call can be
    /// repeated.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("data");
    /// use siltdb::{Db, ErrorKind};
    ///
    /// let db = Db::open(&path)?;
    /// assert_eq!(Db::destroy(&path).unwrap_err().kind(), ErrorKind::Locked);
    /// db.close()?;
    /// Db::destroy(&path)?;
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Options::destroy`].
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Options::new().destroy(path)
    }

    /// Opens a new database in a directory of its own, and removes both when the database is
    /// closed. For tests, and for data that outgrows memory and need not last.
    ///
    /// ```
    /// use siltdb::{Db, Read};
    ///
    /// let db = Db::temporary()?;
    /// db.put("key", "value")?;
    /// assert!(db.contains("key")?);
    /// let path = db.path().to_owned();
    /// drop(db);
    /// assert!(!path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Options::temporary`].
    pub fn temporary() -> Result<Self> {
        Options::new().temporary()
    }

    /// Returns the names of the families of the database in the directory `path`, sorted, by its
    /// manifest. Takes no lock and writes nothing, so another process may have the database open.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{Db, FamilyOptions};
    ///
    /// let db = Db::open(dir.path())?;
    /// db.create_family("users", FamilyOptions::new())?;
    /// assert_eq!(Db::list_families(dir.path())?, ["default", "users"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound`, if there is no database; `Corruption` with file and offset; `Unsupported`, if a
    /// newer version wrote it; `Io`.
    pub fn list_families(path: impl AsRef<Path>) -> Result<Vec<String>> {
        Options::new().list_families(path)
    }

    /// Returns what this opening took out of the database and kept in its directory `lost`: durable
    /// records that [`RecoveryMode::PointInTime`](crate::RecoveryMode::PointInTime) cut off, and
    /// tables that neither manifest nor log knows. Mostly nothing.
    ///
    /// The files are no part of the database any more. [`salvage`](crate::salvage::salvage) reads
    /// the directory `lost` as it does that of a database. Copies leave it out, [`Db::destroy`]
    /// removes it.
    #[must_use]
    pub fn kept_files(&self) -> KeptFiles {
        self.engine().database().kept
    }

    /// Returns the directory of the database, as it was given at the opening.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.engine().database().dir
    }
}

impl Options {
    /// Removes a database as [`Db::destroy`] does, with the file system and [`Options::lock_wait`]
    /// of these options.
    ///
    /// # Errors
    /// `NotFound`, if there is no database; `Locked`, if a process has it open; `Corruption`, if
    /// `CURRENT` is not valid; `InvalidArgument`, if the path is a file; `Io`. In all cases but
    /// `Io` nothing was removed.
    pub fn destroy(&self, path: impl AsRef<Path>) -> Result<()> {
        destroy(path.as_ref(), &self.engine)
    }

    /// Returns the names of the families as [`Db::list_families`] does, with the file system of
    /// these options.
    ///
    /// # Errors
    /// As [`Db::list_families`].
    pub fn list_families(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        family_names(&*self.engine.fs, path.as_ref())
    }

    /// Opens a new database and removes its files and its directory when it is closed, or when the
    /// last of its handles is dropped. The directory lies where the system keeps temporary files
    /// ([`std::env::temp_dir`]), with the permissions that the process gives new directories. A
    /// killed process leaves it behind.
    ///
    /// The close flushes and syncs nothing. Iterators that outlive it still read the files that
    /// they have open.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn temporary(mut self) -> Result<Db> {
        self.engine.lifetime = Lifetime::Temporary;
        self.engine.create = Create::New;
        let mut random = Random::new(None);
        for _ in 0..ATTEMPTS_MAX {
            let name = format!("siltdb-{}-{:016x}", process::id(), random.next_u64());
            let path = env::temp_dir().join(name);
            // A directory that exists already must not be removed.
            if self.engine.fs.metadata(&path)?.is_none() {
                return self.open(path);
            }
        }
        Err(Error::new(ErrorKind::AlreadyExists, "no free name for a temporary database"))
    }
}
