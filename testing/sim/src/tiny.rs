//! Many tiny steps in a row, like those of a loop of short programs, or of a program that flushes
//! after each commit. Each step leaves a segment of the log or a table.
//!
//! `steps` says what a step does and compares.

use crate::{run::Run, violation::Checked};

/// The operation after each commit.
#[derive(Clone, Copy, Debug)]
enum Then {
    Flush,
    Opening,
}

impl Run {
    /// Commits, each followed by a flush or by a close and an opening.
    pub(crate) fn tiny_steps(&mut self) -> Checked<()> {
        let then = self.draw.pick(&[Then::Flush, Then::Opening]);
        let count = match then {
            Then::Flush if self.draw.chance(1, 4) => self.draw.within(200..=400),
            Then::Flush | Then::Opening => self.draw.within(4..=48),
        };
        for step in 0..count {
            if self.has_failed() {
                return Ok(());
            }
            self.commit()?;
            match then {
                Then::Flush => self.flush()?,
                Then::Opening => self.close_and_open()?,
            }
            self.report.tiny_steps_max = self.report.tiny_steps_max.max(step + 1);
        }
        Ok(())
    }
}
