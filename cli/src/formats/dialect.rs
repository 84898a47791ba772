//! The dialect of a csv or tsv file: its delimiter, and its quotation mark if it has one.
//!
//! It splits nothing; see `fields`. It detects nothing; see `detection`.

#[cfg(test)]
mod tests;

/// The delimiter and the quotes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The character between fields.
    pub delimiter: Delimiter,
    /// The character around a field that holds any text.
    pub quote: Quote,
}

impl Dialect {
    /// The usual csv.
    pub const CSV: Self = Self { delimiter: Delimiter::COMMA, quote: Quote::DOUBLE };
    /// The usual tsv, in which a quotation mark is text.
    pub const TSV: Self = Self { delimiter: Delimiter::TAB, quote: Quote::NONE };
}

/// The character that separates the fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(u8);

impl Delimiter {
    /// The delimiter of csv.
    pub const COMMA: Self = Self(b',');
    /// The delimiter of tsv.
    pub const TAB: Self = Self(b'\t');
    /// Delimiters that are detected, in order of preference.
    pub const DETECTED: [Self; 4] = [Self::COMMA, Self::TAB, Self(b';'), Self(b'|')];

    /// Parses a delimiter: an ASCII character, `tab` or `\t`.
    ///
    /// # Errors
    /// A message that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"tab" | b"\\t" => Ok(Self::TAB),
            [b'"' | b'\n' | b'\r'] => {
                Err("a quotation mark or line end cannot separate fields".to_owned())
            }
            [byte] if byte.is_ascii() => Ok(Self(*byte)),
            _ => Err("expected one ASCII character, or `tab`".to_owned()),
        }
    }

    /// Returns the delimiter as a byte.
    pub fn byte(self) -> u8 {
        self.0
    }

    /// Returns the name of the delimiter in messages.
    pub fn name(self) -> String {
        if self == Self::TAB { "tab".to_owned() } else { format!("`{}`", char::from(self.0)) }
    }

    /// Returns the delimiter as a word of a command line, as a shell reads it.
    pub fn word(self) -> String {
        match char::from(self.0) {
            '\t' => "tab".to_owned(),
            character if character.is_ascii_alphanumeric() || character == ',' => character.into(),
            '\'' => "\"'\"".to_owned(),
            character => format!("'{character}'"),
        }
    }
}

/// The character around a field that holds delimiters, line ends or quotes, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote(Option<u8>);

impl Quote {
    /// The quotation mark of csv.
    pub const DOUBLE: Self = Self(Some(b'"'));
    /// No quotes: each character is text.
    pub const NONE: Self = Self(None);

    /// Parses a quotation mark: an ASCII character, or `none`.
    ///
    /// # Errors
    /// A message that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"none" => Ok(Self::NONE),
            [b'\n' | b'\r'] => Err("a line end is no quotation mark".to_owned()),
            [byte] if byte.is_ascii() => Ok(Self(Some(*byte))),
            _ => Err("expected one ASCII character, or `none`".to_owned()),
        }
    }

    /// Returns the quotation mark as a byte, if there is one.
    pub fn byte(self) -> Option<u8> {
        self.0
    }
}
