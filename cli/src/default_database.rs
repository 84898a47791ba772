//! The database that verbs work on if the command line names none: that of `SILT_DB`.
//!
//! It runs no verb. It looks at no file but to tell a database from a key.

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

#[cfg(test)]
mod tests;

/// The variable of the environment.
pub const VARIABLE: &str = "SILT_DB";

/// The name of the argument for the database, and of no other.
const ARGUMENT: &str = "db";

/// Verbs that take a database from the command line alone: they remove one for good, or change
/// whose its tables are.
const EXPLICIT: [&str; 2] = ["destroy", "adopt"];

/// Returns `words` with the database `db` behind their verb; `None` if the verb takes none from the
/// environment.
pub fn with(mut command: Command, words: &[OsString], db: &OsStr) -> Option<Vec<OsString>> {
    // Verbs then know the options that all have.
    command.build();
    let (verb, place) = verb_of(&command, words)?;
    let first = verb.get_positionals().next()?;
    if first.get_id() != ARGUMENT || EXPLICIT.contains(&verb.get_name()) {
        return None;
    }
    let mut completed = words.to_vec();
    completed.insert(place, db.to_owned());
    Some(completed)
}

/// Returns the deepest verb along `words`, and the place behind it.
fn verb_of<'a>(mut command: &'a Command, words: &[OsString]) -> Option<(&'a Command, usize)> {
    let mut found = None;
    let mut words = words.iter().enumerate().skip(1);
    while let Some((index, word)) = words.next() {
        let word = word.to_str()?;
        if let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) {
            let option = command.get_arguments().find(|option| option.get_long() == Some(name));
            if option.is_some_and(|option| option.get_action().takes_values()) {
                words.next();
            }
        } else if let Some(verb) = command.find_subcommand(word) {
            command = verb;
            found = Some((verb, index + 1));
        } else {
            break;
        }
    }
    found
}

/// Chooses between the words as they were given, and those with the database of the environment.
///
/// 1. Given words that make no sense get the database, if they make sense with it.
/// 2. Of words that make sense in both ways, the first is the database if it is a directory: `get A
///    B` looks two keys up, unless there is a directory `A`.
pub fn choose(
    given: Result<ArgMatches, Error>,
    completed: impl FnOnce() -> Result<ArgMatches, Error>,
) -> Result<ArgMatches, Error> {
    match (given, completed()) {
        (Ok(given), Ok(completed)) => match database_of(&given) {
            Some(db) if !db.is_dir() => Ok(completed),
            _ => Ok(given),
        },
        (Ok(given), Err(_)) => Ok(given),
        (Err(_), Ok(completed)) => Ok(completed),
        // That of what is missing beside the database.
        (Err(given), Err(completed)) => match given.kind() {
            ErrorKind::MissingRequiredArgument => Err(completed),
            _ => Err(given),
        },
    }
}

/// Returns the database that the words name.
fn database_of(mut matches: &ArgMatches) -> Option<&PathBuf> {
    while let Some((_, verb)) = matches.subcommand() {
        matches = verb;
    }
    matches.try_get_one::<PathBuf>(ARGUMENT).ok().flatten()
}
