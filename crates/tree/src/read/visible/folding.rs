//! Folding the operands of one key, with the help of what an earlier reader kept of that.
//!
//! It finds no versions and judges none.

use crate::{
    read::folds::{Fold, FoldTimes, OPERANDS_MIN},
    read::operands::{Added, Operands},
    read::visible::resolve::Resolver,
};
use siltdb_base::{error::Result, id::SequenceNumber, seeded_fault, slice::Slice};
use std::sync::Arc;

/// The operands of one key that are to be applied to what lies below them.
///
/// # Invariants
/// 1. `operands` are newer than the version or fold that decides what they are applied to.
#[derive(Debug)]
pub struct Folding {
    added: Added,
    operands: Operands,
    /// What an earlier reader kept of the key; looked up with its first operand.
    kept: Option<Option<Arc<Fold>>>,
    /// When what the operands are applied to expires.
    expiry_ms: Option<u64>,
    /// When what they would have been applied to expired; 0 if nothing did.
    since_ms: u64,
}

impl Folding {
    /// Without operands; those of a key will be added in this order.
    #[must_use]
    pub fn new(added: Added) -> Self {
        Self { added, operands: Operands::default(), kept: None, expiry_ms: None, since_ms: 0 }
    }

    /// Begins anew, with another key.
    pub fn restart(&mut self, added: Added) {
        self.added = added;
        self.operands.clear();
        self.kept = None;
        (self.expiry_ms, self.since_ms) = (None, 0);
    }

    /// Whether nothing is to be applied.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// Adds an operand of `key`. If an earlier reader kept the value that the key has from this
    /// operand and everything older, returns that. Newer operands are to be applied to it.
    pub fn add<'r>(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        operand: &[u8],
        resolver: impl FnOnce() -> Resolver<'r>,
    ) -> Option<Slice> {
        let kept = self.kept.get_or_insert_with(|| {
            let Resolver { folds, now_ms, .. } = resolver();
            let is_valid = |fold: &Arc<Fold>| {
                fold.since_ms <= now_ms && fold.expiry_ms.is_none_or(|expiry| now_ms < expiry)
            };
            folds.and_then(|folds| folds.find(key)).filter(is_valid)
        });
        let (value, expiry_ms, since_ms) = match kept {
            Some(fold) if fold.sequence == sequence => {
                (fold.value.clone(), fold.expiry_ms, fold.since_ms)
            }
            _ => {
                self.operands.push(sequence, operand);
                return None;
            }
        };
        self.pass(expiry_ms);
        self.since_ms = since_ms;
        if seeded_fault!("fold_operand_twice") {
            self.operands.push(sequence, operand);
        }
        Some(value)
    }

    /// When what the operands are applied to expires, if it does.
    #[must_use]
    pub fn expiry_ms(&self) -> Option<u64> {
        self.expiry_ms
    }

    /// Something that expires then, or never, decides what newer operands are applied to.
    pub fn pass(&mut self, expiry_ms: Option<u64>) {
        (self.expiry_ms, self.since_ms) = (expiry_ms, 0);
        if self.added == Added::OldestFirst {
            // By (1), because the operands so far are older.
            self.operands.clear();
        }
    }

    /// Nothing, perhaps because it expired at `expired_ms`, is what newer operands are applied to.
    pub fn pass_absent(&mut self, expired_ms: Option<u64>) {
        self.pass(None);
        self.since_ms = expired_ms.unwrap_or(0);
    }

    /// The value of `key` after the operands are applied to `base`; keeps it for later readers if
    /// there were many.
    ///
    /// # Errors
    /// The errors of [`Resolver::combine`].
    pub fn finish(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        resolver: &Resolver<'_>,
    ) -> Result<Vec<u8>> {
        let value = resolver.combine(key, base, &self.operands.oldest_first(self.added))?;
        if self.operands.count() >= OPERANDS_MIN
            && let (Some(folds), Some(newest)) = (resolver.folds, self.operands.newest(self.added))
        {
            let times = FoldTimes { since_ms: self.since_ms, expiry_ms: self.expiry_ms };
            folds.keep(key, newest, &value, times);
        }
        Ok(value)
    }
}
