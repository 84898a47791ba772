//! The value of one key from its versions.
//!
//! Where the versions come from, and which are too new, is the caller's business.

use crate::visible::judge::{Resolver, Verdict, depends_on_time, judge};
use siltdb_base::{error::Result, id::SequenceNumber, key::EntryKind, slice::Slice};

/// A version of the key looked for.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its place in the order; not newer than the snapshot.
    pub sequence: SequenceNumber,
    /// What it does.
    pub kind: EntryKind,
    /// Its payload.
    pub value: Slice,
    /// The newest range tombstone over the key that the snapshot sees, as far as is known.
    ///
    /// It must be known from every source that can hold a tombstone newer than this version:
    /// those searched so far, if the caller goes from the newest source to the oldest.
    pub covering: Option<SequenceNumber>,
}

/// The value of `key`, if it has one.
///
/// `next_older` yields the versions from the newest to the oldest; it is not asked for more than
/// needed. Nor is `resolver`: most values speak for themselves, and looking at the clock costs a
/// tenth of a lookup.
///
/// # Errors
/// What `next_older` fails with; corruption; `Unsupported` where the resolver lacks what is needed.
#[inline]
pub fn resolve_point<'a>(
    key: &[u8],
    resolver: impl Fn() -> Resolver<'a>,
    mut next_older: impl FnMut() -> Result<Option<Version>>,
) -> Result<Option<Slice>> {
    // Stays without an allocation while there is no operand.
    let mut operands: Vec<Slice> = Vec::new();
    let base = loop {
        let Some(Version { sequence, kind, value, covering }) = next_older()? else { break None };
        let now_ms = if depends_on_time(kind) { resolver().now_ms } else { 0 };
        match judge(kind, &value, sequence, covering, now_ms)? {
            Verdict::Value(tail) => {
                let start = value.len() - tail.len();
                break Some(if start == 0 { value } else { value.slice(start..value.len()) });
            }
            Verdict::Blob(pointer) => break Some(resolver().fetch(&pointer)?),
            Verdict::Absent => break None,
            Verdict::Operand(_) => operands.push(value),
        }
    };
    if operands.is_empty() {
        return Ok(base);
    }
    let value = resolver().combine(key, base.as_deref(), &operands)?;
    Ok(Some(Slice::from(value)))
}
