//! Copies of the directory of a killed database, by `cp -r` and by `cp -al`, that are used.
//!
//! The copy shows what the original shows. The original is complete after whatever was done with
//! the copy, also after crashes meanwhile, and the other way round. The cold directory lies
//! outside, so that both share it: then the copy is refused until it is adopted.

use crate::{
    database::all_by_name,
    expected::Expectation,
    recovery::{DEPTH_MAX, Recovered},
    run::Run,
    settings::{COLD, DIRECTORY, Layout, Settings, Weather},
    truth::{Pairs, collect, compare_pairs},
    twin::{Twin, TwinPlace, TwinState},
    violation::{Checked, Violation, must},
    watch::{Activity, CrashKind, CrashState, JobsDone, Watch},
};
use siltdb::{ColdAdoption, Create, Durability, ErrorKind, Options};
use siltdb_base::{
    clock::Clock,
    fs::{
        FileKind, Fs,
        mem::{Crash, MemFs},
    },
};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// The directory of the copy.
const COPIED: &str = "/data/copied";

/// The cold directory that a copy gets when it has none.
const COLD_OF_COPY: &str = "/data/cold of the copy";

/// The file that names the owner of a cold directory.
const COLD_FILE: &str = "/data/cold/COLD";

/// Crash states taken while a copy is used, at most.
const CRASHES_MAX: usize = 2;

/// How files are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// As `cp -r` does.
    Bytes,
    /// As `cp -al` does.
    Links,
}

/// How a copy gets the cold tables that it shares with the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// It has none.
    None,
    /// It does not: it is read, and removed.
    Refused,
    /// It copies them.
    Copies,
    /// It takes the cold directory over. Then the original copies them.
    TakesOver,
}

/// What is done with the two directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The copy is used. Then the original is looked at, and the run may go on with it.
    Copy,
    /// The original is used. Then the copy is looked at.
    Original,
    /// Both are open, and used in turns.
    Both,
}

/// A copied database.
struct Copied {
    /// The files of both.
    fs: MemFs,
    /// What both show.
    state: TwinState,
    /// The same, by family.
    shown: BTreeMap<String, Pairs>,
    claim: Claim,
}

impl Run {
    /// Kills the database, copies its directory, and uses copy or original or both.
    pub(crate) fn use_copy(&mut self) -> Checked<()> {
        if self.settings.weather == Weather::Calm {
            return self.read();
        }
        let state = CrashState::take(&self.database.fs, &mut self.draw);
        let expectation = self.expectation(None).after(state.kind);
        state.fs.set_space_limit(None);
        for left in [COPIED, COLD_OF_COPY] {
            must(remove_tree(&state.fs, Path::new(left)), "removing an earlier copy")?;
        }
        let means = self.draw.pick(&[Means::Bytes, Means::Links]);
        let is_tiered = state.fs.read_all(Path::new(COLD_FILE)).is_ok();
        let claim = match is_tiered {
            false => Claim::None,
            true => self.draw.pick(&[Claim::Refused, Claim::Copies, Claim::TakesOver]),
        };
        let uses = match claim {
            Claim::Refused => Use::Copy,
            // The original opens without a cold directory, which a recovery would give it.
            Claim::TakesOver => self.draw.pick(&[Use::Original, Use::Both]),
            Claim::None | Claim::Copies => {
                self.draw.pick(&[Use::Copy, Use::Copy, Use::Original, Use::Both])
            }
        };
        let kind = state.kind;
        self.note(format!("a copy by {means:?} after {kind:?}; {claim:?}, {uses:?}"));
        self.count_copy(means, claim, uses);
        let during =
            |violation: Violation| violation.during(format!("a copy by {means:?}, {claim:?}"));
        let copied = self.make_copy(&state, &expectation, (means, claim)).map_err(during)?;
        if uses == Use::Copy {
            let crashes = self.use_copy_alone(&copied).map_err(during)?;
            let went_on = self.go_on_with_original((&copied.fs, kind), crashes, &expectation);
            return went_on.map_err(during);
        }
        let settings = self.settings_without_volatile();
        self.use_original(&copied, uses, &settings).map_err(during)
    }

    fn count_copy(&mut self, means: Means, claim: Claim, uses: Use) {
        let counts = &mut self.report.copies;
        match means {
            Means::Bytes => counts.by_bytes += 1,
            Means::Links => counts.by_links += 1,
        }
        match claim {
            Claim::None => {}
            Claim::Refused => counts.refused += 1,
            Claim::Copies => counts.adopted += 1,
            Claim::TakesOver => counts.taken_over += 1,
        }
        match uses {
            Use::Copy => counts.used += 1,
            Use::Original => counts.originals_used += 1,
            Use::Both => counts.both_used += 1,
        }
    }

