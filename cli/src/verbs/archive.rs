//! The verbs on archives: create, list, show, verify, scan, import, drop, gc.
//!
//! Only create and import open a database.

use crate::argument::BoundsArguments;
use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::interrupt;
use crate::key_form::KeyForm;
use crate::opened::{On, closed, reading, writing};
use crate::output::Output;
use crate::progress::Progress;
use crate::raw_keys::RawKeysArguments;
use crate::session::{DEFAULT_FAMILY, Opening, Session, Start};
use crate::text::{counted, printable_name};
use crate::value::PrintedValue;
use crate::verbs::backup::{RateArguments, copy_failure, shown, utc};
use crate::whole_number::any_number;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use siltdb::{
    Error, Options,
    archive::{
        self, Archive, ArchiveFamilyInfo, ArchiveInfo, ArchiveOptions, CleanOptions, CleanupReport,
        ImportOptions, ImportedFamily,
    },
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

#[cfg(test)]
mod tests;

/// Text at the end of `silt archive --help`, and of the help of its verbs.
pub const HELP: &str = "\
An archive is one file with the families of a database as a snapshot saw them: portable, sorted, \
checksummed. show, verify and scan read it without a database. It has keys, values, expiries and \
the options of families, but no history.

import makes families of it, all or none, and creates the database. A family that exists is \
refused, unless --replace is given; default must be empty. --family USERS=PEOPLE imports one \
family under another name.

drop removes archives, gc what killed exports left and, with --keep or --older-than, old archives \
of the directory. With both, a file goes only if both say so. What is no archive stays.

Example:
  silt archive create demo.db monday.siltar
  silt archive show monday.siltar
  silt archive scan monday.siltar --prefix SE --limit 10
  silt archive import other.db monday.siltar --family default=airports
  silt archive gc /mnt/archives --keep 12 --older-than 365d";

/// The verbs on archives.
#[derive(Subcommand)]
pub enum ArchiveVerb {
    /// Export a database, or some of its families, to a new archive
    #[command(after_help = HELP)]
    Create(On<CreateArguments>),
    /// List the archives in a directory
    #[command(after_help = HELP)]
    List(ListArguments),
    /// Print what an archive holds: families, entries, bytes
    #[command(after_help = HELP)]
    Show(ShowArguments),
    /// Read archives, and verify every byte
    #[command(after_help = HELP)]
    Verify(FilesArguments),
    /// Print the entries of a family of an archive: key, tab, value
    #[command(after_help = HELP)]
    Scan(ArchiveScan),
    /// Make families of those of an archive, all or none; creates the database
    #[command(after_help = HELP)]
    Import(On<ArchiveImportArguments>),
    /// Remove archives
    #[command(after_help = HELP)]
    Drop(FilesArguments),
    /// Remove what killed exports left in a directory, and old archives
    #[command(after_help = HELP)]
    Gc(GcArguments),
}

impl ArchiveVerb {
    /// Runs the verb; Ctrl-C ends it with a report.
    ///
    /// # Errors
    /// The failure of the verb.
    pub fn run(self, start: Start) -> Result<()> {
        let _watched = interrupt::watch()?;
        match self {
            Self::Create(on) => reading(&on, start, create),
            Self::List(arguments) => closed(start, |output| list(output, &arguments)),
            Self::Show(arguments) => closed(start, |output| show(output, &arguments.file)),
            Self::Verify(arguments) => closed(start, |output| verify(output, &arguments.files)),
            Self::Scan(arguments) => closed(start, |output| scan(output, &arguments)),
            Self::Import(on) => {
                // Before a database is created for it.
                Archive::open(&on.arguments.file)?;
                writing(&on, Opening::Create, start, import)
            }
            Self::Drop(arguments) => {
                closed(start, |output| drop_archives(output, &arguments.files))
            }
            Self::Gc(arguments) => closed(start, |output| gc(output, &arguments)),
        }
    }
}

/// Arguments of `archive create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The new file; its name ends in .siltar.
    file: PathBuf,
    /// Only this family; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    /// The branch to export [default: the one that is checked out]
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    #[command(flatten)]
    rate: RateArguments,
}

