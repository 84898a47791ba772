//! A worker process: its start, its requests and answers, its time limits, its end.
//!
//! It runs in a process group of its own, so that an interrupt of the terminal reaches the runner
//! only. The runner then ends the worker.

use crate::{
    engine::{Failure, Result},
    job::{
        CrashTest, EngineInfo, Hello, Left, Line, PROTOCOL, Plans, Progress, Report, Request,
        Survived,
    },
    pass::prepare,
    told,
};
use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{self, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Interval between two checks for an interrupt.
const TICK: Duration = Duration::from_millis(50);
/// Limit of the wait for a worker's first line.
const HELLO_MAX: Duration = Duration::from_secs(20);
/// Limit of the wait for a worker's end after its answer.
const EXIT_MAX: Duration = Duration::from_secs(20);
/// The signal that a process cannot catch: `kill -9`.
const KILL: i32 = 9;
/// This much of a worker's standard error is kept.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// The time limits of a child.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The limit of its total time; it is then cut off.
    pub total: Duration,
    /// The limit of the time without a line, or without an operation if they are counted.
    pub silence: Duration,
}

/// A program that speaks the protocol, and its engines.
#[derive(Clone, Debug)]
pub struct WorkerBinary {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its engines.
    pub engines: Vec<EngineInfo>,
}

impl WorkerBinary {
    /// Whether it can drive an engine.
    #[must_use]
    pub fn drives(&self, engine: &str) -> bool {
        self.engines.iter().any(|info| info.engine == engine)
    }

    /// This program itself, which drives the built-in engines.
    ///
    /// # Errors
    /// If it cannot be started or does not answer.
    pub fn this() -> Result<Self> {
        Self::ask(env::current_exe()?, vec!["worker".to_owned()])
    }

    /// Starts a program to read the list of its engines.
    ///
    /// # Errors
    /// If it cannot be started or does not speak the protocol.
    pub fn ask(program: PathBuf, arguments: Vec<String>) -> Result<Self> {
        let unasked = Self { program, arguments, engines: Vec::new() };
        let mut child = Child::start(&unasked)?;
        let hello = child.hello()?;
        Ok(Self { engines: hello.engines, ..unasked })
    }
}

/// The programs below `peers` that are built: `silt-bench-…` in one of its folders or in that
/// folder's release directory.
#[must_use]
pub fn peer_programs(peers: &Path) -> Vec<PathBuf> {
    let entries = |dir: PathBuf| {
        let paths = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut paths: Vec<PathBuf> = paths.collect();
        paths.sort();
        paths
    };
    let is_worker = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        path.is_file() && name.starts_with("silt-bench-") && !name.contains('.')
    };
    entries(peers.to_owned())
        .into_iter()
        .flat_map(|peer| [peer.clone(), peer.join("target/release")])
        .flat_map(entries)
        .filter(is_worker)
        .collect()
}

/// The input of a worker and the thread that writes to it. It stays open until this is dropped.
type Input = JoinHandle<Option<ChildStdin>>;

/// The end of a child.
pub enum Ended {
    /// With a report.
    Report(Box<Report>),
    /// With a count.
    Survived(Survived),
    /// Killed, after it reported what it leaves.
    Left(Left),
    /// Without an answer.
    Failed(Failure),
    /// The run was interrupted.
    Interrupted,
}

/// A running worker. It is killed when it is dropped.
pub struct Child {
    process: process::Child,
    lines: Receiver<String>,
    complaints: Option<JoinHandle<String>>,
}

