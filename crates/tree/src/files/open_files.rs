//! The table files of a database that are in use, each opened once and only when it is read.
//!
//! It removes nothing: a purge asks it which files are in use.

mod closed;
mod seen;
mod shared;

use crate::files::{
    key_slice::visible_range,
    obsolete::ObsoleteFiles,
    prefix_counters::PrefixCounters,
    table_file::{MissingFile, Remover, TableFile},
    table_store::{TableStore, not_open},
    weak_map::WeakMap,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{File, Fs, ReadIo},
    id::{FileNumber, SequenceNumber},
    key::LookupKey,
    seeded_fault,
    sync::lock,
    tombstone::Fragments,
};
use siltdb_disk::{
    cache::Cache,
    edit::{TableReference, tier::Tier},
    table::{FoundEntry, Table, TableFilter, TableLocation, TableScan},
    table_meta::{KeySpan, TableMeta},
};
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};

/// Where a table lies: unique in a database, because file numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId {
    /// The number of the file.
    pub file: FileNumber,
    /// The table's offset in the file, in bytes.
    pub offset: u64,
}

impl TableId {
    /// The first in order.
    pub const MIN: Self = Self { file: FileNumber(0), offset: 0 };

    /// The last in order.
    pub const MAX: Self = Self { file: FileNumber(u64::MAX), offset: u64::MAX };
}

/// The table files of one database that are in use, and what it takes to open one.
///
/// # Thread safety
/// Any thread may ask for references and open tables. The lock of the directory of files is never
/// held during IO. If several threads read through one reference whose table is not open, one opens
/// it, and the others wait for it. Two references to one table may each open it.
pub struct OpenFiles {
    directory: Arc<dyn Fs>,
    hot: TableStore,
    cold: Mutex<Option<TableStore>>,
    read_io: ReadIo,
    cache: Arc<Cache>,
    files: WeakMap<FileNumber, SharedFile>,
    obsolete: Arc<ObsoleteFiles>,
    /// What filters told.
    pub prefixes: PrefixCounters,
    missing: Arc<MissingFile>,
}

impl OpenFiles {
    /// No file in use, of the database in `directory`; data blocks will be read as `read_io` says.
    #[must_use]
    pub fn new(directory: Arc<dyn Fs>, read_io: ReadIo, cache: Arc<Cache>) -> Arc<Self> {
        Self::of(directory, read_io, cache, Remover::Ours)
    }

    /// As [`OpenFiles::new`], for files that another process may remove at any time. A missing file
    /// is `Busy`, not damage.
    #[must_use]
    pub fn following(directory: Arc<dyn Fs>, read_io: ReadIo, cache: Arc<Cache>) -> Arc<Self> {
        Self::of(directory, read_io, cache, Remover::Writer)
    }

    fn of(
        directory: Arc<dyn Fs>,
        read_io: ReadIo,
        cache: Arc<Cache>,
        remover: Remover,
    ) -> Arc<Self> {
        let (files, prefixes) = (WeakMap::default(), PrefixCounters::default());
        let missing = Arc::new(MissingFile::new(remover));
        let (hot, cold) = (TableStore::new(Arc::clone(&directory)), Mutex::default());
        let obsolete = Arc::default();
        Arc::new(Self { directory, hot, cold, read_io, cache, files, obsolete, prefixes, missing })
    }

    /// The directory of the database.
    #[must_use]
    pub fn directory(&self) -> &Arc<dyn Fs> {
        &self.directory
    }

    /// The cache of their blocks.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// From now on a missing file is no damage, because others may remove files.
    pub fn close(&self) {
        self.missing.close();
    }

    /// From now on tables of the cold tier are those of `store`.
    pub fn attach_cold(&self, store: TableStore) {
        *lock(&self.cold) = Some(store);
    }

    /// The files of a tier; `None` for a cold tier that was not attached.
    #[must_use]
    pub fn store(&self, tier: Tier) -> Option<TableStore> {
        match tier {
            Tier::Hot => Some(self.hot.clone()),
            Tier::Cold => lock(&self.cold).clone(),
        }
    }

    /// The tier of a file that is in use; hot for any other.
    #[must_use]
    pub fn tier_of(&self, number: FileNumber) -> Tier {
        self.files.get(&number).map_or(Tier::Hot, |file| file.tier)
    }

