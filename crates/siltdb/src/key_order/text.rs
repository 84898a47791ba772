//! Keys as text in their order.
//!
//! | field | text |
//! |---|---|
//! | integers, floats, `bool` | as Rust writes them |
//! | text and bytes | `"…"`, with `\"`, `\\` and `\xNN` for a byte |
//! | `option` | `none` or `some(…)` |
//! | `reverse` | that of the field |
//! | tuples | `(…,…)` |
//!
//! A NaN other than the usual one is `NaN:` and its bits in hexadecimal. Text that is a whole key,
//! also a reversed one, is not quoted.

use super::{Field, KeyOrder};
use crate::{
    key::{Key, KeyReader, invert, put_delimited},
    key_types::Caseless,
};
use siltdb_base::error::{Error, Result};
use std::fmt::Write;

/// The place of a field in a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Fields may follow.
    Inner,
    /// The key ends with it.
    Last,
}

impl KeyOrder {
    /// Returns the text of a key. Orders without a text of their own
    /// ([`has_text`](Self::has_text)) give their bytes in quotes.
    ///
    /// # Errors
    /// `Corruption`, if the bytes are not a key of this order.
    pub fn text_of(&self, key: &[u8]) -> Result<String> {
        let mut from = KeyReader::new(key);
        let mut text = String::new();
        let field = if self.has_text() { &self.field } else { &Field::Bytewise };
        let shown = if field.is_text() {
            field.read_bytes(&mut from, Place::Last).and_then(utf8).map(|word| text = word)
        } else {
            field.show(&mut from, Place::Last, &mut text)
        };
        shown
            .and_then(|()| from.finish())
            .map_err(|error| error.with_mismatch(&self.name, key.escape_ascii()))?;
        Ok(text)
    }

    /// Returns the key of a text that [`text_of`](Self::text_of) returns. Spaces may follow commas.
    ///
    /// # Errors
    /// `InvalidArgument`, if the text is not a key of this order.
    pub fn key_of(&self, text: &str) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        let field = if self.has_text() { &self.field } else { &Field::Bytewise };
        let parsed = if field.is_text() {
            field.put_bytes(text.as_bytes(), Place::Last, &mut key)
        } else {
            let mut rest = text;
            field.parse(&mut rest, Place::Last, &mut key).filter(|()| rest.is_empty())
        };
        parsed.ok_or_else(|| {
            Error::invalid("the text is not a key of the family's order")
                .with_mismatch(&self.name, format_args!("{text:?}"))
        })?;
        Ok(key)
    }
}

impl Field {
    /// Whether it is text, which needs no quotes as a whole key.
    fn is_text(&self) -> bool {
        match self {
            Self::Text | Self::Caseless => true,
            Self::Reverse(field) => field.is_text(),
            _ => false,
        }
    }

    /// Reads a field that is text or bytes.
    fn read_bytes(&self, from: &mut KeyReader<'_>, place: Place) -> Result<Vec<u8>> {
        match self {
            Self::Caseless => Caseless::decode(from).map(|text| text.0.into_bytes()),
            Self::Reverse(field) => from.reversed(|from| field.read_bytes(from, Place::Inner)),
            Self::Bytes(length) => (0..*length).map(|_| from.byte()).collect(),
            _ if place == Place::Last => Ok(from.rest()),
            _ => from.delimited(),
        }
    }

