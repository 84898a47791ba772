//! Updates: transactions that run again until they commit.
//!
//! 1. After a conflict an update waits for its turn among those that conflicted over the same keys
//!    (`siltdb_engine::kit::turns`), and then runs again at once. So these run one after the other,
//!    none reads before it has the turn, and each competes with new updates only.
//! 2. After [`ATTEMPTS_ON_KEYS`] attempts it takes the turn of all keys: it may conflict over keys
//!    that it only reads.
//! 3. After [`ATTEMPTS_BEFORE_URGENCY`] attempts new updates wait for it, too.
//! 4. An update whose attempts take longer than [`LONG_ATTEMPT`] would lose to every short one, and
//!    to plain writes, which take no turns. From its second conflict on it locks what that attempt
//!    made its commit depend on, and runs again with these locks. Writers wait for them meanwhile.
//!
//! An update waits for the turn, and others for its locks, for a bounded time. So it may wait for
//! another thread that updates.

use crate::{
    family::Family,
    isolation::{Isolation, TransactionOptions},
    options::Durability,
    transaction::{Abandoned, Transaction},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    seeded_fault,
};
use siltdb_engine::{
    engine::Engine,
    kit::{
        open_id::OpenId,
        turns::{Lines, Turn},
    },
    lock_state::lock_table::LockRequest,
    write::locks::{LockHolder, acquire_all},
};
use std::{cell::RefCell, time::Duration};

/// Default bound of attempts. Turns share the progress under contention, so few updates need more
/// than ten.
const ATTEMPTS: u32 = 1000;

/// Attempts after which an update waits for the turn of all keys.
const ATTEMPTS_ON_KEYS: u32 = 4;

/// Attempts after which new updates wait for the one that has the turn.
const ATTEMPTS_BEFORE_URGENCY: u32 = 12;

/// Attempts after which a long update waits for its turn, and locks.
const LONG_ATTEMPTS_BEFORE_TURN: u32 = 2;

/// The time from which on an attempt is long. Short ones get through by turns.
const LONG_ATTEMPT: Duration = Duration::from_millis(10);

/// Longest wait for the turn before an attempt. Most transactions end within this time. A long
/// update waits as long as its attempts take.
const TURN_WAIT_MAX: Duration = Duration::from_millis(50);

/// Bound of the first pause of an update that got no turn in time. Each later bound is twice the
/// previous one.
const FIRST_PAUSE: Duration = Duration::from_micros(20);

/// Largest bound of a pause.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// Options of an update; see [`Db::update_with`](crate::Db::update_with).
#[derive(Clone, Copy, Debug)]
pub struct UpdateOptions {
    pub(crate) transaction: TransactionOptions,
    pub(crate) attempts: u32,
}

impl Default for UpdateOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl UpdateOptions {
    /// The defaults: serializable, the durability of the database, up to 1000 attempts.
    #[must_use]
    pub fn new() -> Self {
        Self { transaction: TransactionOptions::new(), attempts: ATTEMPTS }
    }

    /// The isolation level of each attempt. Default: [`Isolation::Serializable`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.transaction = self.transaction.isolation(isolation);
        self
    }

    /// The durability of the commit. Default: that of the database's options.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.transaction = self.transaction.durability(durability);
        self
    }

    /// Bound of the memory of one attempt, in bytes; see [`TransactionOptions::memory_bytes`].
    /// Default: as there.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.transaction = self.transaction.memory_bytes(bytes);
        self
    }

    /// Bound of attempts, at least one. After the last one the update fails with `Conflict`.
    /// Default: 1000.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }
}

