//! The verb follow: the commits of a writer in another process, printed as they come.
//!
//! It writes no byte of the database and takes no lock. `watch` prints what the log has and ends.

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::output::{Output, Style};
use crate::raw_keys::RawKeysArguments;
use crate::session::{Start, exists, family_on};
use crate::verbs::watch::{object, prefix_of, print};
use crate::whole_number::any_number;
use clap::Args;
use siltdb::{Event, Follower, Options, SubscribeOptions};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// What `silt follow --help` says at its end.
pub const HELP: &str = "\
Prints first what the log still has, then each commit within milliseconds, until Ctrl-C. A writer \
may come, go or be killed meanwhile. Lines and objects are those of `silt watch`. A line \
`N unlogged M` says that the log was reused before it was read, or that the commits were not in \
the log: what N to M did is in the database, and only there.

Example:
  silt follow demo.db --from-now --prefix user: --json";

/// How long the verb waits for a commit before it looks for Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// What `follow` is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Only changes of this family [default: of all]
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// The branch of that family [default: the one that is checked out]
    #[arg(long, value_name = "NAME", requires = "family")]
    branch: Option<String>,
    /// Only changes of keys that begin with this.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// From this sequence number on [default: the oldest that the log has]
    #[arg(long, value_name = "N", conflicts_with = "from_now", value_parser = any_number)]
    from: Option<u64>,
    /// Only what is committed from now on.
    #[arg(long)]
    from_now: bool,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
}

/// Prints commits until Ctrl-C.
///
/// # Errors
/// [`Failure::Missing`] if there is no such database, branch or family; [`Failure::Interrupted`];
/// those of the database and of stdout.
pub fn run(start: Start, path: &Path, arguments: &Arguments) -> Result<()> {
    let _watched = interrupt::watch()?;
    let Start { mut output, options } = start;
    let outcome = print_commits(&mut output, options, path, arguments);
    let flushed = output.flush();
    outcome.and(flushed)
}

fn print_commits(
    output: &mut Output,
    options: Options,
    path: &Path,
    arguments: &Arguments,
) -> Result<()> {
    if !exists(path)? {
        return Err(Failure::no_database(path));
    }
    let follower = options.open_follower(path)?;
    let settings = output.settings();
    let mut subscription = follower.subscribe(&arguments.wanted(&follower, output)?)?;
    let mut db = follower.db();
    loop {
        interrupt::check()?;
        let mut event = subscription.try_next()?;
        if event.is_none() {
            // What was printed is seen before the wait for more.
            output.flush()?;
            event = subscription.next_within(PATIENCE)?;
        }
        let Some(event) = event else { continue };
        if let Event::Commit(commit) = &event
            && commit.last > follower.sequence()
        {
            // Families that are new have names then.
            follower.catch_up()?;
            db = follower.db();
        }
        match settings.style {
            Style::Json => {
                let object = object(&db, &event, (settings.form, arguments.raw_keys));
                object.map_or(Ok(()), |object| output.json(&object))?;
            }
            Style::Text => print(&db, &event, arguments.raw_keys, output)?,
        }
    }
}

impl Arguments {
    /// Which commits are wanted.
    fn wanted(&self, follower: &Follower, output: &Output) -> Result<SubscribeOptions> {
        let mut wanted = SubscribeOptions::new();
        wanted = match self.from {
            Some(sequence) => wanted.from(sequence),
            None if self.from_now => wanted,
            None => wanted.from_oldest(),
        };
        let db = follower.db();
        let family = self.family.as_ref().map(|name| {
            let checked_out = db.checked_out();
            family_on(&db, self.branch.as_deref().unwrap_or(&checked_out), name)
        });
        let family = family.transpose()?;
        if let Some(family) = &family {
            wanted = wanted.family(family);
        }
        if let Some(prefix) = &self.prefix {
            wanted = wanted.prefix(prefix_of(prefix, family.as_ref(), output.settings().form)?);
        }
        Ok(wanted)
    }
}
