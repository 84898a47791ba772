//! What a family does with merge operands: the user's rule for combining them.
//!
//! It does not collect operands or decide which of them a reader sees.

use siltdb_base::error::Result;
use std::fmt;

/// Combines the operands of `merge` operations with the value they apply to.
///
/// # Laws
/// Compaction applies operands in portions, at moments nobody can foresee, so for every key, base
/// and lists of operands these must hold, and both functions must depend on their arguments alone:
/// 1. `full(full(base, older), newer) == full(base, older ++ newer)`;
/// 2. if `partial(x, y)` is `Some(z)`, then `z` may stand for `x, y` in any list of operands.
pub trait MergeOperator: Send + Sync + fmt::Debug {
    /// The name, stored with the family; another operator needs another name.
    fn name(&self) -> &str;

    /// The value after `operands`, oldest first and never empty, are applied to `base`.
    ///
    /// `base` is `None` where the key had no value: never put, deleted, or expired.
    ///
    /// # Errors
    /// Any error reaches the reader. Compaction keeps operands it cannot combine as they are.
    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>>;

    /// One operand that does what `older` and then `newer` do, if there is one.
    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>>;
}
