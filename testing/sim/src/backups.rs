//! Backups: made, crashed and failed in the middle, restored and compared, and pruned.
//!
//! The newest is compared with the model. Of older ones it is said that they restore to a sound
//! database at their sequence number: what they held is not kept.

use crate::{
    checkpoints::COPY,
    database::{Database, strays},
    run::{Excuse, Outcome, Run},
    settings::Weather,
    violation::{Checked, Violation, must},
    watch::{Activity, CrashState, Watch},
};
use siltdb::{
    ErrorKind,
    backup::{Backup, BackupInfo, Backups},
};
use siltdb_base::fs::mem::{CallKind, Crash, MemFs};
use std::path::PathBuf;

/// Where backups are made.
pub(crate) const BACKUPS: &str = "/data/backups";

/// Crash states taken inside one backup, at most.
const CRASHES_MAX: usize = 2;

/// Backups that stay when old ones are pruned.
const KEPT: u64 = 2;

impl Run {
    /// Makes a backup, restores it and some older one, and prunes.
    pub(crate) fn backup(&mut self) -> Checked<()> {
        self.check_known_backups()?;
        self.note("backup".to_owned());
        let is_fault_set = self.settings.weather == Weather::Faults && self.draw.chance(2, 3);
        if is_fault_set {
            self.fault_in_backup();
        }
        let is_crashed = self.settings.weather != Weather::Calm && self.draw.chance(1, 2);
        if is_crashed {
            // Besides those that other operations may take.
            self.watch = None;
            self.watch = Some(Watch::new(&self.database.fs, self.draw.fork(), CRASHES_MAX));
        }
        let make = |database: &Database| database.db.backup(BACKUPS);
        let outcome = self.operate(Activity::Backup, None, make)?;
        if is_crashed {
            self.watch = None;
            self.watch();
        }
        if is_fault_set {
            self.database.fs.set_fault(None);
        }
        match outcome {
            Outcome::Replaced => {
                let before = self.backups.clone();
                self.find_backups()?;
                // Of one that a kill left, only that its name lasts is not known.
                let new = self.backups.iter().filter(|number| !before.contains(number));
                self.backups_in_doubt.extend(new);
                return Ok(());
            }
            Outcome::Refused(_) => {
                self.report.backups.refused += 1;
                let seed = self.draw.next();
                for crash in [Crash::Kill, Crash::PowerLoss { seed }] {
                    let after = self.database.fs.crash_clone(crash);
                    let is_there = self.judge_backups(&after).map_err(|violation| {
                        violation.during(format!("a backup that failed, after {crash:?}"))
                    })?;
                    if is_there && crash == Crash::Kill {
                        // Only that its name lasts is not known.
                        let next = self.backups.last().map_or(1, |last| last + 1);
                        self.backups_in_doubt.push(next);
                    }
                }
            }
            Outcome::Done(made) => {
                self.report.backups.made += 1;
                self.report.backups.shared += u64::from(made.copied_files < made.files);
                // All of it is in tables.
                self.durable = self.model.acknowledged();
                self.flushed = self.durable;
                self.judge_backup(made)?;
            }
        }
        self.find_backups()?;
        self.prune()?;
        self.compare_everything()
    }

    /// Makes one of the calls of a backup fail.
    fn fault_in_backup(&mut self) {
        let kind = self.draw.pick(&[
            CallKind::CreateDir,
            CallKind::Metadata,
            CallKind::Open,
            CallKind::List,
            CallKind::Lock,
            CallKind::Create,
            CallKind::Read,
            CallKind::Write,
            CallKind::Sync,
            CallKind::SyncDir,
            CallKind::Rename,
        ]);
        self.fault_in_copy(kind, [1, 2, 3, 5, 8]);
    }

    /// After a crash inside a backup: it is whole, or not there, and the others are whole.
    pub(crate) fn judge_crashed_backup(&mut self, state: &CrashState) -> Checked<()> {
        let after = state.fs.crash_clone(Crash::Kill);
        let is_new = self.judge_backups(&after).map_err(|violation| {
            let CrashState { kind, call, .. } = state;
            violation.during(format!("a backup after {kind:?} before {call}"))
        })?;
        let counts = &mut self.report.backups;
        match is_new {
            true => counts.whole += 1,
            false => counts.absent += 1,
        }
        Ok(())
    }

    /// Restores backups on `fs`, which it has for itself, after one that may not have come to its
    /// end. Says whether that one is there.
    fn judge_backups(&mut self, fs: &MemFs) -> Checked<bool> {
        fs.set_space_limit(None);
        let found = self.list(fs)?;
        let numbers: Vec<u64> = found.iter().map(|backup| backup.number).collect();
        let known = self.lasting(&numbers);
        let Some(others) = numbers.strip_prefix(&known[..]) else {
            return Err(Violation::new(format!("backups {numbers:?}, expected {known:?}")));
        };
        let next = self.backups.last().map_or(1, |last| last + 1);
        if !others.is_empty() && *others != [next] {
            return Err(Violation::new(format!("backups {others:?} come from nowhere")));
        }
        if let Some(old) = self.draw_old(&found) {
            self.judge_old(fs, &old)?;
        }
        if others.is_empty() {
            return Ok(false);
        }
        self.restore(fs, None)?;
        self.judge_apart(fs, None)?;
        Ok(true)
    }

