//! One blob file: its writes, its syncs, and the reads of single values.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{File, Fs, LogFile, LogFileOptions, LogIo, Metadata},
    id::{BlobUid, FileNumber, SegmentId},
    key::BlobPointer,
    limits::TABLE_END_MAX,
    seeded_fault,
    slice::Slice,
};
use siltdb_disk::{
    blob::{
        BLOB_FILE_HEADER_BYTES, BLOB_HEADER_BYTES, encode_file_header, read_file_header,
        read_stored, read_value, verify_stored,
        window::{BlobWindow, WindowFile},
    },
    file_name::FileName,
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// A blob file.
///
/// # Thread safety
/// Everything may be called from any thread. Writes are disjoint, because each has its place.
#[derive(Debug)]
pub struct BlobFile {
    number: FileNumber,
    uid: BlobUid,
    directory: Arc<dyn Fs>,
    name: PathBuf,
    /// For reading; opened by the first read, which checks the uid.
    reader: OnceLock<Arc<dyn File>>,
    /// For writing; `None` for a file of an earlier opening.
    writer: Option<Arc<dyn LogFile>>,
    /// The end of the last place that was given.
    end: AtomicU64,
    /// Writes that have returned, and how many of them are synced.
    written: AtomicU64,
    synced: AtomicU64,
    /// Commits that have a place and are not published.
    writers: AtomicU64,
    /// The last log segment that may refer to it.
    last_segment: AtomicU64,
    /// No place is given any more.
    is_sealed: AtomicBool,
    /// The opening did not find it.
    is_missing: bool,
}

impl BlobFile {
    /// A file of an earlier opening that is `end` bytes long.
    #[must_use]
    pub fn found(directory: &Arc<dyn Fs>, number: FileNumber, uid: BlobUid, end: u64) -> Self {
        Self {
            number,
            uid,
            directory: Arc::clone(directory),
            name: FileName::Blob(number).to_path(),
            reader: OnceLock::new(),
            writer: None,
            end: AtomicU64::new(end),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            writers: AtomicU64::new(0),
            last_segment: AtomicU64::new(0),
            is_sealed: AtomicBool::new(true),
            is_missing: false,
        }
    }

    /// A file of an earlier opening that is not there.
    #[must_use]
    pub fn missing(directory: &Arc<dyn Fs>, number: FileNumber, uid: BlobUid) -> Self {
        Self { is_missing: true, ..Self::found(directory, number, uid, 0) }
    }

    /// A file of another process, whose manifest may name it.
    ///
    /// # Errors
    /// `NotFound`; as [`read_file_header`]; the system's.
    pub fn unnamed(directory: &Arc<dyn Fs>, number: FileNumber) -> Result<Self> {
        let name = FileName::Blob(number).to_path();
        let file = directory.open(&name)?;
        let path = directory.full_path(&name);
        let uid = read_file_header(&*file).map_err(|error| error.or_file(&path))?;
        // Another process writes to it, so its end is not known.
        let found = Self::found(directory, number, uid, TABLE_END_MAX);
        found.reader.get_or_init(|| file);
        Ok(found)
    }

    /// Creates an empty file, durable with its name.
    ///
    /// # Errors
    /// The system's; the file is removed.
    pub fn create(directory: &Arc<dyn Fs>, number: FileNumber, uid: BlobUid) -> Result<Self> {
        let name = FileName::Blob(number).to_path();
        let made = Self::write_new(&**directory, &name, uid);
        let writer = made.inspect_err(|_| {
            // The next opening removes it otherwise.
            let _ = directory.remove(&name);
        })?;
        let found = Self::found(directory, number, uid, BLOB_FILE_HEADER_BYTES);
        Ok(Self { writer: Some(writer), is_sealed: AtomicBool::new(false), ..found })
    }

    fn write_new(directory: &dyn Fs, name: &Path, uid: BlobUid) -> Result<Arc<dyn LogFile>> {
        let options = LogFileOptions { capacity: TABLE_END_MAX, io: LogIo::Write };
        let writer = directory.open_log(name, options)?;
        writer.fill(0, &[&encode_file_header(uid)])?;
        writer.sync(BLOB_FILE_HEADER_BYTES)?;
        directory.sync_dir(Path::new(""))?;
        Ok(writer)
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The uid in its header.
    #[must_use]
    pub fn uid(&self) -> BlobUid {
        self.uid
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.full_path(&self.name)
    }

    /// Its length, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// What a copy takes of it, in bytes: up to the end of what was written.
    ///
    /// # Errors
    /// Corruption, if it is missing; the system's.
    pub fn written_bytes(&self) -> Result<u64> {
        match self.directory.metadata(&self.name)? {
            Some(Metadata::File { len }) => Ok(len.min(self.bytes())),
            _ => Err(missing(&self.path())),
        }
    }

    /// Whether the opening did not find it: no value of it can be read.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Whether no value gets a place in it any more.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Acquire)
    }

    /// Whether commits that wrote to it are not published yet.
    #[must_use]
    pub fn is_written(&self) -> bool {
        // Acquire pairs with the release in the drop of `Writing`: what a published commit noted of
        // its segment is seen.
        self.writers.load(Ordering::Acquire) > 0
    }

    /// The last log segment that may refer to it.
    #[must_use]
    pub fn last_segment(&self) -> SegmentId {
        SegmentId(self.last_segment.load(Ordering::Acquire))
    }

    /// Notes that a record of `segment` may refer to the file.
    pub(super) fn note_segment(&self, segment: SegmentId) {
        self.last_segment.fetch_max(segment.0, Ordering::AcqRel);
    }

    /// Writes `parts` at a place that was given.
    ///
    /// # Errors
    /// `NoSpace`; the system's. No record refers to the place then.
    pub fn write(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let Some(writer) = &self.writer else {
            return Err(Error::invalid("a blob file of an earlier opening is not written to"));
        };
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let (end, given) = (offset + length as u64, self.bytes());
        assert!(end <= given, "a value would be written up to {end}, beyond the places: {given}");
        assert!(offset >= BLOB_FILE_HEADER_BYTES, "a value would be written over the header");
        writer.fill(offset, parts)?;
        // Release pairs with the acquire in `sync`: a sync that counts the write comes after it.
        self.written.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Makes the writes that have returned durable.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let written = self.written.load(Ordering::Acquire);
        if self.synced.load(Ordering::Acquire) >= written {
            return Ok(());
        }
        if !seeded_fault!("skip_sync") {
            writer.sync(self.bytes())?;
        }
        self.synced.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    /// Whether it will never have unsynced bytes again.
    pub(super) fn is_finished(&self) -> bool {
        self.is_sealed()
            && !self.is_written()
            && self.synced.load(Ordering::Acquire) >= self.written.load(Ordering::Acquire)
    }

    /// Says that no further place will be given, and gives back the space behind the last one.
    pub(super) fn seal(&self) {
        self.is_sealed.store(true, Ordering::Release);
        if let Some(writer) = &self.writer {
            // It only frees space early.
            let _ = writer.shorten(self.bytes());
        }
    }

    /// The file, open for reading.
    ///
    /// # Errors
    /// Corruption, if it is missing or another file; the system's.
    pub fn open(&self) -> Result<&Arc<dyn File>> {
        if let Some(file) = self.reader.get() {
            return Ok(file);
        }
        let file = self.directory.open(&self.name).map_err(|error| match error.kind() {
            ErrorKind::NotFound => missing(&self.path()),
            _ => error,
        })?;
        let uid = read_file_header(&*file).map_err(|error| error.or_file(&self.path()))?;
        if uid != self.uid {
            return Err(Error::corruption("a blob file is another one")
                .with_file(&self.path())
                .with_offset(0)
                .with_mismatch(
                    format_args!("{:016x}", self.uid.0),
                    format_args!("{:016x}", uid.0),
                ));
        }
        Ok(self.reader.get_or_init(|| file))
    }

    pub(super) fn check_place(&self, pointer: &BlobPointer) -> Result<()> {
        let end = pointer.offset.checked_add(u64::from(pointer.stored_bytes));
        let is_within = end.is_some_and(|end| end <= self.bytes());
        if is_within && pointer.offset >= BLOB_FILE_HEADER_BYTES + BLOB_HEADER_BYTES {
            return Ok(());
        }
        if self.is_missing {
            return Err(missing(&self.path()).with_offset(pointer.offset));
        }
        Err(Error::corruption("a blob file ends before a value")
            .with_file(&self.path())
            .with_offset(pointer.offset)
            .with_mismatch(pointer.stored_bytes, self.bytes().saturating_sub(pointer.offset)))
    }

    /// Reads bytes, verified by none of the checksums.
    ///
    /// # Errors
    /// As [`BlobFile::open`].
    pub fn read_part(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.open()?.read_exact_at(buffer, offset);
        read.map_err(|error| error.or_file(&self.path()))
    }

    /// Reads the value that `pointer` leads to, by one read.
    ///
    /// # Errors
    /// Corruption, with file and offset; `Unsupported`; the system's.
    pub fn read(&self, pointer: &BlobPointer) -> Result<Slice> {
        self.check_place(pointer)?;
        read_value(&**self.open()?, self.uid, pointer).map_err(|error| error.or_file(&self.path()))
    }

    /// As [`BlobFile::read`], for a walk that has `window` on the files.
    ///
    /// # Errors
    /// As [`BlobFile::read`].
    pub fn read_on_walk(&self, pointer: &BlobPointer, window: &mut BlobWindow) -> Result<Slice> {
        self.check_place(pointer)?;
        let file = WindowFile {
            file: &**self.open()?,
            number: self.number,
            uid: self.uid,
            end: self.bytes(),
        };
        window.read(&file, pointer).map_err(|error| error.or_file(&self.path()))
    }

    /// Says that the value that `pointer` leads to will be read soon.
    pub fn will_read(&self, pointer: &BlobPointer) {
        if let (Ok(()), Ok(file)) = (self.check_place(pointer), self.open()) {
            file.will_read(pointer.offset, pointer.stored_bytes.into());
        }
    }

    /// The stored bytes of the value that `pointer` leads to, verified.
    ///
    /// # Errors
    /// As [`BlobFile::read`].
    pub(super) fn read_stored(&self, pointer: &BlobPointer) -> Result<Vec<u8>> {
        self.check_place(pointer)?;
        let stored = read_stored(&**self.open()?, self.uid, pointer);
        stored.map_err(|error| error.or_file(&self.path()))
    }

    /// Verifies the value that `pointer` leads to.
    ///
    /// # Errors
    /// As [`BlobFile::read`].
    pub fn verify(&self, pointer: &BlobPointer) -> Result<()> {
        self.check_place(pointer)?;
        let verified = verify_stored(&**self.open()?, self.uid, pointer);
        verified.map_err(|error| error.or_file(&self.path()))
    }
}

#[cold]
fn missing(path: &Path) -> Error {
    Error::corruption("a blob file is missing").with_file(path)
}

/// The hold of a commit on the file that has its value.
#[derive(Debug)]
pub struct Writing {
    file: Arc<BlobFile>,
}

impl Writing {
    /// A hold on `file`, in which a place up to `end` was given. Called under the lock that gives
    /// places.
    pub(super) fn begin(file: &Arc<BlobFile>, end: u64) -> Self {
        assert!(!file.is_sealed(), "a place up to {end} would be given in a file that is sealed");
        file.writers.fetch_add(1, Ordering::AcqRel);
        file.end.fetch_max(end, Ordering::AcqRel);
        Self { file: Arc::clone(file) }
    }

    /// The file.
    pub(super) fn file(&self) -> &Arc<BlobFile> {
        &self.file
    }

    /// Notes that a record of `segment` refers to the file.
    pub(super) fn note(&self, segment: SegmentId) {
        self.file.note_segment(segment);
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.file.writers.fetch_sub(1, Ordering::AcqRel);
    }
}
