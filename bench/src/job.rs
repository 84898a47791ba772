//! What a worker is told and what it answers: JSON, one object a line.
//!
//! 1. The worker writes [`Line::Hello`].
//! 2. The runner writes a [`Request`].
//! 3. The worker writes [`Line::Progress`], at least once a second, ends with [`Line::Report`],
//!    [`Line::Survived`] or [`Line::Failed`], and exits; or with [`Line::Left`], and waits to be
//!    killed.

use crate::{
    engine::{Class, Config, Facts, Failure},
    keys::KeyStyle,
    order::Order,
    values::{Shape, ValueStyle},
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The protocol of this version.
pub const PROTOCOL: u32 = 1;

/// An engine that a worker can drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// Its id.
    pub engine: String,
    /// Its version.
    pub version: String,
}

/// The first line of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol it speaks.
    pub protocol: u32,
    /// What it can drive.
    pub engines: Vec<EngineInfo>,
}

/// Where a worker stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What it does.
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
    /// Who it is.
    Hello(Hello),
    /// Where it stands.
    Progress(Progress),
    /// What it measured.
    Report(Box<Report>),
    /// What it found of the commits of another.
    Survived(Survived),
    /// What it left behind, now that it can be killed.
    Left(Left),
    /// Why it did not.
    Failed(Failure),
}

/// The line of the runner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// A row.
    Job(Box<Job>),
    /// A part of a crash test.
    Crash(CrashTest),
    /// The database of a row in [`State::Killed`]: the worker seeds it into the store of the job,
    /// where it must be the first, settles and closes nothing, writes a [`Line::Left`], and waits
    /// to be killed. An engine that by its own word may lose commits then is unsupported.
    Leave(Box<Job>),
}

/// What an acknowledged commit survives, tried out: one worker commits until it is killed, another
/// counts what is left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrashTest {
    /// Which engine.
    pub engine: String,
    /// A directory that both use.
    pub dir: PathBuf,
    /// How to open the database.
    pub config: Config,
    /// Which part.
    pub step: CrashStep,
    /// How many commits there are at most.
    pub commits: u32,
}

/// A part of a crash test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrashStep {
    /// Puts the ids from 0 on in version 1, keys of 16 and values of 100 bytes that compress by
    /// half, each a commit of its own, and writes a [`Line::Progress`] after each, whose `done` is
    /// the number of them. Having done all, it waits to be killed.
    Commit,
    /// Opens the database and reads those ids.
    Count,
}

/// What was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survived {
    /// What the engine says that an acknowledged commit survives.
    pub class: Class,
    /// Commits that are there, up to the first that is not.
    pub found: u64,
    /// Commits that are there beyond it.
    pub beyond: u64,
}

/// A database that is there to be left by a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Operations that were acknowledged.
    pub acknowledged: u64,
}

/// One row on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Which engine.
    pub engine: String,
    /// An empty directory of its own.
    pub dir: PathBuf,
    /// How to open databases.
    pub config: Config,
    /// What to do.
    pub work: Work,
    /// Seconds after which a measured phase is cut off and reported as capped.
    pub cap_seconds: f64,
    /// Where the database is kept as the measured phase shall find it, to be copied: filled by the
    /// first pass that finds nothing there. Without, each pass seeds its own. In [`State::Killed`]
    /// it has been filled by a worker that was told to leave it.
    #[serde(default)]
    pub store: Option<PathBuf>,
    /// How much of the row.
    #[serde(default)]
    pub extent: Extent,
}

/// How much of a row is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// All passes.
    #[default]
    Full,
    /// The throughput pass, and what verifies it: nothing is timed call by call or compacted.
    Throughput,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Ids that are seeded: 0 up to this number.
    pub keys: u32,
    /// How ids become keys.
    #[serde(default)]
    pub key_style: KeyStyle,
    /// Length of a key.
    pub key_bytes: u32,
    /// What values are made of.
    #[serde(default)]
    pub value_style: ValueStyle,
    /// Length of a value.
    pub value_bytes: u32,
    /// Share of a value that compresses away.
    pub compressible_percent: u32,
    /// Threads that drive the engine; thread t of T owns the ids that are t modulo T.
    pub threads: u32,
    /// What is written before.
    pub seed: Vec<Seed>,
    /// In which state the measured phase finds the database.
    pub state: State,
    /// Whether the throughput pass is done twice before it counts, so that caches hold what they
    /// can: for rows that write nothing.
    #[serde(default)]
    pub warm_up: bool,
    /// What is measured.
    pub run: Run,
}

impl Work {
    /// Bytes of a key and its value.
    #[must_use]
    pub fn entry_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + u64::from(self.value_bytes)
    }

    /// What values have in common.
    #[must_use]
    pub fn values(&self) -> Shape {
        let (style, bytes) = (self.value_style, self.value_bytes);
        Shape { style, bytes, compressible_percent: self.compressible_percent }
    }

    /// Ids there may ever be: the seeded ones and those that the measured phase inserts.
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
    /// What is done.
    #[serde(default)]
    pub op: SeedOp,
    /// In which order.
    #[serde(default)]
    pub order: Order,
    /// How much of the keys, in percent; more than 100 writes them again.
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

/// What a seed phase does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedOp {
    /// Puts.
    #[default]
    Put,
    /// Deletes.
    Delete,
}