    /// After a success: it is durable, and so are the others.
    fn judge_backup(&mut self, made: Backup) -> Checked<()> {
        let seed = self.draw.next();
        let crash = self.draw.pick(&[Crash::Kill, Crash::PowerLoss { seed }]);
        let after = self.database.fs.crash_clone(crash);
        after.set_space_limit(None);
        let during = |violation: Violation| violation.during(format!("a backup after {crash:?}"));
        let found = self.list(&after).map_err(during)?;
        if found.last().map(|backup| backup.number) != Some(made.number) {
            return Err(during(Violation::new(format!("{made:?} is not there: {found:?}"))));
        }
        if let Some(old) = self.draw_old(&found[..found.len() - 1]) {
            self.judge_old(&after, &old).map_err(during)?;
        }
        let after = after.crash_clone(Crash::Kill);
        self.restore(&after, None).map_err(during)?;
        self.judge_apart(&after, Some(made.sequence)).map_err(during)
    }

    /// One of the backups that were there before.
    fn draw_old(&mut self, found: &[BackupInfo]) -> Option<BackupInfo> {
        let old = &found[..found.len().min(self.backups.len())];
        (!old.is_empty()).then(|| old[self.draw.index(old.len())].clone())
    }

    /// An older backup restores to a sound database.
    fn judge_old(&mut self, fs: &MemFs, old: &BackupInfo) -> Checked<()> {
        let fs = fs.crash_clone(Crash::Kill);
        self.restore(&fs, Some(old.number))?;
        let options = self.settings.options(&fs, &self.clock, self.draw.next());
        let report = must(options.check(COPY, &mut |_| {}), "checking a restored database")?;
        if !report.is_clean() {
            return Err(Violation::new(format!("damage in backup {}: {report:?}", old.number)));
        }
        let options = self.settings.options(&fs, &self.clock, self.draw.next());
        let db = must(options.open(COPY), "opening a restored database")?;
        let found = db.snapshot().sequence();
        if found != old.sequence {
            return Err(Violation::new(format!("{old:?} was restored at {found}")));
        }
        self.report.backups.old += 1;
        must(db.close(), "closing a restored database")
    }

    fn restore(&mut self, fs: &MemFs, number: Option<u64>) -> Checked<()> {
        let backups = self.backups_in(fs);
        must(backups.restore(number, COPY), "restoring a backup").map(drop)
    }

    fn backups_in(&mut self, fs: &MemFs) -> Backups {
        Backups::with_options(BACKUPS, self.settings.options(fs, &self.clock, self.draw.next()))
    }

    /// The backups that lie in `fs`.
    fn list(&mut self, fs: &MemFs) -> Checked<Vec<BackupInfo>> {
        let before = strays(fs);
        let listed = self.backups_in(fs).list();
        // It takes no lock: lists do not change.
        let is_list = |path: &PathBuf| path.extension().is_some_and(|name| name == "backup");
        let after = strays(fs);
        if !before.is_empty() || !after.iter().all(is_list) {
            return Err(Violation::new(format!("{before:?} and {after:?} were touched")));
        }
        fs.forget_strays();
        match listed {
            Ok(listing) if listing.errors.is_empty() => Ok(listing.backups),
            Ok(listing) => Err(Violation::new(format!("a damaged list: {:?}", listing.errors))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Violation::new(format!("listing backups: {error}"))),
        }
    }

    /// The backups that were known are there, whatever has crashed since.
    fn check_known_backups(&mut self) -> Checked<()> {
        let before = self.backups.clone();
        self.find_backups()?;
        let found = std::mem::replace(&mut self.backups, before);
        let known = self.lasting(&found);
        if found == known {
            self.backups_in_doubt.retain(|number| found.contains(number));
            self.backups = found;
            return Ok(());
        }
        Err(Violation::new(format!("backups {found:?}, expected {known:?}")))
    }

    /// The backups that are known, but for those in doubt that are not among `found`.
    fn lasting(&self, found: &[u64]) -> Vec<u64> {
        let in_doubt = |number: &u64| self.backups_in_doubt.contains(number);
        let known = self.backups.iter().copied();
        known.filter(|number| !in_doubt(number) || found.contains(number)).collect()
    }

    fn find_backups(&mut self) -> Checked<()> {
        // A copy has no fault and no lock.
        let fs = self.database.fs.crash_clone(Crash::Kill);
        let found = self.list(&fs)?;
        self.backups = found.iter().map(|backup| backup.number).collect();
        Ok(())
    }

    /// Removes old backups, if no call may fail.
    fn prune(&mut self) -> Checked<()> {
        let may_fail = self.settings.weather == Weather::Faults || self.excuse() != Excuse::None;
        if may_fail || self.backups.len() as u64 <= KEPT || self.draw.chance(1, 2) {
            return Ok(());
        }
        let fs = self.database.fs.clone();
        let pruned = must(self.backups_in(&fs).prune(KEPT), "pruning backups")?;
        self.note(format!("pruned: {pruned:?}"));
        self.report.backups.pruned += pruned.files;
        self.find_backups()
    }
}
