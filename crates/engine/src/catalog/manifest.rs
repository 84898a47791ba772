//! The manifest: a record log of edits, each synced before it takes effect.
//!
//! The manifest stores edits; `install` and `recovery` apply them. An empty record, the *mark*,
//! follows each edit and says that the edit was synced. Without it, a damaged last edit would look
//! like one that was never finished.
//!
//! A manifest found at open is appended to if it ends with its last edit, as closing leaves it.
//! Then no byte behind the end can be mistaken for a part of the new edit. The mark at the end may
//! not be durable, so the first edit writes it again. After any other end, the first edit begins a
//! new file with a snapshot of the whole state, and `CURRENT` is switched to it:
//!
//! 1. The new manifest is written and synced.
//! 2. The new `CURRENT` is written beside the old one and synced.
//! 3. The directory is synced: both files can be found.
//! 4. The new `CURRENT` replaces the old one by renaming.
//! 5. The directory is synced: from here on the new manifest counts.
//! 6. The old manifest is removed.

use crate::catalog::log_state::LogState;
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{File, Fs, LogFile, LogFileOptions, LogIo},
    id::{FileNumber, SegmentId, SequenceNumber},
    seeded_fault,
};
use siltdb_disk::{
    edit::{
        Change, Edit,
        current::{CURRENT_BYTES_MAX, CurrentFile},
    },
    file_name::FileName,
    log::{
        fill::{fill_record, fill_segment_header},
        record::{LogPosition, RecordHeader, RecordKind, Synced, record_bytes},
        recover::{RecoveryMode, RecoveryOptions, SegmentFile, recover},
        segment::{SEGMENT_HEADER_BYTES, SegmentHeader, next_segment},
    },
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A new manifest is begun when the file reaches this size, in bytes, or four times its snapshot.
const MANIFEST_BYTES: u64 = 1 << 20;

/// A manifest found at open is appended to up to this size, in bytes, or four times its snapshot.
/// This is some hundred edits, which take a fraction of a millisecond to read.
const GO_ON_BYTES_MAX: u64 = 32 << 10;

/// The advice for a database whose tables or log cannot be found.
pub const RECOVER_HINT: &str =
    "restore a copy, or save what verifies into a new database with `salvage::salvage`";

/// Whether an edit that failed can be in the manifest.
#[derive(Debug)]
pub enum Failure {
    /// It is not in the manifest: nothing has changed.
    Unchanged(Error),
    /// It may be in the manifest, now or after a crash.
    Unknown(Error),
}

impl Failure {
    /// The error itself.
    #[must_use]
    pub fn into_error(self) -> Error {
        match self {
            Self::Unchanged(error) | Self::Unknown(error) => error,
        }
    }
}

/// The manifest of an open database.
///
/// # Invariants
/// 1. Everything before `end` is durable.
/// 2. `open` is `None` until the first edit, and after a new file could not be begun.
#[derive(Debug)]
pub struct Manifest {
    directory: Arc<dyn Fs>,
    /// The file that `CURRENT` names, if there is one.
    number: Option<FileNumber>,
    /// The end of that file, if it was found at open and nothing was appended yet.
    found: Option<ManifestEnd>,
    open: Option<OpenManifest>,
    /// The state of the log as the manifest records it.
    pub state: LogState,
    /// The changes that the next edit has to include.
    pub owed: Owed,
}

/// Changes of families that are in force and durable in the log, and not yet in the manifest.
#[derive(Debug, Default)]
pub struct Owed {
    /// The changes.
    pub changes: Vec<Change>,
    /// Files that no version needs once the manifest has the changes.
    pub files: Vec<FileNumber>,
}

#[derive(Debug)]
struct OpenManifest {
    file: Arc<dyn LogFile>,
    end: LogPosition,
    /// The end of the last edit.
    synced: Synced,
    edits: u64,
}

impl Manifest {
    /// Whether this process has written to the manifest.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.open.is_some()
    }

    /// The manifest of the database in `directory`, where `CURRENT` names the file `number`.
    #[must_use]
    pub fn new(
        directory: Arc<dyn Fs>,
        number: Option<FileNumber>,
        found: Option<ManifestEnd>,
        state: LogState,
    ) -> Self {
        Self { directory, number, found, open: None, state, owed: Owed::default() }
    }

    /// Adds changes of families that are in force for the next edit to include, and the files that
    /// become unneeded with it. Snapshots include the changes from now on.
    pub fn owe(&mut self, changes: Vec<Change>, files: Vec<FileNumber>) {
        for change in &changes {
            if let Change::FamiliesLogged { position } = change {
                let said = self.state.families;
                assert!(*position > said, "families of {position} would be owed after {said}");
                self.state.families = *position;
            }
        }
        self.owed.changes.extend(changes);
        self.owed.files.extend(files);
    }

    /// Opens the file found at open for appending, if that is allowed: it is short, and has one
    /// name. If opening fails, the next edit begins a new file.
    pub fn go_on(&mut self) {
        let found = self.found.take().filter(|found| found.is_last && found.is_short());
        if let (Some(number), Some(found)) = (self.number, found)
            && self.is_unshared(number)
        {
            self.open = self.reopen(number, &found).ok();
        }
    }

    /// Whether no other directory has the file, as a copy by hard links does.
    fn is_unshared(&self, number: FileNumber) -> bool {
        let inode = self.directory.inode(&FileName::Manifest(number).to_path());
        seeded_fault!("linked_files_written") || inode.is_ok_and(|inode| inode.links == 1)
    }

    fn reopen(&self, number: FileNumber, found: &ManifestEnd) -> Result<OpenManifest> {
        let name = FileName::Manifest(number).to_path();
        let end = LogPosition { segment: found.segment, offset: found.end };
        let capacity = capacity(found.snapshot_end).max(found.end);
        let options = LogFileOptions { capacity, io: LogIo::Write };
        let mut mark = vec![0; (found.end - found.last_edit_end) as usize];
        self.directory.open(&name)?.read_exact_at(&mut mark, found.last_edit_end)?;
        let file = self.directory.open_log(&name, options)?;
        file.prepare(found.end)?;
        file.fill(found.last_edit_end, &[&mark])?;
        let last = LogPosition { offset: found.last_edit_end, ..end };
        let synced = Synced::new(last, end.segment);
        Ok(OpenManifest { file, end, synced, edits: found.edits })
    }

    /// The file that `CURRENT` names.
    #[must_use]
    pub fn number(&self) -> Option<FileNumber> {
        self.number
    }

    /// Whether the next edit begins a new file, and so needs a file number and a snapshot.
    #[must_use]
    pub fn needs_snapshot(&self, edit: &[u8]) -> bool {
        self.open
            .as_ref()
            .is_none_or(|open| open.end.offset + with_mark(edit.len()) > open.file.capacity())
    }

    /// Appends an edit and makes it durable.
    ///
    /// # Errors
    /// `Unchanged`, if there is no space for it; `Unknown` for any other failure.
    pub fn append(&mut self, edit: &[u8]) -> std::result::Result<(), Failure> {
        let open = self.open.as_mut().expect("a manifest is begun before it is appended to");
        let (end, capacity) = (open.end.offset + with_mark(edit.len()), open.file.capacity());
        assert!(end <= capacity, "an edit would end at {end}, in a manifest of {capacity} bytes");
        open.file.prepare(end).map_err(Failure::Unchanged)?;
        open.append(edit).map_err(Failure::Unknown)
    }

    /// Begins the file `number` with `snapshot`, and makes it the manifest. Durable on return.
    ///
    /// # Errors
    /// `Unchanged` until `CURRENT` is replaced: the old file counts. From then on `Unknown`.
    pub fn begin(
        &mut self,
        number: FileNumber,
        snapshot: &[u8],
        random: u32,
    ) -> std::result::Result<(), Failure> {
        assert!(Some(number) != self.number, "the manifest {number} would be written over itself");
        let path = FileName::Manifest(number).to_path();
        let temporary = FileName::Temporary(number).to_path();
        let begun = self.write_snapshot(&path, snapshot, random);
        let begun = begun.and_then(|open| self.write_current(&temporary, number).map(|()| open));
        let open = begun.map_err(|error| {
            // A file that cannot be removed now is removed at the next open.
            let _ = self.directory.remove(&path);
            let _ = self.directory.remove(&temporary);
            Failure::Unchanged(error)
        })?;
        let current = FileName::Current.to_path();
        self.directory.rename(&temporary, &current).map_err(Failure::Unknown)?;
        self.open = Some(open);
        let old = self.number.replace(number);
        self.directory.sync_dir(Path::new("")).map_err(Failure::Unknown)?;
        if let Some(old) = old {
            // As above.
            let _ = self.directory.remove(&FileName::Manifest(old).to_path());
        }
        Ok(())
    }

    /// Frees the space behind the last edit. A further edit would begin a new file.
    pub fn give_back_unused(&mut self) {
        if let Some(open) = self.open.take() {
            // Everything is durable; if this fails, the next file frees the space.
            let _ = open.file.shorten(open.end.offset);
        }
    }

    fn write_snapshot(&self, path: &Path, snapshot: &[u8], random: u32) -> Result<OpenManifest> {
        let first = SEGMENT_HEADER_BYTES as u64 + with_mark(snapshot.len());
        let options = LogFileOptions { capacity: capacity(first), io: LogIo::Write };
        let file = self.directory.open_log(path, options)?;
        file.prepare(first)?;
        let header = SegmentHeader {
            id: next_segment(SegmentId(0), random)?,
            first_sequence: SequenceNumber(1),
            previous: LogPosition::ZERO,
            synced: LogPosition::ZERO,
        };
        fill_segment_header(&*file, &header)?;
        let mut open =
            OpenManifest { file, end: header.first_record(), synced: Synced::UNSAID, edits: 0 };
        open.append(snapshot)?;
        Ok(open)
    }

    /// Writes the file that becomes `CURRENT` by renaming.
    fn write_current(&self, temporary: &Path, number: FileNumber) -> Result<()> {
        let mut file = self.directory.create(temporary)?;
        file.append(CurrentFile { manifest: number }.encode().as_bytes())?;
        file.sync()?;
        drop(file);
        self.check_current(temporary, number)?;
        if seeded_fault!("skip_directory_sync") {
            return Ok(());
        }
        self.directory.sync_dir(Path::new(""))
    }

    /// Reads back the file that becomes `CURRENT`: the one it replaces is the only file that names
    /// a manifest.
    fn check_current(&self, temporary: &Path, number: FileNumber) -> Result<()> {
        let found = read_current_file(&*self.directory, temporary)?.manifest;
        if found == number {
            return Ok(());
        }
        Err(Error::corruption("the bytes read back differ from those written")
            .with_file(&self.directory.full_path(temporary))
            .with_mismatch(number, found))
    }
}

