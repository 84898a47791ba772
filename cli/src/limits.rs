//! What a database takes at most, for verbs that look before they make one.
//!
//! The library has the last word, and says the same in the same words.

use siltdb::{Error, ErrorKind, KEY_BYTES_MAX, Result, VALUE_BYTES_MAX};
use std::fmt::Display;

#[cfg(test)]
mod tests;

/// Passes if a database takes `key` with `value`.
///
/// # Errors
/// `InvalidArgument`, if one of them is too long.
pub fn check_entry(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(too_long("key is too long", KEY_BYTES_MAX, key.len()));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(too_long("value is too long", VALUE_BYTES_MAX, value.len()));
    }
    Ok(())
}

/// Something that `message` names has more than `bytes_max` bytes.
pub fn too_long(message: &'static str, bytes_max: usize, found: impl Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
        .with_mismatch(format_args!("at most {bytes_max}"), found)
}
