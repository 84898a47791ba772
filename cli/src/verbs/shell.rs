//! The verb shell: runs the other verbs on one open database, command by command.
//!
//! Commands from a terminal have history and completion, and a failure of one does not end the
//! shell. Commands from arguments, a file or a pipe end the shell at the first failure. It does not
//! open the database.

mod completion;

use super::{archive, ingest, single_delete, ttl};
use super::{backup, batch, branch, bucket, checkpoint, clone_family, export, families, import};
use super::{
    point, prepared, retain, scan, scrub, stats, step, take, tier, transactions, txn, upkeep, watch,
};
use crate::argument::SettingsArguments;
use crate::failure::{Failure, Result};
use crate::formats::input::{BYTE_ORDER_MARK, read_line};
use crate::interrupt;
use crate::output::{message, report};
use crate::session::{MAIN, Opening, Session};
use crate::text::{printable, printable_name, shortened};
use crate::words::{Command, Script, Splitter};
use clap::{Args, CommandFactory, Parser, Subcommand};
use completion::Completion;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

#[cfg(test)]
mod tests;

/// Longest command of a script, in bytes; longer values can come from files.
const COMMAND_BYTES_MAX: u64 = 16 << 20;

/// Default limit of `scan` in a terminal, in entries.
const ENTRIES_SHOWN: u64 = 100;

/// Text at the end of its `--help`.
pub const HELP: &str = "\
Verbs are those of the command line without the database, in lower or upper case. `use NAME` \
selects another family. A command ends at the line end; a line that begins with # is a remark. \
`help` lists the verbs; `quit` or Ctrl-D ends the shell.

`begin [NAME] [LEVEL]` opens a transaction: get, put, delete, scan, count, cas, incr, bucket, \
batch, txn and export then read and write in it until `commit` or `rollback`. `lock KEY` or `lock \
--prefix P` makes others that write such keys wait until then. `savepoint S`, \
`rollback to S` and `release S` handle its savepoints. Several transactions may be open: \
`transactions` lists them, and the prompt names the current one. `switch NAME` makes another one \
current, `switch` none. `NAME: VERB …` runs one verb in the transaction NAME. The end of the shell \
rolls back open transactions.

White space separates words. A word that begins with a single or double quotation mark ends at the \
next one, and may hold anything, also line ends. Inside double marks \\\" is a quotation mark and \
\\\\ a backslash. Any other character stands for itself: {\"a\":1} needs no quotes.

If another process has the database open, the shell reads beside it: each command sees what was \
committed before it, and commands that write are refused with exit code 4.

In a terminal, pasted lines run one after another, and a failure does not end the shell. Ctrl-C \
ends the running command. Tab completes verbs, options, families and keys. A scan prints 100 \
entries. Commands from -c, a file or a pipe have at most 16 MiB each, and the first failure ends \
the shell. If the reader of the output goes away, the shell ends with exit code 1.

Example:
  silt shell demo.db
  silt shell demo.db -c 'count --prefix S'
  silt shell demo.db < commands";

/// Arguments of `shell`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Run this command instead of those of stdin; may be given several times.
    #[arg(short, long, value_name = "COMMAND")]
    command: Vec<String>,
    /// Create the database if it is missing.
    #[arg(long)]
    create: bool,
}

impl Arguments {
    /// Decides whether the verb creates a missing database.
    pub fn opening(&self) -> Opening {
        if self.create { Opening::Create } else { Opening::WriteIfAllowed }
    }
}

