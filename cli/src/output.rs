//! Output of verbs: results on stdout, everything else on stderr, as text or JSON.
//!
//! A line on stderr is an error, a warning or a message; in JSON, an object with one field of that
//! name. A result goes to stderr only if stdout takes the data of an export. This module does not
//! decide what is printed.

use crate::failure::{Failure, Result};
use crate::json;
use crate::text::{Form, printable, printable_columns};
use crate::value::PrintedValue;
use serde_json::{Value, json};
use siltdb::{Expiry, RecoveryMode};
use std::io::{self, BufWriter, Stdout, Write};
use std::time::Duration;

/// The style of output, for people or for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text, for people.
    #[default]
    Text,
    /// JSON, one value a line, for programs.
    Json,
}

/// Settings for printing, and for opening a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Style of output.
    pub style: Style,
    /// Form of keys and values, given and printed.
    pub form: Form,
    /// Reaction to damage in the log at the opening.
    pub recovery: RecoveryMode,
    /// How long the opening waits for another process to close the database.
    pub wait: Duration,
}

/// Bytes whose text is in memory at a time.
const RENDERED_BYTES: usize = 64 << 10;

/// Stdout, with the settings of the running verb.
pub struct Output {
    stdout: BufWriter<Stdout>,
    settings: Settings,
    line: String,
}

impl Output {
    /// Prints to stdout.
    pub fn new(settings: Settings) -> Self {
        let stdout = BufWriter::with_capacity(64 << 10, io::stdout());
        Self { stdout, settings, line: String::new() }
    }

    /// Returns the present settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Changes the settings for later output.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Prints an entry: key, tab, value; or an object with both.
    ///
    /// # Errors
    /// [`Failure::Stdout`], as for all methods here; of values as [`PrintedValue::in_pieces`].
    pub fn entry(&mut self, key: &[u8], value: &PrintedValue<'_>) -> Result<()> {
        if self.settings.style == Style::Json {
            self.json_entry(key, value)?;
            return self.raw(b"}\n");
        }
        self.rendered(&PrintedValue::Whole(key))?;
        self.raw(b"\t")?;
        self.rendered(value)?;
        self.raw(b"\n")
    }

    /// Prints a value, or an object with key and value, and the time of an expiry.
    ///
    /// # Errors
    /// As [`Output::entry`].
    pub fn value(&mut self, key: &[u8], value: &PrintedValue<'_>, expiry: Expiry) -> Result<()> {
        match (self.settings.style, expiry.ms()) {
            (Style::Text, _) => {
                self.rendered(value)?;
                self.raw(b"\n")
            }
            (Style::Json, None) => self.entry(key, value),
            (Style::Json, Some(ms)) => {
                self.json_entry(key, value)?;
                self.raw(format!(",\"expires_at\":{ms}}}\n").as_bytes())
            }
        }
    }

    /// Prints a key, or an object with the key.
    ///
    /// # Errors
    /// [`Failure::Stdout`].
    pub fn key(&mut self, key: &[u8]) -> Result<()> {
        if self.settings.style == Style::Json {
            let key = json::of_bytes(key, self.settings.form);
            return self.json(&json!({ "key": key }));
        }
        self.bytes(key)
    }

