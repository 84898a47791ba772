//! The verb stats: what a database or a family holds, and how it does.
//!
//! It does not open the database.

use crate::argument::FamilyArguments;
use crate::failure::Result;
use crate::hint::told;
use crate::session::Session;
use crate::text::{counted, grouped, size};
use clap::Args;
use serde_json::Value;
use siltdb::{CompressionStats, Db, Stats};

#[cfg(test)]
mod tests;

/// Text at the end of `silt stats --help`.
pub const HELP: &str = "\
entries        in memtables and tables, with old versions, deletions and the keys of buckets
sequence       operations since the database was created
on disk        tables and blob files, without the log
blobs          values in files of their own; garbage is what nothing refers to
amplification  bytes that flushes and compactions wrote, for each byte flushed
waits          of writers for a flush or a compaction, and all delays
errors         the one that stops background work, and what the last scrub found

The cache, the amplification and the waits count from the opening of the database, so that they \
say most in `silt shell`. A family has only the lines that concern it.

Example:
  silt stats demo.db
  silt stats demo.db --all
  silt stats demo.db --family users --json";

/// Width of the column of names, in characters.
const NAME_WIDTH: usize = 15;

/// Arguments of `stats`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Print every number by its name, and the identity of the database, as --json does.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    family: FamilyArguments,
}

/// A line for people: its name and the number with its unit.
type Line = (&'static str, String);

/// Prints counts and sizes of the whole database or of one family.
///
/// # Errors
/// [`Failure::Missing`](crate::failure::Failure::Missing) if there is no such family.
pub fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let name = arguments.family.name();
    let (stats, codecs, identity) = if name.is_given() {
        let family = session.family_of(name)?;
        (family.stats(), family.compression_stats(), None)
    } else {
        let db = session.db();
        let identity = db.identity().map(|id| id.to_string());
        (db.stats(), db.compression_stats(), identity)
    };
    let codecs = codecs.iter().flat_map(codec_entries);
    let entries: Vec<(String, u64)> = stats.entries().into_iter().chain(codecs).collect();
    let text = match (arguments.all, name.is_given()) {
        (true, _) => all_text(&entries, identity.as_deref()),
        (false, true) => text_of(&family_lines(&stats)),
        (false, false) => text_of(&database_lines(&stats, session.db())),
    };
    let object = entries.into_iter().map(|(name, value)| (name, Value::from(value)));
    let object = object.chain(identity.map(|id| ("identity".to_owned(), Value::from(id))));
    session.output.result(&text, &Value::Object(object.collect()))
}

/// The numbers of the tables of one codec, by name.
fn codec_entries(stats: &CompressionStats) -> [(String, u64); 4] {
    let named = |what: &str, number| (format!("{}_{what}", stats.codec), number);
    [
        named("tables", stats.tables),
        named("raw_bytes", stats.raw_bytes),
        named("stored_bytes", stats.stored_bytes),
        named("dictionaries", stats.dictionaries),
    ]
}

/// Every number by its name.
fn all_text(entries: &[(String, u64)], identity: Option<&str>) -> String {
    let first = identity.iter().map(|id| format!("identity {id:>28}"));
    let numbers = entries.iter().map(|(name, number)| format!("{name:20} {number:>16}"));
    first.chain(numbers).collect::<Vec<_>>().join("\n")
}

fn text_of(lines: &[Line]) -> String {
    let lines = lines.iter().map(|(name, text)| format!("{name:NAME_WIDTH$}{text}"));
    lines.collect::<Vec<_>>().join("\n")
}

fn database_lines(stats: &Stats, db: &Db) -> Vec<Line> {
    let sequence = match stats.retention_floor {
        Some(floor) => format!("{}, kept from {floor} on", grouped(stats.sequence)),
        None => grouped(stats.sequence),
    };
    let error = db.background_error().map(|error| told(&error));
    let mut lines = vec![("families", grouped(stats.families)), ("sequence", sequence)];
    lines.extend(data_lines(stats, stats.table_bytes.iter().sum::<u64>() + stats.blob_bytes));
    lines.extend([
        ("blobs", blobs(stats)),
        ("cache hits", cache_hits(stats)),
        ("amplification", amplification(stats)),
        ("waits", waits(stats)),
        ("errors", errors(error, stats.scrub_damage)),
    ]);
    lines
}

fn family_lines(stats: &Stats) -> Vec<Line> {
    data_lines(stats, stats.hot_bytes + stats.cold_bytes).into()
}

/// The lines that a database and a family have.
fn data_lines(stats: &Stats, disk_bytes: u64) -> [Line; 5] {
    let levels = stats.tables.iter().enumerate().filter(|(_, tables)| **tables > 0);
    let levels: Vec<_> =
        levels.map(|(level, tables)| format!("L{level}: {}", grouped(*tables))).collect();
    let in_memory = counted(stats.memtable_entries, "entry");
    [
        ("entries", grouped(stats.memtable_entries + stats.table_entries)),
        ("on disk", size(disk_bytes as f64)),
        ("tables", grouped(stats.tables.iter().sum())),
        ("levels", if levels.is_empty() { "none".to_owned() } else { levels.join(", ") }),
        ("memtables", format!("{}, {in_memory}", size(stats.memtable_bytes as f64))),
    ]
}

fn blobs(stats: &Stats) -> String {
    if stats.blob_files == 0 {
        return "none".to_owned();
    }
    let garbage = percent(stats.blob_garbage_bytes, stats.blob_bytes);
    format!("{}, {garbage} garbage", size(stats.blob_bytes as f64))
}

fn cache_hits(stats: &Stats) -> String {
    match stats.cache_hits + stats.cache_misses {
        0 => "no block read yet".to_owned(),
        reads => format!("{} of {}", percent(stats.cache_hits, reads), counted(reads, "block")),
    }
}

fn amplification(stats: &Stats) -> String {
    if stats.flushed_bytes == 0 {
        return "nothing flushed yet".to_owned();
    }
    let written = stats.flushed_bytes + stats.compacted_bytes;
    format!("{:.1} times", written as f64 / stats.flushed_bytes as f64)
}

fn waits(stats: &Stats) -> String {
    let ms = stats.stalled_ms + stats.delayed_ms;
    match (stats.stalls, ms) {
        (0, 0) => "none".to_owned(),
        (stalls, ms) => format!("{}, {} ms", grouped(stalls), grouped(ms)),
    }
}

fn errors(error: Option<String>, scrub_damage: u64) -> String {
    let damage = (scrub_damage > 0)
        .then(|| format!("{} found by the scrub", counted(scrub_damage, "damaged place")));
    let parts: Vec<_> = error.into_iter().chain(damage).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join("; ") }
}

/// Formats `part` of `whole`, which is not 0.
fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}
