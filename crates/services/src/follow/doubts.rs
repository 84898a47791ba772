//! Findings that may be damage: an error only if reading again finds the same.
//!
//! It reads nothing.

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    seeded_fault,
};
use std::path::Path;

/// Readings that must find the same before it is damage. The second reading knows all that makes
/// the finding suspect; the manifest of the third is read after the second.
const DOUBTS_MAX: usize = 3;

/// The same finding in readings in a row.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    last: Option<Error>,
    count: usize,
}

impl Doubts {
    /// Notes the finding of a reading.
    ///
    /// # Errors
    /// The finding, once it is damage.
    pub(super) fn note(&mut self, doubt: Error) -> Result<()> {
        let is_same = self.last.as_ref().is_some_and(|last| is_same(last, &doubt));
        self.count = if is_same { self.count + 1 } else { 1 };
        if self.count >= DOUBTS_MAX || seeded_fault!("vanished_file_is_damage") {
            return Err(confirmed(doubt));
        }
        self.last = Some(doubt);
        Ok(())
    }

    /// Notes a reading without a finding.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Whether two findings are the same.
fn is_same(a: &Error, b: &Error) -> bool {
    (a.kind(), a.file(), a.offset(), a.message()) == (b.kind(), b.file(), b.offset(), b.message())
}

/// The error for a finding that stays.
#[cold]
fn confirmed(doubt: Error) -> Error {
    match (doubt.kind(), doubt.file()) {
        (ErrorKind::Busy, Some(path)) => {
            Error::corruption("a table that the manifest names is missing")
                .with_file(Path::new(path))
        }
        _ => doubt,
    }
}

#[cfg(test)]
mod tests;
