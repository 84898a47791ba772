//! A follower beside the database of a run.
//!
//! It compares the follower with the database, which others compare with the model.

use crate::{
    backups::BACKUPS,
    checkpoints::COPY,
    database::all_by_name,
    run::{Excuse, Followed, Run},
    settings::{DIRECTORY, Weather},
    truth::{collect, compare_pairs},
    violation::{Checked, Violation, must},
};
use siltdb::{Db, backup::Backups};
use siltdb_base::{clock::Clock, fs::mem::Crash};

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
        let mut followed = match self.follower.take() {
            Some(followed) => {
                must(followed.follower.catch_up(), "catching up")?;
                followed
            }
            None => {
                let (fs, seed) = (&self.database.fs, self.draw.next());
                let options = self.settings.options(fs, &self.clock, seed);
                let follower = must(options.open_follower(DIRECTORY), "opening a follower")?;
                Followed { follower, latest_ms: 0, is_comparable: true }
            }
        };
        // A clock that was set back is one thing for a process that has seen the later time, and
        // another for one that has not.
        let (wall_ms, seen_ms) = (self.clock.wall_ms(), followed.latest_ms);
        let is_latest = wall_ms >= seen_ms.max(self.now().wall_ms);
        followed.is_comparable = self.settings.expiring == 0 || is_latest;
        followed.latest_ms = wall_ms.max(seen_ms);
        let (sequence, db) = (followed.follower.sequence(), followed.follower.db());
        self.note(format!("a follower at {sequence}"));
        let is_comparable = followed.is_comparable;
        let copied = self.copy_followed(&followed);
        self.follower = Some(followed);
        copied?;
        let published = self.database.db.snapshot().sequence();
        if sequence != published {
            let message = format!("a follower at {sequence}, where the database is at {published}");
            return Err(Violation::new(message));
        }
        if is_comparable { self.compare_follower(&db) } else { Ok(()) }
    }

    /// Has a follower make a checkpoint or a backup, now and then, and compares the copy with what
    /// the follower shows.
    fn copy_followed(&mut self, followed: &Followed) -> Checked<()> {
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
        if found != sequence || sequence != followed.follower.sequence() {
            let expected = followed.follower.sequence();
            let message =
                format!("a copy of a follower at {expected} has {sequence}, opens at {found}");
            return Err(Violation::new(message));
        }
        if followed.is_comparable {
            self.compare_databases(&copy, &followed.follower.db())?;
        }
        let report = must(copy.check(&mut |_| {}), "checking a copy of a follower")?;
        if !report.is_clean() {
            return Err(Violation::new(format!("damage in a copy of a follower: {report:?}")));
        }
        self.report.followed_copies += 1;
        must(copy.close(), "closing a copy of a follower")
    }

    /// Compares the families and guests of a copy with those of its source.
    fn compare_databases(&mut self, copy: &Db, source: &Db) -> Checked<()> {
        self.report.reads +=
            compare(copy, source).map_err(|violation| violation.during("a copy of a follower"))?;
        self.report.guests.copied += 1;
        Ok(())
    }

    fn compare_follower(&mut self, db: &Db) -> Checked<()> {
        // Volatile commits show with their flush.
        if !self.model.volatile(self.flushed + 1..=self.visible).is_empty() {
            return Ok(());
        }
        self.report.reads +=
            compare(db, &self.database.db).map_err(|violation| violation.during("a follower"))?;
        self.report.followed += 1;
        Ok(())
    }
}

/// Compares the families and guests of a database with those of another. Returns the number of
/// pairs.
fn compare(db: &Db, source: &Db) -> Checked<u64> {
    let [families, sources] = [db, source].map(|db| must(all_by_name(db), "families"));
    let (families, sources) = (families?, sources?);
    if !families.keys().eq(sources.keys()) {
        let message = format!("families {:?} instead of {:?}", families.keys(), sources.keys());
        return Err(Violation::new(message));
    }
    let mut reads = 0;
    for (name, family) in &sources {
        let found = collect(&families[name])?;
        compare_pairs(&found, &collect(family)?)
            .map_err(|violation| violation.during(format!("family {name}")))?;
        reads += found.len() as u64;
    }
    Ok(reads)
}