/// A command of the shell.
#[derive(Parser)]
#[command(name = "", no_binary_name = true, about = "Verbs:")]
#[command(override_usage = "VERB …", subcommand_help_heading = "Verbs")]
struct Line {
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs of the shell.
#[derive(Subcommand)]
enum Verb {
    /// Print the value of a key, or the entries of several
    Get(point::GetArguments),
    /// Write a key and its value
    Put(point::PutArguments),
    /// Delete a key, or the keys of a range
    Delete(point::DeleteArguments),
    /// Delete a key that was put exactly once; on any other, an older value may appear
    SingleDelete(single_delete::Arguments),
    /// Print the entries of a range
    Scan(scan::ScanArguments),
    /// Print the number of entries of a range
    Count(scan::CountArguments),
    /// Apply the operations of a file, all or none
    Batch(batch::Arguments),
    /// Run a script of operations and conditions, all or none
    Txn(txn::Arguments),
    /// Begin a transaction, to which data verbs belong from now on
    Begin(transactions::BeginArguments),
    /// Commit a transaction
    Commit(transactions::NameArguments),
    /// Roll a transaction back, or go back `to` a savepoint of it
    Rollback(transactions::RollbackArguments),
    /// Lock a key or a range for the current transaction, until it ends
    Lock(transactions::LockArguments),
    /// Set a savepoint to which the transaction can roll back
    Savepoint(transactions::SavepointArguments),
    /// Release a savepoint; its writes stay
    Release(transactions::SavepointArguments),
    /// Make another transaction current, or none; `NAME: VERB …` runs one verb in it
    Switch(transactions::NameArguments),
    /// List the open transactions
    Transactions,
    /// Prepare the current transaction, durably: `prepared` decides it later
    Prepare(transactions::PrepareArguments),
    /// List prepared transactions, and commit one or roll it back
    Prepared {
        #[command(subcommand)]
        verb: Option<prepared::Verb>,
    },
    /// Fill the database from a file
    Import(import::Arguments),
    /// Write entries to a file
    Export(export::Arguments),
    /// Add table files to a family, all or none
    Ingest(ingest::Arguments),
    /// List, create, drop or rename families
    Families {
        #[command(subcommand)]
        verb: Option<FamiliesVerb>,
    },
    /// Create, list, check out, drop, rename, compare and merge branches
    Branch {
        #[command(subcommand)]
        verb: branch::Verb,
    },
    /// Make a family of what another holds, sharing its tables
    Clone(clone_family::Arguments),
    /// Print or change the sequence number from which on `--at SEQ` can read
    Retain(retain::Arguments),
    /// Create, list, move or delete buckets
    Bucket {
        #[command(subcommand)]
        verb: BucketVerb,
    },
    /// Replace the value of a key if it equals the expected one
    Cas(step::CasArguments),
    /// Add to a counter and print its new value
    Incr(step::IncrArguments),
    /// Delete a key and print the value that it had
    Take(take::TakeArguments),
    /// Delete the first or the last key of a family and print it
    Pop(take::PopArguments),
    /// Print the next id of a key
    NextId(take::NextIdArguments),
    /// Print when the value of a key expires, or change that
    Ttl(ttl::Arguments),
    /// Use a family in later commands
    Use(UseArguments),
    /// Print counts and sizes of the database
    Stats(stats::Arguments),
    /// Read and verify everything
    Check,
    /// Read and verify everything at a limited rate, beside writers
    Scrub(scrub::Arguments),
    /// Make a second database with the same contents
    Checkpoint(checkpoint::Arguments),
    /// Add a backup of the database to a directory
    Backup(backup::CreateArguments),
    /// Export the database to an archive
    Archive(archive::CreateArguments),
    /// Move the tables of a family to the cold tier
    Freeze(tier::Arguments),
    /// Move the tables of a family back
    Thaw(tier::Arguments),
    /// Print the commits that the log still has
    Watch(watch::Arguments),
    /// Merge tables: all, those of a family or those of a range
    Compact(upkeep::CompactArguments),
    /// Write the data in memory to tables
    Flush(upkeep::FlushArguments),
    /// End the shell
    #[command(visible_alias = "exit")]
    Quit,
}

/// The verbs on families.
#[derive(Subcommand)]
enum FamiliesVerb {
    /// List the families
    List,
    /// Create a family
    Create(families::CreateArguments),
    /// Drop a family with everything in it
    Drop(families::NameArguments),
    /// Rename a family
    Rename(families::RenameArguments),
    /// Print or change the options of a family
    Options(families::OptionsArguments),
}

/// The verbs on buckets.
#[derive(Subcommand)]
enum BucketVerb {
    /// Create a bucket
    Create(bucket::PathArguments),
    /// List the buckets in a bucket
    List(bucket::ListArguments),
    /// Move a bucket to another path
    Move(bucket::MoveArguments),
    /// Delete a bucket with everything in it
    Delete(bucket::PathArguments),
}

/// Arguments of `use`.
#[derive(Args)]
struct UseArguments {
    /// The name of the family.
    name: String,
}

/// Whether the shell goes on after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Command,
    End,
}

/// Reads and runs commands until the input ends.
///
/// # Errors
/// The failure of a verb, unless commands come from a terminal; failures of stdin and stdout.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    session.keep();
    let outcome = run_all(session, arguments);
    if let Some(text) = session.transactions.roll_back_all() {
        message(session.output.settings().style, &text);
    }
    outcome
}

