//! The write-ahead log: files prepared ahead, filled by commits, synced in groups, and recycled.
//!
//! `disk::log` defines the bytes of a record, and `commit` decides which record goes where.
//!
//! A segment's file is named by a *slot* number, which stays. The segment id inside changes with
//! each use. So recycling renames nothing, and a stale id is older than the manifest's log start.

use crate::{
    health::Health,
    kit::random::Random,
    log::pins::{KnownSegment, Pin, Pins, SegmentSlot},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, LogFile, LogFileOptions, LogIo, Metadata},
    id::SegmentId,
    invariant, seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    edit::synced::SyncedLog,
    file_name::FileName,
    log::{record::LogPosition, segment::next_segment},
};
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex},
};

/// Retired files kept for the next segments; more are removed.
const IDLE_FILES_MAX: usize = 2;

/// The size of the prepared space of a new segment, in bytes.
const FIRST_WINDOW_BYTES: u64 = 256 << 10;

/// A log file that is ready to become a segment.
#[derive(Debug)]
struct Ready {
    slot: u64,
    file: Arc<dyn LogFile>,
    /// The end of the prepared space.
    prepared: u64,
    /// Whether the file can be found after a power failure.
    name: Name,
}

/// Whether the name of a log file is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    /// It is durable, or the next sync of the log makes it so because of another use of the file.
    Durable,
    /// The next sync of the log has to make it durable.
    Unsynced,
}

/// One use of a log file.
#[derive(Debug)]
pub struct Segment {
    /// The id of this use.
    pub id: SegmentId,
    /// The number in the file's name.
    pub slot: u64,
    /// The file.
    pub file: Arc<dyn LogFile>,
}

/// Where a log continues after recovery.
#[derive(Clone, Debug, Default)]
pub struct LogStart {
    /// The largest segment id that was ever used.
    pub highest_segment: SegmentId,
    /// The slots of the files that exist.
    pub slots: Vec<u64>,
    /// The end of the recovered log. Everything before it is durable, or the next recovery replays
    /// it again.
    pub end: LogPosition,
}

/// The segments of a database.
///
/// # Thread safety
/// Everything may be called from any thread. `files_io` is held while files are opened and removed;
/// `ready`, `groups` and `noted` never during IO. Lock order: `files_io`, `ready`, `groups`.
/// `noted` is taken alone.
///
/// # Invariants
/// 1. A file's name is durable before `synced` reaches into a segment in it.
/// 2. `synced` only grows; everything before it is durable.
/// 3. At most one thread syncs at a time (`running`).
#[derive(Debug)]
pub struct Wal {
    directory: Arc<dyn Fs>,
    io: LogIo,
    capacity: u64,
    files_io: Mutex<Files>,
    ready: Mutex<Vec<Ready>>,
    groups: Mutex<Groups>,
    synced_changed: Condvar,
    /// What the manifest notes of syncs.
    noted: Mutex<SyncedLog>,
    pins: Arc<Pins>,
}

#[derive(Debug)]
struct Files {
    /// Slots of files that existed at open; new files take others. A stray file may have the
    /// largest number there is, so new slots count from 1, not from the last.
    found: Vec<u64>,
    /// This process took no slot from here on.
    next_slot: u64,
    idle: Vec<u64>,
}

impl Files {
    fn unused_slot(&self) -> u64 {
        let mut slots = self.next_slot..;
        slots.find(|slot| !self.found.contains(slot)).expect("there are more numbers than files")
    }
}

#[derive(Debug)]
struct Groups {
    highest_segment: SegmentId,
    random: Random,
    /// Segments that hold unsynced records, oldest first; the last is being filled.
    unsynced: VecDeque<Arc<Segment>>,
    synced: LogPosition,
    /// The length that the file of the synced segment had when the last sync began, in bytes.
    synced_file_bytes: u64,
    requested: LogPosition,
    running: bool,
    syncs: u64,
    /// A segment in `unsynced` is in a file whose name the next sync has to make durable.
    has_unsynced_name: bool,
}

