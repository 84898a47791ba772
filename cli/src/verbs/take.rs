//! The verbs that return what they change: take, pop, next-id.
//!
//! They do not open the database.

use crate::bounds::KeyRange;
use crate::failure::{Failure, Result};
use crate::key_form::KeyForm;
use crate::session::{Opening, Session};
use crate::target::WriteArguments;
use crate::text::shortened_bytes;
use crate::value::PrintedValue;
use crate::walk::Direction;
use clap::Args;
use serde_json::json;
use siltdb::{Expiry, Read as _, Slice, Transaction};
use std::{ffi::OsString, ops::Bound};

/// Text at the end of `silt take --help`.
pub const TAKE_HELP: &str = "\
Takes atomically: of several processes or transactions, one gets the value. The delete is synced \
before the value is printed, unless --durability says otherwise. Without the key the exit code \
is 1.

Example:
  silt take demo.db job/17";

/// Text at the end of `silt pop --help`.
pub const POP_HELP: &str = "\
Pops atomically: each entry is printed by one caller. The delete is synced before the entry is \
printed, unless --durability says otherwise. In an empty family the exit code is 1. Buckets of the \
family are not popped.

Example:
  silt pop demo.db --family jobs
  silt pop demo.db --family jobs --last";

/// Text at the end of `silt next-id --help`.
pub const NEXT_ID_HELP: &str = "\
The ids of a key ascend from 1. None is given twice, also after a crash, unless --durability \
weakens that.

Example:
  silt next-id demo.db jobs";

/// Arguments of `take`.
#[derive(Args, Debug)]
pub struct TakeArguments {
    /// The key to take.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[command(flatten)]
    target: WriteArguments,
}

/// Arguments of `pop`.
#[derive(Args, Debug)]
pub struct PopArguments {
    /// Pop the last entry instead of the first.
    #[arg(long)]
    last: bool,
    #[command(flatten)]
    target: WriteArguments,
}

/// Arguments of `next-id`.
#[derive(Args, Debug)]
pub struct NextIdArguments {
    /// The key under which the last id is stored.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[command(flatten)]
    target: WriteArguments,
}

impl NextIdArguments {
    /// Decides whether the verb creates a missing database.
    pub fn opening(&self) -> Opening {
        self.target.family.opening()
    }
}

/// Deletes a key and prints the value that it had.
///
/// # Errors
/// [`Failure::Missing`] if there is none; errors of the database and of stdout.
pub fn take(session: &mut Session, arguments: &TakeArguments) -> Result<()> {
    let (keys, key) = arguments.target.key(session, &arguments.key)?;
    let taken = arguments.target.write(session, |tx| tx.take(&key))?;
    let shown = keys.shown(&key)?;
    let missing = || Failure::Missing(format!("no key `{}`", shortened_bytes(&shown)));
    let value = taken.ok_or_else(missing)?;
    session.output.value(&shown, &PrintedValue::Whole(&value), Expiry::Never)
}

/// Deletes the first or the last key and prints it with its value.
///
/// # Errors
/// [`Failure::Missing`] if the family is empty; errors of the database and of stdout.
pub fn pop(session: &mut Session, arguments: &PopArguments) -> Result<()> {
    let keys = KeyForm::of(session, &arguments.target.family)?;
    let popped = arguments.target.write(session, |tx| {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let ranges = arguments.target.raw_keys.parts_by(&keys, all, |key| tx.contains(key))?;
        pop_of(tx, ranges, if arguments.last { Direction::Backward } else { Direction::Forward })
    })?;
    let empty = || Failure::Missing("no key: the family is empty".to_owned());
    let (key, value) = popped.ok_or_else(empty)?;
    session.output.entry(&keys.shown(&key)?, &PrintedValue::Whole(&value))
}

/// Deletes the first entry of `ranges` in a direction, and returns it.
fn pop_of(
    transaction: &Transaction,
    mut ranges: Vec<KeyRange>,
    direction: Direction,
) -> siltdb::Result<Option<(Slice, Slice)>> {
    if direction == Direction::Backward {
        ranges.reverse();
    }
    for range in ranges {
        let mut entries = transaction.range(range)?;
        let entry = match direction {
            Direction::Forward => entries.next(),
            Direction::Backward => entries.next_back(),
        };
        if let Some((key, value)) = entry.transpose()? {
            transaction.delete(&key)?;
            return Ok(Some((key, value)));
        }
    }
    Ok(None)
}

/// Prints the next id of a key.
///
/// # Errors
/// `InvalidArgument`, if the value of the key is no id; errors of the database and of stdout.
pub fn next_id(session: &mut Session, arguments: &NextIdArguments) -> Result<()> {
    let key = arguments.target.key(session, &arguments.key)?.1;
    let id = arguments.target.write(session, |tx| tx.next_id(&key))?;
    session.output.result(&id.to_string(), &json!({ "id": id }))
}
