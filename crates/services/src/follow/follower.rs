//! A follower: catches up with a database that another process may be writing.
//!
//! It writes no byte and takes no lock. It does not keep the writer from removing or reusing files.
//!
//! # How it catches up
//! 1. The manifest is read, if it has changed.
//! 2. The log is read on from where it was read to.
//! 3. The files of all tables are opened. The kernel keeps an open file that is removed.
//! 4. If the log names a family that is not known, the manifest is older than the log: all is done
//!    again. A family that a later manifest does not have either was dropped. All is also done
//!    again if the log has the place of an ingest, because its edit was durable before.
//! 5. Families, tables and memtables become a new state.
//!
//! # Invariants
//! 1. A state has every commit up to its sequence number, and of later ones nothing that readers
//!    see. Flushes retire whole generations, so a manifest has the commits before its log start as
//!    tables, and the log has the others.
//! 2. The log is read after the manifest. So it reaches at least as far as the manifest knows: what
//!    it no longer has is in the tables of a later manifest.
//! 3. The sequence number never decreases.
//! 4. What looks like damage is an error only if it is there in several readings in a row, with the
//!    manifest read in between. A file or record that vanished was retired by an edit that
//!    was durable before. So the next manifest shows that it is not needed.
//!
//! # Seeded faults
//! `follower_shows_half_a_batch`: readers see the first operation of a last commit before the
//! others. `vanished_file_is_damage`: a table that the writer has removed is damage at once.

