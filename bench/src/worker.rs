//! The worker's side: sends its first line, reads one job, reports progress, answers, and ends.
//!
//! It holds the list of engines of its binary; binaries of peers have their own list.

use crate::{
    adapters::{
        btreemap::Btreemap,
        liar::{Liar, lie},
        null::Null,
        siltdb::Siltdb,
    },
    engine::{Concurrency, Config, Engine, Failure, Result, TableKind, Values},
    job::{
        CrashStep, CrashTest, EngineInfo, Hello, Job, Left, Line, PROTOCOL, Plans, Progress,
        Report, Request, Survived,
    },
    measure::Watch,
    pass::{self, crash, killed},
};
use std::{
    io::{self, BufRead, Write},
    process::{self, ExitCode},
    time::Duration,
};

/// Commits for a crash test, and reports each commit.
type Commit = fn(&CrashTest, &dyn Fn(&Progress)) -> Result<()>;

/// Seeds a database, reports that, and waits to be killed.
type Leave = fn(&Job, &Watch<'_>, &dyn Fn(Left)) -> Result<()>;

/// An engine that a worker can drive.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its id.
    pub id: &'static str,
    /// The form of its tables.
    pub table: TableKind,
    /// How its transactions avoid lost updates.
    pub concurrency: Concurrency,
    /// Where long values lie.
    pub values: Values,
    /// Its version.
    pub version: fn() -> String,
    /// Runs a row on it.
    pub run: fn(&Job, &Watch<'_>) -> Result<Report>,
    /// Commits in a crash test until it is killed.
    pub commit: Commit,
    /// Counts the commits that remain.
    pub count: fn(&CrashTest) -> Result<Survived>,
    /// Leaves the database of a row at a kill.
    pub leave: Leave,
}

impl Entry {
    /// An engine under its own id.
    #[must_use]
    pub fn of<E: Engine>() -> Self {
        Self::named::<E>(E::ID)
    }

    /// An engine under another id.
    #[must_use]
    pub fn named<E: Engine>(id: &'static str) -> Self {
        let version = || E::facts(&Config::default()).version;
        let (commit, count) = (crash::commit::<E>, crash::count::<E>);
        let (run, leave) = (pass::run::<E>, killed::leave::<E>);
        let (table, concurrency) = (TableKind::Block, Concurrency::Optimistic);
        let values = Values::Inline;
        Self { id, table, concurrency, values, version, run, commit, count, leave }
    }

    /// The same with tables of another kind.
    #[must_use]
    pub fn with_tables(self, table: TableKind, id: &'static str) -> Self {
        Self { id, table, ..self }
    }

    /// The same engine under another id, with locks in transactions.
    #[must_use]
    pub fn with_locks(self, id: &'static str) -> Self {
        Self { id, concurrency: Concurrency::Locks, ..self }
    }

    /// The same engine under another id, with long values in files of their own.
    #[must_use]
    pub fn with_separation(self, id: &'static str) -> Self {
        Self { id, values: Values::Separated, ..self }
    }
}

/// The engines of this binary.
#[must_use]
pub fn entries() -> Vec<Entry> {
    let siltdb = Entry::of::<Siltdb>();
    let ours = [
        siltdb,
        siltdb.with_tables(TableKind::Btree, "siltdb-btree"),
        siltdb.with_tables(TableKind::Mapped, "siltdb-map"),
        siltdb.with_tables(TableKind::MappedBtree, "siltdb-btree-map"),
        siltdb.with_locks("siltdb-locks"),
        siltdb.with_separation("siltdb-blobs"),
    ];
    ours.into_iter().chain([Entry::of::<Btreemap>()]).chain(peers()).chain(trials()).collect()
}

/// The other built-in engines.
fn peers() -> Vec<Entry> {
    vec![
        #[cfg(feature = "sled")]
        Entry::of::<crate::adapters::sled::Sled>(),
        #[cfg(feature = "redb")]
        Entry::of::<crate::adapters::redb::Redb>(),
        #[cfg(feature = "fjall")]
        Entry::of::<crate::adapters::fjall::Fjall>(),
        #[cfg(feature = "lmdb")]
        Entry::of::<crate::adapters::lmdb::Lmdb>(),
        #[cfg(feature = "mdbx")]
        Entry::of::<crate::adapters::mdbx::Mdbx>(),
        #[cfg(feature = "sqlite")]
        Entry::of::<crate::adapters::sqlite::Sqlite>(),
        #[cfg(feature = "thunder")]
        Entry::of::<crate::adapters::thunder::Thunder>(),
    ]
}

/// Engines that test the benchmark.
fn trials() -> Vec<Entry> {
    vec![
        Entry { run: pass::harness::<Null>, ..Entry::of::<Null>() },
        Entry::named::<Liar<{ lie::HONEST }>>("liar-honest"),
        Entry::named::<Liar<{ lie::DROPS_WRITES }>>("liar-drops-writes"),
        Entry::named::<Liar<{ lie::ERRORS }>>("liar-errors"),
        Entry::named::<Liar<{ lie::HANGS }>>("liar-hangs"),
        Entry::named::<Liar<{ lie::CRASHES }>>("liar-crashes"),
        Entry::named::<Liar<{ lie::LOSES_UPDATES }>>("liar-loses-updates"),
    ]
}

/// Whether an engine exists to test the benchmark, not to be measured.
#[must_use]
pub fn is_trial(engine: &str) -> bool {
    engine == "null" || engine.ends_with("-null") || engine.starts_with("liar-")
}

/// Serves one job on standard input and output.
pub fn serve(entries: &[Entry]) -> ExitCode {
    let info =
        |entry: &Entry| EngineInfo { engine: entry.id.to_owned(), version: (entry.version)() };
    let engines = entries.iter().map(info).collect();
    say(&Line::Hello(Hello { protocol: PROTOCOL, engines, plans: Plans::Drawn }));
    let mut request = String::new();
    if io::stdin().lock().read_line(&mut request).is_err() || request.is_empty() {
        return ExitCode::SUCCESS;
    }
    say(&answer(entries, &request).unwrap_or_else(Line::Failed));
    ExitCode::SUCCESS
}

fn answer(entries: &[Entry], request: &str) -> Result<Line> {
    let tell = |progress: &Progress| say(&Line::Progress(progress.clone()));
    match serde_json::from_str(request)? {
        Request::Job(mut job) => {
            let entry = entry(entries, &job.engine, &mut job.config)?;
            let cap = Duration::try_from_secs_f64(job.cap_seconds)?;
            let report = (entry.run)(&job, &Watch { tell: &tell, cap })?;
            Ok(Line::Report(Box::new(report)))
        }
        Request::Leave(mut job) => {
            let entry = entry(entries, &job.engine, &mut job.config)?;
            let cap = Duration::try_from_secs_f64(job.cap_seconds)?;
            (entry.leave)(&job, &Watch { tell: &tell, cap }, &|left| say(&Line::Left(left)))?;
            Err(nobody_killed())
        }
        Request::Crash(mut test) => {
            let entry = entry(entries, &test.engine, &mut test.config)?;
            if test.step == CrashStep::Commit {
                (entry.commit)(&test, &tell)?;
                return Err(nobody_killed());
            }
            Ok(Line::Survived((entry.count)(&test)?))
        }
    }
}

fn nobody_killed() -> Failure {
    Failure::error("the worker was not killed")
}

/// The entry of an engine; sets the form of tables and the locks that its id stands for.
fn entry<'a>(entries: &'a [Entry], engine: &str, config: &mut Config) -> Result<&'a Entry> {
    let entry = entries.iter().find(|entry| entry.id == engine);
    let entry = entry.ok_or_else(|| Failure::error(format!("no engine {engine}")))?;
    if entry.table != TableKind::Block {
        config.table = entry.table;
    }
    config.concurrency = entry.concurrency;
    config.values = entry.values;
    Ok(entry)
}

/// Writes a line. If no process reads it any more, nothing is left to do.
fn say(line: &Line) {
    let mut text = serde_json::to_string(line).expect("lines are plain data");
    text.push('\n');
    let mut out = io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        process::exit(1);
    }
}
