//! The verb inspect: what lies in a log, a manifest or a table, line by line.
//!
//! It reads files as they are and opens no database.

use crate::failure::{Failure, Result};
use crate::json;
use crate::output::{Output, Style};
use crate::session::exists;
use crate::text::Form;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use siltdb::{
    Error, ErrorKind,
    inspect::{self, Detail, Line},
};
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
    /// Show every operation of a record and every entry of a table as well.
    #[arg(long)]
    operations: bool,
}

/// Prints the records of a part, as `name=value` pairs or as objects.
///
/// # Errors
/// Those of the files and of stdout.
pub fn run(output: &mut Output, arguments: &Arguments) -> Result<()> {
    let path = arguments.path.as_path();
    if !exists(path)? {
        return Err(match arguments.part {
            Part::Table => Failure::Missing(format!("no table file. path={}", path.display())),
            Part::Wal | Part::Manifest => Failure::no_database(path),
        });
    }
    // A failure of stdout has its own kind: it ends the report and is what is told.
    let mut outcome = Ok(());
    let mut on_line = |line: Line| {
        outcome = print(output, &line);
        match outcome {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::new(ErrorKind::Io, "cannot print")),
        }
    };
    let detail = if arguments.operations { Detail::Operations } else { Detail::Records };
    let inspected = match arguments.part {
        Part::Wal => inspect::wal(path, detail, &mut on_line),
        Part::Manifest => inspect::manifest(path, detail, &mut on_line),
        Part::Table => inspect::table(path, detail, &mut on_line),
    };
    outcome?;
    Ok(inspected?)
}

fn print(output: &mut Output, line: &Line) -> Result<()> {
    let form = output.settings().form;
    if output.settings().style == Style::Text {
        return output.result(&text_of(line, form), &Value::Null);
    }
    let object: Map<String, Value> = line
        .fields
        .iter()
        .map(|field| {
            let value = match (field.number(), field.bytes()) {
                (Some(number), _) => Value::from(number),
                (_, Some(bytes)) => json::of_bytes(bytes, form),
                _ => Value::from(field.text()),
            };
            (field.name().to_owned(), value)
        })
        .collect();
    output.result("", &Value::Object(object))
}

/// The fields of `line`, its bytes in `form`; in the plain one as the library shows them, which can
/// be told again.
fn text_of(line: &Line, form: Form) -> String {
    if form == Form::Plain {
        return line.to_string();
    }
    let fields = line.fields.iter().map(|field| {
        let Some(bytes) = field.bytes() else {
            return format!("{}={}", field.name(), field.text());
        };
        let mut text = String::new();
        form.render(bytes, &mut text);
        match form {
            // A quotation mark inside could be taken for the closing one.
            Form::Escape => format!("{}=\"{}\"", field.name(), text.replace('"', "\\x22")),
            Form::Plain | Form::Hex => format!("{}={text}", field.name()),
        }
    });
    fields.collect::<Vec<_>>().join("  ")
}
