//! Time, as an argument: that of the machine, or one that a test sets.
//!
//! Wall time decides expiry; monotonic time decides waiting. Neither orders commits.

use crate::sync::lock;
use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Where the engine reads the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Milliseconds since 1970 (UTC); may jump.
    fn wall_ms(&self) -> u64;

    /// The wall time for what cannot be undone, such as dropping what has expired: as
    /// [`Clock::wall_ms`], or earlier, where that is in doubt.
    fn settled_ms(&self) -> u64 {
        self.wall_ms()
    }

    /// Takes note that an entry, which expires at `expiry_ms`, was found to have expired. It must
    /// not be seen again, also not by a later process.
    fn saw_expired(&self, _expiry_ms: u64) {}

    /// Takes note that an entry, which expires at `expiry_ms`, was found not to have expired yet.
    fn saw_unexpired(&self, _expiry_ms: u64) {}

    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Lets `duration` pass.
    fn sleep(&self, duration: Duration);
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// Largest lag of the wall time behind the time in force, in ms, at which the latter waits. System
/// clocks are slewed, and set back a little, all the time. If the lag is larger, the time in force
/// runs on by the monotonic clock.
pub const LAG_MS_MAX: u64 = 10_000;

/// A wall time ahead of the time in force by more than this, in ms, is a jump: about a year.
pub const JUMP_MS_MIN: u64 = 366 * 24 * 3600 * 1000;

/// How long a jump lasts before it counts as the truth, in ms. A clock that is wrong at boot is
/// corrected by then.
pub const JUMP_LASTS_MS: u64 = 3600 * 1000;

/// What a database stores of the time that decided expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredTime {
    /// The latest settled time, in ms since 1970; 0: none yet.
    pub latest_ms: u64,
    /// The wall time when a jump began that has not lasted long enough; 0: there is none.
    pub jump_ms: u64,
}

impl StoredTime {
    /// Of two, the one with the later settled time.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        if other.latest_ms > self.latest_ms { other } else { self }
    }
}

/// Where a time is kept for the next process.
pub trait TimeLog: Send + Sync + fmt::Debug {
    /// Keeps `time` over the end of the process. Returns whether that was possible.
    fn note(&self, time: StoredTime) -> bool;
}

/// A clock whose wall time never goes back, not even below that of an earlier process. The
/// exception is a time more than a year ahead that is corrected within an hour.
///
/// What was shown as expired stays expired when the machine's clock is set back. One wrong reading
/// of a far year decides nothing for good: until the jump has lasted, [`Clock::settled_ms`] knows
/// nothing of it.
#[derive(Debug)]
pub struct ForwardClock {
    clock: Arc<dyn Clock>,
    /// What `wall_ms` returned last.
    latest_ms: AtomicU64,
    timeline: Mutex<Timeline>,
    /// The settled time that the next process will know at least, in ms.
    known_ms: AtomicU64,
    /// Held while a time is noted.
    noting_io: Mutex<()>,
    log: OnceLock<Box<dyn TimeLog>>,
}

/// A time in ms since 1970 and when it was, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Mark {
    ms: u64,
    at_ns: u64,
}

const NS_PER_MS: u64 = 1_000_000;

impl Mark {
    /// The time at `now_ns`, if it has run on since.
    fn run_on(self, now_ns: u64) -> Self {
        let passed_ms = now_ns.saturating_sub(self.at_ns) / NS_PER_MS;
        // What is left of a millisecond counts the next time.
        let at_ns = self.at_ns + passed_ms * NS_PER_MS;
        Self { ms: self.ms.saturating_add(passed_ms), at_ns }
    }

    /// The time at `now_ns`, when the wall shows `wall_ms`: it follows the wall forward.
    fn follow(self, wall_ms: u64, now_ns: u64) -> Self {
        match self.ms.saturating_sub(wall_ms) {
            0 => Self { ms: wall_ms, at_ns: now_ns },
            1..=LAG_MS_MAX => Self { ms: self.ms, at_ns: now_ns },
            _ => self.run_on(now_ns),
        }
    }
}

