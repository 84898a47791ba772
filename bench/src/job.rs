//! The protocol between runner and worker: JSON, one object a line.
//!
//! 1. The worker writes [`Line::Hello`].
//! 2. The runner writes a [`Request`], and after it the plan of its job if plans are
//!    [`Plans::Told`].
//! 3. The worker writes [`Line::Progress`], at least once a second, ends with [`Line::Report`],
//!    [`Line::Survived`] or [`Line::Failed`], and exits; or with [`Line::Left`], and waits to be
//!    killed.

mod report;

pub use report::{Held, Latency, Phase, Report, Throughput, Transactions, Usage, Verified};

use crate::{
    engine::{Class, Config, Failure, Isolation},
    keys::KeyStyle,
    order::Order,
    values::{Shape, ValueStyle},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version of the protocol.
pub const PROTOCOL: u32 = 2;

/// An engine that a worker can drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// The id of the engine.
    pub engine: String,
    /// Its version.
    pub version: String,
}

/// The first line of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of the protocol that it speaks.
    pub protocol: u32,
    /// The engines that it can drive.
    pub engines: Vec<EngineInfo>,
    /// Where its plans come from.
    #[serde(default)]
    pub plans: Plans,
}

/// Where the plans of a worker come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Plans {
    /// It draws them from the job.
    #[default]
    Drawn,
    /// It reads them after the request of a job, in the form that `told` describes.
    Told,
}

/// The progress of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The phase.
    pub phase: String,
    /// Operations done in this phase.
    pub done: u64,
    /// Operations of this phase; 0 if they are not counted.
    pub total: u64,
    /// Operations of the last second.
    pub second_ops: u64,
}

/// A line of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The engines and the protocol of the worker.
    Hello(Hello),
    /// The progress of the worker.
    Progress(Progress),
    /// The measurements.
    Report(Box<Report>),
    /// The commits that another worker left.
    Survived(Survived),
    /// The data left behind; the worker can now be killed.
    Left(Left),
    /// The reason of a failure.
    Failed(Failure),
}

/// The line of the runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// One row.
    Job(Box<Job>),
    /// A part of a crash test.
    Crash(CrashTest),
    /// The database of a row in [`State::Killed`]. The worker seeds it into the store of the job,
    /// where it must be the first, without settling or closing. It writes a [`Line::Left`] and
    /// waits to be killed. An engine that by its own claim may lose commits then is unsupported.
    Leave(Box<Job>),
}

/// A test of what an acknowledged commit survives: one worker commits until it is killed, and
/// another counts the remaining commits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrashTest {
    /// The engine.
    pub engine: String,
    /// A directory that both workers use.
    pub dir: PathBuf,
    /// The configuration of the database.
    pub config: Config,
    /// The part of the test.
    pub step: CrashStep,
    /// Upper bound of the commits.
    pub commits: u32,
}

/// A part of a crash test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrashStep {
    /// Puts the ids from 0 on in version 1: keys of 16 bytes, values of 100 bytes that compress by
    /// half, each as a commit of its own. After each it writes a [`Line::Progress`] whose `done` is
    /// their number. At the end it waits to be killed.
    Commit,
    /// Opens the database and reads those ids.
    Count,
}

/// The commits found after a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survived {
    /// The class that the engine claims for acknowledged commits.
    pub class: Class,
    /// Number of commits present, up to the first missing one.
    pub found: u64,
    /// Number of commits present beyond it.
    pub beyond: u64,
}

/// A database that a kill will leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Acknowledged operations.
    pub acknowledged: u64,
}

/// One row on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The engine.
    pub engine: String,
    /// An empty directory for this job.
    pub dir: PathBuf,
    /// The configuration of databases.
    pub config: Config,
    /// The work to do.
    pub work: Work,
    /// Seconds after which a measured phase is cut off and reported as capped.
    pub cap_seconds: f64,
    /// The directory of the seeded database, which each pass copies. The first pass that finds it
    /// empty fills it; without a directory, each pass seeds its own database. In [`State::Killed`]
    /// a worker with [`Request::Leave`] has filled it.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// The part of the row to do.
    #[serde(default)]
    pub extent: Extent,
}

/// The part of a row to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// All passes.
    #[default]
    Full,
    /// The throughput pass and its verification, without latencies and compaction.
    Throughput,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Number of seeded ids, from 0 on.
    pub keys: u32,
    /// The mapping of ids to keys.
    #[serde(default)]
    pub key_style: KeyStyle,
    /// Length of a key.
    pub key_bytes: u32,
    /// The contents of values.
    #[serde(default)]
    pub value_style: ValueStyle,
    /// Length of a value.
    pub value_bytes: u32,
    /// Share of a value that compresses away.
    pub compressible_percent: u32,
    /// Threads that drive the engine. Thread t of T owns the ids that are t modulo T.
    pub threads: u32,
    /// The phases before the measured one.
    pub seed: Vec<Seed>,
    /// The state of the database before the measured phase.
    pub state: State,
    /// Whether the throughput pass is done twice before it counts, so that caches are warm; for
    /// rows that write nothing.
    #[serde(default)]
    pub warm_up: bool,
    /// The measured phase.
    pub run: Run,
}

impl Work {
    /// Bytes of a key and its value.
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }

    /// The shape of values.
    #[must_use]
    pub fn values(&self) -> Shape {
        let (style, bytes) = (self.value_style, self.value_bytes);
        Shape { style, bytes, compressible_percent: self.compressible_percent }
    }

    /// Upper bound of the ids: the seeded ones and those that the measured phase inserts.
    #[must_use]
    pub fn ids(&self) -> u64 {
        let inserts = match self.run.op {
            Op::YcsbD | Op::YcsbE | Op::MixedInsert | Op::Queue => self.run.ops,
            _ => 0,
        };
        u64::from(self.keys) + inserts
    }
}

