//! What a family does with merge operands: the user's rule for combining them.
//!
//! It does not collect operands or decide which of them a reader sees.

use siltdb_base::{
    error::{Error, Result},
    limits::VALUE_BYTES_MAX,
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Longest result of an operator that is made use of, in bytes: nothing longer can be stored. The
/// tests of this floor have a shorter one, so that they reach it.
pub const RESULT_BYTES_MAX: usize = if cfg!(test) { 16 << 20 } else { VALUE_BYTES_MAX };

/// Combines the operands of `merge` operations with the value they apply to.
///
/// # Laws
/// Compaction applies operands in portions, at moments nobody can foresee, so for every key, base
/// and lists of operands these must hold, and both functions must depend on their arguments alone:
/// 1. `full(full(base, older), newer) == full(base, older ++ newer)`;
/// 2. if `partial(x, y)` is `Some(z)`, then `z` may stand for `x, y` in any list of operands.
///
/// They must not call the database: whoever closes it waits for the job that calls them. And they
/// should not panic, which counts as an error: operands come from disk as they were written.
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// The name, stored with the family; another operator needs another name.
    fn name(&self) -> &str;

    /// The value after `operands`, oldest first and never empty, are applied to `base`.
    ///
    /// `base` is `None` where the key had no value: never put, deleted, or expired.
    ///
    /// # Errors
    /// Any error reaches the reader. Compaction keeps operands it cannot combine as they are. A
    /// result longer than a value may be counts as an error.
    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>>;

    /// One operand that does what `older` and then `newer` do, if there is one.
    ///
    /// One longer than a value may be counts as none. By default there never is one.
    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }
}

/// What is said of an operator that a family needs and nobody has given.
#[must_use]
pub fn not_given(name: &str) -> Error {
    Error::invalid(format!("the family needs the merge operator {name:?}"))
        .with_hint("open the database with this operator")
}

/// Stands for an operator that was not given, where nothing is merged: it combines nothing.
#[derive(Debug)]
pub struct AbsentOperator {
    name: String,
}

impl AbsentOperator {
    /// For the operator of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }
}

impl MergeOperator for AbsentOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Vec<u8>> {
        Err(Error::invalid(format!("the merge operator {:?} was not given", self.name)))
    }
}

/// What [`MergeOperator::full`] makes of these, if it can be stored.
///
/// # Errors
/// What the operator fails with; `InvalidArgument`, if its result is too long, or if it panics.
pub fn full(
    operator: &dyn MergeOperator,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[&[u8]],
) -> Result<Vec<u8>> {
    let combine = AssertUnwindSafe(|| operator.full(key, base, operands));
    let value = catch_unwind(combine).unwrap_or_else(|_| {
        let name = operator.name();
        Err(Error::invalid(format!("the merge operator {name:?} panicked")))
    })?;
    if value.len() > RESULT_BYTES_MAX {
        let name = operator.name();
        return Err(Error::invalid(format!("the merge operator {name:?} made too long a value"))
            .with_mismatch(format!("at most {RESULT_BYTES_MAX}"), value.len()));
    }
    Ok(value)
}

/// What [`MergeOperator::partial`] makes of these, if it can be stored.
#[must_use]
pub fn partial(
    operator: &dyn MergeOperator,
    key: &[u8],
    older: &[u8],
    newer: &[u8],
) -> Option<Vec<u8>> {
    let combine = AssertUnwindSafe(|| operator.partial(key, older, newer));
    // Whoever reads the key is told of the panic.
    let operand = catch_unwind(combine).unwrap_or(None);
    operand.filter(|operand| operand.len() <= RESULT_BYTES_MAX)
}
