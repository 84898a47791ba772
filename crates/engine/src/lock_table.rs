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
//!
//! By (2) an owner that waits in the queue holds nothing, so the queue never closes a cycle.

use siltdb_base::{
    clock::Clock,
    error::{Error, ErrorKind, Result},
    id::FamilyId,
    slice::Slice,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use siltdb_tree::read::visible::bounds::Bounds;
use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    fmt,
    ops::Bound,
    sync::{Arc, PoisonError},
    time::Duration,
};

/// The maximum size of a key in an error message, in bytes.
const SHOWN_BYTES_MAX: usize = 64;

/// Whether locks of several owners may cover the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Other shared locks may cover it too; no owner may write it.
    Shared,
    /// No other lock may cover it.
    Exclusive,
}

impl LockMode {
    fn conflicts(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

/// The number of an owner of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockOwner(pub u64);

/// Whether a family has locks. Every write checks it, so it has a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct LockFlag {
    family: FamilyId,
    is_set: AtomicBool,
}

impl LockFlag {
    /// The flag of a family without locks.
    #[must_use]
    pub fn new(family: FamilyId) -> Self {
        Self { family, is_set: AtomicBool::new(false) }
    }

    /// The family of the flag.
    #[must_use]
    pub fn family(&self) -> FamilyId {
        self.family
    }

    /// Whether writers must check the lock table.
    #[inline]
    #[must_use]
    pub fn is_set(&self) -> bool {
        // Relaxed: the lock that orders sequence numbers orders it too (`locks`).
        self.is_set.load(Ordering::Relaxed)
    }

    /// Makes writers check the lock table. To be called with a lock of the family in the table.
    pub fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }
}

/// The keys that a lock covers.
#[derive(Clone, Debug)]
pub enum LockTarget {
    /// One key.
    Key(Slice),
    /// All keys within bounds, whether they exist or not.
    Range(Bounds),
}

impl LockTarget {
    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(key), Self::Key(other)) => key == other,
            (Self::Range(bounds), Self::Key(key)) => holds(bounds, key),
            (_, Self::Range(bounds)) => self.overlaps_range(bounds),
        }
    }

    fn overlaps_range(&self, range: &Bounds) -> bool {
        let starts_before = |a: &Bounds, b: &Bounds| match (&a.lower, &b.upper) {
            (Some(lower), Some(upper)) => lower < upper,
            _ => true,
        };
        match self {
            Self::Key(key) => holds(range, key),
            Self::Range(bounds) => starts_before(bounds, range) && starts_before(range, bounds),
        }
    }
}

fn holds(bounds: &Bounds, key: &[u8]) -> bool {
    !bounds.is_before(key) && !bounds.is_after(key)
}

impl fmt::Display for LockTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: &Option<Slice>| bound.as_ref().map_or("..".into(), |key| shown(key));
        match self {
            Self::Key(key) => write!(f, "the key {}", shown(key)),
            Self::Range(bounds) => {
                write!(f, "the keys from {} to {}", bound(&bounds.lower), bound(&bounds.upper))
            }
        }
    }
}

/// The start of a key, as errors show it.
pub(crate) fn shown(key: &[u8]) -> String {
    let start = &key[..key.len().min(SHOWN_BYTES_MAX)];
    let dots = if start.len() < key.len() { "..." } else { "" };
    format!("\"{}\"{dots}", start.escape_ascii())
}

/// A request for one lock.
#[derive(Clone, Debug)]
pub struct LockRequest {
    /// The flag of the family.
    pub flag: Arc<LockFlag>,
    /// The keys that it covers.
    pub target: LockTarget,
    /// Whether shared locks of others may cover the same keys.
    pub mode: LockMode,
}

impl LockRequest {
    fn conflicts(&self, other: &Self) -> bool {
        self.flag.family == other.flag.family
            && self.mode.conflicts(other.mode)
            && self.target.overlaps(&other.target)
    }
}

impl fmt::Display for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of family {}", self.target, self.flag.family)
    }
}

/// The holders of a key: several shared ones or one exclusive one.
#[derive(Debug)]
struct KeyLock {
    mode: LockMode,
    owners: Vec<LockOwner>,
}

#[derive(Debug)]
struct RangeLock {
    bounds: Bounds,
    mode: LockMode,
    owner: LockOwner,
}

/// The locks of one family.
#[derive(Debug)]
struct FamilyLocks {
    flag: Arc<LockFlag>,
    keys: BTreeMap<Slice, KeyLock>,
    ranges: Vec<RangeLock>,
}

