//! The verb watch: prints the commits in the log of the database, in order.
//!
//! It does not wait for later commits, as `follow` does.

use crate::argument::bytes;
use crate::bounds::is_greatest;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::json;
use crate::key_form::KeyForm;
use crate::output::{Output, Style, message};
use crate::raw_keys::RawKeysArguments;
use crate::scope::{FamilyName, label};
use crate::session::Session;
use crate::text::Form;
use crate::verbs::backup::utc;
use crate::whole_number::any_number;
use clap::Args;
use serde_json::{Map, Value, json};
use siltdb::{
    Action, Commit, Db, Event, Family, FamilyChange, FamilyId, KeyChange, KeyOrder, Operation,
    SubscribeOptions,
};
use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
};

/// Text at the end of `silt watch --help`.
pub const HELP: &str = "\
A line has sequence number, action, family, key, value or end, and expiry, separated by tabs; with \
--json it is a commit, and expires_at is in milliseconds since 1970. A deletion of a range without \
an end has none, and `unbounded` after it; with --json the end is null. Keys are text of the key \
order of their family. The log has the commits that are not flushed yet, and those that \
retain_log_bytes and retain_log_for keep. These options are not stored: an opening for writing \
without them drops what they kept. It ends at the newest commit; `silt follow` continues with \
later ones. In `silt shell`, `watch --from N` prints what the shell has written since.

Example:
  silt watch demo.db --prefix user: --from 1000 --json";

/// Arguments of `watch`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Print only changes of this family [default: of all]
    #[arg(long, value_name = "NAME")]
    family: Option<String>,
    /// The branch of that family [default: the one that is checked out]
    #[arg(long, value_name = "NAME", requires = "family")]
    branch: Option<String>,
    /// Print only changes of keys that begin with this.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Start at this sequence number [default: the oldest in the log]
    #[arg(long, value_name = "N", value_parser = any_number)]
    from: Option<u64>,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
}

/// Prints the commits in the log.
///
/// # Errors
/// [`Failure::Missing`] if there is no such family; errors of the database and of stdout.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let mut options = SubscribeOptions::new();
    options = match arguments.from {
        Some(sequence) => options.from(sequence),
        None => options.from_oldest(),
    };
    let settings = session.output.settings();
    let family = arguments.family.as_deref().map(|family| {
        session.family_of(FamilyName { branch: arguments.branch.as_deref(), family: Some(family) })
    });
    let family = family.transpose()?;
    if let Some(family) = &family {
        options = options.family(family);
    }
    if let Some(prefix) = &arguments.prefix {
        options = options.prefix(prefix_of(prefix, family.as_ref(), settings.form)?);
    }
    let db = session.db().clone();
    let mut subscription = session.subscribe(&options)?;
    while let Some(event) = subscription.try_next()? {
        interrupt::check()?;
        match settings.style {
            Style::Json => {
                let object = object(&db, &event, (settings.form, arguments.raw_keys));
                object.map_or(Ok(()), |object| session.output.json(&object))?;
            }
            Style::Text => print(&db, &event, arguments.raw_keys, &mut session.output)?,
        }
    }
    session.output.flush()?;
    let text = format!(
        "the log ends before {}; `silt follow` prints what another process writes",
        subscription.position()
    );
    message(settings.style, &text);
    Ok(())
}

/// Parses the beginning of keys: of `family`, or without one of all families.
///
/// # Errors
/// As [`KeyForm::prefix`].
pub fn prefix_of(prefix: &OsStr, family: Option<&Family>, form: Form) -> Result<Vec<u8>> {
    match family {
        Some(family) => KeyForm::new(form, family.key_order()).prefix(prefix),
        None => bytes(prefix, form),
    }
}

/// Returns the name of a family and the form of its keys; the id and bytes if it was dropped.
fn named(db: &Db, id: FamilyId, form: Form) -> (String, KeyForm) {
    let (name, order) = match db.family_by_id(id) {
        Ok(family) => (label(&family), family.key_order()),
        Err(_) => (id.to_string(), KeyOrder::bytewise()),
    };
    (name, KeyForm::new(form, order))
}

/// Prints an event as lines of text.
///
/// # Errors
/// [`Failure::Stdout`]; [`Failure::Usage`] for an event of a later version.
pub fn print(
    db: &Db,
    event: &Event,
    raw_keys: RawKeysArguments,
    output: &mut Output,
) -> Result<()> {
    let commit = match event {
        Event::Commit(commit) => commit,
        Event::Unlogged(range) => {
            return output.line(&format!("{}\tunlogged\t{}", range.start(), range.end()));
        }
        other => return Err(unknown(other)),
    };
    let form = output.settings().form;
    for change in commit.families() {
        let line = match change {
            FamilyChange::Created { name, .. } => format!("create-family\t{name}"),
            FamilyChange::Dropped { id } => format!("drop-family\t{id}"),
            other => format!("{other:?}"),
        };
        output.line(&format!("{}\t{line}", commit.first))?;
    }
    for KeyChange { sequence, operation } in joined(raw_keys.shown(db, commit.changes())) {
        let (family, keys) = named(db, operation.family, form);
        let (action, operand) = action(&operation.action, &keys);
        let mut line = format!("{sequence}\t{action}\t{family}\t");
        form.render(&keys.shown_or_bytes(operation.key), &mut line);
        match operand {
            Operand::Nothing => {}
            Operand::Value(bytes) | Operand::End(bytes) => {
                line.push('\t');
                form.render(&bytes, &mut line);
            }
            Operand::NoEnd => line.push_str("\t\tunbounded"),
        }
        if let Action::PutUntil { expiry_ms, .. } = operation.action {
            line.push_str(&format!("\texpires at {}", utc(expiry_ms)));
        }
        output.line(&line)?;
    }
    Ok(())
}

