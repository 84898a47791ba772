//! The command line: what it takes, what it refuses, and what it leaves behind.

use crate::terminal::Terminal;
use clap::{Args, Parser, Subcommand, ValueEnum};
use siltdb_bench::{
    commands::{self, Outputs},
    engine::{Arm, Class, Durability, Failure, FailureKind},
    field::{Absent, Field, YARDSTICK},
    job::Report,
    limits::effort::Effort,
    machine::machine,
    report::{ranking::is_ours, table},
    result::{Engine, Options as RunOptions, Results, Row, SCHEMA, Status},
    runner::{
        self, Options, assemble,
        child::{Limits, WorkerBinary, peer_programs},
        classes::{Established, establish},
    },
    suite::{Chosen, Overrides, Suite, select, suites},
    worker::{self, entries, is_trial},
};
use std::{
    collections::{BTreeSet, HashMap},
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Exit code of a command line that makes no sense, or of a machine without room.
const REFUSED: u8 = 2;
/// Exit code of an interrupted run, as shells have it.
const INTERRUPTED_CODE: u8 = 130;
/// Narrower than this a table is no table.
const WIDTH_MIN: u16 = 60;
/// The width of tables, unless the shell says another.
const WIDTH: u16 = 140;

/// What `quick` runs: suite and row.
const QUICK: [(&str, &str); 7] = [
    ("tidesdb-v7", "sequential-write/batch-1000"),
    ("tidesdb-v7", "random-write/batch-1000"),
    ("tidesdb-v7", "random-get"),
    ("tidesdb-v7", "seek/random"),
    ("tidesdb-v7", "range-100/random"),
    ("tidesdb-v7", "scan/random"),
    ("durable", "writers-1"),
];

/// Measures SiltDB and its peers on the same work, and checks what they answered.
#[derive(Parser)]
#[command(name = "silt-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows suites, rows and engines.
    List,
    /// Runs rows and shows what came of them.
    Run(Box<Run>),
    /// Runs some rows on siltdb alone, in a minute.
    Quick(Quick),
    /// Serves one job on standard input and output.
    #[command(hide = true)]
    Worker,
    #[command(flatten)]
    WithoutEngine(commands::Command),
}

