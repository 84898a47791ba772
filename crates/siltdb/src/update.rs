//! Updates: transactions that run again until they commit.
//!
//! Pauses between the attempts grow and are random, so that transactions that collided once do not
//! collide again. One that lost [`ATTEMPTS_BEFORE_TURN`] times waits for the turn of the database
//! (`siltdb_engine::turns`): losers go one after the other, and each only competes with
//! updates that have just begun. If it still loses, these wait for it, too. All waits are
//! bounded, so updates may stand in updates.

use crate::{
    family::Family,
    isolation::{Isolation, TransactionOptions},
    options::Durability,
    transaction::Transaction,
};
use siltdb_base::error::{Error, ErrorKind, Result};
use std::time::Duration;

/// Attempts unless told otherwise: progress under contention is shared, so few updates need more
/// than ten.
const ATTEMPTS: u32 = 1000;

/// Attempts after which an update waits for its turn.
const ATTEMPTS_BEFORE_TURN: u32 = 3;

/// Attempts after which an update that has the turn lets others wait before they begin.
const ATTEMPTS_BEFORE_URGENCY: u32 = 12;

/// Longest wait for the turn before an attempt. A long transaction is through in this time.
const TURN_WAIT_MAX: Duration = Duration::from_millis(50);

/// Bound of the first pause; each later bound is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_micros(20);

/// Bound of all pauses.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// How one [`Db::update_with`](crate::Db::update_with) differs from others.
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
    /// Serializable, as durable as the database was opened, up to 1000 attempts.
    #[must_use]
    pub fn new() -> Self {
        Self { transaction: TransactionOptions::new(), attempts: ATTEMPTS }
    }

    /// How far each attempt is kept apart from others. Default: [`Isolation::Serializable`].
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.transaction = self.transaction.isolation(isolation);
        self
    }

    /// When the commit counts as done. Default: as the database was opened.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.transaction = self.transaction.durability(durability);
        self
    }

    /// Most bytes of one attempt; see
    /// [`TransactionOptions::memory_bytes`]. Default: 64 MiB.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.transaction = self.transaction.memory_bytes(bytes);
        self
    }

    /// Most attempts, at least one. After the last one the update fails with `Conflict`. Default:
    /// 1000.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }
}

/// Runs `run` in a transaction, again and again, until it commits.
pub(crate) fn update<T>(
    family: &Family,
    options: &UpdateOptions,
    mut run: impl FnMut(&Transaction) -> Result<T>,
) -> Result<T> {
    let engine = &family.place.engine;
    engine.turns.make_way(TURN_WAIT_MAX);
    let (mut attempt, mut turn) = (1, None);
    loop {
        let error = match try_once(family, options.transaction, &mut run) {
            Err(error) if error.kind() == ErrorKind::Conflict => error,
            ended => return ended,
        };
        if attempt >= options.attempts {
            return Err(gave_up(attempt, error));
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

fn try_once<T>(
    family: &Family,
    options: TransactionOptions,
    run: &mut impl FnMut(&Transaction) -> Result<T>,
) -> Result<T> {
    let transaction = Transaction::begin(family, options);
    let done = run(&transaction);
    match done {
        Ok(value) => transaction.commit().map(|_| value),
        Err(error) => {
            // A clone of it may live on.
            if transaction.is_active() {
                transaction.rollback()?;
            }
            Err(error)
        }
    }
}

#[cold]
fn gave_up(attempts: u32, error: Error) -> Error {
    let message = format!("the update conflicted in each of {attempts} attempts");
    Error::new(ErrorKind::Conflict, message)
        .with_source(error)
        .with_hint("allow more `attempts`, or make the transaction smaller")
}