/// Arguments of `archive list`.
#[derive(Args, Debug)]
pub struct ListArguments {
    /// The directory of the archives.
    dir: PathBuf,
}

/// Arguments of `archive show`.
#[derive(Args, Debug)]
pub struct ShowArguments {
    /// The archive.
    file: PathBuf,
}

/// Arguments of `archive verify` and `archive drop`.
#[derive(Args, Debug)]
pub struct FilesArguments {
    /// The archives.
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Arguments of `archive scan`.
#[derive(Args, Debug)]
pub struct ArchiveScan {
    /// The archive.
    file: PathBuf,
    #[command(flatten)]
    bounds: BoundsArguments,
    /// Stop after this many entries [default: all]
    #[arg(long, value_name = "N", value_parser = any_number)]
    limit: Option<u64>,
    /// Print only keys.
    #[arg(long)]
    keys_only: bool,
    /// The family to read [default: default]
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
}

/// Arguments of `archive import`.
#[derive(Args, Debug)]
pub struct ArchiveImportArguments {
    /// The archive.
    file: PathBuf,
    /// Only this family, or this one under another name; may be given several times [default: all]
    #[arg(long, value_name = "NAME[=NEW]", value_parser = parse_family)]
    family: Vec<(String, String)>,
    /// Drop families that exist, and put the imported ones in their place.
    #[arg(long)]
    replace: bool,
    /// Import families without the merge operators that folded their values.
    #[arg(long)]
    without_operators: bool,
}

/// Arguments of `archive gc`.
#[derive(Args, Debug)]
pub struct GcArguments {
    /// The directory of the archives.
    dir: PathBuf,
    /// How many of the newest archives stay
    #[arg(long, value_name = "N", value_parser = any_number)]
    keep: Option<u64>,
    /// Remove archives that are at least this old: `90m`, `12h` or `30d`
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    older_than: Option<Duration>,
    /// Only print what would be removed.
    #[arg(long)]
    dry_run: bool,
}

/// Splits `NAME=NEW`; a name alone stays as it is.
///
/// # Errors
/// A message, if a part is empty.
fn parse_family(text: &str) -> std::result::Result<(String, String), String> {
    let (from, name) = text.split_once('=').unwrap_or((text, text));
    if from.is_empty() || name.is_empty() {
        return Err("expected NAME or NAME=NEW".to_owned());
    }
    Ok((from.to_owned(), name.to_owned()))
}

/// Units of age, and the seconds of each.
const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];