    /// The path of a table file, for messages. The path of one that is not in use is a hot one.
    #[must_use]
    pub fn path(&self, number: FileNumber) -> PathBuf {
        self.store(self.tier_of(number)).unwrap_or_else(|| self.hot.clone()).path(number)
    }

    /// Opens a file that is in use, or finds it open if another process may have removed it.
    ///
    /// # Errors
    /// As a read of its tables: a missing file is damage, unless other processes remove files.
    pub fn open_file(&self, number: FileNumber) -> Result<Arc<dyn File>> {
        if self.missing.is_removed_by_writer() {
            let claimed = self.files.get(&number);
            if let Some(file) = claimed.and_then(|claimed| claimed.file.get().cloned()) {
                return Ok(file);
            }
        }
        let store = self.store(self.tier_of(number)).ok_or_else(not_open)?;
        store.open(number).map_err(|error| self.missing.explain(error, &store.path(number)))
    }

    /// Removes a table file, in whichever tier it lies.
    ///
    /// # Errors
    /// `NotFound` and the system's.
    pub fn remove(&self, number: FileNumber) -> Result<()> {
        match (self.hot.delete(number), self.store(Tier::Cold)) {
            // No number is that of two files.
            (Err(error), Some(cold)) if error.kind() == ErrorKind::NotFound => cold.delete(number),
            (removed, _) => removed,
        }
    }

    /// Claims a table file of the hot tier, as [`OpenFiles::claim_in`].
    #[must_use]
    pub fn claim(&self, number: FileNumber) -> Arc<SharedFile> {
        self.claim_in(Tier::Hot, number)
    }

    /// Claims a table file: it counts as in use for as long as the result lives.
    #[must_use]
    pub fn claim_in(&self, tier: Tier, number: FileNumber) -> Arc<SharedFile> {
        self.files.get_or_insert_with(number, || {
            let (tables, lean) = (WeakMap::default(), WeakMap::default());
            let (file, references) = (OnceLock::new(), WeakMap::default());
            let obsolete = Arc::clone(&self.obsolete);
            SharedFile { number, tier, file, tables, lean, references, obsolete }
        })
    }

    /// Whether a version, a view or a job uses the file.
    ///
    /// A file that no installed version names and that is not in use stays unused: purge may remove
    /// it.
    #[must_use]
    pub fn is_in_use(&self, number: FileNumber) -> bool {
        self.files.contains(&number)
    }

    /// Notes that no version refers to the files `numbers` any more.
    pub fn forget(&self, numbers: impl IntoIterator<Item = FileNumber>) {
        self.obsolete.note(numbers);
    }

    /// Takes out the noted files that are not in use any more. The caller removes them.
    ///
    /// # Seeded fault
    /// `file_removed_while_a_clone_needs_it`: files in use count as unused.
    #[must_use]
    pub fn take_unused(&self) -> Vec<FileNumber> {
        self.obsolete.take_unused(|number| {
            self.is_in_use(number) && !seeded_fault!("file_removed_while_a_clone_needs_it")
        })
    }

    /// A reference that opens its table when it is first read. Equal references are one, so that
    /// many clones of a family take little more memory than the family.
    ///
    /// # Errors
    /// Corruption, if the key slice of the reference leaves nothing of its table, or if another
    /// reference says that the file lies in another tier.
    pub fn reference(
        self: &Arc<Self>,
        reference: impl Into<Arc<TableReference>>,
    ) -> Result<Arc<OpenReference>> {
        let reference = reference.into();
        let range = visible_range(&reference)?;
        let file = self.claim_in(reference.tier, reference.file);
        if file.tier != reference.tier {
            let message = format!("a table file lies in two tiers. file={}", reference.file);
            return Err(Error::corruption(message));
        }
        if let Some(found) = file.find_reference(&reference) {
            return Ok(found);
        }
        let files = self.clone();
        // A table that was just written and verified, or that moves, is open already.
        let open = file.find_open(reference.offset);
        let open = open.filter(|table| *table.meta() == reference.meta);
        let (table, narrow) = (open.map_or_else(OnceLock::new, OnceLock::from), OnceLock::new());
        let (filter, by_frames, opening) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let is_whole = reference.visible_to.is_none()
            && reference.key_slice.is_none()
            && reference.global_sequence.is_none();
        let opened = Arc::new(OpenReference {
            is_whole,
            has_range_tombstones: reference.meta.range_tombstones > 0,
            reference,
            range,
            file,
            files,
            filter,
            table,
            by_frames,
            opening,
            narrow,
        });
        opened.file.references.insert(opened.reference.offset, &opened);
        Ok(opened)
    }
}