    /// The options of databases whose kills lose nothing.
    fn settings_without_volatile(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.durabilities.retain(|durability| *durability != Durability::Volatile);
        if settings.durabilities.is_empty() {
            settings.durabilities.push(Durability::Buffered);
        }
        settings
    }

    /// Copies the directory, and lets the copy have what `claim` says of the cold one.
    fn make_copy(
        &mut self,
        killed: &CrashState,
        expectation: &Expectation,
        (means, claim): (Means, Claim),
    ) -> Checked<Copied> {
        let fs = killed.fs.clone();
        let apart = CrashState { fs: fs.crash_clone(Crash::Kill), ..killed.clone() };
        let recovered = self.recovery().open(&apart, expectation, DEPTH_MAX)?;
        let shown = shown(&recovered)?;
        let Recovered { database, standing, times } = recovered;
        let mut model = self.model.clone();
        let sequence = database.db.snapshot().sequence();
        model.recovered(standing.commit, *standing.flushed.end(), sequence);
        let (wall_ms, latest_ms) = (self.clock.wall_ms(), times.at(&self.clock));
        let names = database.names.clone();
        drop(database);
        let state = TwinState { model, commit: standing.commit, names, wall_ms, latest_ms };
        must(copy_tree(&fs, (DIRECTORY, COPIED), means), "copying the directory")?;
        must(fs.sync_dir(Path::new("/data")), "syncing the directory of copies")?;
        let copied = Copied { fs, state, shown, claim };
        if claim != Claim::None {
            self.check_refused(&copied.fs, COPIED)?;
            self.read_copy(&copied)?;
        }
        Ok(copied)
    }

    fn options_in(&mut self, fs: &MemFs) -> Options {
        self.settings.options(fs, &self.clock, self.draw.next()).create(Create::Never)
    }

    /// An opening for writing of a directory whose cold directory belongs to another one is
    /// refused.
    fn check_refused(&mut self, fs: &MemFs, directory: &str) -> Checked<()> {
        match self.options_in(fs).open(directory) {
            Err(error)
                if error.kind() == ErrorKind::InvalidArgument
                    && error.message().contains("this is a copy") =>
            {
                Ok(())
            }
            opened => Err(Violation::new(format!("{directory} is not refused: {opened:?}"))),
        }
    }

    /// An opening that only reads shows what the original does.
    fn read_copy(&mut self, copied: &Copied) -> Checked<()> {
        let before = tree(&copied.fs, COPIED)?;
        let options = self.options_in(&copied.fs).read_only(true);
        let db = must(options.open(COPIED), "reading a copy")?;
        for (name, family) in must(all_by_name(&db), "families of a copy")? {
            compare_pairs(&collect(&family)?, &copied.shown[&name])
                .map_err(|violation| violation.during(format!("a reader of a copy, {name}")))?;
        }
        must(db.close(), "closing a copy")?;
        check_tree(&copied.fs, COPIED, &before)
    }

    fn adopt_copy(&mut self, fs: &MemFs, directory: &str, adoption: ColdAdoption) -> Checked<()> {
        let adopted =
            self.options_in(fs).adopt(directory, adoption, &mut |_| ControlFlow::Continue(()));
        must(adopted, &format!("adopting {directory}")).map(drop)
    }

    /// Uses the copy, and mostly removes it. Returns crash states taken meanwhile, in which the
    /// original is still to be looked at.
    fn use_copy_alone(&mut self, copied: &Copied) -> Checked<Vec<CrashState>> {
        let Copied { fs, claim, .. } = copied;
        let before = [DIRECTORY, COLD].map(|directory| tree(fs, directory));
        let mut crashes = Vec::new();
        if *claim != Claim::Refused {
            let watch = Watch::new(fs, self.draw.fork(), CRASHES_MAX);
            watch.begin(Activity::Copy);
            if *claim == Claim::Copies {
                self.adopt_copy(fs, COPIED, ColdAdoption::Copies)?;
            }
            let settings = self.settings_without_volatile();
            let mut twin = self.open_copy(copied, &settings)?;
            for _ in 0..self.draw.within(1..=10) {
                self.use_twin(&mut twin, &settings)?;
            }
            self.report.reads += twin.compare(&mut self.draw)?;
            crashes = watch.end();
            self.check_copies(copied, &crashes)?;
            self.close_or_kill(fs, &twin, &settings)?;
        }
        if self.draw.chance(3, 4) {
            let options = self.options_in(fs);
            let outside = must(options.outside(COPIED), "looking outside of a copy")?;
            if outside.as_deref() == Some(Path::new(COLD)) {
                return Err(Violation::new("a copy would remove the cold tables of its original"));
            }
            must(options.destroy(COPIED), "destroying a copy")?;
            self.report.copies.destroyed += 1;
        }
        for (directory, before) in [DIRECTORY, COLD].into_iter().zip(before) {
            check_tree(fs, directory, &before?)?;
        }
        Ok(crashes)
    }