impl FamilyLocks {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }

    /// Adds to `blockers` the other owners whose locks conflict with `target`.
    fn add_blockers(
        &self,
        owner: Option<LockOwner>,
        target: &LockTarget,
        mode: LockMode,
        blockers: &mut Vec<LockOwner>,
    ) {
        let mut add = |holder: LockOwner, held: LockMode| {
            if Some(holder) != owner && mode.conflicts(held) {
                blockers.push(holder);
            }
        };
        let mut add_all = |lock: &KeyLock| lock.owners.iter().for_each(|&o| add(o, lock.mode));
        match target {
            LockTarget::Key(key) => self.keys.get(key).into_iter().for_each(&mut add_all),
            LockTarget::Range(bounds) => {
                let lower = bounds.lower.as_deref().map_or(Bound::Unbounded, Bound::Included);
                let from = self.keys.range::<[u8], _>((lower, Bound::Unbounded));
                let within = from.take_while(|(key, _)| !bounds.is_after(key));
                within.for_each(|(_, lock)| add_all(lock));
            }
        }
        for lock in &self.ranges {
            if target.overlaps_range(&lock.bounds) {
                add(lock.owner, lock.mode);
            }
        }
    }

    /// Adds a lock that nothing blocks.
    fn add(&mut self, owner: LockOwner, request: &LockRequest) {
        match &request.target {
            LockTarget::Range(bounds) => {
                self.ranges.push(RangeLock { bounds: bounds.clone(), mode: request.mode, owner });
            }
            LockTarget::Key(key) => {
                let new = || KeyLock { mode: request.mode, owners: Vec::new() };
                let lock = self.keys.entry(key.clone()).or_insert_with(new);
                if request.mode == LockMode::Exclusive {
                    lock.mode = LockMode::Exclusive;
                }
                if !lock.owners.contains(&owner) {
                    lock.owners.push(owner);
                }
            }
        }
    }
}

/// A waiting request.
#[derive(Debug)]
struct WaitingRequest {
    ticket: u64,
    owner: LockOwner,
    requests: Vec<LockRequest>,
}

/// One owner waits for another.
#[derive(Debug)]
struct Edge<'a> {
    waiter: LockOwner,
    request: &'a LockRequest,
    holder: LockOwner,
}

#[derive(Debug, Default)]
struct Table {
    families: BTreeMap<FamilyId, FamilyLocks>,
    /// The granted locks of each owner, for their release. A key may occur twice.
    held: BTreeMap<LockOwner, Vec<LockRequest>>,
    /// The ids of the owners that are prepared transactions. They never wait.
    prepared_ids: BTreeMap<LockOwner, Vec<u8>>,
    /// Waiting requests in the order of their tickets.
    waiting: Vec<WaitingRequest>,
    next_ticket: u64,
}

impl Table {
    fn blockers(&self, owner: Option<LockOwner>, request: &LockRequest) -> Vec<LockOwner> {
        let mut blockers = Vec::new();
        if let Some(locks) = self.families.get(&request.flag.family) {
            locks.add_blockers(owner, &request.target, request.mode, &mut blockers);
        }
        blockers
    }

    fn must_wait(&self, owner: LockOwner, ticket: u64, requests: &[LockRequest]) -> bool {
        let is_blocked = |request| !self.blockers(Some(owner), request).is_empty();
        requests.iter().any(is_blocked)
            || !self.held.contains_key(&owner) && self.is_queued(owner, ticket, requests)
    }

    /// Whether an earlier conflicting request waits too.
    fn is_queued(&self, owner: LockOwner, ticket: u64, requests: &[LockRequest]) -> bool {
        let earlier = self.waiting.iter().take_while(|waiting| waiting.ticket < ticket);
        earlier.filter(|waiting| waiting.owner != owner).any(|waiting| {
            let conflicts = |request: &LockRequest| requests.iter().any(|r| r.conflicts(request));
            waiting.requests.iter().any(conflicts)
        })
    }

    fn grant(&mut self, owner: LockOwner, requests: &[LockRequest]) {
        for request in requests {
            let flag = &request.flag;
            let locks = self.families.entry(flag.family).or_insert_with(|| FamilyLocks {
                flag: Arc::clone(flag),
                keys: BTreeMap::new(),
                ranges: Vec::new(),
            });
            locks.add(owner, request);
        }
        self.held.entry(owner).or_default().extend_from_slice(requests);
    }

    fn release(&mut self, owner: LockOwner) {
        self.prepared_ids.remove(&owner);
        for request in self.held.remove(&owner).unwrap_or_default() {
            let Some(locks) = self.families.get_mut(&request.flag.family) else { continue };
            match &request.target {
                LockTarget::Range(_) => locks.ranges.retain(|lock| lock.owner != owner),
                LockTarget::Key(key) => {
                    if let Some(lock) = locks.keys.get_mut(key) {
                        lock.owners.retain(|holder| *holder != owner);
                        if lock.owners.is_empty() {
                            locks.keys.remove(key);
                        }
                    }
                }
            }
            if locks.is_empty() {
                // A locker sets the flag after its lock is in the table, so this cannot clear the
                // flag of a new lock.
                locks.flag.is_set.store(false, Ordering::Relaxed);
                self.families.remove(&request.flag.family);
            }
        }
    }

