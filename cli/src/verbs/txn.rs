//! The verb txn: runs a script of operations and conditions in one transaction, atomically.
//!
//! The words of a line are those of the shell. The verb parses all lines before it runs the first.
//! Each line sees the writes of those above it. The verb does not open the database.

use crate::argument::{self, DeletedArguments, DurabilityArguments, FamilyArguments, a_ttl};
use crate::bounds::KeyRange;
use crate::failure::{Failure, Result};
use crate::formats::input::{BYTE_ORDER_MARK, LineReader};
use crate::key_form::KeyForm;
use crate::limits::check_entry;
use crate::output::Settings;
use crate::raw_keys::RawKeysArguments;
use crate::scope::{ReadScope, all_or_none};
use crate::session::Session;
use crate::source::{Source, read_failure};
use crate::text::{Form, counted, shortened_bytes};
use crate::transactions::parse_isolation;
use crate::whole_number::signed_number;
use crate::words::{Command, Splitter};
use clap::{Args, CommandFactory, Parser, Subcommand};
use serde_json::json;
use siltdb::{Durability, Isolation, Read, Transaction, TransactionOptions, WriteOptions};
use std::io::ErrorKind;
use std::{ffi::OsString, fmt, path::PathBuf, time::Duration};

#[cfg(test)]
mod tests;

/// Longest script, in bytes: the default memory bound of a transaction.
const SCRIPT_BYTES_MAX: u64 = 64 << 20;

/// Text at the end of its `--help`.
pub const HELP: &str = "\
One operation or condition a line, with words and quotes as in the shell; # begins a remark. A \
line sees the writes of those above it. Keys and values are in escape form with --escape, and \
hexadecimal with --hex; else keys are text of the key order of their family. The script is atomic:

  check KEY = VALUE    require this value; != requires another one, or none
  check KEY >= NUMBER  require such a number; also >, <= and <
  check KEY absent     require that there is no value; `present` is the opposite
  put KEY VALUE        write a value; --ttl 30m gives it an expiry
  delete KEY           delete a key, which may be missing
  single-delete KEY    delete a key that was put exactly once; on any other, an
                        older value may appear
  delete-range         delete the keys of a range: --prefix, --from, --to
  incr KEY [BY]        add BY, by default 1, to a decimal number; a missing one is 0;
                        it keeps its expiry

Each takes --family NAME. A condition that does not hold ends the script with exit code 6, a bad \
line with 2. Then nothing is written. The database must exist. With --prepare ID the writes are \
durable and wait for `silt prepared commit` or `rollback`. Ranges spare the buckets of a family; \
--raw-keys deletes and writes their keys, too.

Example:
  printf 'incr alice -10\\ncheck alice >= 0\\nincr bob 10\\n' | silt txn demo.db -
  silt txn demo.db rename-user --durability buffered";

/// Arguments of `txn`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file of operations and conditions; `-` is stdin.
    file: PathBuf,
    /// Isolation level of the transaction: read-uncommitted, read-committed, repeatable-read,
    /// snapshot or serializable [default: serializable]
    #[arg(long, value_name = "LEVEL", value_parser = parse_isolation)]
    isolation: Option<Isolation>,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
    /// Prepare the transaction under this id instead of committing it; `silt prepared` decides it.
    #[arg(long, value_name = "ID", conflicts_with = "durability", allow_negative_numbers = true)]
    prepare: Option<OsString>,
    #[command(flatten)]
    durability: DurabilityArguments,
}

/// The lines of a script, all of them valid.
#[derive(Debug)]
pub struct Script {
    name: String,
    form: Form,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    line: u64,
    operation: Operation,
}

/// A line.
#[derive(Parser, Debug)]
#[command(name = "", no_binary_name = true, disable_help_flag = true)]
#[command(disable_help_subcommand = true, override_usage = "put KEY VALUE, check KEY = VALUE, …")]
struct Line {
    #[command(subcommand)]
    operation: Operation,
}

#[derive(Subcommand, Debug)]
enum Operation {
    Put(PutArguments),
    Delete(DeleteArguments),
    SingleDelete(DeleteArguments),
    DeleteRange(RangeArguments),
    Incr(IncrArguments),
    Check(CheckArguments),
}

#[derive(Args, Debug)]
struct PutArguments {
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[arg(allow_negative_numbers = true)]
    value: OsString,
    #[arg(long, value_name = "TIME", value_parser = a_ttl)]
    ttl: Option<Duration>,
    #[command(flatten)]
    family: FamilyArguments,
}

#[derive(Args, Debug)]
struct DeleteArguments {
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[command(flatten)]
    family: FamilyArguments,
}

