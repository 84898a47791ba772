//! What a job on files is given, what it makes, and what it hands back.
//!
//! A job installs nothing. Its files do not belong to the database until its caller makes the
//! changes it returns durable.

use crate::{
    files::open_files::{OpenFiles, OpenReference, SharedFile},
    options::TreeOptions,
    rewrite::processor_share::ProcessorShare,
    rewrite::progress::PartProgress,
    rewrite::write_rate::{RateUse, WriteRate},
};
use siltdb_base::{
    budget::{Charge, Part},
    cancel::CancelToken,
    clock::Clock,
    error::{Error, ErrorKind, Result},
    fs::WriteFile,
    id::{FamilyId, FileNumber, SegmentId, TableUid},
    invariant,
    key::{BlobPointer, EntryKind},
    limits::LEVELS,
    seeded_fault,
};
use siltdb_disk::{
    edit::{Change, TableReference},
    file_name::FileName,
    table::Table,
};
use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What a flush or compaction needs from the engine.
#[derive(Clone, Copy)]
pub struct JobContext<'a> {
    /// The files of the database.
    pub files: &'a Arc<OpenFiles>,
    /// Gives a file number that the database has never used.
    pub file_numbers: &'a (dyn Fn() -> FileNumber + Sync),
    /// Gives the random name of a new table.
    pub uids: &'a (dyn Fn() -> TableUid + Sync),
    /// What a family is called now; `None` if it was dropped.
    pub family_names: &'a (dyn Fn(FamilyId) -> Option<Arc<str>> + Sync),
    /// The first segment of the log that was needed when the job began.
    pub log_start: SegmentId,
    /// Tells what has expired.
    pub clock: &'a dyn Clock,
    /// Set to end all jobs soon, without a result.
    pub cancelled: &'a AtomicBool,
    /// Ends this job soon, without a result.
    pub given_up: Option<&'a CancelToken>,
    /// What jobs keep of a processor that other threads want.
    pub processor_share: &'a ProcessorShare,
    /// Moves separated values to other blob files.
    pub mover: Option<&'a (dyn BlobMover + Sync)>,
    /// Is told what this part of the job reads and verifies.
    pub progress: Option<&'a PartProgress<'a>>,
    /// The rate of what is written, if it is limited, and how the job uses it.
    pub rate: Option<(&'a Arc<WriteRate>, RateUse)>,
}

/// Moves separated values.
pub trait BlobMover {
    /// Copies the value that `pointer` leads to, one of `key` in `family` with its `options`, to
    /// the current blob file, or reads it for the table if the family is frozen. Returns what the
    /// entry is from now on: a pointer to the copy, or the value.
    ///
    /// # Errors
    /// Corruption, if the value is damaged; `NoSpace`; the system's.
    fn copy(
        &self,
        options: &TreeOptions,
        family: FamilyId,
        key: &[u8],
        pointer: &BlobPointer,
    ) -> Result<MovedEntry>;
}

/// The operation of an entry whose separated value was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedEntry {
    /// Its kind.
    pub kind: EntryKind,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Smallest part that a job is cut into, in bytes, if tables may be as large. For less, a sync of
/// each part costs more than it saves.
const PART_BYTES_MIN: u64 = 6 << 20;

/// Parts that a job over `bytes` is cut into, at most `parallelism`.
pub(crate) fn parts_of(bytes: u64, table_bytes_target: u64, parallelism: usize) -> usize {
    let parts = bytes / table_bytes_target.clamp(1, PART_BYTES_MIN);
    parallelism.min(usize::try_from(parts).unwrap_or(usize::MAX))
}

/// A part of a job that writes tables: it may run on any thread, at any time.
pub trait JobPart: fmt::Debug + Send + Sync {
    /// Writes its tables, verified and synced.
    ///
    /// # Errors
    /// What reading or writing them fails with; `Closed`, if the job was cancelled. No file is left
    /// then, and dropping what other parts returned removes theirs.
    fn run(&self, context: &JobContext<'_>) -> Result<NewTables>;
}

/// What a cursor of a job over one table or run takes: a window, a frame of the index, a block.
const INPUT_BYTES: usize = 128 << 10;

impl JobContext<'_> {
    /// Charges `bytes` of buffers to the budget.
    #[must_use]
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        Charge::new(self.files.cache().budget(), Part::Jobs, bytes)
    }

    /// Charges what cursors over `inputs` tables and runs take.
    #[must_use]
    pub(crate) fn charge_inputs(&self, inputs: usize) -> Charge {
        let charge = self.charge(inputs * INPUT_BYTES);
        // The cache gives way before the memory is taken.
        self.files.cache().fit();
        charge
    }

    /// Whether to go on, after yielding to others if that is due.
    ///
    /// # Errors
    /// `Closed`, if the job was cancelled.
    pub fn go_on(&self) -> Result<()> {
        self.processor_share.maybe_yield(|| self.clock.monotonic_ns());
        // Relaxed: the flag carries no other data with it.
        if self.cancelled.load(Ordering::Relaxed)
            || self.given_up.is_some_and(CancelToken::is_cancelled)
        {
            return Err(Error::new(ErrorKind::Closed, "the job was cancelled"));
        }
        Ok(())
    }
}

