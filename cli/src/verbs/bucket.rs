//! The verbs on buckets: create, list, move, delete. Also the base of data verbs within a bucket.
//!
//! In the shell they work on the database that is open.

use crate::argument::{self, AtArguments, DurabilityArguments, FamilyArguments};
use crate::failure::Result;
use crate::opened::{On, existing, reading};
use crate::session::{Session, Start};
use crate::target::write;
use clap::{Args, Subcommand};
use serde_json::json;
use std::ffi::OsString;

/// Text at the end of the `--help` of the verbs.
pub const HELP: &str = "\
A path is the names from the root to the bucket, separated by /: at most 16, each of 1 to 255 \
bytes. get, put, delete, scan and count take it as --bucket. The cost of moving and deleting does \
not depend on the contents of the bucket. The keys of buckets in a deleted one are deleted later.

Other verbs hide the keys in which buckets are stored, and leave them alone, unless --raw-keys is \
given.

Example:
  silt bucket create demo.db ada/inbox
  silt put demo.db 1 hello --bucket ada/inbox
  silt scan demo.db --bucket ada/inbox
  silt bucket list demo.db ada
  silt bucket move demo.db ada/inbox ada/read
  silt bucket delete demo.db ada";

/// The verbs on buckets.
#[derive(Subcommand)]
pub enum BucketVerb {
    /// Create a bucket, and the missing ones on its path
    #[command(after_help = HELP)]
    Create(On<PathArguments>),
    /// List the buckets in a bucket, or at the root
    #[command(after_help = HELP)]
    List(On<ListArguments>),
    /// Move a bucket with everything in it to another path
    #[command(after_help = HELP)]
    Move(On<MoveArguments>),
    /// Delete a bucket with everything in it
    #[command(after_help = HELP)]
    Delete(On<PathArguments>),
}

impl BucketVerb {
    /// Runs the verb.
    ///
    /// # Errors
    /// The failure of the verb.
    pub fn run(self, start: Start) -> Result<()> {
        match self {
            Self::Create(on) => existing(&on, start, create),
            Self::List(on) => reading(&on, start, list),
            Self::Move(on) => existing(&on, start, rename),
            Self::Delete(on) => existing(&on, start, delete),
        }
    }
}

/// Arguments of `bucket create` and `bucket delete`.
#[derive(Args, Debug)]
pub struct PathArguments {
    /// The path of the bucket, such as a/b.
    path: OsString,
    #[command(flatten)]
    family: FamilyArguments,
}

/// Arguments of `bucket list`.
#[derive(Args, Debug)]
pub struct ListArguments {
    /// The bucket, such as a/b [default: the root]
    path: Option<OsString>,
    #[command(flatten)]
    family: FamilyArguments,
    #[command(flatten)]
    moment: AtArguments,
}

/// Arguments of `bucket move`.
#[derive(Args, Debug)]
pub struct MoveArguments {
    /// The present path.
    from: OsString,
    /// The new path.
    to: OsString,
    #[command(flatten)]
    family: FamilyArguments,
}

/// Creates a bucket and the missing ones on its path.
///
/// # Errors
/// Errors of the database: the bucket exists, or its path is not permitted.
pub fn create(session: &mut Session, arguments: &PathArguments) -> Result<()> {
    let path = argument::bucket_path(&arguments.path, session.output.settings().form)?;
    write(session, &arguments.family, DurabilityArguments::default(), |tx| {
        if let Some((_, before)) = path.split_last().filter(|(_, before)| !before.is_empty()) {
            tx.bucket(before)?.create_if_missing()?;
        }
        tx.bucket(&path)?.create()
    })?;
    session.output.result("", &json!({ "created": arguments.path.to_string_lossy() }))
}

/// Prints the names of the buckets in a bucket.
///
/// # Errors
/// Errors of the database and of stdout.
pub fn list(session: &mut Session, arguments: &ListArguments) -> Result<()> {
    let form = session.output.settings().form;
    let path = arguments.path.as_ref().map(|path| argument::bucket_path(path, form)).transpose()?;
    let scope = session.read_scope(arguments.family.name(), arguments.moment.at)?;
    let names = scope.bucket(&path.unwrap_or_default())?.children()?;
    names.iter().try_for_each(|name| session.output.key(name))
}

/// Moves a bucket with everything in it to another path.
///
/// # Errors
/// Errors of the database: the bucket is missing, or the new path is taken or not permitted.
pub fn rename(session: &mut Session, arguments: &MoveArguments) -> Result<()> {
    let form = session.output.settings().form;
    let from = argument::bucket_path(&arguments.from, form)?;
    let to = argument::bucket_path(&arguments.to, form)?;
    write(session, &arguments.family, DurabilityArguments::default(), |tx| {
        tx.bucket(&from)?.rename(&to).map(|_| ())
    })?;
    let (from, to) = (arguments.from.to_string_lossy(), arguments.to.to_string_lossy());
    session.output.result("", &json!({ "moved": { "from": from, "to": to } }))
}

/// Deletes a bucket with everything in it.
///
/// # Errors
/// Errors of the database: the bucket is missing.
pub fn delete(session: &mut Session, arguments: &PathArguments) -> Result<()> {
    let path = argument::bucket_path(&arguments.path, session.output.settings().form)?;
    write(session, &arguments.family, DurabilityArguments::default(), |tx| {
        tx.bucket(&path)?.remove()
    })?;
    if session.transactions.current().is_none() {
        session.family_of(arguments.family.name())?.reclaim_buckets()?;
    }
    session.output.result("", &json!({ "deleted": arguments.path.to_string_lossy() }))
}
