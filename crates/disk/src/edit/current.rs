//! What the file `CURRENT` says: which manifest is in force.
//!
//! It does not open the manifest. The file is one line that people can read:
//!
//! ```text
//! siltdb manifest 000001 crc32c 1c2d3e4f\n
//! ```
//!
//! The number is that of the manifest's file name. The checksum, 8 hexadecimal digits in lower
//! case, is CRC-32C of the line before ` crc32c`.

use crate::file_name::FileName;
use siltdb_base::{
    checksum::crc32c,
    error::{Error, Result},
    id::FileNumber,
};

/// Longest content of `CURRENT`, in bytes: what is longer need not be read.
pub const CURRENT_BYTES_MAX: usize = 64;

/// The content of `CURRENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentFile {
    /// The manifest in force.
    pub manifest: FileNumber,
}

impl CurrentFile {
    /// The file's content.
    #[must_use]
    pub fn encode(&self) -> String {
        let line = format!("siltdb manifest {:06}", self.manifest.0);
        let checksum = crc32c(line.as_bytes());
        format!("{line} crc32c {checksum:08x}\n")
    }

    /// Reads a content.
    ///
    /// # Errors
    /// Corruption, if it is none, to the byte.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let number = bytes
            .strip_prefix(b"siltdb manifest ")
            .and_then(|rest| rest.split(|&byte| byte == b' ').next())
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| FileName::parse(&format!("{digits}.manifest")));
        if let Some(FileName::Manifest(manifest)) = number {
            let current = Self { manifest };
            if current.encode().as_bytes() == bytes {
                return Ok(current);
            }
        }
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(CURRENT_BYTES_MAX)]);
        Err(Error::corruption("CURRENT names no manifest")
            .with_mismatch("siltdb manifest NUMBER crc32c CHECKSUM", format_args!("{shown:?}")))
    }
}

#[cfg(test)]
mod tests;