fn run_all(session: &mut Session, arguments: &Arguments) -> Result<()> {
    if !arguments.command.is_empty() {
        return run_arguments(session, &arguments.command);
    }
    if io::stdin().is_terminal() { run_terminal(session) } else { run_script(session) }
}

fn run_arguments(session: &mut Session, texts: &[String]) -> Result<()> {
    for text in texts {
        let script = Script::parse(text);
        refuse_open(&script)?;
        for command in script.commands {
            if run_command(session, command)? == Next::End {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn run_script(session: &mut Session) -> Result<()> {
    let (mut bytes, mut line) = (Vec::new(), 0);
    let mut splitter = Splitter::default();
    // The line on which the present command begins, and the command's length so far.
    let (mut start, mut command_bytes) = (1, 0);
    let bad = |line: u64, reason: String| Failure::Usage(format!("stdin: line {line}{reason}"));
    loop {
        line += 1;
        // Stdin is not locked between lines, so that a verb may read the rest of it (`batch -`).
        let more = read_line(io::stdin().lock(), COMMAND_BYTES_MAX, &mut bytes);
        let more = more.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => bad(line, format!(": {error}")),
            _ => Failure::file("read", "stdin", error),
        })?;
        if !more {
            return match splitter.open() {
                Some(mark) => Err(bad(start, format!(": a quote {mark} is not closed"))),
                None => Ok(()),
            };
        }
        if line == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            bad(line, format!(", column {}: not valid UTF-8", error.valid_up_to() + 1))
        })?;
        splitter.push(text);
        splitter.push("\n");
        command_bytes += bytes.len() as u64 + 1;
        if splitter.open().is_some() && command_bytes > COMMAND_BYTES_MAX {
            let reason = format!(": a command is longer than {COMMAND_BYTES_MAX} bytes");
            return Err(bad(start, reason));
        }
        for command in splitter.take_commands() {
            match run_command(session, command) {
                Ok(Next::Command) => {}
                Ok(Next::End) => return Ok(()),
                // The remaining lines may hold writes, so leaving them out is a failure.
                Err(failure) if failure.is_closed_pipe() => {
                    return Err(Failure::ScriptStopped { line });
                }
                Err(failure) => return Err(failure),
            }
        }
        if splitter.open().is_none() {
            (start, command_bytes) = (line + 1, 0);
        }
    }
}

fn refuse_open(script: &Script) -> Result<()> {
    match script.open {
        Some(mark) => Err(Failure::Usage(format!("a quote {mark} is not closed"))),
        None => Ok(()),
    }
}

fn run_terminal(session: &mut Session) -> Result<()> {
    let terminal = |error: ReadlineError| {
        Failure::file("read", "the terminal", io::Error::other(error.to_string()))
    };
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<Completion, FileHistory> =
        Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(Completion::new(Line::command())));
    let history = history_file();
    if let Some(file) = &history {
        // The first session has no history yet.
        let _ = editor.load_history(file);
    }
    if io::stdout().is_terminal() {
        session.show_at_most(ENTRIES_SHOWN);
    }
    let style = session.output.settings().style;
    message(style, concat!("silt ", env!("CARGO_PKG_VERSION"), "; `help` lists the verbs"));
    let database = database_name(session);
    loop {
        if let Some(completion) = editor.helper_mut() {
            completion.families = session.family_names();
            let branches = session.db().branches().into_iter().map(|branch| branch.name);
            completion.branches = branches.chain([MAIN.to_owned()]).collect();
            let open = session.transactions.open().iter();
            completion.transactions = open.map(|open| open.name.clone()).collect();
            // Completion offers bytes, which are not the text of a key order.
            let family = session.family(None).ok();
            completion.family = family.filter(|family| !family.key_order().has_text());
        }
        let transaction = session.transactions.current();
        let transaction = transaction.map_or(String::new(), |name| format!(" [{name}]"));
        let branch = match session.branch_in_use() {
            MAIN => String::new(),
            branch => format!("@{}", printable_name(branch)),
        };
        let family = printable_name(session.family_in_use());
        let prompt = format!("{database}{branch}:{family}{transaction}> ");
        let text = match editor.readline(&prompt) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        };
        if !text.trim().is_empty() {
            // A history that cannot be kept must not fail the shell.
            let _ = editor.add_history_entry(&text);
        }
        if let Some(completion) = editor.helper_mut() {
            // A family handle would keep the files of a dropped family.
            completion.family = None;
        }
        if run_typed(session, &text)? == Next::End {
            break;
        }
    }
    if let Some(file) = &history {
        let _ = file.parent().map(std::fs::create_dir_all);
        let _ = editor.append_history(file);
    }
    Ok(())
}

