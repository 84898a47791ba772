//! Ranges of keys in the arguments of public methods.
//!
//! `KeyRange` is a trait of its own because `RangeBounds` has two implementations for a range of
//! references. With it the compiler could not infer the type of `&start..&end` or `..`.

use siltdb_base::slice::Slice;
use siltdb_engine::read::ReadRange;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: any Rust range over a type that is bytes, or a pair of bounds.
///
/// A range whose start is greater than its end is empty, and is not an error.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::Read;
/// use std::ops::Bound;
///
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// let (start, end) = (vec![b'a'], vec![b'c']);
/// assert_eq!(db.count(..)?, 3);
/// assert_eq!(db.count("b"..)?, 2);
/// assert_eq!(db.count(&start..&end)?, 2);
/// assert_eq!(db.count(&start..=&end)?, 3);
/// assert_eq!(db.count((Bound::Excluded("a"), Bound::Unbounded))?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyRange {
    /// The lower bound.
    fn start(&self) -> Bound<&[u8]>;

    /// The upper bound.
    fn end(&self) -> Bound<&[u8]>;
}

macro_rules! key_range {
    ($range:ty, $self:ident, $start:expr, $end:expr) => {
        impl<K: AsRef<[u8]>> KeyRange for $range {
            fn start(&$self) -> Bound<&[u8]> {
                $start
            }

            fn end(&$self) -> Bound<&[u8]> {
                $end
            }
        }
    };
}

use Bound::{Excluded, Included, Unbounded};
key_range!(Range<K>, self, Included(self.start.as_ref()), Excluded(self.end.as_ref()));
key_range!(RangeFrom<K>, self, Included(self.start.as_ref()), Unbounded);
key_range!(RangeTo<K>, self, Unbounded, Excluded(self.end.as_ref()));
key_range!(
    RangeInclusive<K>,
    self,
    Included(RangeInclusive::start(self).as_ref()),
    Included(RangeInclusive::end(self).as_ref())
);
key_range!(RangeToInclusive<K>, self, Unbounded, Included(self.end.as_ref()));
key_range!(
    (Bound<K>, Bound<K>),
    self,
    self.0.as_ref().map(AsRef::as_ref),
    self.1.as_ref().map(AsRef::as_ref)
);

impl KeyRange for RangeFull {
    fn start(&self) -> Bound<&[u8]> {
        Unbounded
    }

    fn end(&self) -> Bound<&[u8]> {
        Unbounded
    }
}

impl<R: KeyRange + ?Sized> KeyRange for &R {
    fn start(&self) -> Bound<&[u8]> {
        R::start(self)
    }

    fn end(&self) -> Bound<&[u8]> {
        R::end(self)
    }
}

/// Converts a range to the form that the engine reads.
pub(crate) fn read_range(range: &impl KeyRange) -> ReadRange {
    ReadRange { start: range.start().map(Slice::copy_from), end: range.end().map(Slice::copy_from) }
}
