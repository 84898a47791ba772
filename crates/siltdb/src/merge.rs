//! Merge operators made from functions.
//!
//! They follow the rules of all merge operators: the database stores the name, and each opening
//! provides the function.

use siltdb_base::error::Result;
use siltdb_tree::merge_operator::MergeOperator;
use std::{fmt, sync::Arc};

/// Makes an operator called `name` from a function of a key, its previous value and the operands,
/// oldest first: [`MergeOperator::full`]. Compactions keep the operands until they reach the value.
/// Where operands can be combined with each other, [`associative`] costs less.
///
/// The [laws](MergeOperator) of merge operators hold for `full`, too.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use siltdb::{FamilyOptions, Options, Read, merge};
///
/// let longest = merge::full("longest", |_key, base, operands| {
///     let all = base.iter().chain(operands);
///     Ok(all.max_by_key(|value| value.len()).map_or(Vec::new(), |value| value.to_vec()))
/// });
/// let family = FamilyOptions::new().merge_operator(longest);
/// let db = Options::new().default_family(family).open(dir.path().join("data"))?;
/// for word in ["a", "abc", "ab"] {
///     db.merge("word", word)?;
/// }
/// assert_eq!(db.get("word")?.as_deref(), Some(&b"abc"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn full<F>(name: impl Into<String>, full: F) -> Arc<dyn MergeOperator>
where
    F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Result<Vec<u8>> + Send + Sync + 'static,
{
    Arc::new(Full { name: name.into(), full })
}

/// Makes an operator called `name` from a function that combines two operands, the older and the
/// newer. Operands and values are of one kind; the first operand becomes the value.
///
/// `combine` must be associative: `combine(combine(a, b), c) == combine(a, combine(b, c))`. Flushes
/// and compactions use it to make one operand of many. Its errors reach the reader.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use siltdb::{Error, FamilyOptions, Options, Read, merge};
///
/// fn number(bytes: &[u8]) -> siltdb::Result<u64> {
///     let bytes = bytes.try_into().map_err(|_| Error::corruption("no number of eight bytes"))?;
///     Ok(u64::from_le_bytes(bytes))
/// }
///
/// let sum = merge::associative("sum", |_key, older, newer| {
///     Ok(number(older)?.wrapping_add(number(newer)?).to_le_bytes().to_vec())
/// });
/// let db = Options::new().merge_operator(sum.clone()).open(dir.path().join("data"))?;
/// let visits = db.family_or_create("visits", FamilyOptions::new().merge_operator(sum))?;
/// for count in [3_u64, 4] {
///     visits.merge("page", count.to_le_bytes())?;
/// }
/// assert_eq!(visits.get("page")?.as_deref(), Some(&7_u64.to_le_bytes()[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn associative<F>(name: impl Into<String>, combine: F) -> Arc<dyn MergeOperator>
where
    F: Fn(&[u8], &[u8], &[u8]) -> Result<Vec<u8>> + Send + Sync + 'static,
{
    Arc::new(Associative { name: name.into(), combine })
}

struct Full<F> {
    name: String,
    full: F,
}

impl<F> fmt::Debug for Full<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Full").field(&self.name).finish()
    }
}

impl<F> MergeOperator for Full<F>
where
    F: Fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Result<Vec<u8>> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        (self.full)(key, base, operands)
    }
}

struct Associative<F> {
    name: String,
    combine: F,
}

impl<F> fmt::Debug for Associative<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Associative").field(&self.name).finish()
    }
}

impl<F> MergeOperator for Associative<F>
where
    F: Fn(&[u8], &[u8], &[u8]) -> Result<Vec<u8>> + Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        let mut all = base.into_iter().chain(operands.iter().copied());
        let first = all.next().map_or_else(Vec::new, <[u8]>::to_vec);
        all.try_fold(first, |older, newer| (self.combine)(key, &older, newer))
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        // After a failure the operands stay, and the next read returns the error.
        (self.combine)(key, older, newer).ok()
    }
}

#[cfg(test)]
mod tests;
