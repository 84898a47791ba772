//! The verbs freeze and thaw: move the tables of a family to the cold tier, and back.

use crate::failure::Result;
use crate::progress::Progress;
use crate::session::Session;
use crate::text::counted;
use crate::verbs::backup::{RateArguments, copy_failure, shown};
use clap::Args;
use serde_json::json;
use siltdb::Family;

/// Text at the end of `silt freeze --help`.
pub const FREEZE_HELP: &str = "\
The family can be read and written as before; what is written to it later moves, too, until thaw. \
--cold names the directory of the cold tier, the first time and after it was moved; the database \
remembers it. Ctrl-C ends it: what has moved stays moved, and the next program that opens the \
database goes on in the background.

Example:
  silt freeze demo.db archive --cold /mnt/disk/demo-cold
  silt stats demo.db --family archive";

/// Text at the end of `silt thaw --help`.
pub const THAW_HELP: &str = "\
The tables come back to the directory of the database, which needs room for them, and stay there.

Example:
  silt thaw demo.db archive";

/// Arguments of `freeze` and `thaw`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The family whose tables move.
    family: String,
    #[command(flatten)]
    rate: RateArguments,
}

/// Moves the tables of a family to the cold tier.
///
/// # Errors
/// [`Failure::Missing`](crate::failure::Failure::Missing), if there is no such family; those of the
/// database; [`Failure::Interrupted`](crate::failure::Failure::Interrupted).
pub fn freeze(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let family = session.family(Some(&arguments.family))?;
    let progress = Progress::bytes("freezing", None);
    let moved = family.freeze_with(&arguments.rate.options(), &mut shown(&progress));
    drop(progress);
    moved.map_err(copy_failure)?;
    print(session, "frozen", &family)
}

/// Moves the tables of a family back.
///
/// # Errors
/// As [`freeze`].
pub fn thaw(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let family = session.family(Some(&arguments.family))?;
    let progress = Progress::bytes("thawing", None);
    let moved = family.thaw_with(&arguments.rate.options(), &mut shown(&progress));
    drop(progress);
    moved.map_err(copy_failure)?;
    print(session, "thawed", &family)
}

fn print(session: &mut Session, done: &str, family: &Family) -> Result<()> {
    let stats = family.stats();
    let hot = stats.tables.iter().sum::<u64>().saturating_sub(stats.cold_tables);
    let text = format!(
        "{done} {}: {} in the cold tier ({}), {} in the hot tier ({})",
        family.name(),
        counted(stats.cold_tables, "table"),
        counted(stats.cold_bytes, "byte"),
        counted(hot, "table"),
        counted(stats.hot_bytes, "byte"),
    );
    let object = json!({
        done: family.name(),
        "cold_tables": stats.cold_tables,
        "cold_bytes": stats.cold_bytes,
        "hot_tables": hot,
        "hot_bytes": stats.hot_bytes,
    });
    session.output.result(&text, &object)
}
