//! The blob files of a database: which there are, where the next value goes, and what was synced.
//!
//! It writes no value, creates no file and decides about none: `separation` and `jobs::blobs` do.

pub mod blob_file;

use crate::blobs::blob_file::{BlobFile, Writing};
use arc_swap::ArcSwap;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, Metadata},
    id::{BlobUid, FileNumber, SegmentId},
    key::{BlobPointer, EntryKind},
    limits::TABLE_END_MAX,
    slice::Slice,
    sync::lock,
};
use siltdb_disk::{
    batch::{self, BatchBytes, BatchOperation},
    blob::{BLOB_FILE_HEADER_BYTES, record_bytes, window::BlobWindow},
    file_name::FileName,
};
use siltdb_tree::read::visible::resolve::BlobSource;
use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Which files may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBlobs {
    /// Those that the manifest names.
    Named,
    /// Any that is there: the manifest of another process may name more than was read of it.
    Any,
}

/// The blob files of a database.
///
/// # Thread safety
/// Everything may be called from any thread. `creating_io` is held while a file is created; the
/// other locks never during IO. Lock order: `creating_io`, `current`, then any one of the others.
///
/// # Invariants
/// 1. A file is in the manifest, and durable with its name, before a value gets a place in it.
/// 2. A value is written before the record of its commit gets a place in the log. So a sync of the
///    log that follows a sync of the blob files leaves no pointer to bytes that are not durable.
/// 3. A file leaves `set` once no table refers to it, no log segment that is kept may refer to it,
///    and no commit that wrote to it is unfinished. It is removed once neither a reader nor a
///    dropped family holds a set with it.
/// 4. `set` has every file that the manifest names: a file is added before the edit that names it,
///    and leaves after the edit that names it no more. So a copy that reads the set after the
///    manifest, under its lock, has all files of the manifest.
#[derive(Debug)]
pub struct Blobs {
    directory: Arc<dyn Fs>,
    known: KnownBlobs,
    /// Held while a file is created.
    pub creating_io: Mutex<()>,
    current: Mutex<Option<Current>>,
    set: ArcSwap<BlobSet>,
    /// Whether there was ever a file.
    is_used: AtomicBool,
    /// How often files have left `set`.
    removals: AtomicU64,
    /// Files with writes that may not be synced.
    unsynced: Mutex<Vec<Arc<BlobFile>>>,
    /// Files that have left `set` and were not removed.
    removed: Mutex<Vec<Arc<BlobFile>>>,
    /// Running jobs that move values; no file leaves `set` meanwhile.
    movers: AtomicU64,
}

/// The file that values are appended to.
#[derive(Debug)]
struct Current {
    file: Arc<BlobFile>,
    /// Where the next record begins.
    end: u64,
}

/// The blob files at one moment.
#[derive(Clone, Debug, Default)]
pub struct BlobSet {
    files: BTreeMap<FileNumber, Arc<BlobFile>>,
}