/// The size at which the manifest after a snapshot that ends at `snapshot_end` is full, in bytes.
fn capacity(snapshot_end: u64) -> u64 {
    MANIFEST_BYTES.max(4 * snapshot_end)
}

impl ManifestEnd {
    /// Whether the next opening may append to this file. Otherwise many short openings would leave
    /// more edits than a snapshot takes to read.
    fn is_short(&self) -> bool {
        self.end <= GO_ON_BYTES_MAX.max(4 * self.snapshot_end)
    }

    /// Whether `file`, just opened, is the file with this end, and nothing follows the end. The
    /// first byte of a record is not zero, and the space for later records is.
    ///
    /// # Errors
    /// `Unsupported`, if it is of another format version; the system's.
    pub fn is_end_of(&self, file: &dyn File, path: &Path) -> Result<bool> {
        let header = SegmentHeader::read(file, path)?;
        if header.is_none_or(|header| header.id != self.segment) {
            return Ok(false);
        }
        let mut next = [0; 8];
        let bytes = file.len().saturating_sub(self.end).min(next.len() as u64) as usize;
        file.read_exact_at(&mut next[..bytes], self.end)?;
        Ok(next == [0; 8])
    }
}

/// The end of a manifest that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEnd {
    /// The part of the file with edits that were delivered but are not known to be durable.
    pub unsynced: Range<u64>,
    /// The number of edits that were delivered, the snapshot included.
    pub edits: u64,
    segment: SegmentId,
    /// The end of the snapshot and its mark.
    snapshot_end: u64,
    last_edit_end: u64,
    end: u64,
    /// Whether the file ends there.
    is_last: bool,
}

