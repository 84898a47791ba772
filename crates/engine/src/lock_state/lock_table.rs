//! The lock table: which owners hold which keys and ranges, and which wait for them.
//!
//! The table knows owners, keys and modes. `locks` deals with writers and readers.
//!
//! A request is granted as a whole or waits as a whole:
//!
//! 1. It waits while another owner holds a conflicting lock.
//! 2. The request of an owner without locks also waits for earlier conflicting requests, so that a
//!    queue moves in order. An owner that holds locks passes the queue.
//! 3. A waiting request looks for a cycle of owners that hold and wait. If it finds one, it fails,
//!    because it closed the cycle: all others were there before it.
//! 4. A release, and a request that leaves the queue, look at the requests that waited for this,
//!    and grant what is free. Only those wake up.
//!
//! By (2) an owner that waits in the queue holds nothing, so the queue never closes a cycle. If it
//! gets locks by another request meanwhile, its waiting requests are looked at again.
//!
//! # Cost
//! A request of n keys takes n searches, and n more for each time that all of them were passed: it
//! goes on at the key that was blocked last, and from the last key to the first, until nothing
//! blocks it all the way round.

mod range_set;

pub mod request;

mod held;
mod queue;

pub use range_set::RangeSet;
pub(crate) use request::shown;
pub use request::{LockFlag, LockMode, LockOwner, LockRequest, LockTarget};

use crate::lock_state::lock_table::{
    held::Held,
    queue::{Blocker, Queue, Ticket, WaitingRequest},
};
use siltdb_base::{
    clock::Clock,
    error::{Error, ErrorKind, Result},
    invariant, seeded_fault,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    sync::{Arc, PoisonError},
    time::Duration,
};

/// One owner waits for another.
#[derive(Debug)]
struct Edge<'a> {
    waiter: LockOwner,
    request: &'a LockRequest,
    holder: LockOwner,
}

#[derive(Debug, Default)]
struct Table {
    held: Held,
    /// The ids of the owners that are prepared transactions. They never wait.
    prepared_ids: BTreeMap<LockOwner, Vec<u8>>,
    queue: Queue,
}

impl Table {
    /// What blocks one of `requests`, and its index, from the one at `place` on all the way round.
    fn blocker(
        &self,
        owner: LockOwner,
        ticket: Ticket,
        requests: &[LockRequest],
        place: usize,
    ) -> Option<(usize, Blocker)> {
        let is_queued = !self.queue.is_empty() && !self.held.has(owner);
        let indexes = (place..requests.len()).chain(0..place);
        indexes.into_iter().find_map(|index| {
            let request = &requests[index];
            let earlier = is_queued.then(|| self.queue.last_before(owner, ticket, request));
            let blocker = match earlier.flatten() {
                Some(earlier) => Some(Blocker::Request(earlier)),
                None => self.held.blockers(Some(owner), request).next().map(Blocker::Owner),
            };
            blocker.map(|blocker| (index, blocker))
        })
    }

    /// Grants `requests`, which nothing blocks.
    fn grant(&mut self, owner: LockOwner, requests: &[LockRequest]) {
        let holders = |request| self.held.blockers(Some(owner), request).next();
        invariant!(
            requests.iter().find_map(holders).is_none(),
            "{owner:?} would be granted what {:?} holds",
            requests.iter().find_map(holders)
        );
        self.held.grant(owner, requests);
    }

    /// Grants what waited for `gone` and is free now, and what that lets through.
    fn grant_waiting(&mut self, gone: Blocker) {
        self.grant_free(self.queue.blocked_by(gone).into_iter().collect());
    }

    /// Grants those of `todo` that are free now, and what that lets through.
    fn grant_free(&mut self, mut todo: BTreeSet<Ticket>) {
        while let Some(ticket) = todo.pop_first() {
            let Some(waiting) = self.queue.get(ticket) else { continue };
            let (owner, requests) = (waiting.owner, &waiting.requests);
            let found = self.blocker(owner, ticket, requests, waiting.place);
            if let Some((place, blocker)) = found {
                self.queue.block(ticket, place, blocker);
                continue;
            }
            let Some(granted) = self.queue.remove(ticket) else { continue };
            self.grant(owner, &granted.requests);
            granted.changed.notify_one();
            todo.extend(self.queue.blocked_by(Blocker::Request(ticket)));
            todo.extend(self.look_again(owner));
        }
    }

