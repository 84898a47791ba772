//! A broken promise of the engine, described in words.
//!
//! An error of the engine is a violation only where no error is permitted.

use std::fmt;

/// The description of a broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

/// The result of a check.
pub type Checked<T> = Result<T, Violation>;

impl Violation {
    /// A violation described by `message`.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The same violation, with the operation `what` before it.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Turns an error into a violation where none is permitted.
///
/// # Errors
/// If `result` is one.
pub fn must<T>(result: siltdb::Result<T>, what: &str) -> Checked<T> {
    result.map_err(|error| Violation::new(format!("{what} failed: {error}")))
}

/// Bytes for a message: printable and short.
#[must_use]
pub fn show(bytes: &[u8]) -> String {
    const SHOWN: usize = 24;
    let head = bytes[..bytes.len().min(SHOWN)].escape_ascii();
    if bytes.len() > SHOWN {
        format!("{head}… ({} bytes)", bytes.len())
    } else {
        head.to_string()
    }
}

/// A value for a message.
#[must_use]
pub fn show_option(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "nothing".to_owned(), |bytes| format!("\"{}\"", show(bytes)))
}
