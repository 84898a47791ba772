//! Opens the state that a crash left and judges it: a prefix of the commits with all that must
//! survive.
//!
//! Crashes inside the recovery, and right after it, are recovered from in turn.

use crate::{
    database::{Database, all_by_name},
    directory::Directory,
    draw::Draw,
    expected::{Expectation, Names},
    guest_reads::compare_guest_pairs,
    guests::GUESTS,
    history::check_floor,
    keys::CLOCK_KEY,
    model::{DEFAULT, FamilyIndex, Model, Moment, Shared},
    prepared::{check_undecided, undecided, waiting_in},
    reads::compare_family,
    report::Report,
    settings::{DIRECTORY, Retained, Settings, Weather},
    times::Times,
    truth::{Pairs, Truth, collect, compare_pairs},
    violation::{Checked, Violation, must, show},
    watch::{Activity, CrashKind, CrashState, JobsDone, Watch},
};
use siltdb::{ErrorKind, Expiry, Family, Follower, Read, salvage::salvage};
use siltdb_base::{
    clock::{Clock, ManualClock},
    fs::mem::{CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
};
use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    path::Path,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Largest depth of crashes inside recoveries from crashes.
pub(crate) const DEPTH_MAX: u32 = 3;

/// One kill in this many is also salvaged.
const SALVAGED_OF: u64 = 10;

/// One salvage in this many is also one of damaged files.
const RESCUED_OF: u64 = 2;

/// One opening in this many comes after a read-only opening.
const LOOKED_AT_OF: u64 = 8;

/// The target directory of a salvage.
const SALVAGED: &str = "salvaged";

/// At most this many crash states are taken in one recovery.
const NESTED_MAX: usize = 2;

/// The parameters shared by all recoveries of a run.
#[derive(Debug)]
pub struct Recovery<'a> {
    /// The options.
    pub settings: &'a Settings,
    /// The clock of the run.
    pub clock: &'a Arc<ManualClock>,
    /// The expected state.
    pub model: &'a Model,
    /// The counts to add to.
    pub report: &'a mut Report,
    /// The source of random choices.
    pub draw: &'a mut Draw,
}

/// What was seen of a database before its recovery.
struct Look {
    /// What an opening that only reads has shown, by family.
    shown: BTreeMap<String, Pairs>,
    /// A follower, which has shown the same, and stays.
    follower: Follower,
}

/// What a database shows after a recovery.
#[derive(Default)]
struct Found {
    /// The pairs of families and guests.
    pairs: BTreeMap<FamilyIndex, Pairs>,
    /// The expiries in ms of those of their keys whose values expire.
    expiries: BTreeMap<FamilyIndex, BTreeMap<Shared, u64>>,
}

/// The commits that a database was found to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The last one.
    pub commit: u64,
    /// The commits up to this one are there for certain. Later ones may have left no trace.
    pub certain: u64,
    /// Any number in this range may be the last flushed volatile commit; all of them look the same.
    pub flushed: RangeInclusive<u64>,
}

/// A recovered database that was found correct.
#[derive(Debug)]
pub struct Recovered {
    /// The database.
    pub database: Database,
    /// The commits in it.
    pub standing: Standing,
    /// The times of the database.
    pub times: Times,
}

impl Recovered {
    /// What a crash must leave of it.
    fn shown(&self) -> Expectation {
        let Self { database, standing, times } = self;
        let Standing { commit, flushed, .. } = standing.clone();
        let shown = Expectation::exactly(commit, flushed, database.names.clone(), times);
        let retained = vec![database.db.retention_floor()];
        Expectation { waiting: waiting_in(&database.db), retained, ..shown }
    }
}

