//! The failures of verbs, and their exit codes.
//!
//! It prints nothing: `main` reports a failure, once.

use crate::hint::told;
use clap::error::{ContextKind, ContextValue};
use siltdb::{Error, ErrorKind};
use std::{ffi::OsString, fmt, io, path::Path};

/// The result of a verb.
pub type Result<T> = std::result::Result<T, Failure>;

/// Exit code of a verb that Ctrl-C ended, by the convention of shells.
pub const INTERRUPTED: u8 = 130;

/// A failure of a verb.
#[derive(Debug)]
pub enum Failure {
    /// The command line or the input data is invalid.
    Usage(String),
    /// A key, family, database or other object is missing.
    Missing(String),
    /// A condition of a script does not hold; nothing was written.
    Condition(String),
    /// A merge met conflicts, which are on stdout; nothing was merged.
    Conflicts(String),
    /// The check found damage; the report is already on stdout.
    CheckFailed,
    /// Backups are damaged; the report is already on stdout.
    Damaged(String),
    /// Some data could not be read. The rest is on stdout or written.
    Lost(String),
    /// A file or stream given to the verb cannot be read or written.
    File {
        /// The operation: `read`, `write`, `open`, …
        action: &'static str,
        /// The name of the file, or of the stream.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Stdout cannot be written.
    Stdout(io::Error),
    /// The reader of stdout went away while this line of a script ran. Later lines did not run.
    ScriptStopped {
        /// Line number, from 1.
        line: u64,
    },
    /// Ctrl-C was pressed.
    Interrupted,
    /// A verb stopped in the middle, because of another failure.
    Stopped {
        /// The other failure.
        reason: Box<Failure>,
        /// What was done, and how to continue.
        note: String,
    },
    /// A family needs a merge operator, and the tool has none.
    MergeOperator(Error),
    /// An error of the database.
    Database(Error),
}

impl Failure {
    /// The failure of `words`, which `command` rejects. Its text is that of clap without `error: `.
    /// It lists the verbs if the verb is unknown, and says how to pass a word that begins with a
    /// dash.
    pub fn command_line(error: &clap::Error, command: &clap::Command, words: &[String]) -> Self {
        let message = error.render().to_string();
        let message = message.strip_prefix("error: ").unwrap_or(&message).trim_end();
        let mut message = message.to_owned();
        match error.kind() {
            clap::error::ErrorKind::InvalidSubcommand => {
                let verbs = verbs_of(command, words).join(", ");
                message.push_str(&format!("\n\nVerbs: {verbs}"));
            }
            clap::error::ErrorKind::UnknownArgument => {
                if let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) {
                    message = with_dash_tip(&message, found, (command, words));
                }
            }
            _ => {}
        }
        Self::Usage(message)
    }

    /// The failure of `action` on the file `name`.
    pub fn file(action: &'static str, name: impl Into<String>, source: io::Error) -> Self {
        Self::File { action, name: name.into(), source }
    }

    /// The failure of a missing database at `path`, which the verb does not create.
    pub fn no_database(path: &Path) -> Self {
        Self::Missing(format!(
            "no database. path={}; `silt import`, `put`, `batch` and `shell --create` create one",
            path.display()
        ))
    }

    /// Returns whether the reader of stdout went away, which is no failure (`silt scan … | head`).
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Adds a note on what was done and how to continue.
    pub fn with_note(self, note: String) -> Self {
        Self::Stopped { reason: Box::new(self), note }
    }

    /// Returns the kind of failure as a word, for `--json`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Missing(_) => "not found",
            Self::Condition(_) => "condition",
            Self::Conflicts(_) => "conflict",
            Self::CheckFailed | Self::Damaged(_) => "check failed",
            Self::Lost(_) => "lost",
            Self::File { .. } | Self::Stdout(_) | Self::ScriptStopped { .. } => "io",
            Self::Interrupted => "interrupted",
            Self::Stopped { reason, .. } => reason.kind(),
            Self::MergeOperator(error) | Self::Database(error) => error.kind().as_str(),
        }
    }

    /// Returns the exit code; the table in `silt --help` is the contract.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Condition(_) => 6,
            Self::Conflicts(_) => 5,
            Self::CheckFailed | Self::Damaged(_) | Self::Lost(_) => 3,
            Self::Missing(_)
            | Self::File { .. }
            | Self::Stdout(_)
            | Self::ScriptStopped { .. }
            | Self::MergeOperator(_) => 1,
            Self::Interrupted => INTERRUPTED,
            Self::Stopped { reason, .. } => reason.exit_code(),
            Self::Database(error) => match error.kind() {
                ErrorKind::InvalidArgument => 2,
                ErrorKind::Corruption => 3,
                ErrorKind::Locked => 4,
                ErrorKind::Conflict => 5,
                _ => 1,
            },
        }
    }
}

