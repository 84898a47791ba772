//! The prepared transactions that wait for their decision, by id.
//!
//! It does not prepare or decide; see `prepared`. What it holds is also in the log or the manifest.
//!
//! # Thread safety
//! Everything may be called from any thread. Its lock is held for no IO and no wait.
//!
//! # Invariants
//! 1. An id stands for at most one transaction: from before its record is written until its
//!    decision is in the log.
//! 2. A transaction is added before its Prepare record is published, and is gone before its Decide
//!    record is. So a flush, which waits for the publication of what it writes, sees of both kinds
//!    all that its generation has.

use crate::lock_state::lock_table::LockOwner;
use siltdb_base::{
    budget::{Budget, Charge, Part},
    error::{Error, ErrorKind, Result},
    id::SequenceNumber,
    limits::{PREPARED_BYTES_MAX, PREPARED_ID_BYTES_MAX, PREPARED_MAX},
    sync::lock,
};
use siltdb_disk::prepared::PreparedBatch;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// A prepared transaction without a decision.
#[derive(Clone, Debug)]
pub struct Undecided {
    /// The sequence number of its Prepare record; names it for ever.
    pub number: SequenceNumber,
    /// All of it.
    pub transaction: Arc<PreparedBatch>,
    /// The holder of its locks.
    pub owner: LockOwner,
}

/// The prepared transactions of a database.
#[derive(Debug, Default)]
pub struct PreparedSet {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// What they take together, in bytes.
    bytes: usize,
    /// The sequence number of the last decision of this process.
    last_decision: SequenceNumber,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    bytes: usize,
    _charge: Charge,
}

#[derive(Debug)]
enum Phase {
    /// Its record is not in the log yet.
    Preparing,
    Undecided(Undecided),
    /// A decision is on its way into the log.
    Deciding(Undecided),
}

/// The prepared transactions as a flush sees them.
#[derive(Debug)]
pub struct FlushView {
    /// Those without a decision whose records the flushed generations, or earlier ones, have.
    pub undecided: Vec<Undecided>,
    /// The sequence number of the last decision.
    pub last_decision: SequenceNumber,
}

impl PreparedSet {
    /// Reserves an id and `bytes` for a transaction that has no Prepare record yet.
    ///
    /// # Errors
    /// `InvalidArgument`, if the id has a bad length, or they are too many or too large together;
    /// `AlreadyExists`, if a transaction with this id waits for its decision.
    pub fn reserve(&self, id: &[u8], bytes: usize, budget: &Arc<Budget>) -> Result<()> {
        if !(1..=PREPARED_ID_BYTES_MAX).contains(&id.len()) {
            return Err(Error::invalid("the id of a prepared transaction has a bad length")
                .with_mismatch(format_args!("1 to {PREPARED_ID_BYTES_MAX} bytes"), id.len()));
        }
        let mut state = lock(&self.state);
        if state.entries.contains_key(id) {
            let message = format!("a transaction is prepared as {}", shown(id));
            return Err(Error::new(ErrorKind::AlreadyExists, message)
                .with_hint("decide it, or choose another id"));
        }
        if state.entries.len() >= PREPARED_MAX {
            return Err(Error::invalid("too many prepared transactions wait for their decision")
                .with_mismatch(format_args!("at most {PREPARED_MAX}"), "one more"));
        }
        let all = state.bytes.saturating_add(bytes);
        if all > PREPARED_BYTES_MAX {
            return Err(Error::invalid("prepared transactions take too many bytes together")
                .with_mismatch(format_args!("at most {PREPARED_BYTES_MAX} bytes"), all)
                .with_hint("decide those that wait, or make this one smaller"));
        }
        state.insert(id, Phase::Preparing, bytes, budget);
        Ok(())
    }

    /// Adds a transaction with a reserved id. Its record is in the log, and not published yet.
    pub fn add(&self, undecided: Undecided) {
        let mut state = lock(&self.state);
        let entry = state.entries.get_mut(&undecided.transaction.id);
        let is_reserved = matches!(entry, Some(Entry { phase: Phase::Preparing, .. }));
        assert!(is_reserved, "{} would be prepared without an id", undecided.number);
        if let Some(entry) = entry {
            entry.phase = Phase::Undecided(undecided);
        }
    }

