//! The names of archives, of unfinished ones, and of the lock beside them.
//!
//! It looks at no file.

use crate::file_name::stand_in;
use std::{fmt, path::PathBuf};

/// The extension of an archive, with its dot.
pub const ARCHIVE_EXTENSION: &str = ".siltar";

/// What follows the name of an archive that is being written.
const PARTIAL: &str = ".partial";

/// The name of a file in a directory of archives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArchiveFileName {
    /// `NAME.siltar`: an archive. It holds `NAME`.
    Archive(String),
    /// `NAME.siltar.partial`: an archive that is being written.
    Partial(String),
    /// `siltar.lock`: held while archives are made or removed.
    Lock,
}

impl ArchiveFileName {
    /// The file of this name; `None` if the name is not one of ours.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name == "siltar.lock" {
            return Some(Self::Lock);
        }
        let (name, of) = match name.strip_suffix(PARTIAL) {
            Some(name) => (name, Self::Partial as fn(String) -> Self),
            None => (name, Self::Archive as fn(String) -> Self),
        };
        let name = name.strip_suffix(ARCHIVE_EXTENSION)?;
        (!name.is_empty()).then(|| of(name.to_owned()))
    }

    /// The name as a path: relative to the directory.
    #[must_use]
    pub fn to_path(&self) -> PathBuf {
        self.to_string().into()
    }
}

/// Longest name of an archive whose unfinished file is called after it, in bytes. File systems take
/// names of 255 bytes, and some of 143.
const NAME_BYTES_MAX: usize = 100;

/// The name of the unfinished file of the archive `name`, which is without its extension: a long
/// one is replaced by its checksum.
#[must_use]
pub fn unfinished(name: &str) -> ArchiveFileName {
    let stand_in = stand_in(name.as_bytes(), NAME_BYTES_MAX);
    ArchiveFileName::Partial(stand_in.unwrap_or_else(|| name.to_owned()))
}

impl fmt::Display for ArchiveFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive(name) => write!(f, "{name}{ARCHIVE_EXTENSION}"),
            Self::Partial(name) => write!(f, "{name}{ARCHIVE_EXTENSION}{PARTIAL}"),
            Self::Lock => f.write_str("siltar.lock"),
        }
    }
}