impl Wal {
    /// A log of segments of `capacity` bytes in `directory` that continues at `start`.
    #[must_use]
    pub fn new(
        directory: Arc<dyn Fs>,
        io: LogIo,
        capacity: u64,
        start: &LogStart,
        random: Random,
    ) -> Self {
        Self {
            directory,
            io,
            capacity,
            files_io: Mutex::new(Files {
                found: start.slots.clone(),
                next_slot: 1,
                idle: Vec::new(),
            }),
            ready: Mutex::default(),
            groups: Mutex::new(Groups {
                highest_segment: start.highest_segment,
                random,
                unsynced: VecDeque::new(),
                synced: start.end,
                synced_file_bytes: 0,
                requested: start.end,
                running: false,
                syncs: 0,
                has_unsynced_name: false,
            }),
            synced_changed: Condvar::new(),
            // Of segments of earlier processes nothing more is to be noted.
            noted: Mutex::new(SyncedLog { position: start.end, slot: 0, file_bytes: u64::MAX }),
            pins: Arc::default(),
        }
    }

    /// The same log with `pins` to decide which retired files stay.
    #[must_use]
    pub fn with_pins(self, pins: Pins) -> Self {
        Self { pins: Arc::new(pins), ..self }
    }

    /// The pins and the retention of retired files.
    #[must_use]
    pub fn pins(&self) -> &Arc<Pins> {
        &self.pins
    }

    /// Notes a segment that was taken. To be called before anything in it is published.
    pub fn begin(&self, segment: KnownSegment) {
        self.pins.begin(segment);
    }

    /// The largest segment id so far.
    #[must_use]
    pub fn highest_segment(&self) -> SegmentId {
        lock(&self.groups).highest_segment
    }

    /// Makes a file ready to become the next segment, with `needed` bytes prepared, unless one is
    /// ready. The file has the usual size, or `needed` bytes if that is more.
    ///
    /// To be called ahead of need: it syncs the directory, so that no sync of the log has to.
    ///
    /// # Errors
    /// `NoSpace` and the system's; nothing is lost.
    pub fn make_ready(&self, needed: u64) -> Result<()> {
        self.make(needed, Name::Durable)
    }

    /// As [`Wal::make_ready`], for a commit that waits for the file. The first sync of the log that
    /// reaches into the segment also syncs the directory.
    ///
    /// # Errors
    /// `NoSpace` and the system's; nothing is lost.
    pub fn make_ready_now(&self, needed: u64) -> Result<()> {
        self.make(needed, Name::Unsynced)
    }

    fn make(&self, needed: u64, name: Name) -> Result<()> {
        if self.is_ready(needed) {
            return Ok(());
        }
        let mut files = lock(&self.files_io);
        // The previous holder of the lock may have made such a file.
        if self.is_ready(needed) {
            return Ok(());
        }
        let usual = needed <= self.capacity;
        let recycled = if usual { self.pop_idle(&mut files)? } else { None };
        let slot = recycled.unwrap_or_else(|| files.unused_slot());
        invariant!(!self.pins.has_slot(slot), "the file {slot} of a kept segment would be reused");
        // The name of a recycled file was made durable when the file was new.
        let name = if recycled.is_some() { Name::Durable } else { name };
        let made = self.open(slot, needed, name).and_then(|ready| {
            if recycled.is_none() && name == Name::Durable {
                self.sync_dir()?;
            }
            Ok(ready)
        });
        match made {
            Ok(ready) => {
                if recycled.is_none() {
                    files.next_slot = slot + 1;
                }
                lock(&self.ready).push(ready);
                Ok(())
            }
            Err(error) => {
                files.idle.extend(recycled);
                Err(error)
            }
        }
    }

    /// Takes an idle file. One that has got a second name belongs to a copy of the database, too,
    /// and is not written to again.
    fn pop_idle(&self, files: &mut Files) -> Result<Option<u64>> {
        while let Some(slot) = files.idle.pop() {
            if self.is_unshared(slot) {
                return Ok(Some(slot));
            }
            self.directory.remove(&file_name(slot))?;
        }
        Ok(None)
    }

    fn is_unshared(&self, slot: u64) -> bool {
        let inode = self.directory.inode(&file_name(slot));
        seeded_fault!("linked_files_written") || inode.is_ok_and(|inode| inode.links == 1)
    }

    fn sync_dir(&self) -> Result<()> {
        if seeded_fault!("skip_directory_sync") {
            return Ok(());
        }
        self.directory.sync_dir(Path::new(""))
    }

