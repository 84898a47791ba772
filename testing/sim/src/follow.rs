//! A follower beside the database of a run.
//!
//! It compares the follower with the database, which others compare with the model.

use crate::{
    database::families_by_name,
    reads::{collect, compare_pairs},
    run::{Excuse, Run},
    settings::{DIRECTORY, Weather},
    violation::{Checked, Violation, must},
};
use siltdb::Db;

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
        self.follower = Some(follower);
        let published = self.database.db.snapshot().sequence();
        if sequence != published {
            let message = format!("a follower at {sequence}, where the database is at {published}");
            return Err(Violation::new(message));
        }
        self.compare_follower(&db)
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
