//! The verbs of the shell that begin, end and list transactions, and mark savepoints in them.
//!
//! Data verbs find the current transaction through `Session::scope`.

use crate::argument::{self, BoundsArguments, DurabilityArguments, FamilyArguments, a_time};
use crate::failure::{Failure, Result};
use crate::json::of_bytes;
use crate::key_form::KeyForm;
use crate::output::Style;
use crate::scope::Scope;
use crate::session::Session;
use crate::text::{counted, shortened_bytes};
use crate::transactions::{Open, TO, parse_isolation};
use clap::Args;
use serde_json::json;
use siltdb::{Durability, Isolation, LockMode, TransactionOptions};
use std::{ffi::OsString, time::Duration};

/// Arguments of `begin`.
#[derive(Args, Debug)]
pub struct BeginArguments {
    /// Its name [default: the first of t1, t2, … that is free], and its isolation level:
    /// read-uncommitted, read-committed, repeatable-read, snapshot or serializable
    /// [default: serializable]
    #[arg(value_name = "NAME|LEVEL", num_args = 0..=2)]
    words: Vec<String>,
    /// How long its locks, and its commit, wait for those of others: `5s` or `500ms` [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = a_time)]
    lock_timeout: Option<Duration>,
    #[command(flatten)]
    durability: DurabilityArguments,
}

/// Arguments of `commit` and `switch`.
#[derive(Args, Debug)]
pub struct NameArguments {
    /// The name of the transaction.
    name: Option<String>,
}

/// Arguments of `rollback`.
#[derive(Args, Debug)]
pub struct RollbackArguments {
    /// The name of the transaction [default: the current one], or `to` and the name of a savepoint.
    #[arg(value_name = "NAME|to SAVEPOINT", num_args = 0..=2)]
    words: Vec<String>,
}

/// Arguments of `savepoint` and `release`.
#[derive(Args, Debug)]
pub struct SavepointArguments {
    /// The name of the savepoint.
    name: String,
}

/// Arguments of `lock`.
#[derive(Args, Debug)]
pub struct LockArguments {
    /// The key to lock; it need not exist.
    #[arg(allow_negative_numbers = true, required_unless_present_any = ["prefix", "from", "to"])]
    #[arg(conflicts_with_all = ["prefix", "from", "to"])]
    key: Option<OsString>,
    #[command(flatten)]
    bounds: BoundsArguments,
    /// Share the lock with other transactions that lock so; all others that write wait
    #[arg(long)]
    shared: bool,
    #[command(flatten)]
    family: FamilyArguments,
}

/// Arguments of `prepare`.
#[derive(Args, Debug)]
pub struct PrepareArguments {
    /// The id to decide it by, of 1 to 255 bytes.
    #[arg(allow_negative_numbers = true)]
    id: OsString,
}

impl BeginArguments {
    /// Returns the name, if one was given, and the level.
    fn parse(&self) -> Result<(Option<&str>, Isolation)> {
        let (mut name, mut level) = (None, None);
        for word in &self.words {
            match parse_isolation(word) {
                Ok(parsed) if level.is_none() => level = Some(parsed),
                Ok(_) => return Err(Failure::Usage("two isolation levels".to_owned())),
                Err(_) if name.is_none() => name = Some(word.as_str()),
                Err(reason) => return Err(Failure::Usage(format!("`{word}`: {reason}"))),
            }
        }
        Ok((name, level.unwrap_or_default()))
    }
}

/// Begins a transaction and makes it the current one.
///
/// # Errors
/// [`Failure::Usage`] for a bad name or level.
pub fn begin(session: &mut Session, arguments: &BeginArguments) -> Result<()> {
    let (name, isolation) = arguments.parse()?;
    let name = name.map_or_else(|| session.transactions.free_name(), str::to_owned);
    session.transactions.check_new(&name)?;
    let durability = arguments.durability.or(Durability::Synced);
    let mut options = TransactionOptions::new().isolation(isolation).durability(durability);
    if let Some(timeout) = arguments.lock_timeout {
        options = options.lock_timeout(timeout);
    }
    let transaction = session.db().begin_with(&options);
    let level = isolation.as_str();
    let text = format!("began {name}, {level}");
    let object = json!({ "began": name, "isolation": level });
    session.transactions.add(Open { name, transaction, durability });
    session.output.result(&text, &object)
}

/// Commits the current transaction, or the one named. It has ended then, also after a failure.
///
/// # Errors
/// `Conflict`, with the key and the family; [`Failure::Missing`]; errors of the database.
pub fn commit(session: &mut Session, arguments: &NameArguments) -> Result<()> {
    let taken = session.transactions.take(arguments.name.as_deref())?;
    let Open { name, transaction, durability } = taken;
    let operations = transaction.written();
    let committed = transaction.commit().map_err(|error| {
        Failure::from(error).with_note(format!("the transaction `{name}` was rolled back"))
    })?;
    // A volatile commit is not in the log, so it is flushed like other writes of the tool.
    if operations > 0 {
        session.finish_once(durability)?;
    }
    let text = format!("committed {name}, {}", counted(operations as u64, "operation"));
    let sequence = committed.sequence;
    let object = json!({ "committed": name, "operations": operations, "sequence": sequence });
    session.output.result(&text, &object)
}

