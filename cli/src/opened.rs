//! Runs verbs on a database that it opens, and verbs that need none: the output is flushed and
//! the database closed, whatever the outcome.
//!
//! It knows no verb.

use crate::failure::Result;
use crate::interrupt;
use crate::output::{Output, message};
use crate::session::{Opening, Session, Start};
use clap::Args;
use std::path::{Path, PathBuf};

/// The database of a verb, and its other arguments.
#[derive(Args)]
pub struct On<A: Args> {
    /// The directory of the database.
    pub db: PathBuf,
    #[command(flatten)]
    pub arguments: A,
}

/// No arguments.
#[derive(Args)]
pub struct Nothing {}

/// Flushes the output. A failure of the verb takes precedence: a reader that went away must not
/// hide damage.
///
/// # Errors
/// The failure, or that of the output.
pub fn flushed(outcome: Result<()>, output: &mut Output) -> Result<()> {
    let flushed = output.flush();
    outcome.and(flushed)
}

/// Runs `verb`, which opens no session.
///
/// # Errors
/// As the verb; errors of stdout.
pub fn closed(start: Start, verb: impl FnOnce(&mut Output) -> Result<()>) -> Result<()> {
    let mut output = start.output;
    let outcome = verb(&mut output);
    flushed(outcome, &mut output)
}

/// Runs `verb`, which Ctrl-C ends with a report.
///
/// # Errors
/// As the verb; a failure to watch for Ctrl-C.
pub fn watched(verb: impl FnOnce() -> Result<()>) -> Result<()> {
    let _watched = interrupt::watch()?;
    verb()
}

/// Runs `verb`, which only reads, on an existing database.
///
/// # Errors
/// As [`open`].
pub fn reading<A: Args>(
    on: &On<A>,
    start: Start,
    verb: impl FnOnce(&mut Session, &A) -> Result<()>,
) -> Result<()> {
    open(&on.db, Opening::Read, start, |session| verb(session, &on.arguments))
}

/// Runs `verb` on an existing database.
///
/// # Errors
/// As [`open`].
pub fn existing<A: Args>(
    on: &On<A>,
    start: Start,
    verb: impl FnOnce(&mut Session, &A) -> Result<()>,
) -> Result<()> {
    writing(on, Opening::Write, start, verb)
}

/// Runs `verb` on a database opened by `opening`.
///
/// # Errors
/// As [`open`].
pub fn writing<A: Args>(
    on: &On<A>,
    opening: Opening,
    start: Start,
    verb: impl FnOnce(&mut Session, &A) -> Result<()>,
) -> Result<()> {
    open(&on.db, opening, start, |session| verb(session, &on.arguments))
}

/// Opens the database, runs `verb`, and closes the database whatever the outcome.
///
/// # Errors
/// As the verb; errors of the database.
pub fn open(
    db: &Path,
    opening: Opening,
    start: Start,
    verb: impl FnOnce(&mut Session) -> Result<()>,
) -> Result<()> {
    let mut session = Session::open(db, opening, start)?;
    let outcome = verb(&mut session);
    // A verb that fails leaves no database that it made for nothing.
    let made = outcome.as_ref().err().and_then(|_| session.made_nothing().cloned());
    let style = session.output.settings().style;
    let closed = session.close();
    if let Some(options) = made.filter(|_| closed.is_ok())
        && options.destroy(db).is_ok()
    {
        message(style, &format!("removed the database {} again", db.display()));
    }
    outcome.and(closed)
}
