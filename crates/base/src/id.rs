//! Numbers that name things, each with its own type so that they cannot be confused.
//!
//! The engine hands out the numbers; here are only their types.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

id!(
    /// Names a family for the whole life of a database; never reused. 0 is the default family.
    FamilyId(u32)
);
id!(
    /// Names a branch for the whole life of a database; never reused. A larger one is younger.
    BranchId(u32)
);
id!(
    /// Names a table file, manifest file or blob file; never reused in one database.
    FileNumber(u64)
);
id!(
    /// Names one use of a log segment file; never reused, also when the file is recycled.
    SegmentId(u64)
);
id!(
    /// The random name written into a table and into the edit that adds it.
    TableUid(u64)
);
id!(
    /// The random name written into a blob file and into the edit that adds it.
    BlobUid(u64)
);

/// The random name of a database, and of its restored copies. Any other copy gets a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub u128);

impl fmt::Display for DatabaseId {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl BranchId {
    /// `main`: the families of the database itself.
    pub const MAIN: Self = Self(0);
}

/// The place of an operation in the one order of the database: 1 is the first operation.
///
/// 56 bits wide; 0 precedes every operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// Precedes every operation.
    pub const ZERO: Self = Self(0);
    /// Follows every operation: a reader at `MAX` sees everything.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
