//! Why a verb ended without success, and the exit code that says so.
//!
//! It does not print: `main` does, once.

use siltdb::{Error, ErrorKind};
use std::{fmt, io, path::Path};

/// The result of everything a verb does.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a verb ended without success.
#[derive(Debug)]
pub enum Failure {
    /// The command line, or data given to the verb, is not what it must be.
    Usage(String),
    /// What was asked for is not there.
    Missing(String),
    /// The check found damage; the report is already on stdout.
    CheckFailed,
    /// Some data could not be read and is not in the result, which is on stdout or written.
    Lost(String),
    /// A file or stream given to the verb cannot be read or written.
    File {
        /// What was attempted: `read`, `write`, `open`, …
        action: &'static str,
        /// The name of the file, or of the stream.
        name: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Stdout cannot be written.
    Stdout(io::Error),
    /// The reader of stdout went away while this line of a script ran: the rest of it did not.
    ScriptStopped {
        /// The line, from 1.
        line: u64,
    },
    /// A family needs a merge operator, and the tool has none.
    MergeOperator(Error),
    /// The database refused.
    Database(Error),
}

impl Failure {
    /// Words that are no command line: what clap says of them, which begins with `error: `.
    pub fn command_line(error: &clap::Error) -> Self {
        let message = error.render().to_string();
        let message = message.strip_prefix("error: ").unwrap_or(&message).trim_end();
        Self::Usage(message.to_owned())
    }

    /// A failure to do `action` with the file `name`.
    pub fn file(action: &'static str, name: impl Into<String>, source: io::Error) -> Self {
        Self::File { action, name: name.into(), source }
    }

    /// There is no database at `path`, and the verb does not create one.
    pub fn no_database(path: &Path) -> Self {
        Self::Missing(format!(
            "no database. path={}; `silt import`, `put`, `batch` and `shell` create one",
            path.display()
        ))
    }

    /// Whether the reader of stdout has gone away, which is no failure (`silt scan … | head`).
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The kind of failure as a word, as `--json` names it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Missing(_) => "not found",
            Self::CheckFailed => "check failed",
            Self::Lost(_) => "lost",
            Self::File { .. } | Self::Stdout(_) | Self::ScriptStopped { .. } => "io",
            Self::MergeOperator(error) | Self::Database(error) => error.kind().as_str(),
        }
    }

    /// The exit code; the table in `silt --help` is the contract.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::CheckFailed | Self::Lost(_) => 3,
            Self::Missing(_)
            | Self::File { .. }
            | Self::Stdout(_)
            | Self::ScriptStopped { .. }
            | Self::MergeOperator(_) => 1,
            Self::Database(error) => match error.kind() {
                ErrorKind::InvalidArgument => 2,
                ErrorKind::Corruption => 3,
                ErrorKind::Locked => 4,
                _ => 1,
            },
        }
    }
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
            Self::CheckFailed => write!(
                f,
                "check failed: the database is damaged; `silt recover OLD NEW` writes what \
                 verifies into a new one"
            ),
            Self::Lost(message) => write!(f, "{message}"),
            Self::File { action, name, source } => write!(f, "cannot {action} {name}: {source}"),
            Self::Stdout(source) => write!(f, "cannot write to stdout: {source}"),
            Self::ScriptStopped { line } => {
                write!(f, "stdout was closed while line {line} ran; the lines after it did not")
            }
            Self::MergeOperator(error) => write!(
                f,
                "{}: {}; `silt check`, `silt inspect` and `silt recover` do without, anything else \
                 takes the program that has it",
                error.kind().as_str(),
                error.message()
            ),
            Self::Database(error) => write!(f, "{error}"),
        }
    }
}
