//! What a worker reports of its job: the measurements, and what was compared.

use crate::engine::Facts;
use serde::{Deserialize, Serialize};

/// The measurements of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The facts about the engine.
    pub facts: Facts,
    /// The seed phases.
    pub seed: Vec<Phase>,
    /// The measured phase without clocks around calls.
    pub throughput: Throughput,
    /// The measured phase with clocks, if that was done.
    pub latency: Option<Latency>,
    /// The comparisons made.
    pub verified: Verified,
    /// Bytes of keys and values that the measured phase wrote.
    pub logical_bytes: u64,
    /// Size of the database after it was closed.
    pub db_bytes: u64,
    /// The same after a compaction, if there was one.
    pub db_bytes_compacted: Option<u64>,
    /// Bytes of the keys and values that the database holds.
    pub live_bytes: u64,
    /// Resources of the process during the throughput pass.
    pub usage: Usage,
    /// The transactions of the throughput pass, if there were any.
    #[serde(default)]
    pub transactions: Option<Transactions>,
}

/// Counts and costs of transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transactions {
    /// The isolation level of the engine, in words.
    pub isolation: String,
    /// Attempts beyond the first of each transaction.
    pub retries: u64,
    /// Transactions of the slowest thread over the mean of all threads; only of rows whose threads
    /// compete.
    pub slowest_share: Option<f64>,
    /// The cost of the transactions that were held open.
    pub held: Option<Held>,
}

/// Transactions that are held open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Their number.
    pub count: u32,
    /// Nanoseconds to begin one and to read a key in it, on average.
    pub begin_ns: f64,
    /// Bytes of resident memory that one added, on average.
    pub bytes: f64,
}

/// A seed phase.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Phase {
    /// Operations.
    pub ops: u64,
    /// Their duration.
    pub seconds: f64,
}

/// The throughput pass.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Throughput {
    /// Operations done.
    pub ops: u64,
    /// Their duration.
    pub seconds: f64,
    /// The duration until background work was done.
    pub settled_seconds: f64,
    /// Operations of each second.
    pub samples: Vec<u64>,
    /// Whether it was cut off.
    pub capped: bool,
}

/// The latency pass.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Calls measured.
    pub calls: u64,
    /// Operations of a call.
    pub ops_per_call: u64,
    /// The shortest call, in nanoseconds, like all below.
    pub min: u64,
    /// Their mean.
    pub avg: f64,
    /// Their median.
    pub p50: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// The longest.
    pub max: u64,
    /// Standard deviation as a share of the mean.
    pub cv_percent: f64,
    /// Pairs of percentile and nanoseconds.
    pub curve: Vec<(f64, u64)>,
    /// The requested operations a second, if the loop was open.
    pub rate: Option<f64>,
}

/// The comparisons made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Number of comparisons required.
    pub expected: u64,
    /// Number of comparisons made without a difference.
    pub checked: u64,
}

/// Resources of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Resident memory before the first database was opened: that of the benchmark itself.
    pub harness_rss_bytes: u64,
    /// Peak of resident memory.
    pub peak_rss_bytes: u64,
    /// Peak of the address space.
    pub peak_vms_bytes: u64,
    /// Processor time as a share of one core.
    pub cpu_percent: f64,
    /// Context switches.
    pub context_switches: u64,
    /// Bytes written towards the disk.
    pub bytes_written: u64,
    /// Whether bytes were counted at the block device instead of the process, as in rows with
    /// syncs.
    pub counted_at_device: bool,
}

impl Verified {
    /// Adds further comparisons.
    pub fn add(&mut self, other: Self) {
        self.expected += other.expected;
        self.checked += other.checked;
    }

    /// `count` comparisons without a difference.
    #[must_use]
    pub fn all(count: u64) -> Self {
        Self { expected: count, checked: count }
    }
}
