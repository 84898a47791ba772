//! The verb inspect: what lies in a log, a manifest or a table, line by line.
//!
//! It reads files as they are and opens no database.

use crate::failure::{Failure, Result};
use crate::output::Output;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use siltdb::inspect;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// What is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The records of the write-ahead log.
    Wal,
    /// The edits of the manifest.
    Manifest,
    /// The blocks and properties of a table.
    Table,
}

/// What `inspect` is told.
#[derive(Args, Debug)]
pub struct Arguments {
    /// What to look into.
    part: Part,
    /// The database; for a table, its file, as in `demo.db/000012.table`.
    path: PathBuf,
}

/// Prints the records of a part, as `name=value` pairs or as objects.
///
/// # Errors
/// Those of the files and of stdout.
pub fn run(output: &mut Output, arguments: &Arguments) -> Result<()> {
    let path = arguments.path.as_path();
    if !path.exists() {
        return Err(match arguments.part {
            Part::Table => Failure::Missing(format!("no table file. path={}", path.display())),
            Part::Wal | Part::Manifest => Failure::no_database(path),
        });
    }
    let mut outcome = Ok(());
    let mut on_line = |line: inspect::Line| {
        outcome = print(output, line);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    match arguments.part {
        Part::Wal => inspect::wal(path, &mut on_line),
        Part::Manifest => inspect::manifest(path, &mut on_line),
        Part::Table => inspect::table(path, &mut on_line),
    }?;
    outcome
}

fn print(output: &mut Output, line: inspect::Line) -> Result<()> {
    let mut text = String::new();
    for (name, value) in &line {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(name);
        text.push('=');
        output.settings().form.render(value.as_bytes(), &mut text);
    }
    let fields = line.into_iter().map(|(name, value)| (name.to_owned(), Value::from(value)));
    let object: Map<String, Value> = fields.collect();
    output.result(&text, &Value::Object(object))
}