impl BlobSet {
    /// All files, ascending by number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<BlobFile>> {
        self.files.values()
    }

    /// The file with this number.
    #[must_use]
    pub fn get(&self, number: FileNumber) -> Option<&Arc<BlobFile>> {
        self.files.get(&number)
    }

    /// The file with this number, which the manifest names.
    ///
    /// # Errors
    /// Corruption that names the file, if it is not there.
    pub fn named(&self, number: FileNumber) -> Result<&Arc<BlobFile>> {
        self.get(number).ok_or_else(|| {
            let name = FileName::Blob(number).to_path();
            Error::corruption("a blob file is missing").with_file(&name)
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Those of the files that `is_kept` names.
    #[must_use]
    pub fn filtered(&self, is_kept: impl Fn(FileNumber) -> bool) -> Self {
        let files = self.files.iter().filter(|(number, _)| is_kept(**number));
        Self { files: files.map(|(number, file)| (*number, Arc::clone(file))).collect() }
    }

    /// These files and those of `other`.
    fn with(&self, other: &Self) -> Self {
        let mut files = self.files.clone();
        files.extend(other.files.iter().map(|(number, file)| (*number, Arc::clone(file))));
        Self { files }
    }
}

impl BlobSource for BlobSet {
    fn read(&self, pointer: &BlobPointer) -> Result<Slice> {
        self.get(pointer.file).ok_or_else(|| unknown(pointer))?.read(pointer)
    }

    fn read_on_walk(&self, pointer: &BlobPointer, window: &mut BlobWindow) -> Result<Slice> {
        self.get(pointer.file).ok_or_else(|| unknown(pointer))?.read_on_walk(pointer, window)
    }

    fn will_read(&self, pointer: &BlobPointer) {
        if let Some(file) = self.get(pointer.file) {
            file.will_read(pointer);
        }
    }
}

/// A set is pinned with the tables that refer to it, so it has all their files.
#[cold]
fn unknown(pointer: &BlobPointer) -> Error {
    let name = FileName::Blob(pointer.file).to_path();
    Error::corruption("a separated value is missing").with_file(&name).with_source(absent(pointer))
}

/// The writer may have removed the file since its manifest was read.
#[cold]
fn is_gone(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => {
            Error::new(ErrorKind::Busy, "a blob file is missing").with_source(error)
        }
        _ => error,
    }
}

#[cold]
fn absent(pointer: &BlobPointer) -> Error {
    Error::new(ErrorKind::NotFound, "a blob file is not one of the database")
        .with_file(&FileName::Blob(pointer.file).to_path())
        .with_offset(pointer.offset)
        .with_mismatch("a file that the manifest names", FileName::Blob(pointer.file))
}

/// Where the separated values are read that a pinned view refers to.
#[derive(Clone, Debug)]
pub enum PinnedBlobs {
    /// In files that were pinned with the view.
    Set(Arc<BlobSet>),
    /// In any file that is there: see [`KnownBlobs::Any`].
    Any(Arc<Blobs>),
}

impl Deref for PinnedBlobs {
    type Target = dyn BlobSource;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Set(set) => &**set,
            Self::Any(blobs) => &**blobs,
        }
    }
}

impl PinnedBlobs {
    /// A source of whole values.
    #[must_use]
    pub fn source(&self) -> Arc<dyn BlobSource> {
        match self {
            Self::Set(set) => Arc::clone(set) as Arc<dyn BlobSource>,
            Self::Any(blobs) => Arc::clone(blobs) as Arc<dyn BlobSource>,
        }
    }

    /// The file that `pointer` leads to, long enough for it. It stays readable while it is held.
    ///
    /// # Errors
    /// Corruption, with file and offset; `NotFound`; the system's.
    pub fn hold(&self, pointer: &BlobPointer) -> Result<Arc<BlobFile>> {
        let file = match self {
            Self::Set(set) => Arc::clone(set.get(pointer.file).ok_or_else(|| unknown(pointer))?),
            Self::Any(blobs) => blobs.find(pointer)?,
        };
        file.check_place(pointer)?;
        Ok(file)
    }
}

/// A place for one record, and the hold of a commit on its file. Dropping it says that the commit
/// is published or failed.
#[derive(Debug)]
pub struct BlobPlace {
    /// Where the record begins.
    pub offset: u64,
    writing: Writing,
}

impl BlobPlace {
    /// The file.
    #[must_use]
    pub fn file(&self) -> &Arc<BlobFile> {
        self.writing.file()
    }

    /// Notes that a record of `segment` refers to the place.
    pub fn note(&self, segment: SegmentId) {
        self.writing.note(segment);
    }
}

