//! Whole numbers in arguments: what was expected, with its range, where a text is none.
//!
//! It does not know the arguments.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// Parses a number of `range`, such as `17` in 1 to 100.
///
/// # Errors
/// A message with the range.
pub fn number_in<T>(text: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| expected("a whole number", &range))
}

/// Parses a number from 0 on.
///
/// # Errors
/// As [`number_in`].
pub fn any_number(text: &str) -> Result<u64, String> {
    number_in(text, 0..=u64::MAX)
}

/// Parses a number from 1 on.
///
/// # Errors
/// As [`number_in`].
pub fn positive_number(text: &str) -> Result<u64, String> {
    number_in(text, 1..=u64::MAX)
}

/// Parses a number that may be negative.
///
/// # Errors
/// As [`number_in`].
pub fn signed_number(text: &str) -> Result<i64, String> {
    number_in(text, i64::MIN..=i64::MAX)
}

/// Says that a number of `range` was expected, called `what`.
pub fn expected<T: Display>(what: &str, range: &RangeInclusive<T>) -> String {
    format!("expected {what} from {} to {}", range.start(), range.end())
}