#[derive(Args)]
struct Run {
    /// Suites; all if none is named.
    #[arg(long, value_delimiter = ',')]
    suite: Vec<String>,
    /// Rows, or beginnings of rows up to a slash; all if none is named.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Engines; all that can be driven if none is named.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Multiplies keys and operations; 1 is as published.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Runs of each engine in each row.
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Repeats only siltdb, RocksDB and the engines that are at most this many times slower than
    /// the best of their durability class in the first round.
    #[arg(long, value_name = "FACTOR")]
    repeat_within: Option<f64>,
    /// Makes keys, values and shapes as the published benchmarks did: only rows that figures were
    /// published for, and mixed rows a phase after the other.
    #[arg(long)]
    published: bool,
    /// Goes on where an earlier run with the same options ended: rows that the file of --json
    /// already holds are kept, but for those in which an engine failed.
    #[arg(long, requires = "json")]
    resume: bool,
    /// Threads of all rows.
    #[arg(long)]
    threads: Option<u32>,
    /// Writes of a commit, in all rows that write.
    #[arg(long)]
    batch: Option<u32>,
    /// Size of values in all rows.
    #[arg(long)]
    value_size: Option<u32>,
    /// Size of the block caches of all rows, for engines that have one, in MiB.
    #[arg(long, value_name = "MIB")]
    cache: Option<u64>,
    /// Does all that a row reads twice before it counts, in rows that write nothing, so that caches
    /// hold what they can. Cold rows and openings stay what they are.
    #[arg(long)]
    warm: bool,
    /// Which options engines get.
    #[arg(long, value_enum, default_value_t = ArmName::Equal)]
    arm: ArmName,
    /// An engine that cannot run here, and why: its rows say so. May be repeated.
    #[arg(long, value_name = "ENGINE=REASON")]
    absent: Vec<Absent>,
    /// Results of an earlier run: in each of its rows only siltdb, RocksDB and the two best others
    /// of the same durability class take part.
    #[arg(long, value_name = "FILE")]
    best_of: Option<PathBuf>,
    /// What is not found out before the rows: what the machine can do at best (ten seconds), and
    /// what acknowledged commits survive (some seconds for each engine).
    #[arg(long, value_enum, value_delimiter = ',')]
    skip: Vec<Groundwork>,
    /// Seconds after which a measured phase is cut off and reported as capped. Phases that seed
    /// are not.
    #[arg(long, default_value_t = 600.0)]
    cap: f64,
    /// Seconds after which all that an engine does for a row, once, is cut off, and the row
    /// reported as capped, without a figure.
    #[arg(long, default_value_t = 3600)]
    timeout: u64,
    /// Seconds without any progress after which an engine fails its row.
    #[arg(long, default_value_t = 180.0)]
    silence: f64,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Quick {
    #[command(flatten)]
    place: Place,
}

#[derive(Args, Clone)]
struct Place {
    /// Where databases lie while they are measured; they are removed.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    outputs: Outputs,
}

#[derive(Clone, Copy, ValueEnum)]
enum ArmName {
    /// The same for all engines, where they have them.
    Equal,
    /// Each engine's own defaults.
    Defaults,
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Worker => return worker::serve(&entries()),
        Command::List => list(),
        Command::Run(run) => execute(&run),
        Command::Quick(quick) => execute_quick(quick.place),
        Command::WithoutEngine(command) => command.run(width()).map(|outcome| {
            anstream::print!("{}", outcome.text);
            ExitCode::from(outcome.exit_code)
        }),
    };
    done.unwrap_or_else(|message| {
        anstream::eprintln!("error: {message}");
        ExitCode::from(REFUSED)
    })
}

/// The width of tables.
fn width() -> u16 {
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(WIDTH).max(WIDTH_MIN)
}

/// The workers that are built: this program, and those found in `peers`.
fn workers() -> Result<Vec<WorkerBinary>, String> {
    let mut workers = vec![WorkerBinary::this().map_err(|failure| failure.message)?];
    for program in peer_programs(Path::new("peers")) {
        match WorkerBinary::ask(program.clone(), vec!["worker".to_owned()]) {
            Ok(worker) => workers.push(worker),
            Err(failure) => {
                anstream::eprintln!("{} is left out: {failure}", program.display());
            }
        }
    }
    Ok(workers)
}

