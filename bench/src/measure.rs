//! Clocks, histograms, the operations of each second, and the kernel's counts for this process.
//!
//! It does not know the measured work.

use crate::{
    engine::{Failure, Result},
    job::{Latency, Progress, Usage},
};
use hdrhistogram::Histogram;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The longest call that a histogram holds, in nanoseconds: an hour.
const CALL_NS_MAX: u64 = 3_600_000_000_000;
/// Points of a percentile curve.
const CURVE_POINTS: u32 = 40;
/// Interval between two checks for background work.
pub const LOOK: Duration = Duration::from_micros(500);
/// This many checks in a row must find nothing, because a follow-up job may be queued in between.
const QUIET_LOOKS: u32 = 20;

/// The receiver of progress, and the time limit of a measured phase.
pub struct Watch<'a> {
    /// Called at least once a second.
    pub tell: &'a (dyn Fn(&Progress) + Sync),
    /// The time limit of a measured phase.
    pub cap: Duration,
}

/// One thread's count of operations, alone in its cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Count(AtomicU64);

/// Work done beside a phase, and the start of the present one.
#[derive(Debug, Default)]
struct Aside {
    counted: Counted,
    since: Option<Instant>,
}

/// The progress of the threads of a phase, and whether they must stop.
#[derive(Debug)]
pub struct Pace {
    counts: Vec<Count>,
    stop: AtomicBool,
    aside: Mutex<Aside>,
}

impl Pace {
    fn new(threads: u32) -> Self {
        let counts = (0..threads).map(|_| Count::default()).collect();
        Self { counts, stop: AtomicBool::new(false), aside: Mutex::default() }
    }

    /// Runs work that is not part of the phase, such as copying a directory. Its time does not
    /// count towards the time limit, and its resources are counted separately. Only one thread at a
    /// time may do this.
    ///
    /// # Errors
    /// Errors of `body`.
    pub fn aside<T>(&self, dir: &Path, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Moment::now(dir);
        self.lock_aside().since = Some(begun.at);
        let outcome = body();
        let mut aside = self.lock_aside();
        aside.since = None;
        aside.counted.add(begun.counted_since());
        outcome
    }

    /// Time spent on other work so far.
    fn time_aside(&self) -> Duration {
        let aside = self.lock_aside();
        aside.counted.time + aside.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn lock_aside(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the operations that a thread has done; returns whether it may continue.
    #[inline]
    pub fn goes_on(&self, thread: u32, done: u64) -> bool {
        // Relaxed: the count is for display, and a stop may come an operation late.
        self.counts[thread as usize].0.store(done, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    fn done(&self) -> u64 {
        self.counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

/// The name and the limits of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// Its name.
    pub phase: &'a str,
    /// Its operations; 0 if they are not counted.
    pub total: u64,
    /// Its threads.
    pub threads: u32,
    /// Its time limit.
    pub cap: Option<Duration>,
}

/// The course of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seconds {
    /// Operations of each whole second.
    pub samples: Vec<u64>,
    /// Whether it was cut off.
    pub capped: bool,
    /// The resources of work beside the phase.
    pub aside: Counted,
}

/// Runs a phase while another thread counts its seconds, reports them, and stops it at the time
/// limit.
///
/// # Errors
/// Errors of `body`.
pub fn watched<T>(
    what: Watched<'_>,
    watch: &Watch<'_>,
    body: impl FnOnce(&Pace) -> Result<T>,
) -> Result<(T, Seconds)> {
    let pace = Pace::new(what.threads);
    let over = (Mutex::new(false), Condvar::new());
    thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(what, watch, &pace, &over));
        let outcome = body(&pace);
        *over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        over.1.notify_all();
        let seconds = sampler.join().map_err(|_| Failure::error("the sampler panicked"))?;
        Ok((outcome?, Seconds { aside: pace.lock_aside().counted, ..seconds }))
    })
}

fn sample(
    what: Watched<'_>,
    watch: &Watch<'_>,
    pace: &Pace,
    over: &(Mutex<bool>, Condvar),
) -> Seconds {
    let start = Instant::now();
    let mut seconds = Seconds::default();
    let mut before = 0;
    let mut ended = over.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let next = Duration::from_secs(seconds.samples.len() as u64 + 1);
        let cap = what.cap.filter(|_| !seconds.capped).unwrap_or(Duration::MAX);
        // The time limit is extended by the time of other work.
        let end = || cap.saturating_add(pace.time_aside());
        let wait = next.min(end()).saturating_sub(start.elapsed());
        let waited = over.1.wait_timeout_while(ended, wait, |ended| !*ended);
        ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        if *ended {
            return seconds;
        }
        if start.elapsed() >= end() {
            seconds.capped = true;
            pace.stop.store(true, Ordering::Relaxed);
        }
        if start.elapsed() >= next {
            let done = pace.done();
            let second_ops = done.saturating_sub(before);
            seconds.samples.push(second_ops);
            before = done;
            let (phase, total) = (what.phase.to_owned(), what.total);
            (watch.tell)(&Progress { phase, done, total, second_ops });
        }
    }
}