#[derive(Debug)]
struct Timeline {
    settled: Mark,
    jump: Option<Jump>,
}

/// A wall time far ahead of the settled one.
#[derive(Clone, Copy, Debug)]
struct Jump {
    /// What the wall showed when it began, perhaps in an earlier process.
    first_ms: u64,
    began_ns: u64,
    now: Mark,
}

impl Jump {
    fn new(wall_ms: u64, now_ns: u64) -> Self {
        Self { first_ms: wall_ms, began_ns: now_ns, now: Mark { ms: wall_ms, at_ns: now_ns } }
    }

    /// The one that another process saw begin at `first_ms`, if the wall has not been corrected
    /// since.
    fn stored(first_ms: u64, wall_ms: u64, now_ns: u64) -> Option<Self> {
        let since_ms = wall_ms.saturating_sub(first_ms);
        let goes_on = first_ms != 0 && first_ms <= wall_ms && since_ms <= JUMP_MS_MIN;
        goes_on.then(|| Self { first_ms, ..Self::new(wall_ms, now_ns) })
    }
}

impl Timeline {
    /// 1. A wall time that is no jump is followed; a jump before it was a mistake.
    /// 2. A jump is followed too, but apart, until it has lasted.
    fn read(&mut self, wall_ms: u64, now_ns: u64) -> u64 {
        let is_ahead = |mark: Mark| wall_ms.saturating_sub(mark.run_on(now_ns).ms) > JUMP_MS_MIN;
        if !is_ahead(self.settled) {
            self.jump = None;
            self.settled = self.settled.follow(wall_ms, now_ns);
            return self.settled.ms;
        }
        // A second jump forward, or back to a year that is still far ahead, begins anew.
        let same = self.jump.filter(|jump| {
            !is_ahead(jump.now) && jump.now.ms.saturating_sub(wall_ms) <= JUMP_MS_MIN
        });
        let mut jump = same.unwrap_or_else(|| Jump::new(wall_ms, now_ns));
        jump.now = jump.now.follow(wall_ms, now_ns);
        let lasted_ms = now_ns.saturating_sub(jump.began_ns) / NS_PER_MS;
        // What an earlier process saw of it counts by the wall.
        let lasted_ms = lasted_ms.max(jump.now.ms.saturating_sub(jump.first_ms));
        if lasted_ms >= JUMP_LASTS_MS {
            self.settled = jump.now;
            self.jump = None;
        } else {
            self.settled = self.settled.run_on(now_ns);
            self.jump = Some(jump);
        }
        jump.now.ms
    }
}