    fn is_ready(&self, needed: u64) -> bool {
        lock(&self.ready).iter().any(|ready| ready.prepared >= needed)
    }

    fn open(&self, slot: u64, needed: u64, name: Name) -> Result<Ready> {
        let capacity = needed.max(self.capacity);
        let options = LogFileOptions { capacity, io: self.io };
        let file = self.directory.open_log(&file_name(slot), options)?;
        let prepared = needed.max(FIRST_WINDOW_BYTES).min(capacity);
        file.prepare(prepared)?;
        Ok(Ready { slot, file, prepared, name })
    }

    /// The next segment and the size of its prepared space, if a file with `needed` prepared bytes
    /// is ready.
    ///
    /// # Errors
    /// Corruption, if segment ids are used up; the file stays ready.
    pub fn take_segment(&self, needed: u64) -> Result<Option<(Arc<Segment>, u64)>> {
        let mut ready = lock(&self.ready);
        let Some(index) = ready.iter().position(|ready| ready.prepared >= needed) else {
            return Ok(None);
        };
        let mut groups = lock(&self.groups);
        let random = groups.random.next_u64() as u32;
        let id = next_segment(groups.highest_segment, random)?;
        groups.highest_segment = id;
        let Ready { slot, file, prepared, name } = ready.swap_remove(index);
        groups.has_unsynced_name |= name == Name::Unsynced;
        let segment = Arc::new(Segment { id, slot, file });
        groups.unsynced.push_back(Arc::clone(&segment));
        Ok(Some((segment, prepared)))
    }

    /// The end of the durable part of the log.
    #[must_use]
    pub fn synced(&self) -> LogPosition {
        lock(&self.groups).synced
    }

    /// The same, with the slot and the durable length of the segment's file; 0 if the segment is
    /// not one of this process.
    #[must_use]
    pub fn synced_log(&self) -> SyncedLog {
        let groups = lock(&self.groups);
        let position = groups.synced;
        let segment = groups.unsynced.iter().find(|segment| segment.id == position.segment);
        let file_bytes = segment.map_or(0, |_| groups.synced_file_bytes);
        SyncedLog { position, slot: segment.map_or(0, |segment| segment.slot), file_bytes }
    }

    /// Says that the file of the last segment is about to be cut to the end of the log. The
    /// manifest must note this before, or an opening would miss what was never written.
    pub fn expect_shorter(&self) {
        let mut groups = lock(&self.groups);
        groups.synced_file_bytes = groups.synced_file_bytes.min(groups.synced.offset);
    }

    /// Whether the manifest notes a sync of the segment of `position`, and that the file is as long
    /// as that.
    #[must_use]
    pub fn is_noted(&self, position: LogPosition) -> bool {
        let noted = lock(&self.noted);
        let is_within =
            noted.position.segment == position.segment && position.offset <= noted.file_bytes;
        is_within || position.segment < noted.position.segment
    }

    /// Notes what the manifest says durably.
    pub fn noted(&self, synced: &SyncedLog) {
        let mut noted = lock(&self.noted);
        if synced.position >= noted.position {
            *noted = *synced;
        }
    }