    /// Moves all locks of one owner to another.
    fn hand_over(&mut self, from: LockOwner, to: LockOwner) {
        let moved = self.held.remove(&from).unwrap_or_default();
        let rename = |owner: &mut LockOwner| {
            if *owner == from {
                *owner = to;
            }
        };
        for request in &moved {
            let Some(locks) = self.families.get_mut(&request.flag.family) else { continue };
            match &request.target {
                LockTarget::Range(_) => {
                    locks.ranges.iter_mut().for_each(|lock| rename(&mut lock.owner));
                }
                LockTarget::Key(key) => {
                    let owners = locks.keys.get_mut(key).map(|lock| &mut lock.owners);
                    owners.into_iter().flatten().for_each(rename);
                }
            }
        }
        self.held.entry(to).or_default().extend(moved);
    }

    /// The shortest cycle of owners that wait for each other, from `owner` to itself.
    fn cycle(&self, owner: LockOwner) -> Option<Vec<Edge<'_>>> {
        if cfg!(seeded_fault = "deadlocks_not_found") {
            return None;
        }
        let mut edges: BTreeMap<LockOwner, Edge<'_>> = BTreeMap::new();
        let mut todo = VecDeque::from([owner]);
        while let Some(waiter) = todo.pop_front() {
            let waiting = self.waiting.iter().filter(|waiting| waiting.owner == waiter);
            for request in waiting.flat_map(|waiting| &waiting.requests) {
                for holder in self.blockers(Some(waiter), request) {
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
/// it waits only for `changed`.
#[derive(Debug)]
pub struct LockTable {
    table: Mutex<Table>,
    /// Notified when locks are released or a request stops waiting.
    changed: Condvar,
    next_owner: AtomicU64,
}

impl Default for LockTable {
    fn default() -> Self {
        let table = Mutex::new(Table::default());
        Self { table, changed: Condvar::new(), next_owner: AtomicU64::new(1) }
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

    /// Grants `requests` to `owner`, all at once. Waits for conflicting locks.
    ///
    /// # Errors
    /// `Busy` after `timeout`; `Conflict`, if the wait would close a cycle. Nothing is granted.
    pub fn acquire(
        &self,
        owner: LockOwner,
        requests: Vec<LockRequest>,
        (timeout, clock): (Duration, &dyn Clock),
    ) -> Result<()> {
        let mut table = self.lock();
        let ticket = table.next_ticket;
        if !table.must_wait(owner, ticket, &requests) {
            table.grant(owner, &requests);
            return Ok(());
        }
        table.next_ticket = ticket + 1;
        table.waiting.push(WaitingRequest { ticket, owner, requests: requests.clone() });
        let start = clock.monotonic_ns();
        let mut is_over = timeout.is_zero();
        let waited = loop {
            if !table.must_wait(owner, ticket, &requests) {
                break Ok(());
            }
            if let Some(cycle) = table.cycle(owner) {
                break Err(deadlock(&cycle));
            }
            if is_over {
                break Err(table.timed_out(owner, &requests, timeout));
            }
            let passed = Duration::from_nanos(clock.monotonic_ns().saturating_sub(start));
            let left = timeout.saturating_sub(passed);
            let woken = self.changed.wait_timeout(table, left);
            let (guard, result) = woken.unwrap_or_else(PoisonError::into_inner);
            table = guard;
            is_over = result.timed_out();
        };
        table.waiting.retain(|waiting| waiting.ticket != ticket);
        if waited.is_ok() {
            table.grant(owner, &requests);
        }
        drop(table);
        // Later requests in the queue may be granted now.
        self.changed.notify_all();
        waited
    }

    /// The locks of `owner`.
    #[must_use]
    pub fn held(&self, owner: LockOwner) -> Vec<LockRequest> {
        self.lock().held.get(&owner).cloned().unwrap_or_default()
    }

    /// Moves all locks of `from` to `to`, which is prepared as `id`, in one step.
    pub fn hand_over(&self, from: LockOwner, (to, id): (LockOwner, &[u8])) {
        let mut table = self.lock();
        table.hand_over(from, to);
        table.prepared_ids.insert(to, id.to_vec());
    }

    /// Grants `owner`, which is prepared as `id`, the locks that it held before a reopen, and sets
    /// their flags. To be called before the first write.
    pub fn restore(&self, (owner, id): (LockOwner, &[u8]), requests: &[LockRequest]) {
        let mut table = self.lock();
        table.grant(owner, requests);
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
        let is_blocked = |write: &LockRequest| !table.blockers(owner, write).is_empty();
        match writes.find(is_blocked) {
            Some(write) => Err(Error::new(ErrorKind::Busy, format!("{write} is locked"))),
            None => Ok(()),
        }
    }

    /// Releases all locks of `owner`.
    pub fn release(&self, owner: LockOwner) {
        let mut table = self.lock();
        table.release(owner);
        let is_awaited = !table.waiting.is_empty();
        drop(table);
        if is_awaited {
            self.changed.notify_all();
        }
    }
}

impl Table {
    #[cold]
    fn timed_out(&self, owner: LockOwner, requests: &[LockRequest], timeout: Duration) -> Error {
        let find = |request| Some((request, *self.blockers(Some(owner), request).first()?));
        let mut hint = "try again, or set `lock_timeout`";
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
