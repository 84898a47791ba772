//! The verbs on one key: get, put, delete.
//!
//! They do not open the database.

use crate::argument::{
    self, AtArguments, BucketArguments, DeletedArguments, DurabilityArguments, FamilyArguments,
    a_ttl,
};
use crate::bounds::KeyRange;
use crate::failure::{Failure, Result};
use crate::key_form::KeyForm;
use crate::limits::{check_entry, too_long};
use crate::output::message;
use crate::raw_keys::{RawKeysArguments, buckets_in};
use crate::scope::{ReadScope, Scope, all_or_none};
use crate::session::{Opening, Session};
use crate::source::{Source, read_failure};
use crate::target::write_in;
use crate::text::{Form, counted, shortened_bytes};
use crate::value::{PrintedValue, STREAMED_BYTES_MIN};
use crate::walk::{Direction, OnEntry, Walk, Wanted, visit, visit_bucket};
use clap::Args;
use serde_json::json;
use siltdb::{
    Durability, Expiry, Read as _, ReadOptions, VALUE_BYTES_MAX, WriteBatch, WriteOptions,
};
use std::io::Read;
use std::ops::{Bound, ControlFlow};
use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Text at the end of `silt get --help`.
pub const GET_HELP: &str = "\
Ends with exit code 1 if there is no such key. With --json, a value that expires has expires_at, \
in milliseconds since 1970; `silt ttl` prints and changes it.

Example:
  silt get demo.db SFO
  silt get demo.db photo:17 --raw > photo.jpg
  silt get demo.db SFO --next";

/// Text at the end of `silt put --help`.
pub const PUT_HELP: &str = "\
A family other than default must exist. A value is smaller than 4 GiB - 1 MiB. A file of 32 MiB or
more is written piece by piece, and takes little memory.

Example:
  silt put demo.db user:1 Ada
  silt put demo.db photo:17 --file photo.jpg
  silt put demo.db --hex 00ff 2a";

/// Text at the end of `silt delete --help`.
pub const DELETE_HELP: &str = "\
A missing key is no error. --prefix, --from and --to delete all keys of a range in one write, after
they were counted; --all deletes every key of the family, or of the bucket. The buckets of the
family stay, unless --raw-keys is given.

Example:
  silt delete demo.db user:1
  silt delete demo.db --prefix user:";

#[cfg(test)]
mod tests;

/// Arguments of `get`.
#[derive(Args, Debug)]
pub struct GetArguments {
    /// The key to look up.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// More keys: all are looked up at one moment, and printed as key, tab, value.
    #[arg(allow_negative_numbers = true, conflicts_with_all = ["raw", "next", "prev", "bucket"])]
    more: Vec<OsString>,
    /// Print the bytes of the value exactly as they are, without a line end.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print the next entry after the key instead: key, tab, value.
    #[arg(long, conflicts_with_all = ["raw", "prev"])]
    next: bool,
    /// Print the last entry before the key instead: key, tab, value.
    #[arg(long, conflicts_with = "raw")]
    prev: bool,
    #[command(flatten)]
    bucket: BucketArguments,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    #[command(flatten)]
    moment: AtArguments,
}

/// Prints the value of a key, or the entries of several.
///
/// # Errors
/// [`Failure::Missing`] if a key has no value; the entries of the others are printed before.
pub fn get(session: &mut Session, arguments: &GetArguments) -> Result<()> {
    if !arguments.more.is_empty() {
        return get_many(session, arguments);
    }
    let keys = KeyForm::of(session, &arguments.family)?;
    let key = keys.parse(&arguments.key)?;
    let scope = session.read_scope(arguments.family.name(), arguments.moment.at)?;
    let path = arguments.bucket.path(session.output.settings().form)?;
    let key_shown = keys.shown(&key)?;
    let missing =
        |what: &str| Failure::Missing(format!("{what} `{}`", shortened_bytes(&key_shown)));
    let bucket = path.map(|path| scope.bucket(&path)).transpose()?;
    if arguments.next || arguments.prev {
        let (range, direction, what) = match arguments.next {
            true => ((Bound::Excluded(key.clone()), Bound::Unbounded), Direction::Forward, "after"),
            false => {
                ((Bound::Unbounded, Bound::Excluded(key.clone())), Direction::Backward, "before")
            }
        };
        let (mut is_found, output) = (false, &mut session.output);
        let on_entry: &mut OnEntry<'_> = &mut |key, value| {
            is_found = true;
            output.entry(&keys.shown(key)?, &value).map(ControlFlow::Break)
        };
        let walk = Walk { direction, wanted: Wanted::Entries };
        match &bucket {
            Some(bucket) => visit_bucket(bucket, range, walk, on_entry)?,
            None => {
                let ranges = arguments.raw_keys.parts(&keys, &scope, Some(range))?;
                visit(&scope, ranges, walk, on_entry)?;
            }
        }
        return if is_found { Ok(()) } else { Err(missing(&format!("no key {what}"))) };
    }
    let (mut is_found, output) = (false, &mut session.output);
    let mut print = |value: PrintedValue<'_>, expiry| {
        is_found = true;
        match arguments.raw {
            true => output.raw_value(&value),
            false => output.value(&key_shown, &value, expiry),
        }
    };
    match &bucket {
        Some(bucket) => {
            let walk = Walk { direction: Direction::Forward, wanted: Wanted::Entries };
            visit_bucket(bucket, only(&key), walk, &mut |_, value| {
                print(value, Expiry::Never).map(ControlFlow::Break)
            })?;
        }
        None => look_up(&scope, &key, print)?,
    }
    if is_found { Ok(()) } else { Err(missing("no key")) }
}

