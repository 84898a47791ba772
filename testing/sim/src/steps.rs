//! The single steps of a run.
//!
//! Each step does the same to the engine and to the model.

use crate::{
    carry_out::{carry_out, describe},
    database::{Database, families_by_name},
    directory::Directory,
    expected::{Expectation, Names},
    model::FamilyIndex,
    plan::{Form, Planned, plan},
    reads::{Walk, compare_family, compare_some},
    run::{Excuse, Held, Outcome, Run, Trace},
    settings::{FamilySettings, Retained, Weather},
    truth::Truth,
    violation::{Checked, Violation, must},
    watch::{Activity, CrashKind},
};
use siltdb::{Durability, ErrorKind, Read};
use siltdb_base::{clock::Clock, fs::mem::Crash};
use std::{collections::BTreeSet, time::Duration};

/// At most this many families exist at once, including the default one.
pub(crate) const FAMILIES_MAX: usize = 5;

/// At most this many snapshots are held at once.
const SNAPSHOTS_MAX: usize = 4;

/// At most this many iterators are held at once.
const WALKS_MAX: usize = 3;

impl Run {
    /// Does one random step.
    pub(crate) fn step(&mut self) -> Checked<()> {
        if self.has_failed() {
            match (self.draw.below(6), self.trace) {
                (0, _) => return self.crash(),
                (1, Trace::None) => return self.go_on(),
                _ => {}
            }
        }
        if self.settings.weather == Weather::Faults && self.draw.chance(1, 60) {
            self.fault();
        }
        if self.subscriber.is_reopened && self.draw.chance(1, 4) {
            return self.read_feed();
        }
        match self.draw.below(100) {
            0..27 => self.commit(),
            27..31 => self.use_buckets(),
            31..34 => self.step_on_key(),
            34..46 if self.draw.chance(1, 5) => self.two_phases(),
            34..46 => self.transact(),
            46..49 => self.look_back(),
            49..52 => self.read(),
            52..57 => self.read_feed(),
            58 if self.draw.chance(1, 2) => self.change_floor(),
            58 => self.hold_snapshot(),
            59 => self.change_tier(),
            60 => self.backup(),
            61 if self.draw.chance(2, 3) => self.follow(),
            61 => self.hold_snapshot(),
            62 => self.clone_family(),
            63..68 => self.walk(),
            68..78 => self.run_jobs(),
            78..80 => self.flush(),
            80 => self.flush_family(),
            81 => self.compact(),
            82 => self.compact_range(),
            83 if self.draw.chance(1, 2) => self.change_options(),
            83..85 => self.settle(),
            85..87 => self.sync_wal(),
            87..90 => self.change_families(),
            90 => {
                self.turn_clock();
                Ok(())
            }
            57 | 91 => self.checkpoint(),
            92 => self.archive(),
            93 => {
                let ms = self.draw.pick(&[1, 20, 300, 2000]);
                self.advance(Duration::from_millis(ms));
                Ok(())
            }
            95 if self.draw.chance(1, 2) => self.use_copy(),
            94..96 if self.settings.weather != Weather::Calm => self.crash(),
            96..98 => self.close_and_open(),
            98 if self.draw.chance(1, 2) => self.upkeep(),
            98 => self.check_files(),
            _ if self.draw.chance(1, 3) => self.tiny_steps(),
            _ if self.draw.chance(1, 3) => self.move_ground(),
            _ => {
                self.disturb();
                Ok(())
            }
        }
    }

    pub(crate) fn commit(&mut self) -> Checked<()> {
        if self.visible > self.model.acknowledged() {
            // Readers see the commit in doubt. The database is poisoned and takes no other commit.
            return self.read();
        }
        let saved = self.poisoned.then(|| self.model.clone());
        self.model.truncate(self.visible);
        let families: Vec<_> = self.database.families.keys().copied().collect();
        let number = self.visible + 1;
        let now_ms = self.draw.pick(&[self.now().wall_ms, self.clock.wall_ms()]);
        let mut planned =
            plan(&self.settings, &self.model, &families, now_ms, number, &mut self.draw);
        self.add_guests(&mut planned, now_ms);
        if let Some(saved) = saved {
            self.model = saved;
        }
        if self.is_locked(&planned.operations) {
            return self.commit_locked(&planned);
        }
        if planned.form == Form::Ingest && self.has_locks_in(&planned.operations) {
            // An ingest also waits for locks on keys between its own.
            planned.form = Form::Batch;
        }
        self.commit_planned(&planned, |database| carry_out(database, &planned)).map(|_| ())
    }