/// Prepares the current transaction, which has ended after that, with or without an error.
///
/// # Errors
/// `Conflict`, with the key and the family; `AlreadyExists`, for an id that waits for its decision;
/// [`Failure::Missing`]; those of the database.
pub fn prepare(session: &mut Session, arguments: &PrepareArguments) -> Result<()> {
    let form = session.output.settings().form;
    let id = argument::bytes(&arguments.id, form)?;
    let Open { name, transaction, .. } = session.transactions.take(None)?;
    let operations = transaction.written();
    transaction.prepare(&id).map_err(|error| {
        Failure::from(error).with_note(format!("the transaction `{name}` was rolled back"))
    })?;
    let count = counted(operations as u64, "operation");
    let text = format!("prepared {name} as {}, {count}", shortened_bytes(&id));
    let object = json!({ "prepared": of_bytes(&id, form), "operations": operations });
    session.output.result(&text, &object)
}

/// Rolls back the current transaction, the one named, or a part of the current one.
///
/// # Errors
/// [`Failure::Missing`]; errors of the database: the savepoint is missing.
pub fn rollback(session: &mut Session, arguments: &RollbackArguments) -> Result<()> {
    let name = match arguments.words.as_slice() {
        [to, savepoint] if to.eq_ignore_ascii_case(TO) => {
            session.transactions.find(None)?.transaction.rollback_to(savepoint)?;
            return session.output.result("", &json!({ "rolled_back_to": savepoint }));
        }
        [to] if to.eq_ignore_ascii_case(TO) => {
            return Err(Failure::Usage("`rollback to` takes the name of a savepoint".to_owned()));
        }
        [_, second, ..] => {
            let reason = format!("`{second}`: expected `rollback NAME` or `rollback to SAVEPOINT`");
            return Err(Failure::Usage(reason));
        }
        [name] => Some(name.as_str()),
        [] => None,
    };
    let Open { name, transaction, .. } = session.transactions.take(name)?;
    let operations = transaction.written();
    transaction.rollback()?;
    let text = format!("rolled back {name}, {}", counted(operations as u64, "operation"));
    session.output.result(&text, &json!({ "rolled_back": name, "operations": operations }))
}

/// Locks a key, or the keys of a range, for the current transaction. Prints the number by which
/// messages about locks name it.
///
/// # Errors
/// [`Failure::Missing`] if no transaction is current; `Busy`, which names the transaction that
/// holds the lock, after the timeout; `Conflict` in a deadlock.
pub fn lock(session: &mut Session, arguments: &LockArguments) -> Result<()> {
    session.transactions.find(None)?;
    let keys = KeyForm::of(session, &arguments.family)?;
    let Scope::Transaction(transaction) = session.scope(arguments.family.name())? else {
        unreachable!("a transaction is current")
    };
    let mode = if arguments.shared { LockMode::Shared } else { LockMode::Exclusive };
    match &arguments.key {
        Some(key) => transaction.lock_key(keys.parse(key)?, mode)?,
        // An empty range locks nothing.
        None => {
            if let Some(range) = keys.range(&arguments.bounds)? {
                transaction.lock_range(range, mode)?;
            }
        }
    }
    let number = transaction.lock_number();
    let text = number.map_or(String::new(), |number| format!("locked by transaction {number}"));
    session.output.result(&text, &json!({ "lock_number": number }))
}

/// Sets a savepoint in the current transaction.
///
/// # Errors
/// [`Failure::Missing`] if there is none.
pub fn savepoint(session: &mut Session, arguments: &SavepointArguments) -> Result<()> {
    session.transactions.find(None)?.transaction.savepoint(&arguments.name)?;
    session.output.result("", &json!({ "savepoint": arguments.name }))
}

/// Releases a savepoint of the current transaction; its writes stay.
///
/// # Errors
/// [`Failure::Missing`] if there is no transaction; `NotFound` if there is no such savepoint.
pub fn release(session: &mut Session, arguments: &SavepointArguments) -> Result<()> {
    session.transactions.find(None)?.transaction.release(&arguments.name)?;
    session.output.result("", &json!({ "released": arguments.name }))
}

/// Makes another transaction current, or none, so that each write commits by itself again.
///
/// # Errors
/// [`Failure::Missing`] if there is no such transaction.
pub fn switch(session: &mut Session, arguments: &NameArguments) -> Result<()> {
    session.transactions.switch(arguments.name.as_deref())?;
    session.output.result("", &json!({ "current": arguments.name }))
}

/// Prints the open transactions, oldest first: name, level, operations.
///
/// # Errors
/// Errors of stdout.
pub fn list(session: &mut Session) -> Result<()> {
    let Session { transactions, output, .. } = session;
    for Open { name, transaction, .. } in transactions.open() {
        let is_current = transactions.current() == Some(name);
        let (level, operations) = (transaction.isolation().as_str(), transaction.written());
        let written = counted(operations as u64, "operation");
        let mark = if is_current { "\tcurrent" } else { "" };
        let text = format!("{name}\t{level}\t{written}{mark}");
        let object = json!({
            "transaction": name,
            "isolation": level,
            "operations": operations,
            "current": is_current,
        });
        output.result(&text, &object)?;
    }
    if transactions.open().is_empty() && output.settings().style == Style::Text {
        output.result("none is open", &json!(null))?;
    }
    Ok(())
}
