//! Keys and values as JSON.
//!
//! It does not read JSON; see `formats::object`.

use crate::text::{Form, is_printable};
use serde_json::{Value, json};
use std::fmt::Write;

/// Converts `bytes` to a JSON value.
///
/// In the plain form that is a string if the bytes are UTF-8, else `{"hex": "…"}`, so that readers
/// can tell them apart. The other forms give a string in that form.
pub fn of_bytes(bytes: &[u8], form: Form) -> Value {
    let rendered = |form: Form| {
        let mut text = String::new();
        form.render(bytes, &mut text);
        text
    };
    match (form, std::str::from_utf8(bytes)) {
        (Form::Plain, Ok(text)) => Value::from(text),
        (Form::Plain, Err(_)) => json!({ "hex": rendered(Form::Hex) }),
        (form, _) => Value::from(rendered(form)),
    }
}

/// Writes `value` on one line that is safe for a terminal: JSON itself escapes only the control
/// characters below U+0020.
pub fn line(value: &Value) -> String {
    let text = value.to_string();
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        // Only in a string: all else is ASCII without control characters.
        if is_printable(character) {
            line.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(line, "\\u{unit:04x}").expect("writing to a String does not fail");
        }
    }
    line
}

#[cfg(test)]
mod tests;
