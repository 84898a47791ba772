//! The files that an opening has found, compared with those that the manifest names.
//!
//! It changes no file. Both checks come before an opening for writing removes anything: a manifest
//! that lost its last edits names files that these edits have removed, and not those that took
//! their place.

use crate::{
    catalog::Catalog,
    catalog::log_state::LogState,
    catalog::manifest::RECOVER_HINT,
    open::{cold::ColdOwnership, lost_edits::check_unnamed_table},
};
use siltdb_base::{
    error::{Error, Result},
    fs::Fs,
    id::FileNumber,
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{edit::tier::Tier, file_name::FileName};
use siltdb_tree::files::open_files::OpenFiles;
use std::collections::BTreeSet;

/// The existing files, named by the manifest or not.
#[derive(Clone, Debug, Default)]
pub struct FileInventory {
    /// The slots of the log files.
    pub logs: Vec<u64>,
    /// Slots whose names are taken by entries that are not files.
    pub taken: Vec<u64>,
    /// The numbers of the table files.
    pub tables: Vec<FileNumber>,
    /// The numbers of the table files in the cold directory.
    pub cold: Vec<FileNumber>,
    /// Whose the cold directory is, if there is one.
    pub cold_ownership: Option<ColdOwnership>,
    /// The numbers of the blob files.
    pub blobs: Vec<FileNumber>,
}

impl FileInventory {
    /// The numbers of the table files in the cold directory, if they are those of this database.
    /// Those of another one may be from a later state.
    #[must_use]
    pub fn own_cold(&self) -> &[FileNumber] {
        match self.cold_ownership {
            Some(ColdOwnership::Own | ColdOwnership::Unclaimed) => &self.cold,
            Some(ColdOwnership::Foreign) | None => &[],
        }
    }

    /// Checks that no table is from a later state than the manifest. Reads the properties of tables
    /// that are not named.
    ///
    /// # Errors
    /// As [`check_unnamed_table`].
    pub fn check_unnamed(
        &self,
        files: &OpenFiles,
        cold: Option<&dyn Fs>,
        log: &LogState,
    ) -> Result<()> {
        let check = |fs: &dyn Fs, tables: &[FileNumber]| {
            let mut unnamed = tables.iter().filter(|table| !files.is_in_use(**table));
            unnamed.try_for_each(|table| {
                check_unnamed_table(fs, &FileName::Table(*table).to_path(), log)
            })
        };
        cold.map_or(Ok(()), |cold| check(cold, self.own_cold()))?;
        check(&**files.directory(), &self.tables)
    }

    /// Checks that all tables and blob files that the manifest names are there. Reads no file.
    ///
    /// # Errors
    /// `Corruption`, with the path of the first file that is missing.
    pub fn check_named(&self, catalog: &Catalog) -> Result<()> {
        if seeded_fault!("missing_files_not_noticed") {
            return Ok(());
        }
        let set = |numbers: &[FileNumber]| numbers.iter().copied().collect::<BTreeSet<_>>();
        let (hot, cold, blobs) = (set(&self.tables), set(&self.cold), set(&self.blobs));
        let files = &catalog.files;
        for version in catalog.families.load().versions() {
            let is_missing = |number: FileNumber, tier| match tier {
                Tier::Hot => !hot.contains(&number),
                Tier::Cold => !cold.contains(&number),
            };
            let mut references = version.tables().map(|(_, table)| table.reference());
            if let Some(table) = references.find(|table| is_missing(table.file, table.tier)) {
                let message = "a table that the manifest names is missing";
                return Err(Error::corruption(message)
                    .with_file(&files.path(table.file))
                    .with_hint(RECOVER_HINT));
            }
        }
        let manifest = lock(&catalog.manifest_io);
        match manifest.state.blob_files.keys().find(|number| !blobs.contains(number)) {
            None => Ok(()),
            Some(number) => {
                Err(Error::corruption("a blob file that the manifest names is missing")
                    .with_file(&files.directory().full_path(&FileName::Blob(*number).to_path()))
                    .with_hint(RECOVER_HINT))
            }
        }
    }
}
