//! Publishing in order: commits finish in any order, readers see a prefix (DESIGN D4).
//!
//! It knows tickets and sequence numbers, not what was written under them.
//!
//! A commit draws a *ticket* when it reserves its place, and marks the ticket complete in a ring
//! when its entries are in the memtables. Whoever completes publishes every contiguously complete
//! ticket, so a commit whose thread sleeps holds up others only until it completes, and nobody
//! spins on its predecessor.

use siltdb_base::{
    id::SequenceNumber,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        thread,
    },
};
use std::time::Duration;

/// Most commits that may be between reservation and publication.
#[cfg(not(loom))]
pub const IN_FLIGHT_MAX: u64 = 1024;
/// Small enough for a model checker to go round the ring.
#[cfg(loom)]
pub const IN_FLIGHT_MAX: u64 = 2;

/// Rounds of yielding before a waiter sleeps: a predecessor is usually done within one.
const YIELDS_MAX: usize = if cfg!(loom) { 0 } else { 8 };

/// Nothing: sequentially consistent accesses have one total order. loom knows only that of fences,
/// so for it there is one between each of our pairs of accesses that rely on the order.
#[inline(always)]
fn total_order() {
    #[cfg(loom)]
    siltdb_base::sync::atomic::fence(Ordering::SeqCst);
}

#[derive(Debug)]
struct Slot {
    /// The ticket that completed here last, plus one.
    complete: AtomicU64,
    /// The last sequence number of that ticket.
    sequence: AtomicU64,
}

/// The published sequence number and the ring of completed tickets.
///
/// # Thread safety
/// Tickets are drawn under the caller's reservation lock; everything else from any thread.
///
/// # Invariants
/// 1. A ticket is drawn only while fewer than `IN_FLIGHT_MAX` are unpublished, so a slot is never
///    overwritten before it was published.
/// 2. `published` is the last sequence number of some ticket all of whose predecessors completed.
/// 3. Sequence numbers ascend with tickets.
/// 4. `head` moves from a ticket only if its slot is marked complete, or by the thread that drew
///    it and has not marked it.
#[derive(Debug)]
pub struct Publisher {
    /// The first ticket that is not published.
    head: AtomicU64,
    published: AtomicU64,
    slots: Box<[Slot]>,
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    woken: Condvar,
}