    /// Runs `work`, which makes the planned commit, or none if no operation is planned. Returns the
    /// result of `work`, unless it was refused or the run continues from a crash.
    pub(crate) fn commit_planned<T>(
        &mut self,
        planned: &Planned,
        work: impl FnOnce(&Database) -> siltdb::Result<T>,
    ) -> Checked<Option<T>> {
        let saved = self.poisoned.then(|| self.model.clone());
        let commits = !planned.operations.is_empty();
        if commits {
            self.model.truncate(self.visible);
            self.note(describe(self.visible + 1, planned));
            let operations = self.with_expiries(planned);
            self.model.begin(planned.durability, planned.clock, &operations);
            if planned.form == Form::Ingest {
                self.model.goes_past_log();
            }
        }
        match self.operate(planned.form.activity(), None, work)? {
            Outcome::Done(done) => {
                if commits {
                    self.acknowledge(planned)?;
                }
                Ok(Some(done))
            }
            Outcome::Refused(ErrorKind::Poisoned) => {
                // A poisoned database did not try the commit, so the earlier one is still in doubt.
                if let Some(saved) = saved {
                    self.model = saved;
                }
                self.look_at_refused().map(|()| None)
            }
            Outcome::Refused(_) => {
                // The commit never got a sequence number: it is absent, and no recovery finds it.
                self.model.truncate(self.visible);
                self.compare_everything().map(|()| None)
            }
            Outcome::Replaced => Ok(None),
        }
    }

    /// After a transient failure that left nothing behind, commits must go on.
    fn go_on(&mut self) -> Checked<()> {
        self.note("no call fails any more".to_owned());
        self.database.fs.set_fault(None);
        self.commit()?;
        self.settle()
    }

    pub(crate) fn acknowledge(&mut self, planned: &Planned) -> Checked<()> {
        let sequence = self.database.db.snapshot().sequence();
        let before = self.model.commit(self.visible).map_or(0, |commit| commit.sequence);
        if sequence < before {
            return Err(Violation::new(format!("sequence number {sequence} after {before}")));
        }
        self.model.acknowledge(sequence, self.clock.monotonic_ns());
        self.visible = self.model.acknowledged();
        self.report.commits += 1;
        if planned.form == Form::Ingest {
            let families = planned.operations.iter().map(|(family, _)| family);
            self.report.ingests += 1;
            self.report.ingests_of_several +=
                u64::from(families.collect::<BTreeSet<_>>().len() > 1);
        }
        self.report.commits_resumed += u64::from(self.has_failed());
        self.written = true;
        if planned.durability == Durability::Synced {
            self.report.commits_synced += 1;
            self.durable = self.visible;
        }
        Ok(())
    }

    /// A commit that failed in the log is either invisible or visible as a whole.
    pub(crate) fn look_at_refused(&mut self) -> Checked<()> {
        let Err(absent) = self.compare_everything() else { return Ok(()) };
        self.visible = self.model.possible();
        self.compare_everything().map_err(|present| {
            let message = format!("a failed commit is there in part: {absent}; and {present}");
            Violation::new(message)
        })
    }

    /// Compares the whole present state with the model.
    pub(crate) fn compare_everything(&mut self) -> Checked<()> {
        let at = self.now();
        for (index, family) in &self.database.families {
            let truth = Truth { model: &self.model, family: *index, at };
            let faults = self.database.fs.faults();
            let mut compared = compare_family(family, truth, &mut self.draw, 100);
            if self.database.fs.faults() > faults {
                compared = compare_family(family, truth, &mut self.draw, 100);
            }
            self.report.reads += compared?;
        }
        // Where a call may fail or the disk be full, so may the note of what has expired.
        if self.settings.weather == Weather::Crashes && !self.poisoned {
            let families = self.database.families.keys();
            let seen = families.filter_map(|index| self.model.last_expiry(*index, at)).max();
            self.times.saw_expired(seen.unwrap_or(0));
            self.report.expiries_seen += u64::from(seen.is_some());
        }
        self.read_guests()?;
        self.database.check_cache()
    }

