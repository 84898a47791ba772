//! The verb families: lists, creates, drops and renames families, and changes their options.
//!
//! In the shell it works on the database that is open.

use crate::argument::{Setting, a_ttl, parse_setting};
use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::opened::{Nothing, On, existing, open, writing};
use crate::output::{Style, message};
use crate::scope::FamilyName;
use crate::session::{DEFAULT_FAMILY, MAIN, Opening, Session, Start};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use siltdb::{Family, FamilyOptions};
use std::{path::PathBuf, time::Duration};

/// Text at the end of `silt families --help`, and of the help of its verbs.
pub const HELP: &str = "\
Example:
  silt families demo.db
  silt families create demo.db users
  silt families create demo.db events key_order=u64 --ttl 7d
  silt families rename demo.db users people
  silt families options demo.db people
  silt families options demo.db people compression=none level0_runs=4
  silt families drop demo.db people";

/// Arguments of `families`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct FamiliesArguments {
    /// The directory of the database.
    #[arg(required = true)]
    db: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<FamiliesVerb>,
}

#[derive(Subcommand)]
enum FamiliesVerb {
    /// List the families, as `silt families DB` does
    #[command(after_help = HELP)]
    List(On<Nothing>),
    /// Create a family
    #[command(after_help = HELP)]
    Create(On<CreateArguments>),
    /// Drop a family with everything in it
    #[command(after_help = HELP)]
    Drop(On<NameArguments>),
    /// Rename a family
    #[command(after_help = HELP)]
    Rename(On<RenameArguments>),
    /// Print the options of a family, or change some
    #[command(after_help = HELP)]
    Options(On<OptionsArguments>),
}

impl FamiliesArguments {
    /// Runs the verb.
    ///
    /// # Errors
    /// The failure of the verb.
    pub fn run(self, start: Start) -> Result<()> {
        match self.verb {
            None => {
                let db = self.db.expect("the command line demands it without a subverb");
                open(&db, Opening::Read, start, list)
            }
            Some(FamiliesVerb::List(on)) => open(&on.db, Opening::Read, start, list),
            Some(FamiliesVerb::Create(on)) => existing(&on, start, create),
            Some(FamiliesVerb::Drop(on)) => existing(&on, start, drop),
            Some(FamiliesVerb::Rename(on)) => existing(&on, start, rename),
            Some(FamiliesVerb::Options(on)) => writing(&on, on.arguments.opening(), start, options),
        }
    }
}

/// Arguments of `families create`.
#[derive(Args, Debug)]
pub struct CreateArguments {
    /// The name of the family.
    name: String,
    /// Options that differ from the defaults, as key_order=u64; `families options` prints them all.
    #[arg(value_name = "NAME=VALUE", value_parser = parse_setting)]
    options: Vec<Setting>,
    /// Values whose write gives no expiry expire after this time: `90s`, `30m`, `12h` or `7d`
    /// [default: never]
    #[arg(long, value_name = "TIME", value_parser = a_ttl)]
    ttl: Option<Duration>,
}

/// Arguments of `families drop`.
#[derive(Args, Debug)]
pub struct NameArguments {
    /// The name of the family.
    name: String,
}

/// Arguments of `families rename`.
#[derive(Args, Debug)]
pub struct RenameArguments {
    /// The present name.
    from: String,
    /// The new name.
    to: String,
}

/// Arguments of `families options`.
#[derive(Args, Debug)]
pub struct OptionsArguments {
    /// The name of the family.
    name: String,
    /// Options to change, as level0_runs=4; without any, all are printed.
    #[arg(value_name = "NAME=VALUE", value_parser = parse_setting)]
    changes: Vec<Setting>,
}

impl OptionsArguments {
    /// Returns the purpose of the opening.
    pub fn opening(&self) -> Opening {
        if self.changes.is_empty() { Opening::Read } else { Opening::Write }
    }
}