impl Publisher {
    /// A publisher that has published everything up to `sequence`; the next ticket is 0.
    #[must_use]
    pub fn new(sequence: SequenceNumber) -> Self {
        let slots = (0..IN_FLIGHT_MAX)
            .map(|_| Slot { complete: AtomicU64::new(0), sequence: AtomicU64::new(0) })
            .collect();
        Self {
            head: AtomicU64::new(0),
            published: AtomicU64::new(sequence.0),
            slots,
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// What readers may see. Read it after pinning a view, never before (DESIGN D13).
    #[inline]
    #[must_use]
    pub fn published(&self) -> SequenceNumber {
        // Acquire pairs with the store in `complete` and the maximum taken in `advance`: entries up
        // to it are visible.
        SequenceNumber(self.published.load(Ordering::Acquire))
    }

    /// Tickets below this one may be drawn, by (1).
    #[must_use]
    pub fn tickets_end(&self) -> u64 {
        // Acquire pairs with the exchanges of `head`: a slot was read before it is reused.
        self.head.load(Ordering::Acquire) + IN_FLIGHT_MAX
    }

    /// Marks `ticket` complete, publishes what is contiguous, and returns once `last`, its last
    /// sequence number, is published.
    #[inline]
    pub fn complete(&self, ticket: u64, last: SequenceNumber) {
        // Acquire pairs with the exchange that moved `head` here: what earlier commits wrote is
        // handed on with our own.
        if self.head.load(Ordering::Acquire) != ticket {
            self.complete_behind(ticket, last);
            return;
        }
        // Everybody before us is published, and as our slot is not marked, nobody but us moves on
        // (4). The number first, then the head, as in `advance`. Release pairs with `published`.
        self.published.store(last.0, Ordering::Release);
        // SeqCst orders it before the looks at the next slot and at the sleepers: a neighbour that
        // completes meanwhile sees the head or is seen, and so does one who falls asleep.
        self.head.swap(ticket + 1, Ordering::SeqCst);
        total_order();
        let next = &self.slots[((ticket + 1) % IN_FLIGHT_MAX) as usize];
        if next.complete.load(Ordering::SeqCst) == ticket + 2 {
            self.advance();
        }
        self.wake();
    }

    #[cold]
    fn complete_behind(&self, ticket: u64, last: SequenceNumber) {
        let slot = &self.slots[(ticket % IN_FLIGHT_MAX) as usize];
        // Release pairs with the acquire in `advance`, which then sees the head that let us in.
        slot.sequence.store(last.0, Ordering::Release);
        // Release pairs with the acquire in `advance`: the memtable entries and the number are
        // there. SeqCst orders it before the look at `head`, so that of two neighbours that
        // complete at once at least one sees the other.
        slot.complete.store(ticket + 1, Ordering::SeqCst);
        total_order();
        self.advance();
        self.wait(last);
    }

    fn advance(&self) {
        loop {
            let head = self.head.load(Ordering::SeqCst);
            let slot = &self.slots[(head % IN_FLIGHT_MAX) as usize];
            if slot.complete.load(Ordering::SeqCst) != head + 1 {
                return;
            }
            // By (1) the slot is used again only after `head` moved on, so a head that still stands
            // after the load vouches for the number. Acquire: see `complete`.
            let sequence = slot.sequence.load(Ordering::Acquire);
            if self.head.load(Ordering::SeqCst) != head {
                continue;
            }
            // The number first, then the head: who sees the head moved on also finds the number
            // published. By (3) a late maximum changes nothing.
            self.published.fetch_max(sequence, Ordering::SeqCst);
            // A failed exchange means that another thread published this ticket.
            let _ = self.head.compare_exchange(head, head + 1, Ordering::SeqCst, Ordering::SeqCst);
            total_order();
            self.wake();
        }
    }

    /// Wakes those who sleep, after `head` was moved.
    #[inline]
    fn wake(&self) {
        // SeqCst pairs with the increment in `sleep`: either we see the sleeper, or it sees the
        // head.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock());
            self.woken.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.sleeping.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns once `sequence` is published.
    pub fn wait(&self, sequence: SequenceNumber) {
        self.wait_until(|| self.published() >= sequence);
    }

    /// Returns once `sequence` is published, or `timeout` is over; says whether it is published.
    pub fn wait_within(&self, sequence: SequenceNumber, timeout: Duration) -> bool {
        let holds = || self.published() >= sequence;
        if holds() || timeout.is_zero() {
            return holds();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        total_order();
        // As in `sleep`.
        self.head.load(Ordering::SeqCst);
        let mut guard = self.lock();
        let mut is_over = false;
        while !is_over && !holds() {
            let woken = self.woken.wait_timeout(guard, timeout);
            let (again, result) = woken.unwrap_or_else(|poisoned| poisoned.into_inner());
            is_over = result.timed_out();
            guard = again;
        }
        drop(guard);
        // Relaxed: as in `sleep`.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        holds()
    }

    /// Returns once `ticket` may be drawn. Not once a number is published: the head, which lets
    /// tickets be drawn, moves after that.
    pub fn wait_for_ticket(&self, ticket: u64) {
        self.wait_until(|| ticket < self.tickets_end());
    }

    /// Returns once something holds that comes about at the latest when the head moves.
    fn wait_until(&self, holds: impl Fn() -> bool) {
        for _ in 0..YIELDS_MAX {
            if holds() {
                return;
            }
            thread::yield_now();
        }
        self.sleep(holds);
    }

    fn sleep(&self, holds: impl Fn() -> bool) {
        if holds() {
            return;
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        total_order();
        // A head that was moved before its mover looked for sleepers is seen here, and with it the
        // number that was published before; so it is by `holds`.
        self.head.load(Ordering::SeqCst);
        let mut guard = self.lock();
        while !holds() {
            guard = self.woken.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        drop(guard);
        // Relaxed: a count too high only costs a wake-up.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