    /// Reads a little, at the present or at a snapshot.
    pub(crate) fn read(&mut self) -> Checked<()> {
        if self.draw.chance(1, 8) {
            return self.read_guests();
        }
        let held = if self.snapshots.is_empty() || self.draw.chance(1, 2) {
            None
        } else {
            Some(&self.snapshots[self.draw.index(self.snapshots.len())])
        };
        let families = held.map_or(&self.database.families, |held| &held.families);
        let indexes: Vec<_> = families.keys().copied().collect();
        let family = self.draw.pick(&indexes);
        let handle = &families[&family];
        let at = held.map_or_else(|| self.now(), |held| held.at);
        let truth = Truth { model: &self.model, family, at };
        let (shape, count) = (self.settings.key_shape, self.settings.key_count);
        let faults = self.database.fs.faults();
        let mut draw = self.draw.fork();
        let mut compare = || match held {
            Some(held) => {
                let family = must(held.snapshot.family(handle), "a family in a snapshot")?;
                compare_some(&family, truth, shape, count, &mut draw)
            }
            None => compare_some(handle, truth, shape, count, &mut draw),
        };
        let mut compared = compare();
        if self.database.fs.faults() > faults {
            // A call failed meanwhile; the second comparison shows that no wrong state stayed
            // behind.
            compared = compare();
        }
        let what = if held.is_some() { "reading a snapshot" } else { "reading" };
        self.report.reads += compared.map_err(|violation| violation.during(what))?;
        Ok(())
    }

    fn hold_snapshot(&mut self) -> Checked<()> {
        let full = self.snapshots.len() == SNAPSHOTS_MAX;
        if full || !self.snapshots.is_empty() && self.draw.chance(1, 3) {
            let index = self.draw.index(self.snapshots.len());
            let held = self.snapshots.swap_remove(index);
            self.note(format!("snapshot of {} let go", held.at.commit));
            return Ok(());
        }
        self.read_clock();
        let snapshot = self.database.db.snapshot();
        let (at, families) = (self.now(), self.database.families.clone());
        self.note(format!("snapshot of {}", at.commit));
        let rows = self.rows_in(&snapshot)?;
        self.snapshots.push(Held { snapshot, at, families, rows });
        Ok(())
    }

    /// Opens an iterator and keeps it, or advances a kept one.
    fn walk(&mut self) -> Checked<()> {
        if self.walks.len() < WALKS_MAX && self.draw.chance(1, 3) {
            let indexes: Vec<_> = self.database.families.keys().copied().collect();
            let family = self.draw.pick(&indexes);
            let iter = must(self.database.families[&family].iter(), "iter")?;
            self.note(format!("iterator over #{}", family.0));
            let truth = Truth { model: &self.model, family, at: self.now() };
            self.walks.push(Walk::new(iter, truth, |_| true));
            return Ok(());
        }
        if self.walks.is_empty() {
            return Ok(());
        }
        let index = self.draw.index(self.walks.len());
        let steps = self.draw.pick(&[1, 5, 50, u64::MAX]);
        let faults = self.database.fs.faults();
        let (model, now) = (&self.model, self.now());
        let walked = self.walks[index].go(steps, model, now, &mut self.draw);
        let walked = walked.map_err(|violation| violation.during("an iterator held"))?;
        if walked.is_err() || steps == u64::MAX {
            self.walks.swap_remove(index);
        }
        let failed = self.database.fs.faults() > faults;
        match walked {
            Err(error) if failed && Excuse::Fault.kinds().contains(&error.kind()) => {}
            walked => self.report.reads += must(walked, "walking an iterator held")?,
        }
        Ok(())
    }

    pub(crate) fn run_jobs(&mut self) -> Checked<()> {
        for _ in 0..self.draw.within(1..=4) {
            self.note("job".to_owned());
            match self.operate(Activity::Jobs, None, |database| database.db.run_job())? {
                Outcome::Done(true) => {}
                Outcome::Done(false) => {
                    self.count_intervals();
                    return Ok(());
                }
                Outcome::Refused(_) | Outcome::Replaced => return Ok(()),
            }
        }
        Ok(())
    }

    /// No job is due, so every commit whose interval is over has been synced.
    fn count_intervals(&mut self) {
        let now_ns = u128::from(self.clock.monotonic_ns());
        for number in self.durable + 1..=self.model.acknowledged() {
            if let Some(commit) = self.model.commit(number)
                && let Durability::Interval(interval) = commit.durability
                && u128::from(commit.acknowledged_ns) + interval.as_nanos() <= now_ns
            {
                self.durable = number;
            }
        }
    }

