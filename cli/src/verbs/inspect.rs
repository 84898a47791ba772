//! The verb inspect: prints the contents of a log, a manifest, a table or a blob file, line by
//! line.
//!
//! It reads files in place, and opens no database.

use crate::failure::{Failure, Result};
use crate::json;
use crate::output::{Output, Style};
use crate::session::exists;
use crate::text::Form;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use siltdb::{
    Error, ErrorKind,
    inspect::{self, Detail, Line},
};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The part of a database to inspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The records of the write-ahead log.
    Wal,
    /// The edits of the manifest.
    Manifest,
    /// The blocks and properties of a table.
    Table,
    /// The records of a blob file.
    Blob,
}

/// Text at the end of `silt inspect --help`.
pub const HELP: &str = "\
The part and the database may have either order. Keys are printed between quotation marks, with a \
backslash before a quotation mark or backslash, and any byte that is not printable ASCII as \
\\xNN. --escape, --hex and --json print them as other verbs do; --escape adds quotation marks, and \
prints one inside as \\x22. The greatest possible key, which ends a deletion of a range without an \
end, is `greatest-key` without quotes; with --json {\"greatest\": true}.

Example:
  silt inspect wal demo.db | head
  silt inspect manifest demo.db --json
  silt inspect table demo.db/000012.table
  silt inspect blob demo.db/000013.blob";

/// Arguments of `inspect`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// What to look into: `wal`, `manifest`, `table` or `blob`.
    part: OsString,
    /// The database; for a table or blob file, the file, as in `demo.db/000012.table`.
    path: Option<OsString>,
    /// Show every operation of a record and every entry of a table as well, and verify each blob.
    #[arg(long)]
    operations: bool,
}

impl Arguments {
    /// Returns the part and its path, given in either order. For a table or blob file, the file
    /// alone is enough.
    fn subject(&self) -> Result<(Part, &Path)> {
        let part = |text: &OsStr| Part::from_str(text.to_str()?, true).ok();
        let first = Path::new(&self.part);
        let Some(second) = &self.path else {
            let has = |kind: &str| first.extension().is_some_and(|extension| extension == kind);
            return match (has("table"), has("blob")) {
                (true, _) => Ok((Part::Table, first)),
                (_, true) => Ok((Part::Blob, first)),
                _ => Err(no_subject(first)),
            };
        };
        match (part(&self.part), part(second)) {
            (Some(part), _) => Ok((part, Path::new(second))),
            (None, Some(part)) => Ok((part, first)),
            (None, None) => Err(no_subject(first)),
        }
    }
}

fn no_subject(found: &Path) -> Failure {
    Failure::Usage(format!(
        "`{}` is no part; expected `silt inspect wal DB`, `silt inspect manifest DB`, `silt \
         inspect table FILE` or `silt inspect blob FILE`",
        found.display()
    ))
}

/// Prints the records of a part, as `name=value` pairs or as objects.
///
/// # Errors
/// Errors of the files and of stdout.
pub fn run(output: &mut Output, arguments: &Arguments) -> Result<()> {
    let (part, path) = arguments.subject()?;
    if !exists(path)? {
        return Err(match part {
            Part::Table => Failure::Missing(format!("no table file. path={}", path.display())),
            Part::Blob => Failure::Missing(format!("no blob file. path={}", path.display())),
            Part::Wal | Part::Manifest => Failure::no_database(path),
        });
    }
    inspect::refuse_foreign(path)?;
    match (part, path.is_dir()) {
        (Part::Table, true) => {
            let hint = "give the file of a table, as in demo.db/000012.table";
            return Err(Failure::Usage(format!("{} is a directory; {hint}", path.display())));
        }
        (Part::Blob, true) => {
            let hint = "give the file of blobs, as in demo.db/000013.blob";
            return Err(Failure::Usage(format!("{} is a directory; {hint}", path.display())));
        }
        (Part::Wal | Part::Manifest, false) => {
            let hint = "give the directory of the database";
            return Err(Failure::Usage(format!("{} is a file; {hint}", path.display())));
        }
        (Part::Table | Part::Blob, false) | (Part::Wal | Part::Manifest, true) => {}
    }
    // A failure of stdout has its own kind: it ends the report and becomes the result.
    let mut outcome = Ok(());
    let mut on_line = |line: Line| {
        outcome = print(output, &line);
        match outcome {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::new(ErrorKind::Io, "cannot print")),
        }
    };
    let detail = if arguments.operations { Detail::Operations } else { Detail::Records };
    let inspected = match part {
        Part::Wal => inspect::wal(path, detail, &mut on_line),
        Part::Manifest => inspect::manifest(path, detail, &mut on_line),
        Part::Table => inspect::table(path, detail, &mut on_line),
        Part::Blob => inspect::blob(path, detail, &mut on_line),
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
                // Not a string, which a key can be.
                _ if field.is_greatest_key() => json!({ "greatest": true }),
                _ => Value::from(field.text()),
            };
            (field.name().to_owned(), value)
        })
        .collect();
    output.result("", &Value::Object(object))
}

/// Formats the fields of `line` with bytes in `form`. The plain form is that of the library, which
/// is reversible.
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
            // A quotation mark inside could be mistaken for the closing one.
            Form::Escape => format!("{}=\"{}\"", field.name(), text.replace('"', "\\x22")),
            Form::Plain | Form::Hex => format!("{}={text}", field.name()),
        }
    });
    fields.collect::<Vec<_>>().join("  ")
}
