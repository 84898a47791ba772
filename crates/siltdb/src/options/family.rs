//! Options of a family: its tables, values and keys.

use crate::{key_order::KeyOrder, source::whole_ms};
use siltdb_disk::options::{Compression, TableKind};
use siltdb_tree::{merge_operator::MergeOperator, options::TreeOptions};
use std::{sync::Arc, time::Duration};

/// Options of a family. They are stored, and [`Family::set_options`](crate::Family::set_options)
/// changes them while the family is in use.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{Compression, FamilyOptions};
///
/// let options = FamilyOptions::new().compression(Compression::None).block_bytes(16 << 10);
/// let images = db.create_family("images", options)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct FamilyOptions {
    pub(crate) tree: TreeOptions,
}

impl FamilyOptions {
    /// The defaults: block tables, 4 KiB blocks, LZ4, 10 filter bits a key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Compression of blocks. A block that does not shrink by an eighth is stored uncompressed. So
    /// is a value above 32 MiB, which is written without a copy. Default: LZ4.
    ///
    /// Every build reads every codec. Writing [`Compression::Zstd`] takes the cargo feature `zstd`,
    /// which compiles C; without it the call that uses these options fails with `Unsupported`.
    /// Opening a database with such a family also does, unless it is read only. Separated values
    /// are compressed in the same way ([`FamilyOptions::value_threshold`]).
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.tree.table.compression = compression;
        self
    }

    /// Compression of tables in level 0, 1 and so on, at most 7; the last one holds for all deeper
    /// levels, too. Default: none, and [`FamilyOptions::compression`] holds for all levels.
    ///
    /// Level 6 is the last. Most data lies there, and is rewritten least: compress it most. A
    /// table keeps its compression until it is rewritten; between levels that differ, tables are
    /// rewritten instead of moved. A full compaction brings a changed compression to all tables.
    ///
    /// ```
    /// use siltdb::{Compression, FamilyOptions};
    ///
    /// let young = [Compression::None; 5];
    /// let levels = [&young[..], &[Compression::Lz4, Compression::Snappy]].concat();
    /// let options = FamilyOptions::new().compression_per_level(&levels);
    /// assert_eq!(options.get("compression_per_level")?, "none,none,none,none,none,lz4,snappy");
    /// # Ok::<(), siltdb::Error>(())
    /// ```
    #[must_use]
    pub fn compression_per_level(mut self, levels: &[Compression]) -> Self {
        self.tree.compression_per_level = levels.to_vec();
        self
    }

    /// Size of the dictionary that each table of [`Compression::Zstd`] is compressed with, in
    /// bytes: 1 KiB to 128 KiB, or 0 for none. Default: 0.
    ///
    /// A table trains its own from its first blocks. Until then it keeps a hundred times as much of
    /// them in memory, but at most a 64th of the budget. A dictionary has at most a tenth of that.
    /// Small rows that are alike gain most. Blocks of such tables are not copied by compactions,
    /// but written anew. A dictionary larger than a hundredth of
    /// [`FamilyOptions::table_bytes`] is made that small, but not below 1 KiB.
    #[must_use]
    pub fn dictionary_bytes(mut self, bytes: u32) -> Self {
        self.tree.table.dictionary_bytes = bytes;
        self
    }

    /// How tables lead from a key to a block. Default: [`TableKind::Block`].
    ///
    /// A table of [`TableKind::BTree`] is opened by its root alone. What else is read of its index
    /// goes through the cache, so that the memory of indexes is bounded whatever the size of the
    /// data. With [`Compression::None`] and [`ReadIo::Map`](crate::ReadIo::Map) nodes and blocks
    /// are searched where they are mapped, and take none of the cache.
    ///
    /// Tables of both kinds are always readable. Flushes and compactions write the chosen kind; a
    /// compaction that copies blocks without reading their entries makes a new index for them.
    #[must_use]
    pub fn table_kind(mut self, kind: TableKind) -> Self {
        self.tree.table.kind = kind;
        self
    }

    /// Size of a block before compression, in bytes: 1 KiB to 1 MiB. Default: 4 KiB.
    #[must_use]
    pub fn block_bytes(mut self, bytes: usize) -> Self {
        self.tree.table.block_bytes = bytes;
        self
    }

    /// Bits of the Bloom filter for each key, at most 32; 0 writes no filter. The default is 10,
    /// for about 1 % of false positives.
    #[must_use]
    pub fn filter_bits_per_key(mut self, bits: u32) -> Self {
        self.tree.table.filter_bits_per_key = bits;
        self
    }

    /// Bits of the filter of level 0, 1 and so on, in the form of
    /// [`FamilyOptions::compression_per_level`]; 0 writes no filter. Default: none, and
    /// [`FamilyOptions::filter_bits_per_key`] holds for all levels.
    ///
    /// Nine of ten keys lie in the last level, so its filter takes nine tenths of the memory, and
    /// helps only lookups of absent keys. More bits above and fewer there lower the reads of a
    /// lookup for the same memory (Monkey, SIGMOD 2017).
    #[must_use]
    pub fn filter_bits_per_level(mut self, levels: &[u32]) -> Self {
        self.tree.filter_bits_per_level = levels.to_vec();
        self
    }

    /// Size at which a table ends and the next begins, in bytes: 1 KiB to 4 GiB. Smaller tables
    /// mean finer compactions and more files. At most half of the files that the process may open
    /// (`ulimit -n`) are tables; a read reopens those beyond. Default: 32 MiB.
    #[must_use]
    pub fn table_bytes(mut self, bytes: u64) -> Self {
        self.tree.table_bytes_target = bytes;
        self
    }

    /// Values of this length or more go to blob files when they are committed, and the tables keep
    /// pointers: 32 bytes or more; 0: never. Default: 0.
    ///
    /// A separated value is written once, whatever compactions do, so that writing long values
    /// costs little more than their bytes. Reading one costs a read of its file, past the block
    /// cache. It suits values from about 4 KiB on. Space of values that were overwritten or deleted
    /// comes back late, as [`FamilyOptions::blob_garbage_percent`] says. A change holds for values
    /// that are written from then on.
    #[must_use]
    pub fn value_threshold(mut self, bytes: u64) -> Self {
        self.tree.value_threshold = bytes;
        self
    }

    /// Size of a blob file at which the next is begun: 4 KiB to 1 TiB. Default: 256 MiB.
    ///
    /// All families share the blob files; the family that writes decides. When the next is begun,
    /// the memtables are flushed, so that an opening after a crash verifies values of few files.
    #[must_use]
    pub fn blob_file_bytes(mut self, bytes: u64) -> Self {
        self.tree.blob_file_bytes = bytes;
        self
    }

    /// The part of a blob file that is garbage, in percent, at which its other values are moved to
    /// another file: 1 to 101. Default: 50; 101: never.
    ///
    /// Garbage is what no table and no memtable points to. A lower number means less space and more
    /// writing. The tables that point to the file are rewritten in the background. While there are
    /// no writes, a tenth suffices, unless this is 101. The file that values are appended to counts
    /// as well once its values are flushed.
    #[must_use]
    pub fn blob_garbage_percent(mut self, percent: u32) -> Self {
        self.tree.blob_garbage_percent_trigger = percent;
        self
    }

    /// Time after which values expire whose write gives no expiry, in whole ms, rounded up; zero
    /// for none. Default: none.
    ///
    /// A put then does what [`put_for`](crate::Family::put_for) with this time does: in the family,
    /// a [`WriteBatch`](crate::WriteBatch), a transaction, or a bucket. The time counts from the
    /// call, so a value in a batch expires as if it had been written at once. A write that gives an
    /// expiry keeps it. Counters of [`next_id`](crate::Family::next_id) and the entries that name
    /// buckets do not expire.
    ///
    /// Values that come from elsewhere keep the expiries that they have: by
    /// [`Db::batch_from_bytes`](crate::Db::batch_from_bytes), [`Db::ingest`](crate::Db::ingest), an
    /// import of an archive, or a merge of branches.
    ///
    /// A changed TTL holds for later writes: the expiry lies with each value. A family with a merge
    /// operator has no TTL, because operands do not expire.
    ///
    /// ```
    /// use siltdb::{FamilyOptions, Options, Read, testing::{ManualClock, MemFs}};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// let clock = Arc::new(ManualClock::at(Duration::ZERO));
    /// let db = Options::new().fs(Arc::new(MemFs::new())).clock(clock.clone()).open("data")?;
    /// let sessions = FamilyOptions::new().ttl(Duration::from_secs(60));
    /// let sessions = db.create_family("sessions", sessions)?;
    /// sessions.put("token", "alice")?;
    /// clock.advance(Duration::from_secs(60));
    /// assert!(!sessions.contains("token")?);
    /// # Ok::<(), siltdb::Error>(())
    /// ```
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.tree.ttl_ms = whole_ms(ttl);
        self
    }

    /// The order of keys: a named encoding that [`Family::typed`](crate::Family::typed) applies to
    /// them. The name is stored, and a family keeps its order. Default: [`KeyOrder::bytewise`].
    /// Options without an order fit every family.
    #[must_use]
    pub fn key_order(mut self, order: KeyOrder) -> Self {
        self.tree.key_order = order.into_stored();
        self
    }

    /// The operator that [`WriteBatch::merge`](crate::WriteBatch::merge) uses. Only its name is
    /// stored: each opening, also the one that creates the family, registers the operator by
    /// [`Options::merge_operator`](crate::Options::merge_operator). One that is not registered is
    /// refused.
    ///
    /// A family without an operator refuses operands. It can get an operator later, and keeps it;
    /// see [`Family::set_options`](crate::Family::set_options) and, for the default family,
    /// [`Options::default_family`](crate::Options::default_family). [`merge`](crate::merge) makes
    /// operators from functions.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use siltdb::{FamilyOptions, MergeOperator, Options, Read, Result};
    /// use std::sync::Arc;
    ///
    /// /// Adds numbers of eight bytes.
    /// #[derive(Debug)]
    /// struct Sum;
    ///
    /// fn number(bytes: &[u8]) -> u64 {
    ///     bytes.try_into().map_or(0, u64::from_le_bytes)
    /// }
    ///
    /// impl MergeOperator for Sum {
    ///     fn name(&self) -> &str {
    ///         "sum"
    ///     }
    ///
    ///     fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
    ///         let sum = operands.iter().map(|operand| number(operand));
    ///         Ok(sum.fold(base.map_or(0, number), u64::wrapping_add).to_le_bytes().to_vec())
    ///     }
    /// }
    ///
    /// let db = Options::new().merge_operator(Arc::new(Sum)).open(dir.path())?;
    /// let options = FamilyOptions::new().merge_operator(Arc::new(Sum));
    /// let visits = db.family_or_create("visits", options)?;
    /// for count in [3_u64, 4] {
    ///     visits.merge(b"page", &count.to_le_bytes())?;
    /// }
    /// assert_eq!(visits.get(b"page")?.as_deref(), Some(&7_u64.to_le_bytes()[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.tree.merge_operator = Some(operator);
        self
    }
}
