//! A run from its request to its files: preliminary measurements, messages, rows, results.
//!
//! It does not read the command line.

use crate::terminal::{Terminal, width};
use clap::{Args, ValueEnum};
use siltdb_bench::{
    checkout::Checkout,
    commands::{self, Outputs},
    engine::{Arm, Class, Durability, Failure, FailureKind},
    field::{Field, YARDSTICK},
    files::Output,
    job::Report,
    limits::effort::Effort,
    machine::machine,
    report::{numbers::words, ranking::is_ours, table},
    result::{Engine, Options as RunOptions, Results, Row, SCHEMA, Status},
    runner::{
        self, Options, assemble,
        child::{Limits, WorkerBinary},
        classes::{Established, establish},
        estimate,
    },
    suite::{Chosen, Overrides, Setting, Suite},
    worker::is_trial,
};
use std::{
    collections::{BTreeSet, HashMap},
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

/// Set by Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Exit code of an interrupted run, by the convention of shells.
const INTERRUPTED_CODE: u8 = 130;
/// Time to establish an engine's durability class, in seconds. The limits of the machine take twice
/// that.
const GROUNDWORK_SECONDS: u64 = 5;
/// At most this many rows are named in a message.
const NAMED_MAX: usize = 4;

/// Makes Ctrl-C end the running work, and returns the flag that it sets.
///
/// # Errors
/// If the system refuses the handler.
pub fn interrupts() -> Result<&'static AtomicBool, String> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))
        .map_err(|error| error.to_string())?;
    Ok(&INTERRUPTED)
}

/// The exit code of an interrupted run; none if it was not interrupted.
pub fn interrupted_code() -> Option<ExitCode> {
    INTERRUPTED.load(Ordering::Relaxed).then(|| ExitCode::from(INTERRUPTED_CODE))
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The directories of databases and results.
#[derive(Args, Clone)]
pub struct Place {
    /// Directory of the databases while they are measured; they are removed.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Writes the results as JSON, compressed if the name ends with `.gz`.
    #[arg(long)]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    pub outputs: Outputs,
}

/// An engine and the durability asked of it.
type Promise = (String, Durability);

/// A measurement before the rows.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Groundwork {
    /// The limits of the machine.
    Limits,
    /// The durability classes of engines.
    Classes,
}

/// A run that is ready to start.
pub struct Course {
    /// The suites, with the chosen rows.
    pub chosen: Vec<Suite>,
    /// The command line's settings for all rows.
    pub overrides: Overrides,
    /// Runs of each engine in each row.
    pub repeat: u32,
    /// Engines at most this many times slower than the best are repeated.
    pub repeat_within: Option<f64>,
    /// Whether data is made as the published benchmarks did.
    pub published: bool,
    /// Seconds after which a measured phase is cut off.
    pub cap: f64,
    /// The time limits of a worker.
    pub limits: Limits,
    /// The participating engines.
    pub field: Field,
    /// The preliminary measurements to skip.
    pub skip: Vec<Groundwork>,
}

impl Course {
    fn rows(&self) -> Vec<Chosen> {
        let of = |suite: &Suite| {
            let with_engines =
                |chosen: Chosen| Chosen { engines: self.field.of(&chosen), ..chosen };
            let rows = suite.rows.iter().map(|row| suite.choose(row, &self.overrides));
            rows.filter(|row| row.seconds != Some(0)).map(with_engines).collect::<Vec<_>>()
        };
        self.chosen.iter().flat_map(of).collect()
    }

