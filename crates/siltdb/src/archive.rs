//! Archives: what a snapshot sees, exported to one portable, sorted, checksummed file.
//!
//! [`Db::archive`] writes one, [`Db::import_archive`] makes families of it, and [`Archive`] reads
//! and verifies it without a database. docs/archives.md has the promises and the bytes.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = |name: &str| dir.path().join(name);
//! use siltdb::{Db, Read, archive::Archive};
//!
//! let db = Db::open(path("data"))?;
//! db.put("key", "value")?;
//! db.archive(path("monday.siltar"))?;
//!
//! let archive = Archive::open(path("monday.siltar"))?;
//! assert_eq!(archive.info().entries(), 1);
//! assert_eq!(archive.family("default")?.get("key")?.as_deref(), Some(&b"value"[..]));
//!
//! let other = Db::open(path("other"))?;
//! other.import_archive(path("monday.siltar"))?;
//! assert_eq!(other.get("key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    db::Db, key_order::KeyOrder, key_range::KeyRange, options::Options, snapshot::Snapshot,
};
use siltdb_base::{
    clock::Clock,
    cursor::ForwardCursor,
    error::{Error, ErrorKind, Result},
    key::{Entry, EntryKind, split_expiring, successor},
    slice::Slice,
};
use siltdb_disk::archive::{cursor::ArchiveCursor, reader::ArchiveFile};
use siltdb_engine::kit::copying::{CopyProgress, FileCopy};
use siltdb_services::archive::{
    cleanup::{CleanupRequest, clean_archives, remove_archive},
    create::{ArchiveRequest, create_archive},
    import::{ExistingFamilies, ImportRequest, ImportedOperators, import_archive},
    list::list_archives,
    place::open_archive,
};
use std::{
    collections::BTreeMap,
    fmt,
    iter::FusedIterator,
    ops::{Bound, ControlFlow},
    path::Path,
    sync::Arc,
    time::Duration,
};

pub use siltdb_services::archive::{
    cleanup::CleanupReport,
    import::{ArchiveImport, ImportedFamily},
    info::{ArchiveFamilyInfo, ArchiveInfo},
    list::ArchiveListing,
};

/// What [`Db::archive_with`] exports, and how fast.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOptions {
    request: ArchiveRequest,
    snapshot: Option<Snapshot>,
}

impl ArchiveOptions {
    /// All families as they are now, as fast as possible.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The branch of which the archive holds families, under their names on the branch. Default:
    /// `main`, the database itself.
    #[must_use]
    pub fn branch(mut self, name: impl Into<String>) -> Self {
        self.request.branch = Some(name.into());
        self
    }

    /// The names of the families that the archive holds. Default: all.
    #[must_use]
    pub fn families<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.request.families = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Exports what this snapshot sees. Families are those that there are at the call; one that was
    /// created after the snapshot is empty. Default: a snapshot that is taken by the call.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &Snapshot) -> Self {
        self.snapshot = Some(snapshot.clone());
        self
    }

    /// Bytes written a second, at most; from 1 on. Default: no limit.
    #[must_use]
    pub fn rate(mut self, bytes: u64) -> Self {
        self.request.rate = Some(bytes);
        self
    }
}

/// What [`Db::import_archive_with`] does.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    request: ImportRequest,
}

impl ImportOptions {
    /// All families of the archive, under their own names; none of them may exist.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Imports the family `from` of the archive, as the family `name`. May be called several times;
    /// then only these families are imported. Default: all, under their own names.
    #[must_use]
    pub fn family(mut self, from: impl Into<String>, name: impl Into<String>) -> Self {
        let families = self.request.families.get_or_insert_with(BTreeMap::new);
        families.insert(from.into(), name.into());
        self
    }

    /// Whether a family that exists is dropped, and the imported one takes its name. Handles of the
    /// old one fail with `NotFound` then. The family `default` is never replaced. Default: no.
    #[must_use]
    pub fn replace(mut self, replaces: bool) -> Self {
        self.request.existing =
            if replaces { ExistingFamilies::Replace } else { ExistingFamilies::Refuse };
        self
    }

