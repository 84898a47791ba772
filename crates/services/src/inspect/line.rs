//! The lines of an inspection report: each has named fields.
//!
//! The caller chooses how they are shown, as text or otherwise; [`Line`] has a default.

use siltdb_base::{
    error::{Error, Result},
    limits::KEY_BYTES_MAX,
};
use std::{fmt, path::Path};

/// The level of detail of a report.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The head of each file, and where it ends.
    Summary,
    /// In addition each record of a log, each edit of a manifest, each block of a table.
    #[default]
    Records,
    /// In addition each operation, each change, each entry.
    Operations,
}

/// One line of a report. The first field, `item`, names its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The fields in the order in which they are shown.
    pub fields: Vec<Field>,
}

/// The name of a field, its value, and the text of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: &'static str,
    text: String,
    value: Value,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// A text without another form: words, and numbers with a notation of their own.
    Text,
    Number(u64),
    Bytes(Vec<u8>),
    /// The greatest possible key.
    GreatestKey,
}

/// The text of the greatest possible key. Bytes are quoted, this is not.
const GREATEST_KEY: &str = "greatest-key";

impl Field {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The value as text; bytes as [`quoted`] shows them.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value, if it is a number.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self.value {
            Value::Number(number) => Some(number),
            Value::Text | Value::Bytes(_) | Value::GreatestKey => None,
        }
    }

    /// The value, if it is bytes, such as a key; `None` for the greatest possible key.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.value {
            Value::Bytes(bytes) => Some(bytes),
            Value::Text | Value::Number(_) | Value::GreatestKey => None,
        }
    }

    /// Whether the value is the greatest possible key: 64 KiB of 0xff. The text is a word then.
    /// The deletion of a range without an end is stored as one up to this key, and one of the key.
    #[must_use]
    pub fn is_greatest_key(&self) -> bool {
        self.value == Value::GreatestKey
    }
}

/// Receives the lines of a report. An error that it returns ends the inspection.
pub type OnLine<'a> = &'a mut dyn FnMut(Line) -> Result<()>;

impl Line {
    /// A line about an `item`.
    #[must_use]
    pub fn new(item: &'static str) -> Self {
        Self { fields: Vec::new() }.with("item", item)
    }

    /// Adds a field of text.
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

    /// Adds a key as [`with_bytes`](Self::with_bytes) does; of the greatest possible one a word.
    #[must_use]
    pub fn with_key(self, name: &'static str, key: &[u8]) -> Self {
        if key.len() == KEY_BYTES_MAX && key.iter().all(|byte| *byte == u8::MAX) {
            return self.with_field(name, GREATEST_KEY.to_owned(), Value::GreatestKey);
        }
        self.with_bytes(name, key)
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

    /// The text of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|field| field.name == name).map(Field::text)
    }
}

/// Writes `name=value`, the fields separated by two spaces.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Field { name, text, .. }) in self.fields.iter().enumerate() {
            let separator = if index == 0 { "" } else { "  " };
            write!(f, "{separator}{name}={text}")?;
        }
        Ok(())
    }
}

/// `bytes` between quotation marks, in a reversible form. Printable ASCII is shown as it is, `"`
/// and `\` after a `\`, any other byte as `\xNN`.
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

/// Adds file and offset to an error that has none.
#[cold]
pub(super) fn locate(error: Error, path: &Path, offset: u64) -> Error {
    error.or_file(path).or_offset(offset)
}

#[cfg(test)]
mod tests;
