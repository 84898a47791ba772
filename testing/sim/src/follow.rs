//! A follower beside the database of a run.
//!
//! It compares the follower with the database, which others compare with the model.

use crate::{
    backups::BACKUPS,
    checkpoints::COPY,
    database::families_by_name,
    reads::{collect, compare_pairs},
    run::{Excuse, Run},
    settings::{DIRECTORY, Weather},
    violation::{Checked, Violation, must},
};
use siltdb::{Db, Follower, backup::Backups};
use siltdb_base::fs::mem::Crash;

impl Run {
    /// Opens a follower, or has it catch up, and compares it with the database; or lets it go.
    pub(crate) fn follow(&mut self) -> Checked<()> {
        // Files that it holds open take space, and the faults are for the database.
        let is_calm = matches!(self.settings.weather, Weather::Calm | Weather::Crashes);
        if !is_calm || self.poisoned || self.excuse() != Excuse::None {
            return Ok(());
        }
        if self.follower.is_some() && self.draw.chance(1, 8) {
            self.note("the follower is let go".to_owned());
            self.follower = None;
            return Ok(());
        }
        let follower = match self.follower.take() {
            Some(follower) => {
                must(follower.catch_up(), "catching up")?;
                follower
            }
            None => {
                let (fs, seed) = (&self.database.fs, self.draw.next());
                let options = self.settings.options(fs, &self.clock, seed);
                must(options.open_follower(DIRECTORY), "opening a follower")?
            }
        };
        let (sequence, db) = (follower.sequence(), follower.db());
        self.note(format!("a follower at {sequence}"));
        let copied = self.copy_followed(&follower);
        self.follower = Some(follower);
        copied?;
        let published = self.database.db.snapshot().sequence();
        if sequence != published {
            let message = format!("a follower at {sequence}, where the database is at {published}");
            return Err(Violation::new(message));
        }
        self.compare_follower(&db)
    }

    /// Has a follower make a checkpoint or a backup, now and then, and compares the copy with what
    /// `follower` shows.
    fn copy_followed(&mut self, follower: &Follower) -> Checked<()> {
        if !self.draw.chance(1, 3) {
            return Ok(());
        }
        // On a file system of its own, so that the directories of other copies stay as they are.
        let fs = self.database.fs.crash_clone(Crash::Kill);
        fs.set_space_limit(None);
        let options = self.settings.options(&fs, &self.clock, self.draw.next());
        let beside = must(options.open_follower(DIRECTORY), "opening a follower of a copy")?;
        let is_backup = self.draw.chance(1, 2);
        self.note(format!("a copy of a follower, backup: {is_backup}"));
        let sequence = if is_backup {
            let made = must(beside.backup(BACKUPS), "a backup of a follower")?;
            let options = self.settings.options(&fs, &self.clock, self.draw.next());
            let backups = Backups::with_options(BACKUPS, options);
            must(backups.restore(Some(made.number), COPY), "restoring a backup of a follower")?;
            made.sequence
        } else {
            must(beside.checkpoint(COPY), "a checkpoint of a follower")?.sequence
        };
        let options = self.settings.options(&fs, &self.clock, self.draw.next());
        let copy = must(options.open(COPY), "opening a copy of a follower")?;
        let found = copy.snapshot().sequence();
        if found != sequence || sequence != follower.sequence() {
            let expected = follower.sequence();
            let message =
                format!("a copy of a follower at {expected} has {sequence}, opens at {found}");
            return Err(Violation::new(message));
        }
        self.compare_databases(&copy, &follower.db())?;
        let report = must(copy.check(&mut |_| {}), "checking a copy of a follower")?;
        if !report.is_clean() {
            return Err(Violation::new(format!("damage in a copy of a follower: {report:?}")));
        }
        self.report.followed_copies += 1;
        must(copy.close(), "closing a copy of a follower")
    }

    /// Compares the families of a copy with those of its source.
    fn compare_databases(&self, copy: &Db, source: &Db) -> Checked<()> {
        // A clock that was set back is one thing for a process that has seen the later time.
        if self.settings.expiring > 0 {
            return Ok(());
        }
        let families = must(families_by_name(copy), "families of a copy")?;
        let sources = must(families_by_name(source), "families of a follower")?;
        if !families.keys().eq(sources.keys()) {
            let message = format!("a copy of a follower has the families {:?}", families.keys());
            return Err(Violation::new(message));
        }
        for (name, family) in &sources {
            compare_pairs(&collect(&families[name])?, &collect(family)?)
                .map_err(|violation| violation.during(format!("a copy of a follower, {name}")))?;
        }
        Ok(())
    }

    fn compare_follower(&mut self, db: &Db) -> Checked<()> {
        // Volatile commits show with their flush. And a clock that was set back is one thing for a
        // process that has seen the later time, and another for one that has not.
        let unflushed = self.model.volatile(self.flushed + 1..=self.visible);
        if !unflushed.is_empty() || self.settings.expiring > 0 {
            return Ok(());
        }
        let families = must(families_by_name(db), "families of a follower")?;
        if !families.keys().eq(self.database.names.keys()) {
            let message = format!("a follower shows the families {:?}", families.keys());
            return Err(Violation::new(message));
        }
        for (name, index) in &self.database.names {
            let found = collect(&families[name])?;
            compare_pairs(&found, &collect(&self.database.families[index])?)
                .map_err(|violation| violation.during(format!("a follower of family {name}")))?;
            self.report.reads += found.len() as u64;
        }
        self.report.followed += 1;
        Ok(())
    }
}
