//! What a manifest says: the families with their tables, and the state of the log.
//!
//! It does not know what of the log was read.

use siltdb_base::{error::Result, fs::File, id::SequenceNumber};
use siltdb_engine::{
    blobs::Blobs,
    catalog::family_map::{Families, FamilyMap},
    catalog::log_state::LogState,
    catalog::manifest::{ManifestEnd, read_edits},
    install::{manifest_replay::ManifestReplay, target::Target},
};
use siltdb_tree::{
    files::open_files::OpenFiles,
    merge_operator::{AbsentOperator, MergeOperator},
};
use std::{path::PathBuf, sync::Arc};

/// A manifest as it was read.
#[derive(Debug, Default)]
pub(super) struct Base {
    /// The families and their tables, without memtables.
    pub families: Arc<FamilyMap>,
    /// The state of the log.
    pub log: LogState,
    /// No entry in a table is newer. The log may lack the place of an ingest.
    pub sequence_max: SequenceNumber,
}

/// What families of a follower are made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'a> {
    /// The table files.
    pub files: &'a Arc<OpenFiles>,
    /// The blob files.
    pub blobs: &'a Arc<Blobs>,
    /// The merge operators that were given.
    pub operators: &'a [Arc<dyn MergeOperator>],
}

impl<'a> Given<'a> {
    /// The target of changes of `families`. A substitute stands for an operator that is not given.
    pub(super) fn target(self, families: &'a Families) -> Target<'a> {
        let Self { files, operators, .. } = self;
        let absent = |name: &str| -> Option<Arc<dyn MergeOperator>> {
            Some(Arc::new(AbsentOperator::new(name)))
        };
        Target { families, files, operators, absent }
    }
}

impl Base {
    /// Reads the manifest in `file`.
    ///
    /// # Errors
    /// As [`read_edits`].
    pub(super) fn read(
        given: Given<'_>,
        path: PathBuf,
        file: Arc<dyn File>,
    ) -> Result<(Self, ManifestEnd)> {
        let families = Families::default();
        let mut base = Self::default();
        let mut replay = ManifestReplay::new(given.target(&families));
        let end = read_edits(path, file, &mut |edit| {
            base.log.note(&edit);
            replay.note(edit)
        })?;
        replay.finish()?;
        base.families = families.load();
        base.sequence_max = base.families.sequence_max();
        Ok((base, end))
    }

    /// Whether this cannot be a later manifest of the database than `other`, because a number that
    /// never decreases is smaller.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        let numbers = |base: &Self| {
            let LogState { first, last_sequence, next_file, next_family, .. } = base.log;
            [first.0, last_sequence.0, next_file.0, u64::from(next_family.0)]
        };
        numbers(self).iter().zip(numbers(other)).any(|(this, other)| *this < other)
    }

    /// Opens the files of all tables, so that they can be read after the writer has removed them.
    ///
    /// # Errors
    /// `Busy`, if a file is missing; the system's.
    pub(super) fn hold_files(&self) -> Result<()> {
        self.families
            .versions()
            .try_for_each(|version| version.tables().try_for_each(|(_, table)| table.hold_file()))
    }
}
