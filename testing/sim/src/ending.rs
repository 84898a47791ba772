//! How a commit of a transaction may end.

/// The predicted result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It succeeds.
    Commit,
    /// It is refused with `Conflict`.
    Conflict,
    /// Either, because a value changed and changed back. The engine may or may not notice that.
    Either,
    /// It is refused, because a family that it wrote to has been dropped.
    Dropped,
    /// It is refused with `Busy`, because another transaction has locked a written key.
    Busy,
    /// It is refused, with `Conflict` or `Busy`.
    ConflictOrBusy,
}

impl Ending {
    /// The same, if another transaction has locked a written key.
    #[must_use]
    pub fn locked(self) -> Self {
        match self {
            Self::Commit => Self::Busy,
            Self::Either => Self::ConflictOrBusy,
            other => other,
        }
    }
}