impl Blobs {
    /// The files that the manifest names. As with tables, a missing one is damage that its readers
    /// meet.
    ///
    /// # Errors
    /// The system's.
    pub fn open(directory: Arc<dyn Fs>, named: &BTreeMap<FileNumber, BlobUid>) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (number, uid) in named {
            let name = FileName::Blob(*number).to_path();
            let file = match directory.metadata(&name)? {
                Some(Metadata::File { len }) => BlobFile::found(&directory, *number, *uid, len),
                _ => BlobFile::missing(&directory, *number, *uid),
            };
            files.insert(*number, Arc::new(file));
        }
        let blobs = Self::new(directory, KnownBlobs::Named);
        blobs.is_used.store(!files.is_empty(), Ordering::Relaxed);
        blobs.set.store(Arc::new(BlobSet { files }));
        Ok(blobs)
    }

    /// No files.
    #[must_use]
    pub fn new(directory: Arc<dyn Fs>, known: KnownBlobs) -> Self {
        Self {
            directory,
            known,
            creating_io: Mutex::default(),
            current: Mutex::default(),
            set: ArcSwap::default(),
            is_used: AtomicBool::new(known == KnownBlobs::Any),
            removals: AtomicU64::new(0),
            unsynced: Mutex::default(),
            removed: Mutex::default(),
            movers: AtomicU64::new(0),
        }
    }

    /// These files as a later manifest of another process names them, all of them open, so that
    /// they can be read after that process has removed them.
    ///
    /// # Errors
    /// `Busy`, if a file is missing; corruption; the system's.
    pub fn following(&self, named: &BTreeMap<FileNumber, BlobUid>) -> Result<Self> {
        let (before, mut files) = (self.set(), BTreeMap::new());
        for number in named.keys() {
            let file = match before.get(*number) {
                Some(file) => Arc::clone(file),
                None => Arc::new(BlobFile::unnamed(&self.directory, *number).map_err(is_gone)?),
            };
            files.insert(*number, file);
        }
        let blobs = Self::new(Arc::clone(&self.directory), KnownBlobs::Any);
        blobs.set.store(Arc::new(BlobSet { files }));
        Ok(blobs)
    }

    /// The directory that they lie in.
    #[must_use]
    pub fn directory(&self) -> &Arc<dyn Fs> {
        &self.directory
    }

    /// The files now.
    #[must_use]
    pub fn set(&self) -> Arc<BlobSet> {
        self.set.load_full()
    }

    /// Whether there was ever a file. A reader that sees an entry sees that its file was there.
    #[inline]
    #[must_use]
    pub fn is_used(&self) -> bool {
        // Relaxed: set before the value is written, and the reader has waited for its publication.
        self.is_used.load(Ordering::Relaxed)
    }

    /// What `pin` pins, and where the values are read that it refers to, if there are any. What it
    /// pins of a dropped family may also refer to the files that `kept` returns.
    ///
    /// # Errors
    /// Those of `pin`.
    pub fn pin_with<'k, T>(
        self: &Arc<Self>,
        pin: impl Fn() -> Result<T>,
        kept: impl Fn() -> Option<&'k BlobSet>,
    ) -> Result<(T, Option<PinnedBlobs>)> {
        loop {
            let removals = self.removals.load(Ordering::Acquire);
            let pinned = pin()?;
            if !self.is_used() {
                return Ok((pinned, None));
            }
            if self.known == KnownBlobs::Any {
                return Ok((pinned, Some(PinnedBlobs::Any(Arc::clone(self)))));
            }
            let set = match kept() {
                None => self.set(),
                Some(kept) => Arc::new(self.set().with(kept)),
            };
            // A file that has left meanwhile may be one that the pinned tables refer to.
            if self.removals.load(Ordering::Acquire) == removals {
                return Ok((pinned, Some(PinnedBlobs::Set(set))));
            }
        }
    }

    /// A place for a record with `stored_bytes`, in a file of less than `file_bytes`; `None` if a
    /// new file must be created.
    #[must_use]
    pub fn reserve(&self, stored_bytes: u32, file_bytes: u64) -> Option<BlobPlace> {
        let bytes = record_bytes(stored_bytes);
        let mut current = lock(&self.current);
        let Current { file, end } = current.as_mut()?;
        if *end >= file_bytes.min(TABLE_END_MAX - bytes) {
            return None;
        }
        let offset = *end;
        *end += bytes;
        Some(BlobPlace { offset, writing: Writing::begin(file, *end) })
    }

    /// Whether a value has room in a file of less than `file_bytes`.
    #[must_use]
    pub fn has_room(&self, file_bytes: u64) -> bool {
        lock(&self.current).as_ref().is_some_and(|current| current.end < file_bytes)
    }

    /// Adds a file that the manifest is about to name.
    pub fn add(&self, file: &Arc<BlobFile>) {
        self.set.rcu(|set| {
            let mut files = set.files.clone();
            files.insert(file.number(), Arc::clone(file));
            BlobSet { files }
        });
    }

    /// Takes back a file that the manifest does not name after all. No value has a place in it.
    pub fn withdraw(&self, number: FileNumber) {
        let bytes = self.set().get(number).map_or(BLOB_FILE_HEADER_BYTES, |file| file.bytes());
        let is_empty = bytes == BLOB_FILE_HEADER_BYTES;
        assert!(is_empty, "blob file {number} would be taken back with {bytes} bytes of values");
        self.set.rcu(|set| set.filtered(|other| other != number));
    }

    /// Appends from now on to a file that the manifest names. Returns whether it takes the place of
    /// another.
    pub fn begin(&self, file: Arc<BlobFile>) -> bool {
        self.is_used.store(true, Ordering::Relaxed);
        self.add(&file);
        lock(&self.unsynced).push(Arc::clone(&file));
        let number = file.number();
        let next = Current { file, end: BLOB_FILE_HEADER_BYTES };
        let before = lock(&self.current).replace(next);
        let is_full = before.is_some();
        if let Some(Current { file: before, .. }) = before {
            let (old, new) = (before.number(), number);
            assert!(old < new, "values would go to blob file {new} after {old}");
            before.seal();
        }
        is_full
    }

    /// Appends to no file that is there now.
    pub fn seal_current(&self) {
        let before = lock(&self.current).take();
        if let Some(before) = before {
            before.file.seal();
        }
    }

    /// Appends to `file` no longer, if it does.
    pub fn seal(&self, file: &BlobFile) {
        let mut current = lock(&self.current);
        if current.as_ref().is_some_and(|current| current.file.number() == file.number()) {
            let before = current.take();
            drop(current);
            before.inspect(|before| before.file.seal());
        }
    }

    /// Makes durable what was written before this call.
    ///
    /// # Errors
    /// The system's; never to be tried again.
    pub fn sync(&self) -> Result<()> {
        let files = lock(&self.unsynced).clone();
        for file in &files {
            file.sync()?;
        }
        if files.iter().any(|file| file.is_finished()) {
            lock(&self.unsynced).retain(|file| !file.is_finished());
        }
        Ok(())
    }

    /// Takes `number`, which the manifest names no more, out of the set.
    pub fn forget(&self, number: FileNumber) {
        let gone = self.set().get(number).cloned();
        let is_final = gone.as_ref().is_none_or(|gone| gone.is_sealed() && !gone.is_written());
        assert!(is_final, "blob file {number} would be removed while a commit writes to it");
        // Before the set changes: see `pin_with`.
        self.removals.fetch_add(1, Ordering::AcqRel);
        self.set.rcu(|set| {
            let mut files = set.files.clone();
            files.remove(&number);
            BlobSet { files }
        });
        lock(&self.unsynced).retain(|file| file.number() != number);
        lock(&self.removed).extend(gone);
    }

    /// Removes the files that have left the set and that no reader needs any more.
    pub fn purge(&self) {
        let mut removed = std::mem::take(&mut *lock(&self.removed));
        // One count is that of the list.
        removed.retain(|file| {
            let is_read = Arc::strong_count(file) > 1;
            let is_gone = || match self.directory.remove(&FileName::Blob(file.number()).to_path()) {
                Ok(()) => true,
                // It is tried again, by the next opening at the latest.
                Err(error) => error.kind() == ErrorKind::NotFound,
            };
            is_read || !is_gone()
        });
        lock(&self.removed).extend(removed);
    }

    /// Says that a job moves values to other files, until the result is dropped.
    #[must_use]
    pub fn begin_moving(&self) -> Moving<'_> {
        self.movers.fetch_add(1, Ordering::AcqRel);
        Moving { blobs: self }
    }

    /// Whether a job moves values.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.movers.load(Ordering::Acquire) > 0
    }

    /// The file that `pointer` leads to.
    fn find(&self, pointer: &BlobPointer) -> Result<Arc<BlobFile>> {
        if let Some(file) = self.set.load().get(pointer.file) {
            return Ok(Arc::clone(file));
        }
        if self.known == KnownBlobs::Named {
            return Err(absent(pointer));
        }
        let file = Arc::new(BlobFile::unnamed(&self.directory, pointer.file)?);
        self.set.rcu(|set| {
            let mut files = set.files.clone();
            files.entry(pointer.file).or_insert_with(|| Arc::clone(&file));
            BlobSet { files }
        });
        Ok(file)
    }

    /// The stored bytes of the value that `pointer` leads to, verified.
    ///
    /// # Errors
    /// Corruption, with file and offset; the system's.
    pub fn read_stored(&self, pointer: &BlobPointer) -> Result<Vec<u8>> {
        self.find(pointer)?.read_stored(pointer)
    }

    /// Checks that the file of a value is there and long enough. Cost: no IO.
    ///
    /// # Errors
    /// Corruption, with file and offset; `NotFound`.
    pub fn check_place(&self, pointer: &BlobPointer) -> Result<()> {
        self.find(pointer)?.check_place(pointer)
    }

    /// Says that log segments up to this one may refer to any of the files.
    pub fn note_segments(&self, last: SegmentId) {
        self.set().iter().for_each(|file| file.note_segment(last));
    }

    /// Verifies the value that `pointer` leads to.
    ///
    /// # Errors
    /// Corruption, with file and offset; the system's.
    pub fn verify(&self, pointer: &BlobPointer) -> Result<()> {
        self.find(pointer)?.verify(pointer)
    }
}

