//! The pacer: has all writers together keep to one price per byte.
//!
//! It does not sleep; its callers do. Bytes are charged in *slots*: each slot begins where the one
//! before ends, and lasts as long as its bytes cost. A writer sleeps until the end of its slot, so
//! the sum of all writers keeps to the price however many they are, and a thread that overslept is
//! late by that time once. A long write takes one short slot after the other, so that writers of
//! little pass in between, and what is left is charged at the price of then (tuning note 0032).
//!
//! Slots may begin in the past, as far back as the price allows a burst: writers that were idle
//! write that much without a delay.
//!
//! A writer that has written more than others sleeps longer than its slot lasts, one that is behind
//! shorter, so that a thread that was kept from writing catches up. Then entries written in order
//! fill one generation of memtables after the other, and two generations overlap little (tuning
//! note 0016).

use crate::kit::open_id::OpenId;
use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// What bytes must cost before they are charged, in nanoseconds: until then no writer looks at the
/// clock.
const CHARGE_NS_MIN: u64 = 60_000;

/// The shortest sleep, in nanoseconds. Each costs two context switches and lasts some 50 µs longer
/// than requested.
const SLEEP_NS_MIN: u64 = 200_000;

/// The longest sleep, in nanoseconds, and the longest slot. It is about the time of writing a batch
/// of a megabyte, so that no writer sleeps while others write many batches.
const SLEEP_NS_MAX: u64 = 2_000_000;

/// The longest sum of sleeps for one write, in nanoseconds. What the write costs beyond it is not
/// charged.
const SLEEPS_NS_MAX: u64 = 250_000_000;

/// How far back slots may begin at a price that allows no burst, in nanoseconds: threads that
/// overslept make up for it.
const OVERSLEPT_NS_MAX: u64 = 1_000_000;

/// The factor on the sleep of the leading writer, in eighths.
const SHARE_OF_FRONT: u64 = 12;

/// The factor on the sleep of a writer that is far behind, in eighths. It is not zero: the leader
/// may have stopped, and no writer writes for free.
const SHARE_OF_LAST: u64 = 4;

/// The distance at which a writer is far behind, in bytes. In between, the factor is interpolated.
const FAR_BEHIND_BYTES: u64 = 512 << 10;

/// The largest distance that a writer is taken to be behind, in bytes. After a pause it may write
/// this much with short sleeps.
const BEHIND_BYTES_MAX: u64 = 64 << 20;

/// A thread's first write to a database starts this many bytes behind the leader, so that threads
/// started together converge.
const NEW_BEHIND_BYTES: u64 = 8 << 20;

/// How many bytes a writer writes between two comparisons with the leader.
const STEP_BYTES: u64 = 64 << 10;

/// What a writer has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pressure {
    /// Pay for what it writes.
    Pay(Price),
    /// Wait until the debt is below the hard limit.
    Stop,
}

/// What writing costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// The time that all writers together take for a byte, in nanoseconds; 0 if they are free.
    pub ns_per_byte: f64,
    /// What idle writers may write at once, in bytes.
    pub burst_bytes: u64,
}

impl Price {
    /// The price at which all writers together write this many bytes a second.
    #[must_use]
    pub fn of_rate(bytes_per_second: f64, burst_bytes: u64) -> Self {
        Self { ns_per_byte: 1e9 / bytes_per_second, burst_bytes }
    }

    /// The higher of two prices.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.ns_per_byte > self.ns_per_byte { other } else { self }
    }
}