#[derive(Args, Debug)]
struct RangeArguments {
    #[command(flatten)]
    deleted: DeletedArguments,
    #[command(flatten)]
    family: FamilyArguments,
}

#[derive(Args, Debug)]
struct IncrArguments {
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[arg(allow_negative_numbers = true, default_value_t = 1, value_parser = signed_number)]
    by: i64,
    #[command(flatten)]
    family: FamilyArguments,
}

#[derive(Args, Debug)]
struct CheckArguments {
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[arg(value_name = "CONDITION", value_parser = parse_comparison)]
    comparison: Comparison,
    #[arg(allow_negative_numbers = true)]
    value: Option<OsString>,
    #[command(flatten)]
    family: FamilyArguments,
}

/// The comparison of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Absent,
    Present,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// The comparisons by their names in a script.
const COMPARISONS: [(&str, Comparison); 8] = [
    ("=", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<", Comparison::Less),
    ("<=", Comparison::AtMost),
    (">", Comparison::Greater),
    (">=", Comparison::AtLeast),
    ("absent", Comparison::Absent),
    ("present", Comparison::Present),
];

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = COMPARISONS.iter().find(|(_, comparison)| comparison == self);
        f.write_str(found.expect("each has a name").0)
    }
}

impl Comparison {
    /// Returns whether the comparison takes no value.
    fn is_alone(self) -> bool {
        matches!(self, Self::Absent | Self::Present)
    }
}

fn parse_comparison(text: &str) -> std::result::Result<Comparison, String> {
    let found = COMPARISONS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    found.map(|(_, comparison)| *comparison).ok_or_else(|| {
        let names: Vec<_> = COMPARISONS.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(" "))
    })
}

impl Arguments {
    /// Reads the script, before a database is opened for it.
    ///
    /// # Errors
    /// [`Failure::File`]; [`Failure::Usage`] with its line for a bad line.
    pub fn script(&self, settings: Settings) -> Result<Script> {
        read(Source::open_records(&self.file)?, settings.form)
    }
}

fn read(source: Source, form: Form) -> Result<Script> {
    let name = source.name;
    let mut lines = LineReader::new(source.input, SCRIPT_BYTES_MAX);
    let (mut bytes, mut bytes_total) = (Vec::new(), 0);
    let (mut splitter, mut steps, mut start) = (Splitter::default(), Vec::new(), 1);
    loop {
        let more = lines.read(&mut bytes).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => bad_line(&name, lines.line() + 1, &error),
            _ => read_failure(&name, error),
        })?;
        if !more {
            return match splitter.open() {
                Some(mark) => Err(bad_line(&name, start, &format!("a quote {mark} is not closed"))),
                None => Ok(Script { name, form, steps }),
            };
        }
        let number = lines.line();
        bytes_total += bytes.len() as u64 + 1;
        if bytes_total > SCRIPT_BYTES_MAX {
            return Err(bad_line(
                &name,
                number,
                &format!("the script has more than {SCRIPT_BYTES_MAX} bytes"),
            ));
        }
        if number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| bad_line(&name, number, &format!("not valid UTF-8: {error}")))?;
        splitter.push(text);
        splitter.push("\n");
        for command in splitter.take_commands() {
            let operation = parse(command, form);
            let operation = operation.map_err(|failure| bad_line(&name, start, &failure))?;
            steps.push(Step { line: start, operation });
        }
        if splitter.open().is_none() {
            start = number + 1;
        }
    }
}

/// Parses the words of `command`, and checks its keys and values.
fn parse(command: Command, form: Form) -> Result<Operation> {
    let Command { mut words, glued } = command;
    if let Some(text) = glued {
        return Err(Failure::Usage(format!("`{text}` stands right after a closing quote")));
    }
    if let Some(verb) = words.first_mut() {
        verb.make_ascii_lowercase();
    }
    let line = Line::try_parse_from(&words)
        .map_err(|error| Failure::command_line(&error, &Line::command(), &words))?;
    match &line.operation {
        Operation::Put(put) => {
            check_entry(&argument::bytes(&put.key, form)?, &argument::bytes(&put.value, form)?)?;
        }
        Operation::Delete(DeleteArguments { key, .. })
        | Operation::SingleDelete(DeleteArguments { key, .. })
        | Operation::Incr(IncrArguments { key, .. }) => {
            check_entry(&argument::bytes(key, form)?, &[])?;
        }
        Operation::DeleteRange(range) => {
            range.deleted.checked(range.deleted.bounds.range(form)?)?;
            if !range.deleted.is_given() {
                let reason = "delete-range takes --prefix, --from, --to or --all";
                return Err(Failure::Usage(reason.to_owned()));
            }
        }
        Operation::Check(check) => check.check(form)?,
    }
    Ok(line.operation)
}

