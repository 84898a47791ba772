//! What a walk over keys may decide for itself: which keys, and whether their values are wanted.

use crate::key_range::{KeyRange, read_range};
use siltdb_base::cursor::Fetch;
use siltdb_engine::read::ReadRange;

/// What a [`Cursor`](crate::Cursor) or an [`Iter`](crate::Iter) walks over. The default is
/// everything.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{Read, ReadOptions};
///
/// for key in ["a:1", "a:2", "b:1"] {
///     db.put(key, "value")?;
/// }
/// let options = ReadOptions::new().prefix("a:").keys_only(true);
/// let mut keys = db.iter_with(&options)?.map(|pair| pair.map(|(key, _)| key));
/// assert_eq!(keys.next().transpose()?.as_deref(), Some(&b"a:1"[..]));
/// assert_eq!(keys.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    pub(crate) range: ReadRange,
    pub(crate) fetch: Fetch,
}

impl ReadOptions {
    /// Everything, with values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The keys of a range alone: a cursor stands nowhere beyond it, wherever it is sent. A range
    /// whose start lies behind its end is empty. Replaces an earlier range or prefix.
    #[must_use]
    pub fn range(mut self, range: impl KeyRange) -> Self {
        self.range = read_range(&range);
        self
    }

    /// The keys alone that begin with `prefix`. Replaces an earlier range or prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.range = ReadRange::prefix(prefix.as_ref());
        self
    }

    /// Whether values are left out; default: false. They are shown as empty then. No operand is
    /// merged, and a value that has a block of its own in a table (one of about
    /// [`block_bytes`](crate::FamilyOptions::block_bytes) or more) is not read. Damage to what is
    /// not read is not noticed.
    #[must_use]
    pub fn keys_only(mut self, keys_only: bool) -> Self {
        self.fetch = if keys_only { Fetch::KeysOnly } else { Fetch::Values };
        self
    }
}
