//! Arguments that several verbs share, and the conversion of their text to values.
//!
//! It opens nothing.

use crate::bounds::{KeyRange, is_whole, key_range};
use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::output::{Settings, Style};
use crate::scope::FamilyName;
use crate::session::{DEFAULT_FAMILY, Opening};
use crate::text::Form;
use crate::whole_number::{any_number, expected, positive_number};
use clap::{Args, ValueEnum};
use siltdb::{Durability, Options, RecoveryMode};
use std::{ffi::OsStr, ffi::OsString, ops::Bound, path::PathBuf, time::Duration};

#[cfg(test)]
mod tests;

/// How results are printed and how keys and values are written; every verb takes these.
#[derive(Args, Clone, Copy, Debug)]
pub struct SettingsArguments {
    /// Print JSON: one object, or one object a line for several results.
    #[arg(long, global = true, hide_short_help = true, display_order = 100)]
    json: bool,
    /// Keys and values, given and printed, in escape form: `\xNN` for a byte, `\\` for a backslash.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        display_order = 101,
        conflicts_with = "hex"
    )]
    escape: bool,
    /// Keys and values, given and printed, as hexadecimal digits.
    #[arg(long, global = true, hide_short_help = true, display_order = 102)]
    hex: bool,
}

impl SettingsArguments {
    /// Returns `base` with the settings given here.
    pub fn settings(self, base: Settings) -> Settings {
        let form = match (self.escape, self.hex) {
            (true, _) => Form::Escape,
            (_, true) => Form::Hex,
            _ => base.form,
        };
        let style = if self.json { Style::Json } else { base.style };
        Settings { style, form, ..base }
    }
}

/// Options for opening a database that is damaged or open in another process.
#[derive(Args, Clone, Debug)]
pub struct OpeningArguments {
    /// Open the database with this option; may be given several times. Names are those of the
    /// library (memory_budget, workers, …); default_family.NAME counts where a database is made
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "NAME=VALUE",
        display_order = 105
    )]
    #[arg(value_parser = parse_setting)]
    option: Vec<Setting>,
    /// The directory of the cold tier of the database: given the first time, and when it was moved
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR", display_order = 106)]
    cold: Option<PathBuf>,
    /// For a log that is damaged below its synced position: refuse to open (`strict`), or open with
    /// what precedes the damage (`point-in-time`). A verb that writes then cuts the log there, and
    /// keeps the rest in `DB/lost`; `silt recover` saves more [default: strict]
    #[arg(long, global = true, hide_short_help = true, value_name = "MODE", display_order = 103)]
    recovery: Option<Recovery>,
    /// How long to wait for another process to close the database: `5s`, `500ms` or `2m`
    /// [default: no wait]
    #[arg(long, global = true, hide_short_help = true, value_name = "TIME", display_order = 104)]
    #[arg(value_parser = a_time)]
    wait: Option<Duration>,
}

/// How much of the database a verb uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The verb opens the database.
    Open,
    /// The verb takes the lock and reads the files.
    Lock,
    /// The verb reads files at most.
    Files,
}

/// An option and its value.
pub type Setting = (String, String);

/// Splits `NAME=VALUE`.
///
/// # Errors
/// A message, if there is no equals sign.
pub fn parse_setting(text: &str) -> std::result::Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Units of time, and the milliseconds of each.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a time to wait: a number and one of the three smallest units.
///
/// # Errors
/// A message that says what was expected.
pub fn a_time(text: &str) -> std::result::Result<Duration, String> {
    time_in(&UNITS[..3], text).ok_or_else(|| "a time is a number and ms, s or m: 5s".to_owned())
}

/// Parses the time after which a value expires: a number and a unit.
///
/// # Errors
/// A message that says what was expected.
pub fn a_ttl(text: &str) -> std::result::Result<Duration, String> {
    time_in(&UNITS, text).ok_or_else(|| "a TTL is a number and ms, s, m, h or d: 30m".to_owned())
}

fn time_in(units: &[(&str, u64)], text: &str) -> Option<Duration> {
    let (digits, ms) = units.iter().find_map(|&(unit, ms)| Some((text.strip_suffix(unit)?, ms)))?;
    Some(Duration::from_millis(digits.parse::<u64>().ok()?.checked_mul(ms)?))
}

/// Recovery modes by their names on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Recovery {
    Strict,
    PointInTime,
}

