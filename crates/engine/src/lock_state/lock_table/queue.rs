//! The requests that wait, in the order of their tickets, and what each of them waits for.

use crate::lock_state::lock_table::{
    range_set::RangeSet,
    request::{LockMode, LockOwner, LockRequest, LockTarget},
};
use siltdb_base::{id::FamilyId, slice::Slice, sync::Condvar};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

/// The number of a waiting request: earlier ones have lower numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What a request waits for. Only when that is gone is there anything new for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// An owner that holds one of the keys.
    Owner(LockOwner),
    /// An earlier request for one of the keys.
    Request(Ticket),
}

/// A waiting request.
#[derive(Debug)]
pub struct WaitingRequest {
    /// Who waits.
    pub owner: LockOwner,
    /// What for; all of it is granted at once.
    pub requests: Arc<[LockRequest]>,
    /// The index of the one that was blocked last. Those before it were free when the search for
    /// it began.
    pub place: usize,
    /// What blocks it.
    pub blocker: Blocker,
    /// Notified when the request was granted, or its owner has new locks.
    pub changed: Arc<Condvar>,
}

/// The waiting requests for one family.
#[derive(Debug, Default)]
struct FamilyQueue {
    keys: BTreeMap<(Slice, Ticket), LockMode>,
    /// The shared and the exclusive ranges of a request.
    ranges: BTreeMap<Ticket, (RangeSet, RangeSet)>,
}

/// All requests that wait.
#[derive(Debug, Default)]
pub struct Queue {
    requests: BTreeMap<Ticket, WaitingRequest>,
    families: BTreeMap<FamilyId, FamilyQueue>,
    owners: BTreeMap<LockOwner, BTreeSet<Ticket>>,
    blocked: BTreeSet<(Blocker, Ticket)>,
    next: u64,
}

impl Queue {
    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The ticket of the next request.
    #[must_use]
    pub fn next(&self) -> Ticket {
        Ticket(self.next)
    }

    /// The waiting request with a ticket.
    #[must_use]
    pub fn get(&self, ticket: Ticket) -> Option<&WaitingRequest> {
        self.requests.get(&ticket)
    }

    /// The tickets of an owner.
    pub fn of(&self, owner: LockOwner) -> impl Iterator<Item = Ticket> {
        self.owners.get(&owner).into_iter().flatten().copied()
    }

    /// The requests that `blocker` blocks, in order.
    #[must_use]
    pub fn blocked_by(&self, blocker: Blocker) -> Vec<Ticket> {
        let all = (blocker, Ticket(0))..=(blocker, Ticket(u64::MAX));
        self.blocked.range(all).map(|(_, ticket)| *ticket).collect()
    }

    /// Adds a request at the end of the queue.
    ///
    /// Cost: a search for each key.
    pub fn push(&mut self, waiting: WaitingRequest) {
        let ticket = self.next();
        let blocker = waiting.blocker;
        let is_later = matches!(blocker, Blocker::Request(blocker) if blocker >= ticket);
        assert!(!is_later, "{ticket:?} would wait for {blocker:?}, which comes after it");
        self.next += 1;
        for LockRequest { flag, target, mode } in waiting.requests.iter() {
            let family = self.families.entry(flag.family()).or_default();
            match target {
                LockTarget::Key(key) => match family.keys.entry((key.clone(), ticket)) {
                    Entry::Vacant(entry) => drop(entry.insert(*mode)),
                    Entry::Occupied(mut entry) if *mode == LockMode::Exclusive => {
                        entry.insert(LockMode::Exclusive);
                    }
                    Entry::Occupied(_) => {}
                },
                LockTarget::Range(bounds) => {
                    let (shared, exclusive) = family.ranges.entry(ticket).or_default();
                    match mode {
                        LockMode::Shared => shared.insert(bounds),
                        LockMode::Exclusive => exclusive.insert(bounds),
                    }
                }
            }
        }
        self.owners.entry(waiting.owner).or_default().insert(ticket);
        self.blocked.insert((waiting.blocker, ticket));
        self.requests.insert(ticket, waiting);
    }

    /// Takes a request out of the queue.
    pub fn remove(&mut self, ticket: Ticket) -> Option<WaitingRequest> {
        let waiting = self.requests.remove(&ticket)?;
        for LockRequest { flag, target, .. } in waiting.requests.iter() {
            let Some(family) = self.families.get_mut(&flag.family()) else { continue };
            match target {
                LockTarget::Key(key) => drop(family.keys.remove(&(key.clone(), ticket))),
                LockTarget::Range(_) => drop(family.ranges.remove(&ticket)),
            }
            if family.keys.is_empty() && family.ranges.is_empty() {
                self.families.remove(&flag.family());
            }
        }
        if let Some(tickets) = self.owners.get_mut(&waiting.owner) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.owners.remove(&waiting.owner);
            }
        }
        self.blocked.remove(&(waiting.blocker, ticket));
        Some(waiting)
    }

    /// Notes what blocks a request now, and the index where that was found.
    pub fn block(&mut self, ticket: Ticket, place: usize, blocker: Blocker) {
        let Some(waiting) = self.requests.get_mut(&ticket) else { return };
        self.blocked.remove(&(waiting.blocker, ticket));
        self.blocked.insert((blocker, ticket));
        (waiting.place, waiting.blocker) = (place, blocker);
    }

    /// The last of the requests of others before `ticket` that conflicts with `request`.
    ///
    /// Cost: a search, a step for each waiting key in the target, and a search for each request
    /// with ranges in the family.
    #[must_use]
    pub fn last_before(
        &self,
        owner: LockOwner,
        ticket: Ticket,
        request: &LockRequest,
    ) -> Option<Ticket> {
        let LockRequest { flag, target, mode } = request;
        let family = self.families.get(&flag.family())?;
        let is_other = |earlier: Ticket| {
            earlier < ticket && self.requests.get(&earlier).is_some_and(|r| r.owner != owner)
        };
        let of_keys = match target {
            LockTarget::Key(key) => {
                let at = |ticket| (key.clone(), ticket);
                let earlier = family.keys.range(at(Ticket(0))..at(ticket)).rev();
                let mut earlier = earlier.filter(|(_, held)| mode.conflicts(**held));
                earlier.find(|((_, earlier), _)| is_other(*earlier)).map(|((_, t), _)| *t)
            }
            LockTarget::Range(bounds) if !target.is_empty() => {
                let first = (bounds.lower.clone().unwrap_or_default(), Ticket(0));
                let within = family.keys.range(first..);
                let within = within.take_while(|((key, _), _)| !bounds.is_after(key));
                let within = within.filter(|(_, held)| mode.conflicts(**held));
                within.map(|((_, earlier), _)| *earlier).filter(|t| is_other(*t)).max()
            }
            LockTarget::Range(_) => None,
        };
        let span = target.span()?;
        let ranges = family.ranges.range(..ticket).rev();
        let mut ranges = ranges.filter(|(_, (shared, exclusive))| {
            exclusive.overlaps(span) || *mode == LockMode::Exclusive && shared.overlaps(span)
        });
        of_keys.max(ranges.find(|(earlier, _)| is_other(**earlier)).map(|(earlier, _)| *earlier))
    }
}