/// Parses an age: a number and a unit.
///
/// # Errors
/// A message that says what was expected.
fn parse_age(text: &str) -> std::result::Result<Duration, String> {
    let parts = UNITS.iter().find_map(|&(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let seconds = |(digits, seconds): (&str, u64)| digits.parse::<u64>().ok()?.checked_mul(seconds);
    let seconds = parts.and_then(seconds).ok_or("an age is a number and s, m, h or d: 30d")?;
    Ok(Duration::from_secs(seconds))
}

/// Exports the open database.
///
/// # Errors
/// Those of the database; [`Failure::Interrupted`].
pub fn create(session: &mut Session, arguments: &CreateArguments) -> Result<()> {
    let branch = arguments.branch.as_deref().unwrap_or(session.branch_in_use());
    let mut options = ArchiveOptions::new().branch(branch);
    if !arguments.family.is_empty() {
        options = options.families(&arguments.family);
    }
    if let Some(rate) = arguments.rate.rate() {
        options = options.rate(rate);
    }
    let progress = Progress::bytes("archiving", None);
    let made = session.db().archive_with(&arguments.file, &options, &mut shown(&progress));
    drop(progress);
    let made = made.map_err(copy_failure)?;
    let text = format!(
        "archived {} in {}: {}, {}, sequence {}",
        counted(made.entries(), "entry"),
        arguments.file.display(),
        counted(made.families.len() as u64, "family"),
        counted(made.bytes, "byte"),
        made.sequence,
    );
    session.output.result(&text, &info_object(&made))
}

/// Makes families of those of an archive in the open database.
///
/// # Errors
/// Those of the database; [`Failure::Interrupted`].
fn import(session: &mut Session, arguments: &ArchiveImportArguments) -> Result<()> {
    let mut options = ImportOptions::new()
        .replace(arguments.replace)
        .merge_operators(!arguments.without_operators);
    for (from, name) in &arguments.family {
        options = options.family(from, name);
    }
    let progress = Progress::bytes("importing", None);
    let made = session.db().import_archive_with(&arguments.file, &options, &mut shown(&progress));
    drop(progress);
    let made = made.map_err(copy_failure)?;
    let line = |family: &ImportedFamily| match family.from == family.name {
        true => format!("{}\t{}", family.name, counted(family.entries, "entry")),
        false => {
            let ImportedFamily { from, name, entries, .. } = family;
            format!("{name}\t{}\tfrom {from}", counted(*entries, "entry"))
        }
    };
    let families = counted(made.families.len() as u64, "family");
    let mut lines = vec![format!("imported {}: {families}", counted(made.entries(), "entry"))];
    lines.extend(made.families.iter().map(line));
    let families = made.families.iter().map(
        |family| json!({ "from": family.from, "name": family.name, "entries": family.entries }),
    );
    let object = json!({ "entries": made.entries(), "families": families.collect::<Vec<_>>() });
    session.output.result(&lines.join("\n"), &object)
}

/// Prints which archives a directory has.
///
/// # Errors
/// [`Failure::Damaged`] after the result if one cannot be read; those of the library.
fn list(output: &mut Output, arguments: &ListArguments) -> Result<()> {
    let listing = archive::list(&arguments.dir, &opening(output))?;
    for info in &listing.archives {
        output.result(&info_line(info), &info_object(info))?;
    }
    unread(&listing.errors)
}

/// A failure, if archives could not be read.
fn unread(errors: &[Error]) -> Result<()> {
    match errors.first() {
        None => Ok(()),
        Some(error) => Err(Failure::Damaged(format!(
            "{} cannot be read: {}",
            counted(errors.len() as u64, "file"),
            told(error)
        ))),
    }
}

/// Prints the families of an archive.
fn show(output: &mut Output, file: &Path) -> Result<()> {
    let info = Archive::open(file)?.info();
    let mut lines = vec![info_line(&info)];
    lines.extend(info.families.iter().map(family_line));
    output.result(&lines.join("\n"), &info_object(&info))
}

fn info_line(info: &ArchiveInfo) -> String {
    format!(
        "{}\t{}\tsequence {}\t{}\t{}\t{}\t{}",
        info.path.display(),
        utc(info.created_ms),
        info.sequence,
        counted(info.families.len() as u64, "family"),
        counted(info.entries(), "entry"),
        counted(info.bytes, "byte"),
        printable_name(&info.source),
    )
}

fn family_line(family: &ArchiveFamilyInfo) -> String {
    let ArchiveFamilyInfo { name, entries, bytes, .. } = family;
    let mut line = format!(
        "{}\t{}\t{} of keys and values",
        printable_name(name),
        counted(*entries, "entry"),
        counted(*bytes, "byte")
    );
    if let Some(expiry_ms) = family.expiry_min_ms {
        line.push_str(&format!("\texpires from {}", utc(expiry_ms)));
    }
    if let Some(operator) = &family.merge_operator {
        line.push_str(&format!("\tmerge operator {operator}"));
    }
    line
}

fn info_object(info: &ArchiveInfo) -> Value {
    let family = |family: &ArchiveFamilyInfo| {
        json!({
            "name": family.name,
            "entries": family.entries,
            "bytes": family.bytes,
            "expiry_min_ms": family.expiry_min_ms,
            "merge_operator": family.merge_operator,
        })
    };
    json!({
        "file": info.path.display().to_string(),
        "id": format!("{:016x}", info.id),
        "sequence": info.sequence,
        "created_ms": info.created_ms,
        "source": info.source,
        "bytes": info.bytes,
        "entries": info.entries(),
        "families": info.families.iter().map(family).collect::<Vec<_>>(),
    })
}

/// Reads and verifies archives.
///
/// # Errors
/// [`Failure::Damaged`] after the report if there is damage; those of the library;
/// [`Failure::Interrupted`].
fn verify(output: &mut Output, files: &[PathBuf]) -> Result<()> {
    let mut damaged = Vec::new();
    for file in files {
        let progress = Progress::bytes("verifying", None);
        let verified = Archive::open(file)
            .and_then(|archive| archive.verify(&mut shown(&progress)).map(|()| archive.info()));
        drop(progress);
        let name = file.display().to_string();
        match verified {
            Ok(info) => {
                let entries = counted(info.entries(), "entry");
                let text = format!("ok: {name}, {entries}, {}", counted(info.bytes, "byte"));
                let object = json!({ "file": name, "ok": true, "bytes": info.bytes });
                output.result(&text, &object)?;
            }
            Err(error) if error.kind() == siltdb::ErrorKind::Corruption => {
                let object = json!({
                    "file": name,
                    "ok": false,
                    "offset": error.offset(),
                    "error": told(&error),
                });
                output.result(&told(&error), &object)?;
                damaged.push(name);
            }
            Err(error) => return Err(copy_failure(error)),
        }
    }
    match damaged.is_empty() {
        true => Ok(()),
        false => Err(Failure::Damaged(format!("damaged archives: {}", damaged.join(", ")))),
    }
}

/// Prints the entries of a range.
///
/// # Errors
/// Those of the library and of stdout; [`Failure::Interrupted`].
fn scan(output: &mut Output, arguments: &ArchiveScan) -> Result<()> {
    let archive = Archive::open(&arguments.file)?;
    let family = archive.family(arguments.family.as_deref().unwrap_or(DEFAULT_FAMILY))?;
    let keys = KeyForm::new(output.settings().form, family.key_order());
    let Some(range) = keys.range(&arguments.bounds)? else { return Ok(()) };
    let contains = |key: &[u8]| Ok(family.get(key)?.is_some());
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    for range in arguments.raw_keys.parts_by(&keys, range, contains)? {
        let mut entries = family.range(range)?;
        while left > 0
            && let Some(entry) = entries.next()
        {
            interrupt::check()?;
            let (key, value) = entry?;
            match arguments.keys_only {
                true => output.key(&keys.shown(&key)?)?,
                false => output.entry(&keys.shown(&key)?, &PrintedValue::Whole(&value))?,
            }
            left -= 1;
        }
    }
    Ok(())
}

/// Removes archives, one after the other.
///
/// # Errors
/// Those of the library; archives before the one that fails are gone.
fn drop_archives(output: &mut Output, files: &[PathBuf]) -> Result<()> {
    for file in files {
        let bytes = archive::remove(file, &opening(output))?;
        let text = format!("removed {}: {}", file.display(), counted(bytes, "byte"));
        output.result(&text, &json!({ "file": file.display().to_string(), "bytes": bytes }))?;
    }
    Ok(())
}

/// Removes what is left of killed exports, and old archives.
///
/// # Errors
/// [`Failure::Damaged`] after the result if a file cannot be read; those of the library.
fn gc(output: &mut Output, arguments: &GcArguments) -> Result<()> {
    let mut options = CleanOptions::new().dry_run(arguments.dry_run);
    if let Some(keep) = arguments.keep {
        options = options.keep(keep);
    }
    if let Some(age) = arguments.older_than {
        options = options.older_than(age);
    }
    let report = archive::clean(&arguments.dir, &options, &opening(output))?;
    let CleanupReport { archives, unfinished, bytes, errors, .. } = &report;
    let names = |paths: &[PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.display().to_string()).collect()
    };
    let verb = if arguments.dry_run { "would remove" } else { "removed" };
    let mut lines = names(archives);
    lines.extend(names(unfinished));
    lines.push(format!(
        "{verb} {} and {}, {}",
        counted(archives.len() as u64, "archive"),
        counted(unfinished.len() as u64, "unfinished file"),
        counted(*bytes, "byte")
    ));
    let object = json!({
        "archives": names(archives),
        "unfinished": names(unfinished),
        "bytes": bytes,
        "dry_run": arguments.dry_run,
    });
    output.result(&lines.join("\n"), &object)?;
    unread(errors)
}

fn opening(output: &Output) -> Options {
    Options::new().lock_wait(output.settings().wait)
}