    /// Prints bytes in the form of the settings, and a line end.
    ///
    /// # Errors
    /// [`Failure::Stdout`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.rendered(&PrintedValue::Whole(bytes))?;
        self.raw(b"\n")
    }

    /// Prints a value in the form of the settings, piece by piece: the text of a long value is up
    /// to four times as long as the value.
    fn rendered(&mut self, value: &PrintedValue<'_>) -> Result<()> {
        value.in_pieces(RENDERED_BYTES, |piece| {
            self.line.clear();
            self.settings.form.render(piece, &mut self.line);
            self.stdout.write_all(self.line.as_bytes()).map_err(Failure::Stdout)
        })
    }

    /// Prints bytes unchanged.
    ///
    /// # Errors
    /// [`Failure::Stdout`].
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stdout.write_all(bytes).map_err(Failure::Stdout)
    }

    /// Prints the bytes of a value unchanged.
    ///
    /// # Errors
    /// [`Failure::Stdout`], and as [`PrintedValue::in_pieces`].
    pub fn raw_value(&mut self, value: &PrintedValue<'_>) -> Result<()> {
        value.in_pieces(RENDERED_BYTES, |piece| self.raw(piece))
    }

    /// Prints an object with key and value, up to its closing brace.
    fn json_entry(&mut self, key: &[u8], value: &PrintedValue<'_>) -> Result<()> {
        self.raw(b"{\"key\":")?;
        self.json_value(&PrintedValue::Whole(key))?;
        self.raw(b",\"value\":")?;
        self.json_value(value)
    }

    /// Prints what [`json::of_bytes`] makes of the bytes of `value`, piece by piece.
    fn json_value(&mut self, value: &PrintedValue<'_>) -> Result<()> {
        if let PrintedValue::Whole(bytes) = value
            && bytes.len() <= RENDERED_BYTES
        {
            let value = json::of_bytes(bytes, self.settings.form);
            return self.raw(json::line(&value).as_bytes());
        }
        let (form, before, after) = match self.settings.form {
            Form::Plain if !value.is_utf8()? => (Form::Hex, "{\"hex\":\"", "\"}"),
            form => (form, "\"", "\""),
        };
        self.raw(before.as_bytes())?;
        value.in_pieces(RENDERED_BYTES, |piece| {
            let line = json::line(&json::of_bytes(piece, form));
            self.raw(&line.as_bytes()[1..line.len() - 1])
        })?;
        self.raw(after.as_bytes())
    }

    /// Prints `text` and a line end. What a terminal would obey is escaped, but for tabs and line
    /// ends, because names and labels come from files.
    ///
    /// # Errors
    /// [`Failure::Stdout`].
    pub fn line(&mut self, text: &str) -> Result<()> {
        let shown = printable_columns(text);
        writeln!(self.stdout, "{shown}").map_err(Failure::Stdout)
    }

    /// Prints `text` as [`Output::line`] does, or `value` as JSON, by the settings.
    ///
    /// # Errors
    /// [`Failure::Stdout`].
    pub fn result(&mut self, text: &str, value: &Value) -> Result<()> {
        match self.settings.style {
            Style::Json => self.json(value),
            Style::Text if text.is_empty() => Ok(()),
            Style::Text => self.line(text),
        }
    }

    /// Prints a JSON value on one line.
    ///
    /// # Errors
    /// [`Failure::Stdout`].
    pub fn json(&mut self, value: &Value) -> Result<()> {
        writeln!(self.stdout, "{}", json::line(value)).map_err(Failure::Stdout)
    }

    /// Writes the buffered output to the operating system.
    ///
    /// # Errors
    /// [`Failure::Stdout`].
    pub fn flush(&mut self) -> Result<()> {
        self.stdout.flush().map_err(Failure::Stdout)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stdout.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Prints a message on stderr: a side effect of the verb, or a fact that may be unexpected.
pub fn message(style: Style, text: &str) {
    match style {
        Style::Text => tell(&printable(text)),
        Style::Json => tell(&json::line(&json!({ "message": text }))),
    }
}

/// Prints a warning on stderr: the verb succeeded, but its input is probably a mistake.
pub fn warning(style: Style, text: &str) {
    match style {
        Style::Text => tell(&format!("\x1b[1;33mwarning:\x1b[0m {}", printable(text))),
        Style::Json => tell(&json::line(&json!({ "warning": text }))),
    }
}

/// Prints the failure of a verb on stderr.
pub fn report(failure: &Failure, style: Style) {
    match style {
        Style::Text => {
            tell(&format!("\x1b[1;31merror:\x1b[0m {}", printable(&failure.to_string())));
        }
        Style::Json => {
            let error = json!({
                "kind": failure.kind(),
                "message": failure.to_string(),
                "exit_code": failure.exit_code(),
            });
            tell(&json::line(&json!({ "error": error })));
        }
    }
}

/// Prints a line on stderr.
pub fn tell(line: &str) {
    // A failure of stderr cannot be reported anywhere.
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}
