//! Checkpoints and backups of an open database.

use super::Engine;
use crate::{
    backup::create::{Backup, create_backup},
    checkpoint::{self, Checkpoint, CheckpointRequest},
    copying::OnProgress,
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
        rate: Option<u64>,
        on_progress: OnProgress<'_>,
    ) -> Result<Backup> {
        self.at_work(|database| create_backup(database, dir, rate, on_progress))
    }
}
