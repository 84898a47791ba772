//! The steps of a run that an operator takes: scrubs, pauses, and compactions that are cancelled.
//!
//! They change nothing that readers see.

use crate::{
    run::{Outcome, Run},
    violation::{Checked, Violation, must},
    watch::Activity,
};
use siltdb::{CancelToken, CompactOptions, ErrorKind, ScrubOptions};

/// Pauses held at once.
const PAUSES_MAX: usize = 2;

impl Run {
    /// Does one of the steps.
    pub(crate) fn upkeep(&mut self) -> Checked<()> {
        match self.draw.below(4) {
            0 => self.scrub(),
            1 | 2 => self.pause(),
            _ => self.cancel(),
        }
    }

    /// Scrubs everything, or what follows a table. There is no damage.
    fn scrub(&mut self) -> Checked<()> {
        let last = self.database.db.last_scrub().and_then(|report| report.last_table);
        let after = last.filter(|_| self.draw.chance(1, 3));
        self.note(format!("scrub after {after:?}"));
        let faults = self.database.fs.faults();
        let scrubbed = self.database.db.scrub(&ScrubOptions::new().after(after), &mut |_| {});
        if self.database.fs.faults() > faults {
            return Ok(());
        }
        let report = must(scrubbed, "scrub")?;
        self.report.scrubs += 1;
        if report.is_clean() && report.is_complete && report.tables_skipped == 0 {
            return Ok(());
        }
        Err(Violation::new(format!("scrub found damage where there is none: {report:?}")))
    }

    /// Pauses the background work, or ends a pause.
    fn pause(&mut self) -> Checked<()> {
        let is_full = self.pauses.len() == PAUSES_MAX;
        if is_full || !self.pauses.is_empty() && self.draw.chance(1, 2) {
            self.note("a pause ends".to_owned());
            self.pauses.pop();
            return Ok(());
        }
        self.note("a pause begins".to_owned());
        match self.database.db.pause_background() {
            Ok(pause) => {
                self.pauses.push(pause);
                self.report.pauses += 1;
                Ok(())
            }
            Err(error) if self.excuse().kinds().contains(&error.kind()) => Ok(()),
            Err(error) => Err(Violation::new(format!("a pause is refused: {error}"))),
        }
    }

    /// Compacts everything, and cancels that after some steps.
    fn cancel(&mut self) -> Checked<()> {
        // By itself, so that what follows is compaction alone.
        self.flush()?;
        let steps = self.draw.within(1..=3);
        self.note(format!("compact, cancelled after {steps} steps"));
        let token = CancelToken::new();
        let options = CompactOptions::new().cancel(&token);
        let outcome = self.operate(Activity::Jobs, None, |database| {
            let compacted = database.db.compact_with(&options, &mut |progress| {
                if progress.compactions == steps {
                    token.cancel();
                }
            });
            match compacted {
                Err(error) if error.kind() == ErrorKind::Cancelled => Ok(1),
                compacted => compacted.map(|()| 0),
            }
        })?;
        if let Outcome::Done(cancelled) = outcome {
            self.report.cancelled += cancelled;
            self.made_flushed(&Outcome::Done(()));
        }
        Ok(())
    }
}
