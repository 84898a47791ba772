//! The requests of a pass to an engine besides its calls, and their times: a correct map notes
//! them.

use crate::{
    adapters::liar::{Liar, LiarSession, lie},
    engine::{Config, Engine, Facts, Result},
    job::{Extent, Job, Op, Report, State},
    trial,
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

type Honest = Liar<{ lie::HONEST }>;

/// The requests, by directory.
static NOTES: Mutex<BTreeMap<PathBuf, Vec<&'static str>>> = Mutex::new(BTreeMap::new());

/// The note of a session.
const SESSION: &str = "session";
/// The duration of an opening.
const OPENING: Duration = Duration::from_millis(20);
/// The duration for which settling continues to check after everything is quiet.
const LOOKING: Duration = Duration::from_millis(200);

struct Noted {
    honest: Honest,
    dir: PathBuf,
}

fn notes() -> MutexGuard<'static, BTreeMap<PathBuf, Vec<&'static str>>> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(dir: &Path, what: &'static str) {
    notes().entry(dir.to_owned()).or_default().push(what);
}

/// Whether the page cache holds the file that the last close left; none if the system does not
/// report it. A non-blocking read would not tell, because it may start the read itself.
fn is_warm(file: &Path) -> Option<bool> {
    fs::metadata(file).ok()?;
    let mut ask = Command::new("fincore");
    ask.args(["--noheadings", "--output", "PAGES"]).arg(file);
    let pages = ask.output().ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8_lossy(&pages).trim() != "0")
}

impl Engine for Noted {
    type Session<'a> = LiarSession<'a, { lie::HONEST }>;

    const ID: &'static str = "noted";

    fn facts(config: &Config) -> Facts {
        Honest::facts(config)
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        let opened = match is_warm(&dir.join("left")) {
            Some(false) => "open cold",
            Some(true) => "open warm",
            None => "open",
        };
        note(dir, opened);
        thread::sleep(OPENING);
        Ok(Self { honest: Honest::open(dir, config)?, dir: dir.to_owned() })
    }

    fn session(&self) -> Result<Self::Session<'_>> {
        note(&self.dir, SESSION);
        self.honest.session()
    }

    fn flush(&self) -> Result<()> {
        self.honest.flush()
    }

    fn settle(&self) -> Result<Instant> {
        note(&self.dir, "settle");
        let since = self.honest.settle();
        thread::sleep(LOOKING);
        since
    }

    fn compact(&mut self) -> Result<()> {
        self.honest.compact()
    }

    fn close(self) -> Result<()> {
        note(&self.dir, "close");
        fs::write(self.dir.join("left"), [1; 4096])?;
        self.honest.close()
    }
}

/// The requests of a row's throughput pass, without sessions.
fn noted(op: Op, change: impl FnOnce(&mut Job)) -> (Vec<&'static str>, Report) {
    let (mut notes, report) = noted_with_sessions(op, change);
    notes.retain(|&note| note != SESSION);
    (notes, report)
}

fn noted_with_sessions(op: Op, change: impl FnOnce(&mut Job)) -> (Vec<&'static str>, Report) {
    let mut dir = PathBuf::new();
    let report = trial::run::<Noted>(op, |job| {
        change(job);
        dir = job.dir.join("throughput");
    });
    let report = report.unwrap_or_else(|failure| panic!("{op:?}: {failure}"));
    (notes().remove(&dir).unwrap(), report)
}

/// If the system does not report the contents of the page cache, the check is skipped.
fn is_cold(notes: &[&str], at: &[usize]) -> bool {
    at.iter().all(|&at| matches!(notes[at], "open cold" | "open"))
}

#[test]
fn a_cold_row_is_opened_within_each_of_its_passes() {
    let (notes, report) = noted(Op::Get, |job| job.work.state = State::Cold);
    let asked: Vec<&str> = notes.iter().map(|note| note.split(' ').next().unwrap()).collect();
    let prepared = ["open", "settle"];
    let throughput = ["close", "open", "settle"];
    let latency = ["close", "open", "close"];
    let compacted = ["open", "settle", "close"];
    assert_eq!(asked, [&prepared[..], &throughput, &latency, &compacted].concat());
    assert!(is_cold(&notes, &[3, 6]), "{notes:?}");
    assert!(report.throughput.seconds >= OPENING.as_secs_f64(), "{:?}", report.throughput);
    let latency = report.latency.unwrap();
    assert_eq!(latency.calls, 2000, "an opening is not a call");
}

#[test]
fn a_warm_row_is_done_twice_more_on_the_same_database_and_counted_once() {
    let of = |warm_up| {
        let (notes, report) = noted_with_sessions(Op::Get, |job| {
            job.work.warm_up = warm_up;
            job.extent = Extent::Throughput;
        });
        let sessions = notes.iter().filter(|&&note| note == SESSION).count();
        let opened = notes.iter().filter(|note| note.starts_with("open")).count();
        (sessions, opened, report.throughput.ops, report.verified)
    };
    let ((cold, opened, ops, verified), warm) = (of(false), of(true));
    let threads = trial::job(Op::Get, Path::new("")).work.threads as usize;
    assert_eq!(warm, (cold + 2 * threads, opened, ops, verified));
}

#[test]
fn each_opening_of_a_cold_row_is_cold() {
    let (notes, report) = noted(Op::Open, |job| {
        job.work.state = State::Cold;
        job.extent = Extent::Throughput;
    });
    let asked: Vec<&str> = notes.iter().map(|note| note.split(' ').next().unwrap()).collect();
    let once = ["close", "open"];
    let wanted = [&["open", "settle"][..], &once, &once, &once, &["settle", "close"]].concat();
    assert_eq!(asked, wanted);
    assert!(is_cold(&notes, &[3, 5, 7]), "{notes:?}");
    assert_eq!(report.throughput.ops, 3);
}

#[test]
fn rows_that_write_pay_for_no_debt_of_their_seed() {
    let settles = |op, state, change: fn(&mut Job)| {
        let (notes, _) = noted(op, |job| {
            job.extent = Extent::Throughput;
            job.work.state = state;
            change(job);
        });
        notes.iter().filter(|note| **note == "settle").count()
    };
    let unchanged: fn(&mut Job) = |_| {};
    // Once before the clock starts, once on it.
    assert_eq!(settles(Op::Mixed, State::AsIs, unchanged), 2);
    assert_eq!(settles(Op::Get, State::AsIs, unchanged), 1);
    assert_eq!(settles(Op::Mixed, State::Reopened, unchanged), 1);
    assert_eq!(settles(Op::Compact, State::AsIs, unchanged), 1);
    assert_eq!(settles(Op::Put, State::AsIs, |job| job.work.seed.clear()), 1);
}

#[test]
fn looking_whether_it_stays_quiet_is_not_charged() {
    let (_, report) = noted(Op::Put, |job| job.extent = Extent::Throughput);
    let settling = report.throughput.settled_seconds - report.throughput.seconds;
    assert!(settling < LOOKING.as_secs_f64() / 2.0, "{settling}");
}
