//! A progress bar on stderr for verbs that take long: bytes or entries, rate and time left.
//!
//! It shows nothing when stderr is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// How often a bar moves although nothing is reported.
const TICK: Duration = Duration::from_millis(120);

/// A progress bar; it disappears when dropped.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for `total` bytes, or for an unknown number of them.
    pub fn bytes(verb: &'static str, total: Option<u64>) -> Self {
        match total {
            Some(total) => Self::start(
                ProgressBar::new(total),
                verb,
                "{msg} [{bar:30}] {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left",
            ),
            None => Self::start(
                ProgressBar::new_spinner(),
                verb,
                "{spinner} {msg}  {bytes}  {bytes_per_sec}  {elapsed}",
            ),
        }
    }

    /// A spinner that counts entries.
    pub fn entries(verb: &'static str) -> Self {
        let template = "{spinner} {msg}  {human_pos} entries  {per_sec}  {elapsed}";
        Self::start(ProgressBar::new_spinner(), verb, template)
    }

    /// A spinner for work that reports nothing.
    pub fn time(verb: &'static str) -> Self {
        Self::start(ProgressBar::new_spinner(), verb, "{spinner} {msg}  {elapsed}")
    }

    fn start(bar: ProgressBar, verb: &'static str, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("the templates above are valid");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(verb);
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar }
    }

    /// So much is done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// The whole is now known to be `total`.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
