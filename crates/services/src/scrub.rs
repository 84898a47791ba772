//! Scrubs: verify everything on disk while the database is in use, at a limited rate.
//!
//! A scrub reads past the cache, changes nothing, and keeps at most one table from being removed.
//! Damage is reported and poisons nothing.
//!
//! 1. The manifest is read, with its lock held.
//! 2. The log is read: the segments that are needed, retained or pinned, up to the published end. A
//!    segment that is reused meanwhile is skipped.
//! 3. Tables are verified in the order of their uids. These are random and never change, so that a
//!    later scrub can continue after the last one. A table that is removed meanwhile is skipped.
//!
//! # Seeded fault
//! `scrub_skips_a_block`: a scrub takes damage behind the first block of a table for none.

use crate::check::{BlockRead, check_table, note_table};
use siltdb_base::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    fs::Metadata,
    hint::lower_priority,
    id::{SegmentId, TableUid},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    file_name::FileName,
    log::{
        read::{SegmentReader, Stop},
        record::LogPosition,
    },
};
use siltdb_engine::{
    background::Background,
    catalog::Catalog,
    catalog::lazy_family::LazyFamily,
    catalog::manifest::{read_current, read_manifest},
    database::job_rooms::JobRooms,
    database::writable::Writable,
    engine::Engine,
    log::pins::{Found, Origin},
    options::SCRUB_RATE_MIN,
    reports::{
        check_report::CheckProgress,
        lost::Lost,
        scrub_report::Scrubs,
        scrub_report::{ScrubPart, ScrubReport},
    },
};
use siltdb_tree::files::open_files::{OpenReference, TableId};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// The longest sleep of a scrub before it looks whether it is to end.
const NAP: Duration = Duration::from_millis(20);

/// How far a scrub may be behind its rate and catch up later.
const BURST: Duration = Duration::from_secs(1);

/// The bytes of log records that are read between two looks at the rate.
const LOG_BYTES_BETWEEN_LOOKS: u64 = 64 << 10;

/// How long the thread that scrubs waits for a signal before it looks at the time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The nice level of the thread that scrubs: that of compactions.
const PRIORITY_STEPS: u8 = 10;

/// What a scrub verifies, how fast, and what cancels it.
#[derive(Clone, Debug, Default)]
pub struct ScrubRequest {
    /// The rate in bytes a second; `None`: as fast as it can.
    pub bytes_per_second: Option<u64>,
    /// Verify only the tables after this one, in the order of uids, and neither log nor manifest.
    pub after: Option<u64>,
    /// Cancels the scrub.
    pub token: CancelToken,
}