    /// Wakes the waiting requests of an owner that was granted a lock: they no longer wait in the
    /// queue, and may be a part of a cycle. Returns them.
    fn look_again(&self, owner: LockOwner) -> impl Iterator<Item = Ticket> {
        let tickets: Vec<_> = self.queue.of(owner).collect();
        for waiting in tickets.iter().filter_map(|ticket| self.queue.get(*ticket)) {
            waiting.changed.notify_one();
        }
        tickets.into_iter()
    }

    /// The shortest cycle of owners that wait for each other, from `owner` to itself.
    fn cycle(&self, owner: LockOwner) -> Option<Vec<Edge<'_>>> {
        if seeded_fault!("deadlocks_not_found") {
            return None;
        }
        let mut edges: BTreeMap<LockOwner, Edge<'_>> = BTreeMap::new();
        let mut todo = VecDeque::from([owner]);
        while let Some(waiter) = todo.pop_front() {
            let waiting = self.queue.of(waiter).filter_map(|ticket| self.queue.get(ticket));
            for request in waiting.flat_map(|waiting| waiting.requests.iter()) {
                for holder in self.held.blockers(Some(waiter), request) {
                    if let Entry::Vacant(entry) = edges.entry(holder) {
                        entry.insert(Edge { waiter, request, holder });
                        todo.push_back(holder);
                    }
                }
            }
        }
        let mut cycle = vec![edges.remove(&owner)?];
        while let Some(first) = cycle.last().filter(|edge| edge.waiter != owner) {
            let before = edges.remove(&first.waiter)?;
            cycle.push(before);
        }
        cycle.reverse();
        Some(cycle)
    }
}

/// The locks of a database.
///
/// # Thread safety
/// Any thread may call anything. The mutex of the table is the innermost lock: a thread that holds
/// it waits only for the `changed` of its own request.
#[derive(Debug)]
pub struct LockTable {
    table: Mutex<Table>,
    next_owner: AtomicU64,
}

impl Default for LockTable {
    fn default() -> Self {
        Self { table: Mutex::new(Table::default()), next_owner: AtomicU64::new(1) }
    }
}

