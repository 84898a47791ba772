//! The object by which *jsonl* and *json* hold any record: `{"key": …, "value": …}`, and a third
//! field `"expires_at"`, in ms since 1970, where the value expires.
//!
//! A text is a string, other bytes are `{"hex": "…"}`. A value that is a JSON object on one line
//! stands there as it is, unless it looks like such bytes. So each record has one wrapper, and a
//! wrapper stands for one record. An object of a program that looks like a wrapper is written in
//! one itself.

use super::key::KeyRule;
use super::object::Object;
use super::record::{Record, Written};
use crate::json::of_bytes;
use crate::text::Form;
use serde_json::value::RawValue;
use std::io::{self, Write};

/// The fields of a wrapper, in their order; the last one may be missing.
const FIELDS: [&str; 3] = ["key", "value", "expires_at"];

/// Returns the record for which `object` stands, if it is a wrapper and no record of its own by
/// `rule`: one that has the fields of a key that `rule` names.
pub fn unwrapped(object: &Object<'_>, rule: &KeyRule) -> Option<Record> {
    let is_own = match rule {
        KeyRule::First => false,
        KeyRule::Line => true,
        KeyRule::Named(fields) => fields.names().iter().all(|name| object.field(name).is_some()),
    };
    if is_own || !has_fields(object) {
        return None;
    }
    let key = bytes_of(object.field("key")?)?;
    let value = object.field("value")?;
    let value = match value.get().as_bytes().first()? {
        b'{' => bytes_of(value).unwrap_or_else(|| value.get().as_bytes().to_vec()),
        _ => bytes_of(value)?,
    };
    let expires_at = object.field("expires_at").map(|time| time.get().parse().ok());
    match expires_at {
        Some(None) => None,
        expires_at => Some(Record { key, value, expires_at: expires_at.flatten() }),
    }
}

fn has_fields(object: &Object<'_>) -> bool {
    let names = object.fields().iter().map(|(name, _)| name.as_str());
    let count = object.fields().len();
    (2..=FIELDS.len()).contains(&count) && names.eq(FIELDS[..count].iter().copied())
}

/// The bytes of a string, or of `{"hex": "…"}`.
fn bytes_of(value: &RawValue) -> Option<Vec<u8>> {
    let text = value.get();
    if text.starts_with('"') {
        return serde_json::from_str(text).ok().map(String::into_bytes);
    }
    let object = Object::parse(text).ok()?;
    let [(name, digits)] = object.fields() else { return None };
    let digits: String = serde_json::from_str(digits.get()).ok()?;
    if name != "hex" {
        return None;
    }
    Form::Hex.parse(digits.as_bytes()).ok()
}

/// Returns whether an import by `rule` would take `object` for a wrapper.
pub fn is_wrapper(object: &Object<'_>, rule: &KeyRule) -> bool {
    unwrapped(object, rule).is_some()
}

/// Writes the wrapper of a record.
///
/// # Errors
/// Errors of `out`.
pub fn write(out: &mut dyn Write, record: Written<'_>) -> io::Result<()> {
    let Written { key, value, expires_at } = record;
    write!(out, "{{\"key\":{},\"value\":", of_bytes(key, Form::Plain))?;
    match is_embedded(value) {
        true => out.write_all(value)?,
        false => write!(out, "{}", of_bytes(value, Form::Plain))?,
    }
    if let Some(time) = expires_at {
        write!(out, ",\"expires_at\":{time}")?;
    }
    out.write_all(b"}")
}

/// Returns whether a value stands in its wrapper as the JSON object that it is.
fn is_embedded(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    is_one_line(value)
        && Object::parse(text).is_ok()
        && serde_json::from_str::<&RawValue>(text).is_ok_and(|value| bytes_of(value).is_none())
}

/// Returns whether a JSON text is on one line, without white space around it.
pub fn is_one_line(text: &[u8]) -> bool {
    text == text.trim_ascii() && !text.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

#[cfg(test)]
mod tests;
