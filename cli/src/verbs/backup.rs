//! The verbs on backups: create, list, verify, prune; and restore.
//!
//! Only create opens the database.

use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::interrupt;
use crate::opened::{On, closed, writing};
use crate::output::Output;
use crate::progress::Progress;
use crate::session::{Opening, Session, Start};
use crate::text::{counted, printable_name};
use crate::whole_number::{any_number, positive_number};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use siltdb::{
    CopyProgress, Error, ErrorKind, Options,
    backup::{BackupInfo, BackupListing, Backups, CopyOptions, VerifyReport},
};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// Text at the end of `silt backup --help`, and of the help of its verbs.
pub const HELP: &str = "\
A backup is numbered and copies only what the directory does not have yet. It holds what was \
committed before, of all families. A backup that fails or is killed leaves the earlier ones as \
they were; what it copied is used by the next one.

create also runs beside a process that has the database open, and on a database that may only be \
read. It then takes what was logged, writes nothing to the database, and says so on stderr.

One directory takes the backups of one database, and the newest one must be a past of what is \
backed up: another database is refused, and so is a copy that went on separately. --adopt goes on \
after backups of an earlier version, and after a restore of an earlier backup.

verify reads all files of the backups and ends with exit code 3 if one is damaged, or a list is \
missing. prune removes \
all but the newest backups, and the files that no other backup needs.

Example:
  silt backup create demo.db /mnt/backups/demo --rate 50000000
  silt backup list /mnt/backups/demo
  silt backup verify /mnt/backups/demo
  silt backup prune /mnt/backups/demo --keep 7
  silt restore /mnt/backups/demo restored.db --at 3";

/// Text at the end of `silt restore --help`.
pub const RESTORE_HELP: &str = "\
Makes a new database of a backup; nothing is overwritten. Until it is whole it is called \
NEWDIR.partial. Each file is compared with its checksum: a backup that is damaged or incomplete is \
refused with exit code 3, and then there is no NEWDIR.

Example:
  silt backup list /mnt/backups/demo
  silt restore /mnt/backups/demo restored.db
  silt restore /mnt/backups/demo before.db --at 3";

/// How fast files are copied.
#[derive(Args, Debug)]
pub struct RateArguments {
    /// Copy at most so many bytes a second [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = positive_number)]
    rate: Option<u64>,
}

impl RateArguments {
    /// The limit, if one was given.
    pub fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// The options of a copy with this limit.
    pub fn options(&self) -> CopyOptions {
        self.rate.map_or_else(CopyOptions::new, |rate| CopyOptions::new().rate(rate))
    }
}

/// The verbs on backups.
#[derive(Subcommand)]
pub enum BackupVerb {
    /// Add a backup of a database to a directory
    #[command(after_help = HELP)]
    Create(On<CreateArguments>),
    /// List the backups in a directory
    #[command(after_help = HELP)]
    List(ListArguments),
    /// Read the backups in a directory, or one of them, and verify every byte
    #[command(after_help = HELP)]
    Verify(VerifyArguments),
    /// Remove all but the newest backups in a directory
    #[command(after_help = HELP)]
    Prune(PruneArguments),
}

impl BackupVerb {
    /// Runs the verb; Ctrl-C ends it with a report.
    ///
    /// # Errors
    /// The failure of the verb.
    pub fn run(self, start: Start) -> Result<()> {
        let _watched = interrupt::watch()?;
        match self {
            Self::Create(on) => writing(&on, Opening::Copy, start, create),
            Self::List(arguments) => closed(start, |output| list(output, &arguments)),
            Self::Verify(arguments) => closed(start, |output| verify(output, &arguments)),
            Self::Prune(arguments) => closed(start, |output| prune(output, &arguments)),
        }
    }
}

/// Arguments of `backup create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The directory of the backups, which is made if it does not exist.
    dir: PathBuf,
    /// Go on after backups of an earlier version, or after a restore of an earlier backup
    #[arg(long)]
    adopt: bool,
    #[command(flatten)]
    rate: RateArguments,
}

/// Arguments of `backup list`.
#[derive(Args, Debug)]
pub struct ListArguments {
    /// The directory of the backups.
    dir: PathBuf,
}

/// Arguments of `backup verify`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// The directory of the backups.
    dir: PathBuf,
    /// Only the backup with this number [default: all]
    #[arg(long, value_name = "N", value_parser = any_number)]
    at: Option<u64>,
}

/// Arguments of `backup prune`.
#[derive(Args, Debug)]
pub struct PruneArguments {
    /// The directory of the backups.
    dir: PathBuf,
    /// How many of the newest backups stay
    #[arg(long, value_name = "N", value_parser = positive_number)]
    keep: u64,
}

/// Arguments of `restore`.
#[derive(Args, Debug)]
pub struct RestoreArguments {
    /// The directory of the backups.
    dir: PathBuf,
    /// The directory of the new database, which must not exist or be empty.
    newdir: PathBuf,
    /// The number of the backup [default: the newest]
    #[arg(long, value_name = "N", value_parser = any_number)]
    at: Option<u64>,
    #[command(flatten)]
    rate: RateArguments,
}

