//! Publication: commits finish in any order, readers see a prefix of the order.
//!
//! The publisher knows tickets and sequence numbers, not what was written under them.
//!
//! A commit draws a *ticket* when it reserves its place. When its entries are in the memtables, it
//! marks the ticket complete in a ring. Each completing thread publishes all contiguously complete
//! tickets. So a sleeping thread delays later commits only until its ticket is complete, and no
//! thread spins on its predecessor.
//!
//! A commit that panics *fails* its ticket: its entries may be there in part. Nothing is published
//! from there on, and who waits for it returns.

use siltdb_base::{
    id::SequenceNumber,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        thread,
    },
};
use std::time::Duration;

/// The maximum number of commits between reservation and publication.
#[cfg(not(loom))]
pub const IN_FLIGHT_MAX: u64 = 1024;
/// Small enough for a model checker to go round the ring.
#[cfg(loom)]
pub const IN_FLIGHT_MAX: u64 = 2;

/// Rounds of yielding before a waiter sleeps. A predecessor is usually done within one round.
const YIELDS_MAX: usize = if cfg!(loom) { 0 } else { 8 };

/// Marks the ticket in a slot as failed.
const FAILED: u64 = 1 << 63;

/// Does nothing in a normal build: sequentially consistent accesses have one total order. loom
/// knows only the order of fences. For it, a fence stands between each two accesses that rely on
/// the order.
#[inline(always)]
fn total_order() {
    #[cfg(loom)]
    siltdb_base::sync::atomic::fence(Ordering::SeqCst);
}

#[derive(Debug)]
struct Slot {
    /// The ticket that completed here last, plus one; with [`FAILED`], if it failed.
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
/// 4. `head` moves past a ticket only if its slot is marked complete, or by the thread that drew
///    the ticket and has not marked it.
/// 5. `head` never moves past a ticket that failed, by (4): its slot is marked as failed.
#[derive(Debug)]
pub struct Publisher {
    /// The first ticket that is not published.
    head: AtomicU64,
    published: AtomicU64,
    slots: Box<[Slot]>,
    /// Whether a ticket failed.
    failed: AtomicBool,
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
            failed: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// The sequence number up to which readers see. A reader pins its view first and reads this
    /// number after it: then the view has everything up to the number.
    #[inline]
    #[must_use]
    pub fn published(&self) -> SequenceNumber {
        // Acquire pairs with the store in `complete` and the maximum taken in `advance`: all
        // entries up to the number are visible.
        SequenceNumber(self.published.load(Ordering::Acquire))
    }

    /// The end of the tickets that may be drawn, by (1).
    #[must_use]
    pub fn tickets_end(&self) -> u64 {
        // Acquire pairs with the exchanges of `head`: a slot was read before it is reused.
        self.head.load(Ordering::Acquire) + IN_FLIGHT_MAX
    }

    /// Marks `ticket` complete and publishes all contiguously complete tickets. Returns once
    /// `last`, the last sequence number of `ticket`, is published, or never will be.
    #[inline]
    pub fn complete(&self, ticket: u64, last: SequenceNumber) {
        // Acquire pairs with the exchange that moved `head` here: what earlier commits wrote is
        // passed on with this one's entries.
        let head = self.head.load(Ordering::Acquire);
        if head != ticket {
            self.complete_behind(ticket, last, head);
            return;
        }
        // Relaxed: `head` was read, and with it the number of the commit before.
        let published = self.published.load(Ordering::Relaxed);
        assert!(last.0 > published, "{}", goes_back(last, published));
        // All earlier tickets are published. Our slot is not marked, so only this thread moves on
        // (4). The number first, then the head, as in `advance`. Release pairs with `published`.
        self.published.store(last.0, Ordering::Release);
        // SeqCst orders it before the loads of the next slot and of the sleepers. A neighbour that
        // completes meanwhile sees the head or is seen, and so does a thread that falls asleep.
        self.head.swap(ticket + 1, Ordering::SeqCst);
        total_order();
        let next = &self.slots[((ticket + 1) % IN_FLIGHT_MAX) as usize];
        if next.complete.load(Ordering::SeqCst) == ticket + 2 {
            self.advance();
        }
        self.wake();
    }