    /// After crashes while they were used, copies open and have no damage.
    fn check_copies(&mut self, copied: &Copied, crashes: &[CrashState]) -> Checked<()> {
        for crash in crashes {
            let fs = crash.fs.crash_clone(Crash::Kill);
            if copied.claim == Claim::Copies {
                self.adopt_copy(&fs, COPIED, ColdAdoption::Copies)?;
            }
            let db = must(self.options_in(&fs).open(COPIED), "opening a crashed copy")?;
            let report = must(db.check(&mut |_| {}), "checking a crashed copy")?;
            if !report.is_clean() {
                return Err(Violation::new(format!("damage in a crashed copy: {report:?}")));
            }
        }
        Ok(())
    }

    fn open_copy(&mut self, copied: &Copied, settings: &Settings) -> Checked<Twin> {
        let has_cold = copied.claim == Claim::TakesOver;
        let cold = (!has_cold && self.draw.chance(1, 3)).then_some(COLD_OF_COPY);
        let layout = match has_cold || cold.is_some() {
            true => Layout::TwoTiers,
            false => Layout::OneDirectory,
        };
        let place = TwinPlace { directory: COPIED, cold, layout, what: "a copy" };
        let twin = Twin::open(place, &copied.fs, settings, copied.state.clone(), &mut self.draw)?;
        self.report.reads += twin.compare_opened(None, &mut self.draw)?;
        Ok(twin)
    }

    /// One random operation on one of the two.
    fn use_twin(&mut self, twin: &mut Twin, settings: &Settings) -> Checked<()> {
        match self.draw.below(10) {
            0 => self.report.reads += twin.reopen(settings, &mut self.draw)?,
            1 => twin.settle()?,
            2 | 3 => twin.change_tier(&mut self.draw)?,
            _ => twin.step(settings, &mut self.draw)?,
        }
        Ok(())
    }

    /// Closes a twin, or kills it; then it is complete.
    fn close_or_kill(&mut self, fs: &MemFs, twin: &Twin, settings: &Settings) -> Checked<()> {
        let state = twin.state();
        // A kill takes a time that runs ahead of the clock.
        let is_ahead = settings.expiring > 0 && state.latest_ms > state.wall_ms;
        if is_ahead || self.draw.chance(1, 2) {
            return twin.close();
        }
        let after = fs.crash_clone(Crash::Kill);
        twin.close()?;
        let again = Twin::open(twin.place(), &after, settings, state, &mut self.draw)?;
        self.report.reads += again.compare_opened(None, &mut self.draw)?;
        again.close()
    }

    /// Recovers the original from the crash states, and from a last one, with which the run may go
    /// on. `kind` is how the database was killed at first: nothing has recovered it since.
    fn go_on_with_original(
        &mut self,
        (fs, kind): (&MemFs, CrashKind),
        crashes: Vec<CrashState>,
        expectation: &Expectation,
    ) -> Checked<()> {
        for crash in crashes {
            self.note(format!("crash: {:?} before {} of a copy", crash.kind, crash.call));
            self.recovery().recover(&crash, JobsDone::default(), expectation, DEPTH_MAX)?;
            self.report.copies.crashed += 1;
        }
        fs.forget_strays();
        let mut last = CrashState::take(fs, &mut self.draw);
        if kind == CrashKind::PowerLoss {
            // What it left behind a hole of the log is still there, and a salvage would show it.
            last.kind = kind;
        }
        self.recover_from(&last, expectation)
    }

