//! The verb checkpoint: a second database beside the one that is open.

use crate::failure::Result;
use crate::session::Session;
use crate::verbs::upkeep::aside;
use clap::Args;
use serde_json::json;
use siltdb::Checkpoint;
use std::path::PathBuf;

/// What `silt checkpoint --help` says at its end.
pub const HELP: &str = "\
Files of tables are linked, not copied, where the file system can: a checkpoint takes a moment and \
hardly any space, and shares the fate of the disk it is on. It is whole or not there: until it is \
whole it is called DIR.partial.

Example:
  silt checkpoint demo.db demo-before.db";

/// What `checkpoint` is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory of the new database, which must not exist or be empty.
    dir: PathBuf,
}

/// Makes a database of what the open one holds.
///
/// # Errors
/// Those of the database.
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
