//! The catalog of a database: its families, their files, and the manifest that records both.

pub mod chunked;
pub mod branches;
pub mod shared_options;
pub mod family;
pub mod lazy_family;
pub mod usage;
pub mod family_map;
pub mod id_allocator;
pub mod log_state;
pub mod manifest;

use crate::catalog::{
    family::check_name, family_map::Families, id_allocator::IdAllocator, manifest::Manifest,
};
use siltdb_base::{error::Result, seeded_fault};
use siltdb_tree::{
    compaction_filter::CompactionFilters,
    files::open_files::OpenFiles,
    merge_operator::{MergeOperator, not_registered},
    options::TreeOptions,
};
use std::sync::{Arc, Mutex};

/// The families and files of a database.
///
/// Lock order: `changing_io`, then `manifest_io`.
#[derive(Debug)]
pub struct Catalog {
    /// The families by id and name.
    pub families: Families,
    /// The table files.
    pub files: Arc<OpenFiles>,
    /// The merge operators given at open.
    pub operators: Vec<Arc<dyn MergeOperator>>,
    /// The compaction filters given at open.
    pub filters: CompactionFilters,
    /// Hands out the ids of files, families and tables.
    pub ids: IdAllocator,
    /// The manifest. Held while an edit is made durable and applied.
    pub manifest_io: Mutex<Manifest>,
    /// Held while families are created, dropped and renamed, and while an ingest has its place in
    /// the order and not its edit.
    pub changing_io: Mutex<()>,
}

impl Catalog {
    /// The catalog of a database that was just opened.
    #[must_use]
    pub fn new(
        families: Families,
        files: Arc<OpenFiles>,
        operators: Vec<Arc<dyn MergeOperator>>,
        filters: CompactionFilters,
        ids: IdAllocator,
        manifest: Manifest,
    ) -> Self {
        let (manifest_io, changing_io) = (Mutex::new(manifest), Mutex::default());
        Self { families, files, operators, filters, ids, manifest_io, changing_io }
    }

    /// Checks that the merge operator of `options` was given at open. A family with one that came
    /// with its options alone would work until the next opening, which would refuse it.
    ///
    /// # Seeded faults
    /// `unregistered_operator_accepted`: the next opening notices.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check_operator(&self, options: &TreeOptions) -> Result<()> {
        let Some(operator) = &options.merge_operator else { return Ok(()) };
        let mut given = self.operators.iter();
        if given.any(|given| given.name() == operator.name())
            || seeded_fault!("unregistered_operator_accepted")
        {
            return Ok(());
        }
        Err(not_registered(operator.name()))
    }

    /// Checks that a family may be called `name` and have `options`, with an operator and a filter
    /// that were given at open, and a codec that this build can write.
    ///
    /// # Errors
    /// `InvalidArgument`; `Unsupported`, for the codec.
    pub fn check_new(&self, name: &str, options: &TreeOptions) -> Result<()> {
        check_name(name)?;
        options.check()?;
        options.check_writable()?;
        self.check_operator(options)?;
        self.filters.check_given(options.compaction_filter.as_ref())
    }
}