impl fmt::Debug for OpenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFiles").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A table file in use; all tables in it share one open file.
#[derive(Debug)]
pub struct SharedFile {
    number: FileNumber,
    tier: Tier,
    file: OnceLock<Arc<dyn File>>,
    /// The open tables by offset.
    tables: WeakMap<u64, Table>,
    /// Those whose index stays in the file.
    lean: WeakMap<u64, Table>,
    /// The last reference to each table, by offset.
    references: WeakMap<u64, OpenReference>,
    obsolete: Arc<ObsoleteFiles>,
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        self.obsolete.note_released(self.number);
    }
}

impl SharedFile {
    fn open(&self, files: &Arc<OpenFiles>) -> Result<&Arc<dyn File>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let store = files.store(self.tier).ok_or_else(not_open)?;
        let path = store.path(self.number);
        let file = store.open(self.number);
        let file = file.map_err(|error| files.missing.explain(error, &path))?;
        let file = Arc::new(TableFile::new(file, path, Arc::clone(&files.missing)));
        Ok(self.file.get_or_init(|| file))
    }

    fn find_reference(&self, wanted: &TableReference) -> Option<Arc<OpenReference>> {
        self.references.get(&wanted.offset).filter(|found| *found.reference == *wanted)
    }

    fn find_open(&self, offset: u64) -> Option<Arc<Table>> {
        self.tables.get(&offset)
    }
}

/// A table as one version of one tree sees it.
///
/// # Thread safety
/// Immutable, but for the table being opened once.
pub struct OpenReference {
    reference: Arc<TableReference>,
    /// What each lookup asks of the reference, so that it need not be loaded.
    is_whole: bool,
    has_range_tombstones: bool,
    range: KeySpan,
    file: Arc<SharedFile>,
    files: Arc<OpenFiles>,
    /// Read by the first lookup, unless the table is open.
    filter: OnceLock<TableFilter>,
    table: OnceLock<Arc<Table>>,
    /// The table without its index, for readers while there is no memory to hold it open.
    by_frames: OnceLock<Arc<Table>>,
    /// Held while the filter is being read or the table opened.
    opening: Mutex<()>,
    /// The range tombstones of a reference that narrows its table.
    narrow: OnceLock<Arc<Fragments>>,
}

impl OpenReference {
    /// What the manifest says of it.
    #[must_use]
    pub fn reference(&self) -> &Arc<TableReference> {
        &self.reference
    }

