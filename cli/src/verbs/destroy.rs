//! The verb destroy: it removes a database, after asking.
//!
//! It does not open the database.

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::exists;
use clap::Args;
use serde_json::json;
use siltdb::Options;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

/// What `destroy` is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory of the database.
    db: PathBuf,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Removes the database, and its directory if nothing else lies there.
///
/// # Errors
/// [`Failure::Missing`] if there is none; [`Failure::Usage`] if it was not agreed to; those of the
/// database.
pub fn run(output: &mut Output, options: Options, arguments: &Arguments) -> Result<()> {
    let path = &arguments.db;
    if !exists(path)? {
        return Err(Failure::no_database(path));
    }
    let options = options.lock_wait(output.settings().wait);
    // What is not ours is refused before anything is asked.
    let families = options.list_families(path)?;
    if !arguments.yes && !agrees(&format!("{} with {} families", path.display(), families.len()))? {
        return Err(Failure::Usage("nothing was removed".to_owned()));
    }
    options.destroy(path)?;
    output.result("", &json!({ "destroyed": path.display().to_string() }))
}

/// Whether the answer on the terminal is yes.
fn agrees(what: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        let reason = "destroy asks first, and stdin is no terminal; --yes removes it unasked";
        return Err(Failure::Usage(reason.to_owned()));
    }
    let mut stderr = io::stderr();
    let asked = write!(stderr, "Remove {what} for good? [y/N] ").and_then(|()| stderr.flush());
    asked.map_err(|error| Failure::file("write", "stderr", error))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::file("read", "stdin", error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
