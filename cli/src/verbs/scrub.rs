//! The verb scrub: verifies an open database, at a limited rate.

use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::session::Session;
use crate::text::counted;
use crate::verbs::upkeep::{cancellable, report_object, report_text};
use crate::whole_number::any_number;
use clap::Args;
use serde_json::Value;
use siltdb::{CancelToken, Options, ScrubOptions, ScrubReport};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Text at the end of `silt scrub --help`.
pub const HELP: &str = "\
Verifies every block of every table, the manifest and the log, as `check` does. --rate keeps it \
gentle. It opens the database for reading, so other readers may run beside it. In the shell it \
runs beside writers. A program that has the database open scrubs it with `scrub_interval`.

Ctrl-C ends it with a report, which names the table after which --after continues. Ends with exit \
code 3 if anything is damaged.

Example:
  silt scrub demo.db
  silt scrub demo.db --rate 16MiB --json";

/// The option whose values a rate has.
const RATE: &str = "scrub_bytes_per_second";

/// Arguments of `scrub`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Bytes to read in a second, at least 1KiB: `16MiB` [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = a_rate)]
    rate: Option<u64>,
    /// Continue after the table with this uid, without log and manifest
    #[arg(long, value_name = "UID", value_parser = any_number)]
    after: Option<u64>,
}

/// Parses a number of bytes, as the options of a database do.
fn a_rate(text: &str) -> std::result::Result<u64, String> {
    let mut options = Options::new();
    let rate = options.set(RATE, text).and_then(|()| options.get(RATE));
    let bad = || "a rate is a number of bytes, as 65536, 64KiB or 16MiB".to_owned();
    rate.map_err(|_| bad())?.parse().map_err(|_| bad())
}

/// Verifies the open database and prints the report.
///
/// # Errors
/// [`Failure::CheckFailed`] after the report if there is damage; [`Failure::Interrupted`] after
/// Ctrl-C; [`Failure::Database`] for a rate that is too low.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let (db, token) = (session.db().clone(), CancelToken::new());
    let mut options = ScrubOptions::new().after(arguments.after).cancel(&token);
    if let Some(rate) = arguments.rate {
        options = options.bytes_per_second(rate);
    }
    let (done, total) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let progress = Progress::bytes("scrubbing", Some(0));
    let (shown_done, shown_total) = (Arc::clone(&done), Arc::clone(&total));
    let work = move || {
        db.scrub(&options, &mut |progress| {
            // Relaxed: the numbers are shown, and guard no other memory.
            total.store(progress.bytes_total, Ordering::Relaxed);
            done.store(progress.bytes_done, Ordering::Relaxed);
        })
    };
    let report = cancellable("scrubbing", &token, work, &mut || {
        progress.set_total(shown_total.load(Ordering::Relaxed));
        progress.set(shown_done.load(Ordering::Relaxed));
    })??;
    drop(progress);
    print(session, &report)
}

fn print(session: &mut Session, report: &ScrubReport) -> Result<()> {
    let mut text = report_text(&report.found);
    let seconds = report.duration.as_secs_f64();
    text.push_str(&format!("\n{} read in {seconds:.1} s", counted(report.bytes, "byte")));
    if report.tables_skipped > 0 {
        text.push_str(&format!("; removed meanwhile: {}", counted(report.tables_skipped, "table")));
    }
    let mut object = report_object(&report.found, session.output.settings().form);
    object["complete"] = Value::from(report.is_complete);
    object["bytes"] = Value::from(report.bytes);
    object["started_ms"] = Value::from(report.started_ms);
    object["seconds"] = Value::from(seconds);
    object["tables_skipped"] = Value::from(report.tables_skipped);
    // As text, because a uid has more digits than many programs keep of a number.
    object["last_table"] = report.last_table.map_or(Value::Null, |uid| uid.to_string().into());
    let printed = session.output.result(&text, &object);
    if !report.is_clean() {
        return Err(Failure::CheckFailed);
    }
    printed?;
    if report.is_complete {
        return Ok(());
    }
    let note = match report.last_table {
        Some(uid) => format!("continue with `silt scrub --after {uid}`"),
        None => "no table was verified yet".to_owned(),
    };
    Err(Failure::Interrupted.with_note(note))
}
