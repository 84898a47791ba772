//! Suites: rows as data, from the files in `bench/suites`, and the choice among them.
//!
//! It runs nothing.

use crate::{
    engine::{Arm, Codec, Config, Durability, TableKind},
    job::{Op, Run, Seed, State, Work},
    keys::KeyStyle,
    order::Order,
    result::{Bars, Definition, Published},
    values::ValueStyle,
};
use serde::Deserialize;

/// The files, in the order of reports.
const FILES: [(&str, &str); 25] = [
    ("claims", include_str!("../suites/claims.toml")),
    ("core", include_str!("../suites/core.toml")),
    ("layerdb", include_str!("../suites/layerdb.toml")),
    ("thunder", include_str!("../suites/thunder.toml")),
    ("tidesdb-v5", include_str!("../suites/tidesdb-v5.toml")),
    ("tidesdb-v7", include_str!("../suites/tidesdb-v7.toml")),
    ("tidesdb-btree", include_str!("../suites/tidesdb-btree.toml")),
    ("ycsb", include_str!("../suites/ycsb.toml")),
    ("durable", include_str!("../suites/durable.toml")),
    ("queue", include_str!("../suites/queue.toml")),
    ("bulk-load", include_str!("../suites/bulk-load.toml")),
    ("range-delete", include_str!("../suites/range-delete.toml")),
    ("open-time", include_str!("../suites/open-time.toml")),
    ("many-families", include_str!("../suites/many-families.toml")),
    ("compaction", include_str!("../suites/compaction.toml")),
    ("tail", include_str!("../suites/tail.toml")),
    ("cold", include_str!("../suites/cold.toml")),
    ("memory", include_str!("../suites/memory.toml")),
    ("map", include_str!("../suites/map.toml")),
    ("transactions", include_str!("../suites/transactions.toml")),
    ("soak", include_str!("../suites/soak.toml")),
    (SUSTAIN, include_str!("../suites/sustain.toml")),
    ("large-values", include_str!("../suites/large-values.toml")),
    ("btree", include_str!("../suites/btree.toml")),
    (LARGE_DATA, include_str!("../suites/large-data.toml")),
];

/// The suite that the pages of the project cite. A run of all suites leaves it out, because other
/// suites have the same workloads.
pub const CLAIMS: &str = "claims";

/// The suite of data far beyond the memory. A run of all suites leaves it out, because it takes
/// hours and tens of gigabytes.
const LARGE_DATA: &str = "large-data";

/// The suite of even throughput. A run of all suites leaves it out, because it takes hours.
const SUSTAIN: &str = "sustain";

/// The suite of `silt-bench demo`. A run of all suites leaves it out, because it has the same rows
/// at full size.
const DEMO: &str = include_str!("../suites/demo.toml");

/// Scaling does not reduce keys and operations below this.
const SCALED_MIN: u64 = 5000;

/// A suite.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Its id.
    pub suite: String,
    /// The benchmark that it reproduces, and its authors.
    pub about: String,
    /// The defaults of its rows.
    #[serde(default)]
    defaults: Settings,
    /// The engines that it compares, if not all; the others do the same work in another suite.
    #[serde(default)]
    pub engines: Vec<String>,
    /// The data of the benchmark that it reproduces, if known.
    #[serde(default)]
    original: Option<Original>,
    /// Its rows.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its id, stable and readable.
    pub id: String,
    /// Its description.
    pub about: String,
    /// The settings whose values its id or `about` gives; the command line does not change these.
    #[serde(default)]
    pub names: Vec<Setting>,
    /// The measured phase.
    pub run: Run,
    /// The phases before it.
    #[serde(default)]
    pub seed: Vec<Seed>,
    /// The state of the database before the measured phase.
    #[serde(default)]
    pub state: State,
    /// Operations that it needs and no engine here offers yet; the row reports them.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Published figures.
    #[serde(default)]
    pub published: Vec<Published>,
    /// The engines that it compares, if not those of its suite.
    #[serde(default)]
    pub engines: Vec<String>,
    /// Its bars.
    #[serde(default)]
    pub bars: Bars,
    /// The reason why siltdb is behind in it, if it is.
    #[serde(default)]
    pub cause: String,
    /// Its differences from the suite's defaults.
    #[serde(default, rename = "with")]
    settings: Settings,
}

