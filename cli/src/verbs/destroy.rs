//! The verb destroy: removes a database after a question.
//!
//! It does not open the database.

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::exists;
use crate::text::counted;
use clap::Args;
use serde_json::json;
use siltdb::Options;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

/// Text at the end of its `--help`.
pub const HELP: &str = "\
Removes the files of the database, and its directory if no other file is in it; and its tables in \
the cold directory, unless that belongs to another one. Asks first, and names the cold directory, \
unless --yes is given. Only a directory with a valid CURRENT is a database. A database that is \
open in a process is refused.

Example:
  silt destroy demo.db
  silt destroy demo.db --yes";

/// Arguments of `destroy`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory of the database.
    db: PathBuf,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Removes the database, and its directory if no other file lies in it.
///
/// # Errors
/// [`Failure::Missing`] if there is none; [`Failure::Usage`] without consent; errors of the
/// database.
pub fn run(output: &mut Output, options: Options, arguments: &Arguments) -> Result<()> {
    let path = &arguments.db;
    if !exists(path)? {
        return Err(Failure::no_database(path));
    }
    let options = options.lock_wait(output.settings().wait);
    // The question comes only after the check that this is a database.
    let families = options.list_families(path)?;
    let outside = options.outside(path)?;
    let mut what = format!("{} with {}", path.display(), counted(families.len() as u64, "family"));
    if let Some(cold) = &outside {
        what.push_str(&format!(", and its tables in the cold directory {}", cold.display()));
    }
    if !arguments.yes && !agrees(&what)? {
        return Err(Failure::Usage("nothing was removed".to_owned()));
    }
    options.destroy(path)?;
    let cold = outside.map(|cold| cold.display().to_string());
    let text = cold.as_ref().map_or(String::new(), |cold| format!("removed tables in {cold}, too"));
    let mut object = json!({ "destroyed": path.display().to_string() });
    if let Some(cold) = cold {
        object["cold_directory"] = json!(cold);
    }
    output.result(&text, &object)
}

/// Asks on the terminal, and returns whether the answer is yes.
fn agrees(what: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        let reason = "destroy asks first, but stdin is not a terminal; --yes skips the question";
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
