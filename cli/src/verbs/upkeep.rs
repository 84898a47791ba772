//! The verbs that maintain a database: check, compact, flush, upgrade.
//!
//! `check` also takes a database that does not open; the others do not open it.

use crate::argument::BoundsArguments;
use crate::bounds::is_greatest;
use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::interrupt;
use crate::key_form::KeyForm;
use crate::output::Output;
use crate::progress::Progress;
use crate::session::{Session, exists, follow};
use crate::text::{Form, counted};
use crate::verbs::recover::lost_object;
use clap::Args;
use serde_json::{Value, json};
use siltdb::{
    CancelToken, CheckProgress, CheckReport, CompactOptions, CompactProgress, Error, ErrorKind,
    LostFiles, Options,
    salvage::{Lost, LostPart},
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Text at the end of `silt upgrade --help`.
pub const UPGRADE_HELP: &str = "\
A database keeps the format version of its creation until it is upgraded. This build writes the \
newest version and opens no older one, so a database that it opens has nothing to upgrade; one of \
a later version is refused by name. The database must not be open.

Example:
  silt upgrade demo.db";

/// Interval at which a verb that waits checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Text at the end of `silt flush --help`.
pub const FLUSH_HELP: &str = "\
Writes survive a crash without this, because they are in the log.

Example:
  silt flush demo.db
  silt flush demo.db --family users";

/// Text at the end of `silt compact --help`.
pub const COMPACT_HELP: &str = "\
Background work reclaims space in time; this does it at once. It needs room for the new tables. \
With --prefix, --from or --to it merges only tables with such keys, but these in whole. Ctrl-C \
cancels it: what it has finished stays, and the rest is as before.

Example:
  silt compact demo.db
  silt compact demo.db --family users --from A --to C";

/// Text at the end of `silt check --help`.
pub const CHECK_HELP: &str = "\
Verifies every block of every table and every record of the log, also of a database that does not \
open. A damaged log is reported at its first damage, and the tables are still verified. CURRENT \
and the manifest name the tables and the log, so if these are damaged, nothing else can be \
verified. The report names what was not verified, and the unreadable keys of each damaged table. \
Ends with exit code 3 if anything is damaged; `silt recover` saves the rest.

Example:
  silt check demo.db";

/// Arguments of `flush`.
#[derive(Args, Debug)]
pub struct FlushArguments {
    /// Only if this family has data in memory; families that share its memtables are written, too
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
}

/// Writes the data in memory to tables.
///
/// # Errors
/// [`Failure::Missing`] if there is no such family; errors of the database.
pub fn flush(session: &mut Session, arguments: &FlushArguments) -> Result<()> {
    let db = session.db().clone();
    let family = arguments.family.as_deref().map(|name| session.family(Some(name))).transpose()?;
    aside("flushing", move || family.map_or_else(|| db.flush(), |family| family.flush()))??;
    session.output.result("", &json!({ "flushed": true }))
}

/// Arguments of `compact`.
#[derive(Args, Debug)]
pub struct CompactArguments {
    /// The family to compact [default: all; with a range, the one in use]
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    #[command(flatten)]
    bounds: BoundsArguments,
}

/// Merges tables, so that deleted and overwritten data takes no space: all, those of a family, or
/// those with keys of a range. Ctrl-C cancels it.
///
/// # Errors
/// [`Failure::Missing`] if there is no such family; [`Failure::Interrupted`]; errors of the
/// database.
pub fn compact(session: &mut Session, arguments: &CompactArguments) -> Result<()> {
    let name = arguments.family.as_deref();
    let (token, bytes) = (CancelToken::new(), Arc::new(AtomicU64::new(0)));
    let options = CompactOptions::new().cancel(&token);
    let done = Arc::clone(&bytes);
    // Relaxed: the number is shown, and guards no other memory.
    let mut on_progress =
        move |progress: CompactProgress| done.store(progress.bytes_done, Ordering::Relaxed);
    let work: Box<dyn FnOnce() -> siltdb::Result<()> + Send> = if arguments.bounds.is_given() {
        let family = session.family(name)?;
        let keys = KeyForm::new(session.output.settings().form, family.key_order());
        match keys.range(&arguments.bounds)? {
            Some(range) => {
                Box::new(move || family.compact_range_with(range, &options, &mut on_progress))
            }
            None => Box::new(|| Ok(())),
        }
    } else if name.is_some() {
        let family = session.family(name)?;
        Box::new(move || family.compact_with(&options, &mut on_progress))
    } else {
        let db = session.db().clone();
        Box::new(move || db.compact_with(&options, &mut on_progress))
    };
    let progress = Progress::bytes("compacting", None);
    let compacted = cancellable("compacting", &token, work, &mut || {
        progress.set(bytes.load(Ordering::Relaxed));
    })?;
    drop(progress);
    match compacted {
        Err(error) if error.kind() == ErrorKind::Cancelled && token.is_cancelled() => {
            let note = "the compaction was cancelled; what it had finished stays".to_owned();
            Err(Failure::Interrupted.with_note(note))
        }
        compacted => {
            compacted?;
            session.output.result("", &json!({ "compacted": true }))
        }
    }
}

/// Reads and verifies the open database.
///
/// # Errors
/// [`Failure::CheckFailed`] after the report if there is damage.
pub fn check(session: &mut Session) -> Result<()> {
    let db = session.db().clone();
    let report = aside("checking", move || db.check(&mut |_| {}))??;
    print_report(&mut session.output, &report)
}

/// Runs `work`, which cannot be cancelled, on a thread of its own, so that Ctrl-C ends the wait.
///
/// # Errors
/// [`Failure::Interrupted`] with a note that the work continues; [`Failure::File`] if the system
/// refuses a thread.
pub fn aside<T: Send + 'static>(
    verb: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let progress = Progress::time(verb);
    on_thread(verb, work, &mut || {
        progress.set(0);
        interrupt::check().map_err(|failure| {
            failure.with_note(format!("{verb} continues in the background until it is done"))
        })
    })
}