/// Joins what the log stores of a deletion without an end: leaves the deletion of the greatest key
/// out after a range up to it.
fn joined<'a>(changes: impl Iterator<Item = KeyChange<'a>>) -> impl Iterator<Item = KeyChange<'a>> {
    let mut family_without_end = None;
    changes.filter(move |KeyChange { operation: Operation { family, key, action, .. }, .. }| {
        let is_second = family_without_end.take() == Some(*family)
            && *action == Action::Delete
            && is_greatest(key);
        if matches!(action, Action::DeleteRange(end) if is_greatest(end)) {
            family_without_end = Some(*family);
        }
        !is_second
    })
}

/// What an action has besides the key.
enum Operand<'a> {
    Nothing,
    Value(Cow<'a, [u8]>),
    /// The exclusive end of a range.
    End(Cow<'a, [u8]>),
    /// The range has no end.
    NoEnd,
}

/// Returns the word for an action, and its operand.
fn action<'a>(action: &Action<'a>, keys: &KeyForm) -> (&'static str, Operand<'a>) {
    match *action {
        Action::Put(value) => ("put", Operand::Value(value.into())),
        Action::PutUntil { value, .. } => ("put-until", Operand::Value(value.into())),
        Action::Delete => ("delete", Operand::Nothing),
        Action::SingleDelete => ("single-delete", Operand::Nothing),
        Action::DeleteRange(end) if is_greatest(end) => ("delete-range", Operand::NoEnd),
        Action::DeleteRange(end) => ("delete-range", Operand::End(keys.shown_or_bytes(end))),
        Action::Merge(operand) => ("merge", Operand::Value(operand.into())),
        _ => ("unknown", Operand::Nothing),
    }
}

/// Converts an event to one object: a commit with its operations. `None`, if none of these is
/// shown.
pub fn object(db: &Db, event: &Event, (form, raw_keys): (Form, RawKeysArguments)) -> Option<Value> {
    match event {
        Event::Commit(commit) => commit_object(db, commit, (form, raw_keys)),
        Event::Unlogged(range) => {
            Some(json!({ "unlogged": { "first": range.start(), "last": range.end() } }))
        }
        other => Some(json!({ "unknown": format!("{other:?}") })),
    }
}

fn commit_object(
    db: &Db,
    commit: &Commit,
    (form, raw_keys): (Form, RawKeysArguments),
) -> Option<Value> {
    let families = commit.families().iter().map(|change| match change {
        FamilyChange::Created { id, name } => json!({ "created": name, "id": id.0 }),
        FamilyChange::Dropped { id } => json!({ "dropped": id.0 }),
        other => json!({ "unknown": format!("{other:?}") }),
    });
    let families: Vec<Value> = families.collect();
    let operations =
        joined(raw_keys.shown(db, commit.changes())).map(|KeyChange { sequence, operation }| {
            let (family, keys) = named(db, operation.family, form);
            let (word, operand) = action(&operation.action, &keys);
            let key = keys.shown_or_bytes(operation.key);
            let mut object = Map::new();
            object.insert("sequence".to_owned(), json!(sequence));
            object.insert("action".to_owned(), json!(word));
            object.insert("family".to_owned(), json!(family));
            object.insert("key".to_owned(), json::of_bytes(&key, form));
            let operand = match operand {
                Operand::Nothing => None,
                Operand::Value(bytes) => Some(("value", json::of_bytes(&bytes, form))),
                Operand::End(bytes) => Some(("end", json::of_bytes(&bytes, form))),
                Operand::NoEnd => Some(("end", Value::Null)),
            };
            object.extend(operand.map(|(name, value)| (name.to_owned(), value)));
            if let Action::PutUntil { expiry_ms, .. } = operation.action {
                object.insert("expires_at".to_owned(), json!(expiry_ms));
            }
            Value::Object(object)
        });
    let operations: Vec<Value> = operations.collect();
    let is_hidden = families.is_empty() && operations.is_empty();
    let is_shown = !is_hidden || commit.changes().next().is_none();
    is_shown.then(|| {
        json!({
            "first": commit.first,
            "last": commit.last,
            "families": families,
            "operations": operations,
        })
    })
}

fn unknown(event: &Event) -> Failure {
    Failure::Usage(format!("this version of silt cannot print {event:?}"))
}
