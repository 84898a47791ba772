//! What a flush or a compaction writes of what it reads: everything that a reader can still see.
//!
//! It neither reads files nor chooses inputs. What lies deeper than the output it asks a closure.
//!
//! Snapshots cut the order of the database into *stripes*: a stripe holds the sequence numbers up
//! to one snapshot and newer than the one before. No reader looks at the database from within a
//! stripe, only from its upper end. So of two versions of a key in one stripe no reader sees the
//! older, unless the newer needs it. The published present counts as a snapshot. A version is
//! *absent* if by `visible::resolve` it says that there is no value.
//!
//! With a retention floor readers look from every sequence number from the floor on. So the floor
//! takes the place of the present here: what is newer than the floor is in no stripe.
//!
//! Of the point entries of each key, from the newest to the oldest:
//!
//! 1. An entry newer than the present, or than the retention floor, is kept as it is, and decides
//!    nothing: a reader may yet look from any point among them.
//! 2. An entry older than a range tombstone of its own stripe is dropped, and so is all that is
//!    older in the stripe. The tombstone itself, kept by rule 11, says all they said.
//! 3. A value (put, expiring or separated) is kept, and all that is older in its stripe is dropped.
//!    But rule 6 goes on for each `SingleDelete` there. A later `SingleDelete` may take the value
//!    away; the value that the dropped one should have cancelled would then come back from below.
//! 4. An expired value is from then on a deletion.
//! 5. A deletion is kept as long as it hides something: all that is older in its stripe is
//!    dropped, and the deletion waits. If the next older entry that is kept says something else
//!    than "absent", the deletion is written before it. If that is a deletion too, the older one
//!    says it for both. If there is none, the deletion is written only if something deeper has the
//!    key.
//! 6. A `SingleDelete` and the value that is next older in the same stripe both vanish. If a range
//!    tombstone covers what is next older, rule 2 holds and the `SingleDelete` vanishes alone; so
//!    does it above another `SingleDelete`. Above a deletion or an operand it becomes a `Delete`.
//!    If there is nothing older in the stripe, it waits as a deletion does. *The contract:* the key
//!    is put, without expiry, at most once between two `SingleDelete`s, or before the first. It is
//!    never merged or deleted otherwise, except by range. The contract was broken if the pair would
//!    bring an older value back. Where the entries at hand show that, a `Delete` takes the pair's
//!    place. What lies deeper cannot be checked.
//! 7. Merge operands wait for the rest of their stripe. If a plain value follows, or an absent
//!    version, they are folded into one put with the newest operand's sequence number. Operands on
//!    an expiring value are not (they outlive it), nor those on a separated one (it is not read
//!    here). If nothing follows, older stripes are empty and nothing deeper has the key, they are
//!    folded without a base.
//! 8. Operands that are not folded are combined where the operator can, and kept. Without
//!    an operator, or if it fails or makes something too long to be stored, they are kept as they
//!    are.
//! 9. Rules 2 to 8 work on each stripe by itself, so every snapshot sees what it saw.
//! 10. A stretch of entries that [`may_copy::may_copy`] passes unexamined: rule 3 would keep each.
//!
//! Of the range tombstones over each fragment:
//!
//! 11. Of each stripe the newest is kept, and each that is newer than the present or the floor.
//! 12. One in the oldest stripe is dropped if nothing deeper has keys in the fragment: whatever
//!     else it hides is dropped by rule 2.
//!
//! With a compaction filter, of the newest entry of a key in a compaction:
//!
//! 13. A value (put, expiring or separated) is shown to the filter, if no live snapshot sees it,
//!     there is no retention floor, and it is not newer than the present. One that the filter drops
//!     becomes a deletion with its sequence number, by rule 5. A changed value takes its place. A
//!     snapshot that is taken while the compaction runs reads what was there when it was taken: the
//!     engine keeps the view for it. Nothing passes unexamined: rule 10 does not apply.

pub mod stripes;
pub mod range;
pub mod may_copy;
pub mod entry_filter;
pub mod entries;

#[cfg(test)]
mod tests;
