//! The verbs that read and write a key in one step: cas, incr.
//!
//! They do not open the database.

use crate::argument::{self, DurabilityArguments, FamilyArguments};
use crate::failure::{Failure, Result};
use crate::session::{Opening, Session};
use crate::text::shortened_bytes;
use crate::verbs::bucket::write;
use clap::Args;
use serde_json::json;
use siltdb::{Error, Read, Swap};
use std::ffi::OsString;

/// The end of the help of `cas`.
pub const CAS_HELP: &str = "\
Compares and swaps in one step, whatever other writers do. Ends with exit code 6 if the key has \
another value, and then writes nothing.

Example:
  silt cas demo.db lock --absent --new mine
  silt cas demo.db lock --expect mine --delete";

/// The end of the help of `incr`.
pub const INCR_HELP: &str = "\
The value is a decimal number, of 64 bits with a sign. Adding is one step, whatever other writers \
do.

Example:
  silt incr demo.db visits
  silt incr demo.db stock -3";

/// What `cas` is told.
#[derive(Args, Debug)]
pub struct CasArguments {
    /// The key whose value is compared and swapped.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The value that the key must have.
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    #[arg(required_unless_present = "absent", conflicts_with = "absent")]
    expect: Option<OsString>,
    /// The key must have no value.
    #[arg(long)]
    absent: bool,
    /// The value that the key gets.
    #[arg(long, value_name = "VALUE", allow_negative_numbers = true)]
    #[arg(required_unless_present = "delete", conflicts_with = "delete")]
    new: Option<OsString>,
    /// Delete the key.
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    durability: DurabilityArguments,
}

impl CasArguments {
    /// What to do where there is no database.
    pub fn opening(&self) -> Opening {
        self.family.opening()
    }
}

/// Gives a key a new value if it has the expected one.
///
/// # Errors
/// [`Failure::Condition`], if it has another; those of the database.
pub fn cas(session: &mut Session, arguments: &CasArguments) -> Result<()> {
    let form = session.output.settings().form;
    let value = |text: &Option<OsString>| {
        text.as_deref().map(|text| argument::bytes(text, form)).transpose()
    };
    let key = argument::bytes(&arguments.key, form)?;
    let (expected, new) = (value(&arguments.expect)?, value(&arguments.new)?);
    let swap = write(session, (&arguments.family, arguments.durability), |tx| {
        tx.compare_and_swap(&key, expected.as_deref(), new.as_deref())
    })?;
    let current = match swap {
        Swap::Swapped => return session.output.result("", &json!({ "swapped": true })),
        Swap::Differs(None) => "no value".to_owned(),
        Swap::Differs(Some(value)) => format!("the value `{}`", shortened_bytes(&value)),
    };
    let message = format!("the key `{}` has {current}", shortened_bytes(&key));
    Err(Failure::Condition(message))
}

/// What `incr` is told.
#[derive(Args, Debug)]
pub struct IncrArguments {
    /// The key of the counter: a decimal number; without a value it is 0.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// What is added.
    #[arg(default_value_t = 1, allow_negative_numbers = true)]
    by: i64,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    durability: DurabilityArguments,
}

impl IncrArguments {
    /// What to do where there is no database.
    pub fn opening(&self) -> Opening {
        self.family.opening()
    }
}

/// Adds to a counter and prints what it is then.
///
/// # Errors
/// `InvalidArgument`, if the value is no number or would be too large; those of the database.
pub fn incr(session: &mut Session, arguments: &IncrArguments) -> Result<()> {
    let key = argument::bytes(&arguments.key, session.output.settings().form)?;
    let count = write(session, (&arguments.family, arguments.durability), |tx| {
        let old = match tx.get(&key)? {
            None => 0,
            Some(value) => parse_count(&value)?,
        };
        let new = old
            .checked_add(arguments.by)
            .ok_or_else(|| Error::invalid("the counter would leave its range of 64 bits"))?;
        tx.put(&key, new.to_string())?;
        Ok(new)
    })?;
    session.output.result(&count.to_string(), &json!({ "value": count }))
}

fn parse_count(value: &[u8]) -> siltdb::Result<i64> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        Error::invalid("the value of the key is no counter")
            .with_mismatch("a decimal number of 64 bits", shortened_bytes(value))
    })
}
