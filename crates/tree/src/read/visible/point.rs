//! The value of one key from its versions.
//!
//! Where the versions come from, and which are too new, is the caller's business.

use crate::{
    read::operands::Added,
    read::visible::{
        folding::Folding,
        resolve::{Resolver, Verdict, depends_on_time, expiry_of, judge, note_expiry, noted_by},
    },
};
use siltdb_base::{
    error::Result,
    id::SequenceNumber,
    key::EntryKind,
    slice::{Pinnable, Slice},
};
use std::ops::ControlFlow;

/// A version of the key looked for.
#[derive(Clone, Copy, Debug)]
pub struct KeyVersion<'v> {
    /// Its place in the order; not newer than the snapshot.
    pub sequence: SequenceNumber,
    /// The operation that the version stands for.
    pub kind: EntryKind,
    /// The payload, as the kind says.
    pub value: Pinnable<'v>,
    /// The newest range tombstone over the key that the snapshot sees, as far as is known.
    ///
    /// It must be known from every source that can hold a tombstone newer than this version. These
    /// are the sources searched so far, if the caller goes from the newest source to the oldest.
    pub covering: Option<SequenceNumber>,
}

/// Finds the value of one key from its versions, which are added from the newest to the oldest, and
/// shows it to `look`.
///
/// `resolver` is not asked for before it is needed: most values speak for themselves, and looking
/// at the clock costs a tenth of a lookup.
#[derive(Debug)]
pub struct Point<'k, R, L, T> {
    key: &'k [u8],
    resolver: R,
    /// Called once at most.
    look: Option<L>,
    /// What it returned.
    shown: Option<T>,
    /// The operands so far. Boxed, because most keys have none and all pay for moving this.
    merged: Option<Box<Merged>>,
}

/// What operands amount to.
#[derive(Debug)]
struct Merged {
    folding: Folding,
    /// What they are applied to.
    base: Option<Slice>,
}

impl<'k, 'r, R, L, T> Point<'k, R, L, T>
where
    R: Fn() -> Resolver<'r>,
    L: FnOnce(Pinnable<'_>) -> T,
{
    /// Without a version of `key`.
    #[inline]
    pub fn new(key: &'k [u8], resolver: R, look: L) -> Self {
        Self { key, resolver, look: Some(look), shown: None, merged: None }
    }

    /// Adds the next older version; breaks off when no older one is needed.
    ///
    /// # Errors
    /// Corruption; `Unsupported` where the resolver lacks what is needed.
    #[inline]
    pub fn add(&mut self, version: KeyVersion<'_>) -> Result<ControlFlow<()>> {
        let KeyVersion { sequence, kind, value, covering } = version;
        let is_timed = depends_on_time(kind);
        let now_ms = if is_timed { self.look_at_time(sequence, kind, value.bytes())? } else { 0 };
        match judge(kind, value.bytes(), sequence, covering, now_ms)? {
            Verdict::Value(tail) => {
                if is_timed {
                    self.note_unexpired(sequence, kind, value.bytes())?;
                }
                if let Some(merged) = &mut self.merged {
                    merged.folding.pass(expiry_of(kind, value.bytes())?);
                }
                self.found(value.with(tail));
            }
            Verdict::Blob(pointer) => {
                if is_timed {
                    self.note_unexpired(sequence, kind, value.bytes())?;
                }
                if let Some(merged) = &mut self.merged {
                    merged.folding.pass(pointer.expiry_ms);
                }
                let fetched = (self.resolver)().fetch(&pointer)?;
                self.found(Pinnable::from(&fetched));
            }
            Verdict::Absent => {
                if let Some(merged) = &mut self.merged {
                    merged.folding.pass_absent(expiry_of(kind, value.bytes())?);
                }
            }
            Verdict::Operand(operand) => return Ok(self.add_operand(sequence, operand)),
        }
        Ok(ControlFlow::Break(()))
    }

    /// Has the clock take note of a value that will expire and is no own write.
    #[cold]
    fn note_unexpired(
        &self,
        sequence: SequenceNumber,
        kind: EntryKind,
        payload: &[u8],
    ) -> Result<()> {
        if let Some(expiry_ms) = expiry_of(kind, payload)?
            && let Some(clock) = (self.resolver)().clock.and_then(|it| noted_by(it, sequence))
        {
            clock.saw_unexpired(expiry_ms);
        }
        Ok(())
    }

    /// The time for a version that depends on it, whose expiry is noted: a value that operands are
    /// applied to does not expire.
    fn look_at_time(
        &self,
        sequence: SequenceNumber,
        kind: EntryKind,
        payload: &[u8],
    ) -> Result<u64> {
        let Resolver { now_ms, expiry_ms: noted, clock, .. } = (self.resolver)();
        let clock = clock.and_then(|clock| noted_by(clock, sequence));
        let expiry_ms = note_expiry(kind, payload, now_ms, clock)?;
        if let (Some(noted), None) = (noted, &self.merged) {
            noted.set(expiry_ms);
        }
        Ok(now_ms)
    }

    fn add_operand(&mut self, sequence: SequenceNumber, operand: &[u8]) -> ControlFlow<()> {
        let merged = self.merged.get_or_insert_with(|| {
            Box::new(Merged { folding: Folding::new(Added::NewestFirst), base: None })
        });
        let Some(value) = merged.folding.add(self.key, sequence, operand, &self.resolver) else {
            return ControlFlow::Continue(());
        };
        if let (Some(expiry_ms), Some(clock)) =
            (merged.folding.expiry_ms(), (self.resolver)().clock)
        {
            clock.saw_unexpired(expiry_ms);
        }
        if merged.folding.is_empty() {
            self.show(Pinnable::from(&value));
        } else {
            merged.base = Some(value);
        }
        ControlFlow::Break(())
    }

    #[inline]
    fn found(&mut self, value: Pinnable<'_>) {
        match &mut self.merged {
            None => self.show(value),
            Some(merged) => merged.base = Some(value.pin()),
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
    pub fn finish(mut self) -> Result<Option<T>> {
        if let Some(merged) = self.merged.take()
            && !merged.folding.is_empty()
        {
            let base = merged.base.as_deref();
            let value = merged.folding.finish(self.key, base, &(self.resolver)())?;
            self.show(Pinnable::from(&Slice::from(value)));
        }
        Ok(self.shown)
    }
}
