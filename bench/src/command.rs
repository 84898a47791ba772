//! The command line: its arguments, its checks, and its output files.

use crate::course::{self, Course, Groundwork, Place};
use crate::terminal::width;
use clap::{Args, Parser, Subcommand, ValueEnum};
use siltdb_bench::{
    checkout::Checkout,
    commands,
    engine::Arm,
    field::{Absent, Field},
    files::{self, Output},
    machine::machine,
    report::numbers::words,
    runner::child::{Limits, WorkerBinary, peer_programs},
    suite::{Overrides, Suite, demo, select, suites},
    upkeep::{self, bar, course::Request, part::Line},
    worker::{self, entries, is_trial},
};
use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{self, ExitCode},
    time::Duration,
};

/// Exit code of an invalid command line, or of a machine without room.
const REFUSED: u8 = 2;
/// The suites and rows of `quick`.
const QUICK: [(&str, &str); 7] = [
    ("tidesdb-v7", "sequential-write/batch-1000"),
    ("tidesdb-v7", "random-write/batch-1000"),
    ("tidesdb-v7", "random-get"),
    ("tidesdb-v7", "seek/random"),
    ("tidesdb-v7", "range-100/random"),
    ("tidesdb-v7", "scan/random"),
    ("durable", "writers-1"),
];

/// The engines of `demo`.
const DEMO: [&str; 4] = ["siltdb", "fjall", "redb", "lmdb"];
/// The reason why one of them does not take part.
const DEMO_ABSENT: &str = "not built in: \
    cargo silt-bench --features lmdb demo needs a C compiler";
/// The file of `demo`'s page unless `--html` names another.
const DEMO_PAGE: &str = "silt-bench-demo.html";
/// Seconds after which a measured phase of `quick` and `demo` is cut off.
const SMALL_CAP_SECONDS: f64 = 3.0;

/// Measures SiltDB and its peers on the same work, and verifies their answers.
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
    /// Runs rows and shows their results.
    Run(Box<Run>),
    /// Runs some rows on siltdb alone, in a minute.
    Quick(Quick),
    /// Runs five rows on siltdb, fjall, redb and LMDB, in three minutes, and writes their page.
    Demo(Demo),
    /// Compares the cost of small steps, many families, copies and removed data with bars.
    Upkeep(Upkeep),
    /// Runs one part of `upkeep`.
    #[command(hide = true)]
    UpkeepPart(UpkeepPart),
    /// Serves one job on standard input and output.
    #[command(hide = true)]
    Worker,
    #[command(flatten)]
    WithoutEngine(commands::Command),
}

