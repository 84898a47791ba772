//! The verb recover: writes what verifies of a damaged database into a new one, or only says what
//! that would be.
//!
//! It never writes to the old one.

use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::json;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::exists;
use crate::text::{Form, counted};
use clap::Args;
use serde_json::{Value, json};
use siltdb::{
    Options,
    salvage::{Lost, LostPart, ManifestState, SalvageReport, SalvagedFamily, dry_run, salvage},
};
use std::path::PathBuf;

/// What `silt recover --help` says at its end.
pub const HELP: &str = "\
Reads every block of every table and every record of the log of OLD, also behind damage. Creates \
NEW with each value that a reader would see. OLD is never written to. Merge operands stay \
operands, so no merge operator is needed.

A missing CURRENT loses nothing. If the manifest can be read, every value is one that was written. \
Each key has its newest value, unless the report names it as lost; a lost key may have an older \
value, or a deleted one.

Without the manifest, every value was written once, but retired files cannot always be told from \
live ones. Deleted keys, older values, dropped families and folded merge operands may reappear. An \
old deletion may hide a later value. A clone has only the tables that it wrote itself. A family \
without any table left gets a new name and the default options.

The report counts the recovered entries and families. For each damage it has the family, the keys, \
the most entries that may be lost, and file and offset. A missing file is noticed if another file \
refers to it. Ends with exit code 0 if all was recovered, and 3 if something may be lost; NEW is \
usable in both cases. After any other exit code there is no NEW. A killed \
recover leaves NEW.partial, which the next one replaces.

A cold directory is read, too: the one that the manifest names, or --cold. All tables of NEW are \
in NEW.

--dry-run makes the same report and writes nothing, no temporary file either. It keeps what is in \
the log in memory.

Example:
  silt check demo.db
  silt recover demo.db --dry-run
  silt recover demo.db saved.db
  silt recover demo.db saved.db --json";

/// Arguments of `recover`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory of the damaged database; it is not written to.
    old: PathBuf,
    /// The directory of the new one, which must not exist or be empty.
    #[arg(required_unless_present = "dry_run")]
    new: Option<PathBuf>,
    /// Write nothing: report what would be recovered and what may be lost; NEW is not needed
    #[arg(long)]
    dry_run: bool,
}

/// Writes what verifies of a database into a new one, unless this is a dry run, and prints what may
/// be lost.
///
/// # Errors
/// [`Failure::Missing`] if there is no database; [`Failure::Lost`] after the report if something
/// may be lost; errors of both databases.
pub fn run(output: &mut Output, options: Options, arguments: &Arguments) -> Result<()> {
    if !exists(&arguments.old)? {
        return Err(Failure::no_database(&arguments.old));
    }
    let progress = Progress::bytes("recovering", None);
    let on_progress = &mut |done: siltdb::salvage::SalvageProgress| progress.set(done.bytes_done);
    let options = options.lock_wait(output.settings().wait);
    let target = arguments.new.as_ref().filter(|_| !arguments.dry_run);
    let report = match target {
        Some(new) => salvage(&arguments.old, new, options, on_progress)?,
        None => dry_run(&arguments.old, options, on_progress)?,
    };
    drop(progress);
    let done = if target.is_some() { "recovered" } else { "would be recovered" };
    let mut object = object_of(&report, output.settings().form);
    object["dry_run"] = Value::from(target.is_none());
    let printed = output.result(&text_of(&report, done), &object);
    if report.is_complete() {
        return printed;
    }
    // A program that does not read the report must still see the exit code for losses.
    Err(Failure::Lost(match target {
        Some(new) => format!("not all could be recovered; {} holds what could", new.display()),
        None => "not all would be recovered; nothing was written".to_owned(),
    }))
}

fn text_of(report: &SalvageReport, done: &str) -> String {
    let SalvageReport { entries, families, log_records, .. } = report;
    let mut text = format!(
        "{} of {} {done}; {} read",
        counted(*entries, "entry"),
        counted(families.len() as u64, "family"),
        counted(*log_records, "log record")
    );
    if report.retired_operations > 0 {
        let operations = counted(report.retired_operations, "operation");
        text.push_str(&format!("; {operations} of lost tables read from retired log segments"));
    }
    if report.possibly_replaced > 0 {
        let older = report.possibly_replaced;
        text.push_str(&format!(
            ", {older} of which may be older values: later commits were not in the log"
        ));
    }
    if report.prepared > 0 {
        let waiting = counted(report.prepared, "prepared transaction");
        text.push_str(&format!("; {waiting} without a decision"));
    }
    let made_up = families.iter().filter(|family| !family.is_known);
    for SalvagedFamily { name, .. } in made_up {
        text.push_str(&format!(
            "\nfamily {name}: its name or options are lost; it has the default options"
        ));
    }
    if report.manifest == ManifestState::Lost {
        text.push_str(
            "\nwithout the manifest, deleted keys, older values and dropped families may have come \
             back, and old deletions may hide values",
        );
    }
    for lost in &report.lost {
        text.push_str(&format!("\nlost: {lost}"));
    }
    text
}

fn object_of(report: &SalvageReport, form: Form) -> Value {
    let family = |family: &SalvagedFamily| {
        let SalvagedFamily { name, entries, is_known, .. } = family;
        json!({ "name": name, "entries": entries, "known": is_known })
    };
    json!({
        "complete": report.is_complete(),
        "entries": report.entries,
        "families": report.families.iter().map(family).collect::<Vec<_>>(),
        "log_records": report.log_records,
        "retired_operations": report.retired_operations,
        "possibly_replaced": report.possibly_replaced,
        "prepared": report.prepared,
        "manifest": match report.manifest {
            ManifestState::Whole => "whole",
            ManifestState::Lost => "lost",
        },
        "lost": report.lost.iter().map(|lost| lost_object(lost, form)).collect::<Vec<_>>(),
    })
}

/// Returns a loss as an object; unknown fields are null.
pub fn lost_object(lost: &Lost, form: Form) -> Value {
    let key = |key: &Option<Vec<u8>>| key.as_ref().map(|key| json::of_bytes(key, form));
    json!({
        "family": lost.family,
        "first_key": key(&lost.first),
        "last_key": key(&lost.last),
        "entries_max": lost.entries_max,
        "part": part_name(lost.part),
        "file": lost.error.file(),
        "offset": lost.error.offset(),
        "error": told(&lost.error),
    })
}

/// What of the entries is lost.
fn part_name(part: LostPart) -> &'static str {
    match part {
        LostPart::Entries => "entries",
        LostPart::Values => "values",
    }
}
