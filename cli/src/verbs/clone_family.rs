//! The verb clone: a family that begins with the tables of another.
//!
//! It does not open the database.

use crate::argument::AtArguments;
use crate::failure::Result;
use crate::session::Session;
use crate::text::counted;
use crate::verbs::upkeep::aside;
use clap::Args;
use serde_json::json;

/// What `silt clone --help` says at its end.
pub const HELP: &str = "\
Both families share the tables that there are, and no entry is copied: a clone takes a flush and a \
moment, and hardly any space until one of the two is written to. From then on neither sees what is \
written to the other. It is a family as any other, and outlives its source. `silt stats` counts \
shared tables in each.

Example:
  silt clone demo.db default before-the-import
  silt clone demo.db default as-it-was --at 1200
  silt scan demo.db --family before-the-import --limit 3
  silt families drop demo.db before-the-import";

/// What `clone` is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The family whose data and options the new one gets.
    source: String,
    /// The name of the new family.
    new: String,
    #[command(flatten)]
    moment: AtArguments,
}

/// Makes a family of what another holds now, or held.
///
/// # Errors
/// [`Failure::Missing`](crate::failure::Failure::Missing), if there is no such family; those of the
/// database: a family has the new name, the name is not allowed, or the state is not kept.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let source = session.family(Some(&arguments.source))?;
    let (db, name) = (session.db().clone(), arguments.new.clone());
    let at = arguments.moment.at.map(|at| db.snapshot_at(at)).transpose()?;
    let clone = aside("cloning", move || match at {
        Some(at) => db.clone_family_at(&at, &source, &name),
        None => db.clone_family(&source, &name),
    })??;
    let stats = clone.stats();
    let (tables, bytes): (u64, u64) = (stats.tables.iter().sum(), stats.table_bytes.iter().sum());
    let Arguments { source, new, .. } = arguments;
    let shared = format!("{} shared ({})", counted(tables, "table"), counted(bytes, "byte"));
    let text = format!("cloned {source} as {new}: {shared}");
    let object = json!({
        "cloned": { "from": source, "to": new },
        "shared_tables": tables,
        "shared_bytes": bytes,
    });
    session.output.result(&text, &object)
}
