//! The kinds of changes of an edit: when they take effect, and what they concern.
//!
//! It applies none.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FamilyId,
};
use siltdb_disk::edit::Change;

/// The order in which the changes of an edit take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Families are created first, because the same edit may add their tables.
    Create,
    /// Tables are added and removed.
    Tables,
    /// Families are renamed, dropped or get options.
    Change,
}

pub(super) fn phase(change: &Change) -> Phase {
    match change {
        Change::CreateFamily { .. } => Phase::Create,
        Change::AddTable { .. } | Change::RemoveTable { .. } => Phase::Tables,
        _ => Phase::Change,
    }
}

/// The family that a change concerns, if any.
pub(super) fn family_of(change: &Change) -> Option<FamilyId> {
    match change {
        Change::CreateFamily { id, .. }
        | Change::DropFamily { id }
        | Change::RenameFamily { id, .. }
        | Change::FamilyOptions { id, .. } => Some(*id),
        _ => table_family(change),
    }
}

/// Refuses a change that this version does not know. Changes of no family have other owners.
pub(super) fn check_known(change: &Change) -> Result<()> {
    match change {
        Change::Format { .. }
        | Change::LogStart { .. }
        | Change::LogCut { .. }
        | Change::NextFile(_)
        | Change::NextFamily(_)
        | Change::LastSequence(_)
        | Change::LogSynced(_)
        | Change::LatestTime(_)
        | Change::FamiliesLogged { .. }
        | Change::RetentionFloor(_)
        | Change::Branch(_)
        | Change::ColdDirectory(_)
        | Change::ColdDirectoryLeft
        | Change::Identity(_)
        | Change::BackedUp(_)
        | Change::Prepared { .. }
        | Change::PreparedDecided { .. }
        | Change::BlobFile { .. }
        | Change::BlobFileRemoved { .. }
        | Change::Unknown { .. } => Ok(()),
        _ => Err(Error::new(ErrorKind::Unsupported, "an edit has an unknown change")),
    }
}

/// The family whose tables a change concerns, if any.
pub(super) fn table_family(change: &Change) -> Option<FamilyId> {
    match change {
        Change::AddTable { family, .. } | Change::RemoveTable { family, .. } => Some(*family),
        _ => None,
    }
}
