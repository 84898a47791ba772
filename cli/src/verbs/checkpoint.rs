//! The verb checkpoint: makes a second database beside the open one.

use crate::failure::Result;
use crate::session::Session;
use crate::verbs::upkeep::aside;
use clap::Args;
use serde_json::json;
use siltdb::Checkpoint;
use std::path::PathBuf;

/// Text at the end of `silt checkpoint --help`.
pub const HELP: &str = "\
Table files are linked instead of copied where the file system supports it. So a checkpoint is \
fast and takes little space, but is no backup on the same disk. It is called DIR.partial until it \
is complete.

Example:
  silt checkpoint demo.db demo-before.db";

/// Arguments of `checkpoint`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory of the new database, which must not exist or be empty.
    dir: PathBuf,
}

/// Makes a database with the contents of the open one.
///
/// # Errors
/// Errors of the database.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let (db, dir) = (session.db().clone(), arguments.dir.clone());
    let made = aside("making the checkpoint", move || db.checkpoint(dir))??;
    let Checkpoint { sequence, linked_files, copied_files, copied_bytes, .. } = made;
    let text = format!(
        "checkpoint in {}: {linked_files} files linked, \
         {copied_files} copied ({copied_bytes} bytes)",
        arguments.dir.display()
    );
    let object = json!({
        "sequence": sequence,
        "linked_files": linked_files,
        "copied_files": copied_files,
        "copied_bytes": copied_bytes,
    });
    session.output.result(&text, &object)
}