impl Recovery<'_> {
    /// Opens a crash state, counts it and compares all of it with the model. Then does the same for
    /// crashes during and after that recovery. Returns one of the resulting databases.
    ///
    /// # Errors
    /// If it does not open, or does not hold what it must.
    pub fn recover(
        &mut self,
        state: &CrashState,
        done: JobsDone,
        before: &Expectation,
        depth: u32,
    ) -> Checked<Recovered> {
        let expectation = before.after(state.kind);
        self.report.crashed(state.phase(done));
        self.report.power_losses += u64::from(state.kind == CrashKind::PowerLoss);
        if self.draw.chance(1, 4) {
            turn_back(self.clock, self.draw, self.report);
        }
        self.open(state, &expectation, depth).map_err(|violation| {
            let CrashState { kind, activity, call, .. } = state;
            violation.during(format!("{kind:?} during {activity:?} before {call}"))
        })
    }

    /// Opens a database and compares all of it; then crashes during and after that.
    ///
    /// # Errors
    /// As [`Recovery::recover`].
    pub fn open(
        &mut self,
        state: &CrashState,
        expectation: &Expectation,
        depth: u32,
    ) -> Checked<Recovered> {
        // A power loss that no open has recovered yet may have left records behind a hole. Only a
        // salvage shows them.
        let is_whole = depth == 0 && state.kind == CrashKind::Kill;
        let is_saved = is_whole && self.draw.chance(1, SALVAGED_OF);
        let is_there = state.fs.read_all(&Path::new(DIRECTORY).join("CURRENT")).is_ok();
        let copy = (is_saved && is_there).then(|| state.fs.crash_clone(Crash::Kill));
        let is_looked_at = is_there && self.draw.chance(1, LOOKED_AT_OF);
        let look = is_looked_at.then(|| self.look(&state.fs)).transpose()?;
        let nested_max = if depth < DEPTH_MAX { NESTED_MAX } else { 0 };
        let watch = Watch::new(&state.fs, self.draw.fork(), nested_max);
        watch.begin(Activity::Recovery);
        let db = match self.open_with_fault(state)? {
            Some(db) => db,
            None => self.open_healthy(state)?,
        };
        let nested = watch.end();
        drop(watch);
        self.check_directory(&state.fs, &db)?;
        let database = Database::new(state.fs.clone(), db, &expectation.families)?;
        if let Some(look) = look {
            self.check_look(&look, &database)?;
        }
        let (standing, times) = self.judge(&database, expectation)?;
        if !expectation.fits(&database.names, standing.commit) {
            let (names, commit) = (&database.names, standing.commit);
            let message = format!("families {names:?} at commit {commit}: half of a commit");
            return Err(Violation::new(message));
        }
        check_undecided(&expectation.waiting, &database.db, standing.commit)?;
        check_floor(&database.db, &expectation.retained)?;
        if let Some(copy) = copy {
            if self.draw.chance(1, RESCUED_OF) {
                self.rescue(&copy, &database.db, &times)
                    .map_err(|violation| violation.during("a rescue"))?;
            }
            self.salvage(&copy, &database, &times)?;
        }
        self.count_losses(expectation, &standing);
        let Standing { commit: ceiling, flushed, .. } = standing.clone();
        let mut inside = Expectation { ceiling, flushed, ..expectation.clone() };
        // A power loss may still take what a killed process had flushed but not synced, until the
        // recovery is complete.
        let flushed_first = *expectation.flushed.start();
        inside.floors_ms.extend_from_slice(times.floors_ms());
        inside.floors_ms.sort_unstable();
        inside.floors_ms.dedup();
        let mut recovered = Recovered { database, standing, times };
        for crash in nested {
            self.report.nested += 1;
            let mut before = inside.clone();
            if crash.kind == CrashKind::PowerLoss {
                before.flushed = flushed_first..=*inside.flushed.end();
            }
            let again = self.recover(&crash, JobsDone::default(), &before, depth + 1)?;
            if self.draw.chance(1, 2) {
                recovered = again;
            }
        }
        if depth < DEPTH_MAX && self.draw.chance(1, 6) {
            return self.crash_again(&recovered, depth);
        }
        Ok(recovered)
    }

    /// Checks the files that an open leaves. Those of a retained log may be any number.
    fn check_directory(&self, fs: &MemFs, db: &siltdb::Db) -> Checked<()> {
        let directory = Directory::list(fs)?;
        let directory = match self.settings.retained {
            Retained::Nothing => directory,
            Retained::Bytes(_) | Retained::Everything => directory.without_logs(),
        };
        directory.check_opened(&db.stats())
    }

    /// Recovers from a second crash, right after a recovery.
    fn crash_again(&mut self, recovered: &Recovered, depth: u32) -> Checked<Recovered> {
        let certain = recovered.standing.certain;
        let shown = recovered.shown();
        let crash = CrashState::take(&recovered.database.fs, self.draw);
        let mut again = self
            .recover(&crash, JobsDone::default(), &shown, depth + 1)
            .map_err(|violation| violation.during("second crash, right after a recovery"))?;
        let standing = &mut again.standing;
        standing.certain = standing.certain.min(certain);
        Ok(again)
    }

    /// Opens it read-only, twice at a time, and with a follower, and returns what they show. Such
    /// openings write no byte, and the first two exclude writers.
    fn look(&mut self, fs: &MemFs) -> Checked<Look> {
        let before = Directory::contents(fs)?;
        let seed = self.draw.next();
        let options = || self.settings.options(fs, self.clock, seed).read_only(true);
        let db = must(options().open(DIRECTORY), "opening to read only")?;
        let second = must(options().open(DIRECTORY), "a reader beside a reader")?;
        let writer = options().read_only(false).open(DIRECTORY);
        if !writer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Locked) {
            return Err(Violation::new(format!("a writer beside a reader got {writer:?}")));
        }
        let mut shown = BTreeMap::new();
        let [families, others] = [&db, &second].map(|db| must(all_by_name(db), "families"));
        let others = others?;
        for (name, family) in families? {
            let (one, other) = (collect(&family)?, collect(&others[&name])?);
            compare_pairs(&other, &one).map_err(|violation| violation.during("two readers"))?;
            shown.insert(name, one);
        }
        must(db.close(), "closing a reader")?;
        drop((others, second));
        let follower = must(options().open_follower(DIRECTORY), "opening a follower")?;
        check_follower(&follower, &shown)?;
        if Directory::contents(fs)? != before {
            return Err(Violation::new("an opening that only reads changed a file".to_owned()));
        }
        Ok(Look { shown, follower })
    }

    /// Whether an opening shows the same pairs as the read-only opening and the follower before it.
    fn check_look(&mut self, look: &Look, database: &Database) -> Checked<()> {
        let Look { shown, follower } = look;
        let families = must(all_by_name(&database.db), "families")?;
        if !shown.keys().eq(families.keys()) {
            return Err(Violation::new(format!("a reader saw the families {:?}", shown.keys())));
        }
        for (name, family) in &families {
            compare_pairs(&shown[name], &collect(family)?)
                .map_err(|violation| violation.during(format!("a reader of family {name}")))?;
        }
        must(follower.catch_up(), "catching up with a recovery")?;
        check_follower(follower, shown)?;
        self.report.looks += 1;
        Ok(())
    }

    /// Salvages the files that were recovered: the result must equal what `database` holds.
    fn salvage(&mut self, fs: &MemFs, database: &Database, times: &Times) -> Checked<()> {
        fs.set_space_limit(None);
        let clock = Arc::new(ManualClock::at(Duration::from_millis(times.latest_ms())));
        let seed = self.draw.next();
        let options = || self.settings.options(fs, &clock, seed);
        let saved = salvage(DIRECTORY, SALVAGED, options(), &mut |_| {});
        let report = must(saved, "salvage")?;
        if !report.is_complete() {
            return Err(Violation::new(format!("a salvage after a kill says {report:?}")));
        }
        let db = must(options().open(SALVAGED), "opening what was salvaged")?;
        let families = must(all_by_name(&db), "opening salvaged families")?;
        let sources = must(all_by_name(&database.db), "families")?;
        if !families.keys().eq(sources.keys()) {
            return Err(Violation::new(format!("families {:?} were salvaged", families.keys())));
        }
        for (name, source) in &sources {
            compare_pairs(&collect(&families[name])?, &collect(source)?)
                .map_err(|violation| violation.during(format!("salvage of family {name}")))?;
        }
        self.report.guests.copied += 1;
        let (found, expected) = (undecided(&db), undecided(&database.db));
        if found != expected {
            let message = format!("{found:?} wait after a salvage, not {expected:?}");
            return Err(Violation::new(message));
        }
        self.report.salvages += 1;
        Ok(())
    }

    /// Opens the state while no call fails. On a full disk, recording a lost tail may need space,
    /// so the disk is then enlarged.
    fn open_healthy(&mut self, state: &CrashState) -> Checked<siltdb::Db> {
        let seed = self.draw.next();
        let opened = Database::open(self.settings, &state.fs, self.clock, seed);
        let no_space = |error: &siltdb::Error| error.kind() == ErrorKind::NoSpace;
        if self.settings.weather == Weather::FullDisk && opened.as_ref().is_err_and(no_space) {
            self.report.refusals += 1;
            state.fs.set_space_limit(None);
            return must(Database::open(self.settings, &state.fs, self.clock, seed), "open");
        }
        must(opened, "open")
    }

    /// Sometimes tries to open with a failing call. The open may fail and must do no harm.
    fn open_with_fault(&mut self, state: &CrashState) -> Checked<Option<siltdb::Db>> {
        if !self.draw.chance(1, 10) {
            return Ok(None);
        }
        let kinds = [CallKind::Fill, CallKind::Write, CallKind::Create, CallKind::SyncDir];
        let kinds = kinds.into_iter().chain([CallKind::Read, CallKind::Rename, CallKind::Remove]);
        let kind = Some(self.draw.pick(&kinds.collect::<Vec<_>>()));
        let nth = self.draw.within(1..=6);
        let error = self.draw.pick(&[FaultError::Io, FaultError::NoSpace]);
        let before = state.fs.faults();
        state.fs.set_fault(Some(Fault { kind, nth, span: FaultSpan::Once, error }));
        let seed = self.draw.next();
        let opened = Database::open(self.settings, &state.fs, self.clock, seed);
        state.fs.set_fault(None);
        let faults = state.fs.faults() - before;
        self.report.faults += faults;
        let error = match opened {
            // After a failed call the database is reopened: its refusal of later writes is no
            // matter of recovery.
            Ok(db) => return Ok(Some(db).filter(|_| faults == 0)),
            Err(error) => error,
        };
        self.report.refusals += 1;
        let is_excused = match error.kind() {
            ErrorKind::NoSpace if self.settings.weather == Weather::FullDisk => true,
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::Poisoned => faults > 0,
            _ => false,
        };
        if is_excused {
            return Ok(None);
        }
        Err(Violation::new(format!("opening while {faults} calls fail: {error}")))
    }

    fn count_losses(&mut self, expectation: &Expectation, standing: &Standing) {
        let acknowledged = self.model.acknowledged();
        let (commit, flushed) = (standing.commit, *standing.flushed.end());
        let volatile = self.model.volatile(flushed + 1..=commit.min(acknowledged));
        self.report.volatile_lost += volatile.len() as u64;
        self.report.in_flight_kept += u64::from(commit > acknowledged);
        self.report.commits_lost += acknowledged.min(expectation.ceiling).saturating_sub(commit);
    }

    /// Finds the commit and the time of the database, which must be among the expected ones. If
    /// several times fit, the clock is set to the latest, so that only one remains.
    ///
    /// # Errors
    /// If no commit fits, or anything in the database is wrong.
    pub fn judge(
        &mut self,
        database: &Database,
        expectation: &Expectation,
    ) -> Checked<(Standing, Times)> {
        self.report.recoveries += 1;
        self.report.tiers.found += u64::from(database.db.stats().cold_tables > 0);
        database.read_clock();
        let mut found = Found::default();
        if GUESTS
            .iter()
            .any(|(_, guest)| self.model.has_family(*guest) && !database.guests.contains_key(guest))
        {
            return Err(Violation::new("a guest is not there"));
        }
        for (index, family) in database.families.iter().chain(&database.guests) {
            found.pairs.insert(*index, collect(family)?);
            found.expiries.insert(*index, expiries_of(family)?);
        }
        let clock = clock_of(&found.pairs[&DEFAULT])?;
        if clock > expectation.ceiling {
            let message = format!("commit {clock} is there, the last was {}", expectation.ceiling);
            return Err(Violation::new(message));
        }
        let names = &database.names;
        let (standing, mut floors_ms) = self.identify(&found, names, expectation, clock)?;
        let commit = standing.commit;
        let floor = expectation.floors.kill;
        if commit < floor {
            let lost = self.model.commit(floor).map(|commit| commit.durability);
            let message =
                format!("commit {floor} ({lost:?}) is lost: the state is that after {commit}");
            return Err(Violation::new(message));
        }
        let sequence = database.db.snapshot().sequence();
        // A commit that writes its number is certainly present. A later one that changed nothing
        // may be missing. A number that a recovery found may be that of a later note of the time,
        // which a power loss takes.
        let known = self.model.commit(clock).filter(|commit| commit.is_sequence_known);
        let before = known.map_or(0, |commit| commit.sequence);
        if sequence < before {
            return Err(Violation::new(format!("sequence number {sequence} after {before}")));
        }
        let clock_ms = self.clock.wall_ms();
        let times_ms: Vec<u64> = floors_ms.iter().map(|floor_ms| clock_ms.max(*floor_ms)).collect();
        // An edit of the recovery may have made any of them durable.
        floors_ms.extend_from_slice(&times_ms);
        let wall_ms = times_ms.into_iter().max().unwrap_or(clock_ms);
        if wall_ms > clock_ms && floors_ms.iter().any(|floor_ms| *floor_ms < wall_ms) {
            self.clock.set(Duration::from_millis(wall_ms));
            database.read_clock();
        }
        let at = Moment { commit, wall_ms, flushed: *standing.flushed.end() };
        for (index, family) in &database.families {
            let truth = Truth { model: self.model, family: *index, at };
            self.report.reads += compare_family(family, truth, self.draw, 60)?;
        }
        let seen = database.compare_guests(self.settings.guests, (self.model, at), self.draw)?;
        self.report.reads += seen.reads;
        Ok((standing, Times::new(wall_ms, &floors_ms, self.clock)))
    }

    /// The latest commit after which the state equals what was found, with its volatile commits,
    /// and the times that fit. These include times that fit only an earlier commit: without a later
    /// value that has expired, the state is the same.
    fn identify(
        &self,
        found: &Found,
        names: &Names,
        expectation: &Expectation,
        clock: u64,
    ) -> Checked<(Standing, Vec<u64>)> {
        let clock_ms = self.clock.wall_ms();
        let compare = |commit: u64, flushed: u64, floor_ms: u64| {
            let at = Moment { commit, wall_ms: clock_ms.max(floor_ms), flushed };
            self.compare_found(found, names, at)
        };
        let floors_with = |commit: u64, flushed: u64| -> Vec<u64> {
            let fits = |floor_ms: &u64| compare(commit, flushed, *floor_ms).is_ok();
            let mut floors_ms = expectation.times_ms();
            if self.settings.expiring > 0 {
                floors_ms.retain(fits);
            } else if !floors_ms.first().is_some_and(fits) {
                // If nothing expires, all times look the same.
                floors_ms.clear();
            }
            floors_ms
        };
        let candidates = expectation.candidates(self.model, clock);
        let mut identified: Option<(Standing, Vec<u64>)> = None;
        for &commit in &candidates {
            let flushed = expectation.flushed_candidates(self.model, commit).into_iter();
            let mut fitting: Vec<_> = flushed
                .map(|flushed| (flushed, floors_with(commit, flushed)))
                .filter(|(_, floors_ms)| !floors_ms.is_empty())
                .collect();
            let Some(&(first, _)) = fitting.last() else { continue };
            if let Some((_, floors_ms)) = &mut identified {
                if commit < expectation.floors.kill {
                    break;
                }
                floors_ms.extend(fitting.into_iter().flat_map(|(_, earlier_ms)| earlier_ms));
            } else {
                let (last, floors_ms) = fitting.swap_remove(0);
                let certain = expectation.floors.kill.max(clock).min(commit);
                let standing = Standing { commit, certain, flushed: first..=last };
                identified = Some((standing, floors_ms));
            }
        }
        if let Some((standing, mut floors_ms)) = identified {
            floors_ms.sort_unstable();
            floors_ms.dedup();
            return Ok((standing, floors_ms));
        }
        // The clock key names `clock`, so the difference to that state explains most.
        let times_ms = expectation.times_ms();
        let latest_ms = times_ms.last().map_or(clock_ms, |time_ms| *time_ms);
        let difference = compare(clock, *expectation.flushed.end(), latest_ms).err();
        let difference = difference.map_or_else(String::new, |difference| difference.to_string());
        Err(Violation::new(format!(
            "no prefix of the commits: not the state after any of {candidates:?}; \
             against {clock}: {difference}; the clock shows {clock_ms}, the time went back to one \
             of {times_ms:?} at most",
        )))
    }

    /// Compares what was found with the model at a moment.
    fn compare_found(&self, found: &Found, names: &Names, at: Moment) -> Checked<()> {
        for (name, index) in names {
            let expected = self.model.pairs(*index, at);
            compare_pairs(&found.pairs[index], &expected)
                .map_err(|violation| violation.during(format!("family {name}")))?;
            // A value that was touched differs by this alone.
            if found.expiries[index] != self.model.expiries(*index, at) {
                return Err(Violation::new(format!("other expiries in family {name}")));
            }
        }
        for (name, guest) in GUESTS {
            let Some(found) = found.pairs.get(&guest) else { continue };
            let guest_with = (guest, self.settings.guests);
            compare_guest_pairs(guest_with, found, &self.model.pairs(guest, at))
                .map_err(|violation| violation.during(name))?;
        }
        Ok(())
    }
}