/// A value that the command line may set for all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// Number of threads that call the engine.
    Threads,
    /// Writes of a commit.
    Batch,
    /// Size of values.
    ValueBytes,
    /// Size of the block cache.
    Cache,
}

/// The values that a suite or a row may set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    threads: Option<u32>,
    keys: Option<u32>,
    key_bytes: Option<u32>,
    value_bytes: Option<u32>,
    compressible_percent: Option<u32>,
    key_style: Option<KeyStyle>,
    value_style: Option<ValueStyle>,
    codec: Option<Codec>,
    durability: Option<Durability>,
    cache_mib: Option<u64>,
    /// The memory of the whole engine, indexes and filters included.
    memory_mib: Option<u64>,
    write_buffer_mib: Option<u64>,
    families: Option<u32>,
    level0_runs: Option<u32>,
    table: Option<TableKind>,
    /// Whether all reads of the row are done twice before it counts.
    warm: Option<bool>,
    /// The duration of the row, if it is timed. Its number of operations is then only a bound of
    /// those drawn ahead.
    seconds: Option<u32>,
}

/// The data of a published benchmark. Its keys were numbers in digits.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Original {
    /// Length of its keys.
    key_bytes: u32,
    /// The contents of its values.
    #[serde(default)]
    values: ValueStyle,
    /// The generator of its random keys.
    #[serde(default)]
    random: OriginalRandom,
    /// The order of operations in its mixed rows.
    #[serde(default)]
    mixed: OriginalMixed,
}

/// The generator of a published benchmark's random keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OriginalRandom {
    /// All keys, in random order.
    #[default]
    Shuffled,
    /// A counter, with the bytes of the number in reverse order.
    ReversedCounter,
}

/// The order of operations in a published benchmark's mixed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OriginalMixed {
    /// Interleaved.
    #[default]
    Interleaved,
    /// All puts, then all gets.
    PhaseAfterPhase,
}

/// The command line's settings for all rows.
#[derive(Clone, Copy, Debug)]
pub struct Overrides {
    /// Factor of keys and operations.
    pub scale: f64,
    /// Replaces the rows' own.
    pub threads: Option<u32>,
    /// Replaces the rows' own, if they write.
    pub batch: Option<u32>,
    /// Replaces the rows' own.
    pub value_bytes: Option<u32>,
    /// Block caches, in MiB; replaces the rows' own.
    pub cache_mib: Option<u64>,
    /// Whether rows that only read, except cold ones, begin with warm caches.
    pub warm: bool,
    /// Duration of the timed rows, in seconds; replaces their own. 0 leaves these rows out.
    pub sustain: Option<u32>,
    /// The options that engines get.
    pub arm: Arm,
}

impl Default for Overrides {
    /// Rows as published.
    fn default() -> Self {
        Self {
            scale: 1.0,
            threads: None,
            batch: None,
            value_bytes: None,
            cache_mib: None,
            warm: false,
            sustain: None,
            arm: Arm::Equal,
        }
    }
}

/// A row that is ready to run.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The id of its suite.
    pub suite: String,
    /// Its own id.
    pub row: String,
    /// The work to do.
    pub work: Work,
    /// The configuration of databases.
    pub config: Config,
    /// Operations that it needs and no engine here offers yet.
    pub needs: Vec<String>,
    /// The engines that it compares, if not all.
    pub compared: Vec<String>,
    /// The engines that take part, in the order of the report.
    pub engines: Vec<String>,
    /// Its duration, if it is timed.
    pub seconds: Option<u32>,
}

impl Setting {
    /// All settings.
    pub const ALL: [Self; 4] = [Self::Threads, Self::Batch, Self::ValueBytes, Self::Cache];