/// Verifies everything that `request` asks for. The report becomes that of the last scrub, also if
/// the scrub is cancelled.
///
/// # Errors
/// `InvalidArgument`, if the rate is too low; `Closed`, once the database is closing. Damage and
/// failures of reading are in the report.
pub fn scrub(
    writable: Writable<'_>,
    request: &ScrubRequest,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<Arc<ScrubReport>> {
    let database = writable.database();
    if let Some(rate) = request.bytes_per_second.filter(|rate| *rate < SCRUB_RATE_MIN) {
        return Err(Error::invalid("the rate of a scrub is too low")
            .with_mismatch(format_args!("at least {SCRUB_RATE_MIN} bytes a second"), rate));
    }
    let go_on = || {
        database.health.check_open()?;
        request.token.check()
    };
    let _charge = database.memory.charge_copy();
    run(writable.job_rooms(), &database.scrubs, request, &go_on, on_progress)
}

/// Starts the thread that scrubs in the background, if the options ask for it and there are
/// workers.
///
/// # Errors
/// `Io`, if the system cannot start a thread.
pub fn start_scrubs(engine: &Engine) -> Result<()> {
    let options = &engine.database().options;
    match options.workers == 0 || options.scrub_interval.is_zero() {
        true => Ok(()),
        false => engine.start_thread("silt-scrub", scrub_in_background),
    }
}

/// Scrubs until the database closes, each `scrub_interval` once.
fn scrub_in_background(writable: Writable<'_>) {
    let database = writable.database();
    lower_priority(PRIORITY_STEPS);
    // Acquire pairs with the release with which the threads are ended.
    let is_ending = || database.background.ending.load(Ordering::Acquire);
    let clock = &*database.options.clock;
    let interval = u64::try_from(database.options.scrub_interval.as_nanos()).unwrap_or(u64::MAX);
    let rate = Some(database.options.scrub_bytes_per_second);
    let request = ScrubRequest { bytes_per_second: rate, ..ScrubRequest::default() };
    let go_on = || {
        wait_while_paused(&database.background, &database.scrubs, &is_ending);
        if is_ending() { Err(closing()) } else { database.health.check_open() }
    };
    let mut due_ns = clock.monotonic_ns();
    while !is_ending() {
        let seen = database.scrubs.work.seen();
        if clock.monotonic_ns() < due_ns || database.background.is_paused() {
            database.scrubs.work.wait(seen, PATIENCE);
            continue;
        }
        due_ns = clock.monotonic_ns().saturating_add(interval);
        // It fails only because the database closes.
        let _charge = database.memory.charge_copy();
        let (rooms, scrubs) = (writable.job_rooms(), &database.scrubs);
        if let Ok(report) = run(rooms, scrubs, &request, &go_on, &mut |_| {}) {
            report.found.errors.iter().for_each(|error| log::error!("scrub found damage: {error}"));
        }
    }
}

/// Waits until no pause is in force, or the threads are to end.
fn wait_while_paused(background: &Background, scrubs: &Scrubs, is_ending: &dyn Fn() -> bool) {
    loop {
        let seen = scrubs.work.seen();
        if !background.is_paused() || is_ending() {
            return;
        }
        scrubs.work.wait(seen, PATIENCE);
    }
}

#[cold]
fn closing() -> Error {
    Error::new(ErrorKind::Closed, "the database is closing")
}

/// Scrubs as long as `go_on` succeeds.
fn run(
    rooms: JobRooms<'_>,
    scrubs: &Scrubs,
    request: &ScrubRequest,
    go_on: &dyn Fn() -> Result<()>,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<Arc<ScrubReport>> {
    let clock = &*rooms.options.clock;
    let start_ns = clock.monotonic_ns();
    let mut report = ScrubReport::default();
    report.started_ms = clock.wall_ms();
    report.found.prepared = rooms.prepared.undecided().len() as u64;
    report.last_table = request.after;
    let pace = Pace { bytes_per_second: request.bytes_per_second, start_ns, bytes: 0 };
    let progress = CheckProgress::of(bytes_after(rooms.catalog, request.after.map(TableUid)));
    let mut scrub = Scrub { rooms, go_on, on_progress, progress, pace, report };
    let scrubbed = scrub.everything_after(request.after.map(TableUid));
    let mut report = scrub.report;
    report.is_complete = scrubbed.is_ok();
    report.duration = Duration::from_nanos(clock.monotonic_ns().saturating_sub(start_ns));
    let part = if request.after.is_none() { ScrubPart::All } else { ScrubPart::Rest };
    let report = scrubs.note(part, report);
    match scrubbed {
        Err(error) if error.kind() != ErrorKind::Cancelled => Err(error),
        _ => Ok(report),
    }
}

/// The size of the tables after one, in bytes. A table that families share counts once.
fn bytes_after(catalog: &Catalog, after: Option<TableUid>) -> u64 {
    let mut bytes: HashMap<TableId, u64> = HashMap::new();
    for version in catalog.families.load().versions() {
        let tables = version.tables().map(|(_, table)| table);
        let later = tables.filter(|table| Some(table.meta().uid) > after);
        bytes.extend(later.map(|table| (table.id(), table.file_bytes())));
    }
    bytes.values().sum()
}

/// Keeps a scrub to its rate.
struct Pace {
    bytes_per_second: Option<u64>,
    /// Since then, `bytes` were read.
    start_ns: u64,
    bytes: u64,
}

impl Pace {
    /// Notes that `bytes` were read. Returns how long to sleep at `now_ns`.
    fn advance(&mut self, bytes: u64, now_ns: u64) -> Duration {
        let Some(rate) = self.bytes_per_second else { return Duration::ZERO };
        assert!(rate > 0, "a scrub at no rate does not end");
        self.bytes += bytes;
        let took_ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(rate);
        let due_ns = self.start_ns.saturating_add(u64::try_from(took_ns).unwrap_or(u64::MAX));
        if u128::from(now_ns.saturating_sub(due_ns)) > BURST.as_nanos() {
            // A pause, or a slow disk, is not made up for.
            (self.start_ns, self.bytes) = (now_ns, 0);
        }
        Duration::from_nanos(due_ns.saturating_sub(now_ns))
    }
}

/// A running scrub.
struct Scrub<'a> {
    rooms: JobRooms<'a>,
    go_on: &'a dyn Fn() -> Result<()>,
    on_progress: &'a mut dyn FnMut(CheckProgress),
    progress: CheckProgress,
    pace: Pace,
    report: ScrubReport,
}

/// A table, by the references of all families to it.
type References = Vec<(Arc<LazyFamily>, Arc<OpenReference>)>;

impl Scrub<'_> {
    fn everything_after(&mut self, after: Option<TableUid>) -> Result<()> {
        if after.is_none() {
            self.manifest()?;
            self.log()?;
        }
        let mut after = after.map(|uid| (uid, TableId::MAX));
        while let Some(table) = next_table(self.rooms.catalog, after) {
            (self.go_on)()?;
            let reference = &table[0].1;
            let (uid, id) = (reference.meta().uid, reference.id());
            assert!(Some((uid, id)) > after, "a scrub goes back to {id:?}");
            let is_one = table.iter().all(|(_, reference)| reference.id() == id);
            assert!(is_one, "a scrub takes several tables for {id:?}");
            self.table(table)?;
            after = Some((uid, id));
            self.report.last_table = Some(uid.0);
        }
        Ok(())
    }

    /// Verifies a table, unless it is removed meanwhile.
    fn table(&mut self, table: References) -> Result<()> {
        let rooms = self.rooms;
        let id = table[0].1.id();
        let (reference, mut held) = (Arc::clone(&table[0].1), table);
        let (mut is_gone, mut stopped) = (false, None);
        let mut checked = check_table(&reference, Some(&**rooms.blobs), &mut |read| {
            is_gone = !hold(rooms.catalog, &reference, &mut held);
            let advanced = if is_gone { Err(closing()) } else { self.advance(read) };
            advanced.inspect_err(|error| stopped = Some(error.duplicate()))
        });
        checked.blocks = checked.blocks.or_else(|error| match error.offset() {
            Some(at) if seeded_fault!("scrub_skips_a_block") && at > id.offset => Ok(0),
            _ => Err(error),
        });
        let is_damaged = checked.blocks.is_err() || checked.values.damaged > 0;
        is_gone = is_gone || is_damaged && !hold(rooms.catalog, &reference, &mut held);
        match stopped {
            _ if is_gone => {
                self.report.tables_skipped += 1;
                return Ok(());
            }
            Some(stopped) => return Err(stopped),
            None => {}
        }
        let families = rooms.catalog.families.load();
        let names: Vec<Arc<str>> =
            held.iter().map(|(family, _)| families.label(family.id, &family.name())).collect();
        let tables = held.iter().map(|(_, table)| table);
        let shared: Vec<_> = names.iter().map(|name| &**name).zip(tables).collect();
        note_table(&mut self.report.found, &rooms.catalog.files, &shared, checked);
        Ok(())
    }

    /// Counts what was read for a block of a table, and sleeps as the rate asks. The progress is
    /// that through the tables.
    fn advance(&mut self, read: BlockRead) -> Result<()> {
        self.progress.bytes_done += read.block;
        (self.on_progress)(self.progress);
        self.pay(read.block + read.values)
    }

    /// Counts bytes, and sleeps as the rate asks.
    ///
    /// # Errors
    /// `Cancelled` or `Closed`, if the scrub is to end.
    fn pay(&mut self, bytes: u64) -> Result<()> {
        self.report.bytes += bytes;
        let clock = &*self.rooms.options.clock;
        let mut rest = self.pace.advance(bytes, clock.monotonic_ns());
        loop {
            (self.go_on)()?;
            if rest.is_zero() {
                return Ok(());
            }
            clock.sleep(rest.min(NAP));
            rest = rest.saturating_sub(NAP);
        }
    }

    fn lose(&mut self, error: Error) {
        self.report.found.damage.push(Lost::anything(error.duplicate()));
        self.report.found.errors.push(error);
    }

    /// Reads `CURRENT` and the manifest that it must name. No edit is installed meanwhile.
    fn manifest(&mut self) -> Result<()> {
        let directory = &**self.rooms.catalog.files.directory();
        let (read, bytes) = {
            let manifest = lock(&self.rooms.catalog.manifest_io);
            let Some(number) = manifest.number() else { return Ok(()) };
            let current = read_current(directory).and_then(|current| match current {
                Some(current) if current == number => Ok(()),
                current => Err(Error::corruption("CURRENT does not name the manifest in force")
                    .with_file(&directory.full_path(&FileName::Current.to_path()))
                    .with_mismatch(number, current.unwrap_or_default())),
            });
            let read = current.and_then(|()| read_manifest(directory, number, &mut |_| Ok(())));
            let bytes = match directory.metadata(&FileName::Manifest(number).to_path()) {
                Ok(Some(Metadata::File { len })) => len,
                _ => 0,
            };
            (read, bytes)
        };
        if let Err(error) = read
            && self.rooms.health.check_log().is_ok()
        {
            self.lose(error);
        }
        self.pay(bytes)
    }

    /// Reads every segment of the log that is known and not released meanwhile, up to its end.
    fn log(&mut self) -> Result<()> {
        let rooms = self.rooms;
        let (last, end) = lock(&rooms.log.sequencer).last();
        // Everything before the end is filled once all of it is published.
        rooms.log.publisher.wait(last);
        let pins = rooms.log.wal.pins();
        let mut after = SegmentId(0);
        while let Some(found) = pins.segment_after(after) {
            let id = found.segment.slot.id;
            if id > end.segment && found.segment.origin == Origin::Ours {
                return Ok(());
            }
            assert!(id > after, "a scrub of the log goes back to {id}");
            after = id;
            (self.go_on)()?;
            let mut stopped = None;
            let read = self.segment(&found, end, &mut stopped);
            if let Some(stopped) = stopped {
                return Err(stopped);
            }
            if let Err(error) = read
                // A failed log may end anywhere; a released file may have any content.
                && rooms.health.check_log().is_ok()
                && pins.is_known(id)
            {
                self.lose(error);
            }
        }
        Ok(())
    }

    /// Reads the records of a segment. `log_end` is the end of the log. If the scrub is to end,
    /// `stopped` has the reason.
    ///
    /// # Errors
    /// Damage; failures of reading; the reason to end.
    fn segment(
        &mut self,
        found: &Found,
        log_end: LogPosition,
        stopped: &mut Option<Error>,
    ) -> Result<()> {
        let id = found.segment.slot.id;
        let directory = &**self.rooms.catalog.files.directory();
        let name = FileName::Segment(found.segment.slot.slot).to_path();
        let path = directory.full_path(&name);
        let reader = SegmentReader::new(directory.open(&name)?, path.clone(), id)?;
        let end = [Some(log_end), found.following.map(|following| following.previous)];
        let end = end.into_iter().flatten().find(|end| end.segment == id).map(|end| end.offset);
        let (start, sequence) = (reader.position().offset, reader.next_sequence());
        let mut reader = reader.resumed(start, sequence, end.unwrap_or(u64::MAX));
        let mut paid = 0;
        while reader.next().map_err(|error| error.or_file(&path))?.is_some() {
            self.report.found.log_records += 1;
            let read = reader.position().offset;
            assert!(read > paid, "{read} bytes of a segment were read, and {paid} counted");
            let unpaid = read - paid;
            if unpaid >= LOG_BYTES_BETWEEN_LOOKS {
                paid += unpaid;
                self.pay(unpaid).inspect_err(|error| *stopped = Some(error.duplicate()))?;
            }
        }
        let unpaid = reader.position().offset - paid;
        self.pay(unpaid).inspect_err(|error| *stopped = Some(error.duplicate()))?;
        // A power failure may have taken the end of a segment that was retired before the opening.
        let is_ours = found.segment.origin == Origin::Ours;
        match end.filter(|end| is_ours && *end != reader.position().offset) {
            None => Ok(()),
            Some(end) => {
                let stop = reader.stop().unwrap_or(Stop::SegmentEnd);
                Err(Error::corruption(format!("a segment of the log stops early, at {stop}"))
                    .with_file(&path)
                    .with_offset(reader.position().offset)
                    .with_mismatch(end, reader.position().offset))
            }
        }
    }
}

