//! A JSON object whose fields keep their order and whose values keep their text.
//!
//! It interprets only the text of a field, so numbers keep their digits.

use super::key::{KeyRule, of_line};
use crate::text::shortened;
use serde_core::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// A JSON object, borrowed from its text.
pub struct Object<'a> {
    fields: Vec<(String, &'a RawValue)>,
}

/// Text that is not a JSON object.
#[derive(Debug, PartialEq, Eq)]
pub struct BadObject {
    /// Position of the fault, as a byte of the text, from 1.
    pub column: u64,
    /// The fault.
    pub reason: String,
}

impl<'a> Object<'a> {
    /// Parses `text`, which must be exactly one JSON object.
    ///
    /// # Errors
    /// [`BadObject`] with the place, if it is not.
    pub fn parse(text: &'a str) -> Result<Self, BadObject> {
        serde_json::from_str(text).map_err(|error| {
            let message = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            let reason = message.strip_suffix(&place).unwrap_or(&message).to_owned();
            let line_start: usize =
                text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
            BadObject { column: (line_start + error.column().max(1)) as u64, reason }
        })
    }

    /// Returns the fields in their order.
    pub fn fields(&self) -> &[(String, &'a RawValue)] {
        &self.fields
    }

    /// Returns the text of the value of the field `name`.
    pub fn field(&self, name: &str) -> Option<&'a RawValue> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| *value)
    }

    /// Appends the object's key by `rule` to `key`; `line` is the object's line number.
    ///
    /// # Errors
    /// The reason, if the object has no key.
    pub fn push_key(&self, rule: &KeyRule, line: u64, key: &mut Vec<u8>) -> Result<(), String> {
        match rule {
            KeyRule::Line => key.extend(of_line(line)),
            KeyRule::First => key.extend_from_slice(self.key(None)?.as_bytes()),
            KeyRule::Named(fields) => {
                for (index, name) in fields.names().iter().enumerate() {
                    fields.push(key, index, self.key(Some(name))?.as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// Returns the object's key: the text of the field `name`, or of the first field.
    ///
    /// # Errors
    /// The reason, if the field is missing, or is neither a string nor a number.
    pub fn key(&self, name: Option<&str>) -> Result<Cow<'a, str>, String> {
        let (name, value) = match name {
            Some(name) => match self.field(name) {
                Some(value) => (name, value),
                None => {
                    return Err(format!("no field `{}` to take the key from", shortened(name)));
                }
            },
            None => match self.fields.first() {
                Some((name, value)) => (name.as_str(), *value),
                None => return Err("no field to take the key from".to_owned()),
            },
        };
        let kind = match value.get().as_bytes().first() {
            Some(b'"') => {
                let text: Result<String, _> = serde_json::from_str(value.get());
                return text
                    .map(Cow::Owned)
                    .map_err(|_| format!("field `{}` is not valid Unicode", shortened(name)));
            }
            Some(b'-' | b'0'..=b'9') => return Ok(Cow::Borrowed(value.get())),
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'n') => "null",
            _ => "a boolean",
        };
        Err(format!("field `{}` is {kind}; a key is a string or a number", shortened(name)))
    }
}

/// Formats a value for a cell: strings without quotes, null as nothing, other values as JSON.
///
/// # Errors
/// For a string with half of a surrogate pair, which no cell can hold.
pub fn cell(value: &RawValue) -> serde_json::Result<Cow<'_, str>> {
    match value.get() {
        "null" => Ok(Cow::Borrowed("")),
        text if text.starts_with('"') => serde_json::from_str(text).map(Cow::Owned),
        text => Ok(Cow::Borrowed(text)),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields).map(|fields| Self { fields })
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}
