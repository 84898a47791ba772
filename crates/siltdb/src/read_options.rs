//! Options of a cursor or iterator: its range, and which values it reads.

use crate::key_range::{KeyRange, read_range};
use siltdb_base::cursor::Fetch;
use siltdb_engine::read::ReadRange;

/// The range of a [`Cursor`](crate::Cursor) or an [`Iter`](crate::Iter), and which values it reads.
/// The default is all keys with values.
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
    /// The length from which on a cursor does not read values in blob files; `None` reads all.
    pub(crate) streamed_from: Option<u64>,
}

impl ReadOptions {
    /// All keys, with values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Restricts reads to a range of keys: no movement of a cursor leaves it. A range whose start
    /// is greater than its end is empty. Replaces an earlier range or prefix.
    #[must_use]
    pub fn range(mut self, range: impl KeyRange) -> Self {
        self.range = read_range(&range);
        self
    }

    /// Restricts reads to the keys that begin with `prefix`. Replaces an earlier range or prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.range = ReadRange::prefix(prefix.as_ref());
        self
    }

    /// Whether to leave values out; default: false. Values are then empty, and no operand is
    /// merged. A value with a block of its own in a table (about
    /// [`block_bytes`](crate::FamilyOptions::block_bytes) or more) is not read. Damage to such a
    /// block is not detected.
    #[must_use]
    pub fn keys_only(mut self, keys_only: bool) -> Self {
        self.fetch = if keys_only { Fetch::KeysOnly } else { Fetch::Values };
        self
    }

    /// Has a cursor leave values of `bytes` bytes and more unread, if they lie in blob files
    /// ([`value_threshold`](crate::FamilyOptions::value_threshold)); by default it reads all. The
    /// cursor shows an empty value in their place, and
    /// [`Cursor::value_reader`](crate::Cursor::value_reader) streams them.
    ///
    /// Values in tables and memtables, and those that merge operands apply to, are shown whatever
    /// their length is. So are all values of an [`Iter`](crate::Iter). With
    /// [`keys_only`](ReadOptions::keys_only) this has no effect.
    #[must_use]
    pub fn stream_from(mut self, bytes: u64) -> Self {
        self.streamed_from = Some(bytes);
        self
    }
}