/// Whether a follower shows the families and entries in `shown`.
fn check_follower(follower: &Follower, shown: &BTreeMap<String, Pairs>) -> Checked<()> {
    let db = follower.db();
    let families = must(all_by_name(&db), "families of a follower")?;
    if !families.keys().eq(shown.keys()) {
        return Err(Violation::new(format!("a follower shows the families {:?}", families.keys())));
    }
    for (name, pairs) in shown {
        compare_pairs(&collect(&families[name])?, pairs)
            .map_err(|violation| violation.during(format!("a follower of family {name}")))?;
    }
    Ok(())
}

/// Sets the clock back by some months at most. A larger step would be a jump when the clock is set
/// right again.
pub fn turn_back(clock: &ManualClock, draw: &mut Draw, report: &mut Report) {
    let back_ms = draw.pick(&[1, 300, 3000, 3000, 1 << 33]);
    clock.set(Duration::from_millis(clock.wall_ms().saturating_sub(back_ms)));
    report.turns_back += 1;
}

/// The expiries in ms of the keys of a family whose values expire.
fn expiries_of(family: &Family) -> Checked<BTreeMap<Shared, u64>> {
    let mut expiries = BTreeMap::new();
    let mut cursor = must(family.cursor(), "a cursor")?;
    must(cursor.seek_to_first(), "seek_to_first")?;
    while let Some(key) = cursor.key() {
        let key = Shared::from(key);
        if let Some(Expiry::At(time)) = must(cursor.expires_at(), "expires_at")? {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            expiries.insert(key, since.as_millis() as u64);
        }
        must(cursor.next(), "next")?;
    }
    Ok(expiries)
}

fn clock_of(pairs: &Pairs) -> Checked<u64> {
    let Some((_, value)) = pairs.iter().find(|(key, _)| &key[..] == CLOCK_KEY) else {
        return Ok(0);
    };
    let Ok(bytes) = <[u8; 8]>::try_from(&value[..]) else {
        return Err(Violation::new(format!("the clock key holds \"{}\"", show(value))));
    };
    Ok(u64::from_le_bytes(bytes))
}