    /// Whether families keep the merge operators that they had. The database must have been opened
    /// with these. Without them, families are plain: the values in an archive are folded. Default:
    /// yes.
    #[must_use]
    pub fn merge_operators(mut self, keeps: bool) -> Self {
        self.request.operators =
            if keeps { ImportedOperators::Keep } else { ImportedOperators::Leave };
        self
    }
}

impl Db {
    /// Exports all families to a new file at `path`, which ends in `.siltar`. It has what a
    /// snapshot sees that is taken by the call, so that readers and writers go on meanwhile. On
    /// return it is durable and verified.
    ///
    /// An archive holds keys and values, their expiries, and the options of the families, among
    /// them buckets and the counters of `next_id`. It does not hold the sequence numbers, nor what
    /// is deleted or has expired. A value with operands is folded, and does not expire. Prepared
    /// transactions are not in it.
    ///
    /// Cost: reads all families past no cache; writes the file, and reads it twice. Memory for one
    /// table of each family at a time: 8 bytes a key and an index. A database that is only read can
    /// be exported, too.
    ///
    /// # Errors
    /// `InvalidArgument`, if `path` does not end in `.siltar`, or lies in the directory of a
    /// database; `AlreadyExists`; `NotFound`, if its directory is missing; `Locked`, while archives
    /// are made or removed in that directory; `Corruption`, if a table is damaged; the error of a
    /// merge operator; `NoSpace`, `Closed`; the system's. There is no such file then, unless the
    /// last step alone failed, the sync of its name.
    pub fn archive(&self, path: impl AsRef<Path>) -> Result<ArchiveInfo> {
        let options = ArchiveOptions::new();
        self.archive_with(path, &options, &mut |_| ControlFlow::Continue(()))
    }

    /// Exports what `options` choose, as [`Db::archive`] does. `on_progress` is called now and
    /// then, with an estimate of all bytes; by `Break` it cancels the export.
    ///
    /// # Errors
    /// As [`Db::archive`]; `NotFound`, if there is no such family or branch; `InvalidArgument`, for
    /// a rate of 0 or a snapshot of another open database; `Cancelled`.
    pub fn archive_with(
        &self,
        path: impl AsRef<Path>,
        options: &ArchiveOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<ArchiveInfo> {
        let ArchiveOptions { request, snapshot } = options;
        if let Some(snapshot) = snapshot {
            // It refuses a family of another database.
            snapshot.family(&self.default)?;
        }
        let at = snapshot.as_ref().map(Snapshot::live);
        // A forked child must not lock a directory.
        let database = self.engine().writable()?.database();
        create_archive(database, path.as_ref(), at, request, on_progress)
    }

    /// Makes families of those of the archive at `path`: all or none of them, durably on return. A
    /// family must not exist; `default` must be empty. An empty `default` of the archive is left
    /// out.
    ///
    /// Entries that have expired are left out. Families get the options that they had, but
    /// `default` keeps its own. The entries count as older than everything that is written later.
    /// An import is no commit: [`Db::subscribe`] does not tell of it, and a snapshot that is older
    /// than the import may see its families.
    ///
    /// Cost: a flush, then the archive is read and its entries are written to tables, which are
    /// read again. Then one edit of the manifest. While `default` is filled, commits to it wait for
    /// that edit.
    ///
    /// # Errors
    /// `NotFound`, if there is no file; `InvalidArgument`, if it is no archive, or a family needs a
    /// merge operator that was not given; `Corruption`, if it is damaged; `AlreadyExists`; `Busy`,
    /// if `default` is to be filled while there are snapshots or its keys are locked; as
    /// [`Db::flush`] and [`Db::create_family`]. Nothing has changed then.
    pub fn import_archive(&self, path: impl AsRef<Path>) -> Result<ArchiveImport> {
        let options = ImportOptions::new();
        self.import_archive_with(path, &options, &mut |_| ControlFlow::Continue(()))
    }

    /// Imports what `options` choose, as [`Db::import_archive`] does. `on_progress` is told of the
    /// bytes of keys and values; by `Break` it cancels the import.
    ///
    /// # Errors
    /// As [`Db::import_archive`]; `NotFound`, if the archive has no such family; `Cancelled`.
    pub fn import_archive_with(
        &self,
        path: impl AsRef<Path>,
        options: &ImportOptions,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<ArchiveImport> {
        let (path, request) = (path.as_ref(), &options.request);
        self.engine().at_work(|database| import_archive(database, path, request, on_progress))
    }
}

/// An archive that is open for reading, without a database.
///
/// Each read verifies what it reads; [`Archive::verify`] reads all.
#[derive(Clone)]
pub struct Archive {
    file: Arc<ArchiveFile>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("path", &self.info().path).finish()
    }
}

impl fmt::Debug for ArchiveFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.archive.info().path;
        f.debug_struct("ArchiveFamily").field("name", &self.name).field("path", &path).finish()
    }
}

