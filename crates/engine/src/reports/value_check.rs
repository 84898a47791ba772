//! What a check or a scrub knows of separated values: how many it has verified, in how many blob
//! files, and which are lost.
//!
//! It reads no table and no memtable: the check shows it their pointers.

use siltdb_base::{error::Error, id::FileNumber, key::BlobPointer, slice::Slice};
use siltdb_disk::table::LostEntries;
use siltdb_tree::read::visible::resolve::BlobSource;
use std::collections::BTreeSet;

/// Blob files that values were looked for in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobFilesSeen {
    all: BTreeSet<FileNumber>,
    damaged: BTreeSet<FileNumber>,
}

impl BlobFilesSeen {
    /// The number of files.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// The number of those in which a value is lost.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged.len() as u64
    }

    /// Adds the files of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.all.extend(&other.all);
        self.damaged.extend(&other.damaged);
    }
}

/// The values of one table or memtable.
#[derive(Debug, Default)]
pub struct ValueCheck {
    /// Values that were read and verified.
    pub verified: u64,
    /// Entries whose values are lost.
    pub damaged: u64,
    /// Their keys, in order; entries that follow each other and miss one file are one loss.
    pub lost: Vec<LostEntries>,
    /// The files.
    pub files: BlobFilesSeen,
    /// The file that the last entry shown misses.
    missed: Option<FileNumber>,
}

impl ValueCheck {
    /// Reads the value that an entry of `key` points to. To be called for the entries of a source
    /// in order.
    pub fn entry(&mut self, key: &[u8], pointer: &BlobPointer, blobs: Option<&dyn BlobSource>) {
        self.files.all.insert(pointer.file);
        let read = match blobs {
            Some(blobs) => blobs.read(pointer).map(drop),
            None => Err(Error::corruption("a separated value without blob files")),
        };
        match read {
            Ok(()) => {
                self.verified += 1;
                self.missed = None;
            }
            Err(error) => self.lose(key, pointer.file, error),
        }
    }

    /// Notes an entry that is whole in its table.
    pub fn pass(&mut self) {
        self.missed = None;
    }

    fn lose(&mut self, key: &[u8], file: FileNumber, error: Error) {
        self.damaged += 1;
        self.files.damaged.insert(file);
        let key = Slice::copy_from(key);
        match self.lost.last_mut() {
            Some(lost) if self.missed == Some(file) => {
                lost.last = Some(key);
                lost.entries_max = lost.entries_max.map(|entries| entries + 1);
            }
            _ => {
                let (first, last) = (Some(key.clone()), Some(key));
                self.lost.push(LostEntries { first, last, entries_max: Some(1), error });
            }
        }
        self.missed = Some(file);
    }
}