/// The failure of a line.
fn bad_line(name: &str, line: u64, reason: &dyn fmt::Display) -> Failure {
    Failure::Usage(format!("{name}: line {line}: {reason}; nothing was written"))
}

/// Runs `script` atomically, in a transaction of its own or as a part of the current one.
///
/// # Errors
/// [`Failure::Condition`]. [`Failure::Usage`], with its line, for an operation that the database
/// refuses, and for options that belong to the current transaction. Errors of the database.
pub fn run(session: &mut Session, arguments: &Arguments, script: Script) -> Result<()> {
    let is_condition = |step: &&Step| matches!(step.operation, Operation::Check(_));
    let conditions = script.steps.iter().filter(is_condition).count();
    let operations = script.steps.len() - conditions;
    if session.transactions.current().is_some() {
        arguments.durability.refuse_in_transaction()?;
        if arguments.isolation.is_some() {
            let reason = "the isolation level is that of the transaction: `begin LEVEL`";
            return Err(Failure::Usage(reason.to_owned()));
        }
        if arguments.prepare.is_some() {
            let reason = "the script is a part of the transaction: `prepare ID` prepares all of it";
            return Err(Failure::Usage(reason.to_owned()));
        }
        let transaction = &session.transactions.find(None)?.transaction;
        all_or_none(transaction, || apply(session, transaction, arguments, &script))?;
    } else {
        let isolation = arguments.isolation.unwrap_or_default();
        let durability = arguments.durability.or(Durability::Synced);
        let options = TransactionOptions::new().isolation(isolation).durability(durability);
        let transaction = session.db().begin_with(&options);
        apply(session, &transaction, arguments, &script)?;
        match &arguments.prepare {
            Some(id) => {
                transaction.prepare(argument::bytes(id, script.form)?)?;
            }
            None => {
                transaction.commit()?;
                if operations > 0 {
                    session.finish_once(durability)?;
                }
            }
        }
    }
    let word = if arguments.prepare.is_some() { "prepared" } else { "applied" };
    let applied = format!("{word} {}", counted(operations as u64, "operation"));
    let text = match conditions {
        0 => applied,
        _ => format!("{applied}, {} held", counted(conditions as u64, "condition")),
    };
    session.output.result(&text, &json!({ "operations": operations, "conditions": conditions }))
}

fn apply(
    session: &Session,
    transaction: &Transaction,
    arguments: &Arguments,
    script: &Script,
) -> Result<()> {
    let Script { name, form, steps } = script;
    for Step { line, operation } in steps {
        let run = || {
            let name = operation.family().name().or(arguments.family.name());
            let family = session.family_of(name)?;
            let keys = KeyForm::new(*form, family.key_order());
            let transaction = transaction.family(&family)?;
            let ranges = operation.spare_buckets(arguments.raw_keys, &keys, &transaction)?;
            operation.run(&transaction, (&keys, *form), ranges)
        };
        run().map_err(|failure| match failure {
            Failure::Condition(reason) => {
                Failure::Condition(format!("{name}: line {line}: {reason}; nothing was written"))
            }
            Failure::Usage(reason) => bad_line(name, *line, &reason),
            failure => failure.with_note(format!("{name}: line {line}; nothing was written")),
        })?;
    }
    Ok(())
}

impl Operation {
    fn family(&self) -> &FamilyArguments {
        match self {
            Self::Put(PutArguments { family, .. })
            | Self::Delete(DeleteArguments { family, .. })
            | Self::SingleDelete(DeleteArguments { family, .. })
            | Self::DeleteRange(RangeArguments { family, .. })
            | Self::Incr(IncrArguments { family, .. })
            | Self::Check(CheckArguments { family, .. }) => family,
        }
    }

    /// Returns the ranges to delete, without the keys that store buckets, and refuses to write such
    /// a key alone.
    fn spare_buckets(
        &self,
        raw_keys: RawKeysArguments,
        keys: &KeyForm,
        transaction: &Transaction,
    ) -> Result<Vec<KeyRange>> {
        let scope = ReadScope::Transaction(transaction.clone());
        match self {
            Self::Put(PutArguments { key, .. })
            | Self::Delete(DeleteArguments { key, .. })
            | Self::SingleDelete(DeleteArguments { key, .. })
            | Self::Incr(IncrArguments { key, .. }) => {
                raw_keys.check(keys, &scope, &keys.parse(key)?).map(|()| Vec::new())
            }
            Self::DeleteRange(RangeArguments { deleted, .. }) => {
                let range = deleted.checked(keys.range(&deleted.bounds)?)?;
                raw_keys.parts_to_delete(keys, &scope, range)
            }
            Self::Check(_) => Ok(Vec::new()),
        }
    }

