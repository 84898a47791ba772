//! The verbs on branches: create, list, checkout, drop, rename, diff, merge.
//!
//! In the shell they work on the database that is open.

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::json;
use crate::key_form::KeyForm;
use crate::opened::{Nothing, On, open};
use crate::output::{Style, message};
use crate::raw_keys::{RawKeysArguments, has_buckets, is_of_bucket};
use crate::scope::FamilyName;
use crate::session::{Opening, Session, Start};
use crate::text::counted;
use crate::verbs::backup::utc;
use crate::verbs::upkeep::aside;
use crate::whole_number::any_number;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use siltdb::{
    BranchInfo, BranchOptions, BranchValue, ConflictingKey, KeyDifference, MergeOptions,
    MergeReport, OnConflict,
};
use std::path::PathBuf;

/// Text at the end of `silt branch --help`, and of the help of its verbs.
pub const HELP: &str = "\
A branch begins with what the families of another branch hold, and shares their tables: it takes a \
moment and hardly any space. From then on neither sees what is written to the other. `main` is the \
database itself. Verbs on data work on the branch that is checked out, or on that of --branch.

diff prints the keys that differ, by family and in order: with - what the first branch has, with + \
what the second has. merge applies what a branch has changed since it began, or since its last \
merge, to the branch that is checked out. A key that both have changed to different values is a \
conflict: the conflicts are printed, nothing is changed, and the exit code is 5. --take decides \
them. With a branch and its parent a second merge does not repeat the first.

Example:
  silt branch create demo.db fix
  silt put demo.db SFO closed --branch fix
  silt branch diff demo.db main fix
  silt branch merge demo.db fix --dry-run
  silt branch merge demo.db fix
  silt branch drop demo.db fix";

/// The verbs on branches, with the database.
#[derive(Subcommand)]
pub enum BranchVerb {
    /// Make a branch of another one, sharing its tables
    #[command(after_help = HELP)]
    Create(On<CreateArguments>),
    /// List the branches
    #[command(after_help = HELP)]
    List(On<Nothing>),
    /// Make a branch the one that verbs on data work on
    #[command(after_help = HELP)]
    Checkout(On<NameArguments>),
    /// Drop a branch with everything in it
    #[command(after_help = HELP)]
    Drop(On<NameArguments>),
    /// Rename a branch
    #[command(after_help = HELP)]
    Rename(On<RenameArguments>),
    /// Print the keys that differ between two branches
    #[command(after_help = HELP)]
    Diff(On<DiffArguments>),
    /// Apply what a branch has changed to another one
    #[command(after_help = HELP)]
    Merge(On<MergeArguments>),
}

/// The verbs on branches of an open database.
#[derive(Subcommand)]
pub enum Verb {
    /// Make a branch of another one
    Create(CreateArguments),
    /// List the branches
    List,
    /// Make a branch the one that verbs on data work on
    Checkout(NameArguments),
    /// Drop a branch with everything in it
    Drop(NameArguments),
    /// Rename a branch
    Rename(RenameArguments),
    /// Print the keys that differ between two branches
    Diff(DiffArguments),
    /// Apply what a branch has changed to another one
    Merge(MergeArguments),
}

impl BranchVerb {
    /// Runs the verb; Ctrl-C ends it.
    ///
    /// # Errors
    /// The failure of the verb.
    pub fn run(self, start: Start) -> Result<()> {
        let _watched = interrupt::watch()?;
        let (db, opening, verb) = self.parts();
        open(&db, opening, start, |session| run(session, &verb))
    }

    /// Splits the verb into its database, the purpose of the opening, and the rest.
    fn parts(self) -> (PathBuf, Opening, Verb) {
        match self {
            Self::Create(on) => (on.db, Opening::Write, Verb::Create(on.arguments)),
            Self::List(on) => (on.db, Opening::Read, Verb::List),
            Self::Checkout(on) => (on.db, Opening::Write, Verb::Checkout(on.arguments)),
            Self::Drop(on) => (on.db, Opening::Write, Verb::Drop(on.arguments)),
            Self::Rename(on) => (on.db, Opening::Write, Verb::Rename(on.arguments)),
            Self::Diff(on) => (on.db, Opening::Read, Verb::Diff(on.arguments)),
            Self::Merge(on) => (on.db, Opening::Write, Verb::Merge(on.arguments)),
        }
    }
}

/// Arguments of `branch create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The name of the new branch.
    name: String,
    /// The branch that it begins with [default: the one that is checked out]
    #[arg(long, value_name = "BRANCH")]
    from: Option<String>,
    /// A family that the branch has; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    /// Begin with the state after the operation with this sequence number; `silt retain` prints
    /// from which one on there are states [default: the newest]
    #[arg(long, value_name = "SEQ", value_parser = any_number)]
    at: Option<u64>,
}

/// Arguments of `branch checkout` and `branch drop`.
#[derive(Args, Debug)]
pub struct NameArguments {
    /// The name of the branch.
    name: String,
}

