//! What a database consists of: its families, their files, and the manifest that says so.

pub mod chunked;
pub mod family;
pub mod id_allocator;
pub mod manifest;

use crate::catalog::{family::Families, id_allocator::IdAllocator, manifest::Manifest};
use siltdb_base::{id::FileNumber, sync::lock};
use siltdb_tree::{files::open_files::OpenFiles, merge_operator::MergeOperator};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// The families and files of a database.
///
/// Lock order: `changing_io`, then `manifest_io`, then `obsolete`.
#[derive(Debug)]
pub struct Catalog {
    /// The families.
    pub families: Families,
    /// The table files.
    pub files: Arc<OpenFiles>,
    /// The merge operators it was opened with. That of a family that is created goes with it.
    pub operators: Vec<Arc<dyn MergeOperator>>,
    /// IdAllocator to give out.
    pub ids: IdAllocator,
    /// The manifest; held while an edit is made durable and applied.
    pub manifest_io: Mutex<Manifest>,
    /// Held while families are created, dropped and renamed.
    pub changing_io: Mutex<()>,
    /// Files that no version refers to any more.
    obsolete: Mutex<BTreeSet<FileNumber>>,
}

impl Catalog {
    /// The catalog as an opening found it.
    #[must_use]
    pub fn new(
        families: Families,
        files: Arc<OpenFiles>,
        operators: Vec<Arc<dyn MergeOperator>>,
        (ids, manifest): (IdAllocator, Manifest),
    ) -> Self {
        let (manifest_io, changing_io) = (Mutex::new(manifest), Mutex::default());
        let obsolete = Mutex::default();
        Self { families, files, operators, ids, manifest_io, changing_io, obsolete }
    }

    /// Notes that no version refers to these files any more.
    pub fn forget(&self, files: impl IntoIterator<Item = FileNumber>) {
        lock(&self.obsolete).extend(files);
    }

    /// Takes the noted files out that nothing uses any more.
    #[must_use]
    pub fn take_unused(&self) -> Vec<FileNumber> {
        let mut obsolete = lock(&self.obsolete);
        let (used, unused) =
            std::mem::take(&mut *obsolete).into_iter().partition(|&n| self.files.is_in_use(n));
        *obsolete = used;
        unused.into_iter().collect()
    }
}
