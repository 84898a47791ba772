//! Keys and values as JSON.
//!
//! It does not read JSON; see `formats::object`.

use crate::text::Form;
use serde_json::{Value, json};

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
