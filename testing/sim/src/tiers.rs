//! Tiers: families frozen and thawed. The background moves other tables, as their levels want.
//!
//! What a move leaves is for the other steps: they read, compact, crash, back up and clone what
//! lies in the cold directory as anything else.

use crate::{
    database::Database,
    run::{Outcome, Run},
    settings::Layout,
    violation::{Checked, Violation},
    watch::Activity,
};

impl Run {
    /// Freezes or thaws a family.
    pub(crate) fn change_tier(&mut self) -> Checked<()> {
        if self.settings.layout == Layout::OneDirectory {
            return self.run_jobs();
        }
        // By itself, so that what follows are moves alone.
        self.flush()?;
        let index = self.any_family();
        let freezes = self.draw.chance(1, 2);
        self.note(format!("{} #{}", if freezes { "freeze" } else { "thaw" }, index.0));
        let outcome = self.operate(Activity::Tier, None, |database: &Database| {
            let family = database.family(index);
            if freezes { family.freeze() } else { family.thaw() }
        })?;
        if let Outcome::Done(()) = outcome {
            let stats = self.database.family(index).stats();
            let misplaced = if freezes { stats.hot_bytes } else { stats.cold_bytes };
            if misplaced > 0 {
                let message = format!("{misplaced} bytes lie in the wrong tier: {stats:?}");
                return Err(Violation::new(message));
            }
            let counts = &mut self.report.tiers;
            *(if freezes { &mut counts.frozen } else { &mut counts.thawed }) += 1;
        }
        // It makes no commit durable: where the flush above was refused, commits to other families
        // are still in memory, and the family's own need not be flushed again.
        Ok(())
    }
}