impl fmt::Debug for JobContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobContext").field("files", &self.files).finish_non_exhaustive()
    }
}

/// A table file that is being made. Unless it is kept, it is removed when it is dropped: no error
/// and no panic leaves a part of a file behind.
#[derive(Debug)]
pub struct NewFile {
    files: Arc<OpenFiles>,
    claim: Arc<SharedFile>,
    number: FileNumber,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Remove,
    Keep,
}

impl NewFile {
    /// Creates a file under a new number.
    ///
    /// # Errors
    /// What creating it fails with.
    pub fn create(context: &JobContext<'_>) -> Result<(Self, Box<dyn WriteFile>)> {
        let number = (context.file_numbers)();
        let files = context.files.clone();
        assert!(!files.is_in_use(number), "file number {number} is used again");
        // Claimed before it exists, so that no purge takes it for an orphan.
        let claim = files.claim(number);
        let writer = files.directory().create(&FileName::Table(number).to_path())?;
        let writer = match context.rate {
            Some((rate, rate_use)) => rate.counted(writer, rate_use),
            None => writer,
        };
        Ok((Self { files, claim, number, fate: Fate::Remove }, writer))
    }

    /// Leaves the file to the next opening, which removes it: this process may write no more.
    pub fn abandon(mut self) {
        self.fate = Fate::Keep;
    }

    /// The file's number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.fate == Fate::Remove {
            // The error is dropped, because there is no caller to return it to: what cannot be
            // removed now is an orphan for the purge.
            let _ = self.files.remove(self.number);
        }
    }
}

/// When a new table is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Once it is verified; and its blocks go into the cache as far as there is room to spare.
    Readahead,
    /// When a reader first looks at it: what is not read takes no memory.
    WhenRead,
}

impl Opening {
    /// For tables that take the place of `tables`, or a place beside them. Readers of these will
    /// read the new ones.
    pub fn like<'t>(mut tables: impl Iterator<Item = &'t Arc<OpenReference>>) -> Self {
        if tables.any(|table| table.is_read()) { Self::Readahead } else { Self::WhenRead }
    }
}

/// A table that a job has written.
#[derive(Debug)]
pub struct NewTable {
    /// The family it belongs to.
    pub family: FamilyId,
    /// The level it is meant for.
    pub level: usize,
    /// Where it lies and what it is.
    pub reference: TableReference,
    /// When it is opened.
    pub opening: Opening,
}

/// Tables that a job has written, and their files, which are removed unless they are kept.
///
/// A disk has time to write a file while it is verified, and while the next one is written. Only
/// then it is synced, so that the sync finds little left to do.
#[derive(Debug, Default)]
pub struct NewTables {
    tables: Vec<NewTable>,
    /// How many of them were verified.
    verified: usize,
    /// Those that are opened ahead.
    open: Vec<Arc<Table>>,
    files: Vec<NewFile>,
    /// The last file, if it was not synced yet.
    unsynced: Option<Box<dyn WriteFile>>,
}

impl NewTables {
    /// Adds a table; its file is added by [`NewTables::add_file`].
    pub fn add_table(&mut self, table: NewTable) {
        self.tables.push(table);
    }

    /// Adds the file of the tables that were added since the last one, and verifies these. The file
    /// before is durable on return, this one after [`NewTables::sync`].
    ///
    /// # Errors
    /// Corruption, if a table reads other than it was written; what writing, reading and syncing
    /// fail with; `Closed`, if the job was cancelled.
    pub fn add_file(
        &mut self,
        file: NewFile,
        mut writer: Box<dyn WriteFile>,
        context: &JobContext<'_>,
    ) -> Result<()> {
        let last = self.tables[self.verified..].last().map(|table| &table.reference);
        let end = last.map(|last| last.offset + last.length);
        assert_eq!(Some(writer.len()), end, "a file of tables does not end with the last of them");
        assert!(last.is_some_and(|last| last.file == file.number), "tables of another file");
        self.files.push(file);
        writer.flush()?;
        self.verify(context)?;
        self.sync()?;
        self.unsynced = Some(writer);
        Ok(())
    }

    /// Makes the files durable, without their names.
    ///
    /// # Errors
    /// What syncing fails with.
    pub fn sync(&mut self) -> Result<()> {
        match self.unsynced.take() {
            Some(mut writer) if !seeded_fault!("skip_sync") => writer.sync(),
            _ => Ok(()),
        }
    }

