//! Clocks, histograms, seconds as they pass, and what the kernel says of this process.
//!
//! Does not know what is measured.

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
/// How often a look is taken at what happens in the background.
pub const LOOK: Duration = Duration::from_micros(500);
/// So many looks in a row must find nothing: work that follows other work may be queued between.
const QUIET_LOOKS: u32 = 20;

/// Who hears how far a phase is, and after how long it is cut off.
pub struct Watch<'a> {
    /// Called at least once a second.
    pub tell: &'a (dyn Fn(&Progress) + Sync),
    /// The longest a measured phase may take.
    pub cap: Duration,
}

/// One thread's count of operations, alone in its cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Count(AtomicU64);

/// What was done beside a phase, and since when something is.
#[derive(Debug, Default)]
struct Aside {
    counted: Counted,
    since: Option<Instant>,
}

/// How far the threads of a phase are, and whether they shall stop.
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

    /// Does something that is no part of the phase, such as to copy into a directory: it takes
    /// nothing of the time after which the phase is cut off, and what it uses is told apart. One
    /// thread at a time.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn aside<T>(&self, dir: &Path, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let begun = Moment::now(dir);
        self.lock_aside().since = Some(begun.at);
        let outcome = body();
        let mut aside = self.lock_aside();
        aside.since = None;
        aside.counted.add(begun.counted_since());
        outcome
    }

    /// How long it did something else so far.
    fn time_aside(&self) -> Duration {
        let aside = self.lock_aside();
        aside.counted.time + aside.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn lock_aside(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread has done so many; whether it may go on.
    #[inline]
    pub fn goes_on(&self, thread: u32, done: u64) -> bool {
        // Relaxed: a count for people, and a stop that may come an operation late.
        self.counts[thread as usize].0.store(done, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }

    fn done(&self) -> u64 {
        self.counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

/// What a phase is called and how long it may be.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// Its name.
    pub phase: &'a str,
    /// Its operations; 0 if they are not counted.
    pub total: u64,
    /// Its threads.
    pub threads: u32,
    /// After how long it is cut off.
    pub cap: Option<Duration>,
}

/// How a phase went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seconds {
    /// Operations of each whole second.
    pub samples: Vec<u64>,
    /// It was cut off.
    pub capped: bool,
    /// What it did beside its work.
    pub aside: Counted,
}

/// Runs a phase while another thread counts its seconds, tells of them, and cuts it off.
///
/// # Errors
/// Those of `body`.
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
        // It moves on while the phase does something else.
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

/// An empty histogram of nanoseconds, three digits exact.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, CALL_NS_MAX, 3).expect("the bounds are in order")
}

/// What a histogram says.
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

/// Even steps in the number of nines, from the median's left to six nines.
fn curve(at: &impl Fn(f64) -> u64) -> Vec<(f64, u64)> {
    let point = |step: u32| {
        let quantile = 1.0 - 10_f64.powf(-6.0 * f64::from(step) / f64::from(CURVE_POINTS - 1));
        (quantile * 100.0, at(quantile))
    };
    (0..CURVE_POINTS).map(point).collect()
}

/// What the kernel counted in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    time: Duration,
    cpu_ticks: u64,
    context_switches: u64,
    process_written: u64,
    /// By all processes, to the block device under a directory; none if it is not counted.
    device_written: Option<u64>,
}

/// A moment, and all that the kernel had counted by then.
#[derive(Clone, Debug)]
struct Moment {
    at: Instant,
    /// Where what is written to the device is counted.
    stat: Option<PathBuf>,
    counted: Counted,
}

/// Measures what is used.
#[derive(Clone, Debug)]
pub struct Meter {
    harness_rss_bytes: u64,
    count_at: CountAt,
    started: Moment,
}

/// Clock ticks of `/proc` in a second, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Bytes of a sector in `/sys`, whatever the device's own.
const SECTOR_BYTES: u64 = 512;

/// Where bytes written are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountAt {
    /// By the process: what it made dirty.
    Process,
    /// By the block device under the directory: what a sync sent. Others' writes count too.
    Device,
}

impl Counted {
    /// All but time.
    fn so_far(stat: Option<&Path>) -> Self {
        Self {
            time: Duration::ZERO,
            cpu_ticks: cpu_ticks(),
            context_switches: context_switches(),
            process_written: process_written(),
            device_written: stat.and_then(sectors_written),
        }
    }

    /// Takes in what was counted at another time.
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

    /// Without what was counted in a part of the time.
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
    /// Begins to count; forgets the peak of memory so far. `harness_rss_bytes` is what the
    /// benchmark itself holds.
    #[must_use]
    pub fn start(dir: &Path, count_at: CountAt, harness_rss_bytes: u64) -> Self {
        // Refused by some kernels: then the peak is that of the whole process.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { harness_rss_bytes, count_at, started: Moment::now(dir) }
    }

    /// What was used since, with the context switches of threads that are gone, without what was
    /// used `aside`.
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

/// Memory of this process that is resident now.
#[must_use]
pub fn resident_bytes() -> u64 {
    kib(&read("/proc/self/status"), "VmRSS:")
}

/// The most memory of this process that was resident at once; none if the system does not tell.
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
    // The name may hold blanks; it ends with the last parenthesis.
    let fields = stat.rsplit(')').next().unwrap_or("");
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

fn process_written() -> u64 {
    number_after(&read("/proc/self/io"), "write_bytes:")
}

/// Of all threads that live.
fn context_switches() -> u64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0 };
    tasks
        .flatten()
        .map(|task| switches(&fs::read_to_string(task.path().join("status")).unwrap_or_default()))
        .sum()
}

/// Of the calling thread.
#[must_use]
pub fn own_context_switches() -> u64 {
    switches(&read("/proc/thread-self/status"))
}

fn switches(status: &str) -> u64 {
    number_after(status, "voluntary_ctxt_switches:")
        + number_after(status, "nonvoluntary_ctxt_switches:")
}

/// Where the kernel counts what the block device under a directory does.
fn stat_of_device(dir: &Path) -> Option<PathBuf> {
    let number = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    Some(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat")))
}

/// How often the block device under a directory was told to make durable what it holds, by all
/// processes; none if it is not counted.
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

/// Bytes that the files below a directory take up on disk: holes do not count.
///
/// # Errors
/// The system's.
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

/// Looks again and again until `is_quiet` was true a number of times in a row; returns when it was
/// for the first of these times.
///
/// # Errors
/// Those of `is_quiet`.
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
/// The system's.
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
