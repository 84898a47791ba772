//! The verb table: writes the records of a file to a table file, which `ingest` adds to databases.
//!
//! It opens no database.

use crate::argument::{Setting, parse_setting};
use crate::failure::Result;
use crate::key_form::KeyForm;
use crate::output::Output;
use crate::text::counted;
use crate::verbs::families::change;
use crate::verbs::import::{Job, input::InputArguments};
use clap::Args;
use serde_json::json;
use siltdb::{FamilyOptions, KeyOrder, TableFileInfo, TableFileWriter};
use std::path::PathBuf;

/// Text at the end of `silt table --help`.
pub const HELP: &str = "\
The records are read as by `silt import`, and must ascend by their keys. The table file can be \
written on any machine, without a database; `silt ingest` adds it to one. An existing file is \
refused. Options are those of the family that takes the file: key_order must be the same, ttl \
gives values an expiry, and the others shape the table. A failure or Ctrl-C leaves no file. A \
killed process leaves one that no ingest accepts.

Example:
  silt table sorted.jsonl sorted.table
  silt table readings.csv readings.table key_order=u64 ttl=7d
  silt export demo.db --format lines --escape | silt table - demo.table --format lines --escape";

/// Arguments of `table`.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    input: InputArguments,
    /// The table file to write.
    table: PathBuf,
    /// Options that differ from the defaults, as key_order=u64.
    #[arg(value_name = "NAME=VALUE", value_parser = parse_setting)]
    options: Vec<Setting>,
}

/// Writes a table file.
///
/// # Errors
/// [`Failure::Usage`](crate::failure::Failure::Usage) with the line of a bad record, or of one out
/// of order; errors of the files.
pub fn run(output: &mut Output, arguments: &Arguments) -> Result<()> {
    let job = arguments.input.job(output.settings(), "writing the table")?;
    let TableFileInfo { entries, bytes, .. } = write(job, output, arguments)?;
    let (records, size) = (counted(entries, "record"), counted(bytes, "byte"));
    let text = format!("wrote {records} to {} ({size})", arguments.table.display());
    output.result(&text, &json!({ "records": entries, "bytes": bytes }))
}

fn write(mut job: Job, output: &Output, arguments: &Arguments) -> Result<TableFileInfo> {
    let mut options = FamilyOptions::new();
    change(&mut options, &arguments.options)?;
    let order = KeyOrder::named(&options.get("key_order")?)?;
    let keys = KeyForm::new(output.settings().form, order);
    let mut table = TableFileWriter::create(&arguments.table, &options)?;
    job.each_sorted(&keys, &mut |record| {
        table.put_with(&record.key, &record.value, &record.write_options(None))
    })?;
    job.tell(output.settings().style);
    Ok(table.finish()?)
}
