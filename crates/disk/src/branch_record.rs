//! Branches as the manifest records them: which families belong to a branch, and where it began.
//!
//! It does not know what the families hold.
//!
//! ```text
//! kind u8  value of the change
//!       1  branch      | branch | name | parent | sequence | ms | families | family ... |
//!       2  dropped     | branch |
//!       3  checked out | branch; 0: main |
//!
//! family: | head | base | next base + 1; 0: there is none |
//! ```

use siltdb_base::{
    codec::{ByteReader, put_bytes, put_varint},
    error::{Error, Result},
    id::{BranchId, FamilyId, SequenceNumber},
    limits::{FAMILIES_MAX, FAMILY_IDS_MAX, FAMILY_NAME_BYTES_MAX},
};
use std::sync::Arc;

const BRANCH: u8 = 1;
const DROPPED: u8 = 2;
const CHECKED_OUT: u8 = 3;

/// A change of the branches of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchChange {
    /// A branch is there, or is now as the record says.
    Recorded(Arc<BranchRecord>),
    /// A branch is gone. Its families are dropped by changes of their own.
    Dropped(BranchId),
    /// A branch is the one that is checked out.
    CheckedOut(BranchId),
}

/// A branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchRecord {
    /// Its id, never used before.
    pub id: BranchId,
    /// The name that callers open it by.
    pub name: String,
    /// The branch that it began with, which may be gone.
    pub parent: BranchId,
    /// It began with what its parent held at this sequence number.
    pub begun: SequenceNumber,
    /// When it began, in ms since 1970.
    pub begun_ms: u64,
    /// Its families. Each has its name from its creation.
    pub families: Vec<BranchFamily>,
}

/// The families that stand for one family on a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchFamily {
    /// The branch head: the one that is read and written there.
    pub head: FamilyId,
    /// What the branch and its parent last had in common. Nothing writes to it.
    pub base: FamilyId,
    /// The base after the merge that is under way, or was when the process ended.
    pub next_base: Option<FamilyId>,
}

impl BranchFamily {
    /// The ids of all of them.
    pub fn ids(self) -> impl Iterator<Item = FamilyId> {
        [self.head, self.base].into_iter().chain(self.next_base)
    }
}

impl BranchChange {
    /// Appends the value of the change to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Recorded(record) => {
                out.push(BRANCH);
                put_varint(out, record.id.0.into());
                put_bytes(out, record.name.as_bytes());
                put_varint(out, record.parent.0.into());
                put_varint(out, record.begun.0);
                put_varint(out, record.begun_ms);
                put_varint(out, record.families.len() as u64);
                for family in &record.families {
                    put_varint(out, family.head.0.into());
                    put_varint(out, family.base.0.into());
                    put_varint(out, family.next_base.map_or(0, |next| u64::from(next.0) + 1));
                }
            }
            Self::Dropped(id) => {
                out.push(DROPPED);
                put_varint(out, id.0.into());
            }
            Self::CheckedOut(id) => {
                out.push(CHECKED_OUT);
                put_varint(out, id.0.into());
            }
        }
    }

    /// Reads a value, and leaves what follows it in the reader. Allocates in proportion to the
    /// bytes.
    ///
    /// # Errors
    /// `Corruption`, if it is none.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        match reader.u8()? {
            BRANCH => record(reader).map(Arc::new).map(Self::Recorded),
            DROPPED => own_id(reader).map(Self::Dropped),
            CHECKED_OUT => Ok(Self::CheckedOut(BranchId(reader.varint_u32()?))),
            kind => Err(Error::corruption("a change of branches has an unknown kind")
                .with_mismatch("1, 2 or 3", kind)),
        }
    }
}

fn record(reader: &mut ByteReader<'_>) -> Result<BranchRecord> {
    let (id, name) = (own_id(reader)?, name(reader)?);
    if id.0 >= FAMILY_IDS_MAX {
        return Err(Error::corruption("no branch has got this id")
            .with_mismatch(format_args!("below {FAMILY_IDS_MAX}"), id));
    }
    let parent = BranchId(reader.varint_u32()?);
    if parent >= id {
        return Err(Error::corruption("a branch is not younger than its parent")
            .with_mismatch(format_args!("below {id}"), parent));
    }
    let begun = SequenceNumber(reader.varint()?);
    if begun > SequenceNumber::MAX {
        return Err(Error::corruption("no such sequence number")
            .with_mismatch(format_args!("at most {}", SequenceNumber::MAX), begun));
    }
    let begun_ms = reader.varint()?;
    let count = reader.varint()?;
    if count == 0 || count > FAMILIES_MAX as u64 {
        return Err(Error::corruption("no such number of families of a branch")
            .with_mismatch(format_args!("1..={FAMILIES_MAX}"), count));
    }
    let family = |_| family(reader);
    let families = (0..count).map(family).collect::<Result<_>>()?;
    Ok(BranchRecord { id, name, parent, begun, begun_ms, families })
}

fn family(reader: &mut ByteReader<'_>) -> Result<BranchFamily> {
    let head = FamilyId(reader.varint_u32()?);
    let base = FamilyId(reader.varint_u32()?);
    let next_base = reader.varint_u32()?.checked_sub(1).map(FamilyId);
    Ok(BranchFamily { head, base, next_base })
}

/// The id of a branch other than `main`, which has no record.
fn own_id(reader: &mut ByteReader<'_>) -> Result<BranchId> {
    match BranchId(reader.varint_u32()?) {
        BranchId::MAIN => Err(Error::corruption("main is recorded as a branch")),
        id => Ok(id),
    }
}

fn name(reader: &mut ByteReader<'_>) -> Result<String> {
    let bytes = reader.bytes()?;
    if bytes.is_empty() || bytes.len() > FAMILY_NAME_BYTES_MAX {
        return Err(Error::corruption("bad length of a branch name")
            .with_mismatch(format_args!("1..={FAMILY_NAME_BYTES_MAX}"), bytes.len()));
    }
    match std::str::from_utf8(bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(error) => Err(Error::corruption("a branch name is not UTF-8").with_source(error)),
    }
}

#[cfg(test)]
mod tests;