impl ForwardClock {
    /// `clock`, seen from where an earlier process left off.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, stored: StoredTime) -> Self {
        let (wall_ms, now_ns) = (clock.wall_ms(), clock.monotonic_ns());
        let ms = if stored.latest_ms == 0 { wall_ms } else { stored.latest_ms };
        let jump = Jump::stored(stored.jump_ms, wall_ms, now_ns);
        let timeline = Timeline { settled: Mark { ms, at_ns: now_ns }, jump };
        Self {
            clock,
            latest_ms: AtomicU64::new(0),
            timeline: Mutex::new(timeline),
            known_ms: AtomicU64::new(stored.latest_ms),
            noting_io: Mutex::new(()),
            log: OnceLock::new(),
        }
    }

    /// Goes on from the time of another process, where that is later: what it has seen expired,
    /// this one does not show.
    pub fn go_on_from(&self, stored: StoredTime) {
        self.wall_ms();
        let (wall_ms, now_ns) = (self.clock.wall_ms(), self.clock.monotonic_ns());
        let mut timeline = lock(&self.timeline);
        if stored.latest_ms <= timeline.settled.ms {
            return;
        }
        timeline.settled = Mark { ms: stored.latest_ms, at_ns: now_ns };
        timeline.jump = timeline.jump.or_else(|| Jump::stored(stored.jump_ms, wall_ms, now_ns));
        // Relaxed: as in `wall_ms`, which reads the timeline next.
        self.latest_ms.store(0, Ordering::Relaxed);
    }

    /// Keeps in `log` by what time entries are seen expired. Without one, a later process may see
    /// them again.
    pub fn note_in(&self, log: Box<dyn TimeLog>) {
        // A second log is dropped: the first one keeps the time.
        let _ = self.log.set(log);
    }

    /// Takes note that the next process will know `time`.
    pub fn note_known(&self, time: StoredTime) {
        // Relaxed: a time carries no other data with it.
        self.known_ms.fetch_max(time.latest_ms, Ordering::Relaxed);
    }

    #[cold]
    fn note(&self, expiry_ms: u64) {
        let Some(log) = self.log.get() else { return };
        let _noting = lock(&self.noting_io);
        let (time, known_ms) = (self.stored(), self.known_ms.load(Ordering::Relaxed));
        // It may have been noted meanwhile. What only a jump shows as expired may come back.
        if expiry_ms > known_ms && time.latest_ms > known_ms && log.note(time) {
            self.note_known(time);
        }
    }

    /// What the next process is to know.
    #[must_use]
    pub fn stored(&self) -> StoredTime {
        self.wall_ms();
        let timeline = lock(&self.timeline);
        let jump_ms = timeline.jump.map_or(0, |jump| jump.first_ms);
        StoredTime { latest_ms: timeline.settled.ms, jump_ms }
    }
}

impl Clock for ForwardClock {
    fn wall_ms(&self) -> u64 {
        let wall_ms = self.clock.wall_ms();
        // Relaxed: a time carries no other data with it. The common case takes no lock: within a
        // millisecond one reader moves the time.
        if wall_ms == self.latest_ms.load(Ordering::Relaxed) {
            return wall_ms;
        }
        let mut timeline = lock(&self.timeline);
        let ms = timeline.read(wall_ms, self.clock.monotonic_ns());
        // Relaxed: as above; under the lock, so that it is that of the timeline.
        self.latest_ms.store(ms, Ordering::Relaxed);
        ms
    }

    fn settled_ms(&self) -> u64 {
        self.wall_ms();
        lock(&self.timeline).settled.ms
    }

    #[inline]
    fn saw_expired(&self, expiry_ms: u64) {
        // Relaxed: as in `note_known`.
        if expiry_ms > self.known_ms.load(Ordering::Relaxed) {
            self.note(expiry_ms);
        }
    }

    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

/// A clock that moves only when it is set, or when a thread sleeps on it.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall_ms: AtomicU64,
    monotonic_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that shows the time `since_1970` (UTC), whole milliseconds of it.
    #[must_use]
    pub fn at(since_1970: Duration) -> Self {
        let wall_ms = AtomicU64::new(since_1970.as_millis() as u64);
        Self { wall_ms, monotonic_ns: AtomicU64::new(0) }
    }

    /// Moves both times forward.
    pub fn advance(&self, duration: Duration) {
        let (ms, ns) = (duration.as_millis() as u64, duration.as_nanos() as u64);
        // Relaxed: a time carries no other data with it.
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
        self.monotonic_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Sets the wall time to `since_1970` (UTC), back too, as an administrator would.
    pub fn set(&self, since_1970: Duration) {
        // Relaxed: as in `advance`.
        self.wall_ms.store(since_1970.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall_ms(&self) -> u64 {
        // Relaxed: as in `advance`.
        self.wall_ms.load(Ordering::Relaxed)
    }

    fn monotonic_ns(&self) -> u64 {
        // Relaxed: as in `advance`.
        self.monotonic_ns.load(Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests;
