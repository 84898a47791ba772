//! Limits of the database, for verbs that check input before they create a database.
//!
//! The library enforces them, with the same messages.

use siltdb::{Error, ErrorKind, KEY_BYTES_MAX, Result, VALUE_BYTES_MAX};
use std::fmt::Display;

#[cfg(test)]
mod tests;

/// Checks that a database accepts `key` with `value`.
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

/// The error for input of more than `bytes_max` bytes, with `message`.
pub fn too_long(message: &'static str, bytes_max: usize, found: impl Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
        .with_mismatch(format_args!("at most {bytes_max}"), found)
}
