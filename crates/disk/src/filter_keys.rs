//! What of its keys the filter of a table holds: whole keys, their prefixes, or both.
//!
//! It hashes nothing and knows no table. An extractor is stored by value, so that a table says by
//! itself what its filter holds, whatever the options of its family are now.
//!
//! ```text
//! prefix extractor: | 0 u8 | bytes varint |                      the first bytes
//!                   | 1 u8 | separator u8 | count varint |       up to a separator
//! filter keys:      | 1 u8 | prefix extractor |                  prefixes beside whole keys
//!                   | 2 u8 | prefix extractor |                  prefixes alone
//! ```

use siltdb_base::{
    codec::{ByteReader, put_varint},
    error::{Error, ErrorKind, Result},
    limits::KEY_BYTES_MAX,
};
use std::{fmt, ops::RangeInclusive, str::FromStr};

/// Lengths of a fixed prefix that are permitted, in bytes.
pub const PREFIX_BYTES: RangeInclusive<u32> = 1..=KEY_BYTES_MAX as u32;

/// Separators that a prefix may be counted by.
pub const PREFIX_SEPARATORS: RangeInclusive<u32> = 1..=255;

/// Which part of a key is its prefix.
///
/// All keys that begin with a prefix have this prefix. A key without one is shorter than
/// the prefix, or has too few separators.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrefixExtractor {
    /// The first bytes of the key, this many, at most 65,536.
    Fixed(u32),
    /// The bytes up to a separator and with it.
    Separator {
        /// The byte that separates.
        separator: u8,
        /// The separator that ends the prefix: 1 is the first of the key. At most 255.
        count: u32,
    },
}

impl PrefixExtractor {
    /// The prefix of `key`, if it has one.
    #[must_use]
    pub fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match *self {
            Self::Fixed(bytes) => key.get(..bytes as usize),
            Self::Separator { separator, count } => {
                let mut places = key.iter().enumerate().filter(|(_, byte)| **byte == separator);
                let (last, _) = places.nth(count.checked_sub(1)? as usize)?;
                key.get(..=last)
            }
        }
    }

    /// Checks that the extractor is in its range.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self) -> Result<()> {
        let (number, range) = match *self {
            Self::Fixed(bytes) => (bytes, PREFIX_BYTES),
            Self::Separator { count, .. } => (count, PREFIX_SEPARATORS),
        };
        if range.contains(&number) {
            return Ok(());
        }
        Err(Error::invalid("prefix_extractor out of range")
            .with_mismatch(format_args!("{}..={}", range.start(), range.end()), number))
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Fixed(bytes) => {
                out.push(0);
                put_varint(out, u64::from(bytes));
            }
            Self::Separator { separator, count } => {
                out.extend_from_slice(&[1, separator]);
                put_varint(out, u64::from(count));
            }
        }
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if the bytes are none; `Unsupported`, for a kind of a later version.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        let extractor = match reader.u8()? {
            0 => Self::Fixed(reader.varint_u32()?),
            1 => Self::Separator { separator: reader.u8()?, count: reader.varint_u32()? },
            other => {
                return Err(Error::new(ErrorKind::Unsupported, "unknown prefix extractor")
                    .with_mismatch("0 or 1", other));
            }
        };
        extractor.check().map_err(|error| {
            Error::corruption("bad prefix extractor of a table or a family").with_source(error)
        })?;
        Ok(extractor)
    }
}

/// As an option is written: `fixed:BYTES`, `separator:BYTE` or `separator:BYTE:COUNT`. A byte is a
/// visible ASCII character, or two hexadecimal digits such as `0x00`.
impl fmt::Display for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Separator { separator, count } = *self else {
            let Self::Fixed(bytes) = *self else { return Ok(()) };
            return write!(f, "fixed:{bytes}");
        };
        match separator.is_ascii_graphic() {
            true => write!(f, "separator:{}", char::from(separator))?,
            false => write!(f, "separator:0x{separator:02x}")?,
        }
        if count == 1 { Ok(()) } else { write!(f, ":{count}") }
    }
}

