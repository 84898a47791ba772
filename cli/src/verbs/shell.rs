//! The verb shell: the other verbs on one open database, line by line.
//!
//! A line is words between white space; quotes, single or double, hold white space together and
//! mean nothing else; a line that begins with `#` is a remark. From a terminal there are history
//! and completion, and a failed verb is reported and forgotten; from a file or pipe the first
//! failure ends the shell. It opens nothing.

use super::{batch, export, families, import, point, scan, upkeep};
use crate::argument::SettingsArguments;
use crate::failure::{Failure, Result};
use crate::formats::input::read_line;
use crate::output::{message, report};
use crate::session::Session;
use clap::{Args, CommandFactory, Parser, Subcommand};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

#[cfg(test)]
mod tests;

/// Longest line of a script, in bytes; longer values come from files.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A line of the shell.
#[derive(Parser)]
#[command(name = "", no_binary_name = true, about = "Verbs:")]
#[command(override_usage = "VERB …", subcommand_help_heading = "Verbs")]
struct Line {
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs of the shell.
#[derive(Subcommand)]
enum Verb {
    /// Print the value of a key
    Get(point::GetArguments),
    /// Write a key and its value
    Put(point::PutArguments),
    /// Delete a key
    Delete(point::DeleteArguments),
    /// Print the entries of a range
    Scan(scan::ScanArguments),
    /// Print the number of entries of a range
    Count(scan::CountArguments),
    /// Apply the operations of a file, all or none
    Batch(batch::Arguments),
    /// Fill the database from a file
    Import(import::Arguments),
    /// Write entries to a file
    Export(export::Arguments),
    /// List, create, drop or rename families
    Families {
        #[command(subcommand)]
        verb: Option<FamiliesVerb>,
    },
    /// Work on a family from now on
    Use(UseArguments),
    /// Print what the database counts
    Stats(upkeep::StatsArguments),
    /// Verify everything
    Check,
    /// Merge all tables
    Compact,
    /// Write what is in memory to tables
    Flush,
    /// End the shell
    #[command(visible_alias = "exit")]
    Quit,
}

/// The verbs on families.
#[derive(Subcommand)]
enum FamiliesVerb {
    /// List the families
    List,
    /// Create a family
    Create(families::NameArguments),
    /// Drop a family with everything in it
    Drop(families::NameArguments),
    /// Give a family another name
    Rename(families::RenameArguments),
}

/// What `use` is told.
#[derive(Args)]
struct UseArguments {
    /// The name of the family.
    name: String,
}

/// Whether the shell goes on after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Line,
    End,
}

/// Reads and runs lines until their end.
///
/// # Errors
/// Those of a verb if the lines do not come from a terminal; those of stdin and stdout.
pub fn run(session: &mut Session) -> Result<()> {
    if io::stdin().is_terminal() { run_terminal(session) } else { run_script(session) }
}

fn run_script(session: &mut Session) -> Result<()> {
    let (mut bytes, mut line) = (Vec::new(), 0);
    loop {
        line += 1;
        // Stdin is not held between lines: a verb may read the rest of it (`batch -`).
        let more = read_line(io::stdin().lock(), LINE_BYTES_MAX, &mut bytes);
        let more = more.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Failure::Usage(format!("stdin: line {line}: {error}")),
            _ => Failure::file("read", "stdin", error),
        })?;
        if !more {
            return Ok(());
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            let column = error.valid_up_to() + 1;
            Failure::Usage(format!("stdin: line {line}, column {column}: not valid UTF-8"))
        })?;
        match run_line(session, text) {
            Ok(Next::Line) => {}
            Ok(Next::End) => return Ok(()),
            // Writes may be among the lines that are left: that they did not run is no success.
            Err(failure) if failure.is_closed_pipe() => {
                return Err(Failure::ScriptStopped { line });
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn run_terminal(session: &mut Session) -> Result<()> {
    let terminal = |error: ReadlineError| {
        Failure::file("read", "the terminal", io::Error::other(error.to_string()))
    };
    let mut editor: Editor<Completion, FileHistory> = Editor::new().map_err(terminal)?;
    editor.set_helper(Some(Completion::new()));
    let history = history_file();
    if let Some(file) = &history {
        // A first session has none yet.
        let _ = editor.load_history(file);
    }
    message(concat!("silt ", env!("CARGO_PKG_VERSION"), "; `help` lists the verbs"));
    loop {
        if let Some(completion) = editor.helper_mut() {
            completion.families = session.db().families();
        }
        let prompt = format!("{}> ", session.family_in_use());
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        };
        if !line.trim().is_empty() {
            // A history that cannot be kept is no reason to fail.
            let _ = editor.add_history_entry(&line);
        }
        let settings = session.output.settings();
        match run_line(session, &line) {
            Ok(Next::Line) => {}
            Ok(Next::End) => break,
            Err(failure) if failure.is_closed_pipe() => return Err(failure),
            Err(failure) => report(&failure, settings.style),
        }
    }
    if let Some(file) = &history {
        let _ = file.parent().map(std::fs::create_dir_all);
        let _ = editor.append_history(file);
    }
    Ok(())
}

/// Where the lines of earlier sessions are kept.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) if !state.is_empty() => PathBuf::from(state),
        _ => std::env::home_dir()?.join(".local/state"),
    };
    Some(state.join("silt/history"))
}