/// In which state the measured phase finds the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As the seed left it. Rows that write, but for those that compact, first wait until the
    /// seed's background work is done: they pay for their own only.
    #[default]
    AsIs,
    /// Background work is done.
    Settled,
    /// Compacted as far as the engine can.
    Compacted,
    /// Closed and opened again.
    Reopened,
    /// Background work is done, and nothing is in memory: each pass closes the database, drops it
    /// from the page cache, and opens it on the clock before it begins. Where openings are
    /// measured, it is dropped before each.
    Cold,
    /// Left by a process that was killed: each opening finds a fresh copy.
    Killed,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// What is done.
    pub op: Op,
    /// In which order of keys.
    #[serde(default)]
    pub order: Order,
    /// How many operations.
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
    /// The latency pass runs at this share of the throughput, at a fixed rate; 0 closes the loop.
    #[serde(default)]
    pub open_loop_percent: u32,
    /// The latency pass runs at so many operations a second instead, the same for all engines; 0
    /// does not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_loop_per_s: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
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
    /// Goes to a key.
    Seek,
    /// Goes to a key and reads entries from there.
    Range,
    /// Reads everything; an operation is an entry.
    Scan,
    /// Reads everything backwards.
    ScanReverse,
    /// Reads everything by the engine's ordinary iterator, where that is not what scans use.
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
    /// YCSB D: 95 % reads of the latest, 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % ranges of 1 to 100 entries, 5 % inserts.
    YcsbE,
    /// YCSB F: half reads, half reads with an update of what was read.
    YcsbF,
    /// Put at the end, find the first, delete it; a cycle is an operation.
    Queue,
    /// Deletes ranges.
    RangeDelete,
    /// Closes, opens and reads a key.
    Open,
    /// Compacts; an operation is an entry.
    Compact,
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
}

impl Op {
    /// Whether it reads.
    #[must_use]
    pub fn reads(self) -> bool {
        !matches!(self, Self::Put | Self::Delete | Self::PutDelete)
    }

    /// Whether it puts keys that are not there yet, and reads: done once more on the same database,
    /// it would overwrite them, which may be another matter to an engine.
    #[must_use]
    pub fn inserts(self) -> bool {
        matches!(self, Self::MixedInsert | Self::YcsbD | Self::YcsbE)
    }
}

/// What a worker measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// What the engine says of itself.
    pub facts: Facts,
    /// The seed phases.
    pub seed: Vec<Phase>,
    /// The measured phase without clocks around calls.
    pub throughput: Throughput,
    /// The measured phase with clocks, if it was done so.
    pub latency: Option<Latency>,
    /// What was compared.
    pub verified: Verified,
    /// Bytes that the measured phase wrote, as the application counts them.
    pub logical_bytes: u64,
    /// Size of the database after it was closed.
    pub db_bytes: u64,
    /// The same after compacting, if it was compacted.
    pub db_bytes_compacted: Option<u64>,
    /// Bytes of the keys and values that the database holds.
    pub live_bytes: u64,
    /// What the process used during the throughput pass.
    pub usage: Usage,
}

/// A seed phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// Operations.
    pub ops: u64,
    /// How long they took.
    pub seconds: f64,
}

/// The throughput pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Throughput {
    /// Operations done.
    pub ops: u64,
    /// How long they took.
    pub seconds: f64,
    /// The same until background work was done.
    pub settled_seconds: f64,
    /// Operations of each second.
    pub samples: Vec<u64>,
    /// It was cut off.
    pub capped: bool,
}

/// The latency pass.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Calls measured.
    pub calls: u64,
    /// Operations of a call.
    pub ops_per_call: u64,
    /// Nanoseconds of a call.
    pub min: u64,
    /// Their mean.
    pub avg: f64,
    /// Their median.
    pub p50: u64,
    /// What 95 % stay below.
    pub p95: u64,
    /// What 99 % stay below.
    pub p99: u64,
    /// What 99.9 % stay below.
    pub p999: u64,
    /// What 99.99 % stay below.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
    /// Standard deviation as a share of the mean.
    pub cv_percent: f64,
    /// Pairs of percentile and nanoseconds.
    pub curve: Vec<(f64, u64)>,
    /// Operations a second that were asked for, if the loop was open.
    pub rate: Option<f64>,
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// How many comparisons there had to be.
    pub expected: u64,
    /// How many were made and held.
    pub checked: u64,
}

/// What a process used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Resident memory before the first database was opened: the benchmark's own.
    pub harness_rss_bytes: u64,
    /// The most resident memory at once.
    pub peak_rss_bytes: u64,
    /// The most address space at once.
    pub peak_vms_bytes: u64,
    /// Processor time as a share of one core.
    pub cpu_percent: f64,
    /// Context switches.
    pub context_switches: u64,
    /// Bytes sent towards the disk.
    pub bytes_written: u64,
    /// Whether they were counted at the block device, as where a sync matters, and not for the
    /// process.
    pub counted_at_device: bool,
}

impl Verified {
    /// Takes in further comparisons.
    pub fn add(&mut self, other: Self) {
        self.expected += other.expected;
        self.checked += other.checked;
    }

    /// So many comparisons, all of which held.
    #[must_use]
    pub fn all(count: u64) -> Self {
        Self { expected: count, checked: count }
    }
}