    /// Appends a field that is text or bytes; `None` if it cannot be `bytes`.
    fn put_bytes(&self, bytes: &[u8], place: Place, key: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Caseless => Caseless(str::from_utf8(bytes).ok()?.to_owned()).encode(key),
            Self::Reverse(field) => {
                let start = key.len();
                field.put_bytes(bytes, Place::Inner, key)?;
                invert(&mut key[start..]);
            }
            Self::Bytes(length) if *length != bytes.len() => return None,
            Self::Text if str::from_utf8(bytes).is_err() => return None,
            Self::Bytes(_) => key.extend_from_slice(bytes),
            _ if place == Place::Last => key.extend_from_slice(bytes),
            _ => put_delimited(key, bytes),
        }
        Some(())
    }

    fn show(&self, from: &mut KeyReader<'_>, place: Place, text: &mut String) -> Result<()> {
        match self {
            Self::Text | Self::Caseless => {
                quote(utf8(self.read_bytes(from, place)?)?.as_bytes(), text)
            }
            Self::Bytewise | Self::Bytes(_) => quote(&self.read_bytes(from, place)?, text),
            Self::Bool => push(text, bool::decode(from)?),
            Self::Unsigned(width) | Self::LittleEndian(width) => push(text, number(from, *width)?),
            Self::Signed(width) => {
                // Both are moved by half the range of the width, so that the sign bit is inverted.
                let moved = number(from, *width)?;
                push(text, moved.wrapping_sub(1 << (8 * width - 1)).cast_signed());
            }
            Self::Float32 => show_float(f32::decode(from)?, |float| float.to_bits().into(), text),
            Self::Float64 => show_float(f64::decode(from)?, f64::to_bits, text),
            Self::Optional(field) if bool::decode(from)? => {
                text.push_str("some(");
                field.show(from, place, text)?;
                text.push(')');
            }
            Self::Optional(_) => text.push_str("none"),
            Self::Reverse(field) => {
                return from.reversed(|from| field.show(from, Place::Inner, text));
            }
            Self::Tuple(fields) => {
                for (index, field) in fields.iter().enumerate() {
                    text.push(if index == 0 { '(' } else { ',' });
                    field.show(from, place.of(index, fields.len()), text)?;
                }
                text.push(')');
            }
            Self::Custom => return Err(Error::invalid("the encoding is that of a program")),
        }
        Ok(())
    }

    /// Parses a field at the beginning of `text`, and moves `text` behind it.
    fn parse(&self, text: &mut &str, place: Place, key: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Text | Self::Caseless | Self::Bytewise | Self::Bytes(_) => {
                return self.put_bytes(&unquote(text)?, place, key);
            }
            Self::Bool => word(text).parse::<bool>().ok()?.encode(key),
            Self::Unsigned(width) | Self::LittleEndian(width) => {
                put_number(word(text).parse().ok()?, *width, key)?;
            }
            Self::Signed(width) => {
                let half = 1_u128 << (8 * width - 1);
                let number = word(text).parse::<i128>().ok()?;
                let is_in_range =
                    number >> (8 * width - 1) == i128::from(number < 0).wrapping_neg();
                let number = is_in_range.then_some(number)?;
                put_number(mask(number.cast_unsigned().wrapping_add(half), *width), *width, key)?;
            }
            Self::Float32 => {
                let bits = |bits: u64| u32::try_from(bits).ok().map(f32::from_bits);
                parse_float(word(text), bits)?.encode(key);
            }
            Self::Float64 => {
                parse_float(word(text), |bits| Some(f64::from_bits(bits)))?.encode(key);
            }
            Self::Optional(field) => match take(text, "none") {
                Some(()) => false.encode(key),
                None => {
                    take(text, "some(")?;
                    true.encode(key);
                    field.parse(text, place, key)?;
                    take(text, ")")?;
                }
            },
            Self::Reverse(field) => {
                let start = key.len();
                field.parse(text, Place::Inner, key)?;
                invert(&mut key[start..]);
            }
            Self::Tuple(fields) => {
                for (index, field) in fields.iter().enumerate() {
                    take(text, if index == 0 { "(" } else { "," })?;
                    *text = text.trim_start_matches(' ');
                    field.parse(text, place.of(index, fields.len()), key)?;
                }
                take(text, ")")?;
            }
            Self::Custom => return None,
        }
        Some(())
    }
}

impl Place {
    /// The place of a field of a tuple in this place.
    fn of(self, index: usize, count: usize) -> Self {
        if index + 1 == count { self } else { Self::Inner }
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::corruption("a field of a key is not UTF-8"))
}

fn push(text: &mut String, shown: impl std::fmt::Display) {
    write!(text, "{shown}").expect("writing to a String does not fail");
}

/// Reads a big-endian number of `width` bytes.
fn number(from: &mut KeyReader<'_>, width: usize) -> Result<u128> {
    (0..width).try_fold(0, |number: u128, _| Ok(number << 8 | u128::from(from.byte()?)))
}

