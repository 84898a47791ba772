//! Which database this is, and which backups are a past of it.
//!
//! It compares nothing. All numbers are random:
//!
//! ```text
//! Identity  | id u128 le |
//! BackedUp  | directory u64 le | mark u64 le | after u64 le |
//! ```

use siltdb_base::{codec::ByteReader, error::Result, id::DatabaseId};

/// Marks of one directory of backups that a manifest keeps: the newest ones. The last alone is not
/// enough, because a list may be lost.
const MARKS_OF_A_DIRECTORY_MAX: usize = 16;

/// Marks that a manifest keeps in sum: 32 bytes each.
const MARKS_MAX: usize = 256;

/// The mark that a database and the list of a backup of it have in common. A database has it if and
/// only if it holds what the backup holds, or has come from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupMark {
    /// The random id of the directory of backups.
    pub directory: u64,
    /// The random id of the backup.
    pub mark: u64,
    /// That of the backup before. Marks between the two are those of backups that failed.
    pub after: u64,
}

impl BackupMark {
    /// Appends the encoding.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.directory.to_le_bytes());
        out.extend_from_slice(&self.mark.to_le_bytes());
        out.extend_from_slice(&self.after.to_le_bytes());
    }

    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if it ends early.
    pub(crate) fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        Ok(Self { directory: reader.u64()?, mark: reader.u64()?, after: reader.u64()? })
    }
}

/// The marks of a database, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupMarks {
    marks: Vec<BackupMark>,
}

impl BackupMarks {
    /// Adds a mark, and forgets those of backups that failed, and the oldest that are too many.
    pub fn add(&mut self, mark: BackupMark) {
        let same = |found: &&BackupMark| found.directory == mark.directory;
        let is_before = |found: &BackupMark| same(&found) && found.mark == mark.after;
        if let Some(before) = self.marks.iter().position(is_before) {
            let later = self.marks.split_off(before + 1);
            self.marks.extend(later.into_iter().filter(|found| !same(&found)));
        }
        self.marks.push(mark);
        if self.marks.iter().filter(same).count() > MARKS_OF_A_DIRECTORY_MAX {
            let oldest = self.marks.iter().position(|found| same(&found));
            oldest.map(|oldest| self.marks.remove(oldest));
        }
        if self.marks.len() > MARKS_MAX {
            self.marks.remove(0);
        }
    }

    /// The marks.
    pub fn iter(&self) -> impl Iterator<Item = &BackupMark> {
        self.marks.iter()
    }
}

pub(super) fn decode(reader: &mut ByteReader<'_>) -> Result<DatabaseId> {
    let (low, high) = (reader.u64()?, reader.u64()?);
    Ok(DatabaseId(u128::from(high) << 64 | u128::from(low)))
}

#[cfg(test)]
mod tests;