/// Runs the commands of `text`, typed or pasted before Enter. Failures are reported, and Ctrl-C
/// ends all of them.
fn run_typed(session: &mut Session, text: &str) -> Result<Next> {
    let style = session.output.settings().style;
    let script = Script::parse(text);
    if let Err(failure) = refuse_open(&script) {
        report(&failure, style);
        return Ok(Next::Command);
    }
    let _watched = interrupt::watch()?;
    for command in script.commands {
        let outcome = interrupt::check().and_then(|()| run_command(session, command));
        match outcome {
            Ok(Next::Command) => {}
            Ok(Next::End) => return Ok(Next::End),
            Err(failure) if failure.is_closed_pipe() => return Err(failure),
            Err(failure) => {
                report(&failure, style);
                if interrupt::check().is_err() {
                    break;
                }
            }
        }
    }
    Ok(Next::Command)
}

/// Returns the last part of the database's path, for the prompt.
fn database_name(session: &Session) -> String {
    let path = session.path();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().unwrap_or(path.as_os_str());
    printable(&name.to_string_lossy())
}

/// Returns the file with the lines of earlier sessions.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(state) if !state.is_empty() => PathBuf::from(state),
        _ => std::env::home_dir()?.join(".local/state"),
    };
    Some(state.join("silt/history"))
}

/// Runs one command, with settings of its own.
fn run_command(session: &mut Session, command: Command) -> Result<Next> {
    let Command { mut words, glued } = command;
    if let Some(text) = glued {
        let reason = format!("`{}` stands right after a closing quote", shortened(&text));
        let hint = "put all of the word in quotes, with \\\" for a quotation mark inside";
        return Err(Failure::Usage(format!("{reason}; {hint}")));
    }
    let Some(name) = words.first().and_then(|word| word.strip_suffix(':')) else {
        return run_words(session, words);
    };
    let (name, before) = (name.to_owned(), session.transactions.current().map(str::to_owned));
    session.transactions.switch(Some(&name))?;
    let outcome = run_words(session, words.split_off(1));
    session.transactions.go_back(&name, before);
    outcome
}

/// Runs the command `words`, in the current transaction if there is one.
fn run_words(session: &mut Session, mut words: Vec<String>) -> Result<Next> {
    lower_verbs(&mut words);
    let line = match Line::try_parse_from(&words) {
        Ok(line) => line,
        Err(error) if !error.use_stderr() => {
            session.output.raw(error.render().to_string().as_bytes())?;
            return session.output.flush().map(|()| Next::Command);
        }
        Err(error) => return Err(Failure::command_line(&error, &Line::command(), &words)),
    };
    let before = session.output.settings();
    session.output.set(line.settings.settings(before));
    // Beside a writer, each command sees what was committed before it.
    let outcome = session.catch_up().and_then(|()| run_verb(session, line.verb));
    let outcome = outcome.map_err(|failure| session.explain(failure));
    session.output.set(before);
    let flushed = session.output.flush();
    outcome.and_then(|next| flushed.map(|()| next))
}

/// Converts the verbs at the start of `words` to lower case.
fn lower_verbs(words: &mut [String]) {
    let command = Line::command();
    let verbs = words.iter_mut().skip_while(|word| word.starts_with('-'));
    let mut parent = &command;
    for word in verbs.take(2) {
        let lower = word.to_ascii_lowercase();
        let known = parent.find_subcommand(&lower);
        if lower == "help" {
            *word = lower;
            continue;
        }
        let Some(verb) = known else { return };
        *word = lower;
        parent = verb;
    }
}