/// The size of an edit with its mark, in bytes.
const fn with_mark(edit_bytes: usize) -> u64 {
    record_bytes(RecordKind::Edit, 1, edit_bytes) + record_bytes(RecordKind::Skip, 0, 0)
}

impl OpenManifest {
    /// Appends an edit, syncs it, and marks it as synced.
    fn append(&mut self, edit: &[u8]) -> Result<()> {
        self.fill(RecordKind::Edit, &[edit])?;
        if !seeded_fault!("skip_sync") {
            self.file.sync(self.end.offset)?;
        }
        self.fill(RecordKind::Skip, &[])
    }

    fn fill(&mut self, kind: RecordKind, parts: &[&[u8]]) -> Result<()> {
        let count = u32::from(kind == RecordKind::Edit);
        let header = RecordHeader {
            first_sequence: SequenceNumber(self.edits + 1),
            count,
            kind,
            // The end of the last edit. The mark behind it was not synced for itself.
            synced: self.synced,
        };
        fill_record(&*self.file, self.end, &header, parts)?;
        self.edits += u64::from(count);
        let payload_bytes = parts.iter().map(|part| part.len()).sum();
        self.end.offset += record_bytes(kind, count, payload_bytes);
        if kind == RecordKind::Edit {
            self.synced = Synced::new(self.end, self.end.segment);
        }
        Ok(())
    }
}

