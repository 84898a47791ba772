//! SiltDB: an embedded, ordered key-value storage engine.
//!
//! A database is a directory. It holds *families*, each an ordered map from byte strings to byte
//! strings. A batch over any number of families is atomic, also when the process is killed. Readers
//! never wait for writers, and each read sees one consistent state.
//!
//! ```
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("data");
//! use siltdb::{Db, Read};
//!
//! let db = Db::open(path)?;
//! db.put(b"key", b"value")?;
//! assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Committed writes survive a killed process. They survive a power loss once they are synced
//! ([`Durability`]).
//!
//! # The verbs
//!
//! A verb has the same name on every type. Its form with `_with` takes options; the plain form uses
//! the defaults. The trait [`Read`] has the verbs that read. A write directly to a [`Db`] goes to
//! its family `default`. The other methods of [`Db`] concern the whole database, those of
//! [`Family`] one family.
//!
//! | verbs | [`Db`] | [`Family`] | [`Snapshot`] | [`WriteBatch`] |
//! |---|:-:|:-:|:-:|:-:|
//! | *read a key* `get` `read` `get_into` `contains` `value_len` | default | ✓ | ✓ | |
//! | *many keys* `get_many` | default | ✓ | ✓ | |
//! | *as a stream* `get_reader` | default | ✓ | ✓ | |
//! | *its expiry* `expires_at` `get_expiring` | default | ✓ | ✓ | |
//! | *its neighbours* `get_lt` `get_le` `get_gt` `get_ge` | default | ✓ | ✓ | |
//! | *the ends* `first` `last` `is_empty` | default | ✓ | ✓ | |
//! | *ranges* `iter` `iter_with` `range` `prefix` `count` | default | ✓ | ✓ | |
//! | *cursors* `cursor` `cursor_with` | default | ✓ | ✓ | |
//! | *write a key* `put` `put_for` `delete` `merge`, `_with` | default | ✓ | | ✓ |
//! | *with a contract* `put_until` `single_delete` | | | | ✓ |
//! | *a range* `delete_range` `delete_prefix`, `_with` | default | ✓ | | ✓ |
//! | *all keys* `clear` | | ✓ | | |
//! | *many writes* `write` `write_with` `batch_from_bytes` | all | | | |
//! | *look into them* `operations` `as_bytes` `len` `bytes` | | | | ✓ |
//! | *families* `create_family` `family_or_create` `rename_family` `drop_family` | ✓ | | | |
//! | *with the data of another* `clone_family` `clone_family_at` | ✓ | | | |
//! | *branches* `create_branch`, `_with`, `drop_branch` `rename_branch` `checkout` | all | | | |
//! | *find them* `branch` `branches` `checked_out`, of a [`Branch`] `family` | all | | | |
//! | *compare and merge them* `diff` `diff_families` `merge_branch`, `_with` | all | | | |
//! | *with data* `prepare_family`, then `create_family` `drop_family` | ✓ | | | ✓ |
//! | *find them* `family` `family_by_id` `default_family` `families` | ✓ | | | |
//! | *locks*, of a [`Transaction`] `get_for_update` `lock_key` `lock_range` | | | | |
//! | *a fixed state* `snapshot`, of a family `family` | all | | ✓ | |
//! | *earlier states* `set_retention_floor` `retention_floor` `snapshot_at` | all | | | |
//! | *transactions* `begin` `begin_with` `wait_durable`, of one [`Transaction`] | all | | | |
//! | *in two phases* `prepared` `commit_prepared` `rollback_prepared`, `_with` | all | | | |
//! | *options* `options` | all | ✓ | | |
//! | *types* `typed`, of a family `key_order` | ✓ | ✓ | | |
//! | *while in use* `set_options` | | ✓ | | |
//! | *memory* `set_cache_bytes` | all | | | |
//! | *bulk loading* `ingest` | all | ✓ | | |
//! | *of sorted entries* `ingest_sorted`, of a file [`TableFileWriter`] | | ✓ | | |
//! | *upkeep* `flush` `compact` `compact_with` `stats` `compression_stats` | all | ✓ | | |
//! | *of a range* `compact_range`, `_with`, `size_of` | | ✓ | | |
//! | *what was committed* `subscribe` | all | ✓ | | |
//! | *transactions* `begin` `update` `view` | all | | | |
//! | *read and write a key* `compare_and_swap` `put_if_absent` `take`, `_with` | default | ✓ | | |
//! | `fetch_and_update` `update_and_fetch` `pop_first` `pop_last`, `_with` | default | ✓ | | |
//! | *change its expiry* `touch` `persist` `touch_with` | default | ✓ | | |
//! | *unique numbers* `next_id` | default | ✓ | | |
//! | *nested maps* `bucket` `reclaim_buckets` | | ✓ | `bucket` | |
//! | *durability* `sync_wal` `close` | all | | | |
//! | *background work* `settle` `run_job` `background_error` | all | | | |
//! | *hold it back* `pause_background` `cancel_compactions` | all | | | |
//! | *damage in use* `scrub` `last_scrub` | all | | | |
//! | *damage* `check`, without opening [`check()`] [`salvage`] [`inspect`] | all | | | |
//! | *a copy* `checkpoint` `backup`, `_with`; of them [`backup::Backups`] | all | | | |
//! | *one file* `archive` `import_archive`, `_with`; to read it [`archive::Archive`] | all | | | |
//! | *beside a writer* `open_follower`, of a [`Follower`] `catch_up` `wait_for` `db` | all | | | |
//! | *write a value as a stream* `put_reader`, `_with` | | ✓ | | |
//! | *tiers* `freeze` `thaw`, `_with` | | ✓ | | |
//! | *places* `open` `temporary` `destroy` `list_families` `path` | all | | | |
//!
//! A [`Transaction`] reads like a [`Snapshot`] and writes like a [`WriteBatch`]: it has their verbs
//! for keys and ranges. It adds `commit` `prepare` `rollback` `reset` `savepoint` `rollback_to`
//! `release` `family` `snapshot_reads`. A [`PreparedTransaction`] has `commit` `rollback`.
//! [`Isolation`] defines which effects of other transactions it may see.
//!
//! A [`TypedFamily`] has the verbs of a family with keys and values of types ([`Key`], [`Value`]),
//! and `in_snapshot` `in_transaction` `in_batch`. Verbs that concern neither, such as `flush`, are
//! those of its [`source`](TypedSource::source).
//!
//! *default*: of the default family. *all*: of the whole database. A range is anything that
//! implements [`KeyRange`]. [`Options::set`] and [`FamilyOptions::set`] take options by name, and
//! [`merge`] makes merge operators from functions. An [`ErrorKind`] says how a caller can react to
//! an error, and has a stable number.
//!
//! Limits: keys up to 64 KiB ([`KEY_BYTES_MAX`]) and values up to 4 GiB - 1 MiB - 1
//! ([`VALUE_BYTES_MAX`]). Both may be empty. Batches up to 4 GiB - 5; at most 65,536 families.
#![forbid(unsafe_code)]