impl fmt::Debug for ArchiveIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveIter").finish_non_exhaustive()
    }
}

impl Archive {
    /// Opens the archive at `path`, whatever the file is called. Its header and its list of
    /// families are read and verified.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument`, if it is no archive; `Corruption`, if it is cut short or
    /// damaged; `Unsupported`, if a newer version wrote it; the system's.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::new())
    }

    /// The same. Of the options the file system and the clock count.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let file = open_archive(path.as_ref(), &options.engine)?;
        Ok(Self { file, clock: Arc::clone(&options.engine.clock) })
    }

    /// What it holds.
    #[must_use]
    pub fn info(&self) -> ArchiveInfo {
        ArchiveInfo::of(&self.file)
    }

    /// Reads all of it, and verifies its checksum and each block. `on_progress` cancels by `Break`.
    ///
    /// # Errors
    /// `Corruption` with file and offset; `Cancelled`; the system's.
    pub fn verify(
        &self,
        on_progress: &mut dyn FnMut(CopyProgress) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut reading = FileCopy::new(&*self.clock, None, on_progress)?;
        // It is read twice.
        reading.begin(2 * self.file.bytes())?;
        self.file.verify(&mut |bytes| reading.pass(bytes))?;
        // Header, directory and footer belong to no table.
        reading.end()
    }

    /// One of its families.
    ///
    /// # Errors
    /// `NotFound`, if it has none of this name.
    pub fn family(&self, name: &str) -> Result<ArchiveFamily> {
        self.file.cursor(name)?;
        Ok(ArchiveFamily { archive: self.clone(), name: name.to_owned() })
    }
}

/// A family of an [`Archive`].
///
/// Values that have expired are not shown.
#[derive(Clone)]
pub struct ArchiveFamily {
    archive: Archive,
    name: String,
}

impl ArchiveFamily {
    /// The order of its keys; the order of bytes, if this version cannot read its options.
    #[must_use]
    pub fn key_order(&self) -> KeyOrder {
        let families = self.archive.info().families;
        let found = families.into_iter().find(|family| family.name == self.name);
        KeyOrder::stored(found.and_then(|family| family.key_order))
    }

    /// The value of a key. Reads a part of the index and a block, past every cache.
    ///
    /// # Errors
    /// `Corruption`, with file and offset; the system's.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        let key = key.as_ref();
        let mut cursor = self.archive.file.cursor(&self.name)?;
        cursor.seek(key)?;
        let now_ms = self.archive.clock.wall_ms();
        match cursor.entry() {
            Some(entry) if entry.key == key => Ok(value_at(&entry, now_ms)?.map(Slice::copy_from)),
            _ => Ok(None),
        }
    }

    /// The entries of a range, in the order of their keys.
    ///
    /// # Errors
    /// As [`ArchiveFamily::get`].
    pub fn range(&self, range: impl KeyRange) -> Result<ArchiveIter> {
        let mut cursor = self.archive.file.cursor(&self.name)?;
        match range.start() {
            Bound::Unbounded => cursor.seek_to_first()?,
            Bound::Included(key) => cursor.seek(key)?,
            Bound::Excluded(key) => cursor.seek(&successor(key))?,
        }
        let upper = match range.end() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
        };
        Ok(ArchiveIter { cursor: Some(cursor), clock: Arc::clone(&self.archive.clock), upper })
    }

    /// All entries, in the order of their keys.
    ///
    /// # Errors
    /// As [`ArchiveFamily::get`].
    pub fn iter(&self) -> Result<ArchiveIter> {
        self.range(..)
    }
}