/// Arguments of `branch rename`.
#[derive(Args, Debug)]
pub struct RenameArguments {
    /// The present name.
    from: String,
    /// The new name.
    to: String,
}

/// Arguments of `branch diff`.
#[derive(Args, Debug)]
pub struct DiffArguments {
    /// The first branch.
    left: String,
    /// The second branch.
    right: String,
    /// A family to compare; may be given several times [default: all that both have]
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    #[command(flatten)]
    raw_keys: RawKeysArguments,
}

/// Arguments of `branch merge`.
#[derive(Args, Debug)]
pub struct MergeArguments {
    /// The branch whose changes are applied.
    from: String,
    /// The branch that gets them [default: the one that is checked out]
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// A family to merge; may be given several times [default: all of the branch]
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    /// Which side counts where both have changed a key: `ours` is the branch that gets the changes
    #[arg(long, value_name = "SIDE")]
    take: Option<Side>,
    /// Print what the merge would do, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// The side that counts in a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    Ours,
    Theirs,
}

/// Runs a verb on branches.
///
/// # Errors
/// [`Failure::Conflicts`] for a merge that is refused; errors of the database.
pub fn run(session: &mut Session, verb: &Verb) -> Result<()> {
    match verb {
        Verb::Create(arguments) => create(session, arguments),
        Verb::List => list(session),
        Verb::Checkout(arguments) => {
            session.check_out(&arguments.name)?;
            session.output.result("", &json!({ "checked_out": arguments.name }))
        }
        Verb::Drop(arguments) => {
            session.db().drop_branch(&arguments.name)?;
            session.output.result("", &json!({ "dropped": arguments.name }))
        }
        Verb::Rename(RenameArguments { from, to }) => {
            session.rename_branch(from, to)?;
            session.output.result("", &json!({ "renamed": { "from": from, "to": to } }))
        }
        Verb::Diff(arguments) => diff(session, arguments),
        Verb::Merge(arguments) => merge(session, arguments),
    }
}

fn create(session: &mut Session, arguments: &CreateArguments) -> Result<()> {
    let from = arguments.from.as_deref().unwrap_or(session.branch_in_use());
    let mut options = BranchOptions::new().from(from);
    if !arguments.family.is_empty() {
        options = options.families(arguments.family.iter().cloned());
    }
    if let Some(sequence) = arguments.at {
        options = options.at(&session.db().snapshot_at(sequence)?);
    }
    let (db, name) = (session.db().clone(), arguments.name.clone());
    let branch = aside("branching", move || db.create_branch_with(&name, &options))??;
    let families = branch.families()?;
    let object = json!({ "created": arguments.name, "from": from, "families": families });
    session.output.result("", &object)
}

fn list(session: &mut Session) -> Result<()> {
    let (branches, checked_out) = (session.db().branches(), session.db().checked_out());
    if session.output.settings().style == Style::Json {
        let objects: Vec<Value> = branches.iter().map(object).collect();
        let object = json!({ "checked_out": checked_out, "branches": objects });
        return session.output.result("", &object);
    }
    let mark = |is_checked_out| if is_checked_out { '*' } else { ' ' };
    let mut text = format!("{} main", mark(checked_out == "main"));
    for branch in &branches {
        let parent = branch.parent.as_deref().unwrap_or("a dropped branch");
        text.push_str(&format!(
            "\n{} {}\tfrom {parent} at {}\t{}",
            mark(branch.is_checked_out),
            branch.name,
            branch.sequence,
            branch.families.join(" "),
        ));
    }
    session.output.result(&text, &Value::Null)
}

fn object(branch: &BranchInfo) -> Value {
    json!({
        "name": branch.name,
        "parent": branch.parent,
        "sequence": branch.sequence,
        "created_ms": branch.created_ms,
        "families": branch.families,
    })
}

fn diff(session: &mut Session, arguments: &DiffArguments) -> Result<()> {
    let DiffArguments { left, right, family, raw_keys } = arguments;
    let differences = match family.is_empty() {
        true => session.db().diff(left, right)?,
        false => session.db().diff_families(left, right, family)?,
    };
    let mut hidden: u64 = 0;
    for difference in differences {
        interrupt::check()?;
        let difference = difference?;
        if !raw_keys.is_given() && stores_bucket(session, arguments, &difference)? {
            hidden += 1;
        } else {
            print(session, arguments, &difference)?;
        }
    }
    if hidden > 0 {
        // Without this, branches whose buckets differ would look equal.
        session.output.flush()?;
        let verb = if hidden == 1 { "stores buckets differs" } else { "store buckets differ" };
        let text = format!("{} that {verb}, too: --raw-keys", counted(hidden, "key"));
        message(session.output.settings().style, &text);
    }
    Ok(())
}