/// Shows how far a copy has come, and cancels it once Ctrl-C was pressed.
pub fn shown(progress: &Progress) -> impl FnMut(CopyProgress) -> ControlFlow<()> {
    move |done: CopyProgress| {
        progress.set_total(done.bytes_total);
        progress.set(done.bytes_done);
        match interrupt::check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// The failure of a copy that [`shown`] may have cancelled.
pub fn copy_failure(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Cancelled => Failure::Interrupted,
        _ => error.into(),
    }
}

/// Adds a backup of the open database.
///
/// # Errors
/// Those of the database; [`Failure::Interrupted`].
pub fn create(session: &mut Session, arguments: &CreateArguments) -> Result<()> {
    let progress = Progress::bytes("backing up", None);
    let options = arguments.rate.options().adopt(arguments.adopt);
    let made = session.backup(&arguments.dir, &options, &mut shown(&progress));
    drop(progress);
    let made = made.map_err(copy_failure)?;
    let text = format!(
        "backup {} in {}: {}, {}; copied {}, {}",
        made.number,
        arguments.dir.display(),
        counted(made.files, "file"),
        counted(made.bytes, "byte"),
        counted(made.copied_files, "file"),
        counted(made.copied_bytes, "byte")
    );
    let object = json!({
        "number": made.number,
        "sequence": made.sequence,
        "files": made.files,
        "bytes": made.bytes,
        "copied_files": made.copied_files,
        "copied_bytes": made.copied_bytes,
    });
    session.output.result(&text, &object)
}

/// Prints which backups there are.
///
/// # Errors
/// [`Failure::Damaged`] after the result if the list of one cannot be read; those of the library.
fn list(output: &mut Output, arguments: &ListArguments) -> Result<()> {
    let BackupListing { backups, errors, .. } = opened(output, &arguments.dir).list()?;
    for BackupInfo { number, sequence, created_ms, files, bytes, source, .. } in &backups {
        let text = format!(
            "{number}\t{}\tsequence {sequence}\t{}\t{}\t{}",
            utc(*created_ms),
            counted(*files, "file"),
            counted(*bytes, "byte"),
            printable_name(source),
        );
        let object = json!({
            "number": number,
            "sequence": sequence,
            "created_ms": created_ms,
            "files": files,
            "bytes": bytes,
            "source": source,
        });
        output.result(&text, &object)?;
    }
    match errors.first() {
        None => Ok(()),
        Some(error) => Err(Failure::Damaged(format!(
            "{} cannot be read: {}",
            counted(errors.len() as u64, "backup"),
            told(error)
        ))),
    }
}

/// Reads and verifies backups.
///
/// # Errors
/// [`Failure::Damaged`] after the report if there is damage; those of the library;
/// [`Failure::Interrupted`].
fn verify(output: &mut Output, arguments: &VerifyArguments) -> Result<()> {
    let progress = Progress::bytes("verifying", None);
    let backups = opened(output, &arguments.dir);
    let report = backups.verify(arguments.at, &mut shown(&progress)).map_err(copy_failure)?;
    drop(progress);
    let VerifyReport { damaged, errors, .. } = &report;
    let mut lines: Vec<String> = errors.iter().map(told).collect();
    if report.is_clean() {
        let (backups, files) = (counted(report.backups, "backup"), counted(report.files, "file"));
        lines.push(format!("ok: {backups}, {files}, {}", counted(report.bytes, "byte")));
    }
    let object = json!({
        "ok": report.is_clean(),
        "backups": report.backups,
        "files": report.files,
        "bytes": report.bytes,
        "damaged": damaged,
        "errors": errors.iter().map(error_object).collect::<Vec<_>>(),
    });
    output.result(&lines.join("\n"), &object)?;
    if report.is_clean() {
        return Ok(());
    }
    let numbers: Vec<String> = damaged.iter().map(ToString::to_string).collect();
    Err(Failure::Damaged(format!("damaged backups: {}", numbers.join(", "))))
}

fn error_object(error: &Error) -> Value {
    json!({ "file": error.file(), "offset": error.offset(), "error": told(error) })
}

/// Removes old backups.
///
/// # Errors
/// Those of the library.
fn prune(output: &mut Output, arguments: &PruneArguments) -> Result<()> {
    let pruned = opened(output, &arguments.dir).prune(arguments.keep)?;
    let text = format!(
        "removed {} and {}, {}",
        counted(pruned.backups.len() as u64, "backup"),
        counted(pruned.files, "file"),
        counted(pruned.bytes, "byte")
    );
    let object = json!({
        "removed": pruned.backups,
        "files": pruned.files,
        "bytes": pruned.bytes,
    });
    output.result(&text, &object)
}

/// Makes a new database of a backup.
///
/// # Errors
/// Those of the library; [`Failure::Interrupted`].
pub fn restore(output: &mut Output, options: Options, arguments: &RestoreArguments) -> Result<()> {
    let RestoreArguments { dir, newdir, at, rate } = arguments;
    let progress = Progress::bytes("restoring", None);
    let options = options.lock_wait(output.settings().wait);
    let backups = Backups::with_options(dir, options);
    let made = backups.restore_with(*at, newdir, &rate.options(), &mut shown(&progress));
    drop(progress);
    let made = made.map_err(copy_failure)?;
    let text = format!(
        "backup {} restored in {}: sequence {}, {}, {}",
        made.number,
        newdir.display(),
        made.sequence,
        counted(made.files, "file"),
        counted(made.bytes, "byte")
    );
    let object = json!({
        "number": made.number,
        "sequence": made.sequence,
        "files": made.files,
        "bytes": made.bytes,
    });
    output.result(&text, &object)
}

fn opened(output: &Output, dir: &Path) -> Backups {
    Backups::with_options(dir, Options::new().lock_wait(output.settings().wait))
}

const MS_PER_DAY: u64 = 86_400_000;

/// A time in ms since 1970 as people read it, to the second.
pub fn utc(ms: u64) -> String {
    let (mut days, seconds) = (ms / MS_PER_DAY, ms % MS_PER_DAY / 1000);
    // Years of a clock that is far off are not counted one by one.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    let is_leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{:02}T{hours:02}:{minutes:02}:{seconds:02}Z", days + 1)
}

#[cfg(test)]
mod tests;
