//! The verb ingest: adds table files to a family of the open database, all or none.

use crate::argument::FamilyArguments;
use crate::failure::{Failure, Result};
use crate::session::{MAIN, Session};
use crate::text::counted;
use crate::verbs::families::open_family;
use crate::verbs::upkeep::aside;
use clap::Args;
use serde_json::json;
use siltdb::{Ingested, inspect::refuse_foreign};
use std::{fs::File, path::PathBuf};

/// Text at the end of `silt ingest --help`.
pub const HELP: &str = "\
Adds files of `silt table`, or of the library's `TableFileWriter`. The files are copied, and every \
block is verified. Either all files are added, or none. Two files must not overlap in their keys. \
Their entries replace those of the same keys in the database. A missing family is created.

Example:
  silt ingest demo.db users-1.table users-2.table --family users";

/// Arguments of `ingest`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The table files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    family: FamilyArguments,
}

impl Arguments {
    /// Checks that the files can be opened, so that a wrong name creates no database.
    ///
    /// # Errors
    /// [`Failure::File`]; `Unsupported`, if one is a database of another engine.
    pub fn check(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| match File::open(file) {
            Ok(_) => Ok(refuse_foreign(file)?),
            Err(error) => Err(Failure::file("open", file.display().to_string(), error)),
        })
    }
}

/// Adds the files. A family that was created for them is dropped again if that fails.
///
/// # Errors
/// Errors of the database.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let db = session.db().clone();
    let names = db.families();
    let name = arguments.family.name();
    let is_on_main = name.branch.unwrap_or(session.branch_in_use()) == MAIN;
    let is_new = |name: &&str| is_on_main && names.iter().all(|known| known != name);
    let created = name.family.filter(is_new);
    let family = open_family(session, name)?;
    let files: Vec<_> = arguments.files.iter().map(|file| (family.clone(), file.clone())).collect();
    drop(family);
    let ingesting = db.clone();
    let ingested = aside("ingesting", move || ingesting.ingest(&files))?;
    let ingested = ingested.map_err(|error| match created {
        Some(name) if db.drop_family(name).is_ok() => {
            Failure::from(error).with_note(format!("dropped family `{name}` again"))
        }
        _ => error.into(),
    })?;
    let Ingested { sequence, entries, tables, bytes, .. } = ingested;
    let (records, in_tables) = (counted(entries, "record"), counted(tables, "table"));
    let text = format!("ingested {records} in {in_tables} ({})", counted(bytes, "byte"));
    let object = json!({
        "ingested": entries,
        "sequence": sequence,
        "tables": tables,
        "bytes": bytes,
    });
    session.output.result(&text, &object)
}