/// Whether the key that differs stores a bucket in either branch.
fn stores_bucket(
    session: &Session,
    arguments: &DiffArguments,
    difference: &KeyDifference,
) -> Result<bool> {
    if !is_of_bucket(&difference.key) {
        return Ok(false);
    }
    let family = Some(difference.family.as_str());
    for branch in [&arguments.left, &arguments.right] {
        let name = FamilyName { branch: Some(branch), family };
        if has_buckets(&session.family_of(name)?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The form of the keys of a family that `branch` has.
fn key_form(session: &Session, branch: &str, family: &str) -> Result<KeyForm> {
    let name = FamilyName { branch: Some(branch), family: Some(family) };
    let order = session.family_of(name)?.key_order();
    Ok(KeyForm::new(session.output.settings().form, order))
}

fn print(
    session: &mut Session,
    arguments: &DiffArguments,
    difference: &KeyDifference,
) -> Result<()> {
    let KeyDifference { family, key, left, right, .. } = difference;
    let form = session.output.settings().form;
    let keys = key_form(session, &arguments.left, family)?;
    let key = &keys.shown_or_bytes(key);
    if session.output.settings().style == Style::Json {
        let value = |value: &Option<BranchValue>| match value {
            None => Value::Null,
            Some(value) => {
                let mut object = Map::new();
                object.insert("value".to_owned(), json::of_bytes(&value.value, form));
                if let Some(expiry_ms) = value.expiry_ms {
                    object.insert("expires_at".to_owned(), json!(expiry_ms));
                }
                Value::Object(object)
            }
        };
        let key = json::of_bytes(key, form);
        let (left, right) = (value(left), value(right));
        let object = json!({ "family": family, "key": key, "left": left, "right": right });
        return session.output.json(&object);
    }
    for (sign, value) in [('-', left), ('+', right)] {
        let Some(BranchValue { value, expiry_ms, .. }) = value else { continue };
        let mut line = format!("{sign}\t{family}\t");
        form.render(key, &mut line);
        line.push('\t');
        form.render(value, &mut line);
        if let Some(expiry_ms) = expiry_ms {
            line.push_str(&format!("\texpires at {}", utc(*expiry_ms)));
        }
        session.output.line(&line)?;
    }
    Ok(())
}

fn merge(session: &mut Session, arguments: &MergeArguments) -> Result<()> {
    let into = arguments.into.as_deref().unwrap_or(session.branch_in_use()).to_owned();
    let rule = match arguments.take {
        None => OnConflict::Refuse,
        Some(Side::Ours) => OnConflict::Ours,
        Some(Side::Theirs) => OnConflict::Theirs,
    };
    let mut options = MergeOptions::new().into_branch(&into).on_conflict(rule);
    options = options.dry_run(arguments.dry_run);
    if !arguments.family.is_empty() {
        options = options.families(arguments.family.iter().cloned());
    }
    let (db, from) = (session.db().clone(), arguments.from.clone());
    let report = aside("merging", move || db.merge_branch_with(&from, &options))??;
    let form = session.output.settings().form;
    let is_text = session.output.settings().style == Style::Text;
    let shown = report.conflicting_keys.iter().map(|ConflictingKey { family, key }| {
        Ok((family, key_form(session, &into, family)?.shown_or_bytes(key)))
    });
    let shown: Vec<_> = shown.collect::<Result<_>>()?;
    for (family, key) in shown.iter().filter(|_| is_text) {
        let mut line = format!("conflict\t{family}\t");
        form.render(key, &mut line);
        session.output.line(&line)?;
    }
    let keys = shown
        .iter()
        .map(|(family, key)| json!({ "family": family, "key": json::of_bytes(key, form) }));
    let keys: Vec<Value> = keys.collect();
    let object = json!({
        "merged": { "from": arguments.from, "into": into },
        "applied": report.is_applied,
        "written": report.written,
        "conflicts": report.conflicts,
        "conflicting_keys": keys,
    });
    session.output.result(&said(&report, arguments, &into), &object)?;
    tell_of_rest(session, &report);
    if report.conflicts > 0 && rule == OnConflict::Refuse {
        let conflicts = counted(report.conflicts, "conflict");
        return Err(Failure::Conflicts(format!("{conflicts}; nothing was merged")));
    }
    Ok(())
}

/// What a merge has done, in words.
fn said(report: &MergeReport, arguments: &MergeArguments, into: &str) -> String {
    let keys = counted(report.written, "key");
    let verb = match (report.is_applied, arguments.dry_run) {
        (true, _) => "merged",
        (false, true) => "would merge",
        (false, false) => return String::new(),
    };
    let conflicts = match report.conflicts {
        0 => String::new(),
        conflicts => format!(", {}", counted(conflicts, "conflict")),
    };
    format!("{verb} {} into {into}: {keys}{conflicts}", arguments.from)
}

/// Tells how many conflicts were not listed.
fn tell_of_rest(session: &Session, report: &MergeReport) {
    let rest = report.conflicts - report.conflicting_keys.len() as u64;
    if rest > 0 {
        let text = format!("{} not listed", counted(rest, "more conflict"));
        message(session.output.settings().style, &text);
    }
}
