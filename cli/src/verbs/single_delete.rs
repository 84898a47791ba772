//! The verb single-delete: deletes a key that was put once.
//!
//! It does not open the database.

use crate::failure::Result;
use crate::scope::Scope;
use crate::session::Session;
use crate::target::WriteArguments;
use clap::Args;
use serde_json::json;
use siltdb::{Durability, WriteBatch};
use std::ffi::OsString;

/// Text at the end of its `--help`.
pub const HELP: &str = "\
Only for a key that was put exactly once since its last single-delete, or ever, and neither \
deleted, merged nor put with a TTL since. The next compaction drops both entries together, where a \
deletion stays until it has met every older value. Warning: on any other key an older value may \
appear again. If in doubt, use `silt delete`.

Example:
  silt single-delete demo.db job:17
  silt single-delete demo.db job:17 --family jobs";

/// Arguments of `single-delete`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The key to delete, which was put once.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[command(flatten)]
    target: WriteArguments,
}

/// Deletes a key that was put once.
///
/// # Errors
/// Errors of the database.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let (_, key) = arguments.target.key(session, &arguments.key)?;
    match session.scope(arguments.target.family.name())? {
        Scope::Transaction(transaction) => {
            arguments.target.durability.refuse_in_transaction()?;
            transaction.single_delete(&key)?;
        }
        Scope::Committed(family) => {
            let mut batch = WriteBatch::new();
            batch.single_delete(&family, &key)?;
            session.write_once(batch, arguments.target.durability.or(Durability::Synced))?;
        }
    }
    session.output.result("", &json!({ "operations": 1 }))
}
