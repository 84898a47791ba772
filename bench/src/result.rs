//! The results of a run, as `--json` writes them: the types of the file, and the check of its
//! version.
//!
//! It does not measure, judge or draw. Fields may be added under the same number of the schema,
//! because readers ignore unknown fields. A field that changes its meaning changes the number.
//! `null` means: not measured, or not applicable to this row.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the schema that this build writes, and the only one it reads.
pub const SCHEMA: u64 = 1;

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Always [`SCHEMA`].
    pub schema: u64,
    /// The start of the run, in seconds since 1970-01-01 UTC.
    #[serde(default)]
    pub created: u64,
    /// The commit of its checkout; `-dirty` if that had changes; empty if unknown.
    #[serde(default)]
    pub commit: String,
    /// The number of commits of the library after that one, if known. A file does not have it.
    #[serde(skip)]
    pub commits_since: Option<u64>,
    /// The machine of the run.
    pub machine: Machine,
    /// The options of the run.
    pub options: Options,
    /// The engines that took part, in the order of the report.
    #[serde(default)]
    pub engines: Vec<Engine>,
    /// The physical limits of the machine, if they were measured with the run.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// The definitions behind `rows`, in the order of the report.
    #[serde(default)]
    pub suites: Vec<Suite>,
    /// One element for each engine in each row, also for those that did not run.
    pub rows: Vec<Row>,
}

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processor's own name.
    pub cpu: String,
    /// Processors that the run could use.
    pub cores: u32,
    /// Main memory.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Name and release of the distribution.
    pub os: String,
    /// File system under the data directory, with its mount options.
    pub file_system: String,
    /// The block device under it.
    pub device: String,
    /// The treatment of the page cache before rows.
    pub page_cache: String,
    /// The compiler and profile of the harness and the engines in it.
    pub build: String,
}

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The command line.
    pub command: String,
    /// Factor of keys and operations; 1 is as published.
    pub scale: f64,
    /// Runs of each engine in each row.
    pub repeat: u32,
    /// Only engines at most this many times slower than the best of their class were repeated;
    /// without it, all were.
    pub repeat_within: Option<f64>,
    /// The configuration of engines.
    pub arm: Arm,
    /// Overrides the threads of all rows.
    pub threads: Option<u32>,
    /// Overrides the batch of all rows.
    pub batch: Option<u32>,
    /// Overrides the size of values of all rows.
    pub value_bytes: Option<u32>,
    /// Overrides the size of the block caches of all rows, in MiB.
    #[serde(default)]
    pub cache_mib: Option<u64>,
    /// Whether rows that only read began with warm caches.
    #[serde(default)]
    pub warm: bool,
    /// Overrides the duration of the timed rows, in seconds.
    #[serde(default)]
    pub sustain: Option<u32>,
    /// Longest time for one engine in one row, in seconds.
    pub row_seconds_max: Option<u64>,
    /// Whether the original generators and shapes were used.
    pub published: bool,
}

impl Options {
    /// The engines that ran only once although others were repeated, in words; empty if there are
    /// none.
    #[must_use]
    pub fn run_once(&self) -> String {
        match self.repeat_within {
            Some(within) if self.repeat > 1 => {
                format!(" (one of engines more than {within} times behind the best)")
            }
            _ => String::new(),
        }
    }
}

/// An engine that took part.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Engine {
    /// Its id, as in [`Row::engine`].
    pub engine: String,
    /// Its version, as the engine reports it.
    pub version: String,
    /// Its build.
    pub build: String,
    /// The options that it got, in words.
    pub options: String,
    /// The result of the test of its durability.
    pub durability: String,
}

/// A physical limit of the machine, measured by `silt-bench limits`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// A stable id, such as `memory-copy`.
    pub limit: String,
    /// The measured work, in words.
    pub about: String,
    /// The unit of [`Limit::value`].
    pub unit: LimitUnit,
    /// The figure over all repeats.
    pub value: Spread,
}

/// The unit of a [`Limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitUnit {
    /// Bytes a second: more is better.
    BytesPerS,
    /// Nanoseconds for one: less is better.
    Ns,
}

/// The definition of a suite, as far as a report needs it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Suite {
    /// Its id, as in [`Row::suite`].
    pub suite: String,
    /// The benchmark that it reproduces, and its authors.
    pub about: String,
    /// Its rows, in order.
    pub rows: Vec<Definition>,
}

/// The definition of a row, as far as a report needs it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Definition {
    /// Its id, as in [`Row::row`].
    pub row: String,
    /// Its description.
    pub about: String,
    /// Published figures for it, from other machines.
    pub published: Vec<Published>,
    /// Its bars.
    pub bars: Bars,
    /// The reason why SiltDB is behind in it, if it is; older files lack it.
    pub cause: String,
}

