//! The rule by which a record gets its key.
//!
//! It reads no records.

use crate::text::shortened;

#[cfg(test)]
mod tests;

/// Digits of a line number in a key. Leading zeros make such keys sort by number.
const LINE_DIGITS: usize = 10;

/// The part of a record that is its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyRule {
    /// The first column or field; in *lines*, the text before the tab.
    #[default]
    First,
    /// The column or field of this name, or several, joined by a separator.
    Named(KeyFields),
    /// The number of the line on which the record begins.
    Line,
}

impl From<KeyFields> for KeyRule {
    fn from(fields: KeyFields) -> Self {
        Self::Named(fields)
    }
}

/// The columns or fields that make a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFields {
    names: Vec<String>,
    separator: Vec<u8>,
}

impl KeyFields {
    /// Parses a list of field names between commas; `\,` is a comma in a name and `\\` a backslash.
    /// In the key, `separator` stands between the values.
    ///
    /// # Errors
    /// A message about the fault.
    pub fn parse(list: &str, separator: Vec<u8>) -> Result<Self, String> {
        let (mut names, mut name) = (Vec::new(), String::new());
        let mut characters = list.chars().peekable();
        while let Some(character) = characters.next() {
            match (character, characters.peek()) {
                ('\\', Some(',' | '\\')) => name.extend(characters.next()),
                (',', _) => names.push(std::mem::take(&mut name)),
                _ => name.push(character),
            }
        }
        names.push(name);
        for (index, name) in names.iter().enumerate() {
            if names[..index].contains(name) {
                return Err(format!("--key names `{}` twice", shortened(name)));
            }
        }
        if names.len() > 1 && separator.is_empty() {
            return Err("an empty --key-separator could give different records one key".to_owned());
        }
        Ok(Self { names, separator })
    }

    /// The one field `name`.
    pub fn one(name: &str) -> Self {
        Self { names: vec![name.to_owned()], separator: Vec::new() }
    }

    /// Returns the names of the fields, in the order of the key.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Appends `part`, the value of the field `index`, to `key`.
    ///
    /// # Errors
    /// The reason, if the part contains the separator, because different records could then get one
    /// key.
    pub fn push(&self, key: &mut Vec<u8>, index: usize, part: &[u8]) -> Result<(), String> {
        if self.names.len() == 1 {
            key.extend_from_slice(part);
            return Ok(());
        }
        if part.windows(self.separator.len()).any(|window| window == self.separator) {
            let name = shortened(&self.names[index]);
            let separator = String::from_utf8_lossy(&self.separator).into_owned();
            return Err(format!(
                "`{name}` holds `{}`, which separates the parts of the key; give another \
                 --key-separator",
                shortened(&separator)
            ));
        }
        if index > 0 {
            key.extend_from_slice(&self.separator);
        }
        key.extend_from_slice(part);
        Ok(())
    }
}

/// Returns the key for a line number.
pub fn of_line(line: u64) -> Vec<u8> {
    format!("{line:0LINE_DIGITS$}").into_bytes()
}
