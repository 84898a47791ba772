//! Many tiny steps in a row, as a loop of small programs makes them, or a program that flushes
//! after each commit: each step leaves a segment of the log or a table.
//!
//! What a step does and compares is written in `steps`.

use crate::{run::Run, violation::Checked};

impl Run {
    /// Commits, each followed by a flush or by a close and an opening.
    pub(crate) fn tiny_steps(&mut self) -> Checked<()> {
        let opens = self.draw.chance(1, 2);
        for _ in 0..self.draw.within(4..=48) {
            if self.has_failed() {
                break;
            }
            self.commit()?;
            if opens { self.close_and_open()? } else { self.flush()? }
        }
        Ok(())
    }
}
