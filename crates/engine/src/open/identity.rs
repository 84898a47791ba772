//! The identity of a database: given at its creation, or, if an older version has created it, at
//! the next opening for writing.
//!
//! It compares no identities.

use crate::{catalog::Catalog, database::installer::Installer, install::install};
use siltdb_base::{error::Result, id::DatabaseId, seeded_fault, sync::lock};
use siltdb_disk::edit::{Change, Edit};

/// The change that gives a database an identity.
#[must_use]
pub(crate) fn new_identity(catalog: &Catalog) -> Change {
    Change::Identity(catalog.ids.database_id())
}

/// Gives a database that has none an identity. Durable on return.
///
/// # Errors
/// As [`install`].
pub fn give_identity(installer: &Installer<'_>) -> Result<()> {
    match identity(installer.catalog) {
        Some(_) => Ok(()),
        None => install(installer, vec![new_identity(installer.catalog)], None),
    }
}

/// The identity of a database; `None` for one of an older version that was only read since.
#[must_use]
pub fn identity(catalog: &Catalog) -> Option<DatabaseId> {
    lock(&catalog.manifest_io).state.identity
}

/// Makes the state of a copy that of a database of its own: with an identity of its own, of which
/// no backup is a past.
pub fn separate(state: &mut Edit, catalog: &Catalog) {
    if !seeded_fault!("checkpoint_keeps_the_identity") {
        let is_of_source =
            |change: &Change| matches!(change, Change::Identity(_) | Change::BackedUp(_));
        state.changes.retain(|change| !is_of_source(change));
        state.changes.push(new_identity(catalog));
    }
}