mod reads;
mod source;
mod key_range;
mod expiry;
mod read_options;
mod iter;
mod read;
mod write_options;
mod deletion;
mod operation;
mod key;
mod key_types;
mod key_order;
mod value;
mod options;
mod named;
pub mod merge;
mod family;
mod batch;
mod snapshot;
mod isolation;
mod transaction;
mod update;
mod single_key;
mod bucket;
mod db;
mod db_write;
mod history;
mod subscription;
mod db_update;
mod touch;
mod db_upkeep;
mod ingestion;
mod table_file;
mod typed;
mod db_prepared;
mod follower;
mod place;
mod checkpoint;
mod branch;
pub mod backup;
pub mod archive;
mod tier;
pub mod inspect;
pub mod salvage;
mod upgrade;
pub mod testing;

/// Compiles the examples of the README with those of the library.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Compiles the examples of the pages for users.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/async.md")]
#[doc = include_str!("../../../docs/tuning.md")]
#[doc = include_str!("../../../docs/change-feed.md")]
#[doc = include_str!("../../../docs/follower.md")]
#[doc = include_str!("../../../docs/history.md")]
#[doc = include_str!("../../../docs/key-orders.md")]
#[doc = include_str!("../../../docs/operations.md")]
#[doc = include_str!("../../../docs/bulk.md")]
#[doc = include_str!("../../../docs/compaction-filters.md")]
#[doc = include_str!("../../../docs/tiers.md")]
#[doc = include_str!("../../../docs/two-phase-commit.md")]
#[doc = include_str!("../../../docs/coming-from/rocksdb.md")]
#[doc = include_str!("../../../docs/coming-from/sled-redb-fjall.md")]
pub struct UserPages;