    pub(crate) fn flush(&mut self) -> Checked<()> {
        self.note("flush".to_owned());
        let outcome = self.operate(Activity::Jobs, None, |database| database.db.flush())?;
        self.made_flushed(&outcome);
        Ok(())
    }

    /// Flushed data needs no log any more.
    pub(crate) fn made_flushed(&mut self, outcome: &Outcome<()>) {
        if let Outcome::Done(()) = outcome {
            self.flushed = self.model.acknowledged();
        }
        self.made_durable(outcome);
    }

    fn made_durable(&mut self, outcome: &Outcome<()>) {
        if let Outcome::Done(()) = outcome {
            self.durable = self.model.acknowledged();
        }
    }

    pub(crate) fn compact(&mut self) -> Checked<()> {
        // Flushes separately, so that the next operation is compaction alone.
        self.flush()?;
        let indexes: Vec<_> = self.database.families.keys().copied().collect();
        let family = self.draw.pick(&indexes);
        let every = self.draw.chance(1, 3);
        self.note(if every { "compact".to_owned() } else { format!("compact #{}", family.0) });
        let outcome = self.operate(Activity::Jobs, None, |database| {
            if every { database.db.compact() } else { database.families[&family].compact() }
        })?;
        self.made_flushed(&outcome);
        Ok(())
    }

    fn settle(&mut self) -> Checked<()> {
        self.note("settle".to_owned());
        if self.draw.chance(2, 3) {
            // Without readers, so that the directory can be compared.
            self.snapshots.clear();
            self.walks.clear();
            self.transactions.clear();
        }
        match self.operate(Activity::Jobs, None, |database| database.db.settle())? {
            Outcome::Done(()) => self.look_at_directory(),
            Outcome::Refused(_) | Outcome::Replaced => Ok(()),
        }
    }

    /// Compares the directory of a database at rest with the files that it needs. Skipped while
    /// readers hold files, and where a failure may have left removals to the next open.
    fn look_at_directory(&mut self) -> Checked<()> {
        let is_held =
            !self.snapshots.is_empty() || !self.walks.is_empty() || !self.transactions.is_empty();
        let may_leave = matches!(self.settings.weather, Weather::Faults | Weather::FullDisk);
        // The log files of an ended subscription stay until the next flush.
        let is_retained =
            self.settings.retained != Retained::Nothing || self.subscriber.has_subscribed;
        if is_held || may_leave || is_retained {
            return Ok(());
        }
        let found = Directory::list(&self.database.fs)?;
        let copy = self.database.fs.crash_clone(Crash::Kill);
        let again = must(Database::open(&self.settings, &copy, &self.clock, 0), "opening a copy")?;
        let needed = Directory::list(&copy)?;
        drop(again);
        self.report.directories += 1;
        found.check_settled(&needed)
    }

    fn sync_wal(&mut self) -> Checked<()> {
        self.note("sync the log".to_owned());
        let outcome = self.operate(Activity::Sync, None, |database| database.db.sync_wal())?;
        self.made_durable(&outcome);
        Ok(())
    }

    pub(crate) fn change_families(&mut self) -> Checked<()> {
        if self.excuse() == Excuse::Fault {
            // The change may or may not happen. Only one such change at a time is tracked.
            return self.crash();
        }
        let mut names = self.database.names.clone();
        let mut others: Vec<String> = names.keys().cloned().collect();
        others.retain(|name| name != "default");
        let free: Vec<String> =
            (0..9).map(|n| format!("f{n}")).filter(|name| !names.contains_key(name)).collect();
        let name = free[self.draw.index(free.len())].clone();
        if others.is_empty() || names.len() < FAMILIES_MAX && self.draw.chance(1, 2) {
            return match self.draw.chance(1, 2) {
                true => self.commit_family(&name, None),
                false => self.create_family(names, &name),
            };
        }
        let other = others[self.draw.index(others.len())].clone();
        if let Some((branch, family)) = other.split_once('/') {
            return self.change_branch(names, branch, family);
        }
        if self.draw.chance(1, 3) {
            return self.commit_family(&name, Some(&other));
        }
        let Some(index) = names.remove(&other) else { return Ok(()) };
        if self.draw.chance(1, 2) {
            self.note(format!("drop family {other} (#{})", index.0));
            let after = Some(names.clone());
            let work = |database: &Database| database.db.drop_family(&other);
            if let Outcome::Done(()) = self.operate(Activity::Family, after, work)? {
                return self.dropped(names, index);
            }
        } else {
            self.note(format!("rename family {other} (#{}) to {name}", index.0));
            names.insert(name.clone(), index);
            let after = Some(names.clone());
            let work = |database: &Database| database.db.rename_family(&other, &name);
            if let Outcome::Done(()) = self.operate(Activity::Family, after, work)? {
                self.database.names = names;
            }
        }
        self.forget_half_changed()
    }

