//! The verb checkpoint: makes a second database beside the open one.

use crate::failure::Result;
use crate::progress::Progress;
use crate::session::Session;
use crate::text::counted;
use crate::verbs::backup::{RateArguments, copy_failure, shown};
use clap::Args;
use serde_json::json;
use siltdb::{Checkpoint, CheckpointOptions};
use std::path::PathBuf;

/// Text at the end of `silt checkpoint --help`.
pub const HELP: &str = "\
Table files are linked instead of copied where the file system supports it. So a checkpoint is \
fast and takes little space, but is no backup on the same disk. It is called DIR.partial until it \
is complete. With --copy, and on another file system, files are copied. With --family only these \
families of the branch are in the new database, besides an empty default one; with --branch alone \
all families of that branch. Such a checkpoint has no branches, and what is in memory is flushed \
first.

It also runs beside a process that has the database open, and on a database that may only be read. \
It then takes what was logged, writes nothing to the database, and says so on stderr.

Example:
  silt checkpoint demo.db demo-before.db
  silt checkpoint demo.db /mnt/disk/users.db --family users --copy
  silt checkpoint demo.db fix.db --branch fix";

/// Arguments of `checkpoint`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory of the new database, which must not exist or be empty.
    dir: PathBuf,
    /// Only this family; may be given several times [default: all]
    #[arg(long, value_name = "NAME")]
    family: Vec<String>,
    /// The branch of these families, or that of which to take all [default with --family: the one
    /// that is checked out]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Copy the files also where they could be linked.
    #[arg(long)]
    copy: bool,
    #[command(flatten)]
    rate: RateArguments,
}

/// Makes a database with the contents of the open one.
///
/// # Errors
/// Errors of the database; [`Failure::Interrupted`](crate::failure::Failure::Interrupted).
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let mut options = CheckpointOptions::new().copy(arguments.copy);
    if !arguments.family.is_empty() {
        let branch = arguments.branch.as_deref().unwrap_or(session.branch_in_use());
        options = options.families(&arguments.family).branch(branch);
    } else if let Some(branch) = &arguments.branch {
        options = options.branch(branch);
    }
    if let Some(rate) = arguments.rate.rate() {
        options = options.rate(rate);
    }
    let progress = Progress::bytes("making the checkpoint", None);
    let made = session.checkpoint(&arguments.dir, &options, &mut shown(&progress));
    drop(progress);
    let made = made.map_err(copy_failure)?;
    let Checkpoint { sequence, linked_files, copied_files, copied_bytes, .. } = made;
    let text = format!(
        "checkpoint in {}: {} linked, {copied_files} copied ({})",
        arguments.dir.display(),
        counted(linked_files, "file"),
        counted(copied_bytes, "byte")
    );
    let object = json!({
        "sequence": sequence,
        "linked_files": linked_files,
        "copied_files": copied_files,
        "copied_bytes": copied_bytes,
    });
    session.output.result(&text, &object)
}
