//! The value of one key from its versions.
//!
//! Where the versions come from, and which are too new, is the caller's business.

use crate::visible::judge::{Resolver, Verdict, depends_on_time, judge};
use siltdb_base::{
    error::Result,
    id::SequenceNumber,
    key::EntryKind,
    slice::{Pinnable, Slice},
};
use std::ops::ControlFlow;

/// A version of the key looked for.
#[derive(Clone, Copy, Debug)]
pub struct Version<'v> {
    /// Its place in the order; not newer than the snapshot.
    pub sequence: SequenceNumber,
    /// What it does.
    pub kind: EntryKind,
    /// Its payload.
    pub value: Pinnable<'v>,
    /// The newest range tombstone over the key that the snapshot sees, as far as is known.
    ///
    /// It must be known from every source that can hold a tombstone newer than this version:
    /// those searched so far, if the caller goes from the newest source to the oldest.
    pub covering: Option<SequenceNumber>,
}

/// Finds the value of one key from its versions, which are added from the newest to the oldest, and
/// shows it to `look`.
///
/// `resolver` is not asked for before it is needed: most values speak for themselves, and looking
/// at the clock costs a tenth of a lookup.
#[derive(Debug)]
pub struct Point<R, L, T> {
    resolver: R,
    /// Called once at most.
    look: Option<L>,
    /// What it returned.
    shown: Option<T>,
    /// The operands so far, newest first; without an allocation while there is none.
    operands: Vec<Slice>,
    /// What the operands are applied to.
    base: Option<Slice>,
}

impl<'r, R, L, T> Point<R, L, T>
where
    R: Fn() -> Resolver<'r>,
    L: FnOnce(Pinnable<'_>) -> T,
{
    /// Without a version.
    #[inline]
    pub fn new(resolver: R, look: L) -> Self {
        Self { resolver, look: Some(look), shown: None, operands: Vec::new(), base: None }
    }

    /// Adds the next older version; breaks off when no older one is needed.
    ///
    /// # Errors
    /// Corruption; `Unsupported` where the resolver lacks what is needed.
    #[inline]
    pub fn add(&mut self, version: Version<'_>) -> Result<ControlFlow<()>> {
        let Version { sequence, kind, value, covering } = version;
        let now_ms = if depends_on_time(kind) { (self.resolver)().now_ms } else { 0 };
        match judge(kind, value.bytes(), sequence, covering, now_ms)? {
            Verdict::Value(tail) => self.found(value.with(tail)),
            Verdict::Blob(pointer) => {
                let fetched = (self.resolver)().fetch(&pointer)?;
                self.found(Pinnable::from(&fetched));
            }
            Verdict::Absent => {}
            Verdict::Operand(_) => {
                self.operands.push(value.pin());
                return Ok(ControlFlow::Continue(()));
            }
        }
        Ok(ControlFlow::Break(()))
    }

    #[inline]
    fn found(&mut self, value: Pinnable<'_>) {
        if self.operands.is_empty() {
            self.show(value);
        } else {
            self.base = Some(value.pin());
        }
    }

    #[inline]
    fn show(&mut self, value: Pinnable<'_>) {
        self.shown = self.look.take().map(|look| look(value));
    }

    /// What `look` returned, or `None`, if there is no value. There are no more versions, or adding
    /// broke off.
    ///
    /// # Errors
    /// What the merge operator fails with; `Unsupported` without one.
    #[inline]
    pub fn finish(mut self, key: &[u8]) -> Result<Option<T>> {
        if !self.operands.is_empty() {
            let value = (self.resolver)().combine(key, self.base.as_deref(), &self.operands)?;
            self.show(Pinnable::from(&Slice::from(value)));
        }
        Ok(self.shown)
    }
}