/// Returns the range that has no other key.
fn only(key: &[u8]) -> KeyRange {
    (Bound::Included(key.to_vec()), Bound::Included(key.to_vec()))
}

/// Calls `seen` with the value of a key and its expiry, if there is one.
fn look_up(
    scope: &ReadScope,
    key: &[u8],
    seen: impl FnOnce(PrintedValue<'_>, Expiry) -> Result<()>,
) -> Result<()> {
    if scope.value_len(key)?.is_none_or(|bytes| bytes < STREAMED_BYTES_MIN) {
        return match scope.get_expiring(key)? {
            Some((value, expiry)) => seen(PrintedValue::Whole(&value), expiry),
            None => Ok(()),
        };
    }
    // A cursor tells the value and its expiry of one moment, and does not read the value.
    let options = ReadOptions::new().range(only(key)).stream_from(STREAMED_BYTES_MIN);
    let mut cursor = scope.cursor_with(&options)?;
    cursor.seek_to_first()?;
    match (cursor.value(), cursor.expires_at()?) {
        (Some(value), Some(expiry)) => {
            seen(PrintedValue::of(value, cursor.value_reader()?), expiry)
        }
        _ => Ok(()),
    }
}

fn get_many(session: &mut Session, arguments: &GetArguments) -> Result<()> {
    let form = KeyForm::of(session, &arguments.family)?;
    let texts = std::iter::once(&arguments.key).chain(&arguments.more);
    let keys: Vec<_> = texts.map(|text| form.parse(text)).collect::<Result<_>>()?;
    let scope = match session.read_scope(arguments.family.name(), arguments.moment.at)? {
        // One moment for all of them, so that their values are in memory one after the other.
        ReadScope::Committed(family) => {
            ReadScope::Snapshot(session.db().snapshot().family(&family)?)
        }
        scope => scope,
    };
    let mut missing = Vec::new();
    let output = &mut session.output;
    let mut print = |key: &Vec<u8>, value: Option<PrintedValue<'_>>| {
        let shown = form.shown(key)?;
        match value {
            Some(value) => output.entry(&shown, &value)?,
            None => missing.push(format!("`{}`", shortened_bytes(&shown))),
        }
        Ok(())
    };
    match scope {
        // Reads of some transactions see what was committed last.
        ReadScope::Transaction(transaction) => {
            for (key, value) in keys.iter().zip(transaction.get_many(&keys)?) {
                print(key, value.as_deref().map(PrintedValue::Whole))?;
            }
        }
        scope => {
            for key in &keys {
                let mut is_found = false;
                look_up(&scope, key, |value, _| {
                    is_found = true;
                    print(key, Some(value))
                })?;
                if !is_found {
                    print(key, None)?;
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::Missing(format!("no key {}", missing.join(", "))))
}

/// Arguments of `put`.
#[derive(Args, Debug)]
pub struct PutArguments {
    /// The key to write.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// Its value.
    #[arg(required_unless_present = "file", allow_negative_numbers = true)]
    value: Option<OsString>,
    /// Take the bytes of this file as the value; `-` is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
    /// The value expires after this time: `90s`, `30m`, `12h` or `7d` [default: that of the family,
    /// if it has one]
    #[arg(long, value_name = "TIME", conflicts_with = "bucket", value_parser = a_ttl)]
    ttl: Option<Duration>,
    #[command(flatten)]
    bucket: BucketArguments,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    #[command(flatten)]
    durability: DurabilityArguments,
}

/// A key and its value, read from the arguments of `put`. The key is text in the order of the
/// family, which is not known before the database is open.
pub struct Entry {
    key: Vec<u8>,
    value: EntryValue,
}

/// The value of an entry.
enum EntryValue {
    Whole(Vec<u8>),
    /// A file that is long enough to be written piece by piece, and its length in bytes.
    Streamed(Source, u64),
}

impl EntryValue {
    /// All of it in memory.
    fn whole(self) -> Result<Vec<u8>> {
        match self {
            Self::Whole(value) => Ok(value),
            Self::Streamed(source, _) => read_value(source, VALUE_BYTES_MAX),
        }
    }
}

impl PutArguments {
    /// Decides whether the verb creates a missing database.
    pub fn opening(&self) -> Opening {
        // A new database has no buckets.
        if self.bucket.is_given() { Opening::Write } else { self.family.opening() }
    }

    /// Reads the entry to write, before a database is created for it.
    ///
    /// # Errors
    /// [`Failure::Usage`] and [`Failure::File`]; `InvalidArgument` for an entry above a limit.
    pub fn entry(&self, form: Form) -> Result<Entry> {
        let key = argument::bytes(&self.key, form)?;
        let value = match (&self.value, &self.file) {
            (Some(value), _) => argument::bytes(value, form)?,
            (None, Some(file)) => {
                let source = Source::open(file)?;
                if let Some(bytes) = source.bytes_total.filter(|bytes| self.is_streamed(*bytes)) {
                    check_entry(&key, &[])?;
                    return Ok(Entry { key, value: EntryValue::Streamed(source, bytes) });
                }
                read_value(source, VALUE_BYTES_MAX)?
            }
            (None, None) => unreachable!("the command line demands one of them"),
        };
        check_entry(&key, &value)?;
        Ok(Entry { key, value: EntryValue::Whole(value) })
    }

    /// Whether a file of `bytes` bytes is written piece by piece. A longer one than a value may be
    /// is refused when it is read.
    fn is_streamed(&self, bytes: u64) -> bool {
        let is_plain = !self.bucket.is_given() && self.ttl.is_none();
        is_plain && (STREAMED_BYTES_MIN..=VALUE_BYTES_MAX as u64).contains(&bytes)
    }
}

/// Reads all of `source`, which may be endless, up to `bytes_max` bytes.
fn read_value(source: Source, bytes_max: usize) -> Result<Vec<u8>> {
    let message = "value is too long";
    if let Some(bytes) = source.bytes_total.filter(|bytes| *bytes > bytes_max as u64) {
        return Err(too_long(message, bytes_max, bytes).into());
    }
    // A vector that grows may take twice the memory it needs.
    let expected = source.bytes_total.and_then(|bytes| usize::try_from(bytes).ok());
    let mut value = Vec::new();
    value
        .try_reserve_exact(expected.unwrap_or(0))
        .map_err(|error| Failure::file("read", source.name.clone(), error.into()))?;
    let read = source.input.take(bytes_max as u64 + 1).read_to_end(&mut value);
    read.map_err(|error| read_failure(&source.name, error))?;
    if value.len() > bytes_max {
        return Err(too_long(message, bytes_max, "more").into());
    }
    Ok(value)
}

/// Writes `entry` without a copy, because it may be a large part of the memory.
///
/// # Errors
/// Errors of the database.
pub fn put(session: &mut Session, arguments: &PutArguments, mut entry: Entry) -> Result<()> {
    if let Some(path) = arguments.bucket.path(session.output.settings().form)? {
        let (family, durability) = (&arguments.family, arguments.durability);
        let value = entry.value.whole()?;
        write_in(session, &path, family, durability, |bucket| bucket.put(&entry.key, &value))?;
        return session.output.result("", &json!({ "operations": 1 }));
    }
    let keys = KeyForm::of(session, &arguments.family)?;
    if keys.has_text() {
        entry.key = keys.encoded(&entry.key)?.into_owned();
    }
    let scope = session.scope(arguments.family.name())?;
    arguments.raw_keys.check(&keys, &scope.clone().into(), &entry.key)?;
    match scope {
        Scope::Transaction(transaction) => {
            arguments.durability.refuse_in_transaction()?;
            let value = entry.value.whole()?;
            match arguments.ttl {
                None => transaction.put(&entry.key, &value)?,
                Some(ttl) => transaction.put_for(&entry.key, &value, ttl)?,
            }
        }
        Scope::Committed(family) => {
            let durability = arguments.durability.or(Durability::Synced);
            let options = WriteOptions::new().durability(durability);
            // The memory of a value is freed before a flush reads its new table back.
            match (entry.value, arguments.ttl) {
                (EntryValue::Streamed(source, bytes), _) => {
                    family.put_reader_with(&entry.key, bytes, source.input, &options)?;
                }
                (EntryValue::Whole(value), None) => {
                    family.put_with(&entry.key, value, &options)?;
                }
                (EntryValue::Whole(value), Some(ttl)) => {
                    family.put_for_with(&entry.key, value, ttl, &options)?;
                }
            }
            session.finish_once(durability)?;
        }
    }
    session.output.result("", &json!({ "operations": 1 }))
}

/// Arguments of `delete`.
#[derive(Args, Debug)]
pub struct DeleteArguments {
    /// The key to delete; it need not exist.
    #[arg(allow_negative_numbers = true)]
    #[arg(required_unless_present_any = ["prefix", "from", "to", "all"])]
    #[arg(conflicts_with_all = ["prefix", "from", "to", "all"])]
    key: Option<OsString>,
    #[command(flatten)]
    deleted: DeletedArguments,
    #[command(flatten)]
    bucket: BucketArguments,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    #[command(flatten)]
    durability: DurabilityArguments,
}

/// Deletes a key, or all keys of a range.
///
/// # Errors
/// Errors of the database.
pub fn delete(session: &mut Session, arguments: &DeleteArguments) -> Result<()> {
    let form = session.output.settings().form;
    let keys = KeyForm::of(session, &arguments.family)?;
    let key = arguments.key.as_deref().map(|key| keys.parse(key)).transpose()?;
    // Without bounds the range is that of all keys.
    let range = match &key {
        Some(_) => None,
        None => arguments.deleted.checked(keys.range(&arguments.deleted.bounds)?)?,
    };
    let mut deleted = 0;
    if let Some(path) = arguments.bucket.path(form)? {
        let (family, durability) = (&arguments.family, arguments.durability);
        write_in(session, &path, family, durability, |bucket| match (&key, &range) {
            (Some(key), _) => bucket.delete(key),
            (None, Some(range)) => {
                deleted = bucket.count(range)?;
                bucket.delete_range(range)
            }
            // An empty range holds no key.
            (None, None) => Ok(()),
        })?;
        return print_deleted(session, key.is_none().then_some(deleted));
    }
    let scope = session.scope(arguments.family.name())?;
    let read = ReadScope::from(scope.clone());
    if let Some(key) = &key {
        arguments.raw_keys.check(&keys, &read, key)?;
    }
    let ranges = arguments.raw_keys.parts_to_delete(&keys, &read, range)?;
    match &scope {
        Scope::Transaction(transaction) => {
            arguments.durability.refuse_in_transaction()?;
            all_or_none(transaction, || {
                key.as_ref().map_or(Ok(()), |key| transaction.delete(key))?;
                for range in ranges {
                    deleted += transaction.count(&range)?;
                    transaction.delete_range(range)?;
                }
                Ok(())
            })?;
        }
        Scope::Committed(family) => {
            let mut batch = WriteBatch::new();
            key.as_ref().map_or(Ok(()), |key| batch.delete(family, key))?;
            for range in ranges {
                deleted += family.count(&range)?;
                batch.delete_range(family, range)?;
            }
            session.write_once(batch, arguments.durability.or(Durability::Synced))?;
        }
    }
    print_deleted(session, key.is_none().then_some(deleted))?;
    let is_asked = arguments.deleted.is_all() && !arguments.raw_keys.is_given();
    let buckets = if is_asked { buckets_in(&read) } else { 0 };
    if buckets > 0 {
        session.output.flush()?;
        let stay = if buckets == 1 { "stays" } else { "stay" };
        let buckets = counted(buckets, "bucket");
        let hint = "`bucket delete` deletes one, and `delete --all --raw-keys` all of them";
        message(session.output.settings().style, &format!("{buckets} {stay}; {hint}"));
    }
    Ok(())
}

/// Prints how many keys a range had; nothing for a key, which need not have been there.
fn print_deleted(session: &mut Session, of_range: Option<u64>) -> Result<()> {
    let Some(keys) = of_range else {
        return session.output.result("", &json!({ "operations": 1 }));
    };
    let text = format!("{} deleted", counted(keys, "key"));
    session.output.result(&text, &json!({ "operations": 1, "deleted": keys }))
}