impl OpeningArguments {
    /// Refuses options that `verb` would ignore: a recovery mode if it opens no database, a wait if
    /// it does not lock one either.
    ///
    /// # Errors
    /// [`Failure::Usage`], which names the option.
    pub fn check_for(&self, verb: &str, reach: Reach) -> Result<()> {
        let ignored = match reach {
            Reach::Open => None,
            Reach::Lock => self.recovery.map(|_| "--recovery"),
            Reach::Files => self.recovery.map(|_| "--recovery").or(self.wait.map(|_| "--wait")),
        };
        let Some(option) = ignored else { return Ok(()) };
        let why = match reach {
            Reach::Open | Reach::Lock => "opens no database and reads what verifies",
            Reach::Files => "reads files in place, also beside a writer",
        };
        Err(Failure::Usage(format!("`{option}` does not apply to {verb}, which {why}")))
    }

    /// Returns `base` with the settings given here.
    pub fn settings(&self, base: Settings) -> Settings {
        let recovery = match self.recovery {
            None | Some(Recovery::Strict) => RecoveryMode::Strict,
            Some(Recovery::PointInTime) => RecoveryMode::PointInTime,
        };
        Settings { recovery, wait: self.wait.unwrap_or_default(), ..base }
    }

    /// Returns the options for the opening.
    ///
    /// # Errors
    /// [`Failure::Usage`] for an unknown name or a bad value; [`Failure::File`], if the cold
    /// directory has no absolute path.
    pub fn options(&self) -> Result<Options> {
        let mut options = Options::new();
        for (name, value) in &self.option {
            options.set(name, value).map_err(|error| Failure::Usage(told(&error)))?;
        }
        if let Some(cold) = &self.cold {
            // The database would take a relative path as one that starts at its own directory.
            let path = std::path::absolute(cold)
                .map_err(|error| Failure::file("find", cold.display().to_string(), error))?;
            options = options.cold_directory(path);
        }
        Ok(options)
    }
}

/// The family that a verb works on.
#[derive(Args, Clone, Debug, Default)]
pub struct FamilyArguments {
    /// The family to work on [default: default; in the shell, the one in use]
    #[arg(long, value_name = "NAME")]
    pub family: Option<String>,
    /// The branch to work on [default: the one that is checked out]
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
}

impl FamilyArguments {
    /// Returns the names that were given.
    pub fn name(&self) -> FamilyName<'_> {
        FamilyName { branch: self.branch.as_deref(), family: self.family.as_deref() }
    }

    /// Decides whether a verb that writes creates a missing database. It does so only for the
    /// default family, since a new database has no other one, and no branches.
    pub fn opening(&self) -> Opening {
        match self.name() {
            FamilyName { branch: None, family: None | Some(DEFAULT_FAMILY) } => Opening::Create,
            _ => Opening::Write,
        }
    }
}

/// The bucket that a verb works in.
#[derive(Args, Clone, Debug)]
pub struct BucketArguments {
    /// Use the keys of this bucket, such as a/b.
    #[arg(long, value_name = "PATH", conflicts_with = "raw_keys")]
    bucket: Option<OsString>,
}

impl BucketArguments {
    /// Returns whether a bucket was given.
    pub fn is_given(&self) -> bool {
        self.bucket.is_some()
    }

    /// Returns the names from the root to the bucket, if one was given.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a path that is not in `form`.
    pub fn path(&self, form: Form) -> Result<Option<Vec<Vec<u8>>>> {
        self.bucket.as_deref().map(|path| bucket_path(path, form)).transpose()
    }
}

/// The moment at which a verb reads.
#[derive(Args, Clone, Copy, Debug)]
pub struct AtArguments {
    /// Read the state after the operation with this sequence number; `silt retain` prints from
    /// which one on there are states [default: the newest]
    #[arg(long, value_name = "SEQ", value_parser = any_number)]
    pub at: Option<u64>,
}

/// The range of keys that a verb reads.
#[derive(Args, Clone, Debug)]
pub struct BoundsArguments {
    /// Only keys that begin with this.
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Only keys at or after this one.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
}

impl BoundsArguments {
    /// Returns the texts of prefix, lower and upper bound.
    pub fn texts(&self) -> (Option<&OsStr>, Option<&OsStr>, Option<&OsStr>) {
        (self.prefix.as_deref(), self.from.as_deref(), self.to.as_deref())
    }