/// Runs `work`, which `token` cancels, on a thread of its own. Ctrl-C cancels it. Calls `show` from
/// time to time.
///
/// # Errors
/// [`Failure::File`] if the system refuses a thread.
pub fn cancellable<T: Send + 'static>(
    verb: &'static str,
    token: &CancelToken,
    work: impl FnOnce() -> T + Send + 'static,
    show: &mut dyn FnMut(),
) -> Result<T> {
    on_thread(verb, work, &mut || {
        show();
        if interrupt::check().is_err() {
            token.cancel();
        }
        Ok(())
    })
}

/// Runs `work` on a thread of its own. Calls `poll` from time to time, whose error ends the wait.
fn on_thread<T: Send + 'static>(
    verb: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
    poll: &mut dyn FnMut() -> Result<()>,
) -> Result<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name(verb.to_owned()).spawn(move || {
        // After Ctrl-C the result may be dropped.
        let _ = sender.send(work());
    });
    let thread = thread.map_err(|error| Failure::file("start", "a thread", error))?;
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => poll()?,
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Ok(()) => unreachable!("the thread sends before it ends"),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}

/// Reads and verifies the database at `path`, which need not be fit to open.
///
/// # Errors
/// [`Failure::Missing`] if there is none; [`Failure::CheckFailed`] after the report if there is
/// damage.
pub fn check_closed(path: &Path, options: Options, output: &mut Output) -> Result<()> {
    if !exists(path)? {
        return Err(Failure::no_database(path));
    }
    let mut progress = CheckBar::start();
    let options = options.lock_wait(output.settings().wait);
    let checked = options.clone().check(path, &mut |done| progress.show(done));
    let report = match checked {
        Err(error) if error.kind() == ErrorKind::Locked => {
            check_followed(path, (options, &error), output, &mut |done| progress.show(done))?
        }
        checked => checked?,
    };
    drop(progress);
    print_report(output, &report)
}

/// Verifies what a writer, which has the database at `path` open, has committed by now.
///
/// # Errors
/// Those of the database; damage is in the report.
fn check_followed(
    path: &Path,
    (options, locked): (Options, &Error),
    output: &Output,
    on_progress: &mut dyn FnMut(CheckProgress),
) -> Result<CheckReport> {
    match follow(options, path, locked, output.settings()) {
        Ok(follower) => Ok(follower.db().check(on_progress)?),
        Err(Failure::Database(error)) if error.kind() == ErrorKind::Corruption => {
            let mut report = CheckReport::default();
            report.errors.push(error);
            report.not_verified.extend(["log", "tables"]);
            Ok(report)
        }
        Err(failure) => Err(failure),
    }
}

/// Prints the format of the database at `path`, after an upgrade to the newest version.
///
/// # Errors
/// [`Failure::Missing`] if there is none; errors of the database.
pub fn upgrade(path: &Path, output: &mut Output) -> Result<()> {
    if !exists(path)? {
        return Err(Failure::no_database(path));
    }
    let format = siltdb::upgrade(path)?;
    let (version, features) = (format.version, format.features);
    let text = format!(
        "format version {version}, features {features:#x}: the newest that this build knows"
    );
    let object = json!({ "version": version, "features": features, "changed": false });
    output.result(&text, &object)
}

struct CheckBar {
    progress: Progress,
}

impl CheckBar {
    fn start() -> Self {
        Self { progress: Progress::bytes("checking", Some(0)) }
    }

    fn show(&mut self, done: CheckProgress) {
        self.progress.set_total(done.bytes_total);
        self.progress.set(done.bytes_done);
    }
}

