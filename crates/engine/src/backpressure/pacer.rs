//! How long writers wait for the debt of the background work, and which of them how long.
//!
//! It sleeps for nobody. Who has written more than others pays more than they do, so that a thread
//! that was kept from writing catches up. Writers that do the same stay side by side: what they
//! write in order fills one generation of memtables after the other, and little of two generations
//! is to be merged (tuning note 0016).
//!
//! A long wait is slept in delays, and what is still to be paid is worked out again after each: by
//! then the debt may be smaller, or others may be in front (tuning note 0032).
//!
//! Writers that sleep leave the processors to the background work, and it leaves them to the
//! writers once these wake up: while they are slowed down a little, it yields (tuning note 0033).

use crate::{backpressure::curve::Pressure, open_id::OpenId};
use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

/// Shortest delay for one write, in nanoseconds; a lower price is owed until it adds up.
const DELAY_NS_MIN: u64 = 60_000;

/// Shortest delay for what many writes owe together, in nanoseconds: each costs two switches of the
/// processor, and takes some 50 µs longer than was asked for.
const OWED_NS_MIN: u64 = 200_000;

/// Longest sleep for one write, in nanoseconds, so that none pays for all; what is owed beyond it
/// is forgiven.
const SLEEP_NS_MAX: u64 = 15 * DELAY_NS_MAX;

/// Longest delay, in nanoseconds: about what a batch of a megabyte takes to be written, so that
/// nobody sleeps while others write many of them.
const DELAY_NS_MAX: u64 = 2_000_000;

/// The writer in front pays its price times this, in eighths.
const SHARE_OF_FRONT: u64 = 12;

/// A writer that is far behind pays its price times this, in eighths: there may be nobody in front
/// any more, so nobody writes for nothing.
const SHARE_OF_LAST: u64 = 4;

/// What counts as far behind, in bytes; in between, shares are in between.
const FAR_BEHIND_BYTES: u64 = 512 << 10;

/// A writer is never taken to be behind by more, in bytes: so much it may write cheaply after a
/// pause.
const BEHIND_BYTES_MAX: u64 = 64 << 20;

/// A writer that is new, or comes from another database, begins so far behind, in bytes: those that
/// begin together are not told to stay as far apart as the system happened to start them.
const NEW_BEHIND_BYTES: u64 = 8 << 20;

/// Up to this price the background work yields to writers, in thousandths of a nanosecond for a
/// byte: a hundred entries of a hundred bytes wait for 0.2 ms then. Beyond it, it takes what the
/// scheduler gives it, so that those who only read cannot keep it from the processors.
const YIELD_PRICE_MAX: u64 = 20_000;

/// How far a writer comes before it compares itself with the front, in bytes.
const STEP_BYTES: u64 = 64 << 10;

/// The pace of the writers of a database.
#[derive(Debug)]
pub struct Pacer {
    /// Whose writers they are.
    open_id: OpenId,
    /// Delay per byte written, in thousandths of a nanosecond; `u64::MAX`: stop.
    pressure: AtomicU64,
    /// Whether the background work yields.
    should_yield: AtomicBool,
    /// What writers owe in prices that are too small to sleep for, in nanoseconds.
    owed_ns: AtomicU64,
    /// How far the writer in front has come, in bytes, give or take a step.
    front: AtomicU64,
}

/// A thread that writes, at the database that it wrote to last.
#[derive(Clone, Copy, Debug)]
struct Writer {
    open_id: Option<OpenId>,
    /// How far it has come, in bytes.
    at: u64,
    /// Where it compares itself with the front again.
    compares_at: u64,
}

/// What a writer sleeps before it asks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// How long.
    pub time: Duration,
    /// What is to be paid after it.
    rest: WriteCharge,
}

/// What a writer has to pay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriteCharge {
    /// So many bytes.
    bytes: u64,
    /// How far the writer has come with them, in bytes.
    at: u64,
    /// How long it has slept for the same write, in nanoseconds.
    slept_ns: u64,
}

thread_local! {
    static WRITER: Cell<Writer> =
        const { Cell::new(Writer { open_id: None, at: 0, compares_at: 0 }) };
}

