//! Publication: commits finish in any order, readers see a prefix of the order.
//!
//! The publisher knows tickets and sequence numbers, not what was written under them.
//!
//! A commit draws a *ticket* when it reserves its place. When its entries are in the memtables, it
//! marks the ticket complete in a ring. Each completing thread publishes all contiguously complete
//! tickets, as one group. So a sleeping thread delays later commits only until its ticket is
//! complete, and no thread spins on its predecessor.
//!
//! A thread that waits for a ticket sleeps at its slot. The thread that publishes a group wakes the
//! sleepers at the slots of the group, and no other.
//!
//! Each commit waits until it is published, because every call that writes promises that later
//! reads, also of other threads, see what it wrote.
//!
//! A commit that panics *fails* its ticket: its entries may be there in part. Nothing is published
//! from there on, and each thread that waits for it returns.

use siltdb_base::{
    id::SequenceNumber,
    seeded_fault,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
        thread,
    },
};
use std::{ops::Range, sync::PoisonError, time::Duration};

/// The maximum number of commits between reservation and publication.
#[cfg(not(loom))]
pub const IN_FLIGHT_MAX: u64 = 1024;
/// Small enough for a model checker to go round the ring, and large enough for a group of two
/// behind a commit.
#[cfg(loom)]
pub const IN_FLIGHT_MAX: u64 = 3;

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
    /// How many threads sleep until the ticket that is here now is published.
    sleepers: AtomicU32,
    sleeping: Mutex<()>,
    woken: Condvar,
}