/// Formats the keys that a loss concerns.
fn range_of(lost: &Lost) -> String {
    let key = |key: &Option<Vec<u8>>| key.as_deref().unwrap_or_default().escape_ascii().to_string();
    let first = key(&lost.first);
    let end = match lost.last.as_deref() {
        Some(last) if is_greatest(last) => String::new(),
        _ => format!("=\"{}\"", key(&lost.last)),
    };
    let family = lost.family.as_deref().unwrap_or("?");
    let thing = match lost.part {
        LostPart::Entries => "entry",
        LostPart::Values => "separated value",
    };
    match lost.entries_max {
        Some(0) => format!("range \"{first}\"..{end} of family {family}, no entries"),
        Some(most) => {
            let most = counted(most, thing);
            format!("range \"{first}\"..{end} of family {family}, at most {most}")
        }
        None => format!("range \"{first}\"..{end} of family {family}"),
    }
}

fn print_report(output: &mut Output, report: &CheckReport) -> Result<()> {
    let object = report_object(report, output.settings().form);
    let printed = output.result(&report_text(report), &object);
    // A program that does not read the report must still see the exit code for damage.
    if report.is_clean() { printed } else { Err(Failure::CheckFailed) }
}

/// Formats the keys that the damage of families concerns.
fn ranges_of(report: &CheckReport, part: LostPart) -> String {
    // A damage of the log or the manifest concerns no table.
    let of_families = report.damage.iter().filter(|lost| lost.family.is_some());
    let ranges: Vec<_> = of_families.filter(|lost| lost.part == part).map(range_of).collect();
    ranges.join("; ")
}

/// Formats what was verified of separated values.
fn values_text(report: &CheckReport) -> String {
    match (report.values, report.blob_files) {
        (_, 0) => String::new(),
        (values, files) => {
            format!(", {} in {}", counted(values, "separated value"), counted(files, "blob file"))
        }
    }
}

/// Formats what a check or a scrub has found.
pub fn report_text(report: &CheckReport) -> String {
    let CheckReport { tables, blocks, entries, log_records, errors, not_verified, .. } = report;
    let (verdict, sound) = if errors.is_empty() { ("ok", "") } else { ("damaged", " verified") };
    let mut text = format!(
        "{verdict}: {}, {}, {}, {}{}{sound}",
        counted(*tables, "table"),
        counted(*blocks, "block"),
        counted(*entries, "entry"),
        counted(*log_records, "log record"),
        values_text(report)
    );
    if report.prepared > 0 {
        let waiting = counted(report.prepared, "prepared transaction");
        text.push_str(&format!("; {waiting} without a decision"));
    }
    if !not_verified.is_empty() {
        text.push_str("; not verified: ");
        text.push_str(&not_verified.join(", "));
    }
    if report.tables_damaged > 0 {
        let all = tables + report.tables_damaged;
        // A damage of the log or the manifest concerns no table.
        let (damaged, ranges) = (report.tables_damaged, ranges_of(report, LostPart::Entries));
        text.push_str(&format!("\n{damaged} of {} damaged: {ranges}", counted(all, "table")));
    }
    if report.values_damaged > 0 {
        let (damaged, ranges) = (report.blob_files_damaged, ranges_of(report, LostPart::Values));
        let (files, lost) = (report.blob_files, report.values_damaged);
        let all = report.values + lost;
        text.push_str(&format!(
            "\n{damaged} of {} damaged, {lost} of {} lost: {ranges}",
            counted(files, "blob file"),
            counted(all, "separated value"),
        ));
    }
    for error in errors {
        text.push_str(&format!("\n{}", told(error)));
    }
    let LostFiles { files, bytes, .. } = report.lost_files;
    if files > 0 {
        let files = counted(files, "file");
        text.push_str(&format!(
            "\n{files} of {} in `lost`, not verified; `silt recover DB/lost NEW` reads them",
            counted(bytes, "byte"),
        ));
    }
    text
}

/// Returns what a check or a scrub has found as an object.
pub fn report_object(report: &CheckReport, form: Form) -> Value {
    let errors: Vec<String> = report.errors.iter().map(told).collect();
    json!({
        "ok": report.is_clean(),
        "tables": report.tables,
        "blocks": report.blocks,
        "entries": report.entries,
        "log_records": report.log_records,
        "prepared": report.prepared,
        "not_verified": report.not_verified,
        "tables_damaged": report.tables_damaged,
        "values": report.values,
        "values_damaged": report.values_damaged,
        "blob_files": report.blob_files,
        "blob_files_damaged": report.blob_files_damaged,
        "damage": report.damage.iter().map(|lost| lost_object(lost, form)).collect::<Vec<_>>(),
        "errors": errors,
        "lost_files": report.lost_files.files,
        "lost_bytes": report.lost_files.bytes,
    })
}
