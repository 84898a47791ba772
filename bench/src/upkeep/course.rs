//! Runs parts as processes of their own, reads their output, and ends those that take too long.

use crate::{
    suite::known_or_nearest,
    upkeep::{
        bar::{Judged, Outcome},
        part::Line,
        parts::{Kind, PARTS, Part},
    },
};
use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Time beyond a part's own limit before it is killed. The part ends its loops by itself, but a
/// single call of the engine may take long.
const GRACE: Duration = Duration::from_secs(10);
/// Interval between two checks for an interrupt.
const TICK: Duration = Duration::from_millis(50);
/// This much of a part's standard error is kept.
const COMPLAINT_BYTES_MAX: u64 = 4096;

/// The request of a run.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program whose parts are run.
    pub program: PathBuf,
    /// Directory of the databases while they are measured.
    pub dir: PathBuf,
    /// Ids of bars, or their part before the slash; all if there are none.
    pub rows: Vec<String>,
}

impl Request {
    /// Runs parts of this program.
    ///
    /// # Errors
    /// If the system does not give the program's path, or a row is unknown.
    pub fn new(dir: PathBuf, rows: Vec<String>) -> Result<Self, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let request = Self { program, dir, rows };
        let ids: Vec<&str> = PARTS.iter().flat_map(|part| part.bars).map(|bar| bar.id).collect();
        for row in &request.rows {
            if !ids.iter().any(|id| is_meant(id, row)) {
                known_or_nearest("row", row, &ids)?;
            }
        }
        Ok(request)
    }

    fn means(&self, id: &str) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| is_meant(id, row))
    }

    /// The parts with a requested bar.
    fn parts(&self) -> Vec<&'static Part> {
        let has_meant = |part: &&Part| part.bars.iter().any(|bar| self.means(bar.id));
        PARTS.iter().filter(has_meant).collect()
    }

    /// The limit of the total time.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        let seconds = |kind: Kind| {
            let parts = self.parts().into_iter().filter(move |part| part.kind == kind);
            parts.map(|part| part.seconds).collect::<Vec<_>>()
        };
        let waiting = seconds(Kind::Waiting).into_iter().max().unwrap_or(0);
        seconds(Kind::Timed).iter().sum::<u64>() + waiting
    }
}

fn is_meant(id: &str, row: &str) -> bool {
    id == row || id.strip_prefix(row).is_some_and(|rest| rest.starts_with('/'))
}

/// Runs the request: timed parts one after another, then waiting parts in parallel. An interrupt
/// returns the results finished by then.
pub fn run(
    request: &Request,
    interrupted: &AtomicBool,
    tell: &(dyn Fn(&str) + Sync),
) -> Vec<Judged> {
    let parts = request.parts();
    let of = |kind| parts.iter().copied().filter(move |part| part.kind == kind);
    let mut done: Vec<(&str, Vec<Judged>)> = Vec::new();
    for part in of(Kind::Timed) {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        done.push((part.id, run_part(part, request, interrupted, tell)));
    }
    if !interrupted.load(Ordering::Relaxed) {
        thread::scope(|scope| {
            let started: Vec<_> = of(Kind::Waiting)
                .map(|part| {
                    (part.id, scope.spawn(move || run_part(part, request, interrupted, tell)))
                })
                .collect();
            let ended = |(id, one): (_, thread::ScopedJoinHandle<'_, Vec<Judged>>)| {
                (id, one.join().unwrap_or_default())
            };
            done.extend(started.into_iter().map(ended));
        });
    }
    let all = done.into_iter().flat_map(|(_, judged)| judged);
    all.filter(|judged| request.means(judged.bar.id)).collect()
}

/// Runs a part in a process and a temporary directory of its own.
fn run_part(
    part: &Part,
    request: &Request,
    interrupted: &AtomicBool,
    tell: &(dyn Fn(&str) + Sync),
) -> Vec<Judged> {
    tell(&format!("{} (up to {} s)", part.id, part.seconds));
    let heard = match Heard::of(part, request, interrupted, tell) {
        Ok(heard) => heard,
        Err(error) => Heard { failure: Some(error.to_string()), ..Heard::default() },
    };
    part.bars.iter().map(|&bar| Judged { bar, outcome: heard.outcome(bar.id) }).collect()
}

/// The output of a part until its end.
#[derive(Debug, Default)]
struct Heard {
    figures: Vec<(String, Outcome)>,
    doing: String,
    failure: Option<String>,
    is_cut_off: bool,
}

impl Heard {
    fn of(
        part: &Part,
        request: &Request,
        interrupted: &AtomicBool,
        tell: &(dyn Fn(&str) + Sync),
    ) -> std::io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("silt-bench-").tempdir_in(&request.dir)?;
        let mut child = start(part, &request.program, dir.path())?;
        let (lines, complaints) = listen(&mut child);
        let most = Duration::from_secs(part.seconds) + GRACE;
        let (start, mut heard, mut is_done) = (Instant::now(), Self::default(), false);
        loop {
            match lines.recv_timeout(TICK).map(|line| serde_json::from_str(&line)) {
                Ok(Ok(Line::Doing(what))) => {
                    tell(&format!("{}: {what}", part.id));
                    heard.doing = what;
                }
                Ok(Ok(Line::Figure { bar, outcome })) => heard.figures.push((bar, outcome)),
                Ok(Ok(Line::Failed(why))) => heard.failure = Some(why),
                Ok(Ok(Line::Done)) => is_done = true,
                Ok(Err(error)) => heard.failure = Some(error.to_string()),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if start.elapsed() > most || interrupted.load(Ordering::Relaxed) {
                heard.is_cut_off = true;
                child.kill()?;
                break;
            }
        }
        let status = child.wait()?;
        if !is_done && !heard.is_cut_off && heard.failure.is_none() {
            let complaint = complaints.join().unwrap_or_default();
            let complaint = complaint.trim().lines().next_back().unwrap_or("").to_owned();
            heard.failure = Some(format!("the process ended early, {status}. {complaint}"));
        }
        Ok(heard)
    }

    /// The result of a bar.
    fn outcome(&self, bar: &str) -> Outcome {
        let told = self.figures.iter().find(|(id, _)| id == bar);
        match (told, &self.failure) {
            (Some((_, outcome)), _) => outcome.clone(),
            (None, Some(failure)) => Outcome::Failed { note: failure.clone() },
            (None, None) if self.is_cut_off => {
                Outcome::CutOff { value: None, note: self.doing.clone() }
            }
            (None, None) => Outcome::Failed { note: "it reported no figure".to_owned() },
        }
    }
}

fn start(part: &Part, program: &Path, dir: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.arg("upkeep-part").arg(part.id).arg("--dir").arg(dir);
    command.arg("--seconds").arg(part.seconds.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// The lines of a part as they come, and its standard error after its end.
fn listen(child: &mut Child) -> (Receiver<String>, thread::JoinHandle<String>) {
    let (send, lines) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
    }
    let errors = child.stderr.take();
    let complaints = thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut errors) = errors {
            // Unreadable output counts as none.
            let _ = errors.by_ref().take(COMPLAINT_BYTES_MAX).read_to_end(&mut text);
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    (lines, complaints)
}

#[cfg(test)]
mod tests;
