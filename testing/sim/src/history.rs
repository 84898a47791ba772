//! The retention floor of a database: which one it has, and what it promises.
//!
//! It compares no state with the model.

use crate::violation::{Checked, Violation, must};
use siltdb::{Db, ErrorKind};

/// Checks that the floor is one of `possible`, is not above the present, and is where history
/// begins. Returns it.
///
/// # Errors
/// If not.
pub(crate) fn check_floor(db: &Db, possible: &[Option<u64>]) -> Checked<Option<u64>> {
    let (floor, present) = (db.retention_floor(), db.snapshot().sequence());
    if !possible.contains(&floor) {
        let message = format!("retention floor {floor:?}, expected one of {possible:?}");
        return Err(Violation::new(message));
    }
    let oldest = floor.unwrap_or(present);
    must(db.snapshot_at(oldest), "a snapshot at the retention floor")?;
    if let Some(below) = oldest.checked_sub(1) {
        check_refused(db, below, ErrorKind::NotFound)?;
    }
    check_refused(db, present + 1, ErrorKind::InvalidArgument)?;
    Ok(floor)
}

fn check_refused(db: &Db, sequence: u64, kind: ErrorKind) -> Checked<()> {
    match db.snapshot_at(sequence) {
        Err(error) if error.kind() == kind => Ok(()),
        result => Err(Violation::new(format!("a snapshot at {sequence} gave {result:?}"))),
    }
}