/// The value of an entry at this time; `None` if it has expired.
fn value_at<'a>(entry: &Entry<'a>, now_ms: u64) -> Result<Option<&'a [u8]>> {
    match entry.kind {
        EntryKind::Put => Ok(Some(entry.value)),
        EntryKind::PutExpiring => {
            let (expiry_ms, value) = split_expiring(entry.value)?;
            Ok((expiry_ms > now_ms).then_some(value))
        }
        kind => Err(Error::new(ErrorKind::Unsupported, "an archive has an entry of another kind")
            .with_mismatch("a value", format_args!("{kind:?}"))),
    }
}

/// Entries of an [`ArchiveFamily`]. After an error it ends.
pub struct ArchiveIter {
    cursor: Option<ArchiveCursor>,
    clock: Arc<dyn Clock>,
    /// The first key behind the range.
    upper: Option<Vec<u8>>,
}

impl ArchiveIter {
    fn step(&mut self) -> Result<Option<(Slice, Slice)>> {
        let Some(cursor) = &mut self.cursor else { return Ok(None) };
        let now_ms = self.clock.wall_ms();
        while let Some(entry) = cursor.entry() {
            if self.upper.as_ref().is_some_and(|upper| entry.key >= upper.as_slice()) {
                break;
            }
            let shown = value_at(&entry, now_ms)?
                .map(|value| (Slice::copy_from(entry.key), Slice::copy_from(value)));
            cursor.next()?;
            if shown.is_some() {
                return Ok(shown);
            }
        }
        Ok(None)
    }
}

impl Iterator for ArchiveIter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.cursor = None;
        }
        step.transpose()
    }
}

impl FusedIterator for ArchiveIter {}

/// The archives in the directory `dir`, by name: files whose names end in `.siltar`. Their entries
/// are not read. Of the options the file system counts.
///
/// # Errors
/// The system's. An archive that cannot be read is among [`ArchiveListing::errors`].
pub fn list(dir: impl AsRef<Path>, options: &Options) -> Result<ArchiveListing> {
    list_archives(dir.as_ref(), &options.engine)
}

/// Removes the archive at `path`, damaged or not, durably. Returns its length, in bytes. Of the
/// options the file system and [`Options::lock_wait`] count.
///
/// # Errors
/// `NotFound`; `InvalidArgument`, if `path` does not end in `.siltar`, lies in the directory of a
/// database, or the file does not begin as an archive; `Locked`, while archives are made or removed
/// there; the system's.
pub fn remove(path: impl AsRef<Path>, options: &Options) -> Result<u64> {
    remove_archive(path.as_ref(), &options.engine)
}

/// Which archives [`clean`] removes.
#[derive(Clone, Debug, Default)]
pub struct CleanOptions {
    request: CleanupRequest,
}

impl CleanOptions {
    /// No archive: only what exports have left that were killed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All but the newest `archives`, of those that are old enough.
    #[must_use]
    pub fn keep(mut self, archives: u64) -> Self {
        self.request.keep = Some(archives);
        self
    }

    /// Those that were made at least this long ago, but for the newest ones that stay.
    #[must_use]
    pub fn older_than(mut self, age: Duration) -> Self {
        self.request.older_than = Some(age);
        self
    }

    /// Whether the call only says what it would remove. Default: no.
    #[must_use]
    pub fn dry_run(mut self, is_dry: bool) -> Self {
        self.request.is_dry = is_dry;
        self
    }
}

/// Removes what killed exports have left in the directory `dir`, and the archives that `options`
/// choose, durably. Of `opening` the file system, the clock and [`Options::lock_wait`] count.
///
/// All archives of the directory count, of whatever database. One that cannot be read stays.
///
/// # Errors
/// `NotFound`; `InvalidArgument`, if `dir` belongs to a database; `Locked`, while archives are made
/// or removed there; the system's.
pub fn clean(
    dir: impl AsRef<Path>,
    options: &CleanOptions,
    opening: &Options,
) -> Result<CleanupReport> {
    clean_archives(dir.as_ref(), &options.request, &opening.engine)
}