/// Reads what `Display` writes.
impl FromStr for PrefixExtractor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid("bad prefix extractor")
                .with_mismatch("fixed:BYTES or separator:BYTE:COUNT", format_args!("{text:?}"))
        };
        let extractor = match text.split_once(':').ok_or_else(bad)? {
            ("fixed", bytes) => Self::Fixed(bytes.parse().map_err(|_| bad())?),
            ("separator", rest) => {
                let (separator, rest) = separator(rest).ok_or_else(bad)?;
                let count = match rest.strip_prefix(':') {
                    Some(count) => count.parse().map_err(|_| bad())?,
                    None if rest.is_empty() => 1,
                    None => return Err(bad()),
                };
                Self::Separator { separator, count }
            }
            _ => return Err(bad()),
        };
        extractor.check().map(|()| extractor)
    }
}

/// The separator at the beginning of `text`, and what follows it.
fn separator(text: &str) -> Option<(u8, &str)> {
    let digits = text.strip_prefix("0x").and_then(|digits| digits.split_at_checked(2));
    if let Some((digits, rest)) = digits
        && let Ok(byte) = u8::from_str_radix(digits, 16)
    {
        return Some((byte, rest));
    }
    let (byte, rest) = text.split_at_checked(1)?;
    byte.as_bytes().first().map(|byte| (*byte, rest))
}

/// What of its keys the filter of a table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FilterKeys {
    /// Whole keys.
    #[default]
    Whole,
    /// Whole keys, and the prefixes of those that have one.
    WholeAndPrefixes(PrefixExtractor),
    /// Prefixes; of keys without a prefix the whole key.
    Prefixes(PrefixExtractor),
}

impl FilterKeys {
    /// The extractor of its prefixes.
    #[must_use]
    pub fn extractor(&self) -> Option<PrefixExtractor> {
        match *self {
            Self::Whole => None,
            Self::WholeAndPrefixes(extractor) | Self::Prefixes(extractor) => Some(extractor),
        }
    }

    /// What a filter without whole keys holds of `key`; `None`, if filters hold it whole.
    #[inline]
    #[must_use]
    pub fn instead_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match self {
            Self::Whole | Self::WholeAndPrefixes(_) => None,
            Self::Prefixes(extractor) => extractor.prefix(key),
        }
    }

    /// The prefix that the filter holds if it holds any key from `lower` up to and without `upper`.
    /// `None`, if keys of the range may differ in their prefix or have none.
    #[inline]
    #[must_use]
    pub fn prefix_of_range<'k>(&self, lower: &'k [u8], upper: Option<&[u8]>) -> Option<&'k [u8]> {
        let prefix = self.extractor()?.prefix(lower)?;
        // The first key that follows all keys of this prefix: its last byte that can grow, grown.
        let grows = prefix.iter().rposition(|&byte| byte < u8::MAX);
        let is_within = match (upper, grows) {
            (None, None) => true,
            (None, Some(_)) => false,
            (Some(upper), None) => upper.starts_with(prefix),
            (Some(upper), Some(last)) => {
                let is_end = || upper.split_last() == Some((&(prefix[last] + 1), &prefix[..last]));
                upper.starts_with(prefix) || is_end()
            }
        };
        is_within.then_some(prefix)
    }

    /// Appends the encoding to `out`: nothing for whole keys.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (number, extractor) = match self {
            Self::Whole => return,
            Self::WholeAndPrefixes(extractor) => (1, extractor),
            Self::Prefixes(extractor) => (2, extractor),
        };
        out.push(number);
        extractor.encode(out);
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if the bytes are none; `Unsupported`, for what a later version wrote.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        match reader.u8()? {
            1 => PrefixExtractor::decode(reader).map(Self::WholeAndPrefixes),
            2 => PrefixExtractor::decode(reader).map(Self::Prefixes),
            other => Err(Error::new(ErrorKind::Unsupported, "unknown keys of a filter")
                .with_mismatch("1 or 2", other)),
        }
    }
}

#[cfg(test)]
mod tests;
