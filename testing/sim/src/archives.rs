//! Archives: exported, crashed and failed in the middle, verified, imported and compared.
//!
//! An archive is compared at once, because its folded values no longer change with time. Values
//! that expire are looked for later again.

use crate::{
    checkpoints::COPY,
    database::{Database, guests_of},
    guests::{GUESTS, is_guest},
    model::{FamilyIndex, Model},
    reads::compare_family,
    run::{Excuse, Outcome, Run},
    settings::Weather,
    truth::{Pairs, Truth, collect, compare_pairs},
    violation::{Checked, Violation, must},
    watch::{Activity, CrashState, Watch},
};
use siltdb::{
    Db, ErrorKind, Read,
    archive::{Archive, ArchiveOptions, CleanOptions, ImportOptions, clean},
};
use siltdb_base::{
    clock::{Clock, ManualClock},
    fs::{
        Fs,
        mem::{CallKind, Crash, MemFs},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Where archives are made.
const ARCHIVES: &str = "/data/archives";

/// The archive of a step; it is removed at the end of the step, or by the next one.
const FILE: &str = "/data/archives/step.siltar";

/// Crash states taken inside one export, at most.
const CRASHES_MAX: usize = 2;

/// How much later the values of an import are looked for again, in ms: some have expired by then.
const LATER_MS: u64 = 1500;

/// Of each family this many keys are looked up, besides two scans.
const LOOKUPS_MAX: u64 = 60;

impl Run {
    /// Exports `main` or another branch, and compares what an import of the archive makes.
    pub(crate) fn archive(&mut self) -> Checked<()> {
        // A crash state that was taken over may have an archive of an earlier moment.
        if self.excuse() != Excuse::None || !self.remove_archive()? {
            return self.read();
        }
        let branches: Vec<String> = self.branches().collect();
        self.archived = match branches.is_empty() || self.draw.chance(1, 3) {
            true => "main".to_owned(),
            false => branches[self.draw.index(branches.len())].clone(),
        };
        self.note(format!("archive {}", self.archived));
        let is_fault_set = self.settings.weather == Weather::Faults && self.draw.chance(2, 3);
        if is_fault_set {
            let kind = self.draw.pick(&[
                CallKind::Metadata,
                CallKind::Open,
                CallKind::Lock,
                CallKind::Create,
                CallKind::Read,
                CallKind::Write,
                CallKind::Sync,
                CallKind::SyncDir,
                CallKind::Rename,
            ]);
            self.fault_in_copy(kind, [1, 1, 2, 3, 5]);
        }
        let is_crashed = self.settings.weather != Weather::Calm && self.draw.chance(2, 3);
        if is_crashed {
            // These crash states come on top of those that other operations may take.
            self.watch = None;
            self.watch = Some(Watch::new(&self.database.fs, self.draw.fork(), CRASHES_MAX));
        }
        let options = ArchiveOptions::new().branch(&self.archived);
        let make = |database: &Database| {
            database.db.archive_with(FILE, &options, &mut |_| ControlFlow::Continue(()))
        };
        let outcome = self.operate(Activity::Archive, None, make)?;
        if is_crashed {
            self.watch = None;
            self.watch();
        }
        if is_fault_set {
            self.database.fs.set_fault(None);
        }
        let seed = self.draw.next();
        match outcome {
            Outcome::Replaced => return Ok(()),
            Outcome::Refused(_) => {
                self.report.archives.refused += 1;
                // It may have its name: only whether that lasts is not known.
                for crash in [Crash::Kill, Crash::PowerLoss { seed }] {
                    let after = self.database.fs.crash_clone(crash);
                    self.judge_archive(&after).map_err(|violation| {
                        violation.during(format!("an export that failed, after {crash:?}"))
                    })?;
                }
            }
            Outcome::Done(_) => {
                self.report.archives.made += 1;
                self.report.archives.of_branches += u64::from(self.archived != "main");
                let crash = self.draw.pick(&[Crash::Kill, Crash::PowerLoss { seed }]);
                let after = self.database.fs.crash_clone(crash);
                if !self.judge_archive(&after)? {
                    return Err(Violation::new(format!("no archive is there after {crash:?}")));
                }
            }
        }
        self.remove_archive()?;
        self.compare_everything()
    }

    /// After a crash inside an export: the archive is whole, or not there.
    pub(crate) fn judge_crashed_archive(&mut self, state: &CrashState) -> Checked<()> {
        let is_there = self.judge_archive(&state.fs).map_err(|violation| {
            let CrashState { kind, call, .. } = state;
            violation.during(format!("an export after {kind:?} before {call}"))
        })?;
        match is_there {
            true => self.report.archives.whole += 1,
            false => self.report.archives.absent += 1,
        }
        Ok(())
    }

    /// Imports the archive in a copy of `fs`, if it is there, and compares all of it. Says whether
    /// it is there.
    fn judge_archive(&mut self, fs: &MemFs) -> Checked<bool> {
        // It has no fault and no lock.
        let fs = fs.crash_clone(Crash::Kill);
        fs.set_space_limit(None);
        if must(fs.metadata(Path::new(FILE)), "looking for an archive")?.is_none() {
            return Ok(false);
        }
        let clock = Arc::new(ManualClock::at(Duration::from_millis(self.clock.wall_ms())));
        let options = self.settings.options(&fs, &clock, self.draw.next());
        let archive = must(Archive::open_with(FILE, &options), "opening an archive")?;
        must(archive.verify(&mut |_| ControlFlow::Continue(())), "verifying an archive")?;
        let db = must(options.open(COPY), "making a database for an import")?;
        must(db.import_archive(FILE), "importing an archive")?;
        let names = self.names_on(&self.archived);
        // There is always a default family, also where the branch has none.
        let found = db.families().into_iter();
        let found = found.filter(|name| name != "default" && !is_guest(name));
        if !found.eq(names.keys().filter(|name| *name != "default").cloned()) {
            let message = format!("an import has {:?} instead of {names:?}", db.families());
            return Err(Violation::new(message));
        }
        let mut model = self.model.clone();
        model.truncate(self.visible);
        for (name, index) in &names {
            let family = must(db.family(name), "finding an imported family")?;
            let truth = Truth { model: &model, family: *index, at: self.now() };
            self.report.reads += compare_family(&family, truth, &mut self.draw, LOOKUPS_MAX)
                .map_err(|violation| violation.during("in an imported family"))?;
        }
        let db = self.judge_archived_guests(&fs, db, &model)?;
        if self.archived == "main" && self.draw.chance(1, 3) {
            self.import_beside(&fs, &model)?;
        }
        self.check_expiry(&db, &names, &clock)?;
        let report = must(db.check(&mut |_| {}), "checking an import")?;
        if !report.is_clean() {
            return Err(Violation::new(format!("check found damage in an import: {report:?}")));
        }
        must(db.close(), "closing an import")?;
        Ok(true)
    }

    /// Lets most of what expires expire, and checks which of those values are still there.
    fn check_expiry(
        &mut self,
        db: &Db,
        names: &BTreeMap<String, FamilyIndex>,
        clock: &ManualClock,
    ) -> Checked<()> {
        let (now, later_ms) = (self.now(), self.now().wall_ms + LATER_MS);
        clock.set(Duration::from_millis(later_ms));
        let mut model = self.model.clone();
        model.truncate(self.visible);
        for (name, index) in names {
            let family = must(db.family(name), "finding an imported family")?;
            for (key, _) in model.pairs(*index, now) {
                let Some(expiry_ms) = model.expiry_ms(*index, &key, now) else { continue };
                let is_there = must(family.contains(&key), "looking up what expires")?;
                self.report.archives.expired += u64::from(expiry_ms <= later_ms);
                if is_there != (expiry_ms > later_ms) {
                    let message = format!(
                        "an imported key {} expires at {expiry_ms}; at {later_ms} it is there: \
                         {is_there}",
                        key.escape_ascii()
                    );
                    return Err(Violation::new(message));
                }
            }
        }
        Ok(())
    }

    /// Compares the guests that an import has brought, also when tables have left them since.
    fn judge_archived_guests(&mut self, fs: &MemFs, db: Db, model: &Model) -> Checked<Db> {
        let guests = must(guests_of(&db), "finding imported guests")?;
        if self.archived != "main" {
            return Ok(db);
        }
        if guests.len() < GUESTS.len() {
            return Err(Violation::new(format!("an import has the guests {:?}", guests.keys())));
        }
        let (families, names) = (BTreeMap::new(), BTreeMap::new());
        let imported = Database { fs: fs.clone(), db, families, names, guests };
        for _ in 0..2 {
            let (settings, now) = (self.settings.guests, self.now());
            let seen = imported.compare_guests(settings, (model, now), &mut self.draw);
            self.report.reads += seen.map_err(|found| found.during("in an import"))?.reads;
            self.report.guests.copied += 1;
            must(imported.db.settle(), "settling an import")?;
        }
        Ok(imported.db)
    }

    /// Imports the guests of the archive into the database itself, which has guests of these names:
    /// beside them, and in their place.
    fn import_beside(&mut self, fs: &MemFs, model: &Model) -> Checked<()> {
        let (clock, seed) = (
            Arc::new(ManualClock::at(Duration::from_millis(self.clock.wall_ms()))),
            self.draw.next(),
        );
        let opened = Database::open(&self.settings, fs, &clock, seed);
        let db = must(opened, "opening the database of an archive")?;
        let import = |options: &ImportOptions| {
            db.import_archive_with(FILE, options, &mut |_| ControlFlow::Continue(()))
        };
        let own = must(guests_of(&db), "finding guests")?;
        let before = own.values().map(collect).collect::<Checked<Vec<Pairs>>>()?;
        let same = GUESTS
            .into_iter()
            .fold(ImportOptions::new(), |options, (name, _)| options.family(name, name));
        let refused = import(&same);
        if !refused.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
            return Err(Violation::new(format!("an import over guests gave {refused:?}")));
        }
        let beside = GUESTS.into_iter().fold(ImportOptions::new(), |options, (name, _)| {
            options.family(name, format!("beside {name}"))
        });
        must(import(&beside), "importing guests beside others")?;
        for (found, before) in own.values().map(collect).zip(&before) {
            compare_pairs(&found?, before).map_err(|found| found.during("beside an import"))?;
        }
        let replaces = self.draw.chance(1, 2);
        if replaces {
            must(import(&same.replace(true)), "importing guests in place of others")?;
        }
        let mut guests = BTreeMap::new();
        for (name, index) in GUESTS {
            let name = if replaces { name.to_owned() } else { format!("beside {name}") };
            guests.insert(index, must(db.family(&name), "finding an imported guest")?);
        }
        let (families, names) = (BTreeMap::new(), BTreeMap::new());
        let imported = Database { fs: fs.clone(), db, families, names, guests };
        for _ in 0..2 {
            let (settings, now) = (self.settings.guests, self.now());
            let seen = imported.compare_guests(settings, (model, now), &mut self.draw);
            self.report.reads += seen.map_err(|found| found.during("in a guest beside"))?.reads;
            must(imported.db.settle(), "settling after an import")?;
        }
        self.report.guests.beside += 1;
        must(imported.db.close(), "closing the database of an archive")
    }

    /// The branches besides `main`.
    fn branches(&self) -> impl Iterator<Item = String> {
        let labels = self.database.names.keys().filter_map(|label| label.split_once('/'));
        let names: BTreeSet<String> = labels.map(|(branch, _)| branch.to_owned()).collect();
        names.into_iter()
    }

    /// The families of a branch, by their names on it.
    fn names_on(&self, branch: &str) -> BTreeMap<String, FamilyIndex> {
        let labels = self.database.names.iter();
        let parts = labels.map(|(label, index)| match label.split_once('/') {
            Some((branch, name)) => (branch, name, *index),
            None => ("main", &label[..], *index),
        });
        let of_it = parts.filter(|(other, ..)| *other == branch);
        of_it.map(|(_, name, index)| (name.to_owned(), index)).collect()
    }

    /// Removes the archive of a step and what is left of others. Returns whether that was done: a
    /// full disk or a fault may prevent it.
    fn remove_archive(&mut self) -> Checked<bool> {
        let fs = self.database.fs.clone();
        if fs.create_dir_all(Path::new(ARCHIVES)).is_err() {
            return Ok(false);
        }
        let options = self.settings.options(&fs, &self.clock, 0);
        let cleaned = clean(ARCHIVES, &CleanOptions::new().keep(0), &options);
        Ok(cleaned.is_ok_and(|report| report.errors.is_empty()))
    }
}
