//! A write batch that creates and drops families, or moves the base of a branch: one record of the
//! log carries both.
//!
//! It does not know what these changes do, nor when the manifest learns of them.
//!
//! ```text
//! | edit length varint | edit: CreateFamily, DropFamily, Branch | operations of a batch |
//! ```

use crate::{
    branch_record::BranchChange,
    edit::{Change, Edit},
};
use siltdb_base::{
    codec::{ByteReader, put_bytes},
    error::{Error, ErrorKind, Result},
};

/// Appends what precedes the operations: `changes`, of families and branches.
pub fn encode_changes(changes: &Edit, out: &mut Vec<u8>) {
    let mut edit = Vec::new();
    changes.encode(&mut edit);
    put_bytes(out, &edit);
}

/// The changes and the operations of a payload, which may be anything.
///
/// # Errors
/// `Corruption`, if it does not begin with changes of families; `Unsupported`, if one of them is
/// not known.
pub fn split(payload: &[u8]) -> Result<(Edit, &[u8])> {
    let mut reader = ByteReader::new(payload);
    let edit = Edit::decode(reader.bytes()?)?;
    for change in &edit.changes {
        match change {
            Change::CreateFamily { .. } | Change::DropFamily { .. } => {}
            Change::Branch(BranchChange::Recorded(_)) => {}
            Change::Unknown { tag, .. } => {
                return Err(Error::new(ErrorKind::Unsupported, "a batch has an unknown change")
                    .with_mismatch("changes of families", tag));
            }
            _ => return Err(Error::corruption("a batch changes more than families")),
        }
    }
    Ok((edit, reader.rest()))
}

#[cfg(test)]
mod tests;
