//! Checkpoints, backups and archives of an open database, and moves of its tables between the
//! tiers.

use super::Engine;
use crate::{
    archive::{
        create::{ArchiveRequest, create_archive},
        import::{ArchiveImport, ImportRequest, import_archive},
        info::ArchiveInfo,
    },
    backup::create::{Backup, BackupRequest, create_backup},
    catalog::family::FamilyData,
    checkpoint::{self, Checkpoint, CheckpointRequest},
    copying::OnProgress,
    jobs::tiers,
    snapshots::LiveSnapshot,
};
use siltdb_base::error::Result;
use std::{ops::ControlFlow, path::Path};

impl Engine {
    /// Makes a second database with the contents of this one in `dir`, which must not exist or be
    /// empty.
    ///
    /// # Errors
    /// As [`checkpoint::checkpoint`].
    pub fn checkpoint(&self, dir: &Path) -> Result<Checkpoint> {
        let mut go_on = |_| ControlFlow::Continue(());
        self.checkpoint_with(dir, &CheckpointRequest::default(), &mut go_on)
    }

    /// As [`Engine::checkpoint`], made as `request` says.
    ///
    /// # Errors
    /// As [`checkpoint::checkpoint`].
    pub fn checkpoint_with(
        &self,
        dir: &Path,
        request: &CheckpointRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<Checkpoint> {
        self.at_work(|database| checkpoint::checkpoint(database, dir, request, on_progress))
    }

    /// Adds a backup of what the database holds to the directory `dir`.
    ///
    /// # Errors
    /// As [`create_backup`].
    pub fn backup(
        &self,
        dir: &Path,
        request: BackupRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<Backup> {
        self.at_work(|database| create_backup(database, dir, request, on_progress))
    }

    /// Exports what `at` sees, or what there is now, to an archive at `path`. The database may be
    /// read only.
    ///
    /// # Errors
    /// As [`create_archive`].
    pub fn archive(
        &self,
        path: &Path,
        at: Option<&LiveSnapshot>,
        request: &ArchiveRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<ArchiveInfo> {
        // A forked child must not lock a directory.
        let database = self.writable()?;
        let in_flight = database.background.in_flight.begin();
        let _call = in_flight.ok_or_else(|| database.health.refusal())?;
        create_archive(database, path, (at, request), on_progress)
    }

    /// Imports families of the archive at `path`.
    ///
    /// # Errors
    /// As [`import_archive`].
    pub fn import_archive(
        &self,
        path: &Path,
        request: &ImportRequest,
        on_progress: OnProgress<'_>,
    ) -> Result<ArchiveImport> {
        self.at_work(|database| import_archive(database, path, request, on_progress))
    }

    /// Moves the tables of a family to the cold tier, and keeps them there.
    ///
    /// # Errors
    /// As [`tiers::freeze`].
    pub fn freeze_family(
        &self,
        family: &FamilyData,
        rate: Option<u64>,
        on_progress: OnProgress<'_>,
    ) -> Result<()> {
        self.at_work(|database| tiers::freeze(database, family, (rate, on_progress)))
    }

    /// Moves the tables of a family to the hot tier, and keeps them there.
    ///
    /// # Errors
    /// As [`tiers::thaw`].
    pub fn thaw_family(
        &self,
        family: &FamilyData,
        rate: Option<u64>,
        on_progress: OnProgress<'_>,
    ) -> Result<()> {
        self.at_work(|database| tiers::thaw(database, family, (rate, on_progress)))
    }
}
