//! Every bound of the engine, in one place, so that each can be tested at it and one past it.
//!
//! Options that a user can set are not here; their permitted ranges are.

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// Longest value, in bytes. Lengths on disk are 32 bits wide. What is left is room for the key and
/// for what surrounds both in a record of the log and in a block.
pub const VALUE_BYTES_MAX: usize = u32::MAX as usize - (1 << 20);

/// Longest encoded batch, in bytes: what one log record can carry.
pub const BATCH_BYTES_MAX: usize = u32::MAX as usize - 4;

/// Most operations in one batch.
pub const BATCH_OPERATIONS_MAX: usize = u32::MAX as usize;

/// Longest family name, in bytes.
pub const FAMILY_NAME_BYTES_MAX: usize = 255;

/// Longest id of a prepared transaction, in bytes: those of XA have at most 140.
pub const PREPARED_ID_BYTES_MAX: usize = 255;

/// Most prepared transactions that wait for their decision: a coordinator decides in seconds, so
/// more are a sign that it does not.
pub const PREPARED_MAX: usize = 1 << 10;

/// Most bytes of their writes and locks together, in memory until the decision. The writes are in
/// the manifest as well, once their log is flushed.
pub const PREPARED_BYTES_MAX: usize = 256 << 20;

/// Most families in one database.
pub const FAMILIES_MAX: usize = 1 << 16;

/// Number of ids that a database has for families and branches, which share them and get each id
/// once. It is above any number that a process reaches, and below what would wrap.
pub const FAMILY_IDS_MAX: u32 = u32::MAX / 2;

/// Most bytes of keys and values that the merge of a branch writes: it is one commit, which is in
/// memory as a whole.
pub const BRANCH_MERGE_BYTES_MAX: usize = 256 << 20;

/// Most conflicts that the merge of a branch lists; it counts all of them.
pub const BRANCH_CONFLICTS_LISTED_MAX: usize = 1000;

/// Largest number of a file: a name with a larger one is not ours.
pub const FILE_NUMBER_MAX: u64 = 1 << 62;

/// No process gives out more numbers of files between two edits: that would take years. So a file
/// whose number is farther ahead is none that it made.
pub const FILES_BETWEEN_EDITS_MAX: u64 = 1 << 40;

/// Where a table ends in its file at most, in bytes, and the largest of the counts in its summary.
/// Those of many tables can be added without overflow.
pub const TABLE_END_MAX: u64 = 1 << 48;

/// Levels of a tree: 0 (overlapping, newest first) to 6.
pub const LEVELS: usize = 7;

/// Block size an option may ask for, in bytes.
pub const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 20;

/// Longest data frame before compression, in bytes: the longest value, its key, and what surrounds
/// them. No frame of another kind is longer.
pub const DATA_FRAME_BYTES_MAX: usize = VALUE_BYTES_MAX + 2 * KEY_BYTES_MAX;

/// Raw length from which on a frame of an index is full, in bytes.
pub const INDEX_FRAME_BYTES: usize = 16 << 10;

/// Longest frame of an index before compression, in bytes. It is nearly full before the last block,
/// which may have two of the longest keys and less than 128 bytes of numbers.
pub const INDEX_FRAME_BYTES_MAX: usize = INDEX_FRAME_BYTES + 2 * KEY_BYTES_MAX + 128;

/// Longest node of a B+tree table, in bytes. Its last but one child may have two of the longest
/// keys, and so may the last. Beside them lies the prefix that the last keys share.
pub const NODE_BYTES_MAX: usize = INDEX_FRAME_BYTES + 5 * KEY_BYTES_MAX + 512;

/// Levels of nodes of a B+tree table. A node has two children at least, but for the last ones of a
/// level, and a table less than 2^48 blocks.
pub const NODE_LEVELS_MAX: u32 = 49;

/// Longest frame of range tombstones that is compressed, in bytes before compression. A longer one
/// is stored as it is, so that no short frame claims more than this.
pub const COMPRESSED_TOMBSTONES_BYTES_MAX: usize = 16 << 20;

/// Longest properties of a table, in bytes: enough for the lengths of the index frames of the
/// longest table, each a few bytes.
pub const PROPERTIES_BYTES_MAX: usize = 16 << 20;

/// Most tables that a table lists as replaced, of either kind. A longer list takes too much of a
/// small table. Entries left out cost a salvage without a manifest at most.
pub const REPLACED_TABLES_MAX: usize = 256;

/// Longest window of the log that is prepared ahead of its tail, in bytes.
pub const LOG_WINDOW_BYTES_MAX: usize = 1 << 20;

/// What a file that is appended to holds back before it hands it to the system, in bytes.
pub const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Table files that a process maps at a time; others are read. Systems allow some 65,530 mappings
/// of all kinds.
pub const MAPPINGS_MAX: usize = 1 << 14;

/// Empty ranges that a family remembers: stretches of keys known to be empty.
pub const EMPTY_RANGES_MAX: usize = 64;

/// Readers of a family that look for empty ranges at a time; others find none.
pub const EMPTY_RANGE_CANDIDATES_MAX: usize = 64;

/// Longest key at which an empty range begins or ends, in bytes.
pub const EMPTY_RANGE_KEY_BYTES_MAX: usize = 1 << 10;