impl Child {
    /// Starts a worker.
    ///
    /// # Errors
    /// Errors of the system, with the program's name.
    pub fn start(worker: &WorkerBinary) -> Result<Self> {
        let mut command = Command::new(&worker.program);
        command.args(&worker.arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let named = |error| {
            Failure::error(format!("the worker does not start: {error}. program={}", {
                worker.program.display()
            }))
        };
        let mut process = command.spawn().map_err(named)?;
        let out = process.stdout.take().expect("it is piped");
        let errors = process.stderr.take().expect("it is piped");
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(std::result::Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let complaints = Some(thread::spawn(move || last_of(errors)));
        Ok(Self { process, lines, complaints })
    }

    /// The first line of a worker.
    ///
    /// # Errors
    /// If there is no line or another one, or if the protocol differs.
    pub fn hello(&mut self) -> Result<Hello> {
        let line = match self.lines.recv_timeout(HELLO_MAX) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(Failure::error("the worker sent no valid first line"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.crashed()),
        };
        match serde_json::from_str(&line) {
            Ok(Line::Hello(hello)) if hello.protocol == PROTOCOL => Ok(hello),
            Ok(Line::Hello(hello)) => {
                let found = hello.protocol;
                let message = format!("another protocol. expected={PROTOCOL}, found={found}");
                Err(Failure::error(message))
            }
            _ => Err(Failure::error(format!("the worker sent no valid first line: {line}"))),
        }
    }

    /// Sends a request to a worker, and the plan of its job if the worker draws none. Returns the
    /// worker's input, which ends when it is dropped.
    fn tell(&mut self, request: &Request) -> Result<Input> {
        let hello = self.hello()?;
        let mut text =
            serde_json::to_string(request).expect("requests are plain data").into_bytes();
        text.push(b'\n');
        let work = match request {
            Request::Job(job) | Request::Leave(job) if hello.plans == Plans::Told => {
                prepare::check(&job.work)?;
                Some(job.work.clone())
            }
            _ => None,
        };
        let mut input = self.process.stdin.take();
        // A worker that does not read must not keep the runner from watching it.
        Ok(thread::spawn(move || {
            if let Some(input) = &mut input {
                // If the worker has ended, the end of its output reports that.
                let wrote = input.write_all(&text);
                let _ = work.filter(|_| wrote.is_ok()).map(|work| told::write(&work, input));
            }
            input
        }))
    }

    /// Lets a worker commit until it has reported `enough` commits or `most` has passed. Then kills
    /// it, and returns the number that it had reported by then.
    ///
    /// # Errors
    /// Errors of the engine; if the worker ends by itself.
    pub fn commits_until_killed(
        &mut self,
        test: CrashTest,
        enough: u64,
        most: Duration,
    ) -> Result<u64> {
        let _input = self.tell(&Request::Crash(test))?;
        let start = Instant::now();
        let mut told = 0;
        while told < enough && start.elapsed() < most {
            let line = match self.lines.recv_timeout(TICK) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(self.crashed()),
            };
            match serde_json::from_str(&line) {
                Ok(Line::Progress(progress)) => told = progress.done,
                Ok(Line::Failed(failure)) => return Err(failure),
                _ => {
                    return Err(Failure::error(format!("the worker sent no valid count: {line}")));
                }
            }
        }
        self.kill();
        // Lines written before the kill report earlier acknowledgements; the last line may be cut.
        for line in self.lines.iter() {
            if let Ok(Line::Progress(progress)) = serde_json::from_str(&line) {
                told = progress.done;
            }
        }
        Ok(told)
    }

    /// Sends a worker its job, and waits for the answer and its end. Kills the worker if it waits
    /// for that.
    pub fn work(
        &mut self,
        request: &Request,
        limits: &Limits,
        interrupted: &AtomicBool,
        tell: impl FnMut(&Progress),
    ) -> Ended {
        // Kept open, because a worker that waits to be killed ends when its input ends.
        let input = match self.tell(request) {
            Ok(input) => input,
            Err(failure) => return Ended::Failed(failure),
        };
        let ended = self.listen(limits, interrupted, tell);
        match ended {
            Ended::Interrupted => drop(self.kill()),
            Ended::Left(_) => {
                let killed = |status: &ExitStatus| status.signal() == Some(KILL);
                if !self.kill().is_some_and(|status| killed(&status)) {
                    return Ended::Failed(Failure::error("the worker ended before it was killed"));
                }
            }
            _ => {
                drop(input);
                self.wait(EXIT_MAX);
            }
        }
        ended
    }

    fn listen(
        &mut self,
        limits: &Limits,
        interrupted: &AtomicBool,
        mut tell: impl FnMut(&Progress),
    ) -> Ended {
        let start = Instant::now();
        let mut heard = Instant::now();
        let mut last: Option<Progress> = None;
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Ended::Interrupted;
            }
            if start.elapsed() > limits.total {
                let seconds = limits.total.as_secs_f64();
                let phase = in_phase(last);
                let what = format!("the whole row was cut off after {seconds} s. phase={phase}");
                return self.give_up(Failure::capped(what));
            }
            if heard.elapsed() > limits.silence {
                let seconds = limits.silence.as_secs_f64();
                let what = format!("hung for {seconds} s. phase={}", in_phase(last));
                return self.give_up(Failure::error(what));
            }
            let line = match self.lines.recv_timeout(TICK) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ended::Failed(self.crashed()),
            };
            match serde_json::from_str(&line) {
                Ok(Line::Progress(progress)) => {
                    let moves = last.as_ref() != Some(&progress) || progress.total == 0;
                    if moves {
                        heard = Instant::now();
                    }
                    tell(&progress);
                    last = Some(progress);
                }
                Ok(Line::Report(report)) => return Ended::Report(report),
                Ok(Line::Survived(survived)) => return Ended::Survived(survived),
                Ok(Line::Left(left)) => return Ended::Left(left),
                Ok(Line::Failed(failure)) => return Ended::Failed(failure),
                Ok(Line::Hello(_)) | Err(_) => {
                    let what = format!("the worker sent no valid answer: {line}");
                    return self.give_up(Failure::error(what));
                }
            }
        }
    }

    fn give_up(&mut self, why: Failure) -> Ended {
        self.kill();
        Ended::Failed(why)
    }

    /// The failure of a worker that ended without an answer.
    fn crashed(&mut self) -> Failure {
        let how = match self.wait(EXIT_MAX) {
            Some(status) => described(status),
            None => "closed its output".to_owned(),
        };
        let complaints = self.complaints.take().and_then(|complaints| complaints.join().ok());
        let complaint = complaints.unwrap_or_default();
        let complaint = complaint.trim().lines().next_back().unwrap_or("").to_owned();
        let said = if complaint.is_empty() { complaint } else { format!(": {complaint}") };
        Failure::error(format!("the worker {how}{said}"))
    }

    /// Waits for its end; kills it at the time limit.
    fn wait(&mut self, most: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < most {
            match self.process.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Err(_) => break,
            }
        }
        self.kill();
        None
    }

    /// Kills it, and returns its exit status.
    fn kill(&mut self) -> Option<ExitStatus> {
        // A process that has already ended cannot be killed.
        let _ = self.process.kill();
        self.process.wait().ok()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The phase that a worker reported last.
fn in_phase(last: Option<Progress>) -> String {
    last.map_or_else(|| "start".to_owned(), |progress| progress.phase)
}

fn described(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(0)) => "ended without an answer".to_owned(),
        (None, code) => format!("ended with code {}", code.unwrap_or(-1)),
    }
}

/// Reads everything and keeps the end.
fn last_of(mut errors: impl Read) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut piece) {
        kept.extend_from_slice(&piece[..count]);
        let excess = kept.len().saturating_sub(COMPLAINT_BYTES_MAX as usize);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests;