    /// Runs the operation; a deletion of a range deletes `ranges`.
    fn run(
        &self,
        transaction: &Transaction,
        (keys, form): (&KeyForm, Form),
        ranges: Vec<KeyRange>,
    ) -> Result<()> {
        match self {
            Self::Put(put) => {
                let (key, value) = (keys.parse(&put.key)?, argument::bytes(&put.value, form)?);
                match put.ttl {
                    None => transaction.put(key, value)?,
                    Some(ttl) => transaction.put_for(key, value, ttl)?,
                }
            }
            Self::Delete(delete) => transaction.delete(keys.parse(&delete.key)?)?,
            Self::SingleDelete(delete) => transaction.single_delete(keys.parse(&delete.key)?)?,
            Self::DeleteRange(_) => {
                for range in ranges {
                    transaction.delete_range(range)?;
                }
            }
            Self::Incr(incr) => incr.run(transaction, keys)?,
            Self::Check(check) => check.run(transaction, (keys, form))?,
        }
        Ok(())
    }
}

impl IncrArguments {
    fn run(&self, transaction: &Transaction, keys: &KeyForm) -> Result<()> {
        let key = keys.parse(&self.key)?;
        let shown = keys.shown(&key)?;
        let found = transaction.get_expiring(&key)?;
        let (number, options) = match &found {
            Some((value, expiry)) => (number(&shown, value)?, WriteOptions::new().expiry(*expiry)),
            None => (0, WriteOptions::new()),
        };
        let sum = number.checked_add(self.by).ok_or_else(|| {
            let (key, by) = (shortened_bytes(&shown), self.by);
            Failure::Usage(format!("`{key}` is {number}, and {by} more does not fit in 64 bits"))
        })?;
        Ok(transaction.put_with(&key, sum.to_string(), &options)?)
    }
}

impl CheckArguments {
    /// Checks that the condition is valid.
    fn check(&self, form: Form) -> Result<()> {
        let Self { key, comparison, value, .. } = self;
        let bytes = argument::bytes(key, form)?;
        check_entry(&bytes, &[])?;
        match (comparison, value) {
            (alone, None) if alone.is_alone() => Ok(()),
            (alone, Some(_)) if alone.is_alone() => {
                Err(Failure::Usage(format!("`{alone}` takes no value")))
            }
            (_, None) => Err(Failure::Usage(format!("no value after `{comparison}`"))),
            (Comparison::Equal | Comparison::NotEqual, Some(value)) => {
                argument::bytes(value, form).map(|_| ())
            }
            (_, Some(value)) => number(&bytes, &argument::bytes(value, form)?).map(|_| ()),
        }
    }

    fn run(&self, transaction: &Transaction, (keys, form): (&KeyForm, Form)) -> Result<()> {
        let key = keys.parse(&self.key)?;
        let shown = keys.shown(&key)?;
        let wanted = self.value.as_deref().map(|value| argument::bytes(value, form)).transpose()?;
        let wanted = wanted.unwrap_or_default();
        let found = transaction.get(&key)?;
        let compare = |holds: fn(&i64, &i64) -> bool| match &found {
            Some(found) => Ok(holds(&number(&shown, found)?, &number(&shown, &wanted)?)),
            None => Ok::<_, Failure>(false),
        };
        let holds = match self.comparison {
            Comparison::Absent => found.is_none(),
            Comparison::Present => found.is_some(),
            Comparison::Equal => found.as_deref() == Some(&wanted[..]),
            Comparison::NotEqual => found.as_deref() != Some(&wanted[..]),
            Comparison::Less => compare(i64::lt)?,
            Comparison::AtMost => compare(i64::le)?,
            Comparison::Greater => compare(i64::gt)?,
            Comparison::AtLeast => compare(i64::ge)?,
        };
        if holds {
            return Ok(());
        }
        let expected = match self.comparison {
            alone if alone.is_alone() => alone.to_string(),
            comparison => format!("{comparison} `{}`", shortened_bytes(&wanted)),
        };
        let found = found.map_or("absent".to_owned(), |v| format!("`{}`", shortened_bytes(&v)));
        let key = shortened_bytes(&shown);
        Err(Failure::Condition(format!("`{key}` is {found}, expected {expected}")))
    }
}

/// Parses `value` as a decimal number; `key` is for the message.
fn number(key: &[u8], value: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(value).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let (key, value) = (shortened_bytes(key), shortened_bytes(value));
        Failure::Usage(format!("`{key}`: `{value}` is no decimal number of 64 bits"))
    })
}
