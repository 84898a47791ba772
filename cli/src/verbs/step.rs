//! The verbs that read and write a key atomically: cas, incr.
//!
//! They do not open the database.

use crate::argument::{self, a_ttl};
use crate::failure::{Failure, Result};
use crate::session::{Opening, Session};
use crate::target::WriteArguments;
use crate::text::shortened_bytes;
use crate::whole_number::signed_number;
use clap::Args;
use serde_json::json;
use siltdb::{Error, Read, Swap, WriteOptions};
use std::{ffi::OsString, time::Duration};

/// Text at the end of `silt cas --help`.
pub const CAS_HELP: &str = "\
Compares and swaps atomically. If the key has another value, it writes nothing and ends with exit \
code 6. The new value keeps the expiry of the one that it replaces.

Example:
  silt cas demo.db lock --absent --new mine --ttl 30s
  silt cas demo.db lock --expect mine --delete";

/// Text at the end of `silt incr --help`.
pub const INCR_HELP: &str = "\
The value is a decimal number: 64 bits, signed. The addition is atomic. The counter keeps its \
expiry.

Example:
  silt incr demo.db visits
  silt incr demo.db stock -3";

/// Arguments of `cas`.
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
    /// The new value expires after this time: a lock with a lease [default: it keeps the expiry of
    /// the value that it replaces]
    #[arg(long, value_name = "TIME", value_parser = a_ttl, conflicts_with = "delete")]
    ttl: Option<Duration>,
    #[command(flatten)]
    target: WriteArguments,
}

impl CasArguments {
    /// Decides whether the verb creates a missing database.
    pub fn opening(&self) -> Opening {
        self.target.family.opening()
    }
}

/// Replaces the value of a key if it equals the expected one.
///
/// # Errors
/// [`Failure::Condition`] if the key has another value; errors of the database.
pub fn cas(session: &mut Session, arguments: &CasArguments) -> Result<()> {
    let form = session.output.settings().form;
    let value = |text: &Option<OsString>| {
        text.as_deref().map(|text| argument::bytes(text, form)).transpose()
    };
    let (keys, key) = arguments.target.key(session, &arguments.key)?;
    let (expected, new) = (value(&arguments.expect)?, value(&arguments.new)?);
    let swap = arguments.target.write(session, |tx| {
        let options = with_ttl(arguments.ttl);
        tx.compare_and_swap_with(&key, expected.as_deref(), new.as_deref(), &options)
    })?;
    let current = match swap {
        Swap::Swapped => return session.output.result("", &json!({ "swapped": true })),
        Swap::Differs(None) => "no value".to_owned(),
        Swap::Differs(Some(value)) => format!("the value `{}`", shortened_bytes(&value)),
    };
    let message = format!("the key `{}` has {current}", shortened_bytes(&keys.shown(&key)?));
    Err(Failure::Condition(message))
}

/// Arguments of `incr`.
#[derive(Args, Debug)]
pub struct IncrArguments {
    /// The key of the counter; a missing value counts as 0.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The number to add; it may be negative.
    #[arg(default_value_t = 1, allow_negative_numbers = true, value_parser = signed_number)]
    by: i64,
    /// The counter expires after this time from now [default: it keeps its expiry]
    #[arg(long, value_name = "TIME", value_parser = a_ttl)]
    ttl: Option<Duration>,
    #[command(flatten)]
    target: WriteArguments,
}

impl IncrArguments {
    /// Decides whether the verb creates a missing database.
    pub fn opening(&self) -> Opening {
        self.target.family.opening()
    }
}

/// Adds to a counter and prints its new value.
///
/// # Errors
/// `InvalidArgument`, if the value is not a number, or the sum leaves the range; errors of the
/// database.
pub fn incr(session: &mut Session, arguments: &IncrArguments) -> Result<()> {
    let key = arguments.target.key(session, &arguments.key)?.1;
    let count = arguments.target.write(session, |tx| {
        let found = tx.get_expiring(&key)?;
        let count = found.as_ref().map_or(Ok(0), |(value, _)| parse_count(value))?;
        let new = count
            .checked_add(arguments.by)
            .ok_or_else(|| Error::invalid("the counter would leave its range of 64 bits"))?;
        let options = match (arguments.ttl, &found) {
            (None, Some((_, expiry))) => WriteOptions::new().expiry(*expiry),
            (ttl, _) => with_ttl(ttl),
        };
        tx.put_with(&key, new.to_string(), &options)?;
        Ok(new)
    })?;
    session.output.result(&count.to_string(), &json!({ "value": count }))
}

/// Options of a write of a value that expires after `ttl`, if that is given.
fn with_ttl(ttl: Option<Duration>) -> WriteOptions {
    ttl.map_or_else(WriteOptions::new, |ttl| WriteOptions::new().ttl(ttl))
}

fn parse_count(value: &[u8]) -> siltdb::Result<i64> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        Error::invalid("the value of the key is not a counter")
            .with_mismatch("a decimal number of 64 bits", shortened_bytes(value))
    })
}
