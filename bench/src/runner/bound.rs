//! The physical limit that binds a row: the least time that one of its operations can take on this
//! machine with any engine.
//!
//! Only work that no engine can avoid is counted. Each written byte is copied once into a mapped
//! log, and each commit that survives a power loss is synced. A read of data larger than the
//! processor's caches waits for memory once. A scan moves what it shows, and a compaction writes
//! what stays. So a share near 1 leaves nothing to gain. An engine that shows values in place can
//! exceed it in scans. This file measures nothing.

use crate::{
    engine::{Codec, Durability},
    job::{Op, State},
    result::{Limit, LimitUnit, ShareOfLimit, Spread},
    suite::Chosen,
};

/// Larger data does not stay in the caches of a processor.
const CACHED_BYTES_MAX: u64 = 128 << 20;
/// The mean length of YCSB E's ranges.
const YCSB_RANGE: f64 = 50.5;

/// The limit of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The id of the limit that takes most of the time.
    pub limit: String,
    /// The most operations a second that all threads together can do.
    pub ops_per_s: f64,
}

/// The unavoidable parts of an operation: the limit and its nanoseconds.
struct Parts(Vec<(&'static str, f64)>);

/// The limits of the machine, for one thread.
struct Machine<'a> {
    limits: &'a [Limit],
}

impl Bound {
    /// The limit of a row on a machine with this many cores; none if no known limit binds it.
    #[must_use]
    pub fn of(row: &Chosen, limits: &[Limit], cores: u32) -> Option<Self> {
        let Parts(parts) = parts(row, &Machine { limits })?;
        let ns: f64 = parts.iter().map(|(_, ns)| ns).sum();
        let (limit, _) = *parts.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let sync = |part: &(&str, f64)| part.0.starts_with("fdatasync");
        // Threads share a sync, and the limit of syncs already includes their number.
        let parallel = if parts.iter().any(sync) { 1 } else { row.work.threads.min(cores) };
        let ops_per_s = 1e9 * f64::from(parallel) / ns;
        ops_per_s.is_finite().then(|| Self { limit: limit.to_owned(), ops_per_s })
    }

    /// The share of the limit that a figure reaches.
    #[must_use]
    pub fn share(&self, figure: Spread) -> ShareOfLimit {
        ShareOfLimit { limit: self.limit.clone(), share: figure.median / self.ops_per_s }
    }
}

fn parts(row: &Chosen, machine: &Machine<'_>) -> Option<Parts> {
    let work = &row.work;
    let (key, entry) = (f64::from(work.key_bytes), work.entry_bytes() as f64);
    let put = || machine.write(row, entry);
    let delete = || machine.write(row, key);
    let get = || machine.read(row);
    let show = |entries: f64| machine.copy(entry * entries);
    match work.run.op {
        Op::Put | Op::TransactionPut => put(),
        Op::Delete => delete(),
        Op::PutDelete => Some(put()?.times(0.5).and(delete()?.times(0.5))),
        Op::Get | Op::GetMiss | Op::Seek | Op::YcsbC => get(),
        Op::Range => Some(get()?.and(show(f64::from(work.run.range))?)),
        Op::Scan | Op::ScanReverse | Op::Iterate => show(1.0),
        Op::Mixed | Op::MixedInsert => {
            let reads = f64::from(work.run.reads_percent) / 100.0;
            Some(get()?.times(reads).and(put()?.times(1.0 - reads)))
        }
        Op::YcsbA => Some(get()?.times(0.5).and(put()?.times(0.5))),
        Op::YcsbB | Op::YcsbD => Some(get()?.times(0.95).and(put()?.times(0.05))),
        Op::YcsbE => {
            let range = get()?.and(show(YCSB_RANGE)?);
            Some(range.times(0.95).and(put()?.times(0.05)))
        }
        Op::YcsbF => Some(get()?.and(put()?.times(0.5))),
        Op::Queue => Some(put()?.and(delete()?).and(get()?)),
        Op::RangeDelete => machine.write(row, 2.0 * key),
        Op::Compact | Op::Ingest => machine.moved("page-cache-write", stored(row)),
        Op::Open | Op::Increment | Op::RangeIncrement | Op::Transfer | Op::InsertAbsent => None,
    }
}

/// Bytes of an entry after compression.
fn stored(row: &Chosen) -> f64 {
    let entry = row.work.entry_bytes() as f64;
    let gone = f64::from(row.work.compressible_percent) / 100.0;
    match row.config.codec {
        Codec::None => entry,
        Codec::Lz4 => entry - gone * f64::from(row.work.value_bytes),
    }
}

impl Parts {
    fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    fn times(mut self, share: f64) -> Self {
        self.0.iter_mut().for_each(|(_, ns)| *ns *= share);
        self
    }
}

impl Machine<'_> {
    /// The value of a limit: bytes a second or nanoseconds.
    fn value(&self, limit: &str, unit: LimitUnit) -> Option<f64> {
        let limit = self.limits.iter().find(|one| one.limit == limit && one.unit == unit)?;
        Some(limit.value.median)
    }

    fn moved(&self, limit: &'static str, bytes: f64) -> Option<Parts> {
        Some(Parts(vec![(limit, 1e9 * bytes / self.value(limit, LimitUnit::BytesPerS)?)]))
    }

    fn copy(&self, bytes: f64) -> Option<Parts> {
        self.moved("memory-copy", bytes)
    }

    /// A write of this many bytes, with its part of a commit.
    fn write(&self, row: &Chosen, bytes: f64) -> Option<Parts> {
        let fill = self.moved("mapping-fill", bytes)?;
        match row.config.durability {
            Durability::Buffered => Some(fill),
            Durability::Synced => {
                let ns = self.value("fdatasync-written", LimitUnit::Ns)?;
                let together = f64::from(row.work.run.batch) * f64::from(row.work.threads);
                Some(fill.and(Parts(vec![("fdatasync-written", ns / together)])))
            }
        }
    }

    /// Finding a key in memory; none if the caches or the medium decide.
    fn read(&self, row: &Chosen) -> Option<Parts> {
        let bytes = u64::from(row.work.keys) * row.work.entry_bytes();
        if bytes <= CACHED_BYTES_MAX || row.work.state == State::Cold {
            return None;
        }
        Some(Parts(vec![(
            "dram-miss-dependent",
            self.value("dram-miss-dependent", LimitUnit::Ns)?,
        )]))
    }
}

#[cfg(test)]
mod tests;