    #[cold]
    fn complete_behind(&self, ticket: u64, last: SequenceNumber, head: u64) {
        assert!(ticket > head, "ticket {ticket} would be published again, and {head} is the next");
        let end = head + IN_FLIGHT_MAX;
        assert!(
            ticket < end,
            "ticket {ticket} would be noted over one that is not published: {head}"
        );
        let slot = &self.slots[(ticket % IN_FLIGHT_MAX) as usize];
        // Release pairs with the acquire in `advance`, which then sees the head that let this
        // ticket in.
        slot.sequence.store(last.0, Ordering::Release);
        // Release pairs with the acquire in `advance`: the memtable entries and the number are
        // there. SeqCst orders it before the load of `head`: of two neighbours that complete at
        // once, at least one sees the other.
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
            // By (1) the slot is reused only after `head` moved on. So if the head has not moved
            // after the load, the number is that of this ticket. Acquire: see `complete`.
            let sequence = slot.sequence.load(Ordering::Acquire);
            if self.head.load(Ordering::SeqCst) != head {
                continue;
            }
            // The number first, then the head: a thread that sees the moved head also finds the
            // number published. By (3) a late maximum changes nothing.
            self.published.fetch_max(sequence, Ordering::SeqCst);
            // A failed exchange means that another thread published this ticket.
            let _ = self.head.compare_exchange(head, head + 1, Ordering::SeqCst, Ordering::SeqCst);
            total_order();
            self.wake();
        }
    }

    /// Wakes sleeping threads, after `head` was moved.
    #[inline]
    fn wake(&self) {
        // SeqCst pairs with the increment in `sleep`: either this thread sees the sleeper, or the
        // sleeper sees the head.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.lock());
            self.woken.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.sleeping.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Ends `ticket` without publishing it, or any later one. The caller has noted before why the
    /// order ends here: who waits for these tickets returns, and must look.
    pub fn fail(&self, ticket: u64) {
        let slot = &self.slots[(ticket % IN_FLIGHT_MAX) as usize];
        slot.complete.store((ticket + 1) | FAILED, Ordering::SeqCst);
        // Release pairs with the acquire in `has_failed`: what the caller has noted is there.
        self.failed.store(true, Ordering::Release);
        // Under the lock: a sleeper that has not seen the failure has not taken it yet, or waits.
        drop(self.lock());
        self.woken.notify_all();
    }

    /// Whether a ticket has failed, so that nothing more is published.
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Returns once every ticket before `end` is complete or has failed: no commit with a place is
    /// at work any more.
    pub fn wait_for_all(&self, end: u64) {
        self.wait_until(|| self.head.load(Ordering::Acquire) >= end);
        // After a failure the head stands still, and the slots of all later tickets are theirs, by
        // (1). This is rare, and no commit takes long: it looks again and again.
        let mut ticket = self.head.load(Ordering::Acquire);
        while ticket < end {
            let slot = &self.slots[(ticket % IN_FLIGHT_MAX) as usize];
            let is_over = slot.complete.load(Ordering::Acquire) & !FAILED == ticket + 1;
            if is_over || ticket < self.head.load(Ordering::Acquire) {
                ticket += 1;
            } else {
                thread::yield_now();
            }
        }
    }

    /// Returns once `sequence` is published, or never will be, because a ticket has failed.
    pub fn wait(&self, sequence: SequenceNumber) {
        self.wait_until(|| self.published() >= sequence);
    }

    /// Returns once `sequence` is published, or `timeout` is over. The result says whether it is
    /// published.
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

    /// Returns once `ticket` may be drawn, or none may, because one has failed. It does not wait
    /// for a published number: the head, which lets tickets be drawn, moves after that.
    pub fn wait_for_ticket(&self, ticket: u64) {
        self.wait_until(|| ticket < self.tickets_end());
    }

    /// Returns once `holds` is true or a ticket has failed. The condition must become true at the
    /// latest when the head moves.
    fn wait_until(&self, holds: impl Fn() -> bool) {
        let holds = || holds() || self.has_failed();
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
        // If the head was moved before its mover looked for sleepers, this load sees it. With it
        // `holds` sees the number, which was published before.
        self.head.load(Ordering::SeqCst);
        let mut guard = self.lock();
        while !holds() {
            guard = self.woken.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        drop(guard);
        // Relaxed: a count that is too high costs one wake-up.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cold]
fn goes_back(last: SequenceNumber, published: u64) -> String {
    format!("a commit would publish {last} after {published}")
}

#[cfg(test)]
mod tests;