    fn create_family(&mut self, mut names: Names, name: &str) -> Checked<()> {
        let settings = FamilySettings::new_family(&mut self.draw);
        let index = self.model.add_family(settings.key_order);
        self.note(format!("create family {name} (#{}): {settings:?}", index.0));
        names.insert(name.to_owned(), index);
        let options = settings.options(self.settings.operator);
        let after = Some(names.clone());
        let work = |database: &Database| database.db.create_family(name, options);
        if let Outcome::Done(family) = self.operate(Activity::Family, after, work)? {
            self.database.families.insert(index, family);
            self.database.names = names;
        }
        self.forget_half_changed()
    }

    /// After a change of families that failed halfway, only a recovery shows which families exist.
    pub(crate) fn forget_half_changed(&mut self) -> Checked<()> {
        let found = must(families_by_name(&self.database.db), "opening the families")?;
        if self.excuse() == Excuse::None || self.database.names.keys().eq(found.keys()) {
            return Ok(());
        }
        let message = format!("families {:?} after a change of them failed", found.keys());
        Err(Violation::new(message))
    }

    /// After a family was dropped, writes to it fail and open readers of it go on.
    pub(crate) fn dropped(&mut self, names: Names, index: FamilyIndex) -> Checked<()> {
        self.database.names = names;
        let Some(family) = self.database.families.remove(&index) else { return Ok(()) };
        match family.put(b"key", b"value") {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            result => Err(Violation::new(format!("writing to a dropped family gave {result:?}"))),
        }
    }

    pub(crate) fn close_and_open(&mut self) -> Checked<()> {
        self.snapshots.clear();
        self.walks.clear();
        self.transactions.clear();
        self.subscriber.subscription = None;
        self.note("close".to_owned());
        let faults = self.database.fs.faults();
        match self.operate(Activity::Sync, None, |database| database.db.clone().close())? {
            Outcome::Replaced => return Ok(()),
            Outcome::Done(()) => {
                self.durable = self.model.acknowledged();
                // Close flushes what was not logged.
                self.flushed = self.model.acknowledged();
                // A process that wrote nothing stores no time, nor does one without the space for
                // it.
                let had_space = self.disk == Excuse::None && self.database.fs.faults() == faults;
                if self.written && had_space {
                    self.times.made_durable();
                }
            }
            Outcome::Refused(_) => {}
        }
        if self.draw.chance(1, 3) {
            self.turn_clock();
        }
        let mut expectation = self.expectation(None);
        if self.excuse() == Excuse::None {
            let commit = self.model.acknowledged();
            let names = self.database.names.clone();
            let flushed = self.flushed..=commit;
            let (waiting, retained) = (self.waiting.clone(), self.retained.clone());
            expectation = Expectation::exactly(commit, flushed, names, &self.times);
            expectation = Expectation { waiting, retained, ..expectation };
            // What was seen expired is noted in the log, which a close keeps.
            expectation = expectation.after(CrashKind::Kill);
        }
        self.reopen(&expectation)
    }

    /// Verifies all files of the database, and checks that no second opening succeeds.
    fn check_files(&mut self) -> Checked<()> {
        self.database.check_ground()?;
        let faults = self.database.fs.faults();
        let second = Database::open(&self.settings, &self.database.fs, &self.clock, 0);
        let is_locked = second.as_ref().is_err_and(|error| error.kind() == ErrorKind::Locked);
        if !is_locked && self.database.fs.faults() == faults {
            return Err(Violation::new(format!("a second opener got {second:?}")));
        }
        let checked = self.database.db.check(&mut |_| {});
        if self.database.fs.faults() > faults {
            return Ok(());
        }
        let report = must(checked, "check")?;
        if report.is_clean() {
            return Ok(());
        }
        Err(Violation::new(format!("check found damage where there is none: {report:?}")))
    }
}
