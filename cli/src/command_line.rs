//! The command line of `silt`: which verb, on which database.
//!
//! It runs verbs; it does not report failures.

use crate::argument::{OpeningArguments, Reach, SettingsArguments};
use crate::default_database;
use crate::failure::Result;
use crate::interrupt;
use crate::opened::{Nothing, On, closed, existing, flushed, open, reading, watched, writing};
use crate::output::{Output, Settings, Style};
use crate::session::{Opening, Start};
use crate::verbs::archive::ArchiveVerb;
use crate::verbs::backup::BackupVerb;
use crate::verbs::branch::BranchVerb;
use crate::verbs::bucket::BucketVerb;
use crate::verbs::families::FamiliesArguments;
use crate::verbs::{
    adopt, archive, backup, batch, branch, bucket, checkpoint, clone_family, completions, destroy,
    export, families, follow, import, ingest, inspect, man, point, prepared, recover, retain, scan,
    scrub, shell, single_delete, stats, step, table, take, tier, ttl, txn, upkeep, watch,
};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;

const LONG_ABOUT: &str = "\
Fill, query, check and look into a SiltDB database.

A database is a directory. Results go to stdout. Errors, warnings, messages and progress go to \
stderr; with --json each is an object.

Keys and values are bytes. Printable UTF-8 is printed unchanged, and any other byte as \\xNN. With \
--escape a backslash is printed as \\\\, so that the text can be read back. With --hex all bytes \
are hexadecimal digits. Both options also apply to the keys and values given.";

const AFTER_HELP: &str = "\
If a family has a merge operator, only a program with that operator can write to the database. \
Verbs that only read can use it, except for keys with operands, and so can check, inspect and \
recover.

SILT_DB names the database of verbs that are given none: with it, `silt get SFO` is enough. A DB \
on the command line comes first. destroy and adopt take theirs from the command line alone.

Exit codes:
    0  done
    1  not found, or any other failure
    2  bad command line or bad input data
    3  corruption: bytes on disk are not what was written; also if check finds such bytes, or
       recover or export --skip-damaged leaves them out
    4  locked: another process has the database open; verbs that only read follow it instead
    5  conflict: another transaction committed first; run it again
    6  a condition of txn or cas does not hold; nothing was written
  130  ended by Ctrl-C; import, export, compact, scrub and the shell in a terminal report what
       is done

Example:
  silt import demo.db examples/data/airports.csv
  silt scan demo.db --prefix SE --limit 3";

const VERB_EXIT_CODES: &str = "\
Exit codes: 0 done, 1 not found or failed, 2 bad command line or input, 3 corruption, 4 locked, \
5 conflict, 6 condition, 130 ended by Ctrl-C";

const COMMON_OPTIONS: &str = "\
`--help` also shows the options that all verbs have (--json, --escape, --hex, --wait, --option, …) \
and the exit codes.";

