//! The names of the files of a database, and nothing else about them.
//!
//! A name is either a fixed word or a number and an extension, so it can hold no path separator.
//! Numbers have at least six digits, padded with zeros, and one spelling each: a name that parses
//! prints as it was. What does not parse is not ours and is left alone.

use siltdb_base::{checksum::crc32c, id::FileNumber, limits::FILE_NUMBER_MAX};
use std::{fmt, path::PathBuf};

/// Digits of a number in a name, at least.
pub(crate) const DIGITS_MIN: usize = 6;
/// Digits of the largest `u64`.
const DIGITS_MAX: usize = 20;

/// The name of a file in the directory of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// `000012.table`: one or more tables.
    Table(FileNumber),
    /// `000003.log`: a slot for log segments. The number is that of the slot: the segment in it
    /// changes when the file is recycled and is named by the file's first bytes.
    Segment(u64),
    /// `000001.manifest`: the edits.
    Manifest(FileNumber),
    /// `CURRENT`: which manifest is in force.
    Current,
    /// `LOCK`: held by the one opener.
    Lock,
    /// `000007.blob`: separated values.
    Blob(FileNumber),
    /// `lost`: the directory of what openings took out of the database and did not remove. Its
    /// files have names of tables and log segments.
    Lost,
    /// `000009.tmp`: something unfinished, worthless after a crash.
    Temporary(FileNumber),
}

/// The file that marks the directory of a new database until its files are whole and its name is
/// durable. It is empty; the first opening for writing removes it with the other temporary files.
pub const MARK: FileName = FileName::Temporary(FileNumber(0));

impl FileName {
    /// The file of this name; `None` if the name is not one of ours.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "CURRENT" => return Some(Self::Current),
            "LOCK" => return Some(Self::Lock),
            "lost" => return Some(Self::Lost),
            _ => {}
        }
        let (digits, extension) = name.split_once('.')?;
        let number = parse_number(digits)?;
        Some(match extension {
            "table" => Self::Table(FileNumber(number)),
            "log" => Self::Segment(number),
            "manifest" => Self::Manifest(FileNumber(number)),
            "blob" => Self::Blob(FileNumber(number)),
            "tmp" => Self::Temporary(FileNumber(number)),
            _ => return None,
        })
    }

    /// The name as a path: relative to the directory of the database.
    #[must_use]
    pub fn to_path(self) -> PathBuf {
        self.to_string().into()
    }
}

/// What stands for a name of more than `bytes_max` bytes where a suffix is added to it; `None` for
/// a shorter name.
#[must_use]
pub fn stand_in(name: &[u8], bytes_max: usize) -> Option<String> {
    (name.len() > bytes_max).then(|| format!("silt-{:08x}-{}", crc32c(name), name.len()))
}

/// The number that these digits write; `None` if it has another spelling or is too large.
pub(crate) fn parse_number(digits: &str) -> Option<u64> {
    let padded = digits.len() > DIGITS_MIN && digits.starts_with('0');
    if !(DIGITS_MIN..=DIGITS_MAX).contains(&digits.len())
        || padded
        || !digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    digits.parse().ok().filter(|&number| number <= FILE_NUMBER_MAX)
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, extension) = match self {
            Self::Current => return f.write_str("CURRENT"),
            Self::Lock => return f.write_str("LOCK"),
            Self::Lost => return f.write_str("lost"),
            Self::Table(file) => (file.0, "table"),
            Self::Segment(slot) => (*slot, "log"),
            Self::Manifest(file) => (file.0, "manifest"),
            Self::Blob(file) => (file.0, "blob"),
            Self::Temporary(file) => (file.0, "tmp"),
        };
        write!(f, "{number:0DIGITS_MIN$}.{extension}")
    }
}

#[cfg(test)]
mod tests;
