//! The verb ttl: prints when the value of a key expires, or changes that.
//!
//! It does not open the database.

use crate::argument::a_ttl;
use crate::failure::{Failure, Result};
use crate::key_form::KeyForm;
use crate::output::Style;
use crate::session::{Opening, Session};
use crate::target::WriteArguments;
use crate::text::shortened_bytes;
use crate::verbs::backup::utc;
use clap::Args;
use serde_json::json;
use siltdb::{Expiry, Read, WriteOptions};
use std::ffi::OsString;
use std::time::{Duration, SystemTime};

/// Text at the end of `silt ttl --help`.
pub const HELP: &str = "\
Prints the time left and the time of the expiry, or that the value does not expire. With --set and \
--remove it changes the expiry first, atomically, and keeps the value. Ends with exit code 1 if \
there is no such key. With --json, expires_at is in milliseconds since 1970, or null.

Example:
  silt ttl demo.db session:17
  silt ttl demo.db session:17 --set 30m
  silt ttl demo.db session:17 --remove";

/// Arguments of `ttl`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The key whose value expires.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The value expires after this time from now: `90s`, `30m`, `12h` or `7d`
    #[arg(long, value_name = "TIME", value_parser = a_ttl, conflicts_with = "remove")]
    set: Option<Duration>,
    /// The value does not expire any more.
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    target: WriteArguments,
}

impl Arguments {
    /// Decides whether the verb writes.
    pub fn opening(&self) -> Opening {
        if self.change().is_some() { Opening::Write } else { Opening::Read }
    }

    fn change(&self) -> Option<WriteOptions> {
        let never = self.remove.then(|| WriteOptions::new().expiry(Expiry::Never));
        self.set.map(|time| WriteOptions::new().ttl(time)).or(never)
    }
}

/// Changes the expiry of a value, if that is asked for, and prints it.
///
/// # Errors
/// [`Failure::Missing`] if the key has no value; errors of the database.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let keys = KeyForm::of(session, &arguments.target.family)?;
    let key = keys.parse(&arguments.key)?;
    if arguments.change().is_some() {
        arguments.target.raw_keys.check_in(session, &arguments.target.family, &key)?;
    }
    let expiry = match arguments.change() {
        None => session.read_scope(arguments.target.family.name(), None)?.expires_at(&key)?,
        Some(options) => arguments.target.write(session, |tx| {
            let is_there = tx.touch_with(&key, &options)?;
            // A value that expires at once is gone.
            let expiry = tx.expires_at(&key)?.unwrap_or(Expiry::At(SystemTime::now()));
            Ok(is_there.then_some(expiry))
        })?,
    };
    let key = keys.shown(&key)?;
    let missing = || Failure::Missing(format!("no key `{}`", shortened_bytes(&key)));
    let expiry = expiry.ok_or_else(missing)?;
    let settings = session.output.settings();
    match settings.style {
        Style::Text => session.output.result(&told(expiry), &json!(null)),
        Style::Json => {
            let key = crate::json::of_bytes(&key, settings.form);
            session.output.json(&json!({ "key": key, "expires_at": expiry.ms() }))
        }
    }
}

/// An expiry as people read it.
fn told(expiry: Expiry) -> String {
    let (Some(time), Some(ms)) = (expiry.time(), expiry.ms()) else {
        return "does not expire".to_owned();
    };
    let left = time.duration_since(SystemTime::now()).unwrap_or_default();
    format!("{} left, expires at {}", duration(left), utc(ms))
}

/// A duration in its two largest units.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let shown = parts.into_iter().skip_while(|(count, _)| *count == 0).take(2);
    let shown: Vec<_> = shown.map(|(count, unit)| format!("{count}{unit}")).collect();
    if shown.is_empty() { format!("{}ms", time.as_millis()) } else { shown.join(" ") }
}

#[cfg(test)]
mod tests;