/// Fill, query, check and look into a SiltDB database
#[derive(Parser)]
#[command(name = "silt", version, max_term_width = 100, propagate_version = false)]
#[command(long_about = LONG_ABOUT, after_help = AFTER_HELP)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
pub struct CommandLine {
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    opening: OpeningArguments,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Work on a database line by line, with history and completion
    #[command(after_help = shell::HELP)]
    Shell(On<shell::Arguments>),
    /// Print the value of a key, or the entries of several
    #[command(after_help = point::GET_HELP)]
    Get(On<point::GetArguments>),
    /// Write a key and its value; creates the database
    #[command(after_help = point::PUT_HELP)]
    Put(On<point::PutArguments>),
    /// Delete a key, or the keys of a range
    #[command(after_help = point::DELETE_HELP)]
    Delete(On<point::DeleteArguments>),
    /// Delete a key that was put exactly once; on any other, an older value may appear
    #[command(after_help = single_delete::HELP)]
    SingleDelete(On<single_delete::Arguments>),
    /// Print the entries of a range: key, tab, value
    #[command(after_help = scan::SCAN_HELP)]
    Scan(On<scan::ScanArguments>),
    /// Print the number of entries of a range
    #[command(after_help = scan::COUNT_HELP)]
    Count(On<scan::CountArguments>),
    /// Apply the operations of a file, all or none; creates the database
    #[command(after_help = batch::HELP)]
    Batch(On<batch::Arguments>),
    /// Run a script of operations and conditions in a transaction, all or none
    #[command(after_help = txn::HELP)]
    Txn(On<txn::Arguments>),
    /// List prepared transactions, and commit one or roll it back
    #[command(after_help = prepared::HELP)]
    Prepared(prepared::Arguments),
    /// Fill a database from csv, tsv, jsonl, json or lines; creates the database
    #[command(after_help = import::HELP)]
    Import(On<import::Arguments>),
    /// Write entries as csv, tsv, jsonl, json or lines
    #[command(after_help = export::HELP)]
    Export(On<export::Arguments>),
    /// Write records to a table file, outside of any database
    #[command(after_help = table::HELP)]
    Table(table::Arguments),
    /// Add table files to a family, all or none; creates the database
    #[command(after_help = ingest::HELP)]
    Ingest(On<ingest::Arguments>),
    /// List, create, drop or rename families, or change their options
    #[command(after_help = families::HELP)]
    Families(FamiliesArguments),
    /// Create, list, check out, drop, rename, compare or merge branches
    #[command(subcommand, after_help = branch::HELP)]
    Branch(BranchVerb),
    /// Make a family of what another holds, sharing its tables
    #[command(after_help = clone_family::HELP)]
    Clone(On<clone_family::Arguments>),
    /// Print or change the sequence number from which on `--at SEQ` can read
    #[command(after_help = retain::HELP)]
    Retain(On<retain::Arguments>),
    /// Create, list, move or delete buckets: nested maps in a family
    #[command(subcommand, after_help = bucket::HELP)]
    Bucket(BucketVerb),
    /// Replace the value of a key if it equals the expected one; creates the database
    #[command(after_help = step::CAS_HELP)]
    Cas(On<step::CasArguments>),
    /// Add to a counter and print its new value; creates the database
    #[command(after_help = step::INCR_HELP)]
    Incr(On<step::IncrArguments>),
    /// Delete a key and print the value that it had
    #[command(after_help = take::TAKE_HELP)]
    Take(On<take::TakeArguments>),
    /// Delete the first or the last key of a family and print it with its value
    #[command(after_help = take::POP_HELP)]
    Pop(On<take::PopArguments>),
    /// Print the next id of a key: 1, 2, 3, …; creates the database
    #[command(after_help = take::NEXT_ID_HELP)]
    NextId(On<take::NextIdArguments>),
    /// Print when the value of a key expires, or change that
    #[command(after_help = ttl::HELP)]
    Ttl(On<ttl::Arguments>),
    /// Print counts and sizes of the database: levels, cache, stalls
    #[command(after_help = stats::HELP)]
    Stats(On<stats::Arguments>),
    /// Read and verify everything
    #[command(after_help = upkeep::CHECK_HELP)]
    Check(On<Nothing>),
    /// Read and verify everything at a limited rate, beside other readers
    #[command(after_help = scrub::HELP)]
    Scrub(On<scrub::Arguments>),
    /// Write what verifies of a damaged database into a new one
    #[command(after_help = recover::HELP)]
    Recover(recover::Arguments),
    /// Make numbered backups of a database, list, verify or prune them
    #[command(subcommand, after_help = backup::HELP)]
    Backup(BackupVerb),
    /// Make a new database of a backup
    #[command(after_help = backup::RESTORE_HELP)]
    Restore(backup::RestoreArguments),
    /// Export a database to one portable file, read such files, and import them
    #[command(subcommand, after_help = archive::HELP)]
    Archive(ArchiveVerb),
    /// Make a second database with the same contents, by hard links
    #[command(after_help = checkpoint::HELP)]
    Checkpoint(On<checkpoint::Arguments>),
    /// Move the tables of a family to the cold tier
    #[command(after_help = tier::FREEZE_HELP)]
    Freeze(On<tier::Arguments>),
    /// Move the tables of a family back to the directory of the database
    #[command(after_help = tier::THAW_HELP)]
    Thaw(On<tier::Arguments>),
    /// Print the commits that the log still has, in order
    #[command(after_help = watch::HELP)]
    Watch(On<watch::Arguments>),
    /// Print the commits that another process writes, as they come
    #[command(after_help = follow::HELP)]
    Follow(On<follow::Arguments>),
    /// Merge tables, so that deleted and overwritten data takes no space
    #[command(after_help = upkeep::COMPACT_HELP)]
    Compact(On<upkeep::CompactArguments>),
    /// Write the data in memory to tables
    #[command(after_help = upkeep::FLUSH_HELP)]
    Flush(On<upkeep::FlushArguments>),
    /// Give a copied or moved database its cold tables
    #[command(after_help = adopt::HELP)]
    Adopt(adopt::Arguments),
    /// Remove a database for good
    #[command(after_help = destroy::HELP)]
    Destroy(destroy::Arguments),
    /// Print the contents of a log, a manifest or a table
    #[command(after_help = inspect::HELP)]
    Inspect(inspect::Arguments),
    /// Print the format version of a database, and upgrade it to the newest
    #[command(after_help = upkeep::UPGRADE_HELP)]
    Upgrade(On<Nothing>),
    /// Print a completion script for a shell
    #[command(after_help = completions::HELP)]
    Completions(completions::Arguments),
    /// Print the manual page, or write one for each verb
    #[command(after_help = man::HELP)]
    Man(man::Arguments),
}