use crate::{
    contents::{CopyChoice, CopyContents},
    follow::{
        base::{Base, Given},
        contents::contents_of,
        doubts::Doubts,
        log_feed::LogFeed,
        log_memory::LogMemory,
        log_tail::{LogTail, TailEnd, Taken, lost_commits},
        state::{StateParts, attach, families_of},
    },
};
use siltdb_base::{
    clock::ForwardClock,
    error::{Error, ErrorKind, Result},
    fs::Fs,
    id::{FamilyId, SegmentId, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::log::{
    read::Record,
    record::{LogPosition, RecordKind},
    segment::SEGMENT_HEADER_BYTES,
};
use siltdb_engine::{
    blobs::{Blobs, KnownBlobs},
    catalog::{family_map::FamilyMap, log_state::LogState},
    database::Database,
    engine::Engine,
    memory::Memory,
    open::{
        blob_loss::lost_value,
        cold::{ColdLocking, attach_to_read},
        directory::open_directory,
        manifest_watch::ManifestWatch,
        recovery::check_key_order,
    },
    options::{Access, Create, EngineOptions},
};
use siltdb_tree::{files::open_files::OpenFiles, merge_operator::MergeOperator};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

/// Readings of one catching up. A writer would have to change families, or to remove tables, at
/// each of them.
const READINGS_MAX: usize = 64;

/// The shortest pause between two attempts to reach a sequence number.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// A read-only opening that catches up with a writer.
///
/// # Thread safety
/// Any thread may use it; one at a time catches up. Lock order: `core_io`, then `state`.
#[derive(Debug)]
pub struct DatabaseFollower {
    core_io: Mutex<Core>,
    state: Mutex<Engine>,
}

/// What was read so far.
#[derive(Debug)]
struct Core {
    dir: PathBuf,
    options: EngineOptions,
    operators: Vec<Arc<dyn MergeOperator>>,
    memory: Memory,
    files: Arc<OpenFiles>,
    blobs: Arc<Blobs>,
    watch: ManifestWatch,
    tail: LogTail,
    log: LogMemory,
    base: Base,
    /// The time of expiry, from the first state on.
    time: Option<Arc<ForwardClock>>,
    /// The families of the last state.
    families: FamilyMap,
    /// The last sequence number of the last state.
    last: SequenceNumber,
    /// Records read in all.
    records: u64,
    /// The families must be made anew from the base.
    is_rebuilt: bool,
    /// The files of the base are open.
    is_held: bool,
    /// A state is due, also if nothing new is found.
    is_due: bool,
    /// The log may have the place of an ingest that the manifest, as it was read, lacks.
    is_ingest_missing: bool,
    /// Families that the log names and the last reading did not know.
    asked: BTreeSet<FamilyId>,
    /// Families that the log names and that were dropped.
    dropped: BTreeSet<FamilyId>,
    /// Why the follower has ended.
    failure: Option<Error>,
}

/// The result of one reading.
enum Reading {
    /// A new state.
    State(Box<Database>),
    /// The last state is up to date.
    Unchanged,
    /// It must be read again, because of what may be damage, or because the manifest was too old.
    Again(Option<Error>),
}

impl DatabaseFollower {
    /// Opens a follower of the database in `dir`, and catches up.
    ///
    /// # Errors
    /// `NotFound`, without a database; `InvalidArgument`, for a bad option or another key order of
    /// the default family; as [`DatabaseFollower::catch_up`].
    pub fn open(dir: &Path, options: EngineOptions) -> Result<Self> {
        options.check()?;
        let access = Access::ReadOnly;
        let options = EngineOptions { create: Create::Never, access, workers: 0, ..options };
        let (directory, _) = open_directory(dir, &options)?;
        let mut core = Core::new(dir, options, directory);
        let state = core.catch_up()?.expect("the first state is always new");
        check_key_order(&state.catalog, &state.options)?;
        let state = Mutex::new(Engine::of_state(state));
        Ok(Self { core_io: Mutex::new(core), state })
    }

    /// Applies what manifest and log hold now.
    ///
    /// # Errors
    /// `Corruption`, with file and offset; `Unsupported`; `NotFound`, if the database was removed;
    /// `Poisoned`, if the database has lost commits that were shown; `Busy`, if the writer changes
    /// more than can be read: a later call may succeed. The state stays as it is.
    pub fn catch_up(&self) -> Result<SequenceNumber> {
        let mut core = lock(&self.core_io);
        self.advance(&mut core)?;
        Ok(core.last)
    }

    fn advance(&self, core: &mut Core) -> Result<()> {
        if let Some(database) = core.catch_up()? {
            let state = Engine::of_state(database);
            let shown = state.database().log.publisher.published();
            let before = std::mem::replace(&mut *lock(&self.state), state);
            let shown_before = before.database().log.publisher.published();
            assert!(shown >= shown_before, "a follower goes back from {shown_before} to {shown}");
            // Outside the lock, because it frees memory.
            drop(before);
        }
        Ok(())
    }

    /// Catches up, and notes what a copy of the state holds, or of the chosen families. What is in
    /// memory is written to `target`.
    ///
    /// # Errors
    /// As [`DatabaseFollower::catch_up`] and [`contents_of`].
    pub(super) fn contents(
        &self,
        choice: Option<CopyChoice<'_>>,
        target: &Arc<dyn Fs>,
    ) -> Result<CopyContents> {
        let mut core = lock(&self.core_io);
        self.advance(&mut core)?;
        // Still under the lock: the next reading adds entries to the memtables of this state.
        contents_of(self.state().database(), choice, core.log_end(), target)
    }

    /// Catches up until the state has `sequence`, for at most `timeout`. Returns whether it has.
    ///
    /// # Errors
    /// As [`DatabaseFollower::catch_up`], but for `Busy`.
    pub fn wait_for(&self, sequence: SequenceNumber, timeout: Duration) -> Result<bool> {
        let clock = Arc::clone(&lock(&self.core_io).options.clock);
        let start_ns = clock.monotonic_ns();
        loop {
            let begun_ns = clock.monotonic_ns();
            match self.catch_up() {
                Ok(last) if last >= sequence => return Ok(true),
                Err(error) if error.kind() != ErrorKind::Busy => return Err(error),
                _ => {}
            }
            let now_ns = clock.monotonic_ns();
            let waited = Duration::from_nanos(now_ns.saturating_sub(start_ns));
            if waited >= timeout {
                return Ok(false);
            }
            // So that at most half of a processor is used.
            let took = Duration::from_nanos(now_ns.saturating_sub(begun_ns));
            clock.sleep(took.max(PAUSE_MIN).min(timeout - waited));
        }
    }

    /// The newest state.
    #[must_use]
    pub fn state(&self) -> Engine {
        lock(&self.state).clone()
    }

    /// A feed of the commits in the log from `first` on; with `None`, of all commits that recovery
    /// would need.
    ///
    /// # Errors
    /// `InvalidArgument`, if `first` is beyond the next commit that the state does not have; as
    /// [`LogFeed::new`].
    pub fn feed(&self, first: Option<SequenceNumber>) -> Result<LogFeed> {
        let core = lock(&self.core_io);
        let end = core.last.next();
        if let Some(first) = first.filter(|first| *first > end) {
            return Err(Error::invalid("no commit that was read has this sequence number yet")
                .with_mismatch(format_args!("at most {}", end.0), first.0));
        }
        let directory = Arc::clone(core.files.directory());
        LogFeed::new(directory, Arc::clone(&core.options.clock), first)
    }
}

impl Core {
    fn new(dir: &Path, options: EngineOptions, directory: Arc<dyn Fs>) -> Self {
        let memory = Memory::new(&options);
        let cache = Arc::clone(&memory.cache);
        let files = OpenFiles::following(Arc::clone(&directory), options.read_io, cache);
        let base = Base::default();
        Self {
            dir: dir.to_owned(),
            operators: options.operators(),
            files,
            watch: ManifestWatch::new(Arc::clone(&directory)),
            blobs: Arc::new(Blobs::new(Arc::clone(&directory), KnownBlobs::Any)),
            tail: LogTail::new(directory),
            log: LogMemory::new(Arc::clone(&memory.arenas)),
            memory,
            options,
            base,
            time: None,
            families: FamilyMap::default(),
            last: SequenceNumber::ZERO,
            records: 0,
            is_rebuilt: true,
            is_held: false,
            is_due: true,
            is_ingest_missing: false,
            asked: BTreeSet::new(),
            dropped: BTreeSet::new(),
            failure: None,
        }
    }

    /// The last segment of the log that a table or an entry may come from.
    fn log_end(&self) -> SegmentId {
        let read = self.tail.place().map_or(SegmentId(0), |place| place.position.segment);
        let LogState { first, synced, .. } = self.base.log;
        read.max(first).max(synced.position.segment)
    }

    /// Reads until there is a state, or nothing new.
    fn catch_up(&mut self) -> Result<Option<Database>> {
        if let Some(failure) = &self.failure {
            return Err(failure.duplicate());
        }
        let mut doubts = Doubts::default();
        for _ in 0..READINGS_MAX {
            let doubt = match self.read() {
                Ok(Reading::State(database)) => return Ok(Some(*database)),
                Ok(Reading::Unchanged) => return Ok(None),
                Ok(Reading::Again(doubt)) => doubt,
                Err(error) => return Err(self.ended_by(error)),
            };
            match doubt {
                Some(doubt) => doubts.note(doubt).map_err(|error| self.ended_by(error))?,
                None => doubts.clear(),
            }
        }
        Err(Error::new(ErrorKind::Busy, "the database changes faster than it is read")
            .with_file(&self.dir)
            .with_hint("catch up again"))
    }

    /// Keeps an error that no later reading takes back.
    fn ended_by(&mut self, error: Error) -> Error {
        if error.kind() == ErrorKind::Poisoned {
            self.failure = Some(error.duplicate());
        }
        error
    }

    /// Reads manifest and log once, and makes a state of them.
    fn read(&mut self) -> Result<Reading> {
        self.read_manifest()?;
        self.is_ingest_missing = false;
        let doubt = match self.read_log()? {
            TailEnd::Doubtful(error) => Some(error),
            TailEnd::Reached | TailEnd::Stopped => None,
        };
        // With a newer manifest, commits may have left the log for tables that only it names.
        if doubt.is_none() && self.read_manifest()? {
            return Ok(Reading::Again(None));
        }
        if !self.is_held {
            let held = self.base.hold_files().and_then(|()| {
                self.blobs = Arc::new(self.blobs.following(&self.base.log.blob_files)?);
                Ok(())
            });
            match held {
                Err(error) if error.kind() == ErrorKind::Busy => {
                    return Ok(Reading::Again(Some(error)));
                }
                held => held?,
            }
            self.is_held = true;
        }
        if doubt.is_some() || self.is_ingest_missing {
            return Ok(Reading::Again(doubt));
        }
        let (place, log) = (self.tail.place(), &self.base.log);
        let begin = LogPosition { segment: log.first, offset: 0 };
        let at = place.map_or(begin, |place| place.position);
        if at < log.families && log.families.segment >= log.first {
            // The manifest has changes of families of a commit that was not read yet.
            return Ok(Reading::Again(None));
        }
        let read = place.map_or(0, |place| place.next.0.saturating_sub(1));
        let last = SequenceNumber(read).max(log.last_sequence).max(self.base.sequence_max);
        if last < self.last {
            return Err(lost_commits());
        }
        if last == self.last && !self.is_due && !self.is_rebuilt {
            return Ok(Reading::Unchanged);
        }
        self.is_due = true;
        if let Err(error) = self.make_families() {
            // The base may be older than a commit that changes families.
            return Ok(Reading::Again(Some(error)));
        }
        if self.names_unknown_family() {
            return Ok(Reading::Again(None));
        }
        self.last = last;
        self.is_due = false;
        Ok(Reading::State(Box::new(self.state())))
    }

    /// Returns whether the manifest has changed since the last call.
    fn read_manifest(&mut self) -> Result<bool> {
        let given = Given { files: &self.files, blobs: &self.blobs, operators: &self.operators };
        let read = &mut |path, file| Base::read(given, path, file);
        let Some(base) = self.watch.refresh(read)? else { return Ok(false) };
        if base.is_before(&self.base) {
            return Err(lost_commits());
        }
        // At each new manifest: a writer may have been told another place of it.
        let (stored, families) = (base.log.cold.as_ref(), &base.families);
        let follows = ColdLocking::Follows;
        attach_to_read(&self.dir, &self.options, stored, &self.files, families, follows)?;
        self.log.retire(base.log.first);
        (self.base, self.is_rebuilt, self.is_held) = (base, true, false);
        Ok(true)
    }

    fn read_log(&mut self) -> Result<TailEnd> {
        let (log, records, is_rebuilt) = (&mut self.log, &mut self.records, &mut self.is_rebuilt);
        let (is_ingest_missing, blobs) = (&mut self.is_ingest_missing, &self.blobs);
        let synced = self.base.log.synced.position;
        self.tail.advance(&self.base.log, &mut |record| {
            // A value below the synced position is durable, as it is for recovery.
            let lost = match record.at < synced {
                true => None,
                false => lost_value(record, |pointer| blobs.verify(pointer))?,
            };
            if let Some(error) = lost {
                return Ok(Taken::NotWhole(error));
            }
            *is_rebuilt |= log.apply(record)?;
            *records += 1;
            *is_ingest_missing |= may_be_ingest(record);
            Ok(Taken::Next)
        })
    }

    /// Makes the families of the next state.
    fn make_families(&mut self) -> Result<()> {
        let given = Given { files: &self.files, blobs: &self.blobs, operators: &self.operators };
        if self.is_rebuilt {
            self.families = families_of(&self.base, &self.log, given)?;
            self.is_rebuilt = false;
            let _ = self.log.take_written();
            return Ok(());
        }
        let written = self.log.take_written();
        let attached = attach(self.families.to_builder(), &written, &self.log, given);
        self.is_rebuilt = attached.is_err();
        self.families = attached?;
        Ok(())
    }

    /// Whether the log names a family that may be in a later manifest.
    fn names_unknown_family(&mut self) -> bool {
        let named = self.log.families();
        self.dropped.retain(|id| named.contains(id));
        let unknown = named
            .into_iter()
            .filter(|id| !self.families.contains(*id) && !self.dropped.contains(id));
        let (dropped, unknown) = unknown.partition(|id| self.asked.contains(id));
        let dropped: BTreeSet<FamilyId> = dropped;
        self.dropped.extend(dropped);
        self.asked = unknown;
        !self.asked.is_empty()
    }

    /// The clock of the next state, which goes on from the time that manifest and log have. What
    /// one state showed as expired stays so in the next.
    fn clock(&mut self) -> Arc<ForwardClock> {
        let stored = self.base.log.time.later(self.log.time());
        let clock = &self.options.clock;
        let time =
            self.time.get_or_insert_with(|| Arc::new(ForwardClock::new(Arc::clone(clock), stored)));
        time.go_on_from(stored);
        Arc::clone(time)
    }

    fn state(&mut self) -> Database {
        let time = self.clock();
        assert!(!self.is_rebuilt, "a state is made of the families of an older manifest");
        let mut last = self.last;
        if seeded_fault!("follower_shows_half_a_batch") {
            last = SequenceNumber(last.0.saturating_sub(1));
        }
        let state = StateParts {
            dir: &self.dir,
            options: &self.options,
            time: &time,
            memory: &self.memory,
            given: Given { files: &self.files, blobs: &self.blobs, operators: &self.operators },
            base: &self.base,
            families: self.families.clone(),
            undecided: self.log.undecided(&self.base.log.prepared),
            last,
            records: self.records,
        }
        .database();
        let shown = state.log.publisher.published();
        assert_eq!(shown, self.last, "a state shows another number than what was read");
        state
    }
}

/// Whether a record may be the place of an ingest: it has no operations, and begins a segment.
fn may_be_ingest(record: &Record<'_>) -> bool {
    record.header.kind == RecordKind::Skip && record.at.offset == SEGMENT_HEADER_BYTES as u64
}

#[cfg(test)]
mod tests;