impl Pacer {
    /// Nobody waits.
    #[must_use]
    pub fn new(open_id: OpenId) -> Self {
        let [pressure, owed_ns, front] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { open_id, pressure, should_yield: AtomicBool::new(false), owed_ns, front }
    }

    /// Changes what writers pay for what they write from now on.
    pub fn set_pressure(&self, pressure: Pressure) {
        let pressure = match pressure {
            Pressure::Stop => u64::MAX,
            Pressure::Delay(ns_per_byte) => (ns_per_byte * 1000.0) as u64,
        };
        // Relaxed, here and below: the numbers are estimates, and carry no other data with them.
        self.pressure.store(pressure, Ordering::Relaxed);
        let should_yield = (1..=YIELD_PRICE_MAX).contains(&pressure);
        self.should_yield.store(should_yield, Ordering::Relaxed);
    }

    /// Set while the background work shall yield to writers.
    #[must_use]
    pub fn should_yield(&self) -> &AtomicBool {
        &self.should_yield
    }

    /// Whether writers shall wait until there is room.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.pressure.load(Ordering::Relaxed) == u64::MAX
    }

    /// The first delay of this thread for the `bytes` that it is about to write.
    ///
    /// Cost: a few instructions on memory of the thread, while nobody waits.
    #[inline]
    pub fn advance(&self, bytes: u64) -> Option<Delay> {
        let mut writer = WRITER.get();
        writer.at += bytes;
        if writer.at >= writer.compares_at || writer.open_id != Some(self.open_id) {
            self.compare(&mut writer, bytes);
        }
        WRITER.set(writer);
        if self.pressure.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.pay(WriteCharge { bytes, at: writer.at, slept_ns: 0 })
    }

    /// The delay after `delay`, by what the pressure is and who is in front by now.
    pub fn go_on(&self, delay: &Delay) -> Option<Delay> {
        self.pay(delay.rest)
    }

    #[cold]
    fn compare(&self, writer: &mut Writer, bytes: u64) {
        let front = self.front.load(Ordering::Relaxed);
        if writer.open_id != Some(self.open_id) {
            let at = front.saturating_sub(NEW_BEHIND_BYTES) + bytes;
            *writer = Writer { open_id: Some(self.open_id), at, compares_at: 0 };
        }
        writer.at = writer.at.max(front.saturating_sub(BEHIND_BYTES_MAX));
        writer.compares_at = writer.at + STEP_BYTES;
        self.front.fetch_max(writer.at, Ordering::Relaxed);
    }

    #[cold]
    fn pay(&self, due: WriteCharge) -> Option<Delay> {
        let WriteCharge { bytes, at, slept_ns } = due;
        let pressure = self.pressure.load(Ordering::Relaxed);
        if pressure == u64::MAX || slept_ns >= SLEEP_NS_MAX {
            return None;
        }
        let behind = self.front.load(Ordering::Relaxed).saturating_sub(at).min(FAR_BEHIND_BYTES);
        let discount = (SHARE_OF_FRONT - SHARE_OF_LAST) * behind / FAR_BEHIND_BYTES;
        let price_ns = bytes.saturating_mul(pressure) / 1000;
        let price_ns = price_ns.saturating_mul(SHARE_OF_FRONT - discount) / 8;
        let delay = |ns: u64, bytes: u64| Delay {
            time: Duration::from_nanos(ns),
            rest: WriteCharge { bytes, at, slept_ns: slept_ns + ns },
        };
        if price_ns >= DELAY_NS_MIN {
            let ns = price_ns.min(DELAY_NS_MAX);
            let left = u128::from(bytes) * u128::from(price_ns - ns) / u128::from(price_ns);
            return Some(delay(ns, left as u64));
        }
        if self.owed_ns.fetch_add(price_ns, Ordering::Relaxed) + price_ns < OWED_NS_MIN {
            return None;
        }
        // Whoever takes the sum sleeps for it.
        let owed_ns = self.owed_ns.swap(0, Ordering::Relaxed);
        Some(delay(owed_ns.min(DELAY_NS_MAX), 0))
    }
}

#[cfg(test)]
mod tests;