/// Adds the exit codes to the long help of a verb and of its subverbs, and to the short one where
/// they are.
fn with_exit_codes(verb: clap::Command) -> clap::Command {
    let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
    verb.after_help(format!("{COMMON_OPTIONS}\n\n{help}"))
        .after_long_help(format!("{VERB_EXIT_CODES}\n\n{help}"))
        .mut_subcommands(with_exit_codes)
}

impl CommandLine {
    /// Parses the command line of the process.
    ///
    /// # Errors
    /// Errors of clap, which include requests for help and version.
    pub fn read() -> std::result::Result<Self, clap::Error> {
        let parse = |words: &[OsString]| Self::full_command().try_get_matches_from(words);
        let words: Vec<_> = std::env::args_os().collect();
        let db = std::env::var_os(default_database::VARIABLE).filter(|db| !db.is_empty());
        let completed = db.and_then(|db| default_database::with(Self::command(), &words, &db));
        let matches = match completed {
            None => parse(&words),
            Some(completed) => default_database::choose(parse(&words), || parse(&completed)),
        };
        Self::from_arg_matches(&matches?)
    }

    /// Returns the command with the exit codes in the help of each verb.
    pub fn full_command() -> clap::Command {
        Self::command().mut_subcommands(with_exit_codes)
    }

    /// Returns the style of output, also for the report of a failure.
    pub fn style(&self) -> Style {
        self.settings.settings(Settings::default()).style
    }

    /// Runs the verb.
    ///
    /// # Errors
    /// The failure of the verb.
    pub fn run(self) -> Result<()> {
        let (verb, reach) = self.verb.reach();
        self.opening.check_for(verb, reach)?;
        let settings = self.settings.settings(self.opening.settings(Settings::default()));
        let start = Start { output: Output::new(settings), options: self.opening.options()? };
        match self.verb {
            Verb::Shell(on) => {
                let shell = |session: &mut _| shell::run(session, &on.arguments);
                open(&on.db, on.arguments.opening(), start, shell)
            }
            Verb::Get(on) => reading(&on, start, point::get),
            Verb::Put(on) => {
                let entry = on.arguments.entry(settings.form)?;
                let put = |session: &mut _| point::put(session, &on.arguments, entry);
                open(&on.db, on.arguments.opening(), start, put)
            }
            Verb::Delete(on) => existing(&on, start, point::delete),
            Verb::SingleDelete(on) => existing(&on, start, single_delete::run),
            Verb::Scan(on) => reading(&on, start, scan::scan),
            Verb::Count(on) => reading(&on, start, scan::count),
            Verb::Batch(on) => {
                let operations = on.arguments.operations(settings)?;
                let batch = |session: &mut _| batch::run(session, &on.arguments, operations);
                open(&on.db, on.arguments.opening(), start, batch)
            }
            Verb::Txn(on) => run_txn(&on, start),
            Verb::Prepared(arguments) => run_prepared(arguments, start),
            Verb::Import(on) => run_import(&on, start),
            Verb::Export(on) => watched(|| reading(&on, start, export::run)),
            Verb::Table(arguments) => run_table(&arguments, start),
            Verb::Ingest(on) => run_ingest(&on, start),
            Verb::Families(arguments) => arguments.run(start),
            Verb::Branch(verb) => verb.run(start),
            Verb::Clone(on) => existing(&on, start, clone_family::run),
            Verb::Retain(on) => writing(&on, on.arguments.opening(), start, retain::run),
            Verb::Bucket(verb) => verb.run(start),
            Verb::Cas(on) => writing(&on, on.arguments.opening(), start, step::cas),
            Verb::Incr(on) => writing(&on, on.arguments.opening(), start, step::incr),
            Verb::Take(on) => existing(&on, start, take::take),
            Verb::Pop(on) => existing(&on, start, take::pop),
            Verb::NextId(on) => writing(&on, on.arguments.opening(), start, take::next_id),
            Verb::Ttl(on) => writing(&on, on.arguments.opening(), start, ttl::run),
            Verb::Stats(on) => reading(&on, start, stats::run),
            Verb::Check(on) => run_check(&on.db, start),
            Verb::Recover(arguments) => run_recover(&arguments, start),
            Verb::Destroy(arguments) => run_destroy(&arguments, start),
            Verb::Adopt(arguments) => run_adopt(&arguments, start),
            Verb::Backup(verb) => verb.run(start),
            Verb::Restore(arguments) => run_restore(&arguments, start),
            Verb::Archive(verb) => verb.run(start),
            Verb::Checkpoint(on) => run_checkpoint(&on, start),
            Verb::Freeze(on) => watched(|| existing(&on, start, tier::freeze)),
            Verb::Thaw(on) => watched(|| existing(&on, start, tier::thaw)),
            Verb::Watch(on) => reading(&on, start, watch::run),
            Verb::Follow(on) => follow::run(start, &on.db, &on.arguments),
            Verb::Scrub(on) => watched(|| reading(&on, start, scrub::run)),
            Verb::Compact(on) => watched(|| existing(&on, start, upkeep::compact)),
            Verb::Flush(on) => existing(&on, start, upkeep::flush),
            Verb::Inspect(arguments) => closed(start, |output| inspect::run(output, &arguments)),
            Verb::Upgrade(on) => closed(start, |output| upkeep::upgrade(&on.db, output)),
            Verb::Completions(arguments) => {
                closed(start, |output| completions::run(output, &arguments, Self::full_command()))
            }
            Verb::Man(arguments) => {
                closed(start, |output| man::run(output, &arguments, Self::full_command()))
            }
        }
    }
}