    /// Runs it; `earlier` are results to continue from.
    ///
    /// # Errors
    /// A message, if it cannot start, or a file cannot be written.
    pub fn run(
        &self,
        workers: Vec<WorkerBinary>,
        place: &Place,
        earlier: Option<Results>,
    ) -> Result<ExitCode, String> {
        let dir = place.dir.clone().unwrap_or_else(env::temp_dir);
        if !dir.is_dir() {
            return Err(format!("--dir is no directory: {}", dir.display()));
        }
        let json = place.json.as_deref();
        let outputs = place.outputs.open(json.as_slice())?;
        let json = json.map(Output::open).transpose()?;
        self.say_what_stays();
        interrupts()?;
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
        self.say_how_long(&rows, &options);
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
            if let Some(json) = &json
                && let Err(message) = json.write(&results.to_json())
            {
                unwritten = Some(message);
            }
        });
        runner::run(&rows, &options, &mut terminal);
        terminal.end();
        anstream::println!("{}", table::render(&results, width()));
        outputs.write(&results)?;
        match unwritten {
            Some(message) => Err(message),
            None => Ok(code(&results.rows, &options.classes)),
        }
    }

    /// Tells what will run and the expected time.
    fn say_how_long(&self, rows: &[Chosen], options: &Options<'_>) {
        self.say_who_is_left_out(rows);
        let is_here = |engine: &&String| !options.absent.contains_key(*engine);
        let engines: BTreeSet<&String> =
            rows.iter().flat_map(|row| &row.engines).filter(is_here).collect();
        let groundwork = |which| if self.skip.contains(&which) { 0 } else { GROUNDWORK_SECONDS };
        let classes = engines.len() as u64 * groundwork(Groundwork::Classes);
        let before = 2 * groundwork(Groundwork::Limits) + classes;
        let seconds = estimate::seconds(rows, options) as u64 + before;
        let rows = counted(rows.len(), "row");
        let engines = counted(engines.len(), "engine");
        let rounds = counted(self.repeat as usize, "round");
        anstream::eprintln!("{rows}, {engines}, {rounds}: about {}", words(seconds));
    }

    /// Tells which engines of the suites no row has, because they are not built.
    fn say_who_is_left_out(&self, rows: &[Chosen]) {
        let left_out = self.field.left_out(rows);
        if !left_out.is_empty() {
            let names = left_out.into_iter().collect::<Vec<_>>().join(", ");
            anstream::eprintln!("not built and left out: {names}; cargo bench-all builds them");
        }
    }

    /// Tells which rows an option does not affect, because their names give the value.
    fn say_what_stays(&self) {
        let overrides = &self.overrides;
        for setting in Setting::ALL.into_iter().filter(|&setting| overrides.sets(setting)) {
            let naming = |suite: &Suite| {
                let rows = suite.naming(setting).into_iter();
                rows.map(|row| format!("{}/{row}", suite.suite)).collect::<Vec<_>>()
            };
            let rows: Vec<String> = self.chosen.iter().flat_map(naming).collect();
            let (option, count) = (setting.option(), rows.len());
            let more = if count > NAMED_MAX { ", …" } else { "" };
            let first = rows.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>();
            if count > 0 {
                let first = first.join(", ");
                let rows = counted(count, "row");
                let keep = if count == 1 { "keeps what it names" } else { "keep what they name" };
                anstream::eprintln!("{option}: {rows} {keep}: {first}{more}");
            }
        }
    }

    /// The results of an earlier run. Rows that it finished without a failure are removed from
    /// `rows`.
    fn done_before(&self, earlier: &Results, rows: &mut Vec<Chosen>) -> Result<Vec<Row>, String> {
        let (asked, were) = (self.asked(), &earlier.options);
        if (RunOptions { command: were.command.clone(), ..asked }) != *were {
            return Err("--resume: the file of --json was made with other options".to_owned());
        }
        if earlier.commit != commit() {
            return Err("--resume: the file of --json was made by another commit".to_owned());
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

    /// The options of this run, for the results.
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
            sustain: self.overrides.sustain,
            row_seconds_max: Some(self.cap as u64),
            published: self.published,
        }
    }

    /// Results without rows.
    fn results(&self, options: &Options<'_>) -> Results {
        Results {
            schema: SCHEMA,
            created: now(),
            commit: commit(),
            commits_since: None,
            machine: machine(&options.dir),
            options: self.asked(),
            engines: Vec::new(),
            limits: options.machine.clone(),
            suites: self.chosen.iter().map(|suite| suite.definition(&self.overrides)).collect(),
            rows: Vec::new(),
        }
    }
}

/// The commit of this program's checkout; empty if it has none.
fn commit() -> String {
    Checkout::of_this_program().map_or_else(String::new, |checkout| checkout.commit())
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Establishes what acknowledged commits of all engines survive, as far as the rows need it.
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
            // The rows of this engine will report it.
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

/// The command line with these words, for the results. Of absolute paths only the last component is
/// kept, because the rest shows how a machine is laid out.
fn command(words: impl Iterator<Item = String>) -> String {
    words.fold("silt-bench".to_owned(), |all, word| {
        let path = Path::new(&word);
        let name = path.file_name().filter(|_| path.is_absolute());
        format!("{all} {}", name.map_or(word.as_str().into(), |name| name.to_string_lossy()))
    })
}

/// siltdb and its yardstick.
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
            [] => format!("{}, by its own claim", report.facts.class.name()),
            known => known.join("; "),
        },
    }
}

fn code(rows: &[Row], classes: &HashMap<Promise, Established>) -> ExitCode {
    match interrupted_code() {
        Some(code) => code,
        None if fails(rows, classes) => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    }
}

/// A peer that fails, takes too long or loses commits does not fail the run; siltdb does.
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
