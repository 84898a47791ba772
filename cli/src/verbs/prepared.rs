//! The verb prepared: transactions that wait for their decision, and deciding them.
//!
//! It does not open the database; `txn --prepare` and the shell prepare transactions.

use crate::argument::{self, DurabilityArguments};
use crate::failure::Result;
use crate::json::of_bytes;
use crate::output::Style;
use crate::scope::label;
use crate::session::{Opening, Session};
use crate::text::{counted, shortened_bytes};
use clap::{Args, Subcommand};
use serde_json::json;
use siltdb::{Db, Durability, PreparedTransaction, WriteOptions};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// Text at the end of its `--help`.
pub const HELP: &str = "\
A prepared transaction is durable and waits for its decision, also after a crash; until then what \
it wrote is locked. `silt txn --prepare ID` prepares one. Without a subverb those that wait are \
listed: id, families, operations, bytes, seconds since it was prepared. One that does not wait, or \
waits no more, ends with exit code 1.

Example:
  printf 'incr alice -10\\ncheck alice >= 0\\n' | silt txn a.db - --prepare transfer:1
  printf 'incr bob 10\\n' | silt txn b.db - --prepare transfer:1
  silt prepared a.db
  silt prepared commit a.db transfer:1
  silt prepared commit b.db transfer:1
  silt prepared rollback demo.db transfer:2";

/// Arguments of `prepared` on the command line.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    /// The directory of the database.
    #[arg(required = true)]
    db: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<On>,
}

/// A subverb, and the database it works on.
#[derive(Subcommand, Debug)]
enum On {
    /// List the transactions that wait, as `silt prepared DB` does
    #[command(after_help = HELP)]
    List {
        /// The directory of the database.
        db: PathBuf,
    },
    /// Commit a prepared transaction
    #[command(after_help = HELP)]
    Commit {
        /// The directory of the database.
        db: PathBuf,
        #[command(flatten)]
        arguments: DecisionArguments,
    },
    /// Roll a prepared transaction back
    #[command(after_help = HELP)]
    Rollback {
        /// The directory of the database.
        db: PathBuf,
        #[command(flatten)]
        arguments: DecisionArguments,
    },
}

/// Subverbs of `prepared` in the shell.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// List the transactions that wait
    List,
    /// Commit a prepared transaction
    Commit(DecisionArguments),
    /// Roll a prepared transaction back
    Rollback(DecisionArguments),
}

/// Arguments of a decision.
#[derive(Args, Debug)]
pub struct DecisionArguments {
    /// The id that it was prepared with.
    #[arg(allow_negative_numbers = true)]
    id: OsString,
    #[command(flatten)]
    durability: DurabilityArguments,
}

impl Arguments {
    /// Returns the database, how it is opened, and the subverb.
    pub fn parts(self) -> (PathBuf, Opening, Verb) {
        match self.verb {
            None => {
                let db = self.db.expect("the command line demands it without a subverb");
                (db, Opening::Read, Verb::List)
            }
            Some(On::List { db }) => (db, Opening::Read, Verb::List),
            Some(On::Commit { db, arguments }) => (db, Opening::Write, Verb::Commit(arguments)),
            Some(On::Rollback { db, arguments }) => (db, Opening::Write, Verb::Rollback(arguments)),
        }
    }
}

/// Lists prepared transactions, or decides one.
///
/// # Errors
/// Errors of the database: no such transaction waits for its decision.
pub fn run(session: &mut Session, verb: &Verb) -> Result<()> {
    match verb {
        Verb::List => list(session),
        Verb::Commit(arguments) => {
            let (id, options) = arguments.parse(session)?;
            let committed = session.db().commit_prepared_with(&id, &options)?;
            let form = session.output.settings().form;
            let text = format!("committed {}", shortened_bytes(&id));
            let sequence = committed.sequence;
            let object = json!({ "committed": of_bytes(&id, form), "sequence": sequence });
            session.output.result(&text, &object)
        }
        Verb::Rollback(arguments) => {
            let (id, options) = arguments.parse(session)?;
            session.db().rollback_prepared_with(&id, &options)?;
            let form = session.output.settings().form;
            let text = format!("rolled back {}", shortened_bytes(&id));
            session.output.result(&text, &json!({ "rolled_back": of_bytes(&id, form) }))
        }
    }
}

impl DecisionArguments {
    fn parse(&self, session: &Session) -> Result<(Vec<u8>, WriteOptions)> {
        let id = argument::bytes(&self.id, session.output.settings().form)?;
        let durability = self.durability.or(Durability::Synced);
        Ok((id, WriteOptions::new().durability(durability)))
    }
}

fn list(session: &mut Session) -> Result<()> {
    let prepared = session.db().prepared();
    let settings = session.output.settings();
    for transaction in &prepared {
        let families = families(session.db(), transaction);
        let since = transaction.since();
        let seconds = since.elapsed().map_or(0, |elapsed| elapsed.as_secs());
        let since_ms = since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let mut text = String::new();
        settings.form.render(transaction.id(), &mut text);
        let (operations, bytes) = (transaction.operations(), transaction.bytes());
        let (count, size) =
            (counted(operations as u64, "operation"), counted(bytes as u64, "byte"));
        text.push_str(&format!("\t{}\t{count}\t{size}\t{seconds} s", families.join(",")));
        let object = json!({
            "id": of_bytes(transaction.id(), settings.form),
            "families": families,
            "operations": operations,
            "bytes": bytes,
            "since_ms": u64::try_from(since_ms).unwrap_or(u64::MAX),
        });
        session.output.result(&text, &object)?;
    }
    if prepared.is_empty() && settings.style == Style::Text {
        session.output.result("none waits for its decision", &json!(null))?;
    }
    Ok(())
}

/// The names of the families that a transaction writes to, or their numbers if they were dropped.
fn families(db: &Db, transaction: &PreparedTransaction) -> Vec<String> {
    let name = |id| match db.family_by_id(id) {
        Ok(family) => label(&family),
        Err(_) => format!("#{id}"),
    };
    transaction.families().into_iter().map(name).collect()
}