fn run_verb(session: &mut Session, verb: Verb) -> Result<Next> {
    let settings = session.output.settings();
    match verb {
        Verb::Get(arguments) => point::get(session, &arguments),
        Verb::Put(arguments) => {
            let entry = arguments.entry(settings.form)?;
            point::put(session, &arguments, entry)
        }
        Verb::Delete(arguments) => point::delete(session, &arguments),
        Verb::SingleDelete(arguments) => single_delete::run(session, &arguments),
        Verb::Scan(arguments) => scan::scan(session, &arguments),
        Verb::Count(arguments) => scan::count(session, &arguments),
        Verb::Batch(arguments) => batch::run(session, &arguments, arguments.operations(settings)?),
        Verb::Txn(arguments) => {
            let script = arguments.script(settings)?;
            txn::run(session, &arguments, script)
        }
        Verb::Begin(arguments) => transactions::begin(session, &arguments),
        Verb::Commit(arguments) => transactions::commit(session, &arguments),
        Verb::Rollback(arguments) => transactions::rollback(session, &arguments),
        Verb::Lock(arguments) => transactions::lock(session, &arguments),
        Verb::Savepoint(arguments) => transactions::savepoint(session, &arguments),
        Verb::Release(arguments) => transactions::release(session, &arguments),
        Verb::Switch(arguments) => transactions::switch(session, &arguments),
        Verb::Transactions => transactions::list(session),
        Verb::Prepare(arguments) => transactions::prepare(session, &arguments),
        Verb::Prepared { verb } => prepared::run(session, &verb.unwrap_or(prepared::Verb::List)),
        Verb::Import(_) | Verb::Ingest(_) if session.transactions.current().is_some() => {
            let reason = "import and ingest are in no transaction; `switch` leaves this one";
            return Err(Failure::Usage(reason.to_owned()));
        }
        Verb::Import(arguments) => {
            let job = arguments.job(session.path(), settings)?;
            import::run(session, job)
        }
        Verb::Export(arguments) => export::run(session, &arguments),
        Verb::Ingest(arguments) => ingest::run(session, &arguments),
        Verb::Families { verb } => run_families(session, verb),
        Verb::Branch { verb } => branch::run(session, &verb),
        Verb::Clone(arguments) => clone_family::run(session, &arguments),
        Verb::Retain(arguments) => retain::run(session, &arguments),
        Verb::Bucket { verb } => run_bucket(session, verb),
        Verb::Cas(arguments) => step::cas(session, &arguments),
        Verb::Incr(arguments) => step::incr(session, &arguments),
        Verb::Take(arguments) => take::take(session, &arguments),
        Verb::Pop(arguments) => take::pop(session, &arguments),
        Verb::NextId(arguments) => take::next_id(session, &arguments),
        Verb::Ttl(arguments) => ttl::run(session, &arguments),
        Verb::Use(arguments) => session
            .use_family(&arguments.name)
            .and_then(|()| session.output.result("", &json!({ "family": arguments.name }))),
        Verb::Stats(arguments) => stats::run(session, &arguments),
        Verb::Check => upkeep::check(session),
        Verb::Scrub(arguments) => scrub::run(session, &arguments),
        Verb::Checkpoint(arguments) => checkpoint::run(session, &arguments),
        Verb::Backup(arguments) => backup::create(session, &arguments),
        Verb::Archive(arguments) => archive::create(session, &arguments),
        Verb::Freeze(arguments) => tier::freeze(session, &arguments),
        Verb::Thaw(arguments) => tier::thaw(session, &arguments),
        Verb::Watch(arguments) => watch::run(session, &arguments),
        Verb::Compact(arguments) => upkeep::compact(session, &arguments),
        Verb::Flush(arguments) => upkeep::flush(session, &arguments),
        Verb::Quit => return Ok(Next::End),
    }?;
    Ok(Next::Command)
}

fn run_bucket(session: &mut Session, verb: BucketVerb) -> Result<()> {
    match verb {
        BucketVerb::Create(arguments) => bucket::create(session, &arguments),
        BucketVerb::List(arguments) => bucket::list(session, &arguments),
        BucketVerb::Move(arguments) => bucket::rename(session, &arguments),
        BucketVerb::Delete(arguments) => bucket::delete(session, &arguments),
    }
}

fn run_families(session: &mut Session, verb: Option<FamiliesVerb>) -> Result<()> {
    match verb {
        None | Some(FamiliesVerb::List) => families::list(session),
        Some(FamiliesVerb::Create(arguments)) => families::create(session, &arguments),
        Some(FamiliesVerb::Drop(arguments)) => families::drop(session, &arguments),
        Some(FamiliesVerb::Rename(arguments)) => families::rename(session, &arguments),
        Some(FamiliesVerb::Options(arguments)) => families::options(session, &arguments),
    }
}