fn list() -> Result<ExitCode, String> {
    for suite in suites() {
        anstream::println!("{}: {}", suite.suite, suite.about);
        for row in &suite.rows {
            anstream::println!("  {:<36} {}", row.id, row.about);
        }
    }
    anstream::println!("engines:");
    for engine in workers()?.iter().flat_map(|worker| &worker.engines) {
        if !is_trial(&engine.engine) {
            anstream::println!("  {:<36} {}", engine.engine, engine.version);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn execute(run: &Run) -> Result<ExitCode, String> {
    if !(run.scale > 0.0 && run.scale.is_finite() && run.cap > 0.0 && run.silence > 0.0) {
        return Err("--scale, --cap and --silence must be above 0".to_owned());
    }
    if run.repeat == 0 || run.threads == Some(0) || run.batch == Some(0) {
        return Err("--repeat, --threads and --batch must be at least 1".to_owned());
    }
    if run.repeat_within.is_some_and(|factor| factor.is_nan() || factor < 1.0) {
        return Err("--repeat-within must be at least 1".to_owned());
    }
    let chosen = select(&suites(), &run.suite, &run.rows)?;
    let chosen = if run.published { as_published(chosen, &run.suite)? } else { chosen };
    let overrides = Overrides {
        scale: run.scale,
        threads: run.threads,
        batch: run.batch,
        value_bytes: run.value_size,
        cache_mib: run.cache,
        warm: run.warm,
        arm: match run.arm {
            ArmName::Equal => Arm::Equal,
            ArmName::Defaults => Arm::Defaults,
        },
    };
    let limits = Limits {
        total: Duration::from_secs(run.timeout),
        silence: Duration::from_secs_f64(run.silence),
    };
    let workers = workers()?;
    let mut field = Field::new(&workers, &run.engines, &run.absent)?;
    if let Some(earlier) = &run.best_of {
        field = field.best_of(commands::read(earlier)?);
    }
    let course = Course {
        chosen,
        overrides,
        repeat: run.repeat,
        repeat_within: run.repeat_within,
        published: run.published,
        cap: run.cap,
        limits,
        field,
        skip: run.skip.clone(),
    };
    let earlier = match &run.place.json {
        Some(path) if run.resume && path.exists() => Some(commands::read(path)?),
        _ => None,
    };
    course.run(workers, &run.place, earlier)
}

/// Suites as the benchmarks that they reproduce did them.
fn as_published(chosen: Vec<Suite>, named: &[String]) -> Result<Vec<Suite>, String> {
    let ids: Vec<String> = chosen.iter().map(|suite| suite.suite.clone()).collect();
    let made: Vec<Suite> = chosen.into_iter().filter_map(Suite::as_published).collect();
    let lacks = |id: &&String| named.contains(id) && made.iter().all(|suite| suite.suite != **id);
    match ids.iter().find(lacks) {
        Some(id) => Err(format!("it is not known how {id}'s published figures were made")),
        None => Ok(made),
    }
}

fn execute_quick(place: Place) -> Result<ExitCode, String> {
    let mut chosen = suites();
    for suite in &mut chosen {
        suite.rows.retain(|row| QUICK.contains(&(suite.suite.as_str(), row.id.as_str())));
    }
    chosen.retain(|suite| !suite.rows.is_empty());
    let arm = Arm::Equal;
    let overrides = Overrides { scale: 0.05, threads: Some(2), arm, ..Overrides::default() };
    let limits = Limits::default();
    let workers = workers()?;
    let field = Field::new(&workers, &["siltdb".to_owned()], &[])?;
    let course = Course {
        chosen,
        overrides,
        repeat: 1,
        repeat_within: None,
        published: false,
        cap: 10.0,
        limits,
        field,
        skip: vec![Groundwork::Limits, Groundwork::Classes],
    };
    course.run(workers, &place, None)
}

/// An engine and when it acknowledges.
type Promise = (String, Durability);

/// What is found out before the rows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Groundwork {
    /// What the machine can do at best.
    Limits,
    /// What acknowledged commits survive.
    Classes,
}

/// Everything that is about to run.
struct Course {
    chosen: Vec<Suite>,
    overrides: Overrides,
    repeat: u32,
    repeat_within: Option<f64>,
    published: bool,
    cap: f64,
    limits: Limits,
    field: Field,
    skip: Vec<Groundwork>,
}

impl Course {
    fn rows(&self) -> Vec<Chosen> {
        let of = |suite: &Suite| {
            let with_engines =
                |chosen: Chosen| Chosen { engines: self.field.of(&chosen), ..chosen };
            let rows = suite.rows.iter().map(|row| suite.choose(row, &self.overrides));
            rows.map(with_engines).collect::<Vec<_>>()
        };
        self.chosen.iter().flat_map(of).collect()
    }

    fn run(
        &self,
        workers: Vec<WorkerBinary>,
        place: &Place,
        earlier: Option<Results>,
    ) -> Result<ExitCode, String> {
        let dir = place.dir.clone().unwrap_or_else(env::temp_dir);
        if !dir.is_dir() {
            return Err(format!("--dir is no directory: {}", dir.display()));
        }
        ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))
            .map_err(|error| error.to_string())?;
        let absent = self.field.absent().iter();
        let mut options = Options {
            absent: absent.map(|one| (one.engine.clone(), one.reason.clone())).collect(),
            machine: Vec::new(),
            classes: HashMap::new(),
            cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            repeat: self.repeat,
            repeat_within: self.repeat_within,
            always: is_always_repeated,
            dir,
            cap_seconds: self.cap,
            limits: self.limits,
            workers,
            interrupted: &INTERRUPTED,
        };
        let mut rows = self.rows();
        let kept = match &earlier {
            Some(earlier) => self.done_before(earlier, &mut rows)?,
            None => Vec::new(),
        };
        runner::check_room(&rows, &options)?;
        if !self.skip.contains(&Groundwork::Limits) {
            options.machine = commands::limits(&options.dir, &Effort::default())?;
        }
        if !self.skip.contains(&Groundwork::Classes) {
            options.classes = classes(&rows, self.overrides.arm, &options);
        }
        let mut results = self.results(&options);
        let known = earlier.map_or_else(Vec::new, |earlier| earlier.engines);
        results.rows.clone_from(&kept);
        results.engines.clone_from(&known);
        let mut unwritten = None;
        let mut terminal = Terminal::new(rows.len(), |done, reports| {
            results.rows = [&kept, done].concat();
            let engines = reports.iter().map(|(id, report)| engine(id, report, &options));
            results.engines = engines.collect();
            let is_new = |one: &&Engine| results.engines.iter().all(|e| e.engine != one.engine);
            let others: Vec<Engine> = known.iter().filter(is_new).cloned().collect();
            results.engines.extend(others);
            if let Some(path) = &place.json
                && let Err(error) = fs::write(path, results.to_json())
            {
                unwritten = Some(format!("{}: {error}", path.display()));
            }
        });
        runner::run(&rows, &options, &mut terminal);
        terminal.end();
        anstream::println!("{}", table::render(&results, width()));
        place.outputs.write(&results)?;
        match unwritten {
            Some(message) => Err(message),
            None => Ok(code(&results.rows, &options.classes)),
        }
    }

    /// The results that an earlier run has; what it did, without a failure, is not among the rows
    /// that are still to run.
    fn done_before(&self, earlier: &Results, rows: &mut Vec<Chosen>) -> Result<Vec<Row>, String> {
        let (asked, were) = (self.asked(), &earlier.options);
        if (RunOptions { command: were.command.clone(), ..asked }) != *were {
            return Err("--resume: the file of --json was made with other options".to_owned());
        }
        let is_done = |row: &Chosen| {
            let of = |one: &Row, engine: &String| {
                (&one.suite, &one.row, &one.engine) == (&row.suite, &row.row, engine)
                    && one.status != Status::Failed
            };
            row.engines.iter().all(|engine| earlier.rows.iter().any(|one| of(one, engine)))
        };
        rows.retain(|row| !is_done(row));
        let again =
            |one: &Row| rows.iter().any(|row| (&row.suite, &row.row) == (&one.suite, &one.row));
        Ok(earlier.rows.iter().filter(|one| !again(one)).cloned().collect())
    }

    /// What was asked for.
    fn asked(&self) -> RunOptions {
        RunOptions {
            command: command(env::args().skip(1)),
            scale: self.overrides.scale,
            repeat: self.repeat,
            repeat_within: self.repeat_within,
            arm: assemble::arm(self.overrides.arm),
            threads: self.overrides.threads,
            batch: self.overrides.batch,
            value_bytes: self.overrides.value_bytes,
            cache_mib: self.overrides.cache_mib,
            warm: self.overrides.warm,
            row_seconds_max: Some(self.cap as u64),
            published: self.published,
        }
    }

    /// Results without rows.
    fn results(&self, options: &Options<'_>) -> Results {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Results {
            schema: SCHEMA,
            created: since.map_or(0, |since| since.as_secs()),
            machine: machine(&options.dir),
            options: self.asked(),
            engines: Vec::new(),
            limits: options.machine.clone(),
            suites: self.chosen.iter().map(Suite::definition).collect(),
            rows: Vec::new(),
        }
    }
}