impl LockTable {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new owner without locks.
    #[must_use]
    pub fn new_owner(&self) -> LockOwner {
        LockOwner(self.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    /// Grants `requests` to `owner`, all at once. Waits for conflicting locks. Returns the
    /// approximate memory of all its locks, in bytes.
    ///
    /// # Errors
    /// `Busy` after `timeout`; `Conflict`, if the wait would close a cycle. Nothing is granted.
    pub fn acquire(
        &self,
        owner: LockOwner,
        requests: Vec<LockRequest>,
        timeout: Duration,
        clock: &dyn Clock,
    ) -> Result<usize> {
        let mut table = self.lock();
        let ticket = table.queue.next();
        let Some((place, blocker)) = table.blocker(owner, ticket, &requests, 0) else {
            table.grant(owner, &requests);
            let others = table.look_again(owner).collect();
            table.grant_free(others);
            return Ok(table.held.memory_bytes(owner));
        };
        let (requests, changed) = (Arc::from(requests), Arc::new(Condvar::new()));
        let waiting = WaitingRequest {
            owner,
            requests: Arc::clone(&requests),
            place,
            blocker,
            changed: Arc::clone(&changed),
        };
        table.queue.push(waiting);
        let start = clock.monotonic_ns();
        let mut is_over = timeout.is_zero();
        let failure = loop {
            if let Some(cycle) = table.cycle(owner) {
                break deadlock(&cycle);
            }
            if is_over {
                break table.timed_out(owner, &requests, timeout);
            }
            let passed = Duration::from_nanos(clock.monotonic_ns().saturating_sub(start));
            let left = timeout.saturating_sub(passed);
            let woken = changed.wait_timeout(table, left);
            let (guard, result) = woken.unwrap_or_else(PoisonError::into_inner);
            table = guard;
            if table.queue.get(ticket).is_none() {
                return Ok(table.held.memory_bytes(owner));
            }
            is_over = result.timed_out();
        };
        table.queue.remove(ticket);
        table.grant_waiting(Blocker::Request(ticket));
        Err(failure)
    }

    /// The locks of `owner`.
    #[must_use]
    pub fn held(&self, owner: LockOwner) -> Vec<LockRequest> {
        self.lock().held.of(owner)
    }

    /// Moves all locks of `from` to `to`, which is prepared as `id`, in one step.
    pub fn hand_over(&self, from: LockOwner, to: LockOwner, id: &[u8]) {
        let mut table = self.lock();
        table.held.hand_over(from, to);
        table.prepared_ids.insert(to, id.to_vec());
        // What waited for the one waits for the other.
        table.grant_waiting(Blocker::Owner(from));
    }

    /// Grants `owner`, which is prepared as `id`, the locks that it held before a reopen, and sets
    /// their flags. To be called before the first write.
    pub fn restore(&self, owner: LockOwner, id: &[u8], requests: &[LockRequest]) {
        let mut table = self.lock();
        table.held.grant(owner, requests);
        table.prepared_ids.insert(owner, id.to_vec());
        drop(table);
        requests.iter().for_each(|request| request.flag.set());
    }

    /// Checks that `owner` may write the keys of `writes`: no other owner holds a lock on any of
    /// them.
    ///
    /// # Errors
    /// `Busy`, with the first conflicting lock.
    pub fn check(
        &self,
        owner: Option<LockOwner>,
        mut writes: impl Iterator<Item = LockRequest>,
    ) -> Result<()> {
        let table = self.lock();
        let is_blocked = |write: &LockRequest| table.held.blockers(owner, write).next().is_some();
        match writes.find(is_blocked) {
            Some(write) => Err(Error::new(ErrorKind::Busy, format!("{write} is locked"))),
            None => Ok(()),
        }
    }

    /// Releases all locks of `owner`.
    pub fn release(&self, owner: LockOwner) {
        let mut table = self.lock();
        table.prepared_ids.remove(&owner);
        if table.held.release(owner) {
            table.grant_waiting(Blocker::Owner(owner));
        }
    }
}

impl Table {
    #[cold]
    fn timed_out(&self, owner: LockOwner, requests: &[LockRequest], timeout: Duration) -> Error {
        let find = |request| Some((request, self.held.blockers(Some(owner), request).next()?));
        let mut hint = "try again, or give a longer `lock_timeout`";
        let cause = match requests.iter().find_map(find) {
            Some((request, holder)) => match self.prepared_ids.get(&holder) {
                Some(id) => {
                    hint = "decide the prepared transaction, or try again after its decision";
                    let id = id.escape_ascii();
                    format!("{request} is locked by the prepared transaction \"{id}\"")
                }
                None => format!("{request} is locked by transaction {}", holder.0),
            },
            None => "earlier requests wait for the same lock".to_owned(),
        };
        let message = format!("{cause}, waited for {timeout:?}");
        Error::new(ErrorKind::Busy, message).with_hint(hint)
    }
}

#[cold]
fn deadlock(cycle: &[Edge<'_>]) -> Error {
    let edges = cycle.iter().map(|Edge { waiter, request, holder }| {
        format!("transaction {} waits for {request}, held by transaction {}", waiter.0, holder.0)
    });
    let message = format!("deadlock: {}", edges.collect::<Vec<_>>().join("; "));
    // Not `Busy`: a second request would fail again as long as the transaction keeps its locks.
    Error::new(ErrorKind::Conflict, message).with_hint("roll back, and run the transaction again")
}

#[cfg(test)]
mod tests;
