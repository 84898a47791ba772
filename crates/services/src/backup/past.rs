//! Whether the backups of a directory are a past of the database that is to be backed up there.
//!
//! It decides and writes nothing. A backup and its database have a random mark in common: the list
//! has it, and the manifest of the database got it with the backup. A copy of the database has the
//! mark if and only if it was made after the backup. So a directory holds one line of backups: of
//! two copies that go on separately, the first one to make a backup there shuts the other out.
//!
//! A follower cannot mark the database: its list has the mark of the backup before, if there is
//! one, so that the next backup is compared with that one, and by the sequence number.

use siltdb_base::{
    error::{Error, Result},
    id::SequenceNumber,
    seeded_fault,
};
use siltdb_disk::{
    backup_list::BackupList,
    edit::{Change, Edit, identity::BackupMark},
};
use std::path::Path;

/// What a backup does about backups that are not known to be a past of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adoption {
    /// It refuses.
    #[default]
    Refuses,
    /// It goes on after them, unless they are of another database.
    Adopts,
}

/// The newest backup of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest<'a> {
    /// There is none.
    Absent,
    /// Its list, or the newest that can be read.
    Known(&'a BackupList),
    /// None of the lists can be read.
    Unreadable,
}

/// Checks that a backup of the database in `dir`, which has this state and these commits, may go
/// there.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_past(
    newest: Newest<'_>,
    state: &Edit,
    last: SequenceNumber,
    adoption: Adoption,
    dir: &Path,
) -> Result<()> {
    let newest = match newest {
        Newest::Absent => return Ok(()),
        Newest::Known(newest) => newest,
        Newest::Unreadable if adoption == Adoption::Adopts => return Ok(()),
        Newest::Unreadable => {
            let message = "no list in the directory says whose backups they are";
            return Err(Error::invalid(message).with_hint(ADOPT_HINT));
        }
    };
    let (theirs, ours) = (newest.identity(), state.identity());
    if theirs.is_some() && theirs != ours {
        return Err(Error::invalid("the directory holds foreign backups, of another database")
            .with_mismatch(&newest.source, dir.display())
            .with_hint("give each database a directory of its own"));
    }
    if adoption == Adoption::Adopts || seeded_fault!("backup_of_a_diverged_copy") {
        return Ok(());
    }
    let is_marked = newest.mark.is_none_or(|mark| has_mark(state, mark));
    match theirs {
        Some(_) if is_marked && newest.sequence <= last => Ok(()),
        Some(_) => {
            let message = "the newest backup in the directory is no past of this database";
            Err(Error::invalid(message).with_mismatch(&newest.source, dir.display()).with_hint(
                "a copy that went on separately needs a directory of its own; after a restore of \
                 an earlier backup, `CopyOptions::adopt` goes on in this one",
            ))
        }
        None => {
            let message =
                "an earlier version made the backups, and they do not say of which database";
            Err(Error::invalid(message).with_hint(ADOPT_HINT))
        }
    }
}

const ADOPT_HINT: &str = "if they are of this database, `CopyOptions::adopt` goes on after them";

fn has_mark(state: &Edit, mark: BackupMark) -> bool {
    state.changes.contains(&Change::BackedUp(mark))
}

#[cfg(test)]
mod tests;