/// Runs `run` in a transaction until it commits or the attempts are used up.
pub(crate) fn update<T, E: From<Error>>(
    family: &Family,
    options: &UpdateOptions,
    mut run: impl FnMut(&Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let engine = &family.place.engine;
    engine.database().turns.make_way(TURN_WAIT_MAX);
    let (mut attempt, mut turn, mut locks) = (1, None::<Turn<'_>>, None);
    loop {
        let transaction = Transaction::begin_holding(family, options.transaction, locks.take());
        let Conflicted { error, long } = match try_once(engine, &transaction, attempt, &mut run) {
            Attempt::Ended(result) => return result,
            Attempt::Conflicted(conflicted) => conflicted,
        };
        let lines = match attempt >= ATTEMPTS_ON_KEYS || long.is_some() {
            true => Lines::ALL,
            false => transaction.conflict_lines(),
        };
        drop(transaction);
        if attempt >= options.attempts {
            return Err(gave_up(attempt, error).into());
        }
        if !turn.as_ref().is_some_and(|turn| turn.lines().include(lines)) {
            // Given back first: it may be in the way of the other.
            drop(turn.take());
            let took = long.as_ref().map_or(Duration::ZERO, |long| long.took);
            turn = engine.database().turns.take(lines, TURN_WAIT_MAX.max(took));
        }
        if let Some(turn) = turn.as_ref().filter(|_| attempt >= ATTEMPTS_BEFORE_URGENCY) {
            turn.make_urgent();
        }
        // Without the turn, too: two that lock at once may end in a deadlock, which one survives.
        locks = long.and_then(|long| long.lock(engine));
        if turn.is_none() && locks.is_none() {
            let bound = FIRST_PAUSE.saturating_mul(1 << attempt.min(16)).min(PAUSE_MAX);
            engine.database().options.clock.sleep(engine.database().turns.pause(bound));
        }
        attempt += 1;
    }
}

/// The outcome of one attempt.
enum Attempt<T, E> {
    /// The result of the update.
    Ended(Result<T, E>),
    /// The transaction conflicted.
    Conflicted(Conflicted),
}

/// How an attempt conflicted.
struct Conflicted {
    /// `None` if the closure returned an error that it made of the conflict.
    error: Option<Error>,
    /// What would keep a long attempt from conflicting.
    long: Option<LongAttempt>,
}

/// What is known of an attempt that took long.
struct LongAttempt {
    took: Duration,
    /// The locks on all that its commit depended on.
    requests: Vec<LockRequest>,
}

impl LongAttempt {
    /// Locks what the attempt depended on. `None` if others would have to wait for too long, or
    /// if the locks are not to be had: the next attempt then runs without them.
    ///
    /// # Seeded faults
    /// `long_update_without_locks`: a long update only takes its turn.
    fn lock(self, engine: &Engine) -> Option<LockHolder> {
        // The next attempt may take twice as long, and a plain write must not fail meanwhile.
        let patience = engine.database().options.lock_timeout;
        if self.took > patience / 2 || seeded_fault!("long_update_without_locks") {
            return None;
        }
        let database = engine.writable().ok()?;
        let holder = LockHolder::new(&database.database().locks);
        acquire_all(database, &holder, self.requests, patience).ok().map(|()| holder)
    }
}

fn try_once<T, E: From<Error>>(
    engine: &Engine,
    transaction: &Transaction,
    attempt: u32,
    run: &mut impl FnMut(&Transaction) -> Result<T, E>,
) -> Attempt<T, E> {
    let clock = &engine.database().options.clock;
    let began_ns = (attempt >= LONG_ATTEMPTS_BEFORE_TURN).then(|| clock.monotonic_ns());
    let value = match run(transaction) {
        Ok(value) => value,
        // The error of `run` is of any type, so the transaction says whether it conflicted.
        Err(error) => {
            return match transaction.abandon() {
                Abandoned::Conflicted => {
                    Attempt::Conflicted(Conflicted { error: None, long: None })
                }
                Abandoned::Unharmed => Attempt::Ended(Err(error)),
            };
        }
    };
    let took = began_ns.map_or(Duration::ZERO, |began_ns| {
        Duration::from_nanos(clock.monotonic_ns().saturating_sub(began_ns))
    });
    let requests = (took >= LONG_ATTEMPT).then(|| transaction.locks_of_commit()).flatten();
    match transaction.commit() {
        Ok(_) => Attempt::Ended(Ok(value)),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let long = requests.map(|requests| LongAttempt { took, requests });
            Attempt::Conflicted(Conflicted { error: Some(error), long })
        }
        Err(error) => Attempt::Ended(Err(error.into())),
    }
}

#[cold]
fn gave_up(attempts: u32, conflict: Option<Error>) -> Error {
    let message = format!("the update conflicted in each of {attempts} attempts");
    let error = Error::new(ErrorKind::Conflict, message)
        .with_hint("allow more `attempts`, or make the transaction smaller");
    match conflict {
        Some(conflict) => error.with_source(conflict),
        None => error,
    }
}

thread_local! {
    /// The databases that closures of updates run on in this thread, the innermost last.
    static RUNNING: RefCell<Vec<OpenId>> = const { RefCell::new(Vec::new()) };
}

/// The update of a program that runs in this thread. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Running;

impl Running {
    /// Begins an update of a program.
    ///
    /// # Errors
    /// `InvalidArgument` if this thread is within an update of the same database. The inner one
    /// would commit even if the outer one does not, once for each attempt of the outer one. If both
    /// touch the same keys, each attempt of the outer one conflicts with the inner one.
    pub(crate) fn begin(id: OpenId) -> Result<Self> {
        RUNNING.with_borrow_mut(|running| {
            if running.contains(&id) {
                return Err(Error::invalid("an update within an update of the same database")
                    .with_hint("use the transaction that the closure of the outer one was given"));
            }
            running.push(id);
            Ok(Self)
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(Vec::pop);
    }
}