impl Slot {
    fn new() -> Self {
        Self {
            complete: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            sleepers: AtomicU32::new(0),
            sleeping: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.sleeping.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that sleep here. Under the lock: a sleeper that has not seen the reason
    /// has not taken it yet, or waits.
    fn wake(&self) {
        drop(self.lock());
        self.woken.notify_all();
    }
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
/// 6. A thread that waits for a ticket sleeps at the slot of that ticket, is counted there and in
///    `sleepers`, and has read `head` since. A thread that moves `head` looks at `sleepers` after
///    it, and at the slots that it moved past. So one of the two sees the other.
///
/// On cache lines of its own: each commit writes to it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Publisher {
    /// The first ticket that is not published.
    head: AtomicU64,
    published: AtomicU64,
    slots: Box<[Slot; IN_FLIGHT_MAX as usize]>,
    /// Whether a ticket failed.
    failed: AtomicBool,
    /// The sum of the sleepers of all slots: a commit looks here, and at slots only if there are
    /// any.
    sleepers: AtomicUsize,
}

impl Publisher {
    /// A publisher that has published everything up to `sequence`; the next ticket is 0.
    #[must_use]
    pub fn new(sequence: SequenceNumber) -> Self {
        Self {
            head: AtomicU64::new(0),
            published: AtomicU64::new(sequence.0),
            slots: Box::new(std::array::from_fn(|_| Slot::new())),
            failed: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn slot(&self, ticket: u64) -> &Slot {
        &self.slots[(ticket % IN_FLIGHT_MAX) as usize]
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
        // (4). The number first, then the head, as in `advance`.
        self.store_published(last);
        // SeqCst orders it before the loads of the next slot and of the sleepers. A neighbour that
        // completes meanwhile sees the head or is seen, and so does a thread that falls asleep.
        self.head.swap(ticket + 1, Ordering::SeqCst);
        total_order();
        // Before the sleepers wake up: a commit behind this one need not publish itself then.
        if self.slot(ticket + 1).complete.load(Ordering::SeqCst) == ticket + 2 {
            self.advance();
        }
        self.wake(ticket..ticket + 1);
    }

    /// Stores the number of the commit whose ticket is the head.
    #[inline(always)]
    fn store_published(&self, last: SequenceNumber) {
        // Release pairs with `published`. A late maximum stands right behind the number that it
        // read, and so before this one. loom knows that only of exchanges.
        #[cfg(not(loom))]
        self.published.store(last.0, Ordering::Release);
        #[cfg(loom)]
        self.published.swap(last.0, Ordering::Release);
    }

    #[cold]
    fn complete_behind(&self, ticket: u64, last: SequenceNumber, head: u64) {
        assert!(ticket > head, "ticket {ticket} would be published again, and {head} is the next");
        let end = head + IN_FLIGHT_MAX;
        assert!(
            ticket < end,
            "ticket {ticket} would be noted over one that is not published: {head}"
        );
        self.mark_complete(ticket, last);
        self.advance();
        self.wait_for(ticket);
    }

    /// Marks `ticket`, which others precede, as complete. [`Publisher::advance`] comes after it.
    fn mark_complete(&self, ticket: u64, last: SequenceNumber) {
        let slot = self.slot(ticket);
        // Release pairs with the acquire in `completed_from`, whose caller then sees the head that
        // let this ticket in.
        slot.sequence.store(last.0, Ordering::Release);
        // Release pairs with the acquire in `completed_from`: the memtable entries and the number
        // are there. SeqCst orders it before the load of `head`: of two neighbours that complete at
        // once, at least one sees the other.
        slot.complete.store(ticket + 1, Ordering::SeqCst);
        total_order();
    }

    /// The end of the tickets that are complete from `ticket` on without a gap, and the last number
    /// of the last of them. `None` if `ticket` is not complete.
    ///
    /// # Seeded faults
    /// `group_jumps_a_gap`: a group goes on behind a ticket that is not complete.
    fn completed_from(&self, ticket: u64) -> Option<(u64, u64)> {
        let mut found = None;
        for ticket in ticket..ticket + IN_FLIGHT_MAX {
            let slot = self.slot(ticket);
            let is_complete = slot.complete.load(Ordering::SeqCst) == ticket + 1;
            if !is_complete && seeded_fault!("group_jumps_a_gap") {
                continue;
            }
            if !is_complete {
                break;
            }
            // Acquire: see `complete_behind`.
            found = Some((ticket + 1, slot.sequence.load(Ordering::Acquire)));
        }
        found
    }

    /// Publishes all that is complete from the head on, in groups.
    fn advance(&self) {
        loop {
            let head = self.head.load(Ordering::SeqCst);
            let Some((end, last)) = self.completed_from(head) else { return };
            // By (1) a slot is reused only after `head` moved past it. So if the head has not moved
            // after the loads, they were of these tickets.
            if self.head.load(Ordering::SeqCst) != head {
                continue;
            }
            // The number first, then the head: a thread that sees the moved head also finds the
            // number published. By (3) a late maximum changes nothing.
            self.published.fetch_max(last, Ordering::SeqCst);
            // A failed exchange means that another thread published the first of these tickets, and
            // perhaps not the last: the next round does.
            let moved = self.head.compare_exchange(head, end, Ordering::SeqCst, Ordering::SeqCst);
            total_order();
            if moved.is_ok() {
                self.wake(head..end);
            }
        }
    }

    /// Wakes the threads that sleep at the slots of `published`, which `head` was moved past.
    #[inline]
    fn wake(&self, published: Range<u64>) {
        // SeqCst pairs with the increment in `sleep`: by (6).
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_at(published);
        }
    }

    #[cold]
    fn wake_at(&self, published: Range<u64>) {
        for slot in published.map(|ticket| self.slot(ticket)) {
            // SeqCst: as in `wake`.
            if slot.sleepers.load(Ordering::SeqCst) > 0 {
                slot.wake();
            }
        }
    }

    /// Ends `ticket` without publishing it, or any later one. The caller has noted before why the
    /// order ends here: a thread that waits for these tickets returns, and must look.
    pub fn fail(&self, ticket: u64) {
        self.slot(ticket).complete.store((ticket + 1) | FAILED, Ordering::SeqCst);
        // Release pairs with the acquire in `has_failed`: what the caller has noted is there.
        self.failed.store(true, Ordering::Release);
        // All, whether they count as sleepers yet or not.
        self.slots.iter().for_each(Slot::wake);
    }

    /// Whether a ticket has failed, so that nothing more is published.
    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether `ticket` is published.
    #[inline]
    fn is_published(&self, ticket: u64) -> bool {
        // Acquire pairs with the exchanges of `head`: the number is published too.
        self.head.load(Ordering::Acquire) > ticket
    }

    /// Returns once every ticket before `end` is complete or has failed: no commit with a place is
    /// at work any more.
    pub fn wait_for_all(&self, end: u64) {
        self.wait_before(end);
        // After a failure the head stands still, and the slots of all later tickets are theirs, by
        // (1). This is rare, and no commit takes long: it looks again and again.
        let mut ticket = self.head.load(Ordering::Acquire);
        while ticket < end {
            let is_over =
                self.slot(ticket).complete.load(Ordering::Acquire) & !FAILED == ticket + 1;
            if is_over || self.is_published(ticket) {
                ticket += 1;
            } else {
                thread::yield_now();
            }
        }
    }

    /// Returns once every ticket before `end` is published, or never will be, because one has
    /// failed.
    pub fn wait_before(&self, end: u64) {
        if let Some(last) = end.checked_sub(1) {
            self.wait_for(last);
        }
    }

    /// Returns once `sequence` is published, or never will be, because a ticket has failed. Wakes
    /// up for each group until then, so a commit waits for a ticket instead.
    pub fn wait(&self, sequence: SequenceNumber) {
        while self.published() < sequence && !self.has_failed() {
            self.wait_for_next(sequence, |ticket| self.wait_for(ticket));
        }
    }

    /// Returns once `sequence` is published, or `timeout` has passed without a commit. The result
    /// says whether it is published.
    pub fn wait_within(&self, sequence: SequenceNumber, timeout: Duration) -> bool {
        let mut is_over = timeout.is_zero();
        while !is_over && self.published() < sequence {
            self.wait_for_next(sequence, |ticket| is_over = self.sleep(ticket, Some(timeout)));
        }
        self.published() >= sequence
    }

    /// Has `wait` wait for the first ticket that is not published, unless that of `sequence` is.
    fn wait_for_next(&self, sequence: SequenceNumber, wait: impl FnOnce(u64)) {
        let head = self.head.load(Ordering::Acquire);
        // After the head: a number that is not published yet belongs to its ticket or a later one.
        if self.published() < sequence {
            wait(head);
        }
    }

    /// Returns once `ticket` may be drawn, or none may, because one has failed.
    pub fn wait_for_ticket(&self, ticket: u64) {
        // By (1) the ticket that has its slot must be published.
        if let Some(last) = ticket.checked_sub(IN_FLIGHT_MAX) {
            self.wait_for(last);
        }
    }

    /// Returns once `ticket` is published, or one has failed.
    fn wait_for(&self, ticket: u64) {
        for _ in 0..YIELDS_MAX {
            if self.is_over(ticket) {
                return;
            }
            thread::yield_now();
        }
        self.sleep(ticket, None);
    }

    /// Whether `ticket` is published, or never will be.
    fn is_over(&self, ticket: u64) -> bool {
        self.is_published(ticket) || self.has_failed()
    }

    /// Sleeps until `ticket` is published, one has failed, or `timeout` is over. The result says
    /// whether that is over.
    fn sleep(&self, ticket: u64, timeout: Option<Duration>) -> bool {
        let slot = self.slot(ticket);
        slot.sleepers.fetch_add(1, Ordering::SeqCst);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        total_order();
        // By (6): if the head was moved past the ticket before its mover looked for sleepers, this
        // load sees it, and so does each later one.
        self.head.load(Ordering::SeqCst);
        let mut guard = slot.lock();
        let mut timed_out = false;
        while !timed_out && !self.is_over(ticket) {
            guard = match timeout {
                None => slot.woken.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(timeout) => {
                    let woken = slot.woken.wait_timeout(guard, timeout);
                    let (guard, result) = woken.unwrap_or_else(PoisonError::into_inner);
                    timed_out = result.timed_out();
                    guard
                }
            };
        }
        drop(guard);
        // Relaxed: counts that are too high cost a look at slots, and one wake-up.
        slot.sleepers.fetch_sub(1, Ordering::Relaxed);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        timed_out
    }
}

#[cold]
fn goes_back(last: SequenceNumber, published: u64) -> String {
    format!("a commit would publish {last} after {published}")
}

#[cfg(test)]
mod tests;
