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
    /// In the order in which they are shown.
    pub fields: Vec<Field>,
}

/// A name, what is shown of its value, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: &'static str,
    text: String,
    value: Value,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// What is shown, and no more: words, and numbers with a notation of their own.
    Text,
    Number(u64),
    Bytes(Vec<u8>),
}

impl Field {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its value as it is shown: bytes as [`quoted`] says.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The number that its value is, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self.value {
            Value::Number(number) => Some(number),
            Value::Text | Value::Bytes(_) => None,
        }
    }

    /// The bytes that its value is, if it is a key or the like.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.value {
            Value::Bytes(bytes) => Some(bytes),
            Value::Text | Value::Number(_) => None,
        }
    }
}

/// Takes the lines of a report; what it fails with ends the inspection.
pub type OnLine<'a> = &'a mut dyn FnMut(Line) -> Result<()>;

impl Line {
    /// A line about an `item`.
    #[must_use]
    pub fn new(item: &'static str) -> Self {
        Self { fields: Vec::new() }.with("item", item)
    }

    /// Adds a field of words, or of a number with a notation of its own.
    #[must_use]
    pub fn with(self, name: &'static str, value: impl fmt::Display) -> Self {
        self.with_field(name, value.to_string(), Value::Text)
    }

    /// Adds a field of a number.
    #[must_use]
    pub fn with_number(self, name: &'static str, number: u64) -> Self {
        self.with_field(name, number.to_string(), Value::Number(number))
    }

    /// Adds a field of bytes: quoted, and escaped as [`quoted`] says.
    #[must_use]
    pub fn with_bytes(self, name: &'static str, bytes: &[u8]) -> Self {
        self.with_field(name, quoted(bytes), Value::Bytes(bytes.to_vec()))
    }

    fn with_field(mut self, name: &'static str, text: String, value: Value) -> Self {
        self.fields.push(Field { name, text, value });
        self
    }

    /// Adds the name of a file, without its directory.
    #[must_use]
    pub fn with_file(self, path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        self.with("file", name.to_string_lossy())
    }

    /// The value of a field, as it is shown.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.name == name).map(Field::text)
    }
}

/// `name=value`, the fields separated by two spaces.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Field { name, text, .. }) in self.fields.iter().enumerate() {
            let separator = if index == 0 { "" } else { "  " };
            write!(f, "{separator}{name}={text}")?;
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
