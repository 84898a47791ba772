//! The pacer: shares the delay for the debt of background work among writers.
//!
//! It does not sleep; its callers do. A writer that has written more than others pays more, so that
//! a thread that was kept from writing catches up. Writers with the same load stay side by side.
//! Then entries written in order fill one generation of memtables after the other, and two
//! generations overlap little (tuning note 0016).
//!
//! A long wait is slept in several delays, and the rest is computed anew after each. By then the
//! debt may be smaller, or other writers may be ahead (tuning note 0032).
//!
//! Writers that sleep leave the processors to background work. While delays are short, background
//! work yields to writers that wake up (tuning note 0033).

use crate::{backpressure::curve::Pressure, kit::open_id::OpenId};
use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

/// The shortest delay for one write, in nanoseconds. A lower price is owed until the sum is large
/// enough.
const DELAY_NS_MIN: u64 = 60_000;

/// The shortest delay for the sum owed by many writes, in nanoseconds. Each delay costs two context
/// switches and lasts some 50 µs longer than requested.
const OWED_NS_MIN: u64 = 200_000;

/// The longest sleep for one write, in nanoseconds, so that no writer pays for all. A higher price
/// is not charged.
const SLEEP_NS_MAX: u64 = 15 * DELAY_NS_MAX;

/// The longest delay, in nanoseconds. It is about the time of writing a batch of a megabyte, so
/// that no writer sleeps while others write many batches.
const DELAY_NS_MAX: u64 = 2_000_000;

/// The factor on the price of the leading writer, in eighths.
const SHARE_OF_FRONT: u64 = 12;

/// The factor on the price of a writer that is far behind, in eighths. It is not zero: the leader
/// may have stopped, and no writer writes for free.
const SHARE_OF_LAST: u64 = 4;

/// The distance at which a writer is far behind, in bytes. In between, the factor is interpolated.
const FAR_BEHIND_BYTES: u64 = 512 << 10;

/// The largest distance that a writer is taken to be behind, in bytes. After a pause it may write
/// this much at a low price.
const BEHIND_BYTES_MAX: u64 = 64 << 20;

/// A thread's first write to a database starts this many bytes behind the leader, so that threads
/// started together converge.
const NEW_BEHIND_BYTES: u64 = 8 << 20;

/// The price up to which background work yields to writers, in thousandths of a nanosecond per
/// byte. At this price a hundred entries of a hundred bytes wait for 0.2 ms. Above it, background
/// work does not yield, so that readers alone cannot keep it from the processors.
const YIELD_PRICE_MAX: u64 = 20_000;

/// How many bytes a writer writes between two comparisons with the leader.
const STEP_BYTES: u64 = 64 << 10;

/// The pace of the writers of a database.
#[derive(Debug)]
pub struct Pacer {
    /// The opening that the writers belong to.
    open_id: OpenId,
    /// Delay per byte written, in thousandths of a nanosecond; `u64::MAX`: stop.
    pressure: AtomicU64,
    /// Whether the background work yields.
    should_yield: AtomicBool,
    /// The sum of prices that were too small to sleep for, in nanoseconds.
    owed_ns: AtomicU64,
    /// The position of the leading writer, in bytes, exact to a step.
    front: AtomicU64,
}

/// The state of a writing thread for the database that it wrote to last.
#[derive(Clone, Copy, Debug)]
struct Writer {
    open_id: Option<OpenId>,
    /// The writer's position, in bytes.
    at: u64,
    /// The position at which it next compares itself with the leader.
    compares_at: u64,
}

/// One sleep of a writer, and what remains after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The length of the sleep.
    pub time: Duration,
    /// What is still to be paid after it.
    rest: WriteCharge,
}

/// What a write is charged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WriteCharge {
    /// The number of bytes.
    bytes: u64,
    /// The position of the writer after them, in bytes.
    at: u64,
    /// How long the writer has slept for the same write, in nanoseconds.
    slept_ns: u64,
}

thread_local! {
    static WRITER: Cell<Writer> =
        const { Cell::new(Writer { open_id: None, at: 0, compares_at: 0 }) };
}

impl Pacer {
    /// A pacer without pressure.
    #[must_use]
    pub fn new(open_id: OpenId) -> Self {
        let [pressure, owed_ns, front] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { open_id, pressure, should_yield: AtomicBool::new(false), owed_ns, front }
    }

    /// Sets the price of later writes.
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

    /// Whether background work should yield to writers.
    #[must_use]
    pub fn should_yield(&self) -> &AtomicBool {
        &self.should_yield
    }

    /// Whether writers must wait until there is room.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.pressure.load(Ordering::Relaxed) == u64::MAX
    }

    /// The first delay of this thread for the `bytes` that it is about to write.
    ///
    /// Cost: a few instructions on memory of the thread, while there is no pressure.
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

    /// The next delay after `delay`, by the present pressure and leader.
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
        // The thread that takes the sum sleeps for it.
        let owed_ns = self.owed_ns.swap(0, Ordering::Relaxed);
        Some(delay(owed_ns.min(DELAY_NS_MAX), 0))
    }
}

#[cfg(test)]
mod tests;