    /// The command-line option.
    #[must_use]
    pub fn option(self) -> &'static str {
        match self {
            Self::Threads => "--threads",
            Self::Batch => "--batch",
            Self::ValueBytes => "--value-size",
            Self::Cache => "--cache",
        }
    }
}

impl Overrides {
    /// Whether the command line sets a setting.
    #[must_use]
    pub fn sets(&self, setting: Setting) -> bool {
        self.words(setting).is_some()
    }

    /// The setting and its value, in words; none if it is not set.
    fn words(&self, setting: Setting) -> Option<String> {
        match setting {
            Setting::Threads => Some(match self.threads? {
                1 => "one thread".to_owned(),
                threads => format!("{threads} threads"),
            }),
            Setting::Batch => Some(format!("batches of {}", self.batch?)),
            Setting::ValueBytes => Some(format!("{}-byte values", self.value_bytes?)),
            Setting::Cache => Some(format!("a cache of {} MiB", self.cache_mib?)),
        }
    }
}

impl Suite {
    /// The part of the suite that a report needs, for a run with `overrides`.
    #[must_use]
    pub fn definition(&self, overrides: &Overrides) -> crate::result::Suite {
        let row = |row: &Row| Definition {
            row: row.id.clone(),
            about: row.about.clone(),
            published: self.published(row),
            bars: row.bars.clone(),
            cause: row.cause.clone(),
        };
        let words = Setting::ALL.into_iter().filter_map(|setting| overrides.words(setting));
        let words: Vec<String> = words.collect();
        let about = match &words[..] {
            [] => self.about.clone(),
            words => format!("{}; here with {}", self.about, words.join(", ")),
        };
        let suite = self.suite.clone();
        crate::result::Suite { suite, about, rows: self.rows.iter().map(row).collect() }
    }

    /// The published figures of a row, with their threads and keys: those of the row in the file.
    fn published(&self, row: &Row) -> Vec<Published> {
        let work = self.choose(row, &Overrides::default()).work;
        let with_size = |published: &Published| Published {
            threads: Some(work.threads),
            keys: Some(work.keys.into()),
            ..published.clone()
        };
        row.published.iter().map(with_size).collect()
    }

    /// The rows that give a value of `setting` in their names and therefore keep it.
    #[must_use]
    pub fn naming(&self, setting: Setting) -> Vec<&str> {
        let named = self.rows.iter().filter(|row| row.names.contains(&setting));
        named.map(|row| row.id.as_str()).collect()
    }

    /// The same suite with the keys, values and shapes of the benchmark that it reproduces; only
    /// rows with published figures. `None` if it reproduces none, or if that benchmark's data is
    /// not known.
    #[must_use]
    pub fn as_published(self) -> Option<Self> {
        let original = self.original?;
        let compared = self.rows.iter().filter(|row| !row.published.is_empty());
        let rows = compared.flat_map(|row| original.rows(row)).collect();
        Some(Self { rows, ..self })
    }