/// A phase before the measured one, timed on its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// The operation.
    #[serde(default)]
    pub op: SeedOp,
    /// The order of keys.
    #[serde(default)]
    pub order: Order,
    /// Number of operations in percent of the keys; more than 100 repeats keys.
    #[serde(default = "all_percent")]
    pub percent: u32,
    /// Operations of a commit.
    #[serde(default = "seed_batch")]
    pub batch: u32,
}

fn all_percent() -> u32 {
    100
}

fn seed_batch() -> u32 {
    1000
}

/// The operation of a seed phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedOp {
    /// Puts.
    #[default]
    Put,
    /// Deletes.
    Delete,
    /// One range delete of the first ids; the row has one thread.
    DeleteRange,
}

/// The state of the database before the measured phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As the seed left it. Rows that write, except those that compact, first wait for the seed's
    /// background work, so that they pay for their own only.
    #[default]
    AsIs,
    /// Background work is done.
    Settled,
    /// Compacted as far as the engine can.
    Compacted,
    /// Closed and reopened.
    Reopened,
    /// Background work is done, and caches are empty. Each pass closes the database, drops it from
    /// the page cache, and includes the opening in its time. If openings are measured, it is
    /// dropped before each.
    Cold,
    /// Left by a killed process: each opening finds a fresh copy.
    Killed,
}

/// The measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The operation.
    pub op: Op,
    /// The order of keys.
    #[serde(default)]
    pub order: Order,
    /// Number of operations.
    pub ops: u64,
    /// Writes of a commit.
    #[serde(default = "one")]
    pub batch: u32,
    /// Share of reads, for `mixed`.
    #[serde(default = "half_percent")]
    pub reads_percent: u32,
    /// Entries of a range or keys of a range delete.
    #[serde(default = "range")]
    pub range: u32,
    /// The latency pass runs at this share of the throughput, at a fixed rate; 0 for a closed loop.
    /// Of a row that runs for a time, the throughput is that of the median second.
    #[serde(default)]
    pub open_loop_percent: u32,
    /// The latency pass runs at this rate of operations a second, the same for all engines; 0 for
    /// none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub open_loop_per_s: u64,
    /// How threads of an open loop wait until an operation is due.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits: Waits,
    /// The isolation level that transactions ask for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub isolation: Isolation,
    /// Number of transactions that are held open meanwhile.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held: u32,
}

/// How a thread waits until an operation is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// It looks at the clock again and again, as a program that computes: background threads find
    /// no idle processor.
    #[default]
    Spinning,
    /// It sleeps.
    Sleeping,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> u32 {
    1
}

fn half_percent() -> u32 {
    50
}

fn range() -> u32 {
    100
}

/// A measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Sets values.
    Put,
    /// Deletes keys that exist.
    Delete,
    /// Half puts, half deletes, interleaved.
    PutDelete,
    /// Reads keys.
    Get,
    /// Reads keys that do not exist.
    GetMiss,
    /// Seeks a key.
    Seek,
    /// Seeks a key and reads entries from there.
    Range,
    /// Reads everything; an operation is an entry.
    Scan,
    /// Reads everything backwards.
    ScanReverse,
    /// Reads everything by the engine's ordinary iterator, if scans use another.
    Iterate,
    /// Gets and puts, interleaved.
    Mixed,
    /// Gets of keys that exist and puts of new ones, interleaved.
    MixedInsert,
    /// YCSB A: half reads, half updates.
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB C: reads.
    YcsbC,
    /// YCSB D: 95 % reads of the latest keys, 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % ranges of 1 to 100 entries, 5 % inserts.
    YcsbE,
    /// YCSB F: half reads, half reads with an update of the value read.
    YcsbF,
    /// Puts at the end, finds the first key, deletes it; a cycle is an operation.
    Queue,
    /// Deletes ranges.
    RangeDelete,
    /// Closes, opens and reads a key.
    Open,
    /// Compacts; an operation is an entry.
    Compact,
    /// Sets values of ascending keys, each batch past the log; an operation is a put.
    Ingest,
    /// Sets values, each batch in a transaction; an operation is a put.
    TransactionPut,
    /// A transaction that reads a counter and sets it to one more.
    Increment,
    /// A transaction that reads a range of counters and sets the first of them to one more.
    RangeIncrement,
    /// A transaction that moves an amount from one account to another.
    Transfer,
    /// A transaction that sets the value of a key that has none.
    InsertAbsent,
}

impl Op {
    /// Whether it changes the database.
    #[must_use]
    pub fn writes(self) -> bool {
        !matches!(
            self,
            Self::Get
                | Self::GetMiss
                | Self::Seek
                | Self::Range
                | Self::Scan
                | Self::ScanReverse
                | Self::Iterate
                | Self::YcsbC
                | Self::Open
        )
    }

    /// Whether it reads.
    #[must_use]
    pub fn reads(self) -> bool {
        !matches!(
            self,
            Self::Put | Self::Delete | Self::PutDelete | Self::Ingest | Self::TransactionPut
        )
    }

    /// Whether its threads change the same keys, in transactions. The histories of the threads then
    /// give the expected contents of the database.
    #[must_use]
    pub fn competes(self) -> bool {
        matches!(self, Self::Increment | Self::RangeIncrement | Self::Transfer | Self::InsertAbsent)
    }

    /// Whether it both inserts new keys and reads. A repetition on the same database would
    /// overwrite these keys instead, which may have another cost.
    #[must_use]
    pub fn inserts(self) -> bool {
        matches!(self, Self::MixedInsert | Self::YcsbD | Self::YcsbE)
    }
}