/// Tries out what acknowledged commits of all engines survive, as far as rows ask.
fn classes(rows: &[Chosen], arm: Arm, options: &Options<'_>) -> HashMap<Promise, Established> {
    let asked = |row: &Chosen| {
        let durability = row.config.durability;
        row.engines.iter().map(|engine| (engine.clone(), durability)).collect::<Vec<_>>()
    };
    let asked: BTreeSet<Promise> = rows.iter().flat_map(asked).collect();
    let mut classes = HashMap::new();
    for (engine, durability) in asked {
        let worker = options.workers.iter().find(|worker| worker.drives(&engine));
        let Some(worker) = worker.filter(|_| !is_trial(&engine)) else { continue };
        if INTERRUPTED.load(Ordering::Relaxed) {
            break;
        }
        let promise = (durability, arm);
        match establish(worker, &engine, promise, &options.dir, &INTERRUPTED) {
            Ok(established) => {
                anstream::eprintln!("{engine}, {durability:?}: {}", established.how);
                classes.insert((engine, durability), established);
            }
            // Its rows will say so.
            Err(Failure { kind: FailureKind::Unsupported, .. }) => {}
            Err(failure) => {
                let how = format!("memory: {failure}");
                anstream::eprintln!("{engine}, {durability:?}: {how}");
                let established = Established { class: Class::Memory, how };
                classes.insert((engine, durability), established);
            }
        }
    }
    classes
}