    /// The row with all settings applied.
    #[must_use]
    pub fn choose(&self, row: &Row, overrides: &Overrides) -> Chosen {
        let settings = row.settings.over(&self.defaults);
        let keys = settings.keys.unwrap_or(1_000_000);
        let is_open = |setting| !row.names.contains(&setting);
        let threads = overrides.threads.filter(|_| is_open(Setting::Threads));
        let batch = overrides.batch.filter(|_| is_open(Setting::Batch));
        let value_bytes = overrides.value_bytes.filter(|_| is_open(Setting::ValueBytes));
        let cache_mib = overrides.cache_mib.filter(|_| is_open(Setting::Cache));
        let mut run = row.run.clone();
        run.ops = scaled(run.ops, overrides.scale);
        if run.op.writes() && !run.op.competes() {
            run.batch = batch.unwrap_or(run.batch);
        }
        let is_warmed = !run.op.writes() && run.op != Op::Open && row.state != State::Cold;
        let work = Work {
            keys: scaled(u64::from(keys), overrides.scale) as u32,
            key_style: settings.key_style.unwrap_or_default(),
            key_bytes: settings.key_bytes.unwrap_or(16),
            value_style: settings.value_style.unwrap_or_default(),
            value_bytes: value_bytes.or(settings.value_bytes).unwrap_or(100),
            compressible_percent: settings.compressible_percent.unwrap_or(50),
            threads: threads.or(settings.threads).unwrap_or(1),
            seed: row.seed.clone(),
            state: row.state,
            warm_up: (overrides.warm || settings.warm == Some(true)) && is_warmed,
            run,
        };
        let mib = |mib: Option<u64>| mib.unwrap_or(64) << 20;
        let config = Config {
            write_buffer_bytes: mib(settings.write_buffer_mib),
            cache_bytes: mib(cache_mib.or(settings.cache_mib)),
            memory_bytes: settings.memory_mib.map(|mib| mib << 20),
            codec: settings.codec.unwrap_or_default(),
            durability: settings.durability.unwrap_or_default(),
            arm: overrides.arm,
            table: settings.table.unwrap_or_default(),
            families: settings.families.unwrap_or(1),
            level0_runs: settings.level0_runs,
            entries_max: work.ids(),
            bytes_max: work.ids() * work.entry_bytes(),
            is_opened_often: work.run.op == Op::Open || work.state == State::Cold,
            ..Config::default()
        };
        let compared = if row.engines.is_empty() { &self.engines } else { &row.engines };
        Chosen {
            suite: self.suite.clone(),
            row: row.id.clone(),
            work,
            config,
            needs: row.needs.clone(),
            compared: compared.clone(),
            engines: Vec::new(),
            seconds: settings.seconds.map(|own| overrides.sustain.unwrap_or(own)),
        }
    }
}

impl Original {
    /// A row as that benchmark ran it; a mixed row may become two.
    fn rows(self, row: &Row) -> Vec<Row> {
        let mut row = row.clone();
        let is_random = match row.seed.first() {
            Some(seed) => seed.order == Order::Random,
            None => row.run.order == Order::Random,
        };
        let is_reversed = is_random && self.random == OriginalRandom::ReversedCounter;
        let orders = row.seed.iter_mut().map(|seed| &mut seed.order).chain([&mut row.run.order]);
        for order in orders {
            *order = match *order {
                Order::Random if is_reversed => Order::Sequential,
                Order::Zipfian => Order::ZipfianFirst,
                other => other,
            };
        }
        let style = if is_reversed { KeyStyle::ReversedCounter } else { KeyStyle::Counter };
        row.settings.key_style = Some(style);
        row.settings.key_bytes = Some(self.key_bytes);
        row.settings.value_style = Some(self.values);
        match (row.run.op, self.mixed) {
            (Op::Mixed, OriginalMixed::PhaseAfterPhase) => phases(&row),
            _ => vec![row],
        }
    }
}

/// A mixed row as two rows: all puts on an empty database, then all gets.
fn phases(row: &Row) -> Vec<Row> {
    let (mut puts, mut gets) = (row.clone(), row.clone());
    let part = |part: &str| {
        let is_part = |one: &&Published| one.part.is_empty() || one.part == part;
        row.published.iter().filter(is_part).cloned().collect::<Vec<_>>()
    };
    let reads = row.run.ops * u64::from(row.run.reads_percent) / 100;
    puts.about = format!("The puts of `{}` alone, before its gets", row.id);
    gets.about = format!("The gets of `{}` alone, after its puts", row.id);
    (puts.id, puts.published) = (format!("{}/puts", row.id), part("put"));
    puts.run = Run { op: Op::Put, ops: row.run.ops - reads, ..row.run.clone() };
    puts.seed = Vec::new();
    (gets.id, gets.published) = (format!("{}/gets", row.id), part("get"));
    gets.run = Run { op: Op::Get, ops: reads, ..row.run.clone() };
    vec![puts, gets]
}