/// An empty histogram of nanoseconds with three exact digits.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, CALL_NS_MAX, 3).expect("the bounds are in order")
}

/// The summary of a histogram.
#[must_use]
pub fn latency(histogram: &Histogram<u64>, ops_per_call: u64, rate: Option<f64>) -> Latency {
    if histogram.is_empty() {
        return Latency { ops_per_call, rate, ..Latency::default() };
    }
    let at = |quantile: f64| histogram.value_at_quantile(quantile).min(histogram.max());
    Latency {
        calls: histogram.len(),
        ops_per_call,
        min: histogram.min(),
        avg: histogram.mean(),
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        p9999: at(0.9999),
        max: histogram.max(),
        cv_percent: 100.0 * histogram.stdev() / histogram.mean().max(1.0),
        curve: curve(&at),
        rate,
    }
}

/// Even steps in the number of nines, from below the median to six nines.
fn curve(at: &impl Fn(f64) -> u64) -> Vec<(f64, u64)> {
    let point = |step: u32| {
        let quantile = 1.0 - 10_f64.powf(-6.0 * f64::from(step) / f64::from(CURVE_POINTS - 1));
        (quantile * 100.0, at(quantile))
    };
    (0..CURVE_POINTS).map(point).collect()
}

/// The kernel's counts over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    time: Duration,
    cpu_ticks: u64,
    context_switches: u64,
    process_written: u64,
    /// Writes of all processes to the block device under a directory; none if they are not counted.
    device_written: Option<u64>,
}

/// A moment, and the kernel's counts up to it.
#[derive(Clone, Debug)]
struct Moment {
    at: Instant,
    /// The file with the counts of the device.
    stat: Option<PathBuf>,
    counted: Counted,
}

/// Measures the use of resources.
#[derive(Clone, Debug)]
pub struct Meter {
    harness_rss_bytes: u64,
    count_at: CountAt,
    started: Moment,
}

/// Clock ticks of `/proc` in a second, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Bytes of a sector in `/sys`, independent of the device's own.
const SECTOR_BYTES: u64 = 512;

/// The place at which written bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountAt {
    /// At the process: the pages that it made dirty.
    Process,
    /// At the block device under the directory, as after a sync. Writes of other processes count
    /// too.
    Device,
}

impl Counted {
    /// All counts except time.
    fn so_far(stat: Option<&Path>) -> Self {
        Self {
            time: Duration::ZERO,
            cpu_ticks: cpu_ticks(),
            context_switches: context_switches(),
            process_written: process_written(),
            device_written: stat.and_then(sectors_written),
        }
    }

    /// Adds the counts of another time.
    pub fn add(&mut self, other: Self) {
        self.time += other.time;
        self.cpu_ticks += other.cpu_ticks;
        self.context_switches += other.context_switches;
        self.process_written += other.process_written;
        self.device_written = match (self.device_written, other.device_written) {
            (Some(own), Some(other)) => Some(own + other),
            (own, other) => own.or(other),
        };
    }

    /// Subtracts the counts of a part of the time.
    fn without(&self, part: &Self) -> Self {
        let written = |all: u64| all.saturating_sub(part.device_written.unwrap_or(0));
        Self {
            time: self.time.saturating_sub(part.time),
            cpu_ticks: self.cpu_ticks.saturating_sub(part.cpu_ticks),
            context_switches: self.context_switches.saturating_sub(part.context_switches),
            process_written: self.process_written.saturating_sub(part.process_written),
            device_written: self.device_written.map(written),
        }
    }
}

impl Moment {
    fn now(dir: &Path) -> Self {
        let stat = stat_of_device(dir).filter(|stat| sectors_written(stat).is_some());
        let counted = Counted::so_far(stat.as_deref());
        Self { at: Instant::now(), stat, counted }
    }

    fn counted_since(&self) -> Counted {
        let time = self.at.elapsed();
        Counted { time, ..Counted::so_far(self.stat.as_deref()) }.without(&self.counted)
    }
}