/// Runs one line; its settings hold for this line only.
fn run_line(session: &mut Session, line: &str) -> Result<Next> {
    // A remark is no words: its apostrophes are no quotes.
    if line.trim_start().starts_with('#') {
        return Ok(Next::Line);
    }
    let words = words(line)?;
    if words.is_empty() {
        return Ok(Next::Line);
    }
    let line = match Line::try_parse_from(&words) {
        Ok(line) => line,
        Err(error) if !error.use_stderr() => {
            session.output.raw(error.render().to_string().as_bytes())?;
            return session.output.flush().map(|()| Next::Line);
        }
        Err(error) => return Err(Failure::command_line(&error)),
    };
    let before = session.output.settings();
    session.output.set(line.settings.settings(before));
    let outcome = run_verb(session, line.verb);
    session.output.set(before);
    let flushed = session.output.flush();
    outcome.and_then(|next| flushed.map(|()| next))
}

fn run_verb(session: &mut Session, verb: Verb) -> Result<Next> {
    let settings = session.output.settings();
    match verb {
        Verb::Get(arguments) => point::get(session, &arguments),
        Verb::Put(arguments) => {
            let entry = arguments.entry(settings.form)?;
            point::put(session, &arguments, entry)
        }
        Verb::Delete(arguments) => point::delete(session, &arguments),
        Verb::Scan(arguments) => scan::scan(session, &arguments),
        Verb::Count(arguments) => scan::count(session, &arguments),
        Verb::Batch(arguments) => {
            let operations = arguments.operations(settings)?;
            batch::run(session, &arguments, operations)
        }
        Verb::Import(arguments) => import::run(session, arguments.job(settings)?),
        Verb::Export(arguments) => export::run(session, &arguments),
        Verb::Families { verb } => match verb {
            None | Some(FamiliesVerb::List) => families::list(session),
            Some(FamiliesVerb::Create(arguments)) => families::create(session, &arguments),
            Some(FamiliesVerb::Drop(arguments)) => families::drop(session, &arguments),
            Some(FamiliesVerb::Rename(arguments)) => families::rename(session, &arguments),
        },
        Verb::Use(arguments) => session
            .use_family(&arguments.name)
            .and_then(|()| session.output.result("", &json!({ "family": arguments.name }))),
        Verb::Stats(arguments) => upkeep::stats(session, &arguments),
        Verb::Check => upkeep::check(session),
        Verb::Compact => upkeep::compact(session),
        Verb::Flush => upkeep::flush(session),
        Verb::Quit => return Ok(Next::End),
    }?;
    Ok(Next::Line)
}

/// The words of `line`.
fn words(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    if let Some(quote) = quote {
        return Err(Failure::Usage(format!("a quote {quote} is not closed")));
    }
    words.extend(word);
    Ok(words)
}

/// Completes verbs, options and the names of families.
struct Completion {
    command: clap::Command,
    families: Vec<String>,
}

impl Completion {
    fn new() -> Self {
        let mut command = Line::command();
        command.build();
        Self { command, families: Vec::new() }
    }

    /// What the word that begins at the end of `before` can become, if it begins with `start`.
    fn candidates(&self, before: &str, start: &str) -> Vec<String> {
        let before: Vec<&str> = before.split_whitespace().collect();
        let mut all: Vec<String> = Vec::new();
        let verb = before.first().and_then(|verb| self.command.find_subcommand(verb));
        let names_family = matches!(
            before.as_slice(),
            [.., "--family"] | ["use"] | ["families", "drop" | "rename"]
        );
        if names_family {
            all.extend(self.families.iter().cloned());
        } else if start.starts_with('-') {
            let options = verb.into_iter().flat_map(clap::Command::get_arguments);
            all.extend(options.filter_map(|o| o.get_long()).map(|long| format!("--{long}")));
        } else {
            let parent = match before.as_slice() {
                [] => Some(&self.command),
                [_] => verb,
                _ => None,
            };
            let verbs = parent.into_iter().flat_map(clap::Command::get_subcommands);
            all.extend(verbs.map(|verb| verb.get_name().to_owned()));
        }
        all.retain(|candidate| candidate.starts_with(start));
        all.sort();
        all.dedup();
        all
    }
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let start = typed
            .rfind(char::is_whitespace)
            .map_or(0, |index| index + typed[index..].chars().next().map_or(0, char::len_utf8));
        let mut candidates = self.candidates(&typed[..start], &typed[start..]);
        if let [only] = candidates.as_mut_slice() {
            // The word is complete: the next one can be typed at once.
            only.push(' ');
        }
        Ok((start, candidates))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}
