//! The verb retain: from which sequence number on history is kept.
//!
//! It does not open the database.

use crate::failure::Result;
use crate::session::{Opening, Session};
use crate::whole_number::{any_number, expected};
use clap::Args;
use serde_json::json;
use siltdb::RetentionFloor;

/// What `silt retain --help` says at its end.
pub const HELP: &str = "\
From the retention floor on every version of every key is kept, so that `--at SEQ` of get, scan, \
count, export, bucket list and clone can read each state. The floor holds until it is changed, and \
the database grows with each write. `--from SEQ` raises the floor; states that were not kept do \
not come back, so the first floor is the newest sequence number. Compactions then free the space \
below it; `silt compact` does so at once. Without options nothing is changed.

Example:
  silt retain demo.db --from now
  silt get demo.db SEA --at 1200
  silt retain demo.db --from 1200
  silt retain demo.db --off";

/// Arguments of `retain`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Keep history from this sequence number on, or from the newest, which is `now`
    #[arg(long, value_name = "SEQ", value_parser = parse_floor, conflicts_with = "off")]
    from: Option<RetentionFloor>,
    /// Keep no history any more
    #[arg(long)]
    off: bool,
}

impl Arguments {
    /// Decides whether the verb writes.
    pub fn opening(&self) -> Opening {
        if self.change().is_some() { Opening::Write } else { Opening::Read }
    }

    fn change(&self) -> Option<RetentionFloor> {
        self.from.or(self.off.then_some(RetentionFloor::None))
    }
}

/// Parses a sequence number, or `now`.
///
/// # Errors
/// A message that says what was expected.
fn parse_floor(text: &str) -> std::result::Result<RetentionFloor, String> {
    match any_number(text) {
        Ok(sequence) => Ok(RetentionFloor::Sequence(sequence)),
        Err(_) if text.eq_ignore_ascii_case("now") => Ok(RetentionFloor::Now),
        Err(_) => Err(expected("`now`, or a sequence number", &(0..=u64::MAX))),
    }
}

/// Changes the retention floor, if that is asked for, and prints it and the newest sequence number.
///
/// # Errors
/// Errors of the database: the number is below the floor, or no commit has it yet.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    if let Some(floor) = arguments.change() {
        session.db().set_retention_floor(floor)?;
    }
    let (floor, newest) = (session.db().retention_floor(), session.db().stats().sequence);
    let shown = floor.map_or_else(|| "none".to_owned(), |floor| floor.to_string());
    let text = format!("floor  {shown}\nnewest {newest}");
    session.output.result(&text, &json!({ "floor": floor, "newest": newest }))
}