/// Changes options of a family, or prints them all.
///
/// # Errors
/// [`Failure::Usage`] for an unknown name or a bad value; [`Failure::Missing`]; errors of the
/// database.
pub fn options(session: &mut Session, arguments: &OptionsArguments) -> Result<()> {
    let family = session.family(Some(&arguments.name))?;
    let mut options = family.options();
    change(&mut options, &arguments.changes)?;
    if !arguments.changes.is_empty() {
        family.set_options(&options)?;
        return session.output.result("", &json!({ "changed": arguments.name }));
    }
    let entries = options.entries();
    let lines: Vec<_> = entries.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let object: Map<String, Value> =
        entries.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    session.output.result(&lines.join("\n"), &Value::Object(object))
}

/// Sets options by name.
///
/// # Errors
/// [`Failure::Usage`] for an unknown name or a bad value.
pub fn change(options: &mut FamilyOptions, changes: &[Setting]) -> Result<()> {
    changes.iter().try_for_each(|(name, value)| {
        options.set(name, value).map_err(|error| Failure::Usage(told(&error)))
    })
}

/// Prints the names of the families, in order.
///
/// # Errors
/// Errors of stdout.
pub fn list(session: &mut Session) -> Result<()> {
    let names = session.family_names();
    if session.output.settings().style == Style::Json {
        return session.output.result("", &json!({ "families": names }));
    }
    names.iter().try_for_each(|name| session.output.bytes(name.as_bytes()))
}

/// Creates a family.
///
/// # Errors
/// [`Failure::Usage`] for an unknown option or a bad value; errors of the database: a family of
/// this name exists, or the name is not permitted.
pub fn create(session: &mut Session, arguments: &CreateArguments) -> Result<()> {
    session.check_on_main()?;
    let mut options = FamilyOptions::new();
    change(&mut options, &arguments.options)?;
    if let Some(ttl) = arguments.ttl {
        options = options.ttl(ttl);
    }
    session.db().create_family(&arguments.name, options)?;
    session.output.result("", &json!({ "created": arguments.name }))
}

/// Drops a family and everything in it.
///
/// # Errors
/// [`Failure::Usage`] if the family is in use; errors of the database: it is missing, or cannot be
/// dropped.
pub fn drop(session: &mut Session, arguments: &NameArguments) -> Result<()> {
    session.check_on_main()?;
    session.family(Some(&arguments.name))?;
    // Later commands would run in another family. The default family cannot be dropped anyway.
    if session.family_in_use() == arguments.name && arguments.name != DEFAULT_FAMILY {
        let reason = format!("the family `{}` is in use", arguments.name);
        return Err(Failure::Usage(format!("{reason}; `use {DEFAULT_FAMILY}` first")));
    }
    session.db().drop_family(&arguments.name)?;
    session.output.result("", &json!({ "dropped": arguments.name }))
}

/// Renames a family.
///
/// # Errors
/// Errors of the database: the family is missing, or the new name is taken or not permitted.
pub fn rename(session: &mut Session, arguments: &RenameArguments) -> Result<()> {
    let RenameArguments { from, to } = arguments;
    session.check_on_main()?;
    session.family(Some(from))?;
    session.db().rename_family(from, to)?;
    if session.family_in_use() == from {
        session.use_family(to)?;
    }
    session.output.result("", &json!({ "renamed": { "from": from, "to": to } }))
}

/// Returns the family to fill, and creates it if it is missing on `main`.
///
/// # Errors
/// Errors of the database.
pub fn open_family(session: &Session, name: FamilyName<'_>) -> Result<Family> {
    let found = session.family_of(name);
    let is_on_main = name.branch.unwrap_or(session.branch_in_use()) == MAIN;
    let (Err(Failure::Missing(_)), Some(name), true) = (&found, name.family, is_on_main) else {
        return found;
    };
    let family = session.db().create_family(name, FamilyOptions::new())?;
    message(session.output.settings().style, &format!("created family `{name}`"));
    Ok(family)
}