/// The bars of a row: the factors by which SiltDB's median must exceed those of other engines.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bars {
    /// The judged variant of SiltDB, if not the one that is built.
    pub engine: Option<String>,
    /// The factor over the best other engine of its durability class.
    pub others: Option<f64>,
    /// The factor over the best other log-structured merge tree of its class.
    pub lsm: Option<f64>,
    /// The factor over LMDB.
    pub lmdb: Option<f64>,
    /// The factor over RocksDB.
    pub rocksdb: Option<f64>,
    /// The largest coefficient of variation of its latencies, in percent.
    pub cv_percent: Option<f64>,
    /// Whether its slowest calls must be no slower than the best other's: the 99.9th percentile,
    /// and the longest.
    pub slowest: bool,
    /// Another figure of the run as the bar.
    pub beside: Option<Beside>,
    /// Least share of the slowest thread: its transactions over the mean of all threads.
    pub slowest_share: Option<f64>,
}

/// A bar against an engine in another row of the same suite and run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// The row.
    pub row: String,
    /// The engine.
    pub engine: String,
    /// The least ratio to its figure.
    pub least: f64,
}

/// A published figure, from another machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The id of the engine, also if it took no part in the run.
    pub engine: String,
    /// The version of the engine.
    #[serde(default)]
    pub version: String,
    /// Operations a second.
    pub ops_per_s: f64,
    /// The part of the row that it belongs to, such as `put` of a mixed row; empty for the whole
    /// row.
    #[serde(default)]
    pub part: String,
    /// Number of threads of the measurement; older files lack it.
    #[serde(default)]
    pub threads: Option<u32>,
    /// Number of keys of the measurement; older files lack it.
    #[serde(default)]
    pub keys: Option<u64>,
}

/// One engine in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The suite.
    pub suite: String,
    /// The row: a stable, readable id such as `random-write/batch-1000`.
    pub row: String,
    /// The engine.
    pub engine: String,
    /// The configuration of the engine.
    #[serde(default)]
    pub arm: Arm,
    /// The durability class established for the engine in this row.
    pub durability: Durability,
    /// Threads that called the engine.
    pub threads: u32,
    /// Operations in one atomic batch; 1 for single calls and for reads.
    pub batch: u32,
    /// Number of measured operations.
    pub ops: u64,
    /// Operations a second on the clock of the throughput pass.
    pub ops_per_s: Option<Spread>,
    /// The same with the time until background work was done: the figure of rows that write. In
    /// rows that only read it is null for every engine, by which a report recognises them.
    pub ops_per_s_settled: Option<Spread>,
    /// The duration of one call, in the latency pass.
    pub latency_ns: Option<Latency>,
    /// Processor time over wall time of the throughput pass; 100 is one processor.
    pub cpu_percent: Option<f64>,
    /// Peak of the address space.
    pub peak_vms_bytes: Option<u64>,
    /// The answers that were checked.
    pub verified: Option<Verified>,
    /// Peak of resident memory.
    pub peak_rss_bytes: Option<u64>,
    /// Bytes handed to the storage layer.
    pub bytes_written: Option<u64>,
    /// Size on disk after closing.
    pub db_bytes: Option<u64>,
    /// Size on disk after full compaction.
    pub db_bytes_compacted: Option<u64>,
    /// `bytes_written` over the logical bytes written.
    pub write_amp: Option<f64>,
    /// `db_bytes` over the logical bytes that are alive.
    pub space_amp: Option<f64>,
    /// The status at the end.
    pub status: Status,
    /// The reason, for every status but `ok`.
    pub reason: Option<String>,
    /// Further fields.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Fields of a row that a report draws and a comparison does not need.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Extra {
    /// Runs behind the medians.
    pub repeats: u32,
    /// Distinct keys in the database.
    pub keys: Option<u64>,
    /// Size of a key.
    pub key_bytes: Option<u32>,
    /// Size of a value.
    pub value_bytes: Option<u32>,
    /// Logical bytes of keys and values that the measured operations wrote or read.
    pub logical_bytes: Option<u64>,
    /// The state the database was brought to before the clock started.
    pub state: Option<String>,
    /// Operations a second of the seeding, on its own clock.
    pub seed_ops_per_s: Option<Spread>,
    /// Bytes read from storage over the logical bytes read.
    pub read_amp: Option<f64>,
    /// Context switches, voluntary and not, of the throughput pass.
    pub context_switches: Option<u64>,
    /// Operations finished in each second of the throughput pass of the median run; a last second
    /// that was cut short is left out.
    pub samples: Vec<u64>,
    /// The distribution of `latency_ns`, percentiles rising.
    pub curve: Vec<CurvePoint>,
    /// The harness's own time for one operation: the same row on the null engine.
    pub harness_ns: Option<f64>,
    /// The share of the binding limit that the figure reaches.
    pub share_of_limit: Option<ShareOfLimit>,
    /// Counts and costs of its transactions, if it has any.
    pub transactions: Option<Transactions>,
}