/// The pacer of the writers of a database.
#[derive(Debug)]
pub struct Pacer {
    /// The opening that the writers belong to.
    open_id: OpenId,
    /// The price of a byte, in thousandths of a nanosecond; `u64::MAX`: stop.
    pressure: AtomicU64,
    /// How far back slots may begin, in nanoseconds.
    burst_ns: AtomicU64,
    /// Bytes that were written and not charged yet.
    uncharged_bytes: AtomicU64,
    /// The end of the last slot, by the monotonic clock.
    slots_end_ns: AtomicU64,
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
    /// The number of bytes that have no slot yet.
    bytes: u64,
    /// Until when the writer sleeps for the bytes that have one, by the monotonic clock.
    until_ns: u64,
    /// The position of the writer after all of them, in bytes.
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
        let [pressure, burst_ns, uncharged_bytes, slots_end_ns, front] =
            std::array::from_fn(|_| AtomicU64::new(0));
        Self { open_id, pressure, burst_ns, uncharged_bytes, slots_end_ns, front }
    }

    /// Sets the price of later writes.
    pub fn set_pressure(&self, pressure: Pressure) {
        let pressure = match pressure {
            Pressure::Stop => u64::MAX,
            Pressure::Pay(Price { ns_per_byte, burst_bytes }) => {
                let burst_ns = (ns_per_byte * burst_bytes as f64) as u64;
                // Relaxed, here and below: the numbers are estimates, and carry no other data with
                // them.
                self.burst_ns.store(burst_ns.max(OVERSLEPT_NS_MAX), Ordering::Relaxed);
                (ns_per_byte * 1000.0) as u64
            }
        };
        self.pressure.store(pressure, Ordering::Relaxed);
    }

    /// Whether writers must wait until there is room.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.pressure.load(Ordering::Relaxed) == u64::MAX
    }

    /// The first delay of this thread for the `bytes` that it is about to write. `now_ns` reads the
    /// monotonic clock.
    ///
    /// Cost: a few instructions on memory of the thread, while there is no pressure.
    #[inline]
    pub fn advance(&self, bytes: u64, now_ns: impl FnOnce() -> u64) -> Option<Delay> {
        let mut writer = WRITER.get();
        writer.at += bytes;
        if writer.at >= writer.compares_at || writer.open_id != Some(self.open_id) {
            self.compare(&mut writer, bytes);
        }
        WRITER.set(writer);
        let pressure = self.pressure.load(Ordering::Relaxed);
        if pressure == 0 {
            return None;
        }
        let uncharged = self.uncharged_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if uncharged.saturating_mul(pressure) / 1000 < CHARGE_NS_MIN {
            return None;
        }
        // The thread that takes the sum sleeps for it.
        let bytes = self.uncharged_bytes.swap(0, Ordering::Relaxed);
        let due = WriteCharge { bytes, until_ns: 0, at: writer.at, slept_ns: 0 };
        self.charge(due, now_ns())
    }

    /// The next delay after `delay`, by the present price and leader.
    pub fn go_on(&self, delay: &Delay, now_ns: u64) -> Option<Delay> {
        self.charge(delay.rest, now_ns)
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

    /// Takes slots for `due` until one is worth a sleep.
    #[cold]
    fn charge(&self, mut due: WriteCharge, now_ns: u64) -> Option<Delay> {
        let pressure = self.pressure.load(Ordering::Relaxed);
        if pressure == 0 || pressure == u64::MAX || due.slept_ns >= SLEEPS_NS_MAX {
            return None;
        }
        let behind = self.front.load(Ordering::Relaxed).saturating_sub(due.at);
        let behind = behind.min(FAR_BEHIND_BYTES);
        let discount = (SHARE_OF_FRONT - SHARE_OF_LAST) * behind / FAR_BEHIND_BYTES;
        while due.until_ns < now_ns + SLEEP_NS_MIN && due.bytes > 0 {
            let bytes = due.bytes.min((SLEEP_NS_MAX * 1000 / pressure).max(1));
            due.bytes -= bytes;
            let end_ns = self.take_slot(bytes * pressure / 1000, now_ns);
            let wait_ns = end_ns.saturating_sub(now_ns) * (SHARE_OF_FRONT - discount) / 8;
            due.until_ns = now_ns + wait_ns;
        }
        let wait_ns = due.until_ns.saturating_sub(now_ns);
        if wait_ns < SLEEP_NS_MIN {
            // The slot is taken: a later one begins behind it.
            return None;
        }
        let ns = wait_ns.min(SLEEP_NS_MAX);
        let rest = WriteCharge { slept_ns: due.slept_ns + ns, ..due };
        Some(Delay { time: Duration::from_nanos(ns), rest })
    }

    /// Takes the next slot, which lasts for `ns`. Returns its end.
    fn take_slot(&self, ns: u64, now_ns: u64) -> u64 {
        let earliest = now_ns.saturating_sub(self.burst_ns.load(Ordering::Relaxed));
        let mut before = self.slots_end_ns.load(Ordering::Relaxed);
        loop {
            let end = before.max(earliest) + ns;
            let taken = self.slots_end_ns.compare_exchange_weak(
                before,
                end,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match taken {
                Ok(_) => return end,
                Err(other) => before = other,
            }
        }
    }
}

#[cfg(test)]
mod tests;
