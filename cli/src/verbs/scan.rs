//! The verbs on a range of keys: scan, count.
//!
//! They do not open the database.

use crate::argument::{AtArguments, BoundsArguments, BucketArguments, FamilyArguments};
use crate::failure::Result;
use crate::key_form::KeyForm;
use crate::output::message;
use crate::progress::Progress;
use crate::raw_keys::RawKeysArguments;
use crate::scope::ReadScope;
use crate::session::Session;
use crate::text::counted;
use crate::walk::{Direction, OnEntry, Walk, Wanted, visit, visit_bucket};
use crate::whole_number::any_number;
use clap::Args;
use serde_json::json;
use siltdb::RangeSize;
use std::ops::ControlFlow;

/// Text at the end of `silt scan --help`.
pub const SCAN_HELP: &str = "\
Prints what the database holds when the scan begins. A value of 32 MiB or more that a blob file \
holds is printed piece by piece: if it is damaged, the error comes after a part of it.

Example:
  silt scan demo.db --prefix SE --limit 10
  silt scan demo.db --from A --to B --reverse --keys-only";

/// Text at the end of `silt count --help`.
pub const COUNT_HELP: &str = "\
Example:
  silt count demo.db
  silt count demo.db --prefix user:
  silt count demo.db --prefix user: --estimate";

/// Entries between two updates of the progress bar.
const PROGRESS_ENTRIES: u64 = 4096;

/// Arguments of `scan`.
#[derive(Args, Debug)]
pub struct ScanArguments {
    #[command(flatten)]
    bounds: BoundsArguments,
    /// Stop after this many entries, or `all` [default: all; in the shell in a terminal, 100]
    #[arg(long, value_name = "N", value_parser = parse_limit)]
    limit: Option<u64>,
    /// From the last key to the first.
    #[arg(long)]
    reverse: bool,
    /// Print only keys; values are not read where they lie apart from their keys.
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    bucket: BucketArguments,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    #[command(flatten)]
    moment: AtArguments,
}

/// Prints the entries of a range, in the order of their keys.
///
/// # Errors
/// Errors of the database and of stdout.
pub fn scan(session: &mut Session, arguments: &ScanArguments) -> Result<()> {
    let scope = session.read_scope(arguments.family.name(), arguments.moment.at)?;
    let path = arguments.bucket.path(session.output.settings().form)?;
    let shown = session.entries_shown().filter(|_| arguments.limit.is_none());
    let keys = KeyForm::of(session, &arguments.family)?;
    let output = &mut session.output;
    let Some(range) = keys.range(&arguments.bounds)? else { return Ok(()) };
    let direction = if arguments.reverse { Direction::Backward } else { Direction::Forward };
    let mut left = shown.or(arguments.limit).unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    let mut has_more = false;
    let wanted = if arguments.keys_only { Wanted::Keys } else { Wanted::Entries };
    let walk = Walk { direction, wanted };
    let on_entry: &mut OnEntry<'_> = &mut |key, value| {
        if left == 0 {
            has_more = true;
            return Ok(ControlFlow::Break(()));
        }
        let key = keys.shown(key)?;
        if arguments.keys_only {
            output.key(&key)?;
        } else {
            output.entry(&key, &value)?;
        }
        left -= 1;
        let is_last = left == 0 && shown.is_none();
        Ok(if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    match path {
        Some(path) => visit_bucket(&scope.bucket(&path)?, range, walk, on_entry)?,
        None => {
            let ranges = arguments.raw_keys.parts(&keys, &scope, Some(range))?;
            visit(&scope, ranges, walk, on_entry)?;
        }
    }
    if let Some(shown) = shown.filter(|_| has_more) {
        // A terminal shows stdout and stderr, and the message must follow the entries.
        output.flush()?;
        let text =
            format!("the first {}; `--limit all` shows the others too", counted(shown, "entry"));
        message(output.settings().style, &text);
    }
    Ok(())
}

/// Parses a number of entries.
///
/// # Errors
/// A message that says what was expected.
fn parse_limit(text: &str) -> std::result::Result<u64, String> {
    match any_number(text) {
        Err(_) if text.eq_ignore_ascii_case("all") => Ok(u64::MAX),
        limit => limit.map_err(|expected| format!("{expected}, or `all`")),
    }
}

/// Arguments of `count`.
#[derive(Args, Debug)]
pub struct CountArguments {
    #[command(flatten)]
    bounds: BoundsArguments,
    /// Estimate from what is stored, without reading it: old versions and deletions count until a
    /// compaction, and writes of an open transaction do not. With --json the bytes, too.
    #[arg(long, conflicts_with_all = ["bucket", "at"])]
    estimate: bool,
    #[command(flatten)]
    bucket: BucketArguments,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    #[command(flatten)]
    moment: AtArguments,
}

/// Prints the number of entries in a range.
///
/// # Errors
/// Errors of the database and of stdout.
pub fn count(session: &mut Session, arguments: &CountArguments) -> Result<()> {
    if arguments.estimate {
        return estimate(session, arguments);
    }
    let scope = session.read_scope(arguments.family.name(), arguments.moment.at)?;
    let keys = KeyForm::of(session, &arguments.family)?;
    let mut entries: u64 = 0;
    if let Some(range) = keys.range(&arguments.bounds)? {
        let progress = Progress::entries("counting");
        let on_entry: &mut OnEntry<'_> = &mut |_, _| {
            entries += 1;
            if entries.is_multiple_of(PROGRESS_ENTRIES) {
                progress.set(entries);
            }
            Ok(ControlFlow::Continue(()))
        };
        let walk = Walk { direction: Direction::Forward, wanted: Wanted::Keys };
        match arguments.bucket.path(session.output.settings().form)? {
            Some(path) => visit_bucket(&scope.bucket(&path)?, range, walk, on_entry)?,
            None => {
                let ranges = arguments.raw_keys.parts(&keys, &scope, Some(range))?;
                visit(&scope, ranges, walk, on_entry)?;
            }
        }
    }
    session.output.result(&entries.to_string(), &json!({ "count": entries }))
}

fn estimate(session: &mut Session, arguments: &CountArguments) -> Result<()> {
    let family = session.family_of(arguments.family.name())?;
    let keys = KeyForm::of(session, &arguments.family)?;
    let (scope, range) = (ReadScope::Committed(family.clone()), keys.range(&arguments.bounds)?);
    let mut total = RangeSize::default();
    for range in arguments.raw_keys.parts(&keys, &scope, range)? {
        let size = family.size_of(range)?;
        total.entries += size.entries;
        total.table_bytes += size.table_bytes;
        total.memory_bytes += size.memory_bytes;
    }
    let object = json!({
        "estimate": total.entries,
        "table_bytes": total.table_bytes,
        "memory_bytes": total.memory_bytes,
    });
    session.output.result(&total.entries.to_string(), &object)
}
