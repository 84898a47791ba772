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
    result,
};

/// Longest result of an operator that is made use of, in bytes: nothing longer can be stored. The
/// tests of this floor have a shorter one, so that they reach it.
pub const RESULT_BYTES_MAX: usize = if cfg!(test) { 16 << 20 } else { VALUE_BYTES_MAX };

/// Combines the operands of `merge` operations with the value they apply to.
///
/// # Laws
/// Compaction applies operands in portions, at moments that cannot be foreseen. So these must hold
/// for every key, base and lists of operands, and all functions must depend on their arguments
/// alone:
/// 1. `full(full(base, older), newer) == full(base, older ++ newer)`;
/// 2. if `partial(x, y)` is `Some(z)`, then `z` may stand for `x, y` in any list of operands; and
///    so for `partial_many`.
///
/// They must not call the database, because `close` waits for the job that calls them. They should
/// not panic: a panic counts as an error, and operands come from disk as they were written.
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

    /// One operand that does what `operands`, oldest first and at least two, do one after the
    /// other, if there is one.
    ///
    /// By default neighbours are combined with [`MergeOperator::partial`], then neighbours among
    /// the results, and so on. Of n operands each byte is handed over about log2(n) times. An
    /// operator whose results grow with their operands is cheaper with one pass of its own. Flushes
    /// and compactions call this; where it returns `None`, they try each half of the list.
    fn partial_many(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        match operands {
            [] => None,
            [operand] => Some(operand.to_vec()),
            [older, newer] => self.partial(key, older, newer),
            _ => {
                let (older, newer) = operands.split_at(operands.len() / 2);
                let older = self.partial_many(key, older)?;
                self.partial(key, &older, &self.partial_many(key, newer)?)
            }
        }
    }
}

/// The error for an operator that a family needs and the options lack.
#[must_use]
pub fn not_given(name: &str) -> Error {
    Error::invalid(format!("the family needs the merge operator {name:?}"))
        .with_hint("open the database with this operator")
}

/// The error for an operator that options of a family bring and the opening did not register.
#[must_use]
pub fn not_registered(name: &str) -> Error {
    Error::invalid(format!("the merge operator {name:?} was not registered at the opening"))
        .with_hint(
            "a family stores the name alone: give the operator to `Options::merge_operator` at \
             this opening and each later one",
        )
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

/// What becomes of neighbouring operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Combined {
    /// The next operand stays as it is.
    Kept,
    /// One operand stands for the next `count`.
    Joined {
        /// How many it stands for.
        count: usize,
        /// The operand that stands for them.
        operand: Vec<u8>,
    },
}

/// What [`MergeOperator::partial_many`] makes of `operands`, oldest first: where the operator
/// declines the whole list, of its halves, down to pairs. After a panic of the operator the rest is
/// kept; the reader of the key gets the error.
#[must_use]
pub fn combine(operator: &dyn MergeOperator, key: &[u8], operands: &[&[u8]]) -> Vec<Combined> {
    let mut combined = Vec::new();
    let mut lists = vec![operands];
    while let Some(list) = lists.pop() {
        match list.len() {
            0 => {}
            1 => combined.push(Combined::Kept),
            count => match try_partial(operator, key, list) {
                Ok(Some(operand)) => combined.push(Combined::Joined { count, operand }),
                Ok(None) if count == 2 => combined.extend([Combined::Kept, Combined::Kept]),
                Ok(None) => {
                    let (older, newer) = list.split_at(count / 2);
                    lists.extend([newer, older]);
                }
                Err(Panicked) => {
                    let rest = count + lists.drain(..).map(<[_]>::len).sum::<usize>();
                    combined.resize(combined.len() + rest, Combined::Kept);
                }
            },
        }
    }
    combined
}

/// The operator panicked.
struct Panicked;

/// What the operator makes of a list, if it can be stored.
fn try_partial(
    operator: &dyn MergeOperator,
    key: &[u8],
    operands: &[&[u8]],
) -> result::Result<Option<Vec<u8>>, Panicked> {
    let join = AssertUnwindSafe(|| operator.partial_many(key, operands));
    let operand = catch_unwind(join).map_err(|_| Panicked)?;
    Ok(operand.filter(|operand| operand.len() <= RESULT_BYTES_MAX))
}

#[cfg(test)]
mod tests;
