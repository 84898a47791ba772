//! The changes of committed transactions, logged by each thread, and the contents of the database
//! that follow from them.
//!
//! A change adds a number to a version, so the order of the commits does not matter.

use crate::{
    engine::{Failure, Result},
    expect::Model,
};

/// A change of the version of an id.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The id.
    pub id: u32,
    /// The number to add.
    pub by: i32,
}

/// The changes of one thread's transactions.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order of their commits.
    changes: Vec<Change>,
    /// Number of values that were read and checked.
    pub checked: u64,
}

impl History {
    /// Appends the changes of a transaction that has committed.
    pub fn add(&mut self, changes: &mut Vec<Change>) {
        self.changes.append(changes);
    }

    /// Number of values that were written.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.changes.len() as u64
    }
}

/// Applies the changes of all threads to a model.
///
/// # Errors
/// `Verification`, if a version would be negative or too large.
pub fn apply(histories: &[History], model: &mut Model) -> Result<()> {
    let mut sums = vec![0_i64; model.ids() as usize];
    for change in histories.iter().flat_map(|history| &history.changes) {
        sums[change.id as usize] += i64::from(change.by);
    }
    for (id, sum) in (0_u32..).zip(sums).filter(|(_, sum)| *sum != 0) {
        let version = u32::try_from(i64::from(model.version(id)) + sum);
        let version = version.map_err(|_| {
            Failure::verification(format!("more was taken than there can have been. id={id}"))
        })?;
        model.set(id, version);
    }
    Ok(())
}