/// The first table after `after` in the order of uids, by all references to it.
fn next_table(catalog: &Catalog, after: Option<(TableUid, TableId)>) -> Option<References> {
    let mut next: Option<((TableUid, TableId), References)> = None;
    for family in catalog.families.load().iter() {
        for (_, table) in family.version().tables() {
            let place = (table.meta().uid, table.id());
            if Some(place) <= after {
                continue;
            }
            let reference = (Arc::clone(family), Arc::clone(table));
            match &mut next {
                Some((found, references)) if *found == place => references.push(reference),
                Some((found, _)) if *found < place => {}
                _ => next = Some((place, vec![reference])),
            }
        }
    }
    next.map(|(_, references)| references)
}

/// Whether a table is still live. `held` has its references, and then its present ones; `reference`
/// is the one that it is read through. While a version has one of `held`, this costs two loads.
fn hold(catalog: &Catalog, reference: &Arc<OpenReference>, held: &mut References) -> bool {
    let has_others = |table: &Arc<OpenReference>| {
        Arc::strong_count(table) > 1 + usize::from(Arc::ptr_eq(table, reference))
    };
    if held.iter().any(|(_, table)| has_others(table)) {
        return true;
    }
    let mut present = References::new();
    for family in catalog.families.load().iter() {
        let version = family.version();
        let tables = version.tables().filter(|(_, table)| table.id() == reference.id());
        present.extend(tables.map(|(_, table)| (Arc::clone(family), Arc::clone(table))));
    }
    let is_live = !present.is_empty();
    if is_live {
        *held = present;
    }
    is_live
}

#[cfg(test)]
mod tests;
