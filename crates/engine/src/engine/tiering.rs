//! Moves of tables between the tiers.

use super::Engine;
use crate::{catalog::family::FamilyData, jobs::tiers, kit::copying::OnProgress};
use siltdb_base::error::Result;

impl Engine {
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
        self.at_work(|database| tiers::freeze(&database.job_rooms(), family, rate, on_progress))
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
        self.at_work(|database| tiers::thaw(&database.job_rooms(), family, rate, on_progress))
    }
}