#[derive(Args)]
struct Run {
    /// Suites; all but `claims` if none is named.
    #[arg(long, value_delimiter = ',')]
    suite: Vec<String>,
    /// Rows, or beginnings of rows up to a slash; all if none is named.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Engines; all that have a worker if none is named.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Multiplies keys and operations; 1 is as published.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Number of runs of each engine in each row.
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Repeats only siltdb, RocksDB and the engines that are at most this many times slower than
    /// the best of their durability class in the first round.
    #[arg(long, value_name = "FACTOR")]
    repeat_within: Option<f64>,
    /// Makes keys, values and shapes as the published benchmarks did: only rows with published
    /// figures, and mixed rows as one phase after the other.
    #[arg(long)]
    published: bool,
    /// Continues an earlier run with the same options: rows in the file of --json are kept, except
    /// those in which an engine failed.
    #[arg(long, requires = "json")]
    resume: bool,
    /// Number of threads of all rows.
    #[arg(long)]
    threads: Option<u32>,
    /// Number of writes in a commit, in all rows that write.
    #[arg(long)]
    batch: Option<u32>,
    /// Size of values in all rows.
    #[arg(long)]
    value_size: Option<u32>,
    /// Size of the block caches of all rows, for engines that have one, in MiB.
    #[arg(long, value_name = "MIB")]
    cache: Option<u64>,
    /// Does all reads of a row twice before it counts, in rows that write nothing, so that caches
    /// are warm. Cold rows and openings do not change.
    #[arg(long)]
    warm: bool,
    /// Seconds that the timed rows last, instead of their own; 0 leaves these rows out.
    #[arg(long, value_name = "SECONDS")]
    sustain: Option<u32>,
    /// The options that engines get.
    #[arg(long, value_enum, default_value_t = ArmName::Equal)]
    arm: ArmName,
    /// An engine that cannot run here, and the reason, which its rows show. May be repeated.
    #[arg(long, value_name = "ENGINE=REASON")]
    absent: Vec<Absent>,
    /// Results of an earlier run: in each of its rows only siltdb, RocksDB and the two best others
    /// of the same durability class take part.
    #[arg(long, value_name = "FILE")]
    best_of: Option<PathBuf>,
    /// Skips a measurement before the rows: the limits of the machine (ten seconds), or what
    /// acknowledged commits survive (some seconds for each engine).
    #[arg(long, value_enum, value_delimiter = ',')]
    skip: Vec<Groundwork>,
    /// Seconds after which a measured phase is cut off and reported as capped. Seed phases are
    /// never cut off.
    #[arg(long, default_value_t = 600.0)]
    cap: f64,
    /// Seconds after which all work of an engine for one run of a row is cut off. The row is then
    /// reported as capped, without a figure.
    #[arg(long, default_value_t = 3600)]
    timeout: u64,
    /// Seconds without progress after which an engine fails its row.
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

#[derive(Args)]
struct Demo {
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Upkeep {
    /// Rows, or their part before the slash; all if none is named.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Directory of the databases while they are measured; they are removed.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes JSON to standard output instead of the table, or to a file beside it.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Exits with code 1 if a bar is missed.
    #[arg(long)]
    check: bool,
}

#[derive(Args)]
struct UpkeepPart {
    part: String,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    seconds: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum ArmName {
    /// The same for all engines that have them.
    Equal,
    /// Each engine's own defaults.
    Defaults,
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Worker => return worker::serve(&entries()),
        Command::List => list(),
        Command::Run(run) => execute(&run),
        Command::Quick(quick) => execute_quick(quick.place),
        Command::Demo(demo) => execute_demo(demo.place),
        Command::Upkeep(upkeep) => execute_upkeep(upkeep),
        Command::UpkeepPart(part) => serve_part(&part),
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

/// The available workers: this program, and those built in `peers` of its checkout.
fn workers() -> Result<Vec<WorkerBinary>, String> {
    let mut workers = vec![WorkerBinary::this().map_err(|failure| failure.message)?];
    let peers = Checkout::of_this_program().map(|checkout| checkout.peers());
    for program in peers.iter().flat_map(|peers| peer_programs(peers)) {
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
        sustain: run.sustain,
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
        field = field.best_of(files::read(earlier)?);
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
        Some(path) if run.resume && path.exists() => Some(files::read(path)?),
        _ => None,
    };
    course.run(workers, &run.place, earlier)
}

/// Suites in the form of the benchmarks that they reproduce.
fn as_published(chosen: Vec<Suite>, named: &[String]) -> Result<Vec<Suite>, String> {
    let ids: Vec<String> = chosen.iter().map(|suite| suite.suite.clone()).collect();
    let made: Vec<Suite> = chosen.into_iter().filter_map(Suite::as_published).collect();
    let lacks = |id: &&String| named.contains(id) && made.iter().all(|suite| suite.suite != **id);
    match ids.iter().find(lacks) {
        Some(id) => Err(format!("the data behind {id}'s published figures is not known")),
        None => Ok(made),
    }
}

fn execute_quick(place: Place) -> Result<ExitCode, String> {
    let mut chosen = suites();
    for suite in &mut chosen {
        suite.rows.retain(|row| QUICK.contains(&(suite.suite.as_str(), row.id.as_str())));
    }
    chosen.retain(|suite| !suite.rows.is_empty());
    let overrides = Overrides { scale: 0.05, threads: Some(2), ..Overrides::default() };
    let workers = workers()?;
    let field = Field::new(&workers, &["siltdb".to_owned()], &[])?;
    small_course(chosen, overrides, field).run(workers, &place, None)
}

fn execute_demo(place: Place) -> Result<ExitCode, String> {
    let workers = workers()?;
    let is_built = |engine: &&str| workers.iter().any(|worker| worker.drives(engine));
    let absent = |engine: &str| {
        let reason = DEMO_ABSENT.to_owned();
        Absent { engine: engine.to_owned(), reason }
    };
    let absent: Vec<Absent> =
        DEMO.into_iter().filter(|engine| !is_built(engine)).map(absent).collect();
    let field = Field::new(&workers, &DEMO.map(str::to_owned), &absent)?;
    let course = Course { repeat: 3, ..small_course(vec![demo()], Overrides::default(), field) };
    let outputs = place.outputs.clone().or_html(DEMO_PAGE);
    let page = outputs.html().map(Path::to_owned);
    let code = course.run(workers, &Place { outputs, ..place }, None)?;
    if let Some(page) = page {
        anstream::println!("the page: {}", page.display());
    }
    Ok(code)
}

/// A run without preliminary measurements and with short phases.
fn small_course(chosen: Vec<Suite>, overrides: Overrides, field: Field) -> Course {
    Course {
        chosen,
        overrides,
        repeat: 1,
        repeat_within: None,
        published: false,
        cap: SMALL_CAP_SECONDS,
        limits: Limits::default(),
        field,
        skip: vec![Groundwork::Limits, Groundwork::Classes],
    }
}

/// Measures, shows and judges. Wrong contents fail it with and without `--check`.
fn execute_upkeep(upkeep: Upkeep) -> Result<ExitCode, String> {
    let dir = upkeep.dir.unwrap_or_else(env::temp_dir);
    if !dir.is_dir() {
        return Err(format!("--dir is no directory: {}", dir.display()));
    }
    let is_stdout = upkeep.json.as_deref() == Some(Path::new("-"));
    let json = upkeep.json.as_deref().filter(|_| !is_stdout).map(Output::open).transpose()?;
    let request = Request::new(dir.clone(), upkeep.rows)?;
    let interrupted = course::interrupts()?;
    anstream::eprintln!("takes {} at most", words(request.seconds()));
    let judged =
        upkeep::course::run(&request, interrupted, &|doing| anstream::eprintln!("{doing}"));
    let text = bar::json(&judged, &machine(&dir), course::now());
    if let Some(json) = json {
        json.write(&text)?;
    }
    let shown = if is_stdout { text } else { bar::table(&judged, width()) };
    anstream::print!("{shown}");
    let is_missed = upkeep.check && !bar::are_met(&judged);
    Ok(match course::interrupted_code() {
        Some(code) => code,
        None if is_missed || !bar::are_right(&judged) => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

/// Writes to standard output. The part ends when no process reads that any more.
fn serve_part(part: &UpkeepPart) -> Result<ExitCode, String> {
    let say = |line: &Line| {
        let mut text = serde_json::to_string(line).expect("lines are plain data");
        text.push('\n');
        let mut out = io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            process::exit(1);
        }
    };
    let served = upkeep::parts::serve(&part.part, &part.dir, part.seconds, &say);
    served.map(|()| ExitCode::SUCCESS).map_err(|failure| failure.message)
}