/// Counts and costs of transactions, of the median run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transactions {
    /// The isolation level of the engine, in words.
    pub isolation: String,
    /// Attempts beyond the first of each transaction.
    pub retries: u64,
    /// Transactions of the slowest thread over the mean of all threads; only of rows whose threads
    /// compete.
    pub slowest_share: Option<f64>,
    /// Number of transactions that were held open meanwhile.
    pub held: Option<u32>,
    /// Nanoseconds to begin one of those and to read a key in it, on average.
    pub begin_ns: Option<f64>,
    /// Bytes of resident memory that one of those added, on average.
    pub held_bytes: Option<f64>,
}

/// Median, smallest and largest of some runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number, the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// The durations of calls.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Calls that were timed; older files lack it.
    #[serde(default)]
    pub calls: Option<u64>,
    /// Shortest.
    pub min: f64,
    /// Mean.
    pub avg: f64,
    /// Half of the calls took at most this.
    pub p50: f64,
    /// 95 %; none for fewer than 20 calls, because it would be the longest.
    pub p95: Option<f64>,
    /// 99 %; none for fewer than 100 calls.
    pub p99: Option<f64>,
    /// 99.9 %; none for fewer than 1,000 calls.
    pub p999: Option<f64>,
    /// 99.99 %; none for fewer than 10,000 calls. Older files lack it.
    #[serde(default)]
    pub p9999: Option<f64>,
    /// Longest.
    pub max: f64,
    /// Standard deviation over mean, in percent.
    pub cv_percent: f64,
}

/// A point of a distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// From 0 to 100.
    pub percentile: f64,
    /// The duration of the slowest call within it.
    pub ns: f64,
}

/// The answers that had to be checked, and those that were right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Answers that had to be checked.
    pub expected: u64,
    /// Answers that were checked and right.
    pub checked: u64,
}

/// A figure as a share of the limit that binds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareOfLimit {
    /// The id of the binding limit.
    pub limit: String,
    /// 1 is the limit itself.
    pub share: f64,
}

/// The configuration of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Equal options for all engines.
    #[default]
    Equal,
    /// The engine's own defaults.
    Defaults,
}

/// The events that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Acknowledged in user space; lost with the process.
    Memory,
    /// Survives `kill -9`.
    Process,
    /// Survives power loss.
    Power,
}

/// The status of an engine in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All operations done, all answers right.
    Ok,
    /// Stopped by the time limit of rows; the finished operations are right.
    Capped,
    /// An error, a crash, a timeout or a wrong answer.
    Failed,
    /// The machine lacks something that the row needs.
    NotRun,
    /// The engine lacks an operation of the row.
    Unsupported,
}

impl Results {
    /// Reads a results file.
    ///
    /// # Errors
    /// If it is not JSON, carries another version of the schema, or lacks a field.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Header {
            schema: Option<u64>,
        }
        let header: Header = serde_json::from_str(text).map_err(ReadError::Json)?;
        match header.schema {
            Some(SCHEMA) => serde_json::from_str(text).map_err(ReadError::Json),
            other => Err(ReadError::Schema(other)),
        }
    }

    /// The results as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("keys are strings and writing to memory succeeds")
    }
}

impl Row {
    /// The share of the limit that the figure reaches. None above 1, because a limit that is
    /// exceeded does not bind.
    pub fn share_of_limit(&self) -> Option<&ShareOfLimit> {
        self.extra.share_of_limit.as_ref().filter(|of| of.share <= 1.0)
    }

    /// The figure that bars refer to: settled in rows that write. None unless verified and right.
    pub fn figure(&self) -> Option<Spread> {
        let right = self.verified.is_some_and(|verified| verified.checked == verified.expected);
        let ended = matches!(self.status, Status::Ok | Status::Capped);
        if ended && right { self.ops_per_s_settled.or(self.ops_per_s) } else { None }
    }
}

impl Spread {
    /// The spread of `values`; None if there are none, or if one is not a finite number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self { median, min: sorted[0], max: sorted[sorted.len() - 1] })
    }
}

macro_rules! words {
    ($($type:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {$(
        impl $type {
            /// Its name in the file and in reports.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    )+};
}

words! {
    Arm { Equal => "equal", Defaults => "defaults" }
    Durability { Memory => "memory", Process => "process", Power => "power" }
    Status {
        Ok => "ok", Capped => "capped", Failed => "failed", NotRun => "not_run",
        Unsupported => "unsupported",
    }
}

/// The reason why a results file could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// Not JSON, or a field is missing or of another type.
    Json(serde_json::Error),
    /// Another version of the schema, or none.
    Schema(Option<u64>),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a results file of silt-bench: {error}"),
            Self::Schema(None) => write!(f, "not a results file of silt-bench: it has no `schema`"),
            Self::Schema(Some(found)) => {
                write!(f, "unknown schema of results. expected={SCHEMA}, found={found}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

#[cfg(test)]
mod tests;
