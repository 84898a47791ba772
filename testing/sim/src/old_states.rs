//! History: the retention floor is changed, and states from it on are compared.
//!
//! What crashes and jobs do to them meanwhile is for the other steps.

use crate::{
    database::Database,
    history::check_floor,
    model::Moment,
    reads::compare_all,
    run::{Excuse, Outcome, Run},
    truth::Truth,
    violation::{Checked, Violation, must},
    watch::Activity,
};
use siltdb::RetentionFloor;

/// Keys of an old state that are looked up, besides two scans.
const LOOKUPS_MAX: u64 = 20;

impl Run {
    /// Sets a floor, raises it, or takes it away.
    pub(crate) fn change_floor(&mut self) -> Checked<()> {
        let before = check_floor(&self.database.db, &self.retained)?;
        let present = self.database.db.snapshot().sequence();
        let to = match (before, self.draw.below(6)) {
            (Some(_), 0 | 1) => RetentionFloor::None,
            (Some(floor), 2 | 3) => RetentionFloor::Sequence(self.draw.within(floor..=present)),
            _ => RetentionFloor::Now,
        };
        let after = match to {
            RetentionFloor::None => None,
            RetentionFloor::Sequence(sequence) => Some(sequence),
            RetentionFloor::Now => Some(present),
        };
        if after == before {
            return Ok(());
        }
        self.note(format!("retention floor {before:?} to {after:?}"));
        // A crash or a failure inside leaves the one or the other.
        self.retained.push(after);
        let set = |database: &Database| database.db.set_retention_floor(to);
        let Outcome::Done(set) = self.operate(Activity::Sync, None, set)? else { return Ok(()) };
        if set != after {
            return Err(Violation::new(format!("the floor is {set:?}, and was to be {after:?}")));
        }
        self.retained = vec![after];
        self.report.floors += 1;
        if after.is_some() {
            // What was in no log was flushed.
            self.made_flushed(&Outcome::Done(()));
        }
        Ok(())
    }

    /// Compares the state after a commit from the floor on.
    pub(crate) fn look_back(&mut self) -> Checked<()> {
        let Some(floor) = check_floor(&self.database.db, &self.retained)? else {
            return self.read();
        };
        let present = self.database.db.snapshot().sequence();
        let last = self.visible.min(self.model.acknowledged());
        let is_kept = |number: &u64| {
            let commit = self.model.commit(*number);
            commit.is_some_and(|commit| {
                commit.is_sequence_known && (floor..=present).contains(&commit.sequence)
            })
        };
        let kept: Vec<u64> = (self.known_from.max(1)..=last).filter(is_kept).collect();
        if kept.is_empty() {
            return self.read();
        }
        let commit = self.draw.pick(&kept);
        let sequence = self.model.commit(commit).map_or(0, |commit| commit.sequence);
        let snapshot = must(self.database.db.snapshot_at(sequence), "a snapshot of history")?;
        let at = Moment { commit, ..self.now() };
        for (index, handle) in &self.database.families {
            let truth = Truth { model: &self.model, family: *index, at };
            let family = must(snapshot.family(handle), "a family of history")?;
            let faults = self.database.fs.faults();
            let mut compared = compare_all(&family, truth, &mut self.draw, LOOKUPS_MAX);
            if self.database.fs.faults() > faults {
                // A call failed meanwhile: nothing wrong may have stayed behind.
                compared = compare_all(&family, truth, &mut self.draw, LOOKUPS_MAX);
            }
            self.report.reads += compared.map_err(|violation| violation.during("history"))?;
        }
        self.report.looks_back += u64::from(commit < last);
        if self.excuse() == Excuse::None && self.draw.chance(1, 8) {
            return self.compact();
        }
        Ok(())
    }
}