    /// Releases the id of a transaction whose record did not come into the log.
    pub fn cancel(&self, id: &[u8]) {
        let mut state = lock(&self.state);
        if state.entries.get(id).is_some_and(|entry| matches!(entry.phase, Phase::Preparing)) {
            state.remove(id);
        }
    }

    /// Adds a transaction that an opening has found.
    pub fn restore(&self, undecided: Undecided, bytes: usize, budget: &Arc<Budget>) {
        let id = undecided.transaction.id.clone();
        lock(&self.state).insert(&id, Phase::Undecided(undecided), bytes, budget);
    }

    /// Claims a transaction for a decision; with a `number`, only the transaction of this number.
    ///
    /// # Errors
    /// `NotFound`, if no such one waits for it; `Busy`, if another thread prepares or decides it.
    pub fn begin_decision(&self, id: &[u8], number: Option<SequenceNumber>) -> Result<Undecided> {
        let mut state = lock(&self.state);
        let entry = state.entries.get_mut(id).ok_or_else(|| not_prepared(id))?;
        let undecided = match &entry.phase {
            Phase::Undecided(undecided) => undecided.clone(),
            Phase::Preparing | Phase::Deciding(_) => {
                let message = format!("the transaction {} is at work in another thread", shown(id));
                return Err(Error::new(ErrorKind::Busy, message));
            }
        };
        if number.is_some_and(|number| number != undecided.number) {
            return Err(not_prepared(id));
        }
        entry.phase = Phase::Deciding(undecided.clone());
        Ok(undecided)
    }

    /// Gives up a claim: the transaction is undecided again.
    pub fn keep(&self, id: &[u8]) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.entries.get_mut(id)
            && let Phase::Deciding(undecided) = &entry.phase
        {
            entry.phase = Phase::Undecided(undecided.clone());
        }
    }

    /// Removes a transaction. Its decision at this sequence number is in the log, and not published
    /// yet.
    pub fn decided(&self, id: &[u8], at: SequenceNumber) {
        let mut state = lock(&self.state);
        let is_claimed =
            matches!(state.entries.get(id), Some(Entry { phase: Phase::Deciding(_), .. }));
        assert!(is_claimed, "{} would be decided at {at} by two threads", shown(id));
        state.remove(id);
        state.last_decision = state.last_decision.max(at);
    }

    /// Those without a decision, by id.
    #[must_use]
    pub fn undecided(&self) -> Vec<Undecided> {
        lock(&self.state).undecided().cloned().collect()
    }

    /// The number of those without a decision.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.state).undecided().count()
    }

    /// The memory that they take, their locks and those being prepared included, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        lock(&self.state).bytes
    }

    /// The view of a flush that retires the log up to `last`.
    #[must_use]
    pub fn flush_view(&self, last: SequenceNumber) -> FlushView {
        let state = lock(&self.state);
        let undecided = state.undecided().filter(|undecided| undecided.number <= last);
        FlushView { undecided: undecided.cloned().collect(), last_decision: state.last_decision }
    }
}

impl State {
    fn insert(&mut self, id: &[u8], phase: Phase, bytes: usize, budget: &Arc<Budget>) {
        let _charge = Charge::new(budget, Part::Transactions, bytes);
        self.bytes += bytes;
        self.entries.insert(id.to_vec(), Entry { phase, bytes, _charge });
    }

    fn remove(&mut self, id: &[u8]) {
        if let Some(entry) = self.entries.remove(id) {
            let (all, bytes) = (self.bytes, entry.bytes);
            assert!(bytes <= all, "a transaction of {bytes} bytes would leave {all} bytes");
            self.bytes = all - bytes;
        }
    }

    fn undecided(&self) -> impl Iterator<Item = &Undecided> {
        self.entries.values().filter_map(|entry| match &entry.phase {
            Phase::Preparing => None,
            Phase::Undecided(undecided) | Phase::Deciding(undecided) => Some(undecided),
        })
    }
}

/// An id, as errors show it.
fn shown(id: &[u8]) -> String {
    format!("\"{}\"", id.escape_ascii())
}

#[cold]
fn not_prepared(id: &[u8]) -> Error {
    let message = format!("no transaction waits for its decision as {}", shown(id));
    Error::new(ErrorKind::NotFound, message).with_hint("it was decided, or never prepared")
}

#[cfg(test)]
mod tests;
