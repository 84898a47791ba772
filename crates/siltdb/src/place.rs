//! Databases as places: removing one, one that removes itself, and looking at one from outside.

use crate::{
    db::Db,
    options::{Create, Options},
};
use siltdb_base::error::{Error, ErrorKind, Result};
use siltdb_engine::{
    open::{destroy::destroy, family_names::family_names},
    options::Lifetime,
    random::Random,
};
use std::{env, path::Path, process};

/// Names that are tried for a temporary directory.
const ATTEMPTS_MAX: usize = 16;

impl Db {
    /// Removes the database in the directory `path`, with everything in it, and the directory if
    /// nothing else lies there. Durable on return. There is no way back.
    ///
    /// Only files with names of ours are removed, and only if `CURRENT` is ours: the directory of
    /// another store is left alone. After a crash on the way the rest can be removed again.
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

    /// Opens a new database in a directory of its own, which is removed when the database is
    /// closed: for tests, and for data that outgrows memory and need not last.
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

    /// The names of the families of the database in the directory `path`, sorted, as its manifest
    /// says. Takes no lock and writes nothing, so that another process may have it open.
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
    /// newer version wrote it; the system's.
    pub fn list_families(path: impl AsRef<Path>) -> Result<Vec<String>> {
        Options::new().list_families(path)
    }

    /// The directory that it lies in, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.engine().dir
    }
}

impl Options {
    /// Removes a database, as [`Db::destroy`] does; of the options the file system and
    /// [`Options::lock_wait`] count.
    ///
    /// # Errors
    /// `NotFound`, if there is no database; `Locked`, if any process has it open; `Corruption`, if
    /// `CURRENT` is not one of ours; `InvalidArgument`, if the path is a file; the system's. In all
    /// cases but the last nothing was removed.
    pub fn destroy(&self, path: impl AsRef<Path>) -> Result<()> {
        destroy(path.as_ref(), &self.engine)
    }

    /// The names of the families of a database, as [`Db::list_families`]; of the options the file
    /// system counts.
    ///
    /// # Errors
    /// As [`Db::list_families`].
    pub fn list_families(&self, path: impl AsRef<Path>) -> Result<Vec<String>> {
        family_names(&*self.engine.fs, path.as_ref())
    }

    /// Opens a new database that lasts until it is closed, or until the last of its handles is
    /// dropped: then its files and its directory are removed. The directory lies where the system
    /// keeps temporary files ([`std::env::temp_dir`]), with the permissions that the process gives
    /// new directories. A process that is killed leaves it behind.
    ///
    /// Nothing is flushed or synced when it is closed. Iterators that outlive that go on reading
    /// the files that they have open.
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
            // What lies there already is not to be removed.
            if self.engine.fs.metadata(&path)?.is_none() {
                return self.open(path);
            }
        }
        Err(Error::new(ErrorKind::AlreadyExists, "no free name for a temporary database"))
    }
}
