//! What an inspection reports: lines of named fields.
//!
//! How they are shown, as text or otherwise, is the caller's choice; [`Line`] has a default.

use siltdb_base::error::{Error, Result};
use std::{fmt, path::Path};

/// How much of a file is reported.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Of each file its head, and where it ends.
    Summary,
    /// And each record of a log, each edit of a manifest, each block of a table.
    #[default]
    Records,
    /// And each operation, each change, each entry.
    Operations,
}

/// One line of a report. The first field, `item`, says what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Names and values, in the order in which they are shown.
    pub fields: Vec<(&'static str, String)>,
}

/// Takes the lines of a report; what it fails with ends the inspection.
pub type OnLine<'a> = &'a mut dyn FnMut(Line) -> Result<()>;

impl Line {
    /// A line about an `item`.
    #[must_use]
    pub fn new(item: &'static str) -> Self {
        Self { fields: vec![("item", item.to_owned())] }
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.fields.push((name, value.to_string()));
        self
    }

    /// Adds a field of bytes: quoted, and escaped as [`quoted`] says.
    #[must_use]
    pub fn with_bytes(self, name: &'static str, bytes: &[u8]) -> Self {
        self.with(name, quoted(bytes))
    }

    /// Adds the name of a file, without its directory.
    #[must_use]
    pub fn with_file(self, path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        self.with("file", name.to_string_lossy())
    }

    /// The value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value.as_str())
    }
}

/// `name=value`, the fields separated by two spaces.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let separator = if index == 0 { "" } else { "  " };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

/// `bytes` between quotation marks, so that they can be told again from it: printable ASCII as it
/// is, `"` and `\` after a `\`, anything else as `\xNN`.
#[must_use]
pub fn quoted(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// Says in an error where it happened, unless it is said.
#[cold]
pub(super) fn locate(error: Error, path: &Path, offset: u64) -> Error {
    error.or_file(path).or_offset(offset)
}

#[cfg(test)]
mod tests;