impl Verb {
    /// Returns how much of the database the verb uses, and the verb's name unless it opens the
    /// database.
    fn reach(&self) -> (&'static str, Reach) {
        match self {
            Self::Check(_) => ("check", Reach::Lock),
            Self::Recover(_) => ("recover", Reach::Lock),
            Self::Restore(_) => ("restore", Reach::Lock),
            Self::Backup(verb) if !matches!(verb, BackupVerb::Create(_)) => ("backup", Reach::Lock),
            Self::Archive(ArchiveVerb::Create(_) | ArchiveVerb::Import(_)) => ("", Reach::Open),
            Self::Archive(_) => ("archive", Reach::Lock),
            Self::Inspect(_) => ("inspect", Reach::Files),
            Self::Follow(_) => ("follow", Reach::Files),
            Self::Table(_) => ("table", Reach::Files),
            Self::Completions(_) => ("completions", Reach::Files),
            Self::Man(_) => ("man", Reach::Files),
            _ => ("", Reach::Open),
        }
    }
}

fn run_txn(on: &On<txn::Arguments>, start: Start) -> Result<()> {
    let script = on.arguments.script(start.output.settings())?;
    existing(on, start, |session, arguments| txn::run(session, arguments, script))
}

fn run_import(on: &On<import::Arguments>, start: Start) -> Result<()> {
    let _watched = interrupt::watch()?;
    let job = on.arguments.job(&on.db, start.output.settings())?;
    open(&on.db, Opening::Create, start, |session| import::run(session, job))
}

fn run_table(arguments: &table::Arguments, mut start: Start) -> Result<()> {
    let _watched = interrupt::watch()?;
    let outcome = table::run(&mut start.output, arguments);
    flushed(outcome, &mut start.output)
}

fn run_ingest(on: &On<ingest::Arguments>, start: Start) -> Result<()> {
    let _watched = interrupt::watch()?;
    on.arguments.check()?;
    writing(on, Opening::Create, start, ingest::run)
}

fn run_prepared(arguments: prepared::Arguments, start: Start) -> Result<()> {
    let (db, opening, verb) = arguments.parts();
    open(&db, opening, start, |session| prepared::run(session, &verb))
}

fn run_checkpoint(on: &On<checkpoint::Arguments>, start: Start) -> Result<()> {
    let _watched = interrupt::watch()?;
    writing(on, Opening::Copy, start, checkpoint::run)
}

fn run_check(db: &Path, start: Start) -> Result<()> {
    let options = start.options.clone();
    closed(start, |output| upkeep::check_closed(db, options, output))
}

fn run_recover(arguments: &recover::Arguments, start: Start) -> Result<()> {
    let options = start.options.clone();
    closed(start, |output| recover::run(output, options, arguments))
}

fn run_restore(arguments: &backup::RestoreArguments, start: Start) -> Result<()> {
    let _watched = interrupt::watch()?;
    let options = start.options.clone();
    closed(start, |output| backup::restore(output, options, arguments))
}

fn run_destroy(arguments: &destroy::Arguments, mut start: Start) -> Result<()> {
    let outcome = destroy::run(&mut start.output, start.options, arguments);
    flushed(outcome, &mut start.output)
}

fn run_adopt(arguments: &adopt::Arguments, mut start: Start) -> Result<()> {
    let _watched = interrupt::watch()?;
    let outcome = adopt::run(&mut start.output, start.options, arguments);
    flushed(outcome, &mut start.output)
}

#[cfg(test)]
mod tests;