pub use batch::WriteBatch;
pub use branch::{
    Branch, BranchDiff, BranchInfo, BranchOptions, BranchValue, KeyDifference, MergeOptions,
};
pub use bucket::{
    BUCKET_DEPTH_MAX, BUCKET_IDS_KEY, BUCKET_KEY_PREFIX, BUCKET_NAME_BYTES_MAX, Bucket,
    BucketCursor, BucketIter, BucketTarget,
};
pub use checkpoint::CheckpointOptions;
pub use db::{Db, check};
pub use db_upkeep::{CompactOptions, ScrubOptions};
pub use expiry::Expiry;
pub use family::Family;
pub use follower::Follower;
pub use history::RetentionFloor;
pub use ingestion::Ingestion;
pub use isolation::{Isolation, TransactionOptions};
pub use iter::{Cursor, Iter, Keys};
pub use key::{Key, KeyReader, put_delimited};
pub use key_order::KeyOrder;
pub use key_range::KeyRange;
pub use key_types::{Caseless, KeyForm, KeyPrefix, LittleEndian};
pub use operation::{Action, Operation, Operations};
pub use options::{
    CompactionFilter, CompactionStrategy, Compression, Create, Durability, FamilyOptions,
    FilterDecision, FilteredEntry, LogIo, MergeOperator, Options, PrefixExtractor, ReadIo,
    RecoveryMode, TableKind,
};
pub use read::Read;
pub use read_options::ReadOptions;
pub use siltdb_base::{
    cancel::CancelToken,
    error::{Error, ErrorKind, Result},
    id::{DatabaseId, FamilyId},
    limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    slice::Slice,
};
pub use siltdb_engine::{
    copies::ingest::Ingested,
    engine::pause::BackgroundPause,
    jobs::request::CompactProgress,
    kit::copying::CopyProgress,
    lock_state::lock_table::LockMode,
    memory::MemoryStats,
    read::stream::ValueStream,
    reports::{
        check_report::{CheckProgress, CheckReport},
        kept::{KeptFiles, LostFiles},
        scrub_report::ScrubReport,
    },
    stats::Stats,
};
pub use siltdb_services::{
    adopt::{AdoptionReport, ColdAdoption},
    branch_merge::{ConflictingKey, MergeReport, OnConflict},
    checkpoint::Checkpoint,
    compression_stats::CompressionStats,
};
pub use siltdb_tree::read::range_size::RangeSize;
pub use single_key::Swap;
pub use snapshot::Snapshot;
pub use subscription::{
    Commit, Event, FamilyChange, KeyChange, KeyChanges, SubscribeOptions, Subscription,
};
pub use table_file::{TableFileInfo, TableFileWriter};
pub use transaction::{
    CommitInfo, Transaction, prepare::PreparedTransaction, snapshot_reads::SnapshotReads,
};
pub use typed::{
    TypedBatch, TypedChange, TypedCursor, TypedEvent, TypedFamily, TypedIngestion, TypedIter,
    TypedSource, TypedSubscription,
};
pub use update::UpdateOptions;
pub use upgrade::{DatabaseFormat, upgrade};
pub use value::Value;
#[cfg(feature = "serde")]
pub use value::postcard::Postcard;
pub use write_options::WriteOptions;
