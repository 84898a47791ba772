//! Updates: transactions that run again until they commit.
//!
//! 1. After a conflict an update pauses. Pauses grow and are random, so that transactions that
//!    collided once do not collide again.
//! 2. After [`ATTEMPTS_BEFORE_TURN`] attempts it waits for the turn of the database
//!    (`siltdb_engine::turns`). So updates that conflict often run one after the other, and each
//!    competes with new updates only.
//! 3. After [`ATTEMPTS_BEFORE_URGENCY`] attempts new updates wait for it, too.
//!
//! All waits are bounded, so an update may run within an update.

use crate::{
    family::Family,
    isolation::{Isolation, TransactionOptions},
    options::Durability,
    transaction::{Abandoned, Transaction},
};
use siltdb_base::error::{Error, ErrorKind, Result};
use std::time::Duration;

/// Default bound of attempts. Turns share the progress under contention, so few updates need more
/// than ten.
const ATTEMPTS: u32 = 1000;

/// Attempts after which an update waits for its turn.
const ATTEMPTS_BEFORE_TURN: u32 = 3;

/// Attempts after which new updates wait for the one that has the turn.
const ATTEMPTS_BEFORE_URGENCY: u32 = 12;

/// Longest wait for the turn before an attempt. Most long transactions end within this time.
const TURN_WAIT_MAX: Duration = Duration::from_millis(50);

/// Bound of the first pause. Each later bound is twice the previous one.
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
    /// Default: 64 MiB.
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
    engine.turns.make_way(TURN_WAIT_MAX);
    let (mut attempt, mut turn) = (1, None);
    loop {
        let conflict = match try_once(family, options.transaction, &mut run) {
            Attempt::Ended(result) => return result,
            Attempt::Conflicted(conflict) => conflict,
        };
        if attempt >= options.attempts {
            return Err(gave_up(attempt, conflict).into());
        }
        if turn.is_none() && attempt >= ATTEMPTS_BEFORE_TURN {
            turn = engine.turns.take(TURN_WAIT_MAX);
        }
        if let Some(turn) = &turn {
            if attempt >= ATTEMPTS_BEFORE_URGENCY {
                turn.make_urgent();
            }
        } else {
            let bound = FIRST_PAUSE.saturating_mul(1 << attempt.min(16)).min(PAUSE_MAX);
            engine.options.clock.sleep(engine.turns.pause(bound));
        }
        attempt += 1;
    }
}

/// The outcome of one attempt.
enum Attempt<T, E> {
    /// The result of the update.
    Ended(Result<T, E>),
    /// The transaction conflicted. `None` if `run` returned an error that it made of the conflict.
    Conflicted(Option<Error>),
}

fn try_once<T, E: From<Error>>(
    family: &Family,
    options: TransactionOptions,
    run: &mut impl FnMut(&Transaction) -> Result<T, E>,
) -> Attempt<T, E> {
    let transaction = Transaction::begin(family, options);
    match run(&transaction) {
        Ok(value) => match transaction.commit() {
            Ok(_) => Attempt::Ended(Ok(value)),
            Err(error) if error.kind() == ErrorKind::Conflict => Attempt::Conflicted(Some(error)),
            Err(error) => Attempt::Ended(Err(error.into())),
        },
        // The error of `run` is of any type, so the transaction says whether it conflicted.
        Err(error) => match transaction.abandon() {
            Abandoned::Conflicted => Attempt::Conflicted(None),
            Abandoned::Unharmed => Attempt::Ended(Err(error)),
        },
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