/// The operations of a batch with their values in place of pointers.
///
/// # Errors
/// `NotFound`, if a blob file is not there any more; corruption; the system's.
pub fn with_values(operations: &[u8], count: u32, blobs: &Blobs) -> Result<Vec<u8>> {
    let is_pointer = |operation: Result<BatchOperation<'_>>| {
        operation.map(|operation| operation.kind == EntryKind::BlobPointer)
    };
    let mut has_pointers = false;
    if blobs.is_used() {
        for operation in batch::operations(operations, count) {
            has_pointers |= is_pointer(operation)?;
        }
    }
    if !has_pointers {
        return Ok(operations.to_vec());
    }
    let mut whole = BatchBytes::new();
    for operation in batch::operations(operations, count) {
        let operation = operation?;
        if operation.kind != EntryKind::BlobPointer {
            whole.push(&operation)?;
            continue;
        }
        let pointer = BlobPointer::decode(operation.payload)?;
        let (kind, payload) = with_value(&pointer, &blobs.read(&pointer)?);
        whole.push(&BatchOperation { kind, payload: &payload, ..operation })?;
    }
    Ok(whole.as_bytes().to_vec())
}

/// The operation that puts `value` as the pointer to it does.
#[must_use]
pub fn with_value(pointer: &BlobPointer, value: &[u8]) -> (EntryKind, Vec<u8>) {
    match pointer.expiry_ms {
        None => (EntryKind::Put, value.to_vec()),
        Some(expiry_ms) => (EntryKind::PutExpiring, [&expiry_ms.to_le_bytes(), value].concat()),
    }
}

impl BlobSource for Blobs {
    fn read(&self, pointer: &BlobPointer) -> Result<Slice> {
        self.find(pointer)?.read(pointer)
    }

    fn read_on_walk(&self, pointer: &BlobPointer, window: &mut BlobWindow) -> Result<Slice> {
        self.find(pointer)?.read_on_walk(pointer, window)
    }
}

/// A job moves values while this lives.
#[derive(Debug)]
pub struct Moving<'a> {
    blobs: &'a Blobs,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.blobs.movers.fetch_sub(1, Ordering::AcqRel);
    }
}