/// The manifest that `CURRENT` of the database in `directory` names; `None` without a `CURRENT`.
///
/// # Errors
/// Corruption, if it names no manifest; the system's.
pub fn read_current(directory: &dyn Fs) -> Result<Option<FileNumber>> {
    let name = FileName::Current.to_path();
    if directory.metadata(&name)?.is_none() {
        return Ok(None);
    }
    read_current_file(directory, &name).map(|current| Some(current.manifest))
}

/// The content of the `CURRENT` file called `name`.
fn read_current_file(directory: &dyn Fs, name: &Path) -> Result<CurrentFile> {
    let (file, path) = (directory.open(name)?, directory.full_path(name));
    if file.len() > CURRENT_BYTES_MAX as u64 {
        return Err(Error::corruption("CURRENT is too long")
            .with_file(&path)
            .with_mismatch(format_args!("at most {CURRENT_BYTES_MAX}"), file.len()));
    }
    let mut bytes = vec![0; file.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let hint = |error: Error| error.or_file(&path).or_offset(0).with_hint(RECOVER_HINT);
    CurrentFile::decode(&bytes).map_err(hint)
}

/// Passes the edits of the manifest `number` to `deliver`, in order.
///
/// An edit that was being appended when the process ended is left out.
///
/// # Errors
/// Corruption with file and offset; `Unsupported`; the errors of `deliver`; the system's.
pub fn read_manifest(
    directory: &dyn Fs,
    number: FileNumber,
    deliver: &mut dyn FnMut(Edit) -> Result<()>,
) -> Result<ManifestEnd> {
    let (path, file) = open_manifest(directory, number)?;
    read_edits(path, file, deliver)
}

/// Opens the manifest `number`. Returns its full path and the file.
///
/// # Errors
/// Corruption, if it is missing; the system's.
pub fn open_manifest(directory: &dyn Fs, number: FileNumber) -> Result<(PathBuf, Arc<dyn File>)> {
    let name = FileName::Manifest(number).to_path();
    let path = directory.full_path(&name);
    let file = directory.open(&name).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Error::corruption("the manifest that CURRENT names is missing").with_file(&path)
        }
        _ => error,
    })?;
    Ok((path, file))
}

/// Passes the edits of a manifest to `deliver`, in order.
///
/// # Errors
/// As [`read_manifest`].
pub fn read_edits(
    path: PathBuf,
    file: Arc<dyn File>,
    deliver: &mut dyn FnMut(Edit) -> Result<()>,
) -> Result<ManifestEnd> {
    let Some(header) = SegmentHeader::read(&*file, &path)? else {
        return Err(Error::corruption("the manifest has no header")
            .with_file(&path)
            .with_offset(0));
    };
    let options = RecoveryOptions {
        first: header.id,
        mode: RecoveryMode::Strict,
        // The snapshot was synced before `CURRENT` named the file.
        synced: LogPosition { segment: header.id, offset: SEGMENT_HEADER_BYTES as u64 + 1 },
        synced_file: None,
        synced_file_bytes: 0,
        known_cuts: Vec::new(),
    };
    let files = [SegmentFile { path, file }];
    let (mut edits, mut snapshot_end) = (0, 0);
    let (mut last_edit, mut last_edit_end) = (0, 0);
    let file_bytes = files[0].file.len();
    let path = files[0].path.clone();
    let recovered = recover(&files, &options, &mut |record| {
        match record.header.kind {
            RecordKind::Edit => {}
            RecordKind::Skip | RecordKind::End => return Ok(()),
            RecordKind::Batch
            | RecordKind::Void
            | RecordKind::FamilyBatch
            | RecordKind::Prepare
            | RecordKind::Decide => {
                return Err(Error::corruption("the manifest has a record of a log"));
            }
        }
        let edit = match edits {
            0 => Edit::decode_snapshot(record.payload)?,
            _ => Edit::decode(record.payload)?,
        };
        last_edit = record.at.offset;
        let bytes = record.payload.len();
        last_edit_end = last_edit + record_bytes(RecordKind::Edit, 1, bytes);
        if edits == 0 {
            snapshot_end = last_edit + with_mark(bytes);
        }
        edits += 1;
        deliver(edit)
    })
    .map_err(|error| damaged(error, &path))?;
    let (synced, end) = (recovered.synced.offset, recovered.end.offset);
    Ok(ManifestEnd {
        // If only marks follow, no delivered edit has to be made durable.
        unsynced: if last_edit < synced { end..end } else { synced..end },
        edits,
        segment: header.id,
        snapshot_end,
        last_edit_end,
        end,
        is_last: edits > 0 && end == file_bytes,
    })
}

/// Adds the advice for a manifest that cannot be read.
fn damaged(error: Error, path: &Path) -> Error {
    match error.kind() {
        ErrorKind::Corruption => error.or_file(path).with_hint(RECOVER_HINT),
        _ => error,
    }
}
