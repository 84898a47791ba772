//! A database that was copied, or moved to another file system, gets its cold tables: by copies, or
//! by taking the cold directory over.
//!
//! Commits and recovery know nothing of it: the database is opened with a claim, and closed again.
//!
//! To copy them:
//!
//! 1. The cold directory is attached for reading alone, under a shared lock.
//! 2. The tables of each family are moved to the database, as by a thaw. Nothing is removed.
//! 3. One edit says that there is no cold directory any more.
//! 4. The families get the options back with which they asked for the cold tier.
//!
//! A crash leaves a database that has a part of the tables, and is refused until it is adopted.

use siltdb_base::{error::Result, sync::lock};
use siltdb_disk::edit::{Change, tier::Tier};
use siltdb_engine::{
    database::job_rooms::JobRooms,
    engine::Engine,
    families::family_options::change_options,
    install::install,
    jobs::tiers::thaw,
    kit::copying::OnProgress,
    options::{Access, ColdClaim, Create, EngineOptions},
};
use siltdb_tree::files::table_store::Keeping;
use std::{path::Path, sync::Arc};

/// How a database comes to its cold tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColdAdoption {
    /// They are copied to the directory of the database. The cold directory stays as it is.
    #[default]
    Copies,
    /// The database becomes the owner of the cold directory. The one that was is refused from now
    /// on.
    TakesOver,
}

/// The result of an adoption.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdoptionReport {
    /// Tables that were copied.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Adopts the database in `dir`. Durable on return. One that has no cold directory, or its own, is
/// left as it is.
///
/// # Errors
/// As [`Engine::open`]; `Locked`, while the owner has the cold directory; `NoSpace`; `Corruption`,
/// if a table is damaged or missing; `Cancelled`; the system's.
pub fn adopt(
    dir: &Path,
    options: EngineOptions,
    adoption: ColdAdoption,
    on_progress: OnProgress<'_>,
) -> Result<AdoptionReport> {
    let cold_claim = match adoption {
        ColdAdoption::Copies => ColdClaim::Leaves,
        ColdAdoption::TakesOver => ColdClaim::TakesOver,
    };
    let (create, access, workers) = (Create::Never, Access::ReadWrite, 0);
    let options = EngineOptions { create, access, workers, cold_claim, ..options };
    let engine = Engine::open(dir, options)?;
    let adopted = copy_tables(&engine.writable()?.job_rooms(), on_progress);
    engine.close().and(adopted)
}

/// Moves the tables out of a cold directory that is that of another database.
fn copy_tables(rooms: &JobRooms<'_>, on_progress: OnProgress<'_>) -> Result<AdoptionReport> {
    let files = &rooms.catalog.files;
    let is_left =
        |tier| files.store(tier).is_some_and(|store| store.keeping() == Keeping::KeepsAll);
    if !is_left(Tier::Cold) {
        return Ok(AdoptionReport::default());
    }
    let mut adopted = AdoptionReport::default();
    let mut changed = Vec::new();
    for family in rooms.catalog.families.load().iter() {
        for (_, table) in family.version().tables() {
            if table.reference().tier == Tier::Cold {
                adopted.tables += 1;
                adopted.bytes += table.file_bytes();
            }
        }
        let (family, options) = (family.get(), family.options());
        thaw(rooms, family, None, &mut *on_progress)?;
        if family.tree.options().cold_from_level != options.cold_from_level {
            changed.push((Arc::clone(family), options));
        }
    }
    for version in rooms.catalog.families.load().versions() {
        for (_, table) in version.tables() {
            let tier = table.reference().tier;
            assert_eq!(tier, Tier::Hot, "{table:?} stays in a cold directory that is left");
        }
    }
    install(&rooms.installer(), vec![Change::ColdDirectoryLeft], None)?;
    let cold = lock(&rooms.catalog.manifest_io).state.cold.clone();
    assert!(cold.is_none(), "a cold directory that was left is known: {cold:?}");
    for (family, options) in changed {
        change_options(&rooms.installer(), &family, (*options).clone())?;
    }
    Ok(adopted)
}
