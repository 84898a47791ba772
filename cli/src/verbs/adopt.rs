//! The verb adopt: gives its cold tables to a database that was copied or moved.

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::session::exists;
use crate::text::counted;
use crate::verbs::backup::{copy_failure, shown};
use clap::Args;
use serde_json::json;
use siltdb::{ColdAdoption, Options};
use std::path::PathBuf;

/// Text at the end of its `--help`.
pub const HELP: &str = "\
The cold directory of a database belongs to one directory. A copy of that directory, as by cp -r, \
opens for reading alone until it is adopted, and so does one that was moved to another file \
system. adopt copies the cold tables into the database, which has no cold directory from then on; \
the other one keeps its own. --take-over makes it the owner instead, and copies nothing: for a \
database that was moved. The other one is then refused in its turn.

Example:
  cp -r demo.db copy.db; silt adopt copy.db
  mv demo.db /mnt/disk/demo.db; silt adopt /mnt/disk/demo.db --take-over";

/// Arguments of `adopt`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory of the database.
    db: PathBuf,
    /// Become the owner of the cold directory
    #[arg(long)]
    take_over: bool,
}

/// Adopts the cold tables of a database.
///
/// # Errors
/// [`Failure::Missing`] if there is none; [`Failure::Interrupted`]; errors of the database.
pub fn run(output: &mut Output, options: Options, arguments: &Arguments) -> Result<()> {
    let path = &arguments.db;
    if !exists(path)? {
        return Err(Failure::no_database(path));
    }
    let options = options.lock_wait(output.settings().wait);
    let adoption = match arguments.take_over {
        true => ColdAdoption::TakesOver,
        false => ColdAdoption::Copies,
    };
    let progress = Progress::bytes("copying", None);
    let adopted = options.adopt(path, adoption, &mut shown(&progress));
    drop(progress);
    let adopted = adopted.map_err(copy_failure)?;
    let text = match (adoption, adopted.tables) {
        (ColdAdoption::TakesOver, _) => "the cold directory belongs to this database".to_owned(),
        (ColdAdoption::Copies, 0) => "no table lies in the cold directory of another".to_owned(),
        (ColdAdoption::Copies, tables) => {
            format!("copied {}, {}", counted(tables, "table"), counted(adopted.bytes, "byte"))
        }
    };
    output.result(&text, &json!({ "tables": adopted.tables, "bytes": adopted.bytes }))
}