impl Meter {
    /// Begins to count, and resets the peak of memory. `harness_rss_bytes` is the memory of the
    /// benchmark itself.
    #[must_use]
    pub fn start(dir: &Path, count_at: CountAt, harness_rss_bytes: u64) -> Self {
        reset_peak();
        Self { harness_rss_bytes, count_at, started: Moment::now(dir) }
    }

    /// The resources used since then, with the context switches of threads that have ended, and
    /// without those used `aside`.
    #[must_use]
    pub fn stop(&self, switches_of_gone: u64, aside: &Counted) -> Usage {
        let status = read("/proc/self/status");
        let used = self.started.counted_since().without(aside);
        let cpu_seconds = used.cpu_ticks as f64 / TICKS_PER_SECOND;
        let device_written = used.device_written.filter(|_| self.count_at == CountAt::Device);
        Usage {
            harness_rss_bytes: self.harness_rss_bytes,
            peak_rss_bytes: kib(&status, "VmHWM:"),
            peak_vms_bytes: kib(&status, "VmPeak:"),
            cpu_percent: 100.0 * cpu_seconds / used.time.as_secs_f64().max(1e-9),
            context_switches: used.context_switches + switches_of_gone,
            bytes_written: device_written.unwrap_or(used.process_written),
            counted_at_device: device_written.is_some(),
        }
    }
}

/// The resident memory of this process now.
#[must_use]
pub fn resident_bytes() -> u64 {
    kib(&read("/proc/self/status"), "VmRSS:")
}

/// Begins the peak of the resident memory anew. Some kernels refuse this; then it stays that of the
/// whole process.
pub fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The peak of this process's resident memory; none if the system does not report it.
#[must_use]
pub fn peak_resident_bytes() -> Option<u64> {
    Some(kib(&read("/proc/self/status"), "VmHWM:")).filter(|&bytes| bytes > 0)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// A line `name 123 kB` of a status, in bytes.
fn kib(status: &str, name: &str) -> u64 {
    number_after(status, name) << 10
}

fn number_after(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn cpu_ticks() -> u64 {
    let stat = read("/proc/self/stat");
    // The name may contain blanks; it ends with the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or("");
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

fn process_written() -> u64 {
    number_after(&read("/proc/self/io"), "write_bytes:")
}

/// The context switches of all living threads.
fn context_switches() -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0 };
    tasks
        .flatten()
        .map(|task| switches(&fs::read_to_string(task.path().join("status")).unwrap_or_default()))
        .sum()
}

/// The context switches of the calling thread.
#[must_use]
pub fn own_context_switches() -> u64 {
    switches(&read("/proc/thread-self/status"))
}

fn switches(status: &str) -> u64 {
    number_after(status, "voluntary_ctxt_switches:")
        + number_after(status, "nonvoluntary_ctxt_switches:")
}

/// The kernel's file of counts of the block device under a directory.
fn stat_of_device(dir: &Path) -> Option<PathBuf> {
    let number = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    Some(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")))
}

/// The number of flushes that the block device under a directory received from all processes; none
/// if they are not counted.
#[must_use]
pub fn device_flushes(dir: &Path) -> Option<u64> {
    column(&stat_of_device(dir)?, 15)
}

fn sectors_written(stat: &Path) -> Option<u64> {
    Some(column(stat, 6)? * SECTOR_BYTES)
}

fn column(stat: &Path, index: usize) -> Option<u64> {
    fs::read_to_string(stat).ok()?.split_whitespace().nth(index)?.parse().ok()
}

/// Bytes that the files below a directory take up on disk, without holes.
///
/// # Errors
/// Errors of the system.
pub fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            metadata.blocks() * SECTOR_BYTES
        };
    }
    Ok(bytes)
}

/// Checks repeatedly until `is_quiet` was true a number of times in a row. Returns the time of the
/// first of these.
///
/// # Errors
/// Errors of `is_quiet`.
pub fn wait_until_quiet(mut is_quiet: impl FnMut() -> Result<bool>) -> Result<Instant> {
    let (mut since, mut looks) = (None, 0);
    loop {
        if is_quiet()? {
            looks += 1;
            let first = *since.get_or_insert_with(Instant::now);
            if looks >= QUIET_LOOKS {
                return Ok(first);
            }
        } else {
            (since, looks) = (None, 0);
        }
        thread::sleep(LOOK);
    }
}

/// Writes the files below a directory back and drops them from the page cache.
///
/// # Errors
/// Errors of the system.
pub fn drop_from_page_cache(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            drop_from_page_cache(&path)?;
        } else {
            let file = fs::File::open(&path)?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