    /// Uses the original, alone or together with the copy.
    fn use_original(&mut self, copied: &Copied, uses: Use, settings: &Settings) -> Checked<()> {
        let Copied { fs, state, claim, .. } = copied;
        match claim {
            Claim::None | Claim::Refused => {}
            Claim::Copies => self.adopt_copy(fs, COPIED, ColdAdoption::Copies)?,
            Claim::TakesOver => {
                self.adopt_copy(fs, COPIED, ColdAdoption::TakesOver)?;
                self.check_refused(fs, DIRECTORY)?;
                self.adopt_copy(fs, DIRECTORY, ColdAdoption::Copies)?;
            }
        }
        let before = tree(fs, COPIED)?;
        let mut copy = match uses {
            Use::Both => Some(self.open_copy(copied, settings)?),
            Use::Copy | Use::Original => None,
        };
        let layout = match claim {
            Claim::Copies => Layout::TwoTiers,
            Claim::None | Claim::Refused | Claim::TakesOver => Layout::OneDirectory,
        };
        let what = "the original of a copy";
        let place = TwinPlace { directory: DIRECTORY, cold: None, layout, what };
        let mut original = Twin::open(place, fs, settings, state.clone(), &mut self.draw)?;
        self.report.reads += original.compare_opened(None, &mut self.draw)?;
        for _ in 0..self.draw.within(2..=14) {
            match &mut copy {
                Some(copy) if self.draw.chance(1, 2) => self.use_twin(copy, settings)?,
                _ => self.use_twin(&mut original, settings)?,
            }
        }
        self.report.reads += original.compare(&mut self.draw)?;
        let copy = match copy {
            Some(copy) => copy,
            None => {
                check_tree(fs, COPIED, &before)?;
                self.open_copy(copied, settings)?
            }
        };
        self.report.reads += copy.compare(&mut self.draw)?;
        self.close_or_kill(fs, &original, settings)?;
        self.close_or_kill(fs, &copy, settings)
    }
}

/// What a database shows, by family.
fn shown(recovered: &Recovered) -> Checked<BTreeMap<String, Pairs>> {
    let families = must(all_by_name(&recovered.database.db), "families of the original")?;
    families.into_iter().map(|(name, family)| Ok((name, collect(&family)?))).collect()
}

/// The files of a directory, by path. The lock is no part of a database.
fn tree(fs: &MemFs, directory: &str) -> Checked<BTreeMap<PathBuf, Vec<u8>>> {
    fn add(
        fs: &MemFs,
        directory: &Path,
        found: &mut BTreeMap<PathBuf, Vec<u8>>,
    ) -> siltdb::Result<()> {
        if fs.metadata(directory)?.is_none() {
            return Ok(());
        }
        for entry in fs.list(directory)?.into_iter().filter(|entry| entry.name != "LOCK") {
            let path = directory.join(&entry.name);
            match entry.kind {
                FileKind::Directory => add(fs, &path, found)?,
                _ => {
                    let bytes = fs.read_all(&path)?;
                    found.insert(path, bytes);
                }
            }
        }
        Ok(())
    }
    let mut found = BTreeMap::new();
    must(add(fs, Path::new(directory), &mut found), "reading a directory")?;
    Ok(found)
}

/// The files of a directory are as they were.
fn check_tree(fs: &MemFs, directory: &str, before: &BTreeMap<PathBuf, Vec<u8>>) -> Checked<()> {
    let after = tree(fs, directory)?;
    if after == *before {
        return Ok(());
    }
    let changed = before.iter().find(|(path, bytes)| after.get(*path) != Some(bytes));
    let path = changed
        .map(|(path, _)| path)
        .or_else(|| after.keys().find(|path| !before.contains_key(*path)));
    Err(Violation::new(format!("{path:?} of {directory} is not what it was")))
}

/// Copies a directory with all that lies in it; durable.
fn copy_tree(fs: &MemFs, (from, to): (&str, &str), means: Means) -> siltdb::Result<()> {
    fn copy(fs: &MemFs, from: &Path, to: &Path, means: Means) -> siltdb::Result<()> {
        fs.create_dir_all(to)?;
        for entry in fs.list(from)? {
            let (from, to) = (from.join(&entry.name), to.join(&entry.name));
            match (entry.kind, means) {
                (FileKind::Directory, _) => copy(fs, &from, &to, means)?,
                (_, Means::Bytes) => fs.write_all(&to, &fs.read_all(&from)?)?,
                (_, Means::Links) => fs.hard_link(&from, &to)?,
            }
        }
        fs.sync_dir(to)
    }
    copy(fs, Path::new(from), Path::new(to), means)
}

/// Removes a directory with all that lies in it, if it is there.
fn remove_tree(fs: &MemFs, directory: &Path) -> siltdb::Result<()> {
    if fs.metadata(directory)?.is_none() {
        return Ok(());
    }
    for entry in fs.list(directory)? {
        let path = directory.join(&entry.name);
        match entry.kind {
            FileKind::Directory => remove_tree(fs, &path)?,
            _ => fs.remove(&path)?,
        }
    }
    fs.remove_dir(directory)?;
    fs.sync_dir(Path::new("/data"))
}