/// The command line with these words, as results keep it: of paths from the root, which say
/// where somebody keeps their files, only the last component.
fn command(words: impl Iterator<Item = String>) -> String {
    words.fold("silt-bench".to_owned(), |all, word| {
        let path = Path::new(&word);
        let name = path.file_name().filter(|_| path.is_absolute());
        format!("{all} {}", name.map_or(word.as_str().into(), |name| name.to_string_lossy()))
    })
}

/// siltdb, and what it is measured against.
fn is_always_repeated(engine: &str) -> bool {
    is_ours(engine) || engine == YARDSTICK
}

fn engine(id: &str, report: &Report, options: &Options<'_>) -> Engine {
    let each = [Durability::Buffered, Durability::Synced];
    let classes = each.iter().filter_map(|&one| options.classes.get(&(id.to_owned(), one)));
    let established: Vec<&str> = classes.map(|class| class.how.as_str()).collect();
    Engine {
        engine: id.to_owned(),
        version: report.facts.version.clone(),
        build: String::new(),
        options: report.facts.options.clone(),
        durability: match &established[..] {
            [] => format!("{}, by its own word", report.facts.class.name()),
            known => known.join("; "),
        },
    }
}

fn code(rows: &[Row], classes: &HashMap<Promise, Established>) -> ExitCode {
    if INTERRUPTED.load(Ordering::Relaxed) {
        ExitCode::from(INTERRUPTED_CODE)
    } else if fails(rows, classes) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// A peer that fails, takes too long, or loses commits, does not fail the run; siltdb does.
fn fails(rows: &[Row], classes: &HashMap<Promise, Established>) -> bool {
    let ended = |row: &Row| match row.status {
        Status::Failed => true,
        Status::Capped => row.figure().is_none(),
        Status::Ok | Status::NotRun | Status::Unsupported => false,
    };
    let ours = |row: &Row| is_ours(&row.engine) && ended(row);
    let lost = |((engine, _), established): (&Promise, &Established)| {
        is_ours(engine) && established.class == Class::Memory
    };
    rows.iter().any(ours) || classes.iter().any(lost)
}

#[cfg(test)]
mod tests;