impl Settings {
    /// These settings, with `other` as defaults.
    fn over(&self, other: &Self) -> Self {
        Self {
            threads: self.threads.or(other.threads),
            keys: self.keys.or(other.keys),
            key_bytes: self.key_bytes.or(other.key_bytes),
            value_bytes: self.value_bytes.or(other.value_bytes),
            compressible_percent: self.compressible_percent.or(other.compressible_percent),
            key_style: self.key_style.or(other.key_style),
            value_style: self.value_style.or(other.value_style),
            codec: self.codec.or(other.codec),
            durability: self.durability.or(other.durability),
            cache_mib: self.cache_mib.or(other.cache_mib),
            memory_mib: self.memory_mib.or(other.memory_mib),
            write_buffer_mib: self.write_buffer_mib.or(other.write_buffer_mib),
            families: self.families.or(other.families),
            level0_runs: self.level0_runs.or(other.level0_runs),
            table: self.table.or(other.table),
            warm: self.warm.or(other.warm),
            seconds: self.seconds.or(other.seconds),
        }
    }
}

fn scaled(count: u64, scale: f64) -> u64 {
    ((count as f64 * scale) as u64).max(count.min(SCALED_MIN))
}

/// All suites.
///
/// # Panics
/// If a file of the repository is wrong; a test reads them all.
#[must_use]
pub fn suites() -> Vec<Suite> {
    FILES.iter().map(|(name, text)| parse(name, text)).collect()
}

/// The suite of `silt-bench demo`.
///
/// # Panics
/// As [`suites`].
#[must_use]
pub fn demo() -> Suite {
    parse("demo", DEMO)
}

fn parse(name: &str, text: &str) -> Suite {
    toml::from_str(text).unwrap_or_else(|error| panic!("suite {name}: {error}"))
}

/// The requested rows: of some suites, or of all but [`CLAIMS`], `LARGE_DATA` and `SUSTAIN`; those
/// with these ids or prefixes before a slash, or all.
///
/// # Errors
/// A message with the unknown name, the nearest one, and all known ones.
pub fn select(suites: &[Suite], names: &[String], rows: &[String]) -> Result<Vec<Suite>, String> {
    let known: Vec<&str> = suites.iter().map(|suite| suite.suite.as_str()).collect();
    for name in names {
        known_or_nearest("suite", name, &known)?;
    }
    let is_named = |suite: &&Suite| match names {
        [] => ![CLAIMS, LARGE_DATA, SUSTAIN].contains(&suite.suite.as_str()),
        names => names.contains(&suite.suite),
    };
    let mut chosen: Vec<Suite> = suites.iter().filter(is_named).cloned().collect();
    let matches = |id: &str, wanted: &str| {
        id == wanted || id.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
    };
    let ids: Vec<&str> =
        chosen.iter().flat_map(|suite| suite.rows.iter().map(|row| row.id.as_str())).collect();
    for wanted in rows {
        if !ids.iter().any(|id| matches(id, wanted)) {
            known_or_nearest("row", wanted, &ids)?;
        }
    }
    if !rows.is_empty() {
        for suite in &mut chosen {
            suite.rows.retain(|row| rows.iter().any(|wanted| matches(&row.id, wanted)));
        }
        chosen.retain(|suite| !suite.rows.is_empty());
    }
    Ok(chosen)
}

/// Checks that a name is known.
///
/// # Errors
/// A message with the nearest name and all of them.
pub fn known_or_nearest(what: &str, name: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&name) {
        return Ok(());
    }
    let distance = |other: &&&str| strsim::damerau_levenshtein(name, other);
    let nearest = known.iter().min_by_key(distance);
    let nearest = nearest.map_or(String::new(), |nearest| format!("; did you mean `{nearest}`?"));
    let mut unique = known.to_vec();
    unique.dedup();
    Err(format!("unknown {what} `{name}`{nearest}\nthere are: {}", unique.join(", ")))
}

#[cfg(test)]
mod tests;