    /// Adds what another part of the job has written, all of it synced.
    pub fn append(&mut self, mut other: Self) {
        assert!(self.unsynced.is_none() && other.unsynced.is_none(), "files to be synced");
        let verified = (other.verified, other.tables.len());
        assert_eq!(verified.0, verified.1, "a part of a job has a table that is not verified");
        self.tables.append(&mut other.tables);
        self.verified += other.verified;
        self.open.append(&mut other.open);
        self.files.append(&mut other.files);
    }

    /// Leaves the files to the next opening, as [`NewFile::abandon`] does.
    pub fn abandon(self) {
        self.files.into_iter().for_each(NewFile::abandon);
    }

    /// The tables written so far.
    #[must_use]
    pub fn tables(&self) -> &[NewTable] {
        &self.tables
    }

    /// Reads the tables that are not verified yet back from their file and compares them with what
    /// was written.
    fn verify(&mut self, context: &JobContext<'_>) -> Result<()> {
        let tables = &self.tables[self.verified..];
        let entries = tables.iter().map(|table| table.reference.meta.entries).sum();
        let mut progress = context.progress.map(|progress| progress.verification_of(entries));
        for table in tables {
            context.go_on()?;
            let reference = context.files.reference(table.reference.clone())?;
            let open = match table.opening {
                Opening::Readahead if context.files.cache().has_room_for_tables() => {
                    Some(reference.open_ahead()?)
                }
                Opening::Readahead | Opening::WhenRead => None,
            };
            reference.pass()?.verify(&mut |number, _, block| {
                context.go_on()?;
                if let Some(progress) = &mut progress {
                    progress.advance(block.count() as u64);
                }
                // Here it lies decoded.
                if let Some(table) = &open {
                    table.keep(number, block);
                }
                Ok(())
            })?;
            self.open.extend(open);
        }
        self.verified = self.tables.len();
        Ok(())
    }

    /// The new tables of a run lie in the order of their keys and do not overlap; each table lies
    /// in a file of the job.
    fn assert_order(&self) {
        for pair in self.tables.windows(2) {
            let [a, b] = pair else { continue };
            let is_run = a.family == b.family && a.level == b.level && a.level > 0;
            let (before, after) = (&a.reference.meta.range, &b.reference.meta.range);
            assert!(
                !is_run || before.is_before(&after.first),
                "a job writes {after:?} behind {before:?}"
            );
        }
        for NewTable { level, reference, .. } in &self.tables {
            assert!(*level < LEVELS, "a job writes to level {level}");
            let (length, bytes) = (reference.length, reference.meta.file_bytes);
            assert_eq!(length, bytes, "a table of {bytes} bytes is referred to as one of {length}");
            let file = reference.file;
            invariant!(self.files.iter().any(|own| own.number == file), "{file} is not the job's");
        }
    }

    /// Makes the files' names durable and gives the changes that install the tables, after
    /// `removals`.
    ///
    /// # Errors
    /// What syncing the directory fails with; the files are removed.
    ///
    /// # Panics
    /// If a table was not verified, or a file not synced.
    pub fn finish(
        mut self,
        removals: impl IntoIterator<Item = Change>,
        context: &JobContext<'_>,
    ) -> Result<JobOutput> {
        assert!(self.unsynced.is_none(), "a file was not synced");
        assert_eq!(self.verified, self.tables.len(), "a table was not verified");
        self.assert_order();
        if !self.files.is_empty() && !seeded_fault!("skip_directory_sync") {
            context.files.directory().sync_dir(Path::new(""))?;
        }
        let mut changes: Vec<_> = removals.into_iter().collect();
        let mut bytes_written = 0;
        for NewTable { family, level, reference, .. } in self.tables {
            bytes_written += reference.length;
            // A level's number is below `LEVELS`.
            let (level, table) = (level as u8, Arc::new(reference));
            changes.push(Change::AddTable { family, level, table });
        }
        for file in &mut self.files {
            file.fate = Fate::Keep;
        }
        let claims = self.files.iter().map(|file| file.claim.clone()).collect();
        Ok(JobOutput { changes, bytes_written, claims, open: self.open })
    }
}

/// What a job hands back. Hold it until the changes are installed: until then only it keeps the new
/// files from being taken for orphans.
///
/// The tables are complete, read back, verified and synced, and their names in the directory are,
/// too. If the changes are not installed after all, the files are for the purge.
#[derive(Debug)]
#[must_use]
pub struct JobOutput {
    /// What to install, in one edit.
    pub changes: Vec<Change>,
    /// Bytes of the new tables.
    pub bytes_written: u64,
    claims: Vec<Arc<SharedFile>>,
    open: Vec<Arc<Table>>,
}

impl JobOutput {
    /// The outputs of two jobs that are installed by one edit.
    pub fn append(&mut self, mut other: Self) {
        self.changes.append(&mut other.changes);
        self.bytes_written += other.bytes_written;
        self.claims.append(&mut other.claims);
        self.open.append(&mut other.open);
    }
}

#[cfg(test)]
mod tests;