    /// Returns whether a bound was given.
    pub fn is_given(&self) -> bool {
        self.prefix.is_some() || self.from.is_some() || self.to.is_some()
    }

    /// Returns the range of keys; `None` if it is empty.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a key that is not in `form`.
    pub fn range(&self, form: Form) -> Result<Option<KeyRange>> {
        let parse = |text: &Option<OsString>| text.as_deref().map(|t| bytes(t, form)).transpose();
        Ok(key_range(parse(&self.prefix)?, parse(&self.from)?, parse(&self.to)?))
    }
}

/// The range of keys that a verb deletes.
#[derive(Args, Clone, Debug)]
pub struct DeletedArguments {
    #[command(flatten)]
    pub bounds: BoundsArguments,
    /// All keys of the family, or of the bucket.
    #[arg(long, conflicts_with_all = ["prefix", "from", "to"])]
    all: bool,
}

impl DeletedArguments {
    /// Returns whether a range was given.
    pub fn is_given(&self) -> bool {
        self.all || self.bounds.is_given()
    }

    /// Returns whether all keys were meant.
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Returns the range to delete, where the bounds are those of `range`.
    ///
    /// # Errors
    /// [`Failure::Usage`] for bounds that leave no key out: `--prefix ""` is more often an empty
    /// variable than a wish.
    pub fn checked(&self, range: Option<KeyRange>) -> Result<Option<KeyRange>> {
        match range {
            _ if self.all => Ok(Some((Bound::Unbounded, Bound::Unbounded))),
            Some(range) if self.bounds.is_given() && is_whole(&range) => {
                let reason = "these bounds are those of all keys; to delete all, give --all";
                Err(Failure::Usage(reason.to_owned()))
            }
            range => Ok(range),
        }
    }
}

/// The durability of a verb's writes.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct DurabilityArguments {
    /// What the write survives when the verb has ended: `volatile`, `buffered` (a crash of the
    /// process), `interval:MS` or `synced` (a power cut) [default: synced]
    #[arg(long, value_name = "CLASS", value_parser = parse_durability)]
    durability: Option<Durability>,
}

impl DurabilityArguments {
    /// Returns the class that was given, else `default`.
    pub fn or(self, default: Durability) -> Durability {
        self.durability.unwrap_or(default)
    }

    /// Refuses a class, because the transaction has its own.
    ///
    /// # Errors
    /// [`Failure::Usage`] if a class was given.
    pub fn refuse_in_transaction(self) -> Result<()> {
        let reason = "the durability is that of the transaction: `begin --durability CLASS`";
        self.durability.map_or(Ok(()), |_| Err(Failure::Usage(reason.to_owned())))
    }
}

/// Parses the name of a durability class.
///
/// # Errors
/// A message that says what was expected.
pub fn parse_durability(text: &str) -> std::result::Result<Durability, String> {
    match text.split_once(':') {
        None if text == "volatile" => Ok(Durability::Volatile),
        None if text == "buffered" => Ok(Durability::Buffered),
        None if text == "synced" => Ok(Durability::Synced),
        Some(("interval", ms)) => {
            let ms = positive_number(ms);
            let ms = ms.map_err(|_| expected("interval:MS with milliseconds", &(1..=u64::MAX)))?;
            Ok(Durability::Interval(Duration::from_millis(ms)))
        }
        _ => Err("expected volatile, buffered, interval:MS or synced".to_owned()),
    }
}

/// Parses a path of buckets: names with slashes between.
///
/// # Errors
/// As [`bytes`].
pub fn bucket_path(text: &OsStr, form: Form) -> Result<Vec<Vec<u8>>> {
    let path = bytes(text, form)?;
    Ok(path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect())
}

/// Parses an argument as bytes in `form`.
///
/// # Errors
/// [`Failure::Usage`] if it is not in that form.
pub fn bytes(text: &OsStr, form: Form) -> Result<Vec<u8>> {
    form.parse(text.as_encoded_bytes()).map_err(|bad| {
        let shown = text.to_string_lossy();
        let (option, takes) = match form {
            Form::Hex => ("--hex", "two hexadecimal digits a byte, as in 6b0a"),
            Form::Escape | Form::Plain => ("--escape", r"text with \xNN for a byte and \\ for a \"),
        };
        let place = bad.index + 1;
        let reason = bad.reason;
        Failure::Usage(format!("`{shown}`, byte {place}: {reason}; {option} takes {takes}"))
    })
}