/// Returns the verbs of the deepest command along `words`.
fn verbs_of<'a>(mut command: &'a clap::Command, words: &[String]) -> Vec<&'a str> {
    for word in words.iter().filter(|word| !word.starts_with('-')) {
        match command.find_subcommand(word) {
            Some(verb) if verb.has_subcommands() => command = verb,
            _ => break,
        }
    }
    command.get_subcommands().map(clap::Command::get_name).collect()
}

/// Returns the command that `words` run: the deepest along them.
fn verb_of<'a>(mut command: &'a clap::Command, words: &[String]) -> &'a clap::Command {
    for word in words {
        match command.find_subcommand(word) {
            Some(verb) => command = verb,
            None if command.has_subcommands() => {}
            None => break,
        }
    }
    command
}

/// Returns whether `verb` takes a key or a value by its place, where a dash may be meant.
fn takes_text(verb: &clap::Command) -> bool {
    let text = std::any::TypeId::of::<OsString>();
    verb.get_positionals().any(|argument| argument.get_value_parser().type_id() == text)
}

/// Returns whether `word` is an option of `verb` with a value, given without one.
fn needs_value(verb: &clap::Command, word: &str) -> bool {
    let Some(name) = word.strip_prefix("--") else { return false };
    let option = verb.get_arguments().find(|argument| argument.get_long() == Some(name));
    option.is_some_and(|option| option.get_action().takes_values())
}

/// Adds a tip to `message` about the word `found`, which is no option. The tip of clap does not
/// work, because clap takes one letter of `-key` for an option. It also ignores that an option
/// before the word needs a value, and that the verb may take no text.
fn with_dash_tip(
    message: &str,
    found: &str,
    (command, words): (&clap::Command, &[String]),
) -> String {
    let is_found = |word: &&String| word.starts_with(found);
    let Some(index) = words.iter().position(|word| is_found(&word)) else {
        return message.to_owned();
    };
    let word = &words[index];
    let option = index.checked_sub(1).map(|before| &words[before]);
    let mut command = command.clone();
    // Without this, verbs do not know the options that all have.
    command.build();
    let verb = verb_of(&command, words);
    let message = message.replacen(&format!("'{found}' found"), &format!("'{word}' found"), 1);
    let old = format!("to pass '{found}' as a value, use '-- {found}'");
    let tip = match option.filter(|option| needs_value(verb, option)) {
        Some(option) => format!("to pass '{word}' as a value, use '{option}={word}'"),
        None if takes_text(verb) => {
            format!("keys and values that begin with a dash come last, after '--': '-- {word}'")
        }
        None => return message.replace(&format!("  tip: {old}\n\n"), ""),
    };
    message.replace(&old, &tip)
}

/// Returns whether an error reports damage without a hint.
fn is_without_advice(error: &Error) -> bool {
    error.kind() == ErrorKind::Corruption && error.hint().is_none()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => write!(f, "{message}"),
            Self::Missing(message) => write!(f, "not found: {message}"),
            Self::Condition(message) => write!(f, "condition failed: {message}"),
            Self::Conflicts(message) => write!(f, "conflict: {message}"),
            Self::CheckFailed => write!(
                f,
                "check failed: the database is damaged; `silt recover OLD NEW` writes what \
                 verifies into a new one"
            ),
            Self::Damaged(message) | Self::Lost(message) => write!(f, "{message}"),
            Self::File { action, name, source } => write!(f, "cannot {action} {name}: {source}"),
            Self::Stdout(source) => write!(f, "cannot write to stdout: {source}"),
            Self::ScriptStopped { line } => {
                write!(f, "stdout was closed while line {line} ran; later lines did not")
            }
            Self::Interrupted => write!(f, "interrupted"),
            Self::Stopped { reason, note } => write!(f, "{reason}; {note}"),
            Self::MergeOperator(error) => write!(
                f,
                "{}: {}; `silt check`, `silt inspect` and `silt recover` do without, anything else \
                 takes the program that has it",
                error.kind().as_str(),
                error.message()
            ),
            Self::Database(error) if is_without_advice(error) => write!(
                f,
                "{}; `silt check` names what is damaged, `silt recover OLD NEW` saves the rest",
                told(error)
            ),
            Self::Database(error) => f.write_str(&told(error)),
        }
    }
}
