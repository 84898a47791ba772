//! What an archive says of itself.

use siltdb_base::error::Result;
use siltdb_disk::archive::{directory::ArchivedFamily, reader::ArchiveFile};
use siltdb_tree::{
    merge_operator::{AbsentOperator, MergeOperator},
    options::TreeOptions,
};
use std::{path::PathBuf, sync::Arc};

/// The facts about an archive in its directory.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveInfo {
    /// Where the file lies.
    pub path: PathBuf,
    /// A random number, by which two archives are told apart.
    pub id: u64,
    /// It holds every commit up to this sequence number of its database, and none after it.
    pub sequence: u64,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// The directory of the database, as it was opened.
    pub source: String,
    /// The length of the file.
    pub bytes: u64,
    /// The families, by name.
    pub families: Vec<ArchiveFamilyInfo>,
}

impl ArchiveInfo {
    /// The number of entries of all families.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.families.iter().map(|family| family.entries).sum()
    }

    /// What the directory of `archive` says.
    #[must_use]
    pub fn of(archive: &ArchiveFile) -> Self {
        let directory = archive.directory();
        Self {
            path: archive.path().to_owned(),
            id: archive.id(),
            sequence: directory.sequence.0,
            created_ms: directory.created_ms,
            source: directory.source.clone(),
            bytes: archive.bytes(),
            families: directory.families.iter().map(ArchiveFamilyInfo::of).collect(),
        }
    }
}

/// The facts about a family of an archive.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveFamilyInfo {
    /// Its name.
    pub name: String,
    /// The number of its entries, also of those that have expired since.
    pub entries: u64,
    /// Keys and values before compression, in bytes.
    pub bytes: u64,
    /// When the first entry expires, in ms since 1970.
    pub expiry_min_ms: Option<u64>,
    /// The name of the merge operator that folded its values.
    pub merge_operator: Option<String>,
    /// The name of its key order; `None` for the order of bytes, and if this version cannot read
    /// its options.
    pub key_order: Option<Arc<str>>,
}

impl ArchiveFamilyInfo {
    fn of(family: &ArchivedFamily) -> Self {
        Self {
            name: family.name.clone(),
            entries: family.entries(),
            bytes: family.logical_bytes(),
            expiry_min_ms: family.expiry_min_ms(),
            merge_operator: family.merge_operator.clone(),
            key_order: without_operator(&family.options).ok().and_then(|options| options.key_order),
        }
    }
}

/// The options of a family in an archive, but for its merge operator.
///
/// # Errors
/// As [`TreeOptions::decode`].
pub fn without_operator(encoded: &[u8]) -> Result<TreeOptions> {
    let absent = |name: &str| -> Option<Arc<dyn MergeOperator>> {
        Some(Arc::new(AbsentOperator::new(name)))
    };
    let options = TreeOptions::decode(encoded, &absent)?;
    Ok(TreeOptions { merge_operator: None, ..options })
}