    /// What is known of its table without opening it.
    #[inline]
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.reference.meta
    }

    /// Where it lies.
    #[must_use]
    pub fn id(&self) -> TableId {
        TableId { file: self.reference.file, offset: self.reference.offset }
    }

    /// Holds every key that is seen through this reference.
    #[inline]
    #[must_use]
    pub fn range(&self) -> &KeySpan {
        &self.range
    }

    /// The table, for a reader. Opens it if it is not open; it then stays open.
    ///
    /// # Errors
    /// What opening a table fails with; the next call tries again.
    #[inline]
    pub fn table(&self) -> Result<&Arc<Table>> {
        match self.table.get() {
            Some(table) => Ok(table),
            None => self.open(),
        }
    }

    /// Whether readers have looked at the table lately: see [`Table::is_read`].
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.table.get().is_some_and(|table| table.is_read())
    }

    /// The table, opened ahead of a reader that is to find it open. It stays open as long as the
    /// result lives, or if it is read meanwhile.
    ///
    /// # Errors
    /// What opening a table fails with.
    pub fn open_ahead(&self) -> Result<Arc<Table>> {
        match self.table.get() {
            Some(table) => Ok(Arc::clone(table)),
            None => self.file.table(&self.files, &self.reference),
        }
    }

    /// The table, for a job, which reads it once, whether or not a reader has it open.
    ///
    /// # Errors
    /// What opening a table fails with.
    pub fn pass(&self) -> Result<Arc<TableScan>> {
        let TableReference { offset, length, meta, .. } = &*self.reference;
        let file = self.file.open(&self.files)?.clone();
        let path = self.files.path(self.reference.file);
        TableScan::open(TableLocation::new(file, &path, *offset, *length), meta)
    }

    /// The file of the table as it lies in its tier, to be copied.
    ///
    /// # Errors
    /// As [`OpenFiles::open_file`].
    pub fn open_file(&self) -> Result<Arc<dyn File>> {
        self.files.open_file(self.reference.file)
    }

    /// Opens the file of the table, if it is not open, so that the table can be read after the file
    /// was removed. A process with too few descriptors closes it again.
    ///
    /// # Errors
    /// What opening a file fails with.
    pub fn hold_file(&self) -> Result<()> {
        self.file.open(&self.files).map(drop)
    }

    /// Prefetches the memory that a lookup will look at first, if it was read.
    #[inline]
    pub fn prefetch(&self, key: LookupKey<'_>) {
        if let Some(table) = self.table.get() {
            table.prefetch(key);
        } else if let Some(filter) = self.filter.get() {
            filter.prefetch(key);
        }
    }

    /// Whether an entry of the key may be seen through this reference, as far as can be told
    /// without a search; `false` is certain.
    #[inline]
    #[must_use]
    pub fn may_hold(&self, key: LookupKey<'_>) -> bool {
        match self.table.get() {
            Some(table) => table.may_hold(key),
            None => match (self.filter.get(), self.by_frames.get()) {
                (Some(filter), _) => filter.may_contain(key),
                (None, Some(lean)) => lean.may_hold(key),
                (None, None) => true,
            },
        }
    }

    /// Calls `look` with the newest entry of `key` up to `visible` that is seen through this
    /// reference, if there is one.
    ///
    /// A table that is not open is opened only if its filter lets the key pass.
    ///
    /// # Errors
    /// What reading filter or table fails with.
    #[inline]
    pub fn get<R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        if self.is_whole() {
            self.get_whole(key, visible, look)
        } else {
            self.get_narrow(key, visible, look)
        }
    }

    #[inline]
    fn get_whole<R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        match self.table.get() {
            Some(table) => table.get(key, visible, look),
            None => match self.filter.get() {
                Some(filter) if !filter.may_contain(key) => Ok(None),
                _ => self.get_closed(key, visible, look),
            },
        }
    }

    fn get_narrow<R>(
        &self,
        key: LookupKey<'_>,
        visible: SequenceNumber,
        look: impl FnOnce(FoundEntry<'_>) -> R,
    ) -> Result<Option<R>> {
        let reference = &*self.reference;
        let visible = reference.visible_to.map_or(visible, |limit| limit.min(visible));
        if reference.key_slice.as_ref().is_some_and(|slice| !slice.contains(key.key())) {
            return Ok(None);
        }
        match reference.global_sequence {
            None => self.get_whole(key, visible, look),
            Some(sequence) if sequence > visible => Ok(None),
            Some(sequence) => {
                let look = |found: FoundEntry<'_>| look(FoundEntry { sequence, ..found });
                self.get_whole(key, SequenceNumber::MAX, look)
            }
        }
    }

    #[inline]
    fn filter(&self) -> Result<&TableFilter> {
        match self.filter.get() {
            Some(filter) => Ok(filter),
            None => self.read_filter(),
        }
    }

    #[cold]
    fn read_filter(&self) -> Result<&TableFilter> {
        let _opening = lock(&self.opening);
        if let Some(filter) = self.filter.get() {
            return Ok(filter);
        }
        let filter = self.file.filter(&self.files, &self.reference)?;
        Ok(self.filter.get_or_init(|| filter))
    }

    #[cold]
    fn open(&self) -> Result<&Arc<Table>> {
        let _opening = lock(&self.opening);
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = self.file.table(&self.files, &self.reference)?;
        if let Some(filter) = self.filter.get() {
            table.share_filter(filter);
        }
        Ok(self.table.get_or_init(|| table))
    }
}

impl fmt::Debug for OpenReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenReference")
            .field("file", &self.reference.file)
            .field("offset", &self.reference.offset)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