/// Appends a big-endian number of `width` bytes; `None` if it is greater than that.
fn put_number(number: u128, width: usize, key: &mut Vec<u8>) -> Option<()> {
    let bytes = number.to_be_bytes();
    let (above, within) = bytes.split_at(bytes.len() - width);
    key.extend_from_slice(within);
    above.iter().all(|byte| *byte == 0).then_some(())
}

/// The lowest `width` bytes of a number.
fn mask(number: u128, width: usize) -> u128 {
    number & (u128::MAX >> (128 - 8 * width))
}

fn show_float<F>(float: F, bits: impl Fn(F) -> u64, text: &mut String)
where
    F: Copy + Into<f64> + std::fmt::Debug + Usual,
{
    if Into::<f64>::into(float).is_nan() && bits(float) != bits(F::USUAL_NAN) {
        push(text, format_args!("NaN:{:x}", bits(float)));
    } else {
        push(text, format_args!("{float:?}"));
    }
}

/// A float type with a NaN that its text means.
trait Usual {
    const USUAL_NAN: Self;
}

impl Usual for f32 {
    const USUAL_NAN: Self = Self::NAN;
}

impl Usual for f64 {
    const USUAL_NAN: Self = Self::NAN;
}

fn parse_float<F>(word: &str, of_bits: impl Fn(u64) -> Option<F>) -> Option<F>
where
    F: std::str::FromStr + Copy + Into<f64> + Usual,
{
    match word.strip_prefix("NaN:") {
        Some(bits) => {
            let float = of_bits(u64::from_str_radix(bits, 16).ok()?)?;
            Into::<f64>::into(float).is_nan().then_some(float)
        }
        None if word == "NaN" => Some(F::USUAL_NAN),
        None => word.parse().ok().filter(|float: &F| fits(word, (*float).into())),
    }
}

/// Returns whether `word`, which was parsed as `float`, is no other number: a number out of the
/// range is not infinite or zero, and an integer is exact. Fractions are rounded.
fn fits(word: &str, float: f64) -> bool {
    let number = word.trim_start_matches(['+', '-']);
    if !number.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        // The words for infinity and NaN.
        return true;
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or(number);
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if float.is_infinite() || is_zero != (float == 0.0) {
        return false;
    }
    let is_integer = number.bytes().all(|byte| byte.is_ascii_digit());
    is_zero || !is_integer || number.trim_start_matches('0') == format!("{:.0}", float.abs())
}

/// Takes the text up to a comma, a parenthesis or the end.
fn word<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find([',', ')']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    *text = rest;
    word
}

/// Takes `expected` from the beginning of the text.
fn take(text: &mut &str, expected: &str) -> Option<()> {
    *text = text.strip_prefix(expected)?;
    Some(())
}

/// Appends bytes in quotes.
fn quote(bytes: &[u8], text: &mut String) {
    text.push('"');
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' | '\\' => text.extend(['\\', character]),
                _ if character.is_control() => {
                    let mut buffer = [0; 4];
                    let encoded = character.encode_utf8(&mut buffer);
                    encoded.bytes().for_each(|byte| push_hex(byte, text));
                }
                _ => text.push(character),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_hex(byte, text));
    }
    text.push('"');
}

fn push_hex(byte: u8, text: &mut String) {
    push(text, format_args!("\\x{byte:02x}"));
}

/// Takes bytes in quotes.
fn unquote(text: &mut &str) -> Option<Vec<u8>> {
    take(text, "\"")?;
    let mut bytes = Vec::new();
    let mut rest = text.bytes().enumerate();
    loop {
        match rest.next()? {
            (index, b'"') => {
                *text = &text[index + 1..];
                return Some(bytes);
            }
            (_, b'\\') => match rest.next()?.1 {
                b'x' => {
                    let mut digit = || char::from(rest.next()?.1).to_digit(16);
                    let (high, low) = (digit()?, digit()?);
                    bytes.push(u8::try_from(high * 16 + low).ok()?);
                }
                byte @ (b'"' | b'\\') => bytes.push(byte),
                _ => return None,
            },
            (_, byte) => bytes.push(byte),
        }
    }
}