    /// The number of syncs so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        lock(&self.groups).syncs
    }

    /// Returns once everything before `target` is durable, with the end of the durable part.
    /// Everything before `target` must be published, that is, contiguously filled. Many callers
    /// share one sync (group commit).
    ///
    /// # Errors
    /// `Poisoned`, if this sync or an earlier one fails. No sync is tried again.
    pub fn sync_to(&self, target: LogPosition, health: &Health) -> Result<LogPosition> {
        let mut groups = lock(&self.groups);
        groups.requested = groups.requested.max(target);
        loop {
            if groups.synced >= target {
                return Ok(groups.synced);
            }
            health.check_log()?;
            if !groups.running {
                break;
            }
            let woken = self.synced_changed.wait(groups);
            groups = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        let upto = groups.requested;
        let segments: Vec<_> =
            groups.unsynced.iter().filter(|segment| segment.id <= upto.segment).cloned().collect();
        groups.running = true;
        let has_unsynced_name = std::mem::take(&mut groups.has_unsynced_name);
        drop(groups);
        let mut turn = Turn { wal: self, health, is_done: false };
        let named = if has_unsynced_name { self.sync_dir() } else { Ok(()) };
        let last = segments.iter().find(|segment| segment.id == upto.segment);
        let file_bytes = last.map_or(0, |last| last.file.prepared());
        let result = named.and_then(|()| sync_segments(&segments, upto));
        turn.is_done = true;
        match result {
            Ok(()) => {
                let mut groups = lock(&self.groups);
                if upto >= groups.synced {
                    (groups.synced, groups.synced_file_bytes) = (upto, file_bytes);
                }
                groups.syncs += 1;
                groups.unsynced.retain(|segment| segment.id >= upto.segment);
                Ok(groups.synced)
            }
            Err(error) => Err(health.poison(error)),
        }
    }

    /// Pins the files of the segments from `segment` on, none of which may be retired yet. Files
    /// that are retired meanwhile are released by the first [`Wal::retire`] after the pin is
    /// dropped.
    #[must_use]
    pub fn pin(&self, segment: SegmentId) -> Pin {
        self.pins.pin(segment)
    }

    /// Takes the files of segments that a durable edit has retired. The next segments reuse them,
    /// unless they are pinned or larger than usual. Returns the segments that are still open.
    ///
    /// # Errors
    /// The system's, from removing a file. The file stays retired, and the next open removes it.
    pub fn retire(&self, segments: &[SegmentSlot]) -> Result<Vec<Arc<Segment>>> {
        let is_retired = |id| segments.iter().any(|segment| segment.id == id);
        let retired = {
            let mut groups = lock(&self.groups);
            let unsynced = std::mem::take(&mut groups.unsynced).into_iter();
            let (retired, kept): (VecDeque<_>, _) =
                unsynced.partition(|segment| is_retired(segment.id));
            groups.unsynced = kept;
            retired.into()
        };
        let mut files = lock(&self.files_io);
        for segment in self.pins.retire(segments) {
            let name = file_name(segment.slot);
            let is_usual = || match self.directory.metadata(&name) {
                Ok(Some(Metadata::File { len })) => len <= self.capacity,
                _ => false,
            };
            let is_idle = files.idle.contains(&segment.slot);
            assert!(!is_idle, "the file {} would be kept for two segments", segment.slot);
            if files.idle.len() < IDLE_FILES_MAX && is_usual() {
                files.idle.push(segment.slot);
            } else {
                self.directory.remove(&name)?;
            }
        }
        Ok(retired)
    }

    /// Removes the files that no segment uses, to free their space. Nothing may be written after
    /// this.
    ///
    /// If a file cannot be removed now, the next open removes it.
    pub fn give_back_unused(&self) {
        let mut files = lock(&self.files_io);
        let ready = std::mem::take(&mut *lock(&self.ready));
        let ready = ready.into_iter().map(|ready| ready.slot);
        let kept = self.pins.retire(&[]).into_iter().map(|segment| segment.slot);
        for slot in ready.chain(kept).chain(files.idle.drain(..)) {
            let _ = self.directory.remove(&file_name(slot));
        }
    }
}

/// The name of the file in a slot.
fn file_name(slot: u64) -> PathBuf {
    FileName::Segment(slot).to_path()
}

/// The turn of the one thread that syncs. Dropping it ends the turn, after a panic too.
struct Turn<'a> {
    wal: &'a Wal,
    health: &'a Health,
    /// The sync has returned and did not panic.
    is_done: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // It is unknown what the sync made durable, so no thread may try again.
            let _ = self.health.poison(Error::new(ErrorKind::Poisoned, "a sync panicked"));
        }
        lock(&self.wal.groups).running = false;
        self.wal.synced_changed.notify_all();
    }
}

/// Syncs segments whose records before `upto` are all filled.
fn sync_segments(segments: &[Arc<Segment>], upto: LogPosition) -> Result<()> {
    if seeded_fault!("skip_sync") {
        return Ok(());
    }
    segments.iter().try_for_each(|segment| {
        let is_last = segment.id == upto.segment;
        let end = if is_last { upto.offset } else { segment.file.capacity() };
        // These bytes are never filled again. Pages mapped nowhere are written back without
        // removing each from the page tables. That removal would interrupt the other processors
        // each time.
        segment.file.release(end);
        segment.file.sync(end)
    })
}

#[cfg(test)]
mod tests;
